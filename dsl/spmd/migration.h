// What changes hands when a run goes over from one SPMD program to another of the same reference program: a list of
// parts of parameters and states, as data. verify/migration.h holds such a list against both programs.
#pragma once
#include <string>
#include <vector>

#include "dsl/spmd/spmd.h"

namespace hetsynth {

/// A part of a parameter or state that a rank of the new program gets from a rank of the old one.
struct TensorMove {
  NodeId node = -1;
  int from = 0;               ///< rank of the old program
  int to = 0;                 ///< rank of the new program
  std::vector<Range> ranges;  ///< of the whole tensor, per dimension; none for a scalar
  bool operator==(const TensorMove&) const = default;
};

struct Migration {
  /// By rank of the new program, this is the rank of the old one that runs on the same device; -1 where none did.
  std::vector<int> was;
  /// All that the new ranks hold of parameters and states, in the order of tensors. Those between ranks of one device
  /// are copies in place.
  std::vector<TensorMove> moves;
};

/// Returns a migration in which a device keeps what it has. What it lacks comes from devices of its own host where
/// they have it, and of several that have it from the one that has sent the least so far. `was`: see Migration.
/// `old_hosts`, `new_hosts`: the number of each rank's host.
Migration migration_between(const Program& reference, const SpmdProgram& old_program, const SpmdProgram& new_program,
                            std::vector<int> was, const std::vector<int>& old_hosts, const std::vector<int>& new_hosts);

/// Finds, for each rank of a new program, the rank of the old one that runs on the same device, by the devices' names
/// in rank order; -1 where none does.
std::vector<int> ranks_that_were(const std::vector<std::string>& old_devices,
                                 const std::vector<std::string>& new_devices);

/// Gives, for each node of one program, the parameter or state of another program that has its name. It is -1 for all
/// other nodes, and for data that each of both programs brings along. Throws UserError if a tensor has another type in
/// the other program.
std::vector<NodeId> renumbering(const Program& from, const Program& to);

/// The leaves of an SPMD program, without its instructions, and numbered as in another reference: what
/// migration_between wants of a program of another reference of the same model.
SpmdProgram renumbered(const SpmdProgram& program, const Program& from, const Program& to);

/// Bytes that go from one device to another.
int64_t moved_bytes(const Program& reference, const Migration& migration);

/// Whether a tensor outlives a step, as parameters and states do.
bool is_kept(const Node& node);

/// The value by which a program's ranks hold a parameter or state between steps; -1 if it has none.
ValueId leaf_of(const SpmdProgram& program, NodeId node);

/// "h0_mlp_up_weight[0:384, 96:192]".
std::string text(const Program& reference, NodeId node, const std::vector<Range>& ranges);

}  // namespace hetsynth
