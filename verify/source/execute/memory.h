// Which value each part of a rank's arena holds while its step is followed.
#pragma once
#include <array>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "verify/source/meaning/meaning.h"

namespace hetsynth::source {

/// What a kernel left in memory that is no value of the program: partial sums, shares in the order in which they are
/// sent. Whoever reads it reads what the kernel computes; who makes a value of the program of it shows what it was for.
struct Unrecognised {
  std::function<double(int64_t byte)> value;
  DType dtype = DType::f32;
  std::vector<std::pair<int64_t, int64_t>> needs;  ///< bytes that it is computed from
  std::set<ValueId> beside;                        ///< values that the kernel left elsewhere, and did not read there
  bool lost = false;                               ///< some of these were overwritten since
  bool understood = false;                         ///< something of the program was made of it
  std::exception_ptr error;                        ///< what is wrong if nothing ever is
  int line = 0;
};

/// A value in memory: element (g0, g1, ...) of the logical tensor lies at begin + element bytes * sum of
/// (g_d - ranges_d.lo) * strides_d.
struct Resident {
  ValueId value = -1;
  int64_t begin = 0, end = 0;  ///< bytes
  std::vector<int64_t> strides;
  /// Else: the row-major position in the logical tensor, by offset in elements from `begin`; -1: nothing is there.
  std::function<int64_t(int64_t)> position = {};
  std::shared_ptr<Unrecognised> unrecognised = {};  ///< `value` is -1

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
  /// What lies in [begin, end), in its order.
  std::vector<const Resident*> within(int64_t begin, int64_t end) const;
  /// The element at this byte; NaN if no value lies there.
  /// `through`: the parameter that leads there.
  double read(int64_t byte, DType dtype, int through = -1) const;
  /// Values that were read since this was emptied.
  const std::set<ValueId>& reads() const { return reads_; }
  void forget_reads() { reads_.clear(), read_places_.clear(), read_through_.clear(), last_read_ = nullptr; }
  /// Which parameters lead to what lay where.
  struct Read {
    int parameter;
    int64_t begin;
    auto operator<=>(const Read&) const = default;
  };
  const std::set<Read>& read_through() const { return read_through_; }
  /// Where they lay.
  const std::set<std::pair<int64_t, int64_t>>& read_places() const { return read_places_; }
  /// Of what is unrecognised among them: values that were left beside.
  std::set<ValueId> left_beside() const;
  /// Everything unrecognised that was read since then was read for something.
  void understand_reads();
  /// Throws the error of what is unrecognised to the end.
  void expect_understood() const;
  /// See Meaning::moment.
  uint64_t moment() const { return meaning_.moment(); }
  /// See Meaning::step.
  int64_t step() const { return meaning_.step(); }
  /// See Meaning::rounds.
  bool rounds() const { return meaning_.rounds(); }
  /// Whether the value lies row-major from this byte on.
  bool lies_at(ValueId value, int64_t byte) const;

 private:
  using Residents = std::map<int64_t, Resident>;
  /// The first one that does not end before this byte.
  Residents::const_iterator first_from(int64_t byte) const;

  Meaning& meaning_;
  Residents by_begin_;
  mutable std::array<const Resident*, 4> last_{};  ///< found lately
  mutable size_t oldest_ = 0;
  mutable Index index_;
  mutable std::set<ValueId> reads_;
  mutable std::set<std::pair<int64_t, int64_t>> read_places_;
  mutable std::set<Read> read_through_;
  mutable const Resident* last_read_ = nullptr;
  mutable int last_through_ = -1;
};

}  // namespace hetsynth::source
