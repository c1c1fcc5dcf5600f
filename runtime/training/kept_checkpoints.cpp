#include "runtime/training/kept_checkpoints.h"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "dsl/base/error.h"
#include "dsl/base/new_file.h"
#include "runtime/training/checkpoint.h"

namespace hetsynth {

KeepRule keep_rule(const std::string& text) {
  if (text == "last") return {};
  if (text == "best") return {.best = true};
  KeepRule out;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out.last);
  if (error == std::errc() && end == text.data() + text.size() && out.last >= 1) return out;
  throw UserError({.tag = "--keep",
                   .message = "this does not say which checkpoints to keep",
                   .expected = "last, best, or how many of the last",
                   .found = text},
                  ExitCode::usage);
}

std::string best_checkpoint(const std::string& path) { return path + ".best"; }

std::string checkpoint_of_step(const std::string& path, int64_t next_step) {
  return fmt::format("{}.{}", path, next_step);
}

std::optional<int64_t> step_of_name(std::string_view end) {
  int64_t step = 0;
  if (!end.starts_with('.')) return std::nullopt;
  const auto [last, error] = std::from_chars(end.data() + 1, end.data() + end.size(), step);
  if (error != std::errc() || last != end.data() + end.size() || end != fmt::format(".{}", step)) return std::nullopt;
  return step;
}

std::vector<std::string> KeptCheckpoints::written(int64_t next_step, bool is_best) {
  is_written_ = true;
  std::vector<std::string> names;
  if (rule_.best && is_best) {
    names.push_back(best_checkpoint(path_));
    share_file(path_, names.back(), "checkpoint");
    has_best_ = true;
  }
  if (rule_.last == 0) return names;
  const std::string name = checkpoint_of_step(path_, next_step);
  check_replaceable(name, checkpoint_kind);
  share_file(path_, name, "checkpoint");
  if (kept_.empty() || kept_.back() != name) kept_.push_back(name);
  for (; int64_t(kept_.size()) > rule_.last; kept_.pop_front()) {
    std::error_code ignored;
    std::filesystem::remove(kept_.front(), ignored);
  }
  names.push_back(name);
  return names;
}

std::vector<std::string> KeptCheckpoints::files() const {
  if (!is_written_) return {};
  std::vector<std::string> out = {path_};
  if (has_best_) out.push_back(best_checkpoint(path_));
  out.insert(out.end(), kept_.begin(), kept_.end());
  return out;
}

std::string checkpoint_record(const std::string& path, int64_t next_step, const std::vector<std::string>& names) {
  return nlohmann::ordered_json{
      {"step", next_step - 1}, {"event", "checkpoint"}, {"next_step", next_step}, {"file", path}, {"kept", names}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace hetsynth
