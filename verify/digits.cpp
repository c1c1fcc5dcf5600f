#include "verify/digits.h"

namespace hetsynth {

bool are_digits(const Space& space, const DimIndex& index, int64_t extent) {
  if (index.offset != 0) return false;
  int64_t covered = 1;
  for (size_t t = index.terms.size(); t-- > 0;) {
    const IndexTerm& term = index.terms[t];
    int64_t size = space.factors[term.factor].size;
    if (!term.plain() || (term.stride != covered && size != 1)) return false;
    covered *= size;
  }
  return covered == extent;
}

int64_t outer_stride(const Space& space, const DimIndex& index) {
  int64_t stride = 1;
  for (size_t t = 1; t < index.terms.size(); ++t) stride *= space.factors[index.terms[t].factor].size;
  return stride;
}

}  // namespace hetsynth
