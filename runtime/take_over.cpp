#include "runtime/take_over.h"

#include <algorithm>
#include <map>
#include <utility>

#include "dsl/base/error.h"
#include "runtime/processes/step_exchange.h"
#include "runtime/rank/host_tensor.h"

namespace hetsynth {
namespace {

using Bytes = std::vector<std::byte>;

const Slot& slot_of(const RankMemory& memory, NodeId node) {
  const auto found = std::ranges::find(memory.layout->leaves, node, &Slot::node);
  HETSYNTH_CHECK(found != memory.layout->leaves.end(), "a rank has what a migration moves");
  return *found;
}

/// A rank's part of a tensor, as a dense tensor of its own.
HostTensor empty_part(const Slot& slot) {
  Shape shape;
  for (const Range& range : slot.ranges) shape.push_back(range.hi - range.lo);
  return HostTensor({shape, slot.dtype});
}

std::vector<Range> within(std::vector<Range> ranges, const Slot& slot) {
  for (size_t d = 0; d < ranges.size(); ++d) {
    ranges[d].lo -= slot.ranges[d].lo;
    ranges[d].hi -= slot.ranges[d].lo;
  }
  return ranges;
}

class Mover {
 public:
  Mover(const Program& reference, const RankMemories& from, const RankMemories& to, const Migration& migration,
        Job* job)
      : reference_(reference), from_(from), to_(to), migration_(migration), job_(job) {}

  void run() {
    std::vector<Bytes> arrived;
    if (job_) arrived = exchange();
    std::vector<size_t> read(arrived.size(), 0);
    std::map<int, HostTensor> parts;  // of the tensor at hand, by new rank
    for (size_t i = 0; i < migration_.moves.size(); ++i) {
      const TensorMove& move = migration_.moves[i];
      if (here(to_, move.to)) {
        const Slot& slot = slot_of(to_.ranks[size_t(move.to)], move.node);
        HostTensor& part = parts.try_emplace(move.to, empty_part(slot)).first->second;
        if (here(from_, move.from)) {
          copy_part_in(taken(move), within(move.ranges, slot), part);
        } else {
          const auto sender = size_t(process(from_, move.from));
          copy_part_in(std::span(arrived[sender]).subspan(read[sender], bytes_of(move)), within(move.ranges, slot),
                       part);
          read[sender] += bytes_of(move);
        }
      }
      if (i + 1 < migration_.moves.size() && migration_.moves[i + 1].node == move.node) continue;
      for (const auto& [rank, part] : parts) {
        const RankMemory& memory = to_.ranks[size_t(rank)];
        memory.device->write(slot_of(memory, move.node).offset_bytes, part.bytes);
      }
      parts.clear();
    }
  }

 private:
  int process(const RankMemories& ranks, int rank) const { return job_ ? ranks.process_of.at(size_t(rank)) : 0; }
  bool here(const RankMemories& ranks, int rank) const { return !job_ || process(ranks, rank) == job_->process(); }
  size_t bytes_of(const TensorMove& move) const {
    return size_t(part_elements(move.ranges) * size_bytes(reference_[move.node].type.dtype));
  }

  /// What a rank of this process gives away. The rank's part is read once for all that it gives of a tensor.
  Bytes taken(const TensorMove& move) {
    const RankMemory& memory = from_.ranks[size_t(move.from)];
    const Slot& slot = slot_of(memory, move.node);
    HETSYNTH_CHECK(slot.dtype == reference_[move.node].type.dtype, "parameters and states keep their type");
    if (move.node != read_node_) read_.clear(), read_node_ = move.node;
    const auto [found, fresh] = read_.try_emplace(move.from, empty_part(slot));
    if (fresh) memory.device->read(slot.offset_bytes, found->second.bytes);
    Bytes out(bytes_of(move));
    copy_part_out(found->second, within(move.ranges, slot), out);
    return out;
  }

  /// What goes between processes, in the order of the moves.
  std::vector<Bytes> exchange() {
    std::vector<Bytes> out(size_t(job_->count()));
    std::vector<size_t> expected(size_t(job_->count()), 0);
    for (const TensorMove& move : migration_.moves) {
      const int sender = process(from_, move.from), receiver = process(to_, move.to);
      if (sender == receiver) continue;
      if (receiver == job_->process()) expected[size_t(sender)] += bytes_of(move);
      if (sender != job_->process()) continue;
      const Bytes part = taken(move);
      out[size_t(receiver)].insert(out[size_t(receiver)].end(), part.begin(), part.end());
    }
    // Behind the tags of both programs' messages (runtime/processes/group_messages.h).
    const auto ranks = int(std::max(from_.ranks.size(), to_.ranks.size()));
    return exchange_bytes(*job_, first_free_tag + 2 * ranks * ranks, std::move(out), expected);
  }

  const Program& reference_;
  const RankMemories &from_, &to_;
  const Migration& migration_;
  Job* const job_;
  NodeId read_node_ = -1;
  std::map<int, HostTensor> read_;  ///< of that node, by old rank
};

}  // namespace

void take_over(const Program& reference, const RankMemories& from, const RankMemories& to, const Migration& migration,
               Job* job) {
  Mover(reference, from, to, migration, job).run();
}

}  // namespace hetsynth
