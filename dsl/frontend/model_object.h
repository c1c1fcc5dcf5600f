// A model file's object code: from the cache, or compiled with names.
#pragma once
#include <string>

#include "dsl/frontend/model.h"

namespace hetsynth {

struct ModelObject {
  std::string code;      ///< ELF object file
  std::string warnings;  ///< as the compiler prints them
};

/// Throws UserError if the file cannot be read or does not compile. Fills the header and compile parts of `times`.
ModelObject compile_model(const std::string& path, const LoadOptions& options, LoadTimes& times);

}  // namespace hetsynth
