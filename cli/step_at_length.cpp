#include "cli/step_at_length.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "cli/timeline.h"
#include "pipeline/report.h"

namespace hetsynth::cli {

StepAtLength::StepAtLength(const Plan& plan, const Program& reference, const Cluster& cluster,
                           const std::vector<InstructionPrice>& prices)
    : plan_(plan), reference_(reference), prices_(prices), phases_(reference, plan.program) {
  const Unfolding unfolding = unfolding_of(reference, plan.program, cluster);
  if (!plan.program.schedules.empty()) turns_ = overlap_turns(reference, plan.program, prices, unfolding);
  timeline_ = turns_ ? turns_->simulate() : simulate(plan.program, prices, unfolding);
}

std::vector<HiddenPart> StepAtLength::hidden() const {
  if (!turns_) return hidden_parts(prices_, timeline_);
  std::vector<HiddenPart> out(prices_.size());
  const std::vector<HiddenPart> by_turn = hidden_parts(turns_->prices, timeline_);
  for (size_t i = 0; i < by_turn.size(); ++i) {
    HiddenPart& all = out[size_t(turns_->flat.instruction_of[i])];
    all.seconds += by_turn[i].seconds;
    if (by_turn[i].beside >= 0) all.beside = turns_->flat.instruction_of[size_t(by_turn[i].beside)];
  }
  return out;
}

std::string StepAtLength::page() const {
  std::vector<TimelineRow> rows;
  for (int rank = 0; rank < int(plan_.devices.size()); ++rank)
    rows.push_back({plan_.devices[size_t(rank)].name, stage_of(plan_.program, rank),
                    timeline_.devices[size_t(rank)].idle_seconds, slices(rank)});
  return timeline_page(fmt::format("{} on {}", plan_.model_file, plan_.cluster_name), timeline_.seconds, rows);
}

std::vector<TraceSlice> StepAtLength::slices(int rank) const {
  const SpmdProgram& program = turns_ ? turns_->flat.program : plan_.program;
  const Program& reference = turns_ ? turns_->flat.reference : reference_;
  const std::vector<InstructionPrice>& prices = turns_ ? turns_->prices : prices_;
  std::vector<TraceSlice> out, computing;
  for (size_t i = 0; i < prices.size(); ++i) {
    const TimelineSpan& span = timeline_.spans[i][size_t(rank)];
    const Instruction& instruction = program.instructions[i];
    const Value& result = program.values[size_t(instruction.result)];
    const Node& node = reference[result.node];
    const bool communicates = prices[i].communicates();
    out.push_back({communicates ? TraceRow::communicating : TraceRow::computing,
                   result.name,
                   std::string(communicates ? name(instruction.opcode) : name(node.phase)),
                   span.start,
                   span.end,
                   {{"where", node.where.text()}}});
    if (communicates) continue;
    const int of = turns_ ? turns_->flat.instruction_of[i] : int(i);
    computing.push_back(out.back());
    computing.back().name = phases_.name(of, turns_ ? turns_->flat.turn_of[i] : -1);
    computing.back().category = phases_.phase(of);
  }
  std::ranges::move(turn_slices(std::move(computing), timeline_.seconds), std::back_inserter(out));
  return out;
}

std::string StepAtLength::rank_text(int rank) const {
  return fmt::format("rank {} planned: {}{}, bubble {:.1f} %", rank, plan_.devices[size_t(rank)].name,
                     stage_text(plan_.program, rank),
                     percent(timeline_.devices[size_t(rank)].idle_seconds, timeline_.seconds));
}

std::string StepAtLength::trace() const {
  TraceEvents events;
  for (int rank = 0; rank < int(plan_.devices.size()); ++rank) {
    events.add_process(rank, rank_text(rank));
    for (const TraceSlice& slice : slices(rank)) events.add(rank, slice);
  }
  return events.text();
}

}  // namespace hetsynth::cli
