// A room is a folder whose files may include files of rooms before it in the list below, and of itself; nothing else
// keeps a stage from growing into the next. docs/architecture.md draws the rooms.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "hetsynth/build_paths.h"

namespace hetsynth {
namespace {

namespace fs = std::filesystem;
using ::testing::IsEmpty;

/// Rooms from the lowest to the highest. Files directly in a listed folder belong to it, those in its folders do not.
const std::vector<std::string>& rooms() {
  static const std::vector<std::string> list = {
      "dsl/base",
      "dsl/ir",
      "dsl/ops",
      "dsl/model",
      "dsl/transform",
      "dsl/cluster",
      "dsl/spmd",
      "dsl/jit",
      "dsl/frontend",
      "synth/support",
      "synth/wcsp",
      "synth/mesh",
      "synth/space",
      "synth/model",
      "synth/schedule",
      "synth/network",
      "synth/shares",
      "synth/bounds",
      "synth/baselines",
      "synth/baselines/peers",
      "synth/memory",
      "synth/alternation",
      "synth/stages",
      "synth/stages/peers",
      "synth/planner",
      "verify/solver",
      "verify/rules",
      "verify/refute",
      "verify",
      "verify/source/text",
      "verify/source/meaning",
      "verify/source/execute",
      "verify/source/threads",
      "verify/source/step",
      "verify/source/cpu",
      "verify/source/cuda",
      "verify/source",
      "codegen/interface",
      "codegen/passes",
      "codegen/text",
      "codegen/cuda/plan",
      "codegen/cuda/kernels",
      "codegen/cpu",
      "codegen/cuda/attention",
      "codegen/cuda/transfers",
      "codegen/cuda/host",
      "codegen",
      "runtime/unicode",
      "runtime/tokenizers",
      "runtime/token_files",
      "runtime/rank",
      "runtime/balance",
      "runtime/collectives",
      "runtime/abi",
      "runtime/data_files",
      "runtime/data",
      "runtime/jit",
      "runtime/processes",
      "runtime/cuda",
      "runtime",
      "runtime/training",
      "runtime/weights",
      "pipeline",
      "api",
      "cli",
  };
  return list;
}

/// What may include what among the top folders, beside the order of the list: synthesis, proof and generation know
/// nothing of each other.
const std::map<std::string, std::set<std::string>>& stages() {
  static const std::map<std::string, std::set<std::string>> list = {
      {"dsl", {"dsl"}},
      {"synth", {"dsl", "synth"}},
      {"verify", {"dsl", "verify"}},
      {"codegen", {"dsl", "codegen"}},
      {"runtime", {"dsl", "verify", "codegen", "runtime"}},
      {"pipeline", {"dsl", "synth", "verify", "codegen", "runtime", "pipeline"}},
      {"api", {"dsl", "synth", "verify", "codegen", "runtime", "pipeline", "api"}},
      {"cli", {"dsl", "synth", "verify", "codegen", "runtime", "pipeline", "cli"}},
  };
  return list;
}

struct Included {
  std::string by, file;
  int line;
};

bool is_source(const fs::path& path) { return path.extension() == ".h" || path.extension() == ".cpp"; }

/// Operators and what several of them are made of lean on each other, and are one room.
std::string folder_of(const std::string& file) {
  const std::string folder = fs::path(file).parent_path().string();
  return folder == "dsl/ops/support" ? "dsl/ops" : folder;
}

std::string stage_of(const std::string& file) { return file.substr(0, file.find('/')); }

std::optional<size_t> room_of(const std::string& file) {
  for (size_t i = 0; i < rooms().size(); ++i)
    if (rooms()[i] == folder_of(file)) return i;
  return {};
}

/// Names of source files from the repository's root. dsl/include and api/include are what models and other programs
/// include, not rooms.
std::vector<std::string> source_files() {
  std::vector<std::string> files;
  for (const auto& [stage, _] : stages())
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(HETSYNTH_SOURCE_DIR) / stage)) {
      const std::string name = fs::relative(entry.path(), HETSYNTH_SOURCE_DIR).string();
      if (entry.is_regular_file() && is_source(entry.path()) && !name.starts_with("dsl/include/") &&
          !name.starts_with("api/include/"))
        files.push_back(name);
    }
  return files;
}

std::vector<Included> includes_of(const std::string& file, std::istream& text) {
  std::vector<Included> found;
  std::string line;
  for (int number = 1; std::getline(text, line); ++number) {
    const std::string start = "#include \"";
    if (!line.starts_with(start)) continue;
    const std::string name = line.substr(start.size(), line.find('"', start.size()) - start.size());
    if (stages().count(stage_of(name))) found.push_back({file, name, number});
  }
  return found;
}

/// What is wrong with an include; empty if nothing is.
std::string flaw_of(const Included& include) {
  const auto by = room_of(include.by), of = room_of(include.file);
  if (!by || !of) return {};
  if (!stages().at(stage_of(include.by)).count(stage_of(include.file)))
    return fmt::format("{}:{} includes {}: {} knows nothing of {}", include.by, include.line, include.file,
                       stage_of(include.by), stage_of(include.file));
  if (*of > *by)
    return fmt::format("{}:{} includes {}: {} stands above {}", include.by, include.line, include.file, rooms()[*of],
                       rooms()[*by]);
  return {};
}

TEST(Rooms, EveryFileIsInARoom) {
  std::vector<std::string> outside;
  for (const std::string& file : source_files())
    if (!room_of(file)) outside.push_back(file);
  EXPECT_THAT(outside, IsEmpty());
}

TEST(Rooms, IncludesPointDownwards) {
  std::vector<std::string> flaws;
  size_t looked_at = 0;
  for (const std::string& file : source_files()) {
    std::ifstream text(fs::path(HETSYNTH_SOURCE_DIR) / file);
    for (const Included& include : includes_of(file, text)) {
      ++looked_at;
      if (std::string flaw = flaw_of(include); !flaw.empty()) flaws.push_back(flaw);
    }
  }
  EXPECT_GT(looked_at, 1000u) << "includes are no longer found";
  EXPECT_THAT(flaws, IsEmpty());
}

TEST(Rooms, AnIncludeThatPointsUpwardsIsFound) {
  std::istringstream text("#include <vector>\n#include \"synth/planner/synthesize.h\"\n");
  const std::vector<Included> includes = includes_of("synth/wcsp/network.h", text);
  ASSERT_EQ(includes.size(), 1u);
  EXPECT_EQ(flaw_of(includes[0]),
            "synth/wcsp/network.h:2 includes synth/planner/synthesize.h: synth/planner stands above synth/wcsp");
  EXPECT_EQ(flaw_of({"verify/verify.cpp", "synth/space/rules.h", 7}),
            "verify/verify.cpp:7 includes synth/space/rules.h: verify knows nothing of synth");
}

/// Files that a room may hold before it is several rooms. Operators and commands are lists: each has files of its own.
constexpr size_t most_files = 32;

TEST(Rooms, NoRoomIsCrowded) {
  std::map<std::string, size_t> files;
  for (const std::string& file : source_files()) ++files[folder_of(file)];
  for (const auto& [folder, count] : files) {
    const bool is_list = folder == "dsl/ops" || folder == "cli";
    EXPECT_LE(count, is_list ? count : most_files) << folder;
  }
}

/// The files that git keeps; none where the source is no checkout of it.
std::vector<std::string> kept_files() {
  std::string names;
  if (FILE* list = ::popen("git -C '" HETSYNTH_SOURCE_DIR "' ls-files -z 2>/dev/null", "r")) {
    for (int letter = 0; (letter = std::fgetc(list)) != EOF;) names += char(letter);
    ::pclose(list);
  }
  std::vector<std::string> out;
  std::istringstream all(names);
  for (std::string name; std::getline(all, name, '\0');) out.push_back(name);
  return out;
}

/// What is downloaded or built is made again, and would stay in everybody's clone for good.
TEST(Repository, HoldsTextsAlone) {
  const std::vector<std::string> files = kept_files();
  if (files.empty()) GTEST_SKIP() << "this is no checkout of git";
  std::vector<std::string> others;
  for (const std::string& file : files) {
    std::ifstream stream(fs::path(HETSYNTH_SOURCE_DIR) / file, std::ios::binary);
    std::string start(8192, ' ');
    stream.read(start.data(), std::streamsize(start.size()));
    if (start.find('\0') != std::string::npos) others.push_back(file);
  }
  EXPECT_THAT(others, IsEmpty());
}

}  // namespace
}  // namespace hetsynth
