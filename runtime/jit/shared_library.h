// Libraries opened at run time: the same binary works where they are absent.
#pragma once
#include <functional>
#include <string>
#include <vector>

namespace hetsynth {

/// An open library; stays open for the life of the process, as its code may have threads of its own.
class SharedLibrary {
 public:
  /// Says of an open library why it cannot be used; "" if it can.
  using Objection = std::function<std::string(const SharedLibrary& library)>;
  /// The first that opens and that nothing is objected to; names that come first are preferred, wherever they are: each
  /// name through the system's search path, then in each folder. Never a stub of the CUDA toolkit (a folder called
  /// "stubs"), which would stand in for a driver that is not there. Where there is an objection to all, the first that
  /// opened.
  static SharedLibrary open(const std::vector<std::string>& names, const std::vector<std::string>& folders = {},
                            const Objection& objection = {});

  bool is_open() const { return handle_ != nullptr; }
  explicit operator bool() const { return is_open(); }
  /// File it came from.
  const std::string& path() const { return path_; }
  /// The folder in which it was looked for; empty where the system's search path led to it.
  const std::string& folder() const { return folder_; }
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
  std::string path_, folder_;
  std::string problem_;
};

/// Folders where CUDA's libraries are kept: those of $CUDA_HOME and $CUDA_PATH, then where pip puts NVIDIA's packages
/// (pip_library_folders), then /usr/local/cuda.
std::vector<std::string> cuda_library_folders();

/// nvidia/*/lib of the folders where python3, or the interpreter that $HETSYNTH_PYTHON names, finds packages: there pip
/// puts libraries of CUDA, for itself or with PyTorch. Empty without an interpreter. It is asked once.
std::vector<std::string> pip_library_folders();

/// How a library was come by, in words: "found by the loader", "installed by pip", "in $CUDA_HOME".
std::string origin(const SharedLibrary& library);

}  // namespace hetsynth
