// Checkpoints that outlive the next one: the best by validation, and the last few.
#pragma once
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hetsynth {

/// Which checkpoints are kept beside the newest, which stands at the path that the user named.
struct KeepRule {
  bool best = false;  ///< that with the lowest validation loss, as best_checkpoint
  int64_t last = 0;   ///< the last so many, each as checkpoint_of_step; 0: none

  bool operator==(const KeepRule&) const = default;
};

/// The rule of "last", "best", or a number from 1 on. Throws UserError (usage) for anything else.
KeepRule keep_rule(const std::string& text);

/// "run.safetensors.best".
std::string best_checkpoint(const std::string& path);
/// "run.safetensors.1200".
std::string checkpoint_of_step(const std::string& path, int64_t next_step);
/// 1200 of ".1200", as such a name ends; nothing of any other end.
std::optional<int64_t> step_of_name(std::string_view end);

class KeptCheckpoints {
 public:
  KeptCheckpoints(std::string path, KeepRule rule) : path_(std::move(path)), rule_(rule) {}
  /// After a checkpoint was written at the path: gives it its further names, and removes those of this run that are too
  /// many. The file is shared, not copied, where the file system can do that (hard links). Returns the further names.
  /// Throws UserError if it refuses; then what was there is as it was.
  std::vector<std::string> written(int64_t next_step, bool is_best);
  /// What this run has written and left there: the newest checkpoint, then those that are kept, the best or the oldest
  /// first.
  std::vector<std::string> files() const;

 private:
  std::string path_;
  KeepRule rule_;
  bool is_written_ = false, has_best_ = false;
  std::deque<std::string> kept_;  ///< of this run, oldest first
};

/// {"step":99,"event":"checkpoint","next_step":100,"file":"run.safetensors","kept":["run.safetensors.best"]}: a record
/// of the step log. `names`: what KeptCheckpoints::written returned.
std::string checkpoint_record(const std::string& path, int64_t next_step, const std::vector<std::string>& names);

}  // namespace hetsynth
