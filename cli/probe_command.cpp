// hetsynth probe: measures this machine's cores or GPUs as the devices of a cluster file, under a launcher those of all
// hosts and the links between them, and writes what it measured beside what the file declares.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "cli/command.h"
#include "cli/job_command.h"
#include "dsl/base/counted.h"
#include "dsl/base/file.h"
#include "dsl/base/output_file.h"
#include "dsl/cluster/cluster_measured.h"
#include "pipeline/report.h"
#include "runtime/cuda/cuda_probe.h"
#include "runtime/probe.h"
#include "runtime/processes/link_probe.h"
#include "runtime/rank/rank_threads.h"

namespace hetsynth::cli {
namespace {

/// The host that this process measures.
std::string host_of(const Cluster& cluster, const std::string& given, const Job* job) {
  const int hosts = int(cluster.hosts.size());
  if (job && !given.empty())
    throw UserError({.tag = "--host",
                     .message = "under a launcher every process measures a host of its own",
                     .mend = "leave --host out, or run probe without the launcher"},
                    ExitCode::usage);
  if (job && job->count() != hosts)
    throw UserError({.where = {cluster.file},
                     .tag = "probe",
                     .message = "the launcher started another number of processes than the cluster has hosts",
                     .expected = counted(hosts, "process", "processes"),
                     .found = fmt::format("{}", job->count()),
                     .mend = fmt::format("mpirun -n {} --map-by node, with the hosts in the order of the file", hosts)},
                    ExitCode::usage);
  if (job) return cluster.hosts[size_t(job->process())].name;
  if (!given.empty()) return given;
  if (hosts > 1)
    throw UserError({.tag = "--host",
                     .message = "the cluster has several hosts",
                     .expected = "the name of the host that this machine is",
                     .mend = "run probe on each host, with --host, or on all of them under mpirun"},
                    ExitCode::usage);
  return cluster.hosts[0].name;
}

/// The devices of a host. Throws UserError for one that this machine cannot stand for.
std::vector<Device> devices_of(const Cluster& cluster, const std::string& host) {
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

/// A value as the cluster file had it, and as it was measured.
struct Row {
  const char* what;
  double before, measured;
  const char* unit;
};

std::vector<Row> speeds(const std::vector<Device>& devices, const DeviceSpeed& speed) {
  std::vector<Row> out;
  const auto row = [&](const char* what, double before, double measured, const char* unit) {
    out.push_back({what, before, measured, unit});
  };
  const Device& first = devices.front();
  auto taken = [&](OperatorClass operators) {
    return first.compute_speed(operators).flops_per_second / first.duty / 1e9;
  };
  row("matrix products", taken(OperatorClass::matmul), *speed.matmul_flops_per_second / 1e9, "GFLOP/s");
  row("call of a product", first.compute_speed(OperatorClass::matmul).call_seconds * first.duty * 1e6,
      *speed.matmul_call_seconds * 1e6, "us");
  row("loops", taken(OperatorClass::loop), *speed.loop_flops_per_second / 1e9, "GFLOP/s");
  const std::pair<const char*, std::optional<double> DeviceSpeed::*> by_type[] = {
      {"products in TF32", &DeviceSpeed::matmul_tf32_flops_per_second},
      {"products in bf16", &DeviceSpeed::matmul_bf16_flops_per_second},
      {"products in fp16", &DeviceSpeed::matmul_fp16_flops_per_second}};
  for (const auto& [what, value] : by_type)
    if (speed.*value) {
      const std::optional<double> before = first.measured.*value ? first.measured.*value : first.declared.*value;
      row(what, before.value_or(0) / 1e9, *(speed.*value) / 1e9, "GFLOP/s");
    }
  if (speed.convolution_flops_per_second)
    row("convolutions", taken(OperatorClass::convolution), *speed.convolution_flops_per_second / 1e9, "GFLOP/s");
  if (speed.loop_call_seconds)
    row("call of a loop", first.compute_speed(OperatorClass::loop).call_seconds * first.duty * 1e6,
        *speed.loop_call_seconds * 1e6, "us");
  row("memory", first.memory_bytes_per_second() / first.duty / 1e9, *speed.memory_bytes_per_second / 1e9, "GB/s");
  return out;
}

/// What a command tells: lines for people as they come, or an object at the end.
class Report {
 public:
  explicit Report(bool json) : json_(json) {}
  void tell(const std::string& host, const std::vector<Device>& devices, const std::vector<Row>& rows) {
    if (!json_) {
      fmt::print("{} of this machine at work at the same time\n  {:<22} {:>12} {:>12}\n", number_of(devices), "each",
                 "was taken", "measured");
      for (const Row& row : rows)
        fmt::print("  {:<22} {:>12.4g} {:>12.4g}  {}\n", row.what, row.before, row.measured, row.unit);
      return;
    }
    Json& measured = out_["hosts"].emplace_back(Json{{"host", host}, {"devices", devices.size()}})["measured"];
    for (const Row& row : rows)
      measured.push_back(
          {{"what", row.what}, {"was_taken", row.before}, {"measured", row.measured}, {"unit", row.unit}});
  }
  void tell(const Cluster& cluster, const LinkProbeResult& found) {
    if (!json_) return print_links(cluster, found);
    for (const PairLink& pair : found.pairs)
      out_["links"].push_back({{"first", cluster.hosts[size_t(pair.first)].name},
                               {"second", cluster.hosts[size_t(pair.second)].name},
                               {"bytes_per_second", pair.link.bandwidth_bytes_per_second},
                               {"latency_seconds", pair.link.latency_seconds}});
    for (size_t process = 0; process < found.message_bytes_per_second.size(); ++process)
      out_["message_bytes_per_second"][cluster.hosts[process].name] = found.message_bytes_per_second[process];
  }
  void written(const std::string& file) {
    if (json_)
      out_["file"] = file;
    else
      fmt::print("written to {}\n", file);
  }
  void end() const {
    if (json_) fmt::print("{}\n", out_.dump(2));
  }

 private:
  using Json = nlohmann::ordered_json;
  static void print_links(const Cluster& cluster, const LinkProbeResult& found);

  const bool json_;
  Json out_ = Json::object();
};

/// Measures the devices of the host, and tells what was found.
MeasuredHost measured_host(const Cluster& cluster, const std::string& host, double seconds, Report& report) {
  const std::vector<Device> devices = devices_of(cluster, host);
  const ProbeResult result = measure(devices, seconds);
  std::vector<Row> rows = speeds(devices, result.speed);
  MeasuredHost measured{.name = host, .device = result.speed, .inside = {}};
  if (devices.size() > 1) {
    const Link& inside = cluster.hosts[size_t(devices.front().host)].inside;
    rows.push_back(
        {"link", inside.bandwidth_bytes_per_second / 1e9, result.link.bandwidth_bytes_per_second / 1e9, "GB/s"});
    rows.push_back({"latency", inside.latency_seconds * 1e6, result.link.latency_seconds * 1e6, "us"});
    measured.inside = result.link;
  }
  report.tell(host, devices, rows);
  return measured;
}

/// Value by value the slower of two.
DeviceSpeed slower(DeviceSpeed a, const DeviceSpeed& b) {
  for (const SpeedField& field : speed_fields()) {
    std::optional<double>& value = a.*field.value;
    const std::optional<double>& other = b.*field.value;
    if (!value || !other) continue;
    value = field.dimension == Dimension::time ? std::max(*value, *other) : std::min(*value, *other);
  }
  return a;
}

/// Returns, value by value, the slower of what a host measured and of what another host of its entry did.
MeasuredHost slower(MeasuredHost own, const Cluster& before, int host) {
  for (const Device& device : before.devices)
    if (device.host == host) own.device = slower(own.device, device.measured);
  if (own.outside) own.outside = slower(*own.outside, before.outside(host));
  return own;
}

/// Of the entry of the file that stands for the host: its name without a number.
std::string entry_of(const std::string& host) { return host.substr(0, host.rfind('[')); }

/// Returns the fastest of the links of the host's pairs, since a pair is as fast as the slower of its hosts.
Link outside_of(const LinkProbeResult& found, int process) {
  Link out{0, HUGE_VAL};
  for (const PairLink& pair : found.pairs) {
    if (pair.first != process && pair.second != process) continue;
    out.bandwidth_bytes_per_second = std::max(out.bandwidth_bytes_per_second, pair.link.bandwidth_bytes_per_second);
    out.latency_seconds = std::min(out.latency_seconds, pair.link.latency_seconds);
  }
  return out;
}

/// The text with what all hosts measured, host after host. One entry of the file may stand for several hosts: it is as
/// slow as the slowest of them.
std::string with_all_measured(Job& job, const Cluster& cluster, std::string text, MeasuredHost own) {
  std::set<std::string> seen;
  for (int process = 0; process < job.count(); ++process) {
    const std::string& name = cluster.hosts[size_t(process)].name;
    if (process == job.process()) {
      if (seen.contains(entry_of(name))) own = slower(own, parse_cluster(text, cluster.file), process);
      text = with_measured(text, cluster.file, own);
    }
    text = job.exchange(text)[size_t(process)];
    seen.insert(entry_of(name));
  }
  return text;
}

void Report::print_links(const Cluster& cluster, const LinkProbeResult& found) {
  fmt::print("links between hosts, both directions at the same time\n");
  for (const PairLink& pair : found.pairs)
    fmt::print("  {:<22} {:<22} {:>10.4g} Mb/s {:>10.4g} us\n", cluster.hosts[size_t(pair.first)].name,
               cluster.hosts[size_t(pair.second)].name, pair.link.bandwidth_bytes_per_second * 8e-6,
               pair.link.latency_seconds * 1e6);
  fmt::print("bytes of messages that take a second of a core\n");
  for (size_t process = 0; process < found.message_bytes_per_second.size(); ++process)
    fmt::print("  {:<22} {:>10.4g} GB/s\n", cluster.hosts[process].name, found.message_bytes_per_second[process] / 1e9);
}

/// A device of several cores loses that much less of its computing.
void add_messages(const Cluster& cluster, double bytes_per_second_of_core, MeasuredHost* host) {
  for (const Device& device : cluster.devices)
    if (cluster.hosts[size_t(device.host)].name == host->name && device.kind == DeviceKind::cpu)
      host->device.message_bytes_per_second = bytes_per_second_of_core * std::max(1, device.cores);
}

const OutputKind cluster_file_kind{"cluster file", begins_with("", {"[[host"})};

struct ProbeCommand {
  std::string cluster, out, host;
  double seconds = 0.4;
  bool links = false;
  bool json = false;
};

ExitCode probe(const ProbeCommand& options, Job* job) {
  if (!options.out.empty() && (!job || job->leads())) check_output(options.out, cluster_file_kind);
  if (options.links && !job)
    throw UserError({.tag = "--links",
                     .message = "links between hosts are measured by processes on them",
                     .mend = "mpirun -n HOSTS hetsynth probe CLUSTER --links"},
                    ExitCode::usage);
  std::string text = read_file(options.cluster, "cluster file", max_cluster_file_bytes);
  const Cluster cluster = parse_cluster(text, options.cluster);
  Report report(options.json);
  MeasuredHost own{.name = host_of(cluster, options.host, job), .device = {}, .inside = {}, .adds = options.links};
  if (!options.links) own = measured_host(cluster, own.name, options.seconds, report);
  if (job) {
    const LinkProbeResult links = probe_links(*job, {.seconds = options.seconds});
    report.tell(cluster, links);
    if (job->count() > 1) own.outside = outside_of(links, job->process());
    add_messages(cluster, links.message_bytes_per_second[size_t(job->process())], &own);
    text =
        with_measured_between(with_all_measured(*job, cluster, std::move(text), own), options.cluster, links.slowest);
  } else {
    text = with_measured(text, options.cluster, own);
  }
  if (!options.out.empty() && (!job || job->leads())) {
    write_output(options.out, cluster_file_kind, text);
    report.written(options.out);
  }
  report.end();
  return ExitCode::done;
}

}  // namespace

Command add_probe(CLI::App& app) {
  auto options = std::make_shared<ProbeCommand>();
  CLI::App* command = app.add_subcommand(
      "probe",
      "Measure this machine's cores or GPUs as the devices of a cluster file; under mpirun with a process for each "
      "host, those of all hosts and the links between them");
  command->add_option("cluster", options->cluster, "Cluster file (TOML)")->required();
  command->add_option("-o,--output", options->out,
                      "Write the cluster file with the measured values to this file; the same name is allowed");
  command->add_option("--host", options->host,
                      "Which of the cluster's hosts this machine is; needed if there are several");
  command->add_flag("--links", options->links, "Under mpirun: only the links between hosts, and what messages cost");
  command->add_option("--seconds", options->seconds, "Duration of each measurement")
      ->capture_default_str()
      ->check(above_zero());
  command->add_flag("--json", options->json, "Report as JSON: of several hosts the first one's own devices, and links");
  return [options]() { return run_in_job([&](Job* job) { return probe(*options, job); }); };
}

}  // namespace hetsynth::cli
