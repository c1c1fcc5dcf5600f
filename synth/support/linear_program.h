// Linear programs, solved by CLP behind this one wrapper.
#pragma once
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace hetsynth::synth {

/// Minimise the sum of costs under bounds on variables and rows. Infinite bounds: +-HUGE_VAL.
class LinearProgram {
 public:
  LinearProgram();
  ~LinearProgram();
  LinearProgram(const LinearProgram&) = delete;
  LinearProgram& operator=(const LinearProgram&) = delete;

  /// Returns the variable's number.
  int add_variable(double lower, double upper, double cost);
  /// lower <= sum of coefficient * variable <= upper. Each variable at most once.
  void add_row(double lower, double upper, std::vector<std::pair<int, double>> entries);
  int row_count() const { return int(rows_.size()); }
  /// Values of the variables at an optimum; nullopt if there is none. `prices`: by row, what the optimum would gain for
  /// every unit that the row's bound is looser. What is added afterwards is solved from this solution on.
  std::optional<std::vector<double>> solve(std::vector<double>* prices = nullptr);

 private:
  void load_rest();

  struct Bounds {
    double lower, upper;
  };
  std::vector<Bounds> variables_, rows_;
  std::vector<double> costs_;
  std::vector<std::vector<std::pair<int, double>>> entries_;
  struct Solver;
  std::unique_ptr<Solver> solver_;
};

}  // namespace hetsynth::synth
