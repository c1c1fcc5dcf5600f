// Listings in the documents are the files they claim to be, and the operator table names every operator.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "dsl/ir/operator.h"
#include "hetsynth/build_paths.h"

namespace hetsynth {
namespace {

std::string file_text(const std::string& path) {
  std::ifstream in(std::string(HETSYNTH_SOURCE_DIR) + "/" + path);
  std::stringstream out;
  out << in.rdbuf();
  return out.str();
}

TEST(Documents, ListingsAreTheFiles) {
  for (const auto& [document, listing] :
       std::vector<std::pair<std::string, std::string>>{{"docs/dsl.md", "examples/mlp.cpp"},
                                                        {"docs/operators.md", "dsl/ops/sigmoid.h"},
                                                        {"docs/operators.md", "dsl/ops/sigmoid.cpp"}}) {
    std::string text = file_text(listing);
    ASSERT_FALSE(text.empty()) << listing;
    EXPECT_NE(file_text(document).find("```cpp\n" + text + "```"), std::string::npos)
        << listing << " differs in " << document;
  }
}

TEST(Documents, EveryOperatorIsInTheTable) {
  std::string text = file_text("docs/dsl.md");
  for (const OperatorInfo& info : operator_list())
    EXPECT_TRUE(text.find("`" + info.name + "`") != std::string::npos ||
                text.find("`" + info.name + "(") != std::string::npos)
        << info.name;
}

TEST(Documents, SpacesAreAsShown) {
  for (const OperatorInfo& info : operator_list()) {
    if (info.name != "slice" && info.name != "conv2d") continue;
    const OperatorSample& sample = info.samples[0];
    Space space = sample.op->space(sample.inputs, sample.op->infer(sample.inputs));
    EXPECT_THAT(file_text("docs/operators.md"), ::testing::HasSubstr(text(space)));
  }
}

}  // namespace
}  // namespace hetsynth
