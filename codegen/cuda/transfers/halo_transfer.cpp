#include "codegen/cuda/transfers/halo_transfer.h"

#include "dsl/base/error.h"

namespace hetsynth::codegen::cuda {
namespace {

int64_t length(Range range) { return range.hi - range.lo; }

/// Tensors are [outer, rows, inner] here.
class HaloPlanner {
 public:
  HaloPlanner(const SpmdProgram& program, const LocalValue& from, const LocalValue& to, const Instruction& instruction,
              int rank, Transfer& out)
      : out_(out),
        me_(program.mesh.coordinate(rank, instruction.axis)),
        count_(from.count()),
        outer_(part_elements(to.ranges, 0, size_t(instruction.dim))),
        inner_(part_elements(to.ranges, size_t(instruction.dim) + 1, to.ranges.size())),
        own_(from.ranges[size_t(instruction.dim)]),
        wide_(to.ranges[size_t(instruction.dim)]) {
    for (int peer : program.mesh.group(rank, instruction.axis)) {
      const auto rows_of = [&](ValueId value) {
        const Placements& placements = program.values.at(size_t(value)).placements;
        return local_ranges(program, placements, to.type.shape, peer)[size_t(instruction.dim)];
      };
      const bool me = peer == rank;
      give_.push_back(me ? Range{own_.lo, own_.lo} : common(own_, rows_of(instruction.result)));
      take_.push_back(me ? own_ : common(wide_, rows_of(instruction.operands[0])));
    }
  }

  void run() {
    if (count_ == 0) return;
    if (length(wide_) == length(own_))
      out_.copies_before.push_back({{Spot::Kind::source}, {Spot::Kind::result}, count_});
    if (outer_ == 1)
      in_place();
    else
      packed();
  }

 private:
  /// Rows lie in one piece: they are sent from where they are, and received where they belong.
  void in_place() {
    if (length(wide_) > length(own_))
      out_.copies_before.push_back({{Spot::Kind::source}, place_in_result(own_), count_});
    for (size_t p = 0; p < give_.size(); ++p) {
      send(p, {.kind = Spot::Kind::source, .offset = (give_[p].lo - own_.lo) * inner_});
      receive(p, place_in_result(take_[p]));
    }
  }

  Spot place_in_result(Range rows) const {
    return {.kind = Spot::Kind::result, .offset = (rows.lo - wide_.lo) * inner_};
  }

  void packed() {
    Spot sent = pack(), received = unpack();
    for (size_t p = 0; p < give_.size(); ++p) {
      send(p, sent);
      receive(p, received);
      sent.offset += elements(give_[p]);
      if (int(p) != me_) received.offset += elements(take_[p]);
    }
  }

  int64_t elements(Range rows) const { return outer_ * length(rows) * inner_; }

  void send(size_t peer, Spot from) {
    if (length(give_[peer]) > 0)
      out_.calls.push_back({NcclCall::Kind::send, from, {}, elements(give_[peer]), int(peer)});
  }

  void receive(size_t peer, Spot to) {
    if (int(peer) != me_ && length(take_[peer]) > 0)
      out_.calls.push_back({NcclCall::Kind::receive, {}, to, elements(take_[peer]), int(peer)});
  }

  Spot scratch(int64_t elements) {
    out_.scratch.push_back({elements});
    return {.kind = Spot::Kind::scratch, .scratch = int(out_.scratch.size()) - 1};
  }

  /// Gives the place where what is sent lies rank by rank.
  Spot pack() {
    PieceCopy copy{.outer = outer_, .inner = inner_, .extent = length(own_)};
    int64_t total = 0;
    for (Range rows : give_) {
      if (length(rows) == 0) continue;
      copy.parts.push_back({rows.lo - own_.lo, rows.hi - own_.lo});
      total += elements(rows);
    }
    if (total == 0) return {};
    const Spot place = scratch(total);
    out_.pack.push_back({copy, {Spot::Kind::source}, place});
    return place;
  }

  /// Gives the place where what is received lies rank by rank; with the own part in the middle it makes the result.
  Spot unpack() {
    PieceCopy copy{.outer = outer_, .inner = inner_, .bounds = {0}, .pack = false, .own = me_};
    for (Range rows : take_) copy.bounds.push_back(copy.bounds.back() + length(rows));
    HETSYNTH_CHECK(copy.bounds.back() == length(wide_), "ranks own what lies around a part");
    if (length(wide_) == length(own_)) return {};
    const Spot place = scratch(outer_ * (length(wide_) - length(own_)) * inner_);
    out_.unpack.push_back({copy, place, {Spot::Kind::result}, {Spot::Kind::source}});
    return place;
  }

  Transfer& out_;
  const int me_;
  const int64_t count_, outer_, inner_;
  const Range own_, wide_;          ///< rows of the operand and of the result here
  std::vector<Range> give_, take_;  ///< by rank of the group: what goes to it, what comes from it (own: what stays)
};

}  // namespace

void plan_halo_exchange(const SpmdProgram& program, const LocalValue& from, const LocalValue& to,
                        const Instruction& instruction, int rank, Transfer& out) {
  HaloPlanner(program, from, to, instruction, rank, out).run();
}

}  // namespace hetsynth::codegen::cuda
