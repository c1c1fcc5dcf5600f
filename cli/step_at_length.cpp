#include "cli/step_at_length.h"

#include <nlohmann/json.hpp>

#include "cli/timeline.h"
#include "pipeline/report.h"

namespace hetsynth::cli {

using Json = nlohmann::ordered_json;

StepAtLength::StepAtLength(const Plan& plan, const Program& reference, const Cluster& cluster,
                           const std::vector<InstructionPrice>& prices)
    : plan_(plan), reference_(reference), prices_(prices) {
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
  if (!turns_) return timeline_page(plan_, reference_, prices_, timeline_);
  Plan flat = plan_;
  flat.program = turns_->flat.program;
  return timeline_page(flat, turns_->flat.reference, turns_->prices, timeline_);
}

std::string StepAtLength::trace() const {
  const SpmdProgram& program = turns_ ? turns_->flat.program : plan_.program;
  const Program& reference = turns_ ? turns_->flat.reference : reference_;
  const std::vector<InstructionPrice>& prices = turns_ ? turns_->prices : prices_;
  Json events = Json::array();
  for (size_t rank = 0; rank < plan_.devices.size(); ++rank) {
    events.push_back(
        {{"ph", "M"}, {"name", "process_name"}, {"pid", rank}, {"args", {{"name", plan_.devices[rank].name}}}});
    for (const auto& [thread, what] : {std::pair{0, "computing"}, {1, "communicating"}})
      events.push_back(
          {{"ph", "M"}, {"name", "thread_name"}, {"pid", rank}, {"tid", thread}, {"args", {{"name", what}}}});
    for (size_t i = 0; i < prices.size(); ++i) {
      const TimelineSpan& span = timeline_.spans[i][rank];
      if (span.end <= span.start) continue;
      const Instruction& instruction = program.instructions[i];
      const Value& result = program.values[size_t(instruction.result)];
      const Node& node = reference[result.node];
      events.push_back(
          {{"ph", "X"},
           {"name", result.name},
           {"cat", prices[i].communicates() ? std::string(name(instruction.opcode)) : std::string(name(node.phase))},
           {"pid", rank},
           {"tid", prices[i].communicates() ? 1 : 0},
           {"ts", span.start * 1e6},
           {"dur", (span.end - span.start) * 1e6},
           {"args", {{"where", node.where.text()}}}});
    }
  }
  return Json{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}}.dump() + "\n";
}

}  // namespace hetsynth::cli
