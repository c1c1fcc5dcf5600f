#include "cli/trace_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "dsl/spmd/recomputation.h"

namespace hetsynth::cli {

using Json = nlohmann::ordered_json;

const OutputKind trace_kind{"trace", begins_with("{", {"\"traceEvents\""})};

void TraceEvents::add_process(int number, const std::string& name) {
  const auto say = [&](const char* what, Json about) {
    events_.push_back({{"ph", "M"}, {"name", what}, {"pid", number}, {"args", std::move(about)}});
  };
  say("process_name", {{"name", name}});
  say("process_sort_index", {{"sort_index", number}});
  for (const auto& [row, what] : {std::pair{TraceRow::computing, "computing"},
                                  {TraceRow::communicating, "communicating"},
                                  {TraceRow::turns, "turns"}})
    events_.push_back(
        {{"ph", "M"}, {"name", "thread_name"}, {"pid", number}, {"tid", int(row)}, {"args", {{"name", what}}}});
}

void TraceEvents::add(int number, const TraceSlice& slice) {
  if (slice.end <= slice.start) return;
  events_.push_back({{"ph", "X"},
                     {"name", slice.name},
                     {"cat", slice.category},
                     {"pid", number},
                     {"tid", int(slice.row)},
                     {"ts", slice.start * 1e6},
                     {"dur", (slice.end - slice.start) * 1e6},
                     {"args", slice.about}});
}

std::string TraceEvents::text(Json about) const {
  Json out = {{"displayTimeUnit", "ms"}, {"traceEvents", events_}};
  if (!about.empty()) out["otherData"] = std::move(about);
  return out.dump() + "\n";
}

StepPhases::StepPhases(const Program& reference, const SpmdProgram& program) {
  const std::vector<char> again = made_again(program);
  for (const Instruction& instruction : program.instructions) {
    const Phase phase = reference[program.values[size_t(instruction.result)].node].phase;
    phase_of_.push_back(again[size_t(instruction.result)] ? std::max(phase, Phase::backward) : phase);
  }
}

std::string StepPhases::phase(int instruction) const {
  return std::string(hetsynth::name(phase_of_[size_t(instruction)]));
}

std::string StepPhases::name(int instruction, int64_t turn) const {
  return turn < 0 ? phase(instruction) : fmt::format("{} of turn {}", phase(instruction), turn);
}

std::vector<TraceSlice> turn_slices(std::vector<TraceSlice> computing, double seconds) {
  constexpr double visible = 0.01;
  std::ranges::stable_sort(computing, {}, &TraceSlice::start);
  std::vector<TraceSlice> out;
  for (TraceSlice& slice : computing) {
    if (slice.end <= slice.start) continue;
    if (!out.empty() && out.back().name == slice.name && slice.start - out.back().end < visible * seconds) {
      out.back().end = std::max(out.back().end, slice.end);
      continue;
    }
    slice.row = TraceRow::turns;
    slice.about = Json::object();
    out.push_back(std::move(slice));
  }
  return out;
}

int stage_of(const SpmdProgram& program, int rank) {
  for (const Instruction& instruction : program.instructions)
    for (size_t axis = 0; axis < instruction.splits.size(); ++axis)
      if (instruction.splits[axis].stage >= 0) return program.mesh.coordinate(rank, int(axis));
  return -1;
}

std::string stage_text(const SpmdProgram& program, int rank) {
  const int stage = stage_of(program, rank);
  return stage < 0 ? "" : fmt::format(", stage {}", stage);
}

}  // namespace hetsynth::cli
