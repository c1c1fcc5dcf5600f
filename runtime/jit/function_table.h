// Fills a table of function pointers from a library that may be absent, or too old for some of them.
#pragma once
#include <string>
#include <vector>

#include "runtime/jit/shared_library.h"

namespace hetsynth {

class FunctionTable {
 public:
  /// `what`: the library's name in messages. Names, folders and objections as for SharedLibrary::open.
  FunctionTable(const std::string& what, const std::vector<std::string>& names,
                const std::vector<std::string>& folders = {}, const SharedLibrary::Objection& objection = {})
      : library_(SharedLibrary::open(names, folders, objection)) {
    if (!library_) problem_ = "no " + what + ": " + library_.problem();
  }

  /// Looks a function up; the first that is missing makes the table's problem.
  template <class F>
  FunctionTable& find(const char* name, F*& function) {
    if (library_ && !library_.find(name, function) && problem_.empty())
      problem_ = library_.path() + " has no function " + name;
    return *this;
  }

  /// A function that older versions lack; null there, and nothing is wrong.
  template <class F>
  FunctionTable& find_if_any(const char* name, F*& function) {
    if (library_) library_.find(name, function);
    return *this;
  }

  const SharedLibrary& library() const { return library_; }
  /// "" if the library was opened and had all that was looked for.
  const std::string& problem() const { return problem_; }

 private:
  SharedLibrary library_;
  std::string problem_;
};

}  // namespace hetsynth
