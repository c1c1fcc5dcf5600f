// Internal to dsl/frontend: compiling with every local tensor named after the user's variable.
#pragma once
#include <clang/Frontend/FrontendAction.h>

#include <memory>

namespace hetsynth {

/// Generates an object file. On the way, each initialiser of a local variable of type Tensor, each assignment to one
/// and each structured binding is wrapped in hetsynth::named(..., name, file, line, column), in functions, methods,
/// lambdas and instantiated templates. A tensor in a static variable is an error; a call of the DSL whose tensor is
/// dropped is warned about.
std::unique_ptr<clang::FrontendAction> naming_action();

}  // namespace hetsynth
