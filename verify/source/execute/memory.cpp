#include "verify/source/execute/memory.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "verify/source/execute/outline.h"

namespace hetsynth::source {

std::vector<int> row_major(size_t dims) {
  std::vector<int> order(dims);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

std::vector<int64_t> dense_strides(const std::vector<Range>& ranges, const std::vector<int>& order) {
  std::vector<int64_t> strides(ranges.size(), 1);
  int64_t stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    size_t d = size_t(order[i]);
    strides[d] = stride;
    stride *= ranges[d].hi - ranges[d].lo;
  }
  return strides;
}

namespace {

void index_into(const std::vector<Range>& ranges, const std::vector<int64_t>& strides, int64_t offset, Index& out) {
  out.resize(ranges.size());
  for (size_t d = 0; d < ranges.size(); ++d) {
    int64_t extent = ranges[d].hi - ranges[d].lo;
    out[d] = ranges[d].lo + (extent <= 1 ? 0 : offset / strides[d] % extent);
  }
}

}  // namespace

Index index_at(const std::vector<Range>& ranges, const std::vector<int64_t>& strides, int64_t offset) {
  Index out;
  index_into(ranges, strides, offset, out);
  return out;
}

void Memory::put(const Resident& resident) {
  clear(resident.begin, resident.end);
  if (resident.value >= 0) meaning_.hold(resident.value);
  if (resident.end <= resident.begin) return;
  Resident& r = by_begin_[resident.begin] = resident;
  if (r.unrecognised || r.position) return;
  const std::vector<Range>& ranges = meaning_.ranges(r.value);
  std::vector<int64_t> whole = row_major_strides(meaning_.shape(r.value));
  r.contiguous = true;
  for (size_t d = 0; d < ranges.size(); ++d) {
    int64_t extent = ranges[d].hi - ranges[d].lo;
    r.first += ranges[d].lo * whole[d];
    if (extent <= 1) continue;
    r.digits.push_back({r.strides[d], extent, whole[d]});
    r.contiguous = r.contiguous && r.strides[d] == whole[d];
  }
}

void Memory::clear(int64_t begin, int64_t end) {
  last_.fill(nullptr);
  last_read_ = nullptr;
  for (auto& [at, resident] : by_begin_) {
    if (!resident.unrecognised) continue;
    for (auto [from, to] : resident.unrecognised->needs)
      resident.unrecognised->lost = resident.unrecognised->lost || (from < end && begin < to);
  }
  auto first = first_from(begin);
  while (first != by_begin_.end() && first->first < end) {
    ValueId gone = first->second.value;
    const std::shared_ptr<Unrecognised> unrecognised = first->second.unrecognised;
    first = by_begin_.erase(first);
    if (unrecognised && !unrecognised->understood) std::rethrow_exception(unrecognised->error);
    if (gone < 0) continue;
    bool elsewhere =
        std::any_of(by_begin_.begin(), by_begin_.end(), [&](const auto& entry) { return entry.second.value == gone; });
    if (!elsewhere) meaning_.release(gone);
  }
}

const Resident* Memory::at(int64_t byte) const {
  for (const Resident* last : last_)
    if (last && byte >= last->begin && byte < last->end) return last;
  auto after = by_begin_.upper_bound(byte);
  if (after == by_begin_.begin()) return nullptr;
  const Resident& found = std::prev(after)->second;
  if (byte >= found.end) return nullptr;
  oldest_ = (oldest_ + 1) % last_.size();
  return last_[oldest_] = &found;
}

Memory::Residents::const_iterator Memory::first_from(int64_t byte) const {
  auto first = by_begin_.upper_bound(byte);
  return first != by_begin_.begin() && std::prev(first)->second.end > byte ? std::prev(first) : first;
}

std::vector<const Resident*> Memory::within(int64_t begin, int64_t end) const {
  std::vector<const Resident*> out;
  auto first = first_from(begin);
  for (; first != by_begin_.end() && first->first < end; ++first) out.push_back(&first->second);
  return out;
}

double Memory::read(int64_t byte, DType dtype, int through) const {
  const Resident* resident = at(byte);
  if (!resident) return std::nan("");
  if (last_read_ != resident || last_through_ != through) {
    read_through_.insert({through, resident->begin});
    read_places_.insert({resident->begin, resident->end});
    if (resident->value >= 0) reads_.insert(resident->value);
    last_read_ = resident;
    last_through_ = through;
  }
  if (resident->unrecognised) {
    if (resident->unrecognised->lost)
      throw NotFollowed("a kernel's partial result, of operands that are gone by now", resident->unrecognised->line);
    return resident->unrecognised->dtype == dtype ? resident->unrecognised->value(byte) : std::nan("");
  }
  if (meaning_.dtype(resident->value) != dtype) return std::nan("");
  int64_t offset = byte - resident->begin, size = size_bytes(dtype);
  if (offset % size != 0) return std::nan("");
  offset /= size;
  if (resident->position) {
    const int64_t position = resident->position(offset);
    if (position < 0) return std::nan("");
    if (meaning_.opaque(resident->value)) return meaning_.unknown(resident->value, position);
    return meaning_.at(resident->value, meaning_.index_of(resident->value, position));
  }
  if (meaning_.opaque(resident->value)) {
    int64_t position = resident->first;
    if (resident->contiguous)
      position += offset;
    else
      for (const Resident::Digit& digit : resident->digits)
        position += offset / digit.stride % digit.extent * digit.whole_stride;
    return meaning_.unknown(resident->value, position);
  }
  index_into(meaning_.ranges(resident->value), resident->strides, offset, index_);
  return meaning_.at(resident->value, index_);
}

std::set<ValueId> Memory::left_beside() const {
  std::set<ValueId> out;
  for (const auto& [at, resident] : by_begin_)
    if (resident.unrecognised && read_places_.count({resident.begin, resident.end}))
      out.insert(resident.unrecognised->beside.begin(), resident.unrecognised->beside.end());
  return out;
}

void Memory::understand_reads() {
  for (auto& [at, resident] : by_begin_)
    if (resident.unrecognised && read_places_.count({resident.begin, resident.end}))
      resident.unrecognised->understood = true;
}

void Memory::expect_understood() const {
  for (const auto& [at, resident] : by_begin_)
    if (resident.unrecognised && !resident.unrecognised->understood)
      std::rethrow_exception(resident.unrecognised->error);
}

bool Memory::lies_at(ValueId value, int64_t byte) const {
  const Resident* resident = at(byte);
  if (!resident || resident->value != value || resident->begin != byte || resident->position) return false;
  const std::vector<Range>& ranges = meaning_.ranges(value);
  std::vector<int64_t> wanted = dense_strides(ranges, row_major(ranges.size()));
  for (size_t d = 0; d < ranges.size(); ++d)
    if (ranges[d].hi - ranges[d].lo > 1 && resident->strides[d] != wanted[d]) return false;
  return true;
}

}  // namespace hetsynth::source
