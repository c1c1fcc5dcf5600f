// A step as it unfolds on every device: instructions in order on a device's streams, each as soon as its operands are
// there; a collective begins when the last device of its group is ready. Unlike the sum that the search minimises,
// devices wait for one another at collectives only, collectives that go together have one latency, and on devices with
// a stream for communication that overlaps with computing, from which messages of cpu devices take time away.
#pragma once
#include <vector>

#include "dsl/cluster/cluster.h"
#include "dsl/spmd/turn_by_turn.h"
#include "synth/schedule/price.h"

namespace hetsynth {

struct TimelineSpan {
  double start = 0, end = 0;
};

/// Of a device. Hidden: communication during which the device computes.
struct DeviceTimeline {
  double compute_seconds = 0, communication_seconds = 0, hidden_seconds = 0;
  double idle_seconds = 0;  ///< neither
};

struct Timeline {
  double seconds = 0;                            ///< until the last device is done
  std::vector<std::vector<TimelineSpan>> spans;  ///< [instruction][rank]
  std::vector<DeviceTimeline> devices;
};

/// How devices carry the instructions out.
struct Unfolding {
  std::vector<int> order;       ///< instructions as devices come to them
  std::vector<int> bundle_of;   ///< by instruction: collectives that go together; -1: alone
  std::vector<double> latency;  ///< by instruction, seconds of its price; what goes together has the largest once
  std::vector<bool> beside;     ///< by instruction: it runs on devices' streams for communication: of sends one for
                                ///< each direction along their axis, of all else a third one
  /// A collective beside computing begins when devices come to it, behind the computing before it. Otherwise (on GPUs,
  /// whose hosts are ahead of them) as soon as there is what it needs.
  bool begun_in_order = false;
  /// By instruction: it is a send that the sender does not wait for, which takes one device's way out and another's way
  /// in, beside all else. If this is empty there are none.
  std::vector<bool> posted = {};
  /// [instruction][rank]: computing that messages cost (synth/schedule/message_cost.h); none: nothing, or not known.
  std::vector<std::vector<double>> message_seconds = {};
};

/// Whether devices can communicate beside computing: GPUs, and cpu devices of several hosts.
bool communicate_beside_computing(const Cluster& cluster);

/// Returns how generated programs carry a program out (dsl/spmd/buckets.h): on GPUs all collectives run beside
/// computing and gradients go in buckets; cpu devices on several hosts do what the plan says.
Unfolding unfolding_of(const Program& reference, const SpmdProgram& program, const Cluster& cluster);
namespace synth {
Unfolding unfolding_of(const Problem& problem, const SpmdProgram& program);
}

/// What a collective does beside computing: on the device where that is least.
struct HiddenPart {
  double seconds = 0;
  int beside = -1;  ///< the instruction that computes longest meanwhile; -1: none
};
/// By instruction; nothing for those that compute.
std::vector<HiddenPart> hidden_parts(const std::vector<InstructionPrice>& prices, const Timeline& timeline);

/// `prices`: of the program's instructions.
Timeline simulate(const SpmdProgram& program, const std::vector<InstructionPrice>& prices, const Unfolding& unfolding);
/// Simulates the step without keeping spans: the result says just what devices spend. `turns` are those in which the
/// instructions run; prices and unfolding then say what each instruction costs in one turn. Null: each runs once.
Timeline simulated_sums(const SpmdProgram& program, const std::vector<InstructionPrice>& prices,
                        const Unfolding& unfolding, const TurnByTurn* turns = nullptr);

}  // namespace hetsynth
