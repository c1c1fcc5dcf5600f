// The message with which a cluster file is refused, for tests of cluster files.
#pragma once
#include <gtest/gtest.h>

#include <string>

#include "dsl/base/error.h"
#include "dsl/cluster/cluster.h"

namespace hetsynth {

/// The message with which parse_cluster refuses the text; empty if it takes it.
inline std::string refusal(const std::string& toml) {
  try {
    parse_cluster(toml, "c.toml");
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::invalid_input);
    return error.what();
  }
  return "";
}

}  // namespace hetsynth
