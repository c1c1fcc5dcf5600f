// Contraction: variables with few neighbours disappear into their neighbours' costs.
#pragma once
#include "synth/support/stop_token.h"
#include "synth/wcsp/learnt_messages.h"
#include "synth/wcsp/network.h"

namespace hetsynth::synth {

/// Which values are looked for before variables are taken out. In large networks dead ends are dear to find, and few
/// before the network has been pruned.
enum class Thoroughness { impossible, dead_ends };

/// A network reduced to its core, and the way back.
class Contraction {
 public:
  /// Takes out, in turn until nothing changes, values that no optimum needs (`undominated_values`), variables with one
  /// value left, and variables with at most two neighbours: their minimum is a cost of one neighbour or of the pair.
  /// This does not change the optimum, and each makes room for the other. Pairs of more than `pair_limit` entries are
  /// not made.
  Contraction(const Network& network, const StopToken& stop, Thoroughness values = Thoroughness::dead_ends,
              double pair_limit = 4096);

  const Network& core() const { return core_; }
  bool impossible() const { return impossible_; }
  /// Values that dead-end elimination leaves, before any variable is taken out.
  int64_t value_count() const { return values_; }
  int64_t removed_count() const { return int64_t(removed_.size()); }
  /// Part of the cost that the core no longer tells.
  Picoseconds constant() const { return constant_; }
  /// What the core's variables and values are called, given those of the whole network.
  NamedValues named(const NamedValues& whole) const;
  /// The cheapest assignment of the whole network that agrees with one of the core.
  std::vector<int> expanded(const std::vector<int>& core_assignment) const;
  /// By variable of the whole network: the values that stand for some of the core, all that are left of a variable
  /// taken out.
  ValueLists expanded(const ValueLists& of_core) const;

 private:
  /// A variable taken out: it takes the value that is cheapest beside its neighbours'.
  struct Removed {
    int variable;
    int values;  ///< list
    int unary;
    size_t begin;  ///< of its neighbours, which go on to those of the next
  };
  struct Neighbour {
    int variable;
    int values;  ///< those it had then: a list
    int table;   ///< [value of what was taken out][its value]
  };
  bool drop_values(const Network& of, const NumberedLists& left);
  bool take_out_variables(double pair_limit, std::vector<int>* changed);

  std::shared_ptr<TableStore> store_;
  Network core_;
  bool impossible_ = false;
  Picoseconds constant_ = 0;
  int64_t values_ = 0;
  std::vector<int> variables_;  ///< of the core: number in the whole network
  Interner<int> lists_;
  std::vector<int> alive_;  ///< by variable of the whole network: a list of the values that are left
  std::vector<Removed> removed_;
  std::vector<Neighbour> neighbours_;  ///< of all of them
};

}  // namespace hetsynth::synth
