// Prints attention as a C++ function: a block of scores at a time, between matrix products.
#pragma once
#include <string>
#include <vector>

#include "codegen/text/kernel.h"

namespace hetsynth::codegen {

/// What an attention function is called with.
struct AttentionCall {
  std::vector<Parameter> parameters;
  bool uses_step = false, uses_seed = false, uses_turn = false;
};

AttentionCall attention_call(const Lowered& lowered, const Group& group);

struct AttentionNames {
  std::string function;
  std::vector<std::string> parameters, dims, members;
};

/// The user's names, and names by number: equal functions print equally.
AttentionNames user_names(const Lowered& lowered, const Group& group, const AttentionCall& call, std::string function);
AttentionNames numbered_names(const Group& group, const AttentionCall& call);

std::string attention_text(const Lowered& lowered, const Group& group, const AttentionCall& call,
                           const AttentionNames& names);

}  // namespace hetsynth::codegen
