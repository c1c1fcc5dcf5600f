#include "synth/schedule/timeline.h"

#include <algorithm>
#include <climits>
#include <limits>
#include <span>
#include <utility>

#include "dsl/base/error.h"
#include "dsl/spmd/buckets.h"
#include "synth/model/communication_cost.h"
#include "synth/model/problem.h"
#include "synth/schedule/message_cost.h"
#include "synth/schedule/participants.h"

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
  /// `turns`: in which the program's instructions run; null: each runs once. `whole`: every span is told, not just what
  /// devices spend; of what runs once.
  Simulation(const SpmdProgram& program, const std::vector<InstructionPrice>& prices, const Unfolding& unfolding,
             const TurnByTurn* turns, bool whole)
      : program_(program),
        prices_(prices),
        unfolding_(unfolding),
        turns_(turns),
        devices_(size_t(program.mesh.device_count())),
        whole_(whole),
        participants_(program),
        spans_(whole ? prices.size() : 0, std::vector<TimelineSpan>(devices_)),
        made_by_(turns ? turns->leaves + turns->runs.size() : program.values.size(), nullptr),
        begin_(made_by_.size(), 0),
        computing_(devices_),
        communicating_(devices_),
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
  }

  Timeline run() {
    const size_t runs = turns_ ? turns_->runs.size() : unfolding_.order.size();
    const auto run_at = [&](size_t at) { return turns_ ? at : size_t(unfolding_.order[at]); };
    std::vector<size_t> together;
    for (size_t at = 0; at < runs;) {
      const size_t first = run_at(at), instruction = instruction_of(first);
      const int bundle = unfolding_.bundle_of[instruction];
      together.assign({first});
      for (++at; bundle >= 0 && at < runs; ++at) {
        if (unfolding_.bundle_of[instruction_of(run_at(at))] != bundle) break;
        together.push_back(run_at(at));
      }
      for (const size_t run : together) make_room(run);
      if (!prices_[instruction].communicates())
        compute(first);
      else if (!unfolding_.posted.empty() && unfolding_.posted[instruction])
        post(first);
      else
        communicate(together);
    }
    for (size_t d = 0; d < devices_; ++d) add_up(d);
    out_.spans = std::move(spans_);
    return std::move(out_);
  }

 private:
  size_t instruction_of(size_t run) const { return turns_ ? size_t(turns_->runs[run].instruction) : run; }
  const Instruction& instruction(size_t run) const { return program_.instructions[instruction_of(run)]; }
  size_t result(size_t run) const { return size_t(turns_ ? turns_->result(run) : instruction(run).result); }
  std::span<const ValueId> operands(size_t run) const {
    return turns_ ? turns_->operands_of(run) : std::span<const ValueId>(instruction(run).operands);
  }
  const Participants& participants(size_t run) const { return participants_[instruction_of(run)]; }
  const InstructionPrice& price(size_t run) const { return prices_[instruction_of(run)]; }

  /// When the device has all operands.
  double operands_ready(size_t run, int d) const {
    double ready = 0;
    for (const ValueId operand : operands(run)) {
      const Participants* makers = made_by_[size_t(operand)];
      const int place = makers ? makers->place[size_t(d)] : -1;  // leaves are there
      if (place >= 0) ready = std::max(ready, ready_[begin_[size_t(operand)] + size_t(place)]);
    }
    return ready;
  }

  /// For what is made, on the devices that take part.
  void make_room(size_t run) {
    const Participants& makers = participants(run);
    made_by_[result(run)] = &makers;
    begin_[result(run)] = ready_.size();
    ready_.resize(ready_.size() + makers.devices.size(), 0);
  }

  /// The stream that carries the device's collectives.
  double& communication_stream(size_t run, int d) {
    const Instruction& of = instruction(run);
    if (!unfolding_.beside[instruction_of(run)]) return compute_free_[size_t(d)];
    if (of.opcode != Opcode::send) return communication_free_[size_t(d)];
    return (of.to > of.root ? rising_free_ : falling_free_)[size_t(d)];
  }
  /// What is waited for at once keeps its place behind what is under way.
  double under_way(size_t run, int d) const {
    return unfolding_.beside[instruction_of(run)]
               ? 0
               : std::max({communication_free_[size_t(d)], rising_free_[size_t(d)], falling_free_[size_t(d)]});
  }

  /// What the collective takes away from the device's computing.
  double messages(size_t run, int d) const {
    return unfolding_.message_seconds.empty() ? 0 : unfolding_.message_seconds[instruction_of(run)][size_t(d)];
  }

  void compute(size_t run) {
    for (const int d : participants(run).devices) {
      const double start = std::max(operands_ready(run, d), compute_free_[size_t(d)]);
      const double end = start + price(run).device_seconds[size_t(d)];
      tell(run, d, {start, end});
      compute_free_[size_t(d)] = end;
      done(run, d, end);
    }
  }

  void tell(size_t run, int d, TimelineSpan span) {
    if (whole_) spans_[run][size_t(d)] = span;
    (price(run).communicates() ? communicating_ : computing_)[size_t(d)].push_back(span);
  }

  void done(size_t run, int d, double end) {
    ready_[begin_[result(run)] + size_t(participants(run).place[size_t(d)])] = end;
    out_.seconds = std::max(out_.seconds, end);
  }

  /// Begins when the sender has it and both ways are free.
  void post(size_t run) {
    const Instruction& send = instruction(run);
    for (const std::vector<int>& members : participants(run).groups[size_t(send.axis)]) {
      if (members.empty()) continue;
      const bool rises = send.root < send.to;
      const int from = rises ? members.front() : members.back(), to = rises ? members.back() : members.front();
      const double start = std::max({operands_ready(run, from), out_free_[size_t(from)], in_free_[size_t(to)]});
      const double end = start + price(run).device_seconds[size_t(from)];
      out_free_[size_t(from)] = in_free_[size_t(to)] = end;
      done(run, to, end);
      for (const int member : {from, to}) {
        compute_free_[size_t(member)] += messages(run, member);
        tell(run, member, {start, end});
      }
    }
  }

  /// All begin when the last device has the last of their operands, and are there when all are done.
  void communicate(const std::vector<size_t>& together) {
    double latency = 0;
    for (const size_t run : together) latency = std::max(latency, unfolding_.latency[instruction_of(run)]);
    const auto axis = size_t(instruction(together[0]).axis);
    for (size_t group = 0; group < participants(together[0]).groups[axis].size(); ++group) {
      const auto members = [&](size_t run) -> const std::vector<int>& { return participants(run).groups[axis][group]; };
      double start = 0;
      mine_.clear();
      for (const size_t run : together) {
        for (const int member : members(run))
          start =
              std::max({start, communication_stream(run, member), under_way(run, member), operands_ready(run, member),
                        unfolding_.begun_in_order ? compute_free_[size_t(member)] : 0});
        if (!members(run).empty()) mine_.push_back(run);
      }
      double end = start;
      for (const size_t run : mine_) {
        const double begun = end;
        double seconds = 0;
        for (const int member : members(run))
          seconds = std::max({seconds, price(run).device_seconds[size_t(member)], messages(run, member)});
        end += mine_.size() == 1 ? seconds : std::max(0.0, seconds - unfolding_.latency[instruction_of(run)]);
        if (run == mine_.back() && mine_.size() > 1) end += latency;
        for (const int member : members(run)) tell(run, member, {begun, end});
      }
      for (const size_t run : mine_)
        for (const int member : members(run)) {
          done(run, member, end);
          communication_stream(run, member) = end;
          if (unfolding_.beside[instruction_of(run)]) compute_free_[size_t(member)] += messages(run, member);
        }
    }
  }

  /// Sums of a device. Its streams are merged like two sorted lists; of what is posted the ways out and in may overlap.
  void add_up(size_t d) {
    DeviceTimeline& sums = out_.devices[d];
    const std::vector<TimelineSpan>& computing = computing_[d];
    std::vector<TimelineSpan>& communicating = communicating_[d];
    for (const TimelineSpan& span : computing) sums.compute_seconds += span.end - span.start;
    std::ranges::stable_sort(communicating, {}, &TimelineSpan::start);
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
  const TurnByTurn* const turns_;
  const size_t devices_;
  const bool whole_;
  const ParticipantsOf participants_;
  std::vector<std::vector<TimelineSpan>> spans_;  ///< [instruction][device], if whole
  std::vector<const Participants*> made_by_;      ///< by value: the devices that made it; null: none yet
  std::vector<size_t> begin_;                     ///< by value: of its times
  std::vector<double> ready_;                     ///< since when each of the devices that made a value has it
  std::vector<std::vector<TimelineSpan>> computing_, communicating_;  ///< by device
  std::vector<size_t> mine_;  ///< of what goes together: what the group at hand carries out, others being other stages'
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
  return Simulation(program, prices, unfolding, nullptr, true).run();
}

Timeline simulated_sums(const SpmdProgram& program, const std::vector<InstructionPrice>& prices,
                        const Unfolding& unfolding, const TurnByTurn* turns) {
  return Simulation(program, prices, unfolding, turns, false).run();
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
