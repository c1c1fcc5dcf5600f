// Which value each part of a rank's arena holds while its step is followed.
#pragma once
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "verify/source/meaning.h"

namespace hetsynth::source {

/// A value in memory: element (g0, g1, ...) of the logical tensor lies at begin + element bytes * sum of
/// (g_d - ranges_d.lo) * strides_d.
struct Resident {
  ValueId value = -1;
  int64_t begin = 0, end = 0;  ///< bytes
  std::vector<int64_t> strides;

  /// Filled in by Memory: where an element at an offset from `begin` is in the logical tensor, row-major.
  struct Digit {
    int64_t stride, extent, whole_stride;
  };
  std::vector<Digit> digits = {};
  int64_t first = 0;        ///< of the element at `begin`
  bool contiguous = false;  ///< elements lie one after the other there as here
};

/// Dense strides of a part of a tensor stored in this order of dimensions (outermost first).
std::vector<int64_t> dense_strides(const std::vector<Range>& ranges, const std::vector<int>& order);
std::vector<int> row_major(size_t dims);

/// The element stored at an offset (in elements) of a dense part.
Index index_at(const std::vector<Range>& ranges, const std::vector<int64_t>& strides, int64_t offset);

class Memory {
 public:
  explicit Memory(Meaning& meaning) : meaning_(meaning) {}

  /// Puts a value into memory; what lay there is gone.
  void put(const Resident& resident);
  /// Whatever lies in [begin, end) is gone.
  void clear(int64_t begin, int64_t end);
  const Resident* at(int64_t byte) const;
  /// The element at this byte; NaN if no value lies there.
  double read(int64_t byte, DType dtype) const;
  /// Values that were read since this was emptied.
  const std::set<ValueId>& reads() const { return reads_; }
  void forget_reads() { reads_.clear(), last_read_ = -1; }
  /// Whether the value lies row-major from this byte on.
  bool lies_at(ValueId value, int64_t byte) const;

 private:
  Meaning& meaning_;
  std::map<int64_t, Resident> by_begin_;
  mutable std::array<const Resident*, 4> last_{};  ///< found lately
  mutable size_t oldest_ = 0;
  mutable Index index_;
  mutable std::set<ValueId> reads_;
  mutable ValueId last_read_ = -1;
};

}  // namespace hetsynth::source
