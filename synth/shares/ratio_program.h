// The linear program of the shares along one mesh axis, for a fixed program at given shares on the other axes.
#pragma once
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "synth/schedule/schedule.h"
#include "synth/shares/ratios.h"
#include "synth/support/linear_program.h"

namespace hetsynth::synth {

/// A variable per dimension class and type of coordinate: what each coordinate of that type takes of the class. For
/// every term of the cost one per maximum over devices. Where two axes cut one class, parts count as the product of the
/// shares, before they are whole granules. What all devices wait for alike whatever the shares are, as
/// latencies, is left out.
class RatioProgram {
 public:
  /// Seconds are scaled to microseconds to stay near 1.
  static constexpr double scale = 1e6;

  /// All must outlive this. `others`: shares, of which those along the axis are not read. `types`: coordinate_types, or
  /// finer ones where `kept` by class, if not empty, says that the class keeps its shares along the axis, which are
  /// read.
  RatioProgram(const Problem& problem, int axis, const Shares& others, const DeviceTypes& types,
               const std::vector<CostTerm>& terms, const std::vector<char>& kept = {});

  /// By [class][type of coordinate].
  using TypeShares = std::vector<std::vector<double>>;
  /// Empty if infeasible. `prices`: by row, the microseconds that a unit more would save.
  TypeShares solve(std::vector<double>* prices = nullptr);
  /// Devices such that each device holds and does the same as one of them.
  const std::vector<int>& examples() const { return examples_; }
  /// By cuts, the part that a device holds of what is cut so.
  std::vector<double> parts(const std::vector<Cuts>& cuts, const TypeShares& shares, int device) const;
  /// From now on the device holds no more than that many bytes at the point of the profile, or, where `seconds_over` is
  /// finite, pays so much for as many bytes again. Returns the row.
  int limit_memory(int device, const MemoryProfile& profile, size_t point, double limit, double seconds_over);

 private:
  size_t type(int device) const { return size_t(types_.type_of[size_t(problem_.cost.coordinate(device, axis_))]); }
  int share(int class_id, int device) const { return share_[size_t(class_id)][type(device)]; }
  double beside(const Cuts& cuts, int device) const;
  Cuts cuts(NodeId node, const Form& form) const;
  bool crosses_hosts(int device) const;

  /// A variable, what it gives at 0, and what more at 1.
  using Line = std::tuple<int, double, double>;

  int maximum(double count);
  void above(int maximum, const std::set<Line>& lines);
  void above(int maximum, double fixed, double slope, int variable);
  void above(int maximum, const std::map<int, double>& scaled_slopes);
  void find_examples();
  void add_operator(const CostTerm& term);
  void add_conversion(const CostTerm& term);
  void add_along_other_axis(const CostTerm& term, int class_id);
  void add_slice(const CostTerm& term, int class_id, int z);
  void add_gathering(const CostTerm& term, int class_id, int z);
  void add_hierarchical(const CostTerm& term, int class_id);
  void add_all_to_all(const CostTerm& term);
  void add_exchange_by_host(const CostTerm& term, const std::vector<int>& larger);
  void add_uplinks(const CostTerm& term, const std::vector<int>& larger, int maximum);

  const Problem& problem_;
  const int axis_;
  const Shares& others_;
  const DeviceTypes& types_;
  LinearProgram lp_;
  std::vector<std::vector<int>> share_;  ///< variables
  std::vector<int> examples_;
};

}  // namespace hetsynth::synth
