// What planners of transfers have in common: the collective on this rank, its tables in elements, and places for what
// is sent in pieces.
#pragma once
#include <cstdint>
#include <vector>

#include "codegen/cuda/transfers/transfers.h"

namespace hetsynth::codegen::cuda {

inline constexpr Spot source{Spot::Kind::source, 0, 0, 0};
inline constexpr Spot result{Spot::Kind::result, 0, 0, 0};

inline Spot at(Spot place, int64_t offset) {
  place.offset += offset;
  return place;
}

class TransferPlanner {
 public:
  /// All must outlive this. Appends to `out`.
  TransferPlanner(const SpmdProgram& program, const LocalProgram& local, const LocalOp& op, Transfer& out);

 protected:
  static int64_t product(const LocalValue& value, size_t begin, size_t end);
  /// The table's bounds in elements of a dimension.
  std::vector<int64_t> bounds(int table, int dim) const;
  static int64_t length(const std::vector<int64_t>& bounds, int piece) {
    return bounds[size_t(piece) + 1] - bounds[size_t(piece)];
  }
  /// Whether all parts are of one length.
  static bool even(const std::vector<int64_t>& bounds);
  Spot scratch(int64_t elements);
  void note_shares(const std::vector<int64_t>& bounds);

  /// An all-to-all. What rank p gets begins at mine * to[p] of `sent`; what comes from it, at ours * cut[p] of
  /// `received`.
  struct Pieces {
    std::vector<int64_t> cut, to;  ///< before and after, in elements
    Spot sent, received;
    int64_t others;      ///< elements of all other dimensions
    int64_t mine, ours;  ///< per element along the dimension after, or before
  };
  /// Packs and unpacks them where they do not lie so.
  Pieces exchanged();

  const SpmdProgram& program_;
  const LocalOp& op_;
  const Instruction& instruction_;
  const int rank_;
  const LocalValue& from_;
  const LocalValue& to_;
  const int me_, ranks_;  ///< coordinate in the group, and its size
  Transfer& out_;
};

}  // namespace hetsynth::codegen::cuda
