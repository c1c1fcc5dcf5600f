#include "cli/measured_trace.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "cli/step_at_length.h"
#include "cli/trace_events.h"
#include "dsl/spmd/unroll.h"
#include "pipeline/report.h"

namespace hetsynth::cli {
namespace {

using Json = nlohmann::ordered_json;
using Part = MarkedWork::Part;

/// Whether an exchange was carried out together with the one that was noted before it: then both have the same times.
/// `before`: null if there was none.
bool are_one(const TraceSpan* before, const TraceSpan& span) {
  return before && before->start == span.start && before->end == span.end;
}

/// Bars of one rank, from its trace.
class RankSlices {
 public:
  RankSlices(const Compilation& c, int rank, const RankTrace& trace)
      : c_(c), marks_(c.programs[size_t(rank)].marks), trace_(trace), phases_(c.reference, c.plan.program) {}

  std::vector<TraceSlice> run(int64_t step) {
    out_.push_back({TraceRow::turns, fmt::format("step {}", step), "step", trace_.start, trace_.end, Json::object()});
    std::vector<TraceSlice> computing;
    for (const TraceSpan& span : trace_.spans) {
      add(span);
      const std::vector<Part> parts = parts_of(span.place);
      if (!computes(span) || parts.empty()) continue;
      const Part& last = parts.back();
      computing.push_back(
          {TraceRow::turns, phases_.name(last.instruction, last.turn), phase_of(last), span.start, span.end, {}});
    }
    std::ranges::move(turn_slices(std::move(computing), trace_.end - trace_.start), std::back_inserter(out_));
    return std::move(out_);
  }

  /// Instructions and turns that stand in some bar.
  const std::set<std::pair<int, int64_t>>& shown() const { return shown_; }

 private:
  bool computes(const TraceSpan& span) const {
    return span.kind == TraceSpan::Kind::marked && marks_[size_t(span.place.work)].kind == MarkedWork::Kind::computes;
  }

  std::vector<Part> parts_of(StepPlace place) const {
    if (place.work < 0) return {};
    const MarkedWork& work = marks_[size_t(place.work)];
    std::vector<Part> parts = work.parts;
    for (Part& part : parts)
      if (work.told_by_mark) part.turn = place.turn;
    return parts;
  }

  const Node& node_of(const Part& part) const {
    const SpmdProgram& program = c_.plan.program;
    return c_.reference[program.values[size_t(program.instructions[size_t(part.instruction)].result)].node];
  }
  std::string phase_of(const Part& part) const { return phases_.phase(part.instruction); }
  std::string name_of(const Part& part) const {
    const SpmdProgram& program = c_.plan.program;
    const std::string& value = program.values[size_t(program.instructions[size_t(part.instruction)].result)].name;
    return part.turn < 0 ? value : fmt::format("{}[{}]", value, part.turn);
  }

  void add(const TraceSpan& span) {
    switch (span.kind) {
      case TraceSpan::Kind::data:
        return plain(TraceRow::computing, "samples", "data", span.start, span.end);
      case TraceSpan::Kind::slept:
        return plain(TraceRow::computing, "sleeps, as a slower device computes longer", "slept", span.start, span.end);
      case TraceSpan::Kind::marked: {
        const MarkedWork& work = marks_[size_t(span.place.work)];
        if (work.kind != MarkedWork::Kind::computes) return;
        if (work.parts.empty()) return plain(TraceRow::computing, work.what, "copy", span.start, span.end);
        return carried_out(TraceRow::computing, span, span.start);
      }
      case TraceSpan::Kind::exchanged:
      case TraceSpan::Kind::beside: {
        // Nothing moves before all ranks of the group are there.
        const double moves = std::min(span.end, span.start + span.waited);
        if (are_one(std::exchange(moved_, &span), span)) return list(parts_of(span.place));
        plain(TraceRow::communicating, "waits for others", "waiting", span.start, moves);
        return carried_out(TraceRow::communicating, span, moves);
      }
    }
  }

  void plain(TraceRow row, const std::string& name, const std::string& category, double start, double end) {
    out_.push_back({row, name, category, start, end, Json::object()});
  }

  void carried_out(TraceRow row, const TraceSpan& span, double start) {
    const std::vector<Part> parts = parts_of(span.place);
    if (parts.empty()) return plain(row, "exchange", "communication", start, span.end);
    TraceSlice slice{row,
                     name_of(parts.back()),
                     phase_of(parts.back()),
                     start,
                     span.end,
                     {{"where", node_of(parts.back()).where.text()}}};
    if (row == TraceRow::communicating)
      slice.category = hetsynth::name(c_.plan.program.instructions[size_t(parts.back().instruction)].opcode);
    if (parts.size() > 1) slice.name += fmt::format(" and {} more", parts.size() - 1);
    slice.about["instructions"] = Json::array();
    out_.push_back(std::move(slice));
    list(parts);
  }

  void list(const std::vector<Part>& parts) {
    for (const Part& part : parts) {
      out_.back().about["instructions"].push_back(name_of(part));
      shown_.insert({part.instruction, part.turn});
    }
  }

  const Compilation& c_;
  const std::vector<MarkedWork>& marks_;
  const RankTrace& trace_;
  const StepPhases phases_;
  const TraceSpan* moved_ = nullptr;
  std::vector<TraceSlice> out_;
  std::set<std::pair<int, int64_t>> shown_;
};

/// Names of what the rank takes part in and has no code for: what others read through, or what nobody reads. `flat`:
/// the plan with its loops written out.
Json without_code(const Compilation& c, const UnrolledPlan& flat, int rank,
                  const std::set<std::pair<int, int64_t>>& shown) {
  Json out = Json::array();
  for (size_t i = 0; i < flat.program.instructions.size(); ++i) {
    const Instruction& instruction = flat.program.instructions[i];
    const int from = flat.instruction_of[i];
    // A stack is filled by the parts that its turns make.
    const bool stack =
        flat.turn_of[i] < 0 && loop_of(c.reference, c.plan.program, c.plan.program.instructions[size_t(from)]) >= 0;
    if (stack || !takes_part(flat.program, instruction, rank) || shown.contains({from, flat.turn_of[i]})) continue;
    out.push_back(flat.program.values[size_t(instruction.result)].name);
  }
  return out;
}

}  // namespace

DeviceSeconds device_seconds(const RankTrace& trace, const std::vector<MarkedWork>& marks, double seconds) {
  DeviceSeconds out;
  const TraceSpan* moved = nullptr;
  for (const TraceSpan& span : trace.spans) {
    const double length = span.end - span.start;
    switch (span.kind) {
      case TraceSpan::Kind::data:
        out.data += length;
        break;
      case TraceSpan::Kind::slept:
        out.slept += length;
        break;
      case TraceSpan::Kind::marked:
        if (marks[size_t(span.place.work)].kind == MarkedWork::Kind::computes) out.computing += length;
        break;
      case TraceSpan::Kind::exchanged:
        if (!are_one(std::exchange(moved, &span), span)) out.communicating += std::max(0.0, length - span.waited);
        break;
      case TraceSpan::Kind::beside:
        break;  // beside what else the rank does
    }
  }
  out.waiting = seconds - out.computing - out.slept - out.communicating - out.data;
  return out;
}

double length_of(const MeasuredStep& step) {
  double out = 0;
  for (const RankTrace& trace : step.ranks) out = std::max(out, trace.end);
  return out;
}

std::string measured_trace(const Compilation& c, const MeasuredStep& step) {
  const std::vector<InstructionPrice> prices = price_instructions(c.reference, c.plan.program, c.cluster);
  const StepAtLength planned(c.plan, c.reference, c.cluster, prices);
  const UnrolledPlan flat = unroll(c.reference, c.plan.program);
  const double seconds = length_of(step);
  TraceEvents events;
  Json ranks = Json::array();
  for (int rank = 0; rank < int(step.ranks.size()); ++rank) {
    const RankTrace& trace = step.ranks[size_t(rank)];
    RankSlices slices(c, rank, trace);
    const DeviceSeconds sums = device_seconds(trace, c.programs[size_t(rank)].marks, seconds);
    events.add_process(2 * rank,
                       fmt::format("rank {} measured: {}{}, bubble {:.1f} %", rank, c.plan.devices[size_t(rank)].name,
                                   stage_text(c.plan.program, rank), percent(sums.waiting, seconds)));
    for (const TraceSlice& slice : slices.run(step.step)) events.add(2 * rank, slice);
    events.add_process(2 * rank + 1, planned.rank_text(rank));
    for (const TraceSlice& slice : planned.slices(rank)) events.add(2 * rank + 1, slice);
    ranks.push_back({{"rank", rank},
                     {"device", c.plan.devices[size_t(rank)].name},
                     {"computing_seconds", sums.computing},
                     {"slept_seconds", sums.slept},
                     {"communicating_seconds", sums.communicating},
                     {"data_seconds", sums.data},
                     {"waiting_seconds", sums.waiting},
                     {"without_code", without_code(c, flat, rank, slices.shown())}});
  }
  return events.text({{"step", step.step},
                      {"measured_seconds", seconds},
                      {"planned_seconds", planned.timeline().seconds},
                      {"ranks", std::move(ranks)}});
}

std::string measured_text(const Compilation& c, const MeasuredStep& step) {
  const std::vector<InstructionPrice> prices = price_instructions(c.reference, c.plan.program, c.cluster);
  const Timeline planned = StepAtLength(c.plan, c.reference, c.cluster, prices).timeline();
  const double seconds = length_of(step);
  std::string out = fmt::format("step {} measured: {}, planned: {}\n  {:<28} {:>10} {:>13} {:>9} {:>9} {:>17}\n",
                                step.step, seconds_text(seconds), seconds_text(planned.seconds), "device", "computing",
                                "communicating", "samples", "bubble", "bubble as planned");
  for (size_t rank = 0; rank < step.ranks.size(); ++rank) {
    const DeviceSeconds d = device_seconds(step.ranks[rank], c.programs[rank].marks, seconds);
    out += fmt::format("  {:<28} {:>8.1f} % {:>11.1f} % {:>7.1f} % {:>7.1f} % {:>16.1f} %\n", c.plan.devices[rank].name,
                       percent(d.computing + d.slept, seconds), percent(d.communicating, seconds),
                       percent(d.data, seconds), percent(d.waiting, seconds),
                       percent(planned.devices[rank].idle_seconds, planned.seconds));
  }
  return out;
}

void check_traceable(const Cluster& cluster) {
  const auto gpu = std::ranges::find(cluster.devices, DeviceKind::cuda, &Device::kind);
  if (gpu == cluster.devices.end()) return;
  throw UserError({.where = {cluster.file},
                   .tag = "--trace",
                   .message = "steps are traced on cpu devices alone",
                   .expected = "a cluster of cpu devices",
                   .found = "cuda device " + gpu->name,
                   .mend = "leave cuda devices out with --without, or ask --profile where their time goes"},
                  ExitCode::usage);
}

}  // namespace hetsynth::cli
