#include "synth/support/linear_program.h"

#include <ClpSimplex.hpp>
#include <cmath>

namespace hetsynth::synth {
namespace {

double bound(double value) { return std::isinf(value) ? std::copysign(COIN_DBL_MAX, value) : value; }

}  // namespace

struct LinearProgram::Solver {
  Solver() { simplex.setLogLevel(0); }
  ClpSimplex simplex;
  size_t variables = 0, rows = 0;  ///< that it knows
};

LinearProgram::LinearProgram() : solver_(std::make_unique<Solver>()) {}
LinearProgram::~LinearProgram() = default;

int LinearProgram::add_variable(double lower, double upper, double cost) {
  variables_.push_back({lower, upper});
  costs_.push_back(cost);
  return int(variables_.size()) - 1;
}

void LinearProgram::add_row(double lower, double upper, std::vector<std::pair<int, double>> entries) {
  rows_.push_back({lower, upper});
  entries_.push_back(std::move(entries));
}

/// What was added since the last solution, from which the next is a few steps away.
void LinearProgram::load_rest() {
  std::vector<double> lower, upper, values;
  for (size_t v = solver_->variables; v < variables_.size(); ++v)
    lower.push_back(bound(variables_[v].lower)), upper.push_back(bound(variables_[v].upper));
  solver_->simplex.addColumns(int(lower.size()), lower.data(), upper.data(), costs_.data() + solver_->variables,
                              nullptr, nullptr, nullptr);
  lower.clear(), upper.clear();
  std::vector<int> columns;
  std::vector<CoinBigIndex> starts{0};
  for (size_t r = solver_->rows; r < rows_.size(); ++r) {
    for (const auto& [column, value] : entries_[r]) columns.push_back(column), values.push_back(value);
    starts.push_back(CoinBigIndex(columns.size()));
    lower.push_back(bound(rows_[r].lower)), upper.push_back(bound(rows_[r].upper));
  }
  solver_->simplex.addRows(int(lower.size()), lower.data(), upper.data(), starts.data(), columns.data(), values.data());
  solver_->variables = variables_.size(), solver_->rows = rows_.size();
}

std::optional<std::vector<double>> LinearProgram::solve(std::vector<double>* prices) {
  load_rest();
  ClpSimplex& simplex = solver_->simplex;
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
