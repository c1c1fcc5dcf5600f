// A folder of files for one test, removed at its end.
#pragma once
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

namespace hetsynth::testing {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "hetsynth-test-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
    root_ = name;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(root_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string path(const std::string& name = "") const {
    return name.empty() ? root_.string() : (root_ / name).string();
  }
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name, std::ios::binary | std::ios::trunc) << text;
  }
  std::string read(const std::string& name) const {
    std::ostringstream out;
    out << std::ifstream(root_ / name, std::ios::binary).rdbuf();
    return out.str();
  }
  void link(const std::string& target, const std::string& name) const {
    std::filesystem::create_symlink(root_ / target, root_ / name);
  }

 private:
  std::filesystem::path root_;
};

}  // namespace hetsynth::testing
