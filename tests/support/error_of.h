// The message of a user's mistake, for tests of messages.
#pragma once
#include <functional>
#include <string>

#include "dsl/base/error.h"

namespace hetsynth {

/// The text of the UserError that `action` throws; "no error" if it throws none.
inline std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace hetsynth
