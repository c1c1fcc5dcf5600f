// Polynomials over elements of tensors: so that sums of products are compared without multiplication in the solver.
#pragma once
#include <map>
#include <vector>

#include "tests/theorems/family.h"

namespace hetsynth::theorems {

/// A sum of products of terms, each term known by its number in the solver: {} is the constant.
using Polynomial = std::map<std::vector<int>, double>;

Polynomial constant(double value);
Polynomial element(smt::Term term);
Polynomial plus(const Polynomial& a, const Polynomial& b, double factor = 1);
Polynomial times(const Polynomial& a, const Polynomial& b);

/// As a term: products of elements are an unknown function of them, the same for the same elements.
smt::Term as_term(smt::Solver& solver, const Polynomial& p);

}  // namespace hetsynth::theorems
