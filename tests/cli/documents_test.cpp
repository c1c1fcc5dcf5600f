// Documents name only files that exist.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "hetsynth/build_paths.h"

namespace hetsynth::testing {
namespace {

namespace fs = std::filesystem;

TEST(Documents, LinksLeadToFiles) {
  const fs::path source = HETSYNTH_SOURCE_DIR;
  std::vector<fs::path> documents{source / "README.md"};
  for (const auto& entry : fs::directory_iterator(source / "docs"))
    if (entry.path().extension() == ".md") documents.push_back(entry.path());
  const std::regex link(R"(\]\(([^)#]+)[^)]*\))");
  int links = 0;
  for (const fs::path& document : documents) {
    std::stringstream stream;
    stream << std::ifstream(document).rdbuf();
    // Listings are indented or fenced; what looks like a link there is C++.
    const std::string text = std::regex_replace(stream.str(), std::regex(R"((^|\n)    [^\n]*|```[\s\S]*?```)"), "\n");
    for (std::sregex_iterator match(text.begin(), text.end(), link), end; match != end; ++match) {
      const std::string target = (*match)[1];
      if (target.find("://") != std::string::npos) continue;
      EXPECT_TRUE(fs::exists(document.parent_path() / target)) << document << " links to " << target;
      ++links;
    }
  }
  EXPECT_GT(links, 10);
}

}  // namespace
}  // namespace hetsynth::testing
