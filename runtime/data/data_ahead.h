// Samples of the next steps, made while this one is computed.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/data/batch_source.h"

namespace hetsynth {

/// The same data as another source. Whatever part of an input was asked for in a step is made for the next ones by
/// threads of its own, as many as ask; who comes before they are done takes a share of the work. Small parts are made
/// several steps ahead, since a thread that wakes up for each of them would take longer than the part. Parts that are
/// made in no time are made when they are asked for. Errors come when the step that needs the sample asks.
class DataAhead : public BatchSource {
 public:
  /// `source` outlives it. No step after `last_step` is made.
  DataAhead(const BatchSource& source, int64_t last_step);
  ~DataAhead() override;

  void fill(const Node& input, std::span<const Range> ranges, int64_t step, std::span<std::byte> out) const override;
  std::string description() const override { return source_.description(); }
  int64_t first_sample(const Node& input, int64_t step) const override { return source_.first_sample(input, step); }
  int64_t samples_of_epoch(const Node& input) const override { return source_.samples_of_epoch(input); }
  std::string fingerprint() const override { return source_.fingerprint(); }
  TokenOrigin origin() const override { return source_.origin(); }

 private:
  /// What a part holds in one step.
  struct Slot {
    int64_t step = -1;  ///< that `bytes` are of, or are being made for; -1: none
    enum class State : uint8_t { wanted, being_made, made } state = State::made;
    int readers = 0;  ///< that copy it now
    std::vector<std::byte> bytes;
    std::exception_ptr error;
  };
  /// Part of an input. Step s is in slot s modulo their number.
  struct Part {
    Node input;
    std::vector<Range> ranges;
    std::vector<Slot> slots;
    int64_t step = -1;             ///< that was asked for last
    int read = 0, usual_read = 1;  ///< how often it was read in this step, and in the one before: ranks hold copies
    Slot& at(int64_t s) { return slots[static_cast<size_t>(s) % slots.size()]; }
  };
  using Key = std::pair<NodeId, std::vector<std::pair<int64_t, int64_t>>>;

  Part& part_of(const Node& input, std::span<const Range> ranges, size_t bytes) const;
  void make(const Part& part, Slot& slot, std::unique_lock<std::mutex>& lock) const;
  void want_next(Part& part) const;
  void serve() const;

  const BatchSource& source_;
  const int64_t last_step_;
  mutable std::mutex mutex_;
  mutable std::condition_variable wanted_, made_;
  mutable std::map<Key, Part> parts_;
  mutable std::deque<std::pair<const Part*, Slot*>> queue_;  ///< slots in the order in which they were wanted
  mutable std::set<std::thread::id> askers_;
  mutable std::vector<std::thread> makers_;
  mutable int idle_makers_ = 0;
  mutable bool worth_it_ = false;  ///< making took long enough to hand it to a thread
  mutable bool closing_ = false;
};

}  // namespace hetsynth
