#include "tests/theorems/polynomials.h"

#include <algorithm>
#include <optional>

namespace hetsynth::theorems {

Polynomial constant(double value) { return value == 0 ? Polynomial{} : Polynomial{{{}, value}}; }

Polynomial element(smt::Term term) { return {{{term.id}, 1}}; }

Polynomial plus(const Polynomial& a, const Polynomial& b, double factor) {
  Polynomial out = a;
  for (const auto& [product, coefficient] : b)
    if ((out[product] += factor * coefficient) == 0) out.erase(product);
  return out;
}

Polynomial times(const Polynomial& a, const Polynomial& b) {
  Polynomial out;
  for (const auto& [p, x] : a)
    for (const auto& [q, y] : b) {
      std::vector<int> product = p;
      product.insert(product.end(), q.begin(), q.end());
      std::sort(product.begin(), product.end());
      out = plus(out, {{product, x * y}});
    }
  return out;
}

smt::Term as_term(smt::Solver& solver, const Polynomial& p) {
  std::optional<smt::Term> sum;
  for (const auto& [product, coefficient] : p) {
    std::vector<smt::Term> factors;
    for (int id : product) factors.push_back({id});
    smt::Term term = factors.empty() ? solver.real(1) : factors[0];
    if (factors.size() > 1) term = solver.apply("product of " + std::to_string(factors.size()), factors);
    if (coefficient != 1) term = solver.mul(solver.real(coefficient), term);
    sum = sum ? solver.add(*sum, term) : term;
  }
  return sum ? *sum : solver.real(0);
}

}  // namespace hetsynth::theorems
