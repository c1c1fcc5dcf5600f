// What refuses calls of minimize.
#pragma once
#include <source_location>
#include <string>

#include "dsl/ir/trace.h"

namespace hetsynth {

/// Throws UserError at the call of minimize whose group of parameters cannot be taken.
[[noreturn]] inline void refuse_group(const std::source_location& where, const std::string& message,
                                      const std::string& expected, const std::string& found, const std::string& mend) {
  throw UserError({.where = location(where),
                   .tag = "minimize",
                   .message = message,
                   .expected = expected,
                   .found = found,
                   .mend = mend});
}

}  // namespace hetsynth
