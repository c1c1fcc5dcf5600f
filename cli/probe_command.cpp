// hetsynth probe: measures this machine's cores or GPUs as the devices of a cluster file, and writes what it measured
// beside what the file declares.
#include <fmt/format.h>

#include <algorithm>

#include "cli/command.h"
#include "cli/report.h"
#include "dsl/base/counted.h"
#include "dsl/base/file.h"
#include "dsl/cluster/cluster_measured.h"
#include "runtime/cuda/cuda_probe.h"
#include "runtime/probe.h"
#include "runtime/rank/rank_threads.h"

namespace hetsynth::cli {
namespace {

/// The host to measure, and its devices. Throws UserError for one that this machine cannot stand for.
std::vector<Device> devices_of(const Cluster& cluster, std::string& host) {
  if (host.empty()) {
    if (cluster.hosts.size() > 1)
      throw UserError({.tag = "--host",
                       .message = "the cluster has several hosts",
                       .expected = "the name of the host that this machine is",
                       .mend = "run probe on each host, with --host"},
                      ExitCode::usage);
    host = cluster.hosts[0].name;
  }
  std::vector<Device> out;
  for (const Device& device : cluster.devices)
    if (cluster.hosts[device.host].name == host) out.push_back(device);
  if (out.empty())
    throw UserError({.tag = "--host", .message = "the cluster has no such host", .found = host}, ExitCode::usage);
  for (const Device& device : out)
    if (device.kind != out.front().kind || device.model != out.front().model)
      throw UserError(
          {.where = {cluster.file},
           .tag = "probe",
           .message = fmt::format("host {} has devices of several kinds, which are not measured together", host),
           .expected = "devices that are alike",
           .found = fmt::format("{} and {}", out.front().name, device.name),
           .mend = "probe a cluster file with one kind of them at a time, and copy the measured values"});
  if (out.front().kind == DeviceKind::cpu && int(out.size()) > usable_cores())
    throw UserError({.where = {cluster.file},
                     .tag = "probe",
                     .message = fmt::format("host {} has more devices than this machine has cores", host),
                     .expected = fmt::format("at most {} devices", usable_cores()),
                     .found = fmt::format("{}", out.size())});
  return out;
}

ProbeResult measure(const std::vector<Device>& devices, double seconds) {
  if (devices.front().kind == DeviceKind::cuda) {
    cuda::GpuProbeOptions options;
    options.seconds = seconds;
    return cuda::probe_gpus(cuda::this_machine(), devices, options);
  }
  ProbeOptions options;
  options.seconds = seconds;
  return probe_cores(int(devices.size()), options);
}

/// "2 cores", "1 GPU".
std::string number_of(const std::vector<Device>& devices) {
  return counted(int64_t(devices.size()), devices.front().kind == DeviceKind::cuda ? "GPU" : "core");
}

std::string row(const char* what, double declared, double measured, const char* unit) {
  return fmt::format("  {:<22} {:>12.4g} {:>12.4g}  {}\n", what, declared, measured, unit);
}

}  // namespace

Command add_probe(CLI::App& app) {
  struct Options {
    std::string cluster, out, host;
    double seconds = 0.4;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("probe", "Measure this machine's cores or GPUs as the devices of a cluster file");
  command->add_option("cluster", options->cluster, "Cluster file (TOML)")->required();
  command->add_option("-o,--output", options->out,
                      "Write the cluster file with the measured values to this file; the same name is allowed");
  command->add_option("--host", options->host,
                      "Which of the cluster's hosts this machine is; needed if there are several");
  command->add_option("--seconds", options->seconds, "Duration of each measurement")
      ->capture_default_str()
      ->check(above_zero());
  return [options]() {
    const std::string text = read_file(options->cluster, "cluster file", max_cluster_file_bytes);
    const Cluster cluster = parse_cluster(text, options->cluster);
    const std::vector<Device> devices = devices_of(cluster, options->host);
    const ProbeResult result = measure(devices, options->seconds);
    const Device& first = devices.front();
    fmt::print("{} of this machine at work at the same time\n  {:<22} {:>12} {:>12}\n", number_of(devices), "each",
               "was taken", "measured");
    auto taken = [&](OperatorClass operators) {
      return first.compute_speed(operators).flops_per_second / first.duty / 1e9;
    };
    fmt::print(
        "{}{}{}",
        row("matrix products", taken(OperatorClass::matmul), *result.speed.matmul_flops_per_second / 1e9, "GFLOP/s"),
        row("call of a product", first.compute_speed(OperatorClass::matmul).call_seconds * first.duty * 1e6,
            *result.speed.matmul_call_seconds * 1e6, "us"),
        row("loops", taken(OperatorClass::loop), *result.speed.loop_flops_per_second / 1e9, "GFLOP/s"));
    if (result.speed.convolution_flops_per_second)
      fmt::print("{}", row("convolutions", taken(OperatorClass::convolution),
                           *result.speed.convolution_flops_per_second / 1e9, "GFLOP/s"));
    if (result.speed.loop_call_seconds)
      fmt::print("{}", row("call of a loop", first.compute_speed(OperatorClass::loop).call_seconds * first.duty * 1e6,
                           *result.speed.loop_call_seconds * 1e6, "us"));
    fmt::print("{}", row("memory", first.memory_bytes_per_second() / first.duty / 1e9,
                         *result.speed.memory_bytes_per_second / 1e9, "GB/s"));
    MeasuredHost measured{options->host, result.speed, {}};
    if (devices.size() > 1) {
      const Link& inside = cluster.hosts[first.host].inside;
      fmt::print(
          "{}{}",
          row("link", inside.bandwidth_bytes_per_second / 1e9, result.link.bandwidth_bytes_per_second / 1e9, "GB/s"),
          row("latency", inside.latency_seconds * 1e6, result.link.latency_seconds * 1e6, "us"));
      measured.inside = result.link;
    }
    if (!options->out.empty()) {
      write_file_atomically(options->out, "cluster file", with_measured(text, options->cluster, measured));
      fmt::print("written to {}\n", options->out);
    }
    return ExitCode::done;
  };
}

}  // namespace hetsynth::cli
