#include "runtime/training/step_log.h"

#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "dsl/base/error.h"
#include "dsl/base/file.h"
#include "dsl/base/new_file.h"
#include "dsl/base/output_file.h"
#include "runtime/rank/arena.h"

namespace hetsynth {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_log(const std::string& path, const std::string& message, const std::string& mend,
                             ExitCode code = ExitCode::invalid_input) {
  throw UserError({{path, 0, 0}, "log", message, "", "", mend}, code);
}

/// The first record of a log of ours begins with the number of its step.
const OutputKind step_log_kind{"step log", begins_with("{\"step\":")};

/// A run that was killed may have left half a record.
bool ends_in_newline(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  file.seekg(-1, std::ios::end);
  return file.get() == '\n';
}

bool is_filled(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) && fs::file_size(path, error) > 0;
}

[[noreturn]] void fail_to_write(const std::string& path) {
  refuse_log(path, "the file cannot be written", "name a file in a folder that exists and can be written",
             ExitCode::failure);
}

}  // namespace

void check_step_log(const std::string& path) {
  check_replaceable(path, step_log_kind);
  std::error_code error;
  if (!fs::exists(path, error)) return check_writable(path, "step log");
  if (fs::is_directory(path, error) || ::access(path.c_str(), W_OK) != 0) fail_to_write(path);
}

std::string json_of_step(const StepReport& report, const std::vector<std::string>& devices, const WorkUnit& unit,
                         const std::vector<int64_t>& arena_bytes, const OptimizerReport& optimizer,
                         std::optional<double> joules) {
  nlohmann::ordered_json out;
  out["step"] = report.step;
  out["loss"] = std::isfinite(report.loss) ? nlohmann::ordered_json(report.loss) : nlohmann::ordered_json(nullptr);
  for (const auto& [name, value] : report.metrics)
    out["metrics"][name] = std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
  if (optimizer.learning_rate) out["learning_rate"] = *optimizer.learning_rate;
  if (optimizer.loss_scale) out["loss_scale"] = *optimizer.loss_scale;
  if (optimizer.skipped_steps) out["skipped_steps"] = *optimizer.skipped_steps;
  out["seconds"] = report.seconds;
  out["elapsed_seconds"] = report.elapsed_seconds;
  out[unit.name + "_per_second"] = report.seconds > 0 ? static_cast<double>(unit.per_step) / report.seconds : 0.0;
  for (size_t i = 0; i < devices.size(); ++i) {
    const RankTimes& times = report.ranks[i];
    out["idle"][devices[i]] = report.seconds > 0 ? times.idle_seconds / report.seconds : 0.0;
    out["compute_seconds"][devices[i]] = times.compute_seconds;
    out["data_seconds"][devices[i]] = times.data_seconds;
    out["communication_bytes"][devices[i]] = times.moved_bytes;
    out["memory_bytes"][devices[i]] = arena_bytes[i];
  }
  if (report.left_out() > 0)
    for (size_t i = 0; i < devices.size(); ++i) {
      const ColumnWork& columns = report.ranks[i].columns;
      out["left_out"][devices[i]] = columns.flops > 0 ? columns.left_out_flops / columns.flops : 0.0;
    }
  out["resident_bytes"] = peak_resident_bytes();
  if (joules) out["energy_joules"] = *joules;
  return out.dump();
}

StepLog::StepLog(const std::string& path, std::vector<std::string> devices, WorkUnit unit,
                 std::vector<int64_t> arena_bytes)
    : path_(path), devices_(std::move(devices)), unit_(std::move(unit)), arena_bytes_(std::move(arena_bytes)) {
  check_replaceable(path, step_log_kind);
  const bool torn = is_filled(path) && !ends_in_newline(path);
  std::optional<OpenForWriting> pipe;
  if (std::error_code error; fs::is_fifo(path, error)) pipe.emplace(path, "step log");
  file_.open(path, std::ios::binary | std::ios::app);
  if (!file_) fail_to_write(path);
  if (torn) file_ << '\n';
}

void StepLog::show(const std::vector<std::string>& devices, const std::vector<int64_t>& arena_bytes) {
  devices_ = devices;
  arena_bytes_ = arena_bytes;
}

void StepLog::add(const StepReport& report, const OptimizerReport& optimizer) {
  add(json_of_step(report, devices_, unit_, arena_bytes_, optimizer, energy_.joules()));
}

void StepLog::add(const std::string& record) {
  file_ << record << '\n' << std::flush;
  if (!file_) refuse_log(path_, "the file cannot be written any more", "is the disk full?", ExitCode::failure);
}

}  // namespace hetsynth
