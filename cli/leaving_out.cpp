#include "cli/leaving_out.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "dsl/base/error.h"
#include "dsl/ir/weight_columns.h"
#include "synth/planner/new_shares.h"

namespace hetsynth::cli {
namespace {

/// Parts that differ by less are left as they are: they are chosen in groups of columns.
constexpr double least_change = 0.02;
/// More of a device's columns cannot be left out: what remains would be no product any more.
constexpr double largest_part = 0.9;

[[noreturn]] void refuse(const std::string& message, const std::string& expected, const std::string& found,
                         const std::string& mend) {
  throw UserError({.tag = "--leave-out", .message = message, .expected = expected, .found = found, .mend = mend},
                  ExitCode::usage);
}

/// "b=0.25".
std::pair<std::string, double> device_and_part(const std::string& word) {
  const size_t sign = word.rfind('=');
  double part = -1;
  if (sign != std::string::npos && sign > 0) {
    const char* const end = word.data() + word.size();
    const auto [read, error] = std::from_chars(word.data() + sign + 1, end, part);
    if (error != std::errc() || read != end) part = -1;
  }
  if (!(part > 0 && part <= largest_part))
    refuse("no part of a device's columns", fmt::format("DEVICE=PART with a part above 0 and up to {}", largest_part),
           word, "write --leave-out slow=0.25 for a quarter of what the device slow multiplies");
  return {word.substr(0, sign), part};
}

std::map<std::string, double> parts_by_device(const RunOptions& options) {
  std::map<std::string, double> out;
  for (const std::string& word : options.leave_out) {
    const auto [device, part] = device_and_part(word);
    if (!out.emplace(device, part).second)
      refuse("a device leaves out one part of its columns", "each device once", word, "name it once");
  }
  return out;
}

}  // namespace

void check_leave_out(const RunOptions& options) {
  if (options.leave_out.empty()) return;
  if (options.balance != BalanceMode::lossy)
    throw UserError({.tag = "run",
                     .message = "--leave-out makes training lossy, which has to be asked for",
                     .expected = "--balance lossy beside it",
                     .found = fmt::format("--leave-out {}", fmt::join(options.leave_out, " --leave-out ")),
                     .mend = "give --balance lossy too, or leave --leave-out out"},
                    ExitCode::usage);
  parts_by_device(options);
}

void check_has_columns(const Compilation& c) {
  if (!weight_columns(c.reference).uses.empty()) return;
  throw UserError({.where = {c.model_options.file, 0, 0},
                   .tag = "balance",
                   .message = "the model has nothing that a slow device could leave out",
                   .expected = "matrix products of activations with parameters for --balance lossy",
                   .found = "none",
                   .mend = "balance without loss: --balance shares, or --balance plan"},
                  ExitCode::usage);
}

void check_lossy_devices(const RunOptions& options) {
  const Compilation& c = options.compilation;
  for (const Device& device : c.cluster.devices)
    if (device.kind == DeviceKind::cuda)
      throw UserError({.where = {c.cluster_file, 0, 0},
                       .tag = "balance",
                       .message = "GPUs cannot leave columns out of their products",
                       .expected = "a plan of cpu devices alone for --balance lossy",
                       .found = fmt::format("device {} is a GPU", device.name),
                       .mend = "balance without loss: --balance shares, or --balance plan"},
                      ExitCode::usage);
  std::vector<std::string> names;
  for (const PlanDevice& device : c.plan.devices) names.push_back(device.name);
  for (const auto& [device, part] : parts_by_device(options))
    if (std::ranges::find(names, device) == names.end())
      refuse("the plan does not run on this device", fmt::format("one of {}", fmt::join(names, ", ")), device,
             "name a device of the plan");
}

std::vector<double> left_out_by_hand(const RunOptions& options) {
  const std::map<std::string, double> parts = parts_by_device(options);
  std::vector<double> out;
  for (const PlanDevice& device : options.compilation.plan.devices) {
    const auto found = parts.find(device.name);
    out.push_back(found == parts.end() ? 0 : found->second);
  }
  return out;
}

LeavingOut::LeavingOut(const Compilation& compilation, Executor& executor, Job* job)
    : c_(compilation), executor_(executor), job_(job), ranks_(size_t(executor.ranks())) {}

std::vector<double> LeavingOut::with_all_columns(const StepReport& report) {
  std::vector<double> out;
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    const RankTimes& times = report.ranks[rank];
    const ColumnWork& columns = times.columns;
    const double seconds = times.compute_seconds + times.throttle_seconds;
    // A device that sleeps for its duty does so after computing, for all that it computed alike.
    const double stretched = times.compute_seconds > 0 ? seconds / times.compute_seconds : 1;
    const double left_out = columns.flops > 0 ? columns.left_out_flops / columns.flops : 0;
    const ComputeShares now = hetsynth::with_all_columns(seconds, stretched * columns.product_seconds,
                                                         stretched * columns.packing_seconds, columns.flops, left_out);
    const double newest = ranks_[rank].seconds > 0 ? 0.2 : 1;
    const auto fold = [&](double& mean, double value) { mean += newest * (value - mean); };
    fold(ranks_[rank].seconds, now.seconds);
    fold(ranks_[rank].products, now.products);
    if (left_out > 0) ranks_[rank].packing = now.packing;
    ranks_[rank].flops = now.flops;
    out.push_back(now.seconds);
  }
  return out;
}

Resizing LeavingOut::best(const std::vector<double>& seconds, const std::vector<double>& slowness,
                          double least_gain) const {
  std::vector<ComputeShares> ranks = ranks_;
  for (size_t rank = 0; rank < ranks.size(); ++rank) ranks[rank].seconds = seconds[rank];
  const auto step_seconds = [&](const std::vector<double>& times) {
    std::map<std::string, double> by_device;
    for (size_t rank = 0; rank < times.size(); ++rank)
      by_device[executor_.device_names()[rank]] = slowness[rank] * times[rank];
    return predicted_on(c_.reference, c_.plan, at_measured_speeds(c_.cluster, by_device)).step_seconds;
  };
  return best_resizing(ranks, step_seconds, least_gain);
}

bool LeavingOut::take(std::vector<double> parts) {
  if (job_) {
    const std::string own(reinterpret_cast<const char*>(parts.data()), parts.size() * sizeof(double));
    const std::string first = job_->exchange(own).front();
    HETSYNTH_CHECK(first.size() == own.size(), "processes of one run have equally many ranks");
    std::copy(first.begin(), first.end(), reinterpret_cast<char*>(parts.data()));
  }
  double change = 0;
  for (size_t rank = 0; rank < parts.size(); ++rank)
    change = std::max(change, std::abs(parts[rank] - executor_.left_out()[rank]));
  const bool ends = std::ranges::all_of(parts, [](double part) { return part == 0; });
  if (change == 0 || (change < least_change && !ends)) return false;
  executor_.leave_out(std::move(parts));
  return true;
}

}  // namespace hetsynth::cli
