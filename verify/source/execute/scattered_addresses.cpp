// Addresses that depend on what is looked up in memory: what of them loop counters alone decide. In at * 768 + c with c
// below 768, any element of the block is met by one c, whatever `at` is.
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
}

/// Finds the part of an address in the arena that loop counters alone decide, for a store whose address is not affine.
/// This remainder tells turns apart where the strides of its counters are those of a mixed radix within the modulus.
void Outline::find_remainder(Store& store) const {
  const Expression& target = store.statement->target;
  const int64_t unit = stride_of(target.args[0].type);
  add_remainder(target.args[1], unit, store);
  const Expression* base = base_of(target.args[0], [&](const Expression& index, Type counted_in) {
    add_remainder(index, stride_of(counted_in), store);
  });
  const int64_t modulus = std::exchange(store.modulus, 0);
  if (!base || modulus == 0) return;
  const int line = store.statement->line;
  store.remainder.constant = sum(store.remainder.constant, frame_[size_t(base->slot)].pointer.at, line);
  std::erase_if(store.remainder.coefficients, [&](const auto& entry) { return entry.second % modulus == 0; });
  std::vector<std::pair<int64_t, int>> by_stride;
  for (auto [slot, c] : store.remainder.coefficients) {
    if (loops.at(slot).chunks_of >= 0 || loops.at(slot).statement->step > 1) return;
    by_stride.push_back({c, slot});
  }
  std::sort(by_stride.begin(), by_stride.end());
  int64_t span = unit;
  for (auto [stride, slot] : by_stride) {
    if (stride < span) return;
    span = sum(span, product(stride, loops.at(slot).turns() - 1, line), line);
  }
  if (span <= modulus) store.modulus = modulus;
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
  rest = (rest % store.modulus + store.modulus) % store.modulus;
  for (auto [stride, slot] : by_stride) {
    const int64_t digit = rest / stride;
    if (digit >= loops.at(slot).turns()) return false;
    counters[slot] = loops.at(slot).begin + digit;
    rest -= digit * stride;
  }
  return rest == 0;
}

}  // namespace hetsynth::source
