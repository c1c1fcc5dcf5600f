// What counts on extensions of one compiler is compiled by the other as well: GCC built this, Clang is in process.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "dsl/jit/compiler.h"
#include "hetsynth/build_paths.h"

namespace hetsynth {
namespace {

std::string text_of(const std::filesystem::path& path) {
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

/// Sources with vectors of several numbers, and code for several kinds of processors.
TEST(BothCompilers, CompileWhatIsWrittenInVectors) {
  const std::filesystem::path root = HETSYNTH_SOURCE_DIR;
  const CompileOptions base{.optimization = 0,
                            .include_directories = {root.string(), (root / "dsl/include").string(),
                                                    std::string(HETSYNTH_BINARY_DIR) + "/generated"}};
  int compiled = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root / "synth")) {
    if (entry.path().extension() != ".cpp") continue;
    const std::string text = text_of(entry.path());
    if (text.find("HETSYNTH_AVX2_TOO") == std::string::npos) continue;
    CompileOptions options = base;
    options.file_name = entry.path().string();
    const CompileResult result = compile_object(text, options);
    EXPECT_TRUE(result.ok) << entry.path() << "\n" << result.text;
    ++compiled;
  }
  EXPECT_GE(compiled, 6) << "message passing, pair tables, joint tables, pruning, conversions, strides";
}

}  // namespace
}  // namespace hetsynth
