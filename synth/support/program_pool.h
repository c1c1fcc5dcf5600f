// Programs that planning is done with, whose memory the next ones use again: each holds tens of thousands of small
// vectors.
#pragma once
#include <memory>
#include <vector>

#include "dsl/spmd/spmd.h"

namespace hetsynth::synth {

class ProgramPool : public std::enable_shared_from_this<ProgramPool> {
 public:
  /// A program to write over, or an empty one.
  SpmdProgram scrap();
  /// The program, which comes back here when nobody needs it any more.
  std::shared_ptr<const SpmdProgram> keep(SpmdProgram program);

 private:
  static constexpr size_t most_scraps = 3;
  std::vector<SpmdProgram> scraps_;
};

/// Fills a vector anew: elements that it has already are written over.
template <typename T>
class Refill {
 public:
  explicit Refill(std::vector<T>* out) : out_(out) {}
  /// The next element, with the contents that it had.
  T& next() {
    if (count_ == out_->size()) out_->emplace_back();
    return (*out_)[count_++];
  }
  int count() const { return int(count_); }
  /// Without those behind the last.
  void finish() { out_->resize(count_); }

 private:
  std::vector<T>* out_;
  size_t count_ = 0;
};

/// Without contents, but with the memory of its vectors.
void clear(Instruction* instruction);
void clear(Value* value);

}  // namespace hetsynth::synth
