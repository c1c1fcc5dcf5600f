#include "synth/linear_program.h"

#include <ClpSimplex.hpp>
#include <CoinPackedMatrix.hpp>
#include <cmath>

namespace hetsynth::synth {
namespace {

double bound(double value) { return std::isinf(value) ? std::copysign(COIN_DBL_MAX, value) : value; }

}  // namespace

struct LinearProgram::Solver {
  ClpSimplex simplex;
  size_t variables = 0, rows = 0;  ///< that it knows
};

LinearProgram::LinearProgram() = default;
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

/// All at once.
void LinearProgram::load() {
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
  solver_ = std::make_unique<Solver>();
  solver_->simplex.setLogLevel(0);
  solver_->simplex.loadProblem(matrix, lower.data(), upper.data(), costs_.data(), row_lower.data(), row_upper.data());
}

/// What was added since the last solution, from which the next is a few steps away.
void LinearProgram::load_rest() {
  for (size_t v = solver_->variables; v < variables_.size(); ++v)
    solver_->simplex.addColumn(0, nullptr, nullptr, bound(variables_[v].lower), bound(variables_[v].upper), costs_[v]);
  std::vector<int> columns;
  std::vector<double> values;
  for (size_t r = solver_->rows; r < rows_.size(); ++r) {
    columns.clear(), values.clear();
    for (const auto& [column, value] : entries_[r]) columns.push_back(column), values.push_back(value);
    solver_->simplex.addRow(int(columns.size()), columns.data(), values.data(), bound(rows_[r].lower),
                            bound(rows_[r].upper));
  }
}

std::optional<std::vector<double>> LinearProgram::solve(std::vector<double>* prices) {
  solver_ ? load_rest() : load();
  solver_->variables = variables_.size(), solver_->rows = rows_.size();
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
