#include "dsl/cluster/cluster.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "dsl/base/error.h"
#include "dsl/base/hash.h"
#include "dsl/cluster/device_models.h"

namespace hetsynth {

double Device::matmul_flops_per_second() const {
  return measured.matmul_flops_per_second.value_or(declared.matmul_flops_per_second.value_or(0)) * duty;
}

double Device::memory_bytes_per_second() const {
  return measured.memory_bytes_per_second.value_or(declared.memory_bytes_per_second.value_or(0)) * duty;
}

ComputeSpeed Device::compute_speed(OperatorClass operators) const {
  const auto known = [&](std::optional<double> DeviceSpeed::*value) {
    return measured.*value ? measured.*value : declared.*value;
  };
  std::optional<double> flops, call;
  switch (operators) {
    case OperatorClass::matmul:
      call = known(&DeviceSpeed::matmul_call_seconds);
      break;
    case OperatorClass::convolution:
      flops = known(&DeviceSpeed::convolution_flops_per_second);
      call = known(&DeviceSpeed::convolution_call_seconds);
      break;
    case OperatorClass::loop:
      flops = known(&DeviceSpeed::loop_flops_per_second);
      call = known(&DeviceSpeed::loop_call_seconds);
      break;
    case OperatorClass::matmul_bf16:
      flops = known(&DeviceSpeed::matmul_bf16_flops_per_second);
      call = known(&DeviceSpeed::matmul_call_seconds);
      break;
    case OperatorClass::matmul_fp16:
      flops = known(&DeviceSpeed::matmul_fp16_flops_per_second);
      call = known(&DeviceSpeed::matmul_call_seconds);
  }
  return {flops ? *flops * duty : matmul_flops_per_second(), call.value_or(0) / duty};
}

double Device::message_seconds_per_byte() const {
  const std::optional<double> known =
      measured.message_bytes_per_second ? measured.message_bytes_per_second : declared.message_bytes_per_second;
  return known ? 1 / (*known * duty) : 0;
}

Link slower(const Link& a, const Link& b) {
  return {std::min(a.bandwidth_bytes_per_second, b.bandwidth_bytes_per_second),
          std::max(a.latency_seconds, b.latency_seconds)};
}

Link Cluster::link(int from, int to, double sent, double received) const {
  const OutsideLink &one = hosts.at(size_t(from)).outside, &other = hosts.at(size_t(to)).outside;
  return {std::min(one.sending_bytes_per_second.value_or(between.bandwidth_bytes_per_second) / sent,
                   other.receiving_bytes_per_second.value_or(between.bandwidth_bytes_per_second) / received),
          std::max(one.latency_seconds.value_or(between.latency_seconds),
                   other.latency_seconds.value_or(between.latency_seconds))};
}

Link Cluster::outside(int host, double rings) const { return link(host, host, rings, rings); }

double Cluster::outside_bandwidth() const {
  double out = 0;
  for (size_t host = 0; host < hosts.size(); ++host) out += outside(int(host)).bandwidth_bytes_per_second;
  return out;
}

Link Cluster::uplink(int from, int to, double leaving, double entering) const {
  const int one = hosts.at(size_t(from)).rack, other = hosts.at(size_t(to)).rack;
  Link out = unlimited_link;
  if (one == other) return out;
  if (one >= 0) {
    const Uplink& own = racks.at(size_t(one)).uplink;
    out = slower(out, {own.sending_bytes_per_second / leaving, own.latency_seconds});
  }
  if (other >= 0) {
    const Uplink& own = racks.at(size_t(other)).uplink;
    out = slower(out, {own.receiving_bytes_per_second / entering, own.latency_seconds});
  }
  return out;
}

bool Cluster::same_links(int host, int other) const {
  const Host &one = hosts.at(size_t(host)), &two = hosts.at(size_t(other));
  return one.inside == two.inside && one.outside == two.outside && alike_racks(one.rack, two.rack);
}

bool Cluster::alike_racks(int rack, int other) const {
  if (rack == other || rack < 0 || other < 0) return rack == other;
  return racks.at(size_t(rack)).uplink == racks.at(size_t(other)).uplink &&
         std::ranges::count(hosts, rack, &Host::rack) == std::ranges::count(hosts, other, &Host::rack);
}

Link Cluster::slowest_link() const {
  Link slowest = unlimited_link;
  std::vector<int> devices_of_host(hosts.size());
  for (const Device& device : devices) ++devices_of_host[device.host];
  for (size_t host = 0; host < hosts.size(); ++host) {
    if (devices_of_host[host] > 1) slowest = slower(slowest, hosts[host].inside);
    if (hosts.size() > 1) slowest = slower(slowest, outside(int(host)));
    slowest = slower(slowest, uplink(int(host), int((host + 1) % hosts.size())));
  }
  return slowest;
}

const FusedProducts& Device::epilogues() const {
  if (measured.epilogues) return *measured.epilogues;
  return declared.epilogues ? *declared.epilogues : estimated_fused_products();
}

AttentionBy Device::attention() const {
  if (measured.attention) return *measured.attention;
  return declared.attention.value_or(AttentionBy::generated);
}

bool Cluster::same_type(int a, int b) const {
  const Device& x = devices.at(a);
  const Device& y = devices.at(b);
  return x.kind == y.kind && x.model == y.model && x.architecture == y.architecture &&
         x.memory_bytes == y.memory_bytes && x.duty == y.duty &&
         x.memory_bytes_per_second() == y.memory_bytes_per_second() &&
         x.message_seconds_per_byte() == y.message_seconds_per_byte() &&
         std::ranges::all_of(operator_classes, [&](OperatorClass operators) {
           return x.compute_speed(operators) == y.compute_speed(operators);
         });
}

bool all_of_kind(std::span<const Device> devices, DeviceKind kind) {
  return std::ranges::all_of(devices, [&](const Device& device) { return device.kind == kind; });
}

int cores_of(const Device& device, int cores_of_machine) {
  return device.cores > 0 ? device.cores : std::max(1, cores_of_machine / device.cpu_devices_of_host);
}

Cluster local_cluster(int count) {
  if (count < 1 || count > max_cluster_devices) {
    Diagnostic diagnostic;
    diagnostic.tag = "cluster";
    diagnostic.message = "the number of local ranks is out of range";
    diagnostic.expected = fmt::format("1 to {}", max_cluster_devices);
    diagnostic.found = fmt::format("{}", count);
    throw UserError(std::move(diagnostic), ExitCode::usage);
  }
  const DeviceModel& core = *find_device_model("core");
  const double cores = std::max(1u, std::thread::hardware_concurrency());
  const double cores_each = std::min(1.0, cores / count);
  constexpr int64_t mebibyte = 1 << 20;
  const int64_t physical = int64_t(sysconf(_SC_PHYS_PAGES)) * int64_t(sysconf(_SC_PAGESIZE));
  Cluster cluster;
  cluster.name = "local";
  // Ranks are threads of one process: a message is a copy in memory and a wake-up.
  cluster.hosts.push_back({"local", Link{5e9, 20e-6}});
  for (int i = 0; i < count; ++i) {
    Device device;
    device.name = fmt::format("core{}", i);
    device.model = core.name;
    device.index = i;
    device.cpu_devices_of_host = count;
    device.memory_bytes = std::max(mebibyte, physical / count / mebibyte * mebibyte);
    device.declared = core.speed();
    *device.declared.matmul_flops_per_second *= cores_each;
    *device.declared.memory_bytes_per_second *= cores_each;
    cluster.devices.push_back(std::move(device));
  }
  return cluster;
}

std::string hash_text(const Cluster& cluster) {
  const auto link_text = [](const Link& link) {
    return fmt::format("{} {}", link.bandwidth_bytes_per_second, link.latency_seconds);
  };
  // Strings carry their length, so that no two descriptions run together to the same text.
  const auto string_text = [](const std::string& text) { return fmt::format("{}:{}", text.size(), text); };
  std::string canonical =
      fmt::format("cluster 2\nbetween {}\n", cluster.hosts.size() > 1 ? link_text(cluster.between) : "none");
  const auto own = [](const std::optional<double>& value) { return value ? fmt::format(" {}", *value) : " -"; };
  for (const Host& host : cluster.hosts) {
    canonical += fmt::format("host {}", link_text(host.inside));
    // A host's own link is said only where there is one, so that plans for other clusters keep their hash.
    if (const OutsideLink& link = host.outside; cluster.hosts.size() > 1 && link != OutsideLink{})
      canonical += fmt::format(" outside{}{}{}", own(link.sending_bytes_per_second),
                               own(link.receiving_bytes_per_second), own(link.latency_seconds));
    if (host.rack >= 0) canonical += fmt::format(" rack {}", host.rack);
    canonical += "\n";
  }
  for (const Rack& rack : cluster.racks)
    canonical += fmt::format("rack {} {} {}\n", rack.uplink.sending_bytes_per_second,
                             rack.uplink.receiving_bytes_per_second, rack.uplink.latency_seconds);
  for (const Device& device : cluster.devices) {
    canonical += fmt::format("device {} {} {} {} {} {} {} {}", string_text(device.name), int(device.kind), device.host,
                             string_text(device.model), string_text(device.architecture), device.memory_bytes,
                             device.memory_bytes_per_second(), device.duty);
    for (OperatorClass operators : {OperatorClass::matmul, OperatorClass::convolution, OperatorClass::loop}) {
      const ComputeSpeed speed = device.compute_speed(operators);
      canonical += fmt::format(" {} {}", speed.flops_per_second, speed.call_seconds);
    }
    // Said only where it says something, so that plans for devices without such products keep their hash.
    for (const HalfFormat& format : half_formats)
      if (const ComputeSpeed speed = device.compute_speed(products_of(format.dtype));
          speed != device.compute_speed(OperatorClass::matmul))
        canonical += fmt::format(" {} {}", name(format.dtype), speed.flops_per_second);
    if (device.message_seconds_per_byte() > 0)
      canonical += fmt::format(" messages {}", device.message_seconds_per_byte());
    canonical += "\n";
  }
  return content_hash(canonical);
}

}  // namespace hetsynth
