// hetsynth.h and the standard headers that models use, parsed once per machine.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "dsl/jit/compiler.h"

namespace hetsynth {

/// The precompiled header for one set of flags, as the cache holds it.
struct PrecompiledHeader {
  std::string identity = {};               ///< changes with flags, compiler and every header inside
  std::vector<std::string> contents = {};  ///< files inside
  std::string bytes = {};                  ///< empty until `use_header`, unless it was just made
  bool made = false;                       ///< not found in the cache, or found outdated
};

/// Finds the header, and makes it if it is absent or any file inside has changed. `options` are those of the
/// compilations that will use it. Throws UserError (ExitCode::failure) if hetsynth's, Clang's or the C++ library's
/// headers are missing or do not compile.
PrecompiledHeader precompiled_header(const CompileOptions& options);

/// Makes the compilation start from the header; `header` must outlive it. Loads `bytes`, or makes the header again if
/// the cache lost it.
void use_header(PrecompiledHeader& header, CompileOptions& options);

}  // namespace hetsynth
