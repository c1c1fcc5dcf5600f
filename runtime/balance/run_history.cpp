#include "runtime/balance/run_history.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "dsl/base/error.h"
#include "dsl/base/file.h"
#include "runtime/rank/median.h"

namespace hetsynth {
namespace {

using Json = nlohmann::json;

constexpr size_t steps_before = 20, steps_after = 50;

struct Step {
  int64_t number = 0;
  double seconds = 0, elapsed = 0;
};

/// One run while it is read.
struct Reading {
  std::vector<Step> steps;
  RunHistory history;
};

[[noreturn]] void refuse(const std::string& path, int line, const std::string& why) {
  throw UserError({.where = {path, line, 0},
                   .tag = "log",
                   .message = "this is no log of a run",
                   .expected = "a line of JSON for each step, as run --log-json writes it",
                   .found = why});
}

double number(const Json& record, const char* key) {
  const auto found = record.find(key);
  return found == record.end() || found->is_null() ? 0 : found->get<double>();
}

void take_event(const Json& record, RunHistory& out) {
  const std::string event = record.at("event");
  const int64_t step = record.at("step");
  if (event == "speed") {
    out.speeds.push_back({step, record.at("device"), number(record, "speed"), number(record, "before")});
  } else if (event == "kept") {
    out.kept.push_back({step, record.at("why")});
  } else if (event == "remedy") {
    RemedyRecord remedy{.step = step,
                        .taken = record.at("taken"),
                        .now_seconds = number(record, "predicted_now"),
                        .resized_seconds = number(record, "predicted_resized"),
                        .divided_seconds = number(record, "predicted_divided"),
                        .work_left_out = number(record, "work_left_out"),
                        .left_out = {}};
    for (const auto& [device, part] : record.at("left_out").items()) remedy.left_out[device] = part.get<double>();
    out.remedies.push_back(std::move(remedy));
  } else if (event == "division") {
    DivisionRecord division;
    division.step = step;
    division.asked_at = record.value("asked_at_step", step);
    division.changed = record.value("changed", "");
    division.predicted_before = number(record, "predicted_now");
    division.predicted_after = number(record, "predicted_next");
    for (const auto& [device, share] : record.at("shares").items()) division.shares[device] = share.get<double>();
    out.divisions.push_back(std::move(division));
  } else if (event == "validation") {
    ValidationRecord measured;
    measured.step = step;
    if (!record.at("validation_loss").is_null()) measured.loss = record.at("validation_loss").get<double>();
    measured.best = record.value("best", false);
    measured.batches = record.value("batches", int64_t(0));
    measured.samples = record.value("samples", int64_t(0));
    measured.seconds = number(record, "seconds");
    if (const auto metrics = record.find("metrics"); metrics != record.end())
      for (const auto& [name, value] : metrics->items())
        if (!value.is_null()) measured.metrics[name] = value.get<double>();
    out.validations.push_back(std::move(measured));
  } else if (event == "checkpoint") {
    out.checkpoints.push_back({step, record.at("file"), record.value("kept", std::vector<std::string>())});
  }
}

double median_seconds(std::vector<Step>::const_iterator first, std::vector<Step>::const_iterator last) {
  std::vector<double> seconds;
  for (; first != last; ++first) seconds.push_back(first->seconds);
  return seconds.empty() ? 0 : median(std::move(seconds));
}

/// What each division brought, by the steps from the one before it to the one after it.
void measure(const std::vector<Step>& steps, RunHistory& out) {
  const auto first_after = [&](int64_t step) {
    return std::ranges::partition_point(steps, [&](const Step& s) { return s.number <= step; });
  };
  for (size_t i = 0; i < out.divisions.size(); ++i) {
    DivisionRecord& division = out.divisions[i];
    // Steps before it are those at the speeds that led to it.
    int64_t since = i > 0 ? out.divisions[i - 1].step : -1;
    for (const SpeedRecord& speed : out.speeds)
      if (speed.step < division.step) since = std::max(since, speed.step);
    const auto begin = first_after(since);
    division.wanted_since = since < 0 ? division.asked_at : std::max(since, i > 0 ? out.divisions[i - 1].step : since);
    const auto at = first_after(division.step);
    const auto end = i + 1 < out.divisions.size() ? first_after(out.divisions[i + 1].step) : steps.end();
    division.steps = end - at;
    division.before_seconds = median_seconds(at - std::min(at - begin, ptrdiff_t(steps_before)), at);
    division.after_seconds = median_seconds(at, at + std::min(end - at, ptrdiff_t(steps_after)));
    if (at != steps.begin() && at != steps.end())
      division.pause_seconds = std::max(0.0, at->elapsed - std::prev(at)->elapsed - at->seconds);
  }
}

RunHistory finished(Reading reading) {
  RunHistory out = std::move(reading.history);
  if (reading.steps.empty()) return out;
  out.first_step = reading.steps.front().number;
  out.steps = int64_t(reading.steps.size());
  out.seconds = reading.steps.back().elapsed;
  out.step_seconds = median_seconds(reading.steps.begin(), reading.steps.end());
  measure(reading.steps, out);
  return out;
}

}  // namespace

const ValidationRecord* RunHistory::best_validation() const {
  const ValidationRecord* out = nullptr;
  for (const ValidationRecord& measured : validations)
    if (measured.loss && (!out || *measured.loss < *out->loss)) out = &measured;
  return out;
}

double RunHistory::lost_by_delay() const {
  double out = 0;
  for (const DivisionRecord& division : divisions)
    if (division.after_seconds > 0 && division.after_seconds < division.before_seconds)
      out += double(division.step - division.wanted_since) * (division.before_seconds - division.after_seconds);
  return out;
}

std::vector<RunHistory> read_history(const std::string& path) {
  if (std::filesystem::exists(path)) check_regular_file(path, "log");
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw UserError({.where = {path},
                     .tag = "log",
                     .message = "the file cannot be read",
                     .mend = "name a file that run --log-json has written"});
  std::vector<RunHistory> out;
  Reading reading;
  std::string line;
  for (int number_of_line = 1; std::getline(file, line); ++number_of_line) {
    if (line.empty()) continue;
    const Json record = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (record.is_discarded() && file.peek() == std::ifstream::traits_type::eof() && number_of_line > 1) break;
    if (!record.is_object() || !record.contains("step")) refuse(path, number_of_line, line.substr(0, 60));
    try {
      if (record.contains("event")) {
        take_event(record, reading.history);
        continue;
      }
      const Step step{record.at("step"), number(record, "seconds"), number(record, "elapsed_seconds")};
      if (!reading.steps.empty() && step.number <= reading.steps.back().number)
        out.push_back(finished(std::exchange(reading, {})));
      reading.steps.push_back(step);
      if (!record.contains("left_out")) continue;
      ++reading.history.lossy_steps;
      for (const auto& [device, part] : record.at("left_out").items())
        reading.history.most_left_out = std::max(reading.history.most_left_out, part.get<double>());
    } catch (const Json::exception& error) {
      refuse(path, number_of_line, error.what());
    }
  }
  if (!reading.steps.empty()) out.push_back(finished(std::move(reading)));
  return out;
}

}  // namespace hetsynth
