// Clang in process: C++ text to an object file in memory. No compiler is started and nothing is printed. Any number of
// threads may compile at the same time.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "dsl/base/error.h"

namespace hetsynth {

struct MemoryFile {
  std::string path;
  std::string_view text;  ///< must outlive the compilation
};

struct CompileOptions {
  std::string file_name = "generated.cpp";  ///< as messages and debug information name the text
  int optimization = 3;                     ///< -O level
  bool native = true;                       ///< for exactly this host's CPU; otherwise for the architecture's baseline
  bool debug_info = false;                  ///< gdb needs it, and the source on disk
  bool color = false;                       ///< diagnostics with terminal colours
  std::vector<std::string> include_directories = {};
  std::vector<std::string> flags = {};  ///< further arguments of clang++
  std::vector<MemoryFile> files = {};   ///< files that need not exist on disk
  /// Arguments of the compiler proper (cc1) in place of all that follow from the above; empty: none.
  std::vector<std::string> frontend_arguments = {};
  std::string precompiled_header = {};  ///< path, on disk or in `files`; empty: none
};

enum class Severity { note, remark, warning, error };

struct CompileMessage {
  Severity severity = Severity::error;
  SourceLocation where;
  std::string text;
};

struct CompileResult {
  bool ok = false;
  std::string output;                     ///< object file (ELF, position independent); empty unless ok
  std::string text;                       ///< what clang would have printed, carets included
  std::vector<CompileMessage> messages;   ///< the same, structured
  std::vector<std::string> dependencies;  ///< files read, without the text itself
};

/// Compiles one translation unit of C++20. Mistakes in the text are in the result; throws InternalError only for flags
/// clang refuses.
CompileResult compile_object(std::string_view source, const CompileOptions& options);

/// Makes a precompiled header of `source`: the result's output.
CompileResult compile_header(std::string_view source, const CompileOptions& options);

/// Everything about this host and compiler an object depends on: clang's version, target, CPU name and features.
const std::string& compiler_identity();

/// Folder with clang's own headers (stddef.h): $HETSYNTH_CLANG_RESOURCE_DIR, the one found when hetsynth was
/// configured, or the one beside the loaded libclang-cpp. Empty if there is none; code that includes nothing compiles
/// without.
const std::string& clang_resource_directory();

}  // namespace hetsynth
