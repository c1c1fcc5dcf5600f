#include "verify/source/execute/decisions.h"

namespace hetsynth::source {

void Decisions::begin(int64_t byte) {
  byte_ = byte;
  log_.clear();
  made_.clear();
  traces_.clear();
}

/// Knuth's multiplicative hashing.
void Decisions::add(uint64_t& hash, uint64_t how) {
  hash = (hash + how) * 0x9e3779b97f4a7c15u;
  hash ^= hash >> 29;
}

void Decisions::note(const Expression& condition, int64_t a, int64_t b, bool holds, int thread) {
  const uint64_t how = uint64_t(a < b ? 1 : a == b ? 2 : 3) + (holds ? 4 : 0);
  log_.push_back({&condition, how, thread});
  add(made_[{&condition, false}], how);
}

void Decisions::written(int array, int64_t at, int thread) {
  if (log_.empty() && traces_.empty()) return;
  std::map<const Expression*, uint64_t> by_condition;
  for (const Entry& entry : log_)
    if (entry.thread == thread) add(by_condition[entry.condition], entry.how);
  traces_[{array, at}].assign(by_condition.begin(), by_condition.end());
  if (array != arena || at != byte_) return;
  std::erase_if(made_, [](const auto& one) { return one.first.second; });
  for (const auto& [condition, how] : by_condition) made_[{condition, true}] = how;
}

void Decisions::read(int array, int64_t at) {
  if (traces_.empty()) return;
  const auto found = traces_.find({array, at});
  if (found == traces_.end()) return;
  for (const auto& [condition, how] : found->second) log_.push_back({condition, how, 0});
}

}  // namespace hetsynth::source
