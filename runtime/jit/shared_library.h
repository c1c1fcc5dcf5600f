// Libraries opened at run time: the same binary works where they are absent.
#pragma once
#include <string>
#include <vector>

namespace hetsynth {

/// An open library; stays open for the life of the process, as its code may have threads of its own.
class SharedLibrary {
 public:
  /// The first that opens: each name through the system's search path, then each name in each folder. Never a stub of
  /// the CUDA toolkit (a folder called "stubs"), which would stand in for a driver that is not there.
  static SharedLibrary open(const std::vector<std::string>& names, const std::vector<std::string>& folders = {});

  bool is_open() const { return handle_ != nullptr; }
  explicit operator bool() const { return is_open(); }
  /// File it came from.
  const std::string& path() const { return path_; }
  /// Why it could not be opened: the loader's words for the first name.
  const std::string& problem() const { return problem_; }
  /// nullptr if the library has no such symbol.
  void* symbol(const char* name) const;
  template <class F>
  bool find(const char* name, F*& function) const {
    function = reinterpret_cast<F*>(symbol(name));
    return function != nullptr;
  }

 private:
  void* handle_ = nullptr;
  std::string path_;
  std::string problem_;
};

/// Folders where a CUDA toolkit keeps libraries: $CUDA_HOME and $CUDA_PATH, then /usr/local/cuda.
std::vector<std::string> cuda_library_folders();

}  // namespace hetsynth
