// Addresses that depend on what is looked up in memory: what of them loop counters alone decide. In at * 768 + c with c
// below 768, any element of the block is met by one c, whatever `at` is; in i * 16 + at with `at` below 16, by one i.
#include <algorithm>
#include <numeric>

#include "verify/source/execute/arithmetic.h"

namespace hetsynth::source {

/// Adds `scale` times the expression: what is not affine in it is some integer.
void Outline::add_remainder(const Expression& e, int64_t scale, Store& store) const {
  Affine a;
  if (affine(e, a)) {
    Affine& to = store.remainder;
    to.constant = sum(to.constant, product(a.constant, scale, e.line), e.line);
    for (auto [slot, c] : a.coefficients)
      to.coefficients[slot] = sum(to.coefficients[slot], product(c, scale, e.line), e.line);
    return;
  }
  if (e.kind == Kind::add || e.kind == Kind::sub) {
    add_remainder(e.args[0], scale, store);
    add_remainder(e.args[1], e.kind == Kind::add ? scale : difference(0, scale, e.line), store);
    return;
  }
  if (e.kind == Kind::mul)
    for (size_t side : {size_t(0), size_t(1)})
      if (affine(e.args[side], a) && a.coefficients.empty())
        return add_remainder(e.args[1 - side], product(scale, a.constant, e.line), store);
  store.modulus = std::gcd(store.modulus, scale);
  const auto guard = e.kind == Kind::variable ? guards_.find(e.slot) : guards_.end();
  const bool bounded = guard != guards_.end() && guard->second > 0 && scale > 0 && store.span >= 0;
  store.span = bounded ? sum(store.span, product(scale, guard->second - 1, e.line), e.line) : -1;
}

/// Integer variables that the condition keeps from 0 to below a number: (unsigned long)at < 16.
void Outline::note_guards(const Expression& condition, std::map<int, int64_t>& guards) const {
  if (condition.kind == Kind::and_)
    for (const Expression& arg : condition.args) note_guards(arg, guards);
  if (condition.kind != Kind::less || condition.args[0].kind != Kind::to_unsigned) return;
  const Expression& variable = condition.args[0].args[0];
  if (variable.kind != Kind::variable || variable.type != Type::integer) return;
  const std::optional<int64_t> below = fixed(condition.args[1], {});
  if (below && *below >= 0 && *below <= INT32_MAX) guards[variable.slot] = *below;
}

/// Finds the part of an address in the arena that loop counters alone decide, for a store whose address is not affine.
/// This remainder tells turns apart where the strides of its counters are those of a mixed radix: the small ones within
/// the modulus, the others above all that is looked up.
void Outline::find_remainder(Store& store) const {
  const Expression& target = store.statement->target;
  const int64_t unit = stride_of(target.args[0].type);
  add_remainder(target.args[1], unit, store);
  const Expression* base = base_of(target.args[0], [&](const Expression& index, Type counted_in) {
    add_remainder(index, stride_of(counted_in), store);
  });
  const int64_t modulus = std::exchange(store.modulus, 0), looked_up = std::exchange(store.span, 0);
  if (!base || modulus == 0) return;
  const int line = store.statement->line;
  store.remainder.constant = sum(store.remainder.constant, frame_[size_t(base->slot)].pointer.at, line);
  std::erase_if(store.remainder.coefficients, [](const auto& entry) { return entry.second == 0; });
  std::vector<std::pair<int64_t, int>> below, above;
  for (auto [slot, c] : store.remainder.coefficients) {
    const bool counts = loops.at(slot).chunks_of < 0 && loops.at(slot).statement->step == 1;
    if (c % modulus != 0 && !counts) return;
    (c % modulus != 0 ? below : above).push_back({counts ? c : 0, slot});
  }
  const auto in_mixed_radix = [&](std::vector<std::pair<int64_t, int>>& by_stride, int64_t& span) {
    std::sort(by_stride.begin(), by_stride.end());
    for (auto [stride, slot] : by_stride) {
      if (stride < span) return false;
      span = sum(span, product(stride, loops.at(slot).turns() - 1, line), line);
    }
    return true;
  };
  int64_t span = unit;
  if (!in_mixed_radix(below, span) || span > modulus) return;
  store.modulus = modulus;
  if (looked_up >= 0) span = sum(span, looked_up, line);
  int64_t whole = span;
  if (looked_up >= 0 && in_mixed_radix(above, whole)) {
    store.span = span;
  } else {
    for (auto [stride, slot] : above) store.remainder.coefficients.erase(slot);
  }
}

bool Outline::decode_remainder(const Store& store, int64_t at, std::map<int, int64_t>& counters) const {
  const int line = store.statement->line;
  int64_t rest = difference(at, store.remainder.constant, line);
  std::vector<std::pair<int64_t, int>> by_stride;
  for (auto [slot, c] : store.remainder.coefficients) {
    rest = difference(rest, product(c, loops.at(slot).begin, line), line);
    by_stride.push_back({c, slot});
  }
  std::sort(by_stride.rbegin(), by_stride.rend());
  if (store.span > 0 && rest < 0) return false;
  bool reduced = false;
  const auto reduce = [&] {  // what is left is told by counters within the modulus
    if (reduced) return true;
    reduced = true;
    if (store.span > 0 && rest >= store.span) return false;
    rest = (rest % store.modulus + store.modulus) % store.modulus;
    return true;
  };
  for (auto [stride, slot] : by_stride) {
    if (stride % store.modulus != 0 && !reduce()) return false;
    const int64_t digit = rest / stride;
    if (digit >= loops.at(slot).turns()) return false;
    counters[slot] = loops.at(slot).begin + digit;
    rest -= digit * stride;
  }
  return reduce() && rest == 0;
}

}  // namespace hetsynth::source
