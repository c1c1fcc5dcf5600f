// What a person reads of an error.
#pragma once
#include <exception>
#include <string>

#include "dsl/base/error.h"

namespace hetsynth {

/// The message, and the exit code that goes with it.
struct Failure {
  std::string text;
  ExitCode code = ExitCode::failure;
};
Failure failure_of(const std::exception& error);

}  // namespace hetsynth
