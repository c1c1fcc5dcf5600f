#include "synth/schedule/message_cost.h"

#include <algorithm>
#include <set>

#include "synth/model/problem.h"

namespace hetsynth::synth {
namespace {

/// What a rank sends to other hosts and gets from there.
class Traffic {
 public:
  Traffic(const Problem& problem, const SpmdProgram& program, const Pricer& pricer)
      : problem_(problem), program_(program), pricer_(pricer) {}

  double bytes(const Instruction& instruction, int rank) const {
    const double before = pricer_.held_bytes(instruction.operands[0], rank);
    const double after = pricer_.held_bytes(instruction.result, rank);
    double senders = 0, receivers = 0;  // of other hosts, that each sends to or gets from
    double from_others = 0, of_others = 0, members = 0;
    std::set<int> hosts;
    for (const int other : program_.mesh.group(rank, instruction.axis)) {
      ++members;
      if (host(other) == host(rank)) continue;
      ++receivers;
      hosts.insert(host(other));
      from_others += pricer_.held_bytes(instruction.operands[0], other);
      of_others += pricer_.held_bytes(instruction.result, other);
    }
    senders = receivers;
    if (instruction.realisation == Realisation::hierarchical) receivers = double(hosts.size());
    switch (instruction.opcode) {
      case Opcode::all_gather:
        return before * receivers + from_others;
      case Opcode::reduce_scatter:
        return of_others + after * receivers;
      case Opcode::all_reduce:  // scattered, and gathered
        return 4 * before * senders / members;
      case Opcode::all_to_all:
        return (before + after) * senders / members;
      case Opcode::broadcast:
        return program_.mesh.coordinate(rank, instruction.axis) == instruction.root ? before * receivers
               : host(root(instruction, rank)) == host(rank)                        ? 0
                                                                                    : after;
      case Opcode::send:
        return sent(instruction, rank, before, after);
      default:
        return 0;  // in memory, or a halo, of which little travels
    }
  }

 private:
  int host(int rank) const { return problem_.cluster.devices[size_t(rank)].host; }

  /// Of the rank's group, the one that has what is broadcast.
  int root(const Instruction& instruction, int rank) const {
    return program_.mesh.group(rank, instruction.axis)[size_t(instruction.root)];
  }

  double sent(const Instruction& instruction, int rank, double before, double after) const {
    const std::vector<int> group = program_.mesh.group(rank, instruction.axis);
    const int from = group[size_t(instruction.root)], to = group[size_t(instruction.to)];
    if (host(from) == host(to)) return 0;
    return rank == from ? before : rank == to ? after : 0;
  }

  const Problem& problem_;
  const SpmdProgram& program_;
  const Pricer& pricer_;
};

}  // namespace

std::vector<std::vector<double>> message_seconds(const Problem& problem, const SpmdProgram& program,
                                                 const Pricer& pricer) {
  std::vector<double> per_byte;
  for (const Device& device : problem.cluster.devices) per_byte.push_back(device.message_seconds_per_byte());
  if (std::ranges::all_of(per_byte, [](double seconds) { return seconds == 0; })) return {};
  const Traffic traffic(problem, program, pricer);
  std::vector<std::vector<double>> out(program.instructions.size());
  for (size_t i = 0; i < out.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    if (!communicates(instruction.opcode)) continue;
    const double times = moved_times(problem.program, program.values[size_t(instruction.result)].node);
    for (size_t rank = 0; rank < per_byte.size(); ++rank)
      out[i].push_back(times * per_byte[rank] * traffic.bytes(instruction, int(rank)));
  }
  return out;
}

}  // namespace hetsynth::synth
