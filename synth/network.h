// A weighted constraint network: variables with finite domains, costs of single variables and of pairs. The search
// minimises the sum of all costs.
#pragma once
#include <map>
#include <utility>
#include <vector>

#include "synth/cost.h"

namespace hetsynth::synth {

/// Tables of costs by number; equal contents have equal numbers.
class TableStore {
 public:
  int intern(std::vector<Picoseconds> table);
  const std::vector<Picoseconds>& operator[](int id) const { return *tables_[id]; }

 private:
  std::map<std::vector<Picoseconds>, int> number_;
  std::vector<const std::vector<Picoseconds>*> tables_;
};

class Network {
 public:
  /// `position`: where the variable stands among the others; message passing follows it.
  int add_variable(int domain, double position);
  double position(int variable) const { return position_[variable]; }
  int variable_count() const { return int(unary_.size()); }
  int domain(int variable) const { return int(unary_[variable].size()); }
  void add_cost(int variable, int value, Picoseconds cost);
  /// `table`: [value of a][value of b], a != b. Tables of one pair add up.
  void add_pair(int a, int b, std::vector<Picoseconds> table);

  const std::vector<Picoseconds>& unary(int variable) const { return unary_[variable]; }
  /// Keys (a, b) with a < b.
  const std::map<std::pair<int, int>, std::vector<Picoseconds>>& pairs() const { return pairs_; }
  Picoseconds cost(const std::vector<int>& assignment) const;

 private:
  std::vector<double> position_;
  std::vector<std::vector<Picoseconds>> unary_;
  std::map<std::pair<int, int>, std::vector<Picoseconds>> pairs_;
};

/// The network over some values of each variable only, renumbered from 0.
Network restrict(const Network& network, const std::vector<std::vector<int>>& values);

/// Adds, saturating at `forbidden`.
inline Picoseconds add(Picoseconds a, Picoseconds b) { return a + b >= forbidden ? forbidden : a + b; }

/// Dead-end elimination: the values of each variable that some optimum may use. A value a goes if some b has
///   cost(b) - cost(a) + sum over pairs of max over the neighbour's values of [cost(b, .) - cost(a, .)] <= 0.
/// At least one optimum survives; of two values that dominate each other the first stays. A variable without a possible
/// value keeps none.
std::vector<std::vector<int>> undominated_values(const Network& network);

}  // namespace hetsynth::synth
