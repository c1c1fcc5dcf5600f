#include "cli/device_joins.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace hetsynth::cli {
namespace {

/// Names that need not be asked for: of devices that may be used, and of hosts all of whose devices may be.
std::vector<std::string> names_of(const Cluster& cluster, const std::string& file) {
  std::vector<std::string> out;
  std::set<std::string> devices;
  for (const Device& device : cluster.devices) {
    out.push_back(device.name);
    devices.insert(device.name);
  }
  const Cluster whole = load_cluster(file);
  for (size_t host = 0; host < whole.hosts.size(); ++host) {
    const bool has_others = std::ranges::any_of(whole.devices, [&](const Device& device) {
      return device.host == int(host) && !devices.contains(device.name);
    });
    if (!has_others) out.push_back(whole.hosts[host].name);
  }
  return out;
}

/// The devices that may be used, as the file describes them, and those that are to join.
Cluster with_devices(const Cluster& now, const JoinRequest& request) {
  Cluster out = load_cluster(request.cluster_file);
  std::erase_if(out.devices, [&](const Device& device) {
    return device.name != request.host && out.hosts[size_t(device.host)].name != request.host &&
           std::ranges::find(now.devices, device.name, &Device::name) == now.devices.end();
  });
  return out;
}

}  // namespace

DeviceJoins::DeviceJoins(const RunOptions& options) {
  const Compilation& c = options.compilation;
  if (!plans_anew(options.balance) || c.cluster_file.empty() || options.train.checkpoint.empty()) return;
  cluster_file_ = c.cluster_file;
  desk_.emplace(options.train.checkpoint, ElasticNotice{.file = {},
                                                        .run = {},
                                                        .version = {},
                                                        .model = c.model_options.file,
                                                        .settings = c.model_options.settings(),
                                                        .program = options.program,
                                                        .cluster_file = c.cluster_file,
                                                        .takes_devices = true,
                                                        .hosts = names_of(c.all_devices, c.cluster_file),
                                                        .answers = {}});
}

bool DeviceJoins::look(Compilation& c, int64_t step, BetweenSteps& out) {
  const auto now = std::chrono::steady_clock::now();
  if (!desk_ || is_looked_for_ || now - looked_ < std::chrono::seconds(1)) return false;
  looked_ = now;
  for (JoinRequest& request : desk_->new_requests()) waiting_.push_back(std::move(request));
  std::erase_if(waiting_, [&](const JoinRequest& request) { return !desk_->is_waiting(request); });
  if (waiting_.empty()) return false;
  before_ = c.all_devices;
  is_looked_for_ = true;
  is_taken_ = false;
  try {
    c.all_devices = with_devices(before_, waiting_.front());
  } catch (const UserError& error) {
    refuse(c, error.diagnostic().message);
    return false;
  }
  out.lines.push_back(fmt::format("balance: {} asks to join after step {}", waiting_.front().host, step));
  return true;
}

bool DeviceJoins::take() {
  if (!is_looked_for_) return true;
  is_taken_ = desk_->take(waiting_.front());
  return is_taken_;
}

void DeviceJoins::divided(Compilation& c, const Plan& plan, int64_t next_step) {
  if (!is_looked_for_) return;
  const bool is_used = std::ranges::any_of(plan.devices, [&](const PlanDevice& device) {
    return std::ranges::find(before_.devices, device.name, &Device::name) == before_.devices.end();
  });
  if (!is_used) return refuse(c, "another plan is faster, and does not use it");
  cluster_file_ = waiting_.front().cluster_file;
  desk_->joined(waiting_.front(), next_step);
  desk_->announce(names_of(c.all_devices, cluster_file_), cluster_file_);
  waiting_.erase(waiting_.begin());
  is_looked_for_ = false;
}

void DeviceJoins::kept(Compilation& c, const std::string& why) {
  if (is_looked_for_) refuse(c, why);
}

void DeviceJoins::refuse(Compilation& c, const std::string& why) {
  c.all_devices = std::move(before_);
  if (is_taken_ || desk_->take(waiting_.front()))
    desk_->refuse(waiting_.front(), UserError({.tag = "join",
                                               .message = "the run goes on without the device: " + why,
                                               .mend = "`hetsynth plan` with the cluster file says what it considers"},
                                              ExitCode::infeasible));
  waiting_.erase(waiting_.begin());
  is_looked_for_ = false;
}

}  // namespace hetsynth::cli
