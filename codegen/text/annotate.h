// Comments of the generated text: which DSL line a statement comes from, what part of a tensor a rank holds, why a
// collective is there.
#pragma once
#include <string>
#include <vector>

#include "codegen/passes/lower.h"

namespace hetsynth::codegen {

/// "name(a, b, c)", broken after commas where a line that begins with `before` other characters would grow too long.
std::string call_text(const std::string& name, const std::vector<std::string>& arguments, size_t before);

/// "gpt.cpp:31  h = gelu".
std::string short_origin_text(const Lowered& lowered, const LocalOp& op);

/// "gpt.cpp:31  h = gelu(a)".
std::string origin_text(const Lowered& lowered, const LocalOp& op);

/// "f32[3..8 of 8, 128, 384]".
std::string part_text(const LocalValue& value);

/// "all_gather h over dp, 1.5 MiB received: the product needs all rows".
std::string collective_text(const Lowered& lowered, const LocalOp& op);

/// Bytes a rank receives in a collective, for people: what the destination holds beyond the own source.
int64_t received_bytes(const Lowered& lowered, const LocalOp& op);

/// "1.5 MiB".
std::string bytes_text(int64_t bytes);

/// A name for a group's kernel: its most telling result.
std::string group_name(const Lowered& lowered, const Group& group);

}  // namespace hetsynth::codegen
