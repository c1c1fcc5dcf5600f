#include "runtime/data/data_ahead.h"

#include <algorithm>
#include <chrono>

namespace hetsynth {
namespace {

/// To wake a thread up takes some 50 microseconds, once for half of the slots; to copy what it made takes less than
/// one.
constexpr std::chrono::microseconds worth_a_thread{2};

/// Of small parts so many steps are made ahead, of larger ones as many as these bytes hold, and one at least.
constexpr size_t most_steps_ahead = 16, most_bytes_ahead = size_t{1} << 20;

size_t steps_ahead(size_t bytes) {
  return std::clamp<size_t>(most_bytes_ahead / std::max<size_t>(bytes, 1), 1, most_steps_ahead);
}

}  // namespace

DataAhead::DataAhead(const BatchSource& source, int64_t last_step) : source_(source), last_step_(last_step) {}

DataAhead::~DataAhead() {
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
  }
  wanted_.notify_all();
  for (std::thread& maker : makers_) maker.join();
}

/// Makes what is wanted with the lock released.
void DataAhead::make(const Part& part, Slot& slot, std::unique_lock<std::mutex>& lock) const {
  slot.state = Slot::State::being_made;
  const int64_t step = slot.step;
  lock.unlock();
  std::exception_ptr error;
  try {
    source_.fill(part.input, part.ranges, step, slot.bytes);
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  slot.error = error;
  slot.state = Slot::State::made;
  made_.notify_all();
}

void DataAhead::serve() const {
  std::unique_lock lock(mutex_);
  while (!closing_) {
    if (queue_.empty()) {
      ++idle_makers_;
      wanted_.wait(lock);
      --idle_makers_;
      continue;
    }
    const auto [part, slot] = queue_.front();
    queue_.pop_front();
    // Who needed it first may have made it.
    if (slot->state == Slot::State::wanted) make(*part, *slot, lock);
  }
}

DataAhead::Part& DataAhead::part_of(const Node& input, std::span<const Range> ranges, size_t bytes) const {
  Key key{input.id, {}};
  for (const Range& range : ranges) key.second.emplace_back(range.lo, range.hi);
  const auto [found, fresh] = parts_.try_emplace(std::move(key));
  Part& part = found->second;
  if (fresh) {
    part.input = input;
    part.ranges.assign(ranges.begin(), ranges.end());
    part.slots.resize(steps_ahead(bytes));
  }
  return part;
}

/// Gives slots that nobody reads any more to the steps that come next. A maker is woken up when half of them are to be
/// made.
void DataAhead::want_next(Part& part) const {
  const auto ahead = static_cast<int64_t>(part.slots.size());
  int64_t wanted = 0;
  for (int64_t step = part.step + 1; step <= std::min(part.step + ahead, last_step_); ++step) {
    Slot& slot = part.at(step);
    if (slot.step != step) {
      const bool is_read_again = slot.step == part.step && part.read < part.usual_read;
      if (slot.state == Slot::State::being_made || slot.readers > 0 || is_read_again) continue;
      const bool is_queued = slot.state == Slot::State::wanted;
      slot.step = step;
      slot.state = Slot::State::wanted;
      slot.error = nullptr;
      if (!is_queued) queue_.emplace_back(&part, &slot);
    }
    wanted += slot.state == Slot::State::wanted;
  }
  if (wanted == 0) return;
  if (makers_.size() < std::min(askers_.size(), parts_.size())) {
    makers_.emplace_back([this] { serve(); });
  } else if (idle_makers_ > 0 && 2 * wanted >= ahead) {
    wanted_.notify_one();
  }
}

void DataAhead::fill(const Node& input, std::span<const Range> ranges, int64_t step, std::span<std::byte> out) const {
  std::unique_lock lock(mutex_);
  askers_.insert(std::this_thread::get_id());
  Part& part = part_of(input, ranges, out.size());
  if (part.step != step) {
    part.usual_read = std::max(1, part.read);
    part.read = 0;
    part.step = step;
  }
  Slot& slot = part.at(step);
  made_.wait(lock, [&] { return slot.step != step || slot.state != Slot::State::being_made; });
  if (slot.step == step && slot.state == Slot::State::wanted) make(part, slot, lock);
  if (slot.step == step) {
    if (slot.error) std::rethrow_exception(slot.error);
    ++slot.readers;
    lock.unlock();
    std::ranges::copy(slot.bytes, out.begin());
    lock.lock();
    --slot.readers;
  } else {
    lock.unlock();
    const auto start = std::chrono::steady_clock::now();
    source_.fill(input, ranges, step, out);
    const bool long_enough = std::chrono::steady_clock::now() - start > worth_a_thread;
    lock.lock();
    worth_it_ = worth_it_ || long_enough;
  }
  ++part.read;
  if (!worth_it_) return;
  for (Slot& each : part.slots) each.bytes.resize(out.size());
  want_next(part);
}

}  // namespace hetsynth
