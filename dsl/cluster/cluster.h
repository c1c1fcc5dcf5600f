// The cluster description: hosts, devices, links. Declared values (data sheets, a user's word) and measured ones stand
// apart; measured win.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dsl/cluster/device_speed.h"

namespace hetsynth {

enum class DeviceKind : uint8_t { cpu, cuda };

struct Device {
  std::string name;  ///< unique in the cluster: "fast0", "v100-hosts[1].gpu[3]"
  DeviceKind kind = DeviceKind::cpu;
  std::string model;  ///< "V100", free text
  int host = 0;
  int index = 0;             ///< number of the device on its host
  std::string architecture;  ///< cuda: "sm_70"; empty: by model
  int64_t memory_bytes = 0;
  DeviceSpeed declared;
  DeviceSpeed measured;
  /// cpu: share of a core's time the device takes, in (0, 1]; below 1 the runtime idles for the rest, so that equal
  /// cores act as unequal devices.
  double duty = 1;
  /// cpu: cores whose time the device's calls of libraries may take; 0: its part of the host's, see cores_of.
  int cores = 0;
  int cpu_devices_of_host = 1;  ///< cpu devices that the description gives to its host, this one included

  /// What the device delivers: the measured speed, or else the declared one, times duty.
  double matmul_flops_per_second() const;
  double memory_bytes_per_second() const;
  /// Gives the speed of a class of operators. Where nothing is known of it, that is the speed of matrix products of
  /// float32 operands, and calls cost nothing.
  ComputeSpeed compute_speed(OperatorClass operators) const;
  /// Of its computing, for a byte that is sent to another host or comes from one; 0 where that is not known.
  double message_seconds_per_byte() const;
  /// Products with an epilogue that generated programs may use: measured, declared, or estimated.
  const FusedProducts& epilogues() const;
  /// Who computes attention in generated programs: measured, declared, or else the generated kernels, which need
  /// nothing that a machine may lack.
  AttentionBy attention() const;
};

/// One level of the network. bandwidth is per device and direction.
struct Link {
  double bandwidth_bytes_per_second = 0;
  double latency_seconds = 0;
  bool operator==(const Link&) const = default;
};

/// Returns what both allow: the lesser bandwidth and the greater latency.
Link slower(const Link& a, const Link& b);

/// Where nothing is sent: inside a host of one device.
constexpr Link unlimited_link{std::numeric_limits<double>::infinity(), 0};

/// What a host has of its own towards other hosts; what is not told is that of all (Cluster::between).
struct OutsideLink {
  std::optional<double> sending_bytes_per_second, receiving_bytes_per_second;
  std::optional<double> latency_seconds;
  bool operator==(const OutsideLink&) const = default;
};

struct Host {
  std::string name;
  Link inside;  ///< between devices of the host
  OutsideLink outside = {};
  int rack = -1;  ///< number of its rack; -1: it hangs on what joins the racks
};

struct Uplink {
  double sending_bytes_per_second = 0, receiving_bytes_per_second = 0;
  double latency_seconds = 0;
  /// What limits as much traffic in one direction as in the other.
  double both_ways() const { return std::min(sending_bytes_per_second, receiving_bytes_per_second); }
  bool operator==(const Uplink&) const = default;
};

/// Hosts behind one switch. Whatever goes from one of them to a host elsewhere, or comes from there, passes its uplink.
struct Rack {
  std::string name;
  Uplink uplink = {};
};

struct Cluster {
  std::string file;
  std::string name;
  std::vector<Host> hosts;
  std::vector<Device> devices;  ///< rank order
  Link between;                 ///< between hosts that have nothing of their own; bandwidth per host
  std::vector<Rack> racks = {};

  /// What each of so many rings through the host has of its link to others: as much leaves it as enters it.
  Link outside(int host, double rings = 1) const;
  /// The sum over all hosts of what their links to others carry, in bytes per second.
  double outside_bandwidth() const;
  /// From one host to another: as fast as one sends and the other receives, with the greater latency. So many messages
  /// share what the one sends, and so many what the other receives.
  Link link(int from, int to, double sent = 1, double received = 1) const;
  /// What uplinks let through from one host to another: so many messages leave the rack of the one at once, and so many
  /// enter that of the other. Unlimited in a rack.
  Link uplink(int from, int to, double leaving = 1, double entering = 1) const;
  bool same_links(int host, int other) const;  ///< inside, outside and of the rack
  /// Equal uplinks of as many hosts; no rack is like no rack.
  bool alike_racks(int rack, int other) const;
  /// The link that limits a ring over all devices: the least bandwidth and the greatest latency of the links it runs
  /// over. A ring enters and leaves each host once, so the bandwidth between hosts is not divided by the devices of a
  /// host.
  Link slowest_link() const;
  bool same_type(int a, int b) const;  ///< equal kind, model, architecture, speeds, memory and duty
};

/// Whether all of the devices are of this kind.
bool all_of_kind(std::span<const Device> devices, DeviceKind kind);

/// Cores that a cpu device stands for on a machine that has so many: what the description says, or else an equal part
/// for each cpu device of the host, whether a plan uses those or not. At least 1.
int cores_of(const Device& device, int cores_of_machine);

/// Most devices a description may have.
constexpr int max_cluster_devices = 65536;
/// Longest cluster file that is read.
constexpr int64_t max_cluster_file_bytes = 1 << 20;

/// Reads a TOML file (docs/cluster.md). Throws UserError naming file and line.
Cluster load_cluster(const std::string& path);
Cluster parse_cluster(std::string_view toml, const std::string& file);
/// `count` equal cpu devices on this host, which share its cores and memory; the default when no cluster is given.
Cluster local_cluster(int count);

/// Content hash (hexadecimal) of all that planning reads: devices in order with names and effective speeds, links.
/// Names of file and cluster do not count.
std::string hash_text(const Cluster& cluster);

}  // namespace hetsynth
