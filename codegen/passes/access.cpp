#include "codegen/passes/access.h"

#include <algorithm>

namespace hetsynth::codegen {
namespace {

int64_t value_at(const IndexTerm& term, int64_t f) {
  int64_t q = f / term.divide;
  return (term.modulo ? q % term.modulo : q) * term.stride;
}

void add_normalised(DimIndex& out, IndexTerm term, const Range& range) {
  if (range.hi - range.lo == 1) {
    out.offset += value_at(term, range.lo);
    return;
  }
  if (range.hi > range.lo) {
    int64_t first = range.lo / term.divide, last = (range.hi - 1) / term.divide;
    if (term.modulo && first / term.modulo == last / term.modulo) {
      out.offset -= first / term.modulo * term.modulo * term.stride;
      term.modulo = 0;
    }
    if (first == last) {
      out.offset += value_at(term, range.lo);
      return;
    }
  }
  out.terms.push_back(term);
}

/// Joins quotient and remainder: (f / 3) * 3 + f % 3 is f, as reshapes write their result.
void join_terms(Address& address, const std::vector<Range>& ranges) {
  std::vector<Address::Term>& terms = address.others;
  for (bool joined = true; joined;) {
    joined = false;
    for (size_t a = 0; a < terms.size() && !joined; ++a)
      for (size_t b = 0; b < terms.size() && !joined; ++b) {
        const Address::Term &high = terms[a], &low = terms[b];
        bool fits = a != b && high.counter == low.counter && low.modulo != 0 &&
                    high.divide == low.divide * low.modulo && high.stride == low.stride * low.modulo;
        if (!fits) continue;
        terms[b].modulo = high.modulo * low.modulo;
        terms.erase(terms.begin() + long(a));
        joined = true;
      }
  }
  std::erase_if(terms, [&](const Address::Term& term) {
    bool plain = term.divide == 1 && (term.modulo == 0 || ranges[size_t(term.counter)].hi <= term.modulo);
    if (!plain) return false;
    address.constant += term.start * term.stride;
    address.coefficients[size_t(term.counter)] += term.stride;
    return true;
  });
}

}  // namespace

Access normalise(const Access& access, const std::vector<Range>& ranges) {
  Access out;
  out.zero_outside = access.zero_outside;
  for (const DimIndex& index : access.dims) {
    DimIndex dim;
    dim.offset = index.offset;
    dim.per_turn = index.per_turn;
    for (const IndexTerm& term : index.terms) add_normalised(dim, term, ranges[term.factor]);
    out.dims.push_back(dim);
  }
  return out;
}

std::optional<Access> compose(const Access& outer, const Access& inner) {
  if (inner.zero_outside) return std::nullopt;  // its guards speak of the inner tensor's extents
  Access out;
  for (const DimIndex& index : outer.dims) {
    DimIndex dim;
    dim.offset = index.offset;
    dim.per_turn = index.per_turn;
    for (const IndexTerm& term : index.terms) {
      const DimIndex& source = inner.dims[term.factor];
      bool simple = source.offset == 0 && source.per_turn == 0 && source.terms.size() == 1 && source.terms[0].plain() &&
                    source.terms[0].stride == 1;
      if (!term.plain() && !simple) return std::nullopt;
      if (!term.plain()) {
        dim.terms.push_back({source.terms[0].factor, term.stride, term.divide, term.modulo});
        continue;
      }
      dim.offset += source.offset * term.stride;
      dim.per_turn += source.per_turn * term.stride;
      for (IndexTerm moved : source.terms) {
        moved.stride *= term.stride;
        dim.terms.push_back(moved);
      }
    }
    out.dims.push_back(dim);
  }
  return out;
}

Bounds bounds(const DimIndex& index, const std::vector<Range>& ranges) {
  Bounds out{index.offset, index.offset};
  for (const IndexTerm& term : index.terms) {
    const Range& range = ranges[term.factor];
    int64_t a = range.lo / term.divide, b = (range.hi - 1) / term.divide;
    if (term.modulo && a / term.modulo != b / term.modulo) a = 0, b = term.modulo - 1;
    if (term.modulo) a %= term.modulo, b %= term.modulo;
    a *= term.stride, b *= term.stride;
    out.lo += std::min(a, b);
    out.hi += std::max(a, b);
  }
  return out;
}

Address address(const Access& access, const std::vector<Range>& ranges, const std::vector<int64_t>& origin,
                const std::vector<int64_t>& strides) {
  Address out;
  out.coefficients.assign(ranges.size(), 0);
  for (size_t d = 0; d < access.dims.size(); ++d) {
    const DimIndex& index = access.dims[d];
    out.constant += (index.offset - origin[d]) * strides[d];
    out.per_turn += index.per_turn * strides[d];
    for (const IndexTerm& term : index.terms) {
      int64_t stride = term.stride * strides[d], start = ranges[term.factor].lo;
      if (stride == 0) continue;
      if (term.plain()) {
        out.constant += start * stride;
        out.coefficients[term.factor] += stride;
      } else {
        out.others.push_back({term.factor, start, term.divide, term.modulo, stride});
      }
    }
  }
  join_terms(out, ranges);
  return out;
}

Address address(const DimIndex& index, const std::vector<Range>& ranges) {
  return address(Access{{index}, false}, ranges, {0}, {1});
}

}  // namespace hetsynth::codegen
