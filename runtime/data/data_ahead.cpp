#include "runtime/data/data_ahead.h"

#include <algorithm>
#include <chrono>

namespace hetsynth {
namespace {

/// Handing work to another thread takes some 50 microseconds.
constexpr std::chrono::microseconds worth_a_thread{300};

}  // namespace

DataAhead::DataAhead(const BatchSource& source, int64_t last_step) : source_(source), last_step_(last_step) {}

DataAhead::~DataAhead() {
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  for (std::thread& maker : makers_) maker.join();
}

/// Makes a wanted part with the lock released.
void DataAhead::make(Part& part, std::unique_lock<std::mutex>& lock) const {
  part.state = Part::State::being_made;
  const int64_t step = part.step;
  lock.unlock();
  std::exception_ptr error;
  try {
    source_.fill(part.input, part.ranges, step, part.bytes);
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  part.error = error;
  part.state = Part::State::made;
  changed_.notify_all();
}

void DataAhead::serve() const {
  std::unique_lock lock(mutex_);
  while (!closing_) {
    const auto wanted =
        std::ranges::find_if(parts_, [](const auto& part) { return part.second.state == Part::State::wanted; });
    if (wanted == parts_.end())
      changed_.wait(lock);
    else
      make(wanted->second, lock);
  }
}

void DataAhead::fill(const Node& input, std::span<const Range> ranges, int64_t step, std::span<std::byte> out) const {
  Key key{input.id, {}};
  for (const Range& range : ranges) key.second.emplace_back(range.lo, range.hi);
  std::unique_lock lock(mutex_);
  askers_.insert(std::this_thread::get_id());
  const auto [found, fresh] = parts_.try_emplace(key);
  Part& part = found->second;
  if (fresh) part.input = input, part.ranges.assign(ranges.begin(), ranges.end());
  changed_.wait(lock, [&] { return part.state != Part::State::being_made; });
  if (part.step == step && part.state == Part::State::wanted) make(part, lock);
  if (part.step == step) {
    if (part.error) std::rethrow_exception(part.error);
    std::ranges::copy(part.bytes, out.begin());
  } else {
    part.state = Part::State::made;
    lock.unlock();
    const auto start = std::chrono::steady_clock::now();
    source_.fill(input, ranges, step, out);
    const bool long_enough = std::chrono::steady_clock::now() - start > worth_a_thread;
    lock.lock();
    worth_it_ = worth_it_ || long_enough;
  }
  if (!worth_it_ || step >= last_step_) return;
  part.bytes.resize(out.size());
  part.step = step + 1;
  part.state = Part::State::wanted;
  part.error = nullptr;
  if (makers_.size() < std::min(askers_.size(), parts_.size())) makers_.emplace_back([this] { serve(); });
  changed_.notify_all();
}

}  // namespace hetsynth
