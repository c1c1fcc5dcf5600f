#include "synth/schedule/timeline.h"

#include <algorithm>

#include "dsl/base/error.h"

namespace hetsynth {
namespace {

class Simulation {
 public:
  /// `whole`: every span is kept, not just when the step ends.
  Simulation(const SpmdProgram& program, const std::vector<InstructionPrice>& prices,
             const std::vector<Device>& devices, bool whole)
      : program_(program),
        prices_(prices),
        devices_(devices),
        staged_(has_stages(program)),
        whole_(whole),
        spans_(devices.size()),
        ready_(program.values.size(), std::vector<double>(devices.size(), 0)),
        compute_free_(devices.size(), 0),
        communication_free_(devices.size(), 0) {
    HETSYNTH_CHECK(prices.size() == program.instructions.size(), "a price per instruction");
    out_.devices.resize(devices.size());
    for (size_t axis = 0; axis < program.mesh.axes.size(); ++axis) {
      groups_.emplace_back();
      for (size_t d = 0; d < devices.size(); ++d)
        if (program.mesh.coordinate(int(d), int(axis)) == 0)
          groups_.back().push_back(program.mesh.group(int(d), int(axis)));
    }
  }

  Timeline run() {
    for (size_t i = 0; i < prices_.size(); ++i) {
      if (staged_) std::fill(spans_.begin(), spans_.end(), TimelineSpan{});
      prices_[i].communicates() ? communicate(i) : compute(i);
      std::vector<double>& ready = ready_[size_t(program_.instructions[i].result)];
      for (size_t d = 0; d < devices_.size(); ++d) {
        ready[d] = spans_[d].end;
        out_.seconds = std::max(out_.seconds, spans_[d].end);
      }
      if (whole_) out_.spans.push_back(spans_);
    }
    for (size_t d = 0; whole_ && d < devices_.size(); ++d) add_up(d);
    return std::move(out_);
  }

 private:
  /// When the device has all operands.
  double operands_ready(size_t instruction, size_t d) const {
    double ready = 0;
    for (ValueId operand : program_.instructions[instruction].operands)
      ready = std::max(ready, ready_[size_t(operand)][d]);
    return ready;
  }

  /// The stream that carries the device's collectives.
  double& communication_stream(size_t d) {
    return devices_[d].kind == DeviceKind::cuda ? communication_free_[d] : compute_free_[d];
  }

  void compute(size_t i) {
    for (size_t d = 0; d < devices_.size(); ++d) {
      if (staged_ && !takes_part(program_, program_.instructions[i], int(d))) continue;
      const double start = std::max(operands_ready(i, d), compute_free_[d]);
      const double end = start + prices_[i].device_seconds[d];
      spans_[d] = {start, end};
      compute_free_[d] = end;
    }
  }

  void communicate(size_t i) {
    const Instruction& instruction = program_.instructions[i];
    for (const std::vector<int>& all : groups_[size_t(instruction.axis)]) {
      std::vector<int> group = all;
      if (staged_) std::erase_if(group, [&](int member) { return !takes_part(program_, instruction, member); });
      double start = 0, seconds = 0;
      for (int member : group) {
        start = std::max({start, operands_ready(i, size_t(member)), communication_stream(size_t(member))});
        seconds = std::max(seconds, prices_[i].device_seconds[size_t(member)]);
      }
      const double end = start + seconds;
      for (int member : group) {
        spans_[size_t(member)] = {start, end};
        communication_stream(size_t(member)) = end;
      }
    }
  }

  /// Sums of a device. Both of its streams run in order, so their spans are merged like two sorted lists.
  void add_up(size_t d) {
    DeviceTimeline& sums = out_.devices[d];
    std::vector<TimelineSpan> computing, communicating;
    for (size_t i = 0; i < prices_.size(); ++i)
      (prices_[i].communicates() ? communicating : computing).push_back(out_.spans[i][d]);
    for (const TimelineSpan& span : computing) sums.compute_seconds += span.end - span.start;
    for (const TimelineSpan& span : communicating) sums.communication_seconds += span.end - span.start;
    for (size_t a = 0, b = 0; a < computing.size() && b < communicating.size();) {
      const double from = std::max(computing[a].start, communicating[b].start);
      const double to = std::min(computing[a].end, communicating[b].end);
      sums.hidden_seconds += std::max(0.0, to - from);
      computing[a].end < communicating[b].end ? ++a : ++b;
    }
    sums.idle_seconds =
        std::max(0.0, out_.seconds - sums.compute_seconds - sums.communication_seconds + sums.hidden_seconds);
  }

  const SpmdProgram& program_;
  const std::vector<InstructionPrice>& prices_;
  const std::vector<Device>& devices_;
  const bool staged_, whole_;
  std::vector<TimelineSpan> spans_;                    ///< by device: of the instruction at hand
  std::vector<std::vector<std::vector<int>>> groups_;  ///< [axis][group]: ranks
  std::vector<std::vector<double>> ready_;             ///< [value][device]
  std::vector<double> compute_free_, communication_free_;
  Timeline out_;
};

}  // namespace

Timeline simulate(const SpmdProgram& program, const std::vector<InstructionPrice>& prices,
                  const std::vector<Device>& devices) {
  return Simulation(program, prices, devices, true).run();
}

double simulated_seconds(const SpmdProgram& program, const std::vector<InstructionPrice>& prices,
                         const std::vector<Device>& devices) {
  return Simulation(program, prices, devices, false).run().seconds;
}

}  // namespace hetsynth
