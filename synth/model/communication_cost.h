// What it costs to move a tensor from one placement to another: one formula per opcode and realisation, for searched
// and for edited programs alike.
//
// Collectives run along one mesh axis, in all of its groups at once; the slowest group counts. On a ring of n devices;
// S: bytes of the whole tensor (of its part in the group), c_d: of device d's shard, a: latency, B: bandwidth of the
// slowest link, where a host with a link of its own to others (Host::outside) counts with the slower of its directions.
// The bandwidth of a host's link to others is divided by the groups that cross it at once, that of a rack's uplink by
// the hops of all rings that pass it (synth/model/uplinks.h).
//   all_gather, reduce_scatter   native:  (n-1) a + (S - min c) / B      (shared memory, MPI)
//                                padded:  (n-1) (a + max c / B)          (NCCL)
//                                grouped: 2 (n-1) a + (S - min c) / B    (NCCL: n rooted collectives in one group)
//   all_reduce                   2 (n-1) a + 2 (n-1)/n S / B            (one ring)
//   hierarchical, over H hosts, m of the group's devices on each, a', B': of the link inside a host, a, B: between
//   hosts, S_h: what the devices of host h hold together, w = (m-1) a' + S / B' on the slowest host (to its leader, or
//   from it):
//     all_reduce                 2 w + 2 (H-1) a + 2 (H-1)/H S / B
//     all_gather, reduce_scatter max ((m-1) a' + S_h / B') + (H-1) a + (S - min S_h) / B + w
//                                (NCCL, unless all S_h are equal: 2 (H-1) a, H rooted collectives in one group)
//     broadcast                  2 w + (H-1) a + S / B  (the root may be any device of its host; on one host w)
//     all_to_all                 p + (H-1) a + (n-1)/n max C_h / B_h + q; C_h: the sum of c (below) over the host;
//                                p, q: passes to leaders and from them, at most (m-1) a' + (n-1)/n C_h / B'
//                                (NCCL, a message per sender and host, or per sender and device: (m-1) H a' and
//                                (m-1) (n-m) a'); in a group on one host as if it were not hierarchical
//   (the sum of its three phases; a pass through a chain of m devices as of the broadcast below)
//   broadcast                    (n-1) a + S / B
//   send                         a + S / B of the link between the two devices
//   all_to_all                   (n-1) a + (n-1)/n max c / B, and on the link of a host the sum over its devices, on an
//                                uplink the sum of what goes to other racks; c: the larger of the shard before and
//                                after
//   slice                        2 c / memory bandwidth
//   to_partial                   S / memory bandwidth
#pragma once
#include <optional>
#include <vector>

#include "dsl/cluster/cluster.h"
#include "dsl/spmd/spmd.h"
#include "synth/model/uplinks.h"

namespace hetsynth::synth {

/// One instruction other than compute, carried out.
struct Movement {
  double seconds = 0;                  ///< of the slowest group or device
  std::vector<double> device_seconds;  ///< by rank: of the device's group; empty if not asked for
  /// Of the whole tensor that a group moves, the largest group's; 0: nothing moves, or not asked for.
  double bytes = 0;
  Realisation realisation = Realisation::native;
};

/// What is asked of a movement. Searches ask for thousands, and only how long they take.
enum class Detail : uint8_t { seconds, by_device };

/// Seconds by bytes.
struct Line {
  double fixed = 0, per_byte = 0;
  bool operator==(const Line&) const = default;
};

/// How a group lies on hosts.
struct GroupLevels {
  struct Host {
    Link inside;
    std::vector<int> devices;
    Link outside = {};  ///< what the group has of its link to other hosts
  };
  std::vector<Host> hosts;
  Link between;  ///< the slowest of these
};

class CommunicationCost {
 public:
  /// `mesh`: over the cluster's devices in rank order. `native`: the engine takes uneven shards as they are.
  CommunicationCost(const Cluster& cluster, const Mesh& mesh, bool native);

  /// The same for devices on other links. `cluster` must outlive it.
  CommunicationCost over(const Cluster& cluster) const { return {cluster, mesh_, native_}; }
  /// The link that limits a group along the axis.
  const Link& link(int axis, int device) const { return links_[axis][device]; }
  int coordinate(int device, int axis) const { return coordinates_[axis][device]; }

  /// `before`, `after`: bytes that each device holds. Without a realisation: by the cheapest one that the engine has.
  Movement movement(Opcode opcode, int axis, const std::vector<double>& before, const std::vector<double>& after,
                    std::optional<Realisation> realisation, Detail detail = Detail::by_device) const;

  /// Whether collectives along the axis can be hierarchical: some group has several hosts, and some host several
  /// devices of a group.
  bool has_levels(int axis) const { return levelled_[size_t(axis)]; }
  /// What a hierarchical collective takes at least in the group of a device, however its shares are: exactly that if
  /// its hosts are alike and hold the same. `bytes`: about as many as are moved.
  Line least_hierarchical(Opcode opcode, int axis, int device, double bytes) const;
  /// Of a device's group.
  const GroupLevels& levels(int axis, int device) const {
    return levels_[size_t(axis)][group_of_[size_t(axis)][size_t(device)]];
  }

  const Uplinks& uplinks(int axis) const { return uplinks_[size_t(axis)]; }

  /// From one coordinate of the axis to another, in all groups at once. `before`: bytes that each device holds.
  Movement send(int axis, int root, int to, const std::vector<double>& before) const;

 private:
  using Group = std::vector<int>;
  void find_links(int axis);
  void find_levels(int axis);
  template <class Seconds>
  Movement by_group(int axis, const std::vector<double>& whole, Detail detail, const Seconds& seconds) const;
  Movement gathering(int axis, const std::vector<double>& whole, const std::vector<double>& shards,
                     Realisation realisation, Detail detail) const;
  Movement hierarchical(Opcode opcode, int axis, const std::vector<double>& whole, const std::vector<double>& shards,
                        Detail detail) const;
  template <class Flat, class Levels>
  Movement realised(int axis, std::optional<Realisation> realisation, const Flat& flat, const Levels& by_levels) const;
  Line least_exchange(const GroupLevels& at) const;
  Movement all_to_all(int axis, const std::vector<double>& before, const std::vector<double>& after,
                      std::optional<Realisation> realisation, Detail detail) const;
  /// Messages that the leader of a host takes one after the other in a hierarchical all-to-all: of what goes to other
  /// hosts, or of what comes from them.
  struct Messages {
    double out, back;
  };
  Messages messages_within(const GroupLevels& at, const GroupLevels::Host& host) const;
  double exchange_by_host(const GroupLevels& at, const std::vector<double>& moved, double past_uplinks) const;
  Movement halo_exchange(int axis, const std::vector<double>& before, const std::vector<double>& after,
                         Detail detail) const;
  Movement in_memory(const std::vector<double>& bytes, double passes, Detail detail) const;

  const Cluster& cluster_;
  const Mesh mesh_;
  const bool native_;
  std::vector<std::vector<int>> coordinates_;     ///< [axis][device]
  std::vector<std::vector<Link>> links_;          ///< [axis][device]: of the device's group
  std::vector<std::vector<char>> crosses_;        ///< [axis][device]: its group spans several hosts
  std::vector<std::vector<Group>> groups_;        ///< [axis][group]: devices
  std::vector<std::vector<double>> sharing_;      ///< [axis][group]: groups that share a link between hosts with it
  std::vector<std::vector<size_t>> group_of_;     ///< [axis][device]
  std::vector<std::vector<GroupLevels>> levels_;  ///< [axis][group]
  std::vector<char> levelled_;                    ///< by axis: has_levels
  std::vector<Uplinks> uplinks_;                  ///< by axis
};

}  // namespace hetsynth::synth
