// Internal to dsl/jit, dsl/frontend and verify/source: one run of Clang with an action of the caller's choice. The only
// header with Clang's types.
#pragma once
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Frontend/FrontendAction.h>

#include <functional>

#include "dsl/jit/compiler.h"

namespace hetsynth {

/// Parses `source` under `options` and runs the action; `prepare` may adjust the instance before. Fills everything of
/// the result but `output`.
CompileResult run_clang(std::string_view source, const CompileOptions& options, clang::FrontendAction& action,
                        const std::function<void(clang::CompilerInstance&)>& prepare = {});

/// The same with an action that generates code: the object file is in `output`.
CompileResult run_clang_to_object(std::string_view source, const CompileOptions& options,
                                  clang::FrontendAction& action);

}  // namespace hetsynth
