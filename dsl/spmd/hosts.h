// How the devices of a mesh axis lie on hosts: what collectives go by that run within hosts first and between them
// afterwards (Realisation::hierarchical).
//
// The first device of a group on each host is the host's leader. A hierarchical
//   all_reduce       reduces to the leader of every host, all-reduces among the leaders, and hands the result on in
//                    every host;
//   all_gather       gathers at the leaders, all-gathers the hosts' blocks among them, and hands the whole on;
//   reduce_scatter   reduces to the leaders, reduce-scatters the hosts' blocks among them, and scatters each;
//   broadcast        hands the root's copy on in its host, broadcasts among the leaders, and hands it on in others;
//   all_to_all       exchanges directly what stays in a host; what leaves it is gathered at the leaders, which exchange
//                    one block per pair of hosts and give each device its own.
// Hosts may have different numbers of devices, and shares any lengths. (Jia et al., "Highly Scalable Deep Learning
// Training System with Mixed-Precision", 2018, section 4.2: the all-reduce in three phases.)
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dsl/spmd/spmd.h"

namespace hetsynth {

/// The hosts of one group along an axis. Their devices have consecutive coordinates.
struct GroupHosts {
  std::vector<int> first;  ///< by host: the coordinate of its leader; then the size of the group
  int host = 0;            ///< that of the rank

  int count() const { return int(first.size()) - 1; }
  int members(int of_host) const { return first[size_t(of_host) + 1] - first[size_t(of_host)]; }
  /// Of the rank's host: its leader, and behind its last device.
  int leader() const { return first[size_t(host)]; }
  int end() const { return first[size_t(host) + 1]; }
  /// The host of a coordinate, and whether it is the rank's own.
  int host_of(int coordinate) const;
  bool here(int coordinate) const { return leader() <= coordinate && coordinate < end(); }
  /// By coordinate: the number of its host in the group, from 0.
  std::vector<int64_t> by_coordinate() const;
};

/// Of the rank's group. `hosts`: by rank, as SpmdProgram::hosts.
GroupHosts hosts_of_group(const Mesh& mesh, const std::vector<int>& hosts, int axis, int rank);
inline GroupHosts hosts_of_group(const SpmdProgram& program, int axis, int rank) {
  return hosts_of_group(program.mesh, program.hosts, axis, rank);
}

/// The reverse of by_coordinate(), for the rank at `coordinate`.
GroupHosts hosts_by_coordinate(std::span<const int64_t> hosts, int coordinate);

/// Boundaries of shares by device, taken together by host.
std::vector<int64_t> bounds_by_host(const GroupHosts& hosts, std::span<const int64_t> bounds);

/// Whether there are hierarchical forms of the opcode.
bool has_levels(Opcode opcode);

/// Why a collective cannot run hierarchically, or would not differ from one that does not: no such form, an average
/// (of averages over unequal numbers of devices it is none), hosts that the program does not know, no group on
/// several hosts, no host with two devices of a group. Empty: it can.
std::string why_not_hierarchical(const SpmdProgram& program, const Instruction& instruction);

/// The axes that hierarchical collectives run along, ascending.
std::vector<int> hierarchical_axes(const SpmdProgram& program);

/// The axes that stages send along, ascending.
std::vector<int> sending_axes(const SpmdProgram& program);

}  // namespace hetsynth
