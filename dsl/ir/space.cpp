#include "dsl/ir/space.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace hetsynth {

int Space::add_factor(std::string name, int64_t size, FactorKind kind) {
  factors.push_back({std::move(name), size, kind});
  return int(factors.size()) - 1;
}

double Space::iterations() const {
  double count = 1;
  for (const Factor& factor : factors) count *= double(factor.size);
  return count;
}

std::optional<FactorKind> Space::reduction() const {
  for (const Factor& factor : factors)
    if (factor.reduced()) return factor.kind;
  return std::nullopt;
}

DimIndex index_by(int factor) { return {.terms = {IndexTerm{factor}}}; }

namespace {

bool mentions(const DimIndex& index, int factor) {
  return std::any_of(index.terms.begin(), index.terms.end(), [&](const IndexTerm& t) { return t.factor == factor; });
}

/// The terms after the first stay below its stride, so that equal first terms are contiguous.
bool inner_terms_fit(const Space& space, const DimIndex& index) {
  int64_t inner = 0;
  for (size_t i = 1; i < index.terms.size(); ++i) {
    const IndexTerm& term = index.terms[i];
    int64_t size = space.factors[term.factor].size;
    if (!term.plain() || term.stride < 0) return false;
    inner += (size - 1) * term.stride;
  }
  return inner < index.terms[0].stride;
}

}  // namespace

bool mentions_factor(const Access& access, int factor) {
  return std::any_of(access.dims.begin(), access.dims.end(), [&](const DimIndex& d) { return mentions(d, factor); });
}

std::optional<FactorCut> cut_of(const Space& space, const Access& access, const Shape& shape, int factor) {
  std::optional<FactorCut> cut;
  for (size_t dim = 0; dim < access.dims.size(); ++dim) {
    const DimIndex& index = access.dims[dim];
    if (!mentions(index, factor)) continue;
    // Other dimensions may be left (convolution's padding); this one is covered exactly, so it never is.
    if (cut || index.offset != 0 || index.per_turn != 0) return std::nullopt;
    const IndexTerm& outer = index.terms[0];
    bool outermost = outer.factor == factor && outer.plain() && outer.stride > 0 && inner_terms_fit(space, index);
    bool once = std::count_if(index.terms.begin(), index.terms.end(),
                              [&](const IndexTerm& t) { return t.factor == factor; }) == 1;
    if (!outermost || !once || outer.stride * space.factors[factor].size != shape[dim]) return std::nullopt;
    cut = FactorCut{int(dim), outer.stride};
  }
  return cut;
}

std::optional<WindowCut> window_cut_of(const Space& space, const Access& access, const Shape& shape, int factor) {
  if (cut_of(space, access, shape, factor)) return std::nullopt;
  std::optional<WindowCut> cut;
  for (size_t dim = 0; dim < access.dims.size(); ++dim) {
    const DimIndex& index = access.dims[dim];
    if (!mentions(index, factor)) continue;
    if (cut || index.per_turn != 0) return std::nullopt;
    int64_t unit = 0, first = index.offset, last = index.offset;  // of what is read around step 0
    for (const IndexTerm& term : index.terms) {
      if (term.factor == factor) {
        if (unit != 0 || !term.plain() || term.stride < 1) return std::nullopt;
        unit = term.stride;
        continue;
      }
      int64_t most = (space.factors[size_t(term.factor)].size - 1) / term.divide;
      if (term.modulo != 0) most = std::min(most, term.modulo - 1);
      first += std::min<int64_t>(0, most * term.stride);
      last += std::max<int64_t>(0, most * term.stride);
    }
    if (unit * space.factors[size_t(factor)].size != shape[dim]) return std::nullopt;
    cut = WindowCut{int(dim), unit, std::max<int64_t>(0, -first), std::max<int64_t>(0, last - unit + 1)};
    if (cut->before + cut->after >= shape[dim]) return std::nullopt;
  }
  return cut;
}

bool follows_turn(const Access& access) {
  return std::any_of(access.dims.begin(), access.dims.end(), [](const DimIndex& d) { return d.per_turn != 0; });
}

bool follows_turn(const Space& space) {
  return space.draws_per_turn != 0 || follows_turn(space.output) ||
         std::any_of(space.inputs.begin(), space.inputs.end(),
                     [](const Access& access) { return follows_turn(access); });
}

Space in_turn(Space space, int64_t turn) {
  auto settle = [&](Access& access) {
    for (DimIndex& index : access.dims) {
      index.offset += index.per_turn * turn;
      index.per_turn = 0;
    }
  };
  for (Access& access : space.inputs) settle(access);
  settle(space.output);
  space.first_draw += space.draws_per_turn * turn;
  space.draws_per_turn = 0;
  return space;
}

int stacked_dim(const Space& space) {
  for (size_t d = 0; d < space.output.dims.size(); ++d)
    if (space.output.dims[d].per_turn != 0) return int(d);
  return -1;
}

namespace {

void append(int64_t number, std::string* out) { *out += fmt::format_int(number).c_str(); }

void append(const Space& space, const IndexTerm& term, std::string* out) {
  if (term.modulo != 0) *out += "(";
  *out += space.factors[term.factor].name;
  if (term.divide != 1) *out += "/", append(term.divide, out);
  if (term.modulo != 0) *out += ")%", append(term.modulo, out);
  if (term.stride != 1) *out += "*", append(term.stride, out);
}

void append(const Space& space, const DimIndex& index, std::string* out) {
  bool first = true;
  for (const IndexTerm& term : index.terms) {
    if (!first) *out += "+";
    append(space, term, out);
    first = false;
  }
  if (index.offset != 0 || (first && index.per_turn == 0)) {
    if (!first && index.offset >= 0) *out += "+";
    append(index.offset, out);
    first = false;
  }
  if (index.per_turn == 0) return;
  *out += index.per_turn < 0 ? "-@" : first ? "@" : "+@";
  if (std::abs(index.per_turn) != 1) *out += "*", append(std::abs(index.per_turn), out);
}

void append(const Space& space, const Access& access, std::string* out) {
  *out += "[";
  for (size_t d = 0; d < access.dims.size(); ++d) {
    if (d > 0) *out += ",";
    append(space, access.dims[d], out);
  }
  *out += access.zero_outside ? "]?0" : "]";
}

/// Factors that are reduced, or those that are not.
void append_factors(const Space& space, bool reduced, std::string* out) {
  bool first = true;
  for (const Factor& f : space.factors) {
    if (f.reduced() != reduced) continue;
    if (!std::exchange(first, false))
      *out += " ";
    else if (reduced)
      *out += " | ";
    *out += f.name;
    *out += ":";
    append(f.size, out);
    if (f.kind == FactorKind::sum) *out += " sum";
    if (f.kind == FactorKind::max) *out += " max";
    if (f.kind == FactorKind::whole) *out += " whole";
  }
}

}  // namespace

/// In one string: programs are hashed by their text, and have thousands of spaces.
std::string text(const Space& space) {
  std::string out = "{";
  append_factors(space, false, &out);
  append_factors(space, true, &out);
  out += "}";
  for (size_t j = 0; j < space.inputs.size(); ++j) {
    out += " in";
    append(int64_t(j), &out);
    append(space, space.inputs[j], &out);
  }
  out += " -> ";
  append(space, space.output, &out);
  if (space.first_draw != 0) out += fmt::format(" draws from {}", space.first_draw);
  if (space.draws_per_turn != 0) out += fmt::format(" draws from @*{}", space.draws_per_turn);
  return out;
}

Range common(const Range& a, const Range& b) {
  const int64_t lo = std::max(a.lo, b.lo);
  return {lo, std::max(lo, std::min(a.hi, b.hi))};
}

Range with_halo(const Range& part, int64_t before, int64_t after, int64_t extent) {
  if (part.lo == part.hi) return part;
  // Not `hi + after`, which numbers near the largest would take out of their range.
  return {part.lo - std::min(part.lo, before), part.hi + std::min(extent - part.hi, after)};
}

int64_t part_elements(std::span<const Range> ranges) {
  int64_t count = 1;
  for (const Range& range : ranges) count *= range.hi - range.lo;
  return count;
}

int64_t part_elements(std::span<const Range> ranges, size_t from, size_t to) {
  return part_elements(ranges.subspan(from, to - from));
}

}  // namespace hetsynth
