// How much slow devices leave out of their products, and whether that is better than anything else that can be done
// about them (SEMI-migration: Z. Wang et al., arXiv 2401.11469). Figures in, a choice out: nothing here measures or
// acts.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

namespace hetsynth {

/// More of a device's columns is left out by hand alone: no more has been measured (docs/runtime.md).
constexpr double most_left_out = 0.5;

/// A rank's computing of a step as it would be with nothing left out.
struct ComputeShares {
  double seconds = 0;
  double products = 0;  ///< part of it that products with columns take
  double packing = 0;   ///< part of it that copying what is kept takes, where something is left out
  double flops = 0;     ///< of those products
};

/// From what a rank measured in a step of which it left out some of its columns. `left_out`: part of the products'
/// work.
ComputeShares with_all_columns(double seconds, double product_seconds, double packing_seconds, double flops,
                               double left_out);

/// What ranks leave out, and what is to be expected of it.
struct Resizing {
  std::vector<double> parts;  ///< of their columns, by rank
  double seconds = 0;         ///< of a step
  double left_out = 0;        ///< part of the work of all products with columns
  /// Seconds for as much work as a step without leaving anything out: what is left out is not done.
  double worth_seconds() const { return seconds / (1 - left_out); }
  bool any() const { return left_out > 0; }
};

/// The parts with which the work that is done takes least time: slow ranks need no longer than some other one. Nothing
/// is left out where that gains less than `least_gain` of a step. `ranks`: at the speeds at hand; `step_seconds`: of a
/// step whose ranks compute so many times as long.
Resizing best_resizing(const std::vector<ComputeShares>& ranks,
                       const std::function<double(const std::vector<double>&)>& step_seconds, double least_gain);

/// What can be done about devices that are not as fast as planned.
enum class Remedy : uint8_t {
  nothing,
  resize,  ///< leave columns out
  shares,  ///< other shares of the same program
  plan     ///< another program
};

struct RemedyFigures {
  double nothing_seconds = 0;  ///< of a step
  Resizing resizing;
  double divide_seconds = 0;  ///< under the best other division; 0: there is none
  bool same_program = true;
  double pause_seconds = 0;  ///< that going over to it takes
  int64_t horizon = 0;       ///< steps that speeds are expected to stay as they are
};

/// The cheapest for as much work as a step has, pauses spread over the horizon. What loses nothing is taken where it is
/// not slower by more than `least_gain`.
Remedy choose_remedy(const RemedyFigures& figures, double least_gain);

}  // namespace hetsynth
