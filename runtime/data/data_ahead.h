// Samples of the next step, made while this one is computed.
#pragma once
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/data/batch_source.h"

namespace hetsynth {

/// The same data as another source. Whatever part of an input was asked for in a step is made for the next one by
/// threads of its own, as many as ask; who comes before they are done takes a share of the work. Parts that are made in
/// no time are made when they are asked for. Errors come when the step that needs the sample asks.
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
  struct Part {
    Node input;
    std::vector<Range> ranges;
    int64_t step = -1;  ///< that `bytes` are of, or are being made for
    enum class State : uint8_t { wanted, being_made, made } state = State::made;
    std::vector<std::byte> bytes;
    std::exception_ptr error;
  };
  using Key = std::pair<NodeId, std::vector<std::pair<int64_t, int64_t>>>;

  void make(Part& part, std::unique_lock<std::mutex>& lock) const;
  void serve() const;

  const BatchSource& source_;
  const int64_t last_step_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable std::map<Key, Part> parts_;
  mutable std::set<std::thread::id> askers_;
  mutable std::vector<std::thread> makers_;
  mutable bool worth_it_ = false;  ///< making took long enough to hand it to a thread
  mutable bool closing_ = false;
};

}  // namespace hetsynth
