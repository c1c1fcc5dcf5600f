#include "runtime/training/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/processes/mpi.h"
#include "runtime/rank/throttle.h"

namespace hetsynth {
namespace {

constexpr double newest_weight = 0.1;
// More devices than this are summed up instead of listed.
constexpr size_t listed_devices = 4;

}  // namespace

WorkUnit work_unit(const Program& program) {
  const Node* first = nullptr;
  for (const Node& node : program.nodes) {
    if (node.kind != NodeKind::input || node.type.shape.empty()) continue;
    // Of all micro-batches together; the first one stands for them.
    const int64_t batches =
        node.micro_batch.samples_per_step ? node.micro_batch.samples_per_step / node.type.shape[0] : 1;
    switch (node.data.kind) {
      case DataSource::Kind::text_tokens:
      case DataSource::Kind::tokens:
      case DataSource::Kind::pair_target:
        return {"tokens", batches * element_count(node.type.shape)};
      default:
        break;
    }
    if (!first) first = &node;
  }
  if (!first) return {"samples", 0};
  return {"samples", std::max(first->micro_batch.samples_per_step, sample_count(*first))};
}

std::string text_of_rate(double per_second) {
  constexpr const char* units[] = {"", "k", "M", "G"};
  size_t unit = 0;
  while (per_second >= 999.5 && unit + 1 < std::size(units)) per_second /= 1000, ++unit;
  const int decimals = per_second >= 99.95 ? 0 : per_second >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f}{}", per_second, decimals, units[unit]);
}

std::string text_of_duration(double seconds) {
  const auto whole = static_cast<int64_t>(std::ceil(seconds - 0.01));  // not a second more for rounding
  if (whole < 60) return fmt::format("{}s", whole);
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  return fmt::format("{}h{:02}m", whole / 3600, whole % 3600 / 60);
}

ProgressOptions progress_for_standard_output() {
  ProgressOptions options;
  // A launcher gives its processes terminals of their own, wherever it writes what they say.
  options.terminal = isatty(STDOUT_FILENO) != 0 && launched_processes() < 2;
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) options.width = size.ws_col;
  return options;
}

ProgressState::ProgressState(std::vector<std::string> devices, WorkUnit unit, int64_t last_step)
    : devices_(std::move(devices)), unit_(std::move(unit)), last_step_(last_step), idle_sum_(devices_.size()) {}

void ProgressState::show(const std::vector<std::string>& devices) {
  if (devices == devices_) return;
  devices_ = devices;
  idle_sum_.assign(devices.size(), 0);
}

void ProgressState::add(const StepReport& report) {
  step_ = report.step;
  loss_ = report.loss;
  metrics_ = report.metrics;
  const auto fold = [](double& sum, double value) { sum = (1 - newest_weight) * sum + newest_weight * value; };
  fold(weight_, 1);
  fold(loss_sum_, report.loss);
  fold(seconds_sum_, report.seconds);
  double data = 0;
  for (size_t i = 0; i < idle_sum_.size(); ++i) {
    fold(idle_sum_[i], report.ranks[i].idle_seconds);
    data = std::max(data, report.ranks[i].data_seconds);
  }
  fold(data_sum_, data);
  left_out_.clear();
  for (const RankTimes& rank : report.ranks)
    left_out_.push_back(rank.columns.flops > 0 ? rank.columns.left_out_flops / rank.columns.flops : 0);
}

double ProgressState::smoothed_loss() const { return loss_sum_ / weight_; }
double ProgressState::units_per_second() const { return static_cast<double>(unit_.per_step) * weight_ / seconds_sum_; }

std::string ProgressState::idle_text() const {
  const auto percent = [&](double idle) { return static_cast<int>(std::lround(100 * idle / seconds_sum_)); };
  std::string out = "idle";
  if (devices_.size() > listed_devices) {
    const auto [least, most] = std::ranges::minmax_element(idle_sum_);
    return out + fmt::format(" {}-{}% (most: {})", percent(*least), percent(*most),
                             devices_[static_cast<size_t>(most - idle_sum_.begin())]);
  }
  for (size_t i = 0; i < devices_.size(); ++i) out += fmt::format(" {} {}%", devices_[i], percent(idle_sum_[i]));
  return out;
}

std::string ProgressState::data_text() const {
  const double percent = 100 * data_sum_ / seconds_sum_;
  return percent < 1 ? "" : fmt::format("  data {:.0f}%", percent);
}

std::string ProgressState::left_out_text() const {
  std::string out;
  size_t devices = 0;
  for (size_t i = 0; i < std::min(left_out_.size(), devices_.size()); ++i)
    if (left_out_[i] > 0 && ++devices <= listed_devices)
      out += fmt::format(" {} {:.0f}%", devices_[i], 100 * left_out_[i]);
  if (devices > listed_devices)
    out = fmt::format(" {} devices up to {:.0f}%", devices, 100 * *std::ranges::max_element(left_out_));
  return out.empty() ? "" : "  lossy" + out;
}

std::string ProgressState::line() const {
  const std::string last = std::to_string(last_step_);
  std::string out =
      fmt::format("step {:>{}}/{}  loss {:.4f} (avg {:.4f})", step_, last.size(), last, loss_, smoothed_loss());
  for (const auto& [name, value] : metrics_) out += fmt::format("  {} {:.4f}", name, value);
  if (unit_.per_step > 0) out += fmt::format("  {} {}/s", text_of_rate(units_per_second()), unit_.name);
  if (devices_.size() > 1) out += "  " + idle_text();
  out += data_text() + left_out_text();
  const double left = static_cast<double>(last_step_ - step_) * seconds_sum_ / weight_;
  if (step_ < last_step_) out += "  left " + text_of_duration(left);
  return out;
}

Progress::Progress(std::ostream& out, const ProgressOptions& options, ProgressState state, int64_t first_step,
                   int64_t last_step)
    : out_(out),
      options_(options),
      state_(std::move(state)),
      first_step_(first_step),
      last_step_(last_step),
      printed_at_(wall_seconds()) {
  if (options_.every_steps <= 0) options_.every_steps = std::max<int64_t>(1, (last_step - first_step + 1) / 20);
}

void Progress::add(const StepReport& report) {
  state_.add(report);
  const double now = wall_seconds();
  const bool last = report.step == last_step_;
  if (options_.terminal) {
    constexpr double refresh_seconds = 0.1;  // faster is only flicker
    if (!last && line_open_ && now - printed_at_ < refresh_seconds) return;
    out_ << "\r\x1b[2K" << state_.line().substr(0, static_cast<size_t>(std::max(options_.width - 1, 1))) << std::flush;
    line_open_ = true;
    printed_at_ = now;
    return;
  }
  const bool regular = (report.step - first_step_) % options_.every_steps == 0;
  if (!regular && !last && now - printed_at_ < options_.every_seconds) return;
  out_ << state_.line() << std::endl;
  printed_at_ = now;
}

void Progress::finish() {
  if (!line_open_) return;
  // The line may be older than the last step.
  out_ << "\r\x1b[2K" << state_.line().substr(0, static_cast<size_t>(std::max(options_.width - 1, 1))) << std::endl;
  line_open_ = false;
}

}  // namespace hetsynth
