#include "synth/planner/no_pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "synth/schedule/memory_floor.h"
#include "synth/support/parameters.h"

namespace hetsynth {
namespace {

/// In place of those that were asked for, more of them first: each has fewer samples. 0: none.
int64_t turns_that_fit(const Program& whole, const Cluster& cluster, PipelineOptions options) {
  const int64_t asked = *options.turns;
  std::vector<int64_t> others = possible_turns(whole);
  std::ranges::stable_partition(others, [&](int64_t turns) { return turns > asked; });
  for (const int64_t turns : others) {
    if (turns == asked || turns > synth::most_pipelined_turns || options.stop()) continue;
    options.turns = turns;
    std::vector<TurnTrial> ignored;
    if (best_pipeline(whole, cluster, options, &ignored)) return turns;
  }
  return 0;
}

UserError does_not_fit(const UnfitPipeline& unfit, int stages, int64_t other_turns) {
  const auto bytes = [](int64_t count) { return synth::bytes_text(double(count)); };
  std::string mend = "take another number of stages, or leave it to the planner";
  if (other_turns > 0) mend = fmt::format("take {0} turns (--turns {0}), in which they fit, or {1}", other_turns, mend);
  return UserError(
      {.tag = "stages",
       .message = fmt::format("no pipeline of {} stages fits into memory", stages),
       .expected = fmt::format("at most {}, which a plan may fill of device {}", bytes(unfit.limit), unfit.device),
       .found = fmt::format("{} for stage {} in {} turns, of which it keeps one at a time: {} too much{}",
                            bytes(unfit.bytes), unfit.stage, unfit.turns, bytes(unfit.bytes - unfit.limit),
                            other_turns == 0 ? "; no other number of turns does" : ""),
       .mend = std::move(mend)},
      ExitCode::infeasible);
}

UserError in_micro_batches(int stages, const Node& input) {
  return UserError(
      {.tag = "stages",
       .message = fmt::format("{} stages compute at the same time in different turns of one batch", stages),
       .expected = "a step that planning can take in turns",
       .found = fmt::format("micro-batches of {} samples (--accumulate)", sample_count(input)),
       .mend = fmt::format("leave --accumulate out, and take the samples of all as one batch (--batch {}): stages get "
                           "it in turns, which is the same step",
                           input.micro_batch.samples_per_step)},
      ExitCode::infeasible);
}

}  // namespace

UserError with_refusal(const UserError& error, const Program& whole, const NoTurns& refusal) {
  const Node& node = whole[refusal.node];
  Diagnostic diagnostic = error.diagnostic();
  diagnostic.notes.push_back(
      {node.where, fmt::format("the step cannot be taken in turns: {} {}", node.name, refusal.why), ""});
  return UserError(std::move(diagnostic), error.code());
}

UserError why_no_pipeline(const Program& whole, const Cluster& cluster, const PipelineOptions& options) {
  const int stages = *options.stages;
  for (const Node& node : whole.nodes)
    if (node.micro_batch.samples_per_step > 0) return in_micro_batches(stages, node);
  const size_t devices = cluster.devices.size();
  if (const std::optional<UnfitPipeline> unfit = nearest_to_fitting(whole, cluster, options))
    return does_not_fit(*unfit, stages, options.turns ? turns_that_fit(whole, cluster, options) : 0);
  Diagnostic diagnostic{.tag = "stages",
                        .message = fmt::format("no pipeline of {} stages was found", stages),
                        .mend = "take another number of stages or of turns, or leave them to the planner"};
  if (size_t(stages) > devices) diagnostic.expected = fmt::format("at most {}, one for each device", devices);
  const std::vector<int64_t> possible = possible_turns(whole);
  if (possible.empty())
    diagnostic.found = "a batch that cannot be taken in turns, which stages need to compute at the same time";
  else if (const Turns taken = take_turns(whole, {possible.front()}); !taken.program)
    return with_refusal(UserError(std::move(diagnostic), ExitCode::infeasible), whole, taken.refusal);
  return UserError(std::move(diagnostic), ExitCode::infeasible);
}

}  // namespace hetsynth
