// The precompiled header follows its headers, survives damage, and is not needed to be kept.
#include "dsl/frontend/precompiled_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dsl/frontend/model.h"
#include "tests/support/temporary_cache.h"

namespace hetsynth {
namespace {
using ::testing::AllOf;
using ::testing::HasSubstr;

/// A hetsynth.h of the test's own, with one number in it, and a model that throws the number.
class Header : public TemporaryCache {
 protected:
  void SetUp() override {
    TemporaryCache::SetUp();
    std::filesystem::create_directories(folder_ / "include" / "hetsynth");
    ::setenv("HETSYNTH_INCLUDE_DIRS", (folder_ / "include").c_str(), 1);
    write(folder_ / "model.cpp", "#include <hetsynth/hetsynth.h>\nvoid model() { throw number; }\n");
    set_number("1", 100);
  }
  void TearDown() override {
    ::unsetenv("HETSYNTH_INCLUDE_DIRS");
    TemporaryCache::TearDown();
  }
  void set_number(const std::string& number, int seconds_ago) {
    auto file = folder_ / "include" / "hetsynth" / "hetsynth.h";
    write(file, "#pragma once\nconstexpr int number = " + number + ";\n");
    std::filesystem::last_write_time(file,
                                     std::filesystem::file_time_type::clock::now() - std::chrono::seconds(seconds_ago));
  }
  std::shared_ptr<LoadedModel> load(bool use_cache = false) {
    return load_model(folder_ / "model.cpp", {.use_cache = use_cache});
  }
  std::string thrown(bool use_cache = false) {
    write(folder_ / "model.cpp",
          "#include <hetsynth/hetsynth.h>\n#include <stdexcept>\n#include <string>\n"
          "void model() { throw std::runtime_error(\"number \" + std::to_string(number)); }\n");
    try {
      load(use_cache)->trace();
    } catch (const UserError& error) {
      return error.diagnostic().message;
    }
    return "";
  }
};

TEST_F(Header, IsMadeOnce) {
  EXPECT_TRUE(load()->times().header_made);
  EXPECT_FALSE(load()->times().header_made);
}

TEST_F(Header, IsMadeAnewWhenAHeaderChanges) {
  for (bool use_cache : {false, true}) {
    set_number("1", 100);
    EXPECT_THAT(thrown(use_cache), HasSubstr("number 1"));
    set_number("2", 50);
    EXPECT_THAT(thrown(use_cache), HasSubstr("number 2"));
    EXPECT_FALSE(load(false)->times().header_made);
  }
}

TEST_F(Header, AHeaderThatIsBeingEditedIsNotKept) {
  set_number("3", -1);
  EXPECT_TRUE(load()->times().header_made);
  EXPECT_TRUE(load()->times().header_made);
}

TEST_F(Header, DamageMakesItAnew) {
  load();
  for (const auto& file : entries("headers")) {
    std::string bytes = read(file);
    write(file, bytes.substr(0, bytes.size() / 2));
    EXPECT_TRUE(load()->times().header_made) << file;
    write(file, bytes.substr(0, bytes.size() - 1) + "?");
    EXPECT_THAT(thrown(), HasSubstr("number 1")) << file;
  }
}

TEST_F(Header, ModelsLoadWithoutACacheTheyMayWrite) {
  write(folder_ / "file", "a file where a folder is wanted");
  ::setenv("HETSYNTH_CACHE_DIR", (folder_ / "file" / "cache").c_str(), 1);
  EXPECT_THAT(thrown(true), HasSubstr("number 1"));
}

TEST_F(Header, MissingHeadersAreToldWithWhatToDo) {
  ::setenv("HETSYNTH_INCLUDE_DIRS", "/no/such/folder", 1);
  try {
    load();
    FAIL() << "a model was loaded without hetsynth's headers";
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::failure);
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("hetsynth's own header does not compile"),
                      HasSubstr("'hetsynth/hetsynth.h' file not found"), HasSubstr("HETSYNTH_INCLUDE_DIRS")));
  }
}

}  // namespace
}  // namespace hetsynth
