#include "synth/schedule/timeline.h"

#include <algorithm>
#include <climits>
#include <limits>
#include <utility>

#include "dsl/base/error.h"
#include "dsl/spmd/buckets.h"
#include "synth/model/communication_cost.h"
#include "synth/model/problem.h"
#include "synth/schedule/message_cost.h"

namespace hetsynth {
namespace {

Cluster with_latency_alone(Cluster cluster) {
  constexpr double unlimited = std::numeric_limits<double>::infinity();
  cluster.between.bandwidth_bytes_per_second = unlimited;
  for (Host& host : cluster.hosts) {
    host.inside.bandwidth_bytes_per_second = unlimited;
    host.outside.sending_bytes_per_second = host.outside.receiving_bytes_per_second = unlimited;
  }
  return cluster;
}

class Simulation {
 public:
  /// `whole`: every span is kept, not just when the step ends.
  Simulation(const SpmdProgram& program, const std::vector<InstructionPrice>& prices, const Unfolding& unfolding,
             bool whole)
      : program_(program),
        prices_(prices),
        unfolding_(unfolding),
        devices_(size_t(program.mesh.device_count())),
        staged_(has_stages(program)),
        whole_(whole),
        spans_(whole ? prices.size() : 0, std::vector<TimelineSpan>(devices_)),
        ready_(program.values.size(), std::vector<double>(devices_, 0)),
        compute_free_(devices_, 0),
        communication_free_(devices_, 0),
        rising_free_(devices_, 0),
        falling_free_(devices_, 0),
        out_free_(devices_, 0),
        in_free_(devices_, 0) {
    HETSYNTH_CHECK(prices.size() == program.instructions.size(), "a price per instruction");
    HETSYNTH_CHECK(unfolding.order.size() == prices.size() && unfolding.beside.size() == prices.size() &&
                       unfolding.bundle_of.size() == prices.size() && unfolding.latency.size() == prices.size(),
                   "an entry per instruction");
    out_.devices.resize(devices_);
    for (size_t axis = 0; axis < program.mesh.axes.size(); ++axis) {
      groups_.emplace_back();
      for (size_t d = 0; d < devices_; ++d)
        if (program.mesh.coordinate(int(d), int(axis)) == 0)
          groups_.back().push_back(program.mesh.group(int(d), int(axis)));
    }
  }

  Timeline run() {
    for (size_t at = 0; at < unfolding_.order.size();) {
      const int first = unfolding_.order[at], bundle = unfolding_.bundle_of[size_t(first)];
      std::vector<int> together{first};
      for (++at; bundle >= 0 && at < unfolding_.order.size(); ++at) {
        if (unfolding_.bundle_of[size_t(unfolding_.order[at])] != bundle) break;
        together.push_back(unfolding_.order[at]);
      }
      if (!prices_[size_t(first)].communicates())
        compute(size_t(first));
      else if (!unfolding_.posted.empty() && unfolding_.posted[size_t(first)])
        post(first);
      else
        communicate(together);
    }
    for (size_t d = 0; whole_ && d < devices_; ++d) add_up(d);
    out_.spans = std::move(spans_);
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
  double& communication_stream(int i, int d) {
    const Instruction& instruction = program_.instructions[size_t(i)];
    if (!unfolding_.beside[size_t(i)]) return compute_free_[size_t(d)];
    if (instruction.opcode != Opcode::send) return communication_free_[size_t(d)];
    return (instruction.to > instruction.root ? rising_free_ : falling_free_)[size_t(d)];
  }
  /// What is waited for at once keeps its place behind what is under way.
  double under_way(int i, int d) const {
    return unfolding_.beside[size_t(i)]
               ? 0
               : std::max({communication_free_[size_t(d)], rising_free_[size_t(d)], falling_free_[size_t(d)]});
  }

  /// What the collective takes away from the device's computing.
  double messages(int i, int d) const {
    return unfolding_.message_seconds.empty() ? 0 : unfolding_.message_seconds[size_t(i)][size_t(d)];
  }

  void compute(size_t i) {
    for (size_t d = 0; d < devices_; ++d) {
      if (staged_ && !takes_part(program_, program_.instructions[i], int(d))) continue;
      const double start = std::max(operands_ready(i, d), compute_free_[d]);
      const double end = start + prices_[i].device_seconds[d];
      if (whole_) spans_[i][d] = {start, end};
      compute_free_[d] = end;
      done(i, d, end);
    }
  }

  void done(size_t i, size_t d, double end) {
    ready_[size_t(program_.instructions[i].result)][d] = end;
    out_.seconds = std::max(out_.seconds, end);
  }

  /// Begins when the sender has it and both ways are free.
  void post(int i) {
    const Instruction& send = program_.instructions[size_t(i)];
    for (const std::vector<int>& group : groups_[size_t(send.axis)]) {
      const int from = group[size_t(send.root)], to = group[size_t(send.to)];
      if (!takes_part(program_, send, from)) continue;
      const double start =
          std::max({operands_ready(size_t(i), size_t(from)), out_free_[size_t(from)], in_free_[size_t(to)]});
      const double end = start + prices_[size_t(i)].device_seconds[size_t(from)];
      out_free_[size_t(from)] = in_free_[size_t(to)] = end;
      done(size_t(i), size_t(to), end);
      for (const int member : {from, to}) {
        compute_free_[size_t(member)] += messages(i, member);
        if (whole_) spans_[size_t(i)][size_t(member)] = {start, end};
      }
    }
  }

  /// All begin when the last device has the last of their operands, and are there when all are done.
  void communicate(const std::vector<int>& together) {
    const auto takes = [&](int i, int member) {
      return !staged_ || takes_part(program_, program_.instructions[size_t(i)], member);
    };
    double latency = 0;
    for (const int i : together) latency = std::max(latency, unfolding_.latency[size_t(i)]);
    for (const std::vector<int>& group : groups_[size_t(program_.instructions[size_t(together[0])].axis)]) {
      double start = 0;
      std::vector<int> mine;  // those of them that this group carries out: others may be of other stages
      for (const int i : together) {
        bool any = false;
        for (const int member : group) {
          if (!takes(i, member)) continue;
          any = true;
          start = std::max({start, communication_stream(i, member), under_way(i, member),
                            operands_ready(size_t(i), size_t(member)),
                            unfolding_.begun_in_order ? compute_free_[size_t(member)] : 0});
        }
        if (any) mine.push_back(i);
      }
      double end = start;
      for (const int i : mine) {
        const double begun = end;
        double seconds = 0;
        for (const int member : group)
          if (takes(i, member))
            seconds = std::max({seconds, prices_[size_t(i)].device_seconds[size_t(member)], messages(i, member)});
        end += mine.size() == 1 ? seconds : std::max(0.0, seconds - unfolding_.latency[size_t(i)]);
        if (i == mine.back() && mine.size() > 1) end += latency;
        for (const int member : group)
          if (whole_ && takes(i, member)) spans_[size_t(i)][size_t(member)] = {begun, end};
      }
      for (const int i : mine)
        for (const int member : group) {
          if (!takes(i, member)) continue;
          done(size_t(i), size_t(member), end);
          communication_stream(i, member) = end;
          if (unfolding_.beside[size_t(i)]) compute_free_[size_t(member)] += messages(i, member);
        }
    }
  }

  /// Sums of a device. Its streams are merged like two sorted lists; of what is posted the ways out and in may overlap.
  void add_up(size_t d) {
    DeviceTimeline& sums = out_.devices[d];
    std::vector<TimelineSpan> computing, communicating;
    for (const int i : unfolding_.order)
      (prices_[size_t(i)].communicates() ? communicating : computing).push_back(spans_[size_t(i)][d]);
    for (const TimelineSpan& span : computing) sums.compute_seconds += span.end - span.start;
    std::ranges::sort(communicating, {}, &TimelineSpan::start);
    double until = 0;
    for (TimelineSpan& span : communicating) {
      span.start = std::min(span.end, std::max(span.start, until));
      until = std::max(until, span.end);
    }
    std::erase_if(communicating, [](const TimelineSpan& span) { return span.end <= span.start; });
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
  const Unfolding& unfolding_;
  const size_t devices_;
  const bool staged_, whole_;
  std::vector<std::vector<TimelineSpan>> spans_;       ///< [instruction][device], if whole
  std::vector<std::vector<std::vector<int>>> groups_;  ///< [axis][group]: ranks
  std::vector<std::vector<double>> ready_;             ///< [value][device]
  std::vector<double> compute_free_, communication_free_, rising_free_, falling_free_;
  std::vector<double> out_free_, in_free_;  ///< of what is posted
  Timeline out_;
};

}  // namespace

std::vector<HiddenPart> hidden_parts(const std::vector<InstructionPrice>& prices, const Timeline& timeline) {
  std::vector<HiddenPart> out(prices.size());
  std::vector<char> met(prices.size(), 0);
  for (size_t d = 0; d < timeline.devices.size(); ++d) {
    // A device computes one after the other.
    std::vector<std::pair<double, int>> computing;
    for (size_t i = 0; i < prices.size(); ++i)
      if (!prices[i].communicates() && timeline.spans[i][d].end > timeline.spans[i][d].start)
        computing.push_back({timeline.spans[i][d].end, int(i)});
    std::ranges::sort(computing);
    for (size_t i = 0; i < prices.size(); ++i) {
      const TimelineSpan& span = timeline.spans[i][d];
      if (!prices[i].communicates() || span.end <= span.start) continue;
      HiddenPart part;
      double longest = 0;
      for (auto at = std::ranges::upper_bound(computing, std::pair(span.start, INT_MAX));
           at != computing.end() && timeline.spans[size_t(at->second)][d].start < span.end; ++at) {
        const double beside =
            std::min(at->first, span.end) - std::max(timeline.spans[size_t(at->second)][d].start, span.start);
        part.seconds += beside;
        if (beside > longest) longest = beside, part.beside = at->second;
      }
      if (!met[i] || part.seconds < out[i].seconds) out[i] = part;
      met[i] = 1;
    }
  }
  return out;
}

Timeline simulate(const SpmdProgram& program, const std::vector<InstructionPrice>& prices, const Unfolding& unfolding) {
  return Simulation(program, prices, unfolding, true).run();
}

double simulated_seconds(const SpmdProgram& program, const std::vector<InstructionPrice>& prices,
                         const Unfolding& unfolding) {
  return Simulation(program, prices, unfolding, false).run().seconds;
}

bool communicate_beside_computing(const Cluster& cluster) {
  return cluster.devices.size() > 1 && (all_of_kind(cluster.devices, DeviceKind::cuda) ||
                                        (all_of_kind(cluster.devices, DeviceKind::cpu) && cluster.hosts.size() > 1));
}

Unfolding unfolding_of(const Program& reference, const SpmdProgram& program, const Cluster& cluster) {
  return synth::unfolding_of(synth::problem_of(reference, program, cluster), program);
}

namespace synth {

Unfolding unfolding_of(const Problem& problem, const SpmdProgram& program) {
  const Cluster& cluster = problem.cluster;
  const size_t instructions = program.instructions.size();
  Unfolding out;
  const bool all_cuda = all_of_kind(cluster.devices, DeviceKind::cuda);
  const bool cores_alone = all_of_kind(cluster.devices, DeviceKind::cpu);
  const BucketedProgram buckets = all_cuda && problem.program.loops.empty()
                                      ? gather_buckets(problem.program, program, DeviceKind::cuda)
                                  : cores_alone ? as_planned(program)
                                                : without_buckets(program);
  out.begun_in_order = cores_alone;
  std::vector<int> made_by(program.values.size(), -1);
  for (size_t i = 0; i < instructions; ++i) made_by[size_t(program.instructions[i].result)] = int(i);
  out.bundle_of.resize(instructions);
  out.beside.resize(instructions);
  for (size_t i = 0; i < instructions; ++i) {
    const auto own = size_t(made_by[size_t(buckets.program.instructions[i].result)]);
    out.order.push_back(int(own));
    out.bundle_of[own] = buckets.bucket_of[i];
    // GPUs that meet cpu devices in a collective wait for it.
    out.beside[own] = all_cuda || (cores_alone && cluster.hosts.size() > 1 && buckets.bucket_of[i] >= 0);
  }
  for (size_t i = 0; i < instructions; ++i)
    out.posted.push_back(out.beside[i] && cores_alone && program.instructions[i].opcode == Opcode::send);
  const Cluster fast = with_latency_alone(cluster);
  const CommunicationCost latency = problem.cost.communication().over(fast);
  const Pricer pricer(problem, program, &latency), whole(problem, program);
  for (const Instruction& instruction : program.instructions)
    out.latency.push_back(communicates(instruction.opcode) ? pricer.price(instruction).seconds : 0);
  if (cores_alone && cluster.hosts.size() > 1) out.message_seconds = message_seconds(problem, program, whole);
  return out;
}

}  // namespace synth

}  // namespace hetsynth
