// Source text to running code, through the disk cache: what executes generated CPU programs.
#pragma once
#include "dsl/jit/compiler.h"
#include "dsl/jit/native_module.h"

namespace hetsynth {

/// Machine code of one translation unit.
struct CompiledCode {
  std::string object;  ///< ELF object file
  bool from_cache = false;
};

/// Object code of generated text, from the cache if this text was compiled with these options on this kind of CPU
/// before. The text includes nothing from disk (includes are not watched for changes). Throws InternalError with
/// clang's messages if it does not compile, after writing the text to the cache directory's failed/ folder: generated
/// text always compiles.
CompiledCode compile_cached(std::string_view source, const CompileOptions& options = {});

/// compile_cached, then linked into this process: `load_native(text).function<int(HetsynthContext*)>("hetsynth_step")`.
NativeModule load_native(std::string_view source, const CompileOptions& options = {},
                         const std::map<std::string, void*>& symbols = {});

}  // namespace hetsynth
