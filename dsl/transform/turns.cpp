#include "dsl/transform/turns.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <numeric>
#include <utility>

#include "dsl/base/error.h"
#include "dsl/transform/turn_placement.h"
#include "dsl/transform/turn_program.h"

namespace hetsynth {
namespace {

/// The first input whose samples the turns do not divide.
const Node* undivided_input(const Program& whole, int64_t turns) {
  for (const Node& node : whole.nodes)
    if (node.kind == NodeKind::input && !node.type.shape.empty() && node.type.shape[0] % turns != 0) return &node;
  return nullptr;
}

}  // namespace

std::string text(const TurnCount& count) {
  return count.last_apart ? fmt::format("{}+1", count.turns - 1) : fmt::format("{}", count.turns);
}

std::optional<TurnCount> turn_count(std::string_view text) {
  constexpr int64_t most = int64_t{1} << 20;
  TurnCount out;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out.turns);
  const std::string_view rest(end, size_t(text.data() + text.size() - end));
  out.last_apart = rest == "+1";
  if (error != std::errc() || (!rest.empty() && !out.last_apart) || out.turns < 1 || out.turns > most)
    return std::nullopt;
  out.turns += out.last_apart ? 1 : 0;
  return out;
}

Turns take_turns(const Program& whole, TurnCount count) {
  const int64_t turns = count.turns;
  HETSYNTH_CHECK(turns > 1, "a step of one turn is the step");
  if (const Node* input = undivided_input(whole, turns))
    return {.refusal = {input->id,
                        fmt::format("has {} samples, which {} turns do not divide", input->type.shape[0], turns)}};
  try {
    return {.program = program_in_turns(whole, place_in_turns(whole, turns), count)};
  } catch (const TurnsRefused& refused) {
    return {.refusal = refused.reason};
  }
}

std::vector<int64_t> possible_turns(const Program& whole) {
  int64_t common = 0;
  for (const Node& node : whole.nodes)
    if (node.kind == NodeKind::input && !node.type.shape.empty()) common = std::gcd(common, node.type.shape[0]);
  std::vector<int64_t> out;
  for (int64_t turns = 2; turns <= common; ++turns)
    if (common % turns == 0) out.push_back(turns);
  return out;
}

Program in_turns(const Program& whole, TurnCount count) {
  const int64_t turns = count.turns;
  Turns taken = take_turns(whole, count);
  if (taken.program) return std::move(*taken.program);
  const Node& node = whole[taken.refusal.node];
  const std::vector<int64_t> possible = possible_turns(whole);
  const bool divides = undivided_input(whole, turns) == nullptr;
  throw UserError(
      {.where = node.where,
       .tag = "turns",
       .message = fmt::format("the step cannot be taken in {} turns: {} {}", turns, node.name, taken.refusal.why),
       .expected = divides            ? "a model whose samples depend on each other through sums alone"
                   : possible.empty() ? "a batch that can be cut"
                                      : fmt::format("one of {} turns", fmt::join(possible, ", ")),
       .mend = divides ? "leave --turns out" : "take another number of turns, or another batch"},
      ExitCode::usage);
}

}  // namespace hetsynth
