// Which segment of the step goes to which group of devices: dynamic programming over cuts and groups.
#pragma once
#include <algorithm>
#include <vector>

#include "dsl/cluster/cluster.h"

namespace hetsynth::synth {

/// Groups of devices that are alike: any of them costs the same.
struct GroupKind {
  int groups = 0;
  std::vector<double> turn_seconds;  ///< by position: forward and backward pass of one turn
  std::vector<double> once_seconds;  ///< by position: what runs once a step
  double memory_bytes = 0;           ///< of a device; 0: no limit
};

/// What is known of a step in turns.
struct StageProblem {
  int64_t turns = 1;
  std::vector<GroupKind> kinds;
  std::vector<int> cuts;  ///< positions at which a segment may begin, ascending, without the first
  std::vector<double> cut_bytes, cut_bytes_back;  ///< by cut: what a device sends on in a turn, and gets back
  std::vector<double> kept_bytes;                 ///< by position: of parameters, states and sums on a device
  std::vector<double> saved_bytes;  ///< by position: of what a turn keeps for its backward pass on a device
  /// Groups are numbered by kind.
  struct Group {
    int kind = 0, number = 0;
    bool operator==(const Group&) const = default;
  };
  /// [from][to], by all groups of the first kind, then of the next: between each device of one and its counterpart.
  std::vector<std::vector<Link>> links;
  double transfer(Group from, Group to, double bytes) const {
    const Link& link = links[size_t(index(from))][size_t(index(to))];
    return link.latency_seconds + bytes / link.bandwidth_bytes_per_second;
  }
  /// What crosses one of the cuts, there and back.
  double crossing(int cut, Group from, Group to) const {
    const auto at = size_t(std::ranges::lower_bound(cuts, cut) - cuts.begin());
    return transfer(from, to, cut_bytes[at]) + transfer(to, from, cut_bytes_back[at]);
  }
  int index(Group group) const {
    for (int kind = 0; kind < group.kind; ++kind) group.number += kinds[size_t(kind)].groups;
    return group.number;
  }
  /// Cuts behind which the rest may go to the first group as well: where the first and the last layer share a
  /// parameter, it then lies on one stage.
  std::vector<int> ring_cuts = {};
  double shared_bytes = 0;  ///< of such parameters' gradients, which otherwise go from the last to the first group
  bool both_ways = false;   ///< devices send while they receive
  int stages = 0;           ///< so many, if not 0
  /// What is counted of the turns that a stage keeps: it may begin them later, and wait.
  enum class Counted : uint8_t { all_turns, one_turn, no_memory } counted = Counted::all_turns;
  double to_beat = 0;  ///< divisions that take longer are of no use; 0: there is nothing to beat
  int positions() const { return int(kept_bytes.size()); }
};

/// The segments in order, one for each of these groups; the last one may be the first one's.
struct StageDivision {
  std::vector<int> ends;  ///< as in StageCuts
  std::vector<StageProblem::Group> groups;
  double seconds = 0;  ///< by the formula
  bool ring() const { return groups.front() == groups.back(); }
  int stages() const { return int(groups.size()) - (ring() ? 1 : 0); }
};

/// Divisions of two and more stages, no two of which have the same kinds of groups in the same order, the fastest
/// first. Fastest by the formula of pipelines (Huang et al. 2019, GPipe; Fan et al. 2021, DAPPLE):
///   (turns - 1) x the longest of stages and transfers + one turn through all stages and transfers, there and back,
/// where the longest stage counts all of what it does once, and a transfer what goes both ways, or one if devices do
/// both at once. It holds where enough turns are under way. A stage that is s stages before the last one keeps s + 1
/// turns, at most all of them, which must fit. Groups of a kind are taken in the order of their numbers.
std::vector<StageDivision> divide_into_stages(const StageProblem& problem, size_t most);

/// What no division takes less than, by the formula, whatever it sends: stages that work all the time.
double least_of_any_division(const StageProblem& problem);

/// The formula, for a division at hand.
double pipeline_seconds(const StageProblem& problem, const StageDivision& division);
/// Whether its stages fit.
bool fits(const StageProblem& problem, const StageDivision& division);

}  // namespace hetsynth::synth
