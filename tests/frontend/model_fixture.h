// A model file in a folder of its own, and the stand-in functions it may call (stand_ins.cpp).
#pragma once
#include <algorithm>

#include "dsl/frontend/model.h"
#include "hetsynth/build_paths.h"
#include "tests/support/temporary_cache.h"

namespace hetsynth {

class ModelTest : public ::testing::Test {
 protected:
  // One cache for all tests: the precompiled header is made once.
  static void SetUpTestSuite() { ::setenv("HETSYNTH_CACHE_DIR", cache().c_str(), 1); }
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "hetsynth-test-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    previous_ = std::filesystem::current_path();
    std::filesystem::current_path(folder_);  // messages then say "model.cpp"
  }
  void TearDown() override {
    std::filesystem::current_path(previous_);
    std::filesystem::remove_all(folder_);
  }

  static std::string cache() { return std::string(HETSYNTH_BINARY_DIR) + "/test-cache/frontend"; }

  static void write(const std::string& name, const std::string& text) {
    std::ofstream(name, std::ios::binary | std::ios::trunc) << text;
  }

  /// Writes model.cpp: `text` comes after two lines of includes and declarations, so its first line is line 3.
  static std::string write_model(const std::string& text) {
    write("model.cpp", std::string(prelude) + "\n" + text);
    return "model.cpp";
  }

  static std::shared_ptr<LoadedModel> load(const std::string& text) { return load_model(write_model(text)); }

  /// The message of the UserError that loading or tracing throws; "" if none.
  static std::string message_of(const std::string& text, const std::map<std::string, std::string>& settings = {},
                                ExitCode code = ExitCode::invalid_input) {
    try {
      load(text)->trace(settings);
    } catch (const UserError& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      return error.what();
    }
    return "";
  }

  /// "name@line:column" of every node, in order.
  static std::vector<std::string> names_of(const std::string& text) {
    auto model = load(text);
    auto trace = model->trace();
    std::vector<std::string> names;
    for (const Node& node : trace->program.nodes)
      names.push_back(node.name + "@" + std::to_string(node.where.line) + ":" + std::to_string(node.where.column));
    return names;
  }

  static constexpr const char* prelude =
      "#include <hetsynth/hetsynth.h>\nusing namespace hetsynth; namespace hetsynth { Tensor leaf(const Dims&, "
      "std::source_location = "
      "std::source_location::current()); Tensor product(Operand, Operand, std::source_location = "
      "std::source_location::current()); "
      "Tensor operator%(Operand, Operand); int64_t test_option(const char*, int64_t); void internal_fault(); }";
  static constexpr int prelude_lines = 2;

  std::filesystem::path folder_;
  std::filesystem::path previous_;
};

}  // namespace hetsynth
