#include "verify/rules/digits.h"

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

namespace hetsynth {

bool are_digits(const Space& space, const DimIndex& index, int64_t extent) {
  if (index.offset != 0 || index.per_turn != 0) return false;
  int64_t covered = 1;
  for (size_t t = index.terms.size(); t-- > 0;) {
    const IndexTerm& term = index.terms[t];
    int64_t size = space.factors[term.factor].size;
    if (!term.plain() || (term.stride != covered && size != 1)) return false;
    covered *= size;
  }
  return covered == extent;
}

namespace {

using FactorDigits =
    std::vector<std::pair<int64_t, int64_t>>;  ///< (divide, modulo) of the places where a factor appears

/// Like are_digits, for terms of any form; notes where each factor appears.
bool cover(const Space& space, const DimIndex& index, int64_t extent, std::vector<FactorDigits>& places) {
  int64_t covered = 1;
  for (size_t t = index.terms.size(); t-- > 0;) {
    const IndexTerm& term = index.terms[t];
    int64_t values = term.plain() ? space.factors[term.factor].size : term.modulo;
    if (values < 1 || (term.stride != covered && values != 1)) return false;
    covered *= values;
    places[term.factor].push_back({term.divide, values});
  }
  return index.offset == 0 && covered == extent;
}

/// Every position is that of one turn.
bool one_per_turn(const DimIndex& index, int64_t extent, int64_t turns) {
  const int64_t first = index.per_turn > 0 ? 0 : extent - 1;
  return index.terms.empty() && std::abs(index.per_turn) == 1 && index.offset == first && extent == turns;
}

/// The places are all digits of a number below `size`, each once.
bool whole_number(FactorDigits places, int64_t size) {
  std::sort(places.begin(), places.end());
  int64_t covered = 1;
  for (auto [divide, values] : places) {
    if (divide != covered && values != 1) return false;
    covered *= values;
  }
  return covered == size;
}

}  // namespace

bool writes_once(const Space& space, const Shape& shape, int64_t turns) {
  if (space.output.zero_outside || space.output.dims.size() != shape.size()) return false;
  std::vector<FactorDigits> places(space.factors.size());
  for (size_t d = 0; d < shape.size(); ++d)
    if (space.output.dims[d].per_turn != 0 ? !one_per_turn(space.output.dims[d], shape[d], turns)
                                           : !cover(space, space.output.dims[d], shape[d], places))
      return false;
  for (size_t f = 0; f < places.size(); ++f) {
    const Factor& factor = space.factors[f];
    if (factor.reduced() ? !places[f].empty() : !whole_number(places[f], factor.size)) return false;
  }
  return true;
}

int64_t outer_stride(const Space& space, const DimIndex& index) {
  int64_t stride = 1;
  for (size_t t = 1; t < index.terms.size(); ++t) stride *= space.factors[index.terms[t].factor].size;
  return stride;
}

}  // namespace hetsynth
