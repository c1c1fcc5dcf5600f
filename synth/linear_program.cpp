#include "synth/linear_program.h"

#include <ClpSimplex.hpp>
#include <CoinPackedMatrix.hpp>
#include <cmath>

namespace hetsynth::synth {

int LinearProgram::add_variable(double lower, double upper, double cost) {
  variables_.push_back({lower, upper});
  costs_.push_back(cost);
  return int(variables_.size()) - 1;
}

void LinearProgram::add_row(double lower, double upper, std::vector<std::pair<int, double>> entries) {
  rows_.push_back({lower, upper});
  entries_.push_back(std::move(entries));
}

std::optional<std::vector<double>> LinearProgram::solve(std::vector<double>* prices) const {
  auto bound = [](double value) { return std::isinf(value) ? std::copysign(COIN_DBL_MAX, value) : value; };
  std::vector<double> lower, upper, row_lower, row_upper, values;
  std::vector<int> columns;
  std::vector<CoinBigIndex> starts{0};
  for (const Bounds& b : variables_) lower.push_back(bound(b.lower)), upper.push_back(bound(b.upper));
  for (size_t r = 0; r < rows_.size(); ++r) {
    for (const auto& [column, value] : entries_[r]) columns.push_back(column), values.push_back(value);
    starts.push_back(CoinBigIndex(columns.size()));
    row_lower.push_back(bound(rows_[r].lower)), row_upper.push_back(bound(rows_[r].upper));
  }
  CoinPackedMatrix matrix(false, int(variables_.size()), int(rows_.size()), CoinBigIndex(values.size()), values.data(),
                          columns.data(), starts.data(), nullptr);
  ClpSimplex simplex;
  simplex.setLogLevel(0);
  simplex.loadProblem(matrix, lower.data(), upper.data(), costs_.data(), row_lower.data(), row_upper.data());
  simplex.dual();
  if (simplex.status() != 0) return std::nullopt;
  if (prices) {
    const double* duals = simplex.dualRowSolution();
    prices->clear();
    for (size_t r = 0; r < rows_.size(); ++r) prices->push_back(std::abs(duals[r]));
  }
  const double* solution = simplex.primalColumnSolution();
  return std::vector<double>(solution, solution + variables_.size());
}

}  // namespace hetsynth::synth
