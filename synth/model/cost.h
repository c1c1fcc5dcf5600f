// The cost model: seconds of every operator and every conversion, with real whole-granule shares. All planning, scoring
// and baselines use this one.
//
// Operator, on device d:     call + max(flops_d / flops_per_second, bytes_d / memory_bytes_per_second); the step waits
// for the slowest device. The speed and what a call costs are those of the operator's class
// (dsl/cluster/device_speed.h), in which products of bf16 and of fp16 operands are apart; a fused operator is no call
// of its own.
//   flops_d, bytes_d: the part of the iteration space and of the operands the device really touches. A tensor that an
//   elementwise operator makes and a single operator reads once in the same order is fused: its bytes are not charged.
//   One-hot loops count the rows moved. Attention on cpu devices is priced as the nest of blocks it becomes
//   (synth/space/attention_cost.h); on cuda devices its time is that of its operators one by one, though no scores are
//   stored.
// What moves a tensor between its forms: synth/model/communication_cost.h.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "dsl/cluster/cluster.h"
#include "dsl/spmd/spmd.h"
#include "synth/mesh/device_types.h"
#include "synth/model/communication_cost.h"
#include "synth/space/attention_cost.h"
#include "synth/space/rules.h"
#include "synth/space/shares.h"
#include "synth/support/picoseconds.h"

namespace hetsynth::synth {

/// By the set of axes that cut it (bit a: axis a).
constexpr int cut_sets = 1 << max_axes;

/// What a device does for one operator: of every part, its shares on the axes that cut the part.
struct Work {
  std::array<double, cut_sets> flops{}, bytes{};
  std::array<CutClass, max_axes> class_id{-1, -1, -1};  ///< by axis
  OperatorClass operators = OperatorClass::loop;
  bool called = true;  ///< not part of another operator's loop
  double turns = 1;    ///< the work is that of one turn of a loop; costs are of all
  auto operator<=>(const Work&) const = default;
};

/// A device's part of what each axis cuts, from 0 to 1; 1 where the axis cuts nothing.
using Parts = std::array<double, max_axes>;
constexpr Parts whole_part = [] {
  Parts parts{};
  parts.fill(1);
  return parts;
}();

/// Conversion between forms of a tensor by one instruction.
struct Conversion {
  bool possible = false;
  Opcode opcode = Opcode::slice;
  int axis = 0;
  Realisation realisation = Realisation::native;
  Picoseconds cost = forbidden;
};

/// How much of some work a device can have done by some time.
class PartWithin {
 public:
  /// At most 1; 0: none.
  double operator()(double seconds) const {
    const double left = seconds / turns_ - call_seconds_;
    if (left <= 0) return 0;
    double part = 1;
    for (const Sum& sum : sums_)
      if (const double most = left * sum.per_second; sum.whole > most)
        part = std::min(part, (most - sum.fixed) / (sum.whole - sum.fixed));
    return std::max(0.0, part);
  }

 private:
  friend class CostModel;
  /// Of operations or bytes, which grow evenly with the part.
  struct Sum {
    double fixed, whole, per_second;
  };
  double turns_ = 1, call_seconds_ = 0;
  std::array<Sum, 2> sums_{};
};

class DistinctDevices;

class CostModel {
 public:
  /// `kinds`: as node_kinds gives them; `fused`: as fused_tensors does. `mesh`: over the cluster's devices in rank
  /// order.
  CostModel(const Program& program, const DimensionClasses& classes, const std::vector<int>& kinds,
            const AttentionCost& attention, const std::vector<char>& fused, const Cluster& cluster, const Mesh& mesh);

  int device_count() const { return int(cluster_.devices.size()); }
  const Cluster& cluster() const { return cluster_; }
  const Mesh& mesh() const { return mesh_; }
  /// The link that limits a group along the axis.
  const Link& link(int axis, int device) const { return communication_.link(axis, device); }
  const CommunicationCost& communication() const { return communication_; }
  int coordinate(int device, int axis) const { return communication_.coordinate(device, axis); }

  Work work(NodeId node, const Option& option) const;
  /// Equal for nodes whose work is the same under equal options.
  int work_kind(NodeId node) const { return works_.kind(node); }
  /// Seconds of a device that does these parts of the work, in all turns; 0 for a device without a part.
  double device_seconds(const Work& work, const Parts& parts, int device) const;
  double device_seconds(const Work& work, const Shares& shares, int device) const {
    return device_seconds(work, parts(work, shares, device), device);
  }
  /// The greatest part on an axis that a device can do of the work in some time, the other parts being as given.
  PartWithin part_within(const Work& work, Parts parts, int axis, int device) const;
  /// What a device's seconds of such work follow from; a call that costs nothing where there is none.
  ComputeSpeed speed(const Work& work, int device) const;
  /// Floating-point operations of these parts of the work.
  double device_flops(const Work& work, const Parts& parts) const;
  double device_flops(const Work& work, const Shares& shares, int device) const {
    return device_flops(work, parts(work, shares, device));
  }
  Picoseconds operator_cost(NodeId node, const Option& option, const Shares& shares) const;
  /// The same by devices at these shares.
  Picoseconds operator_cost(NodeId node, const Option& option, const Shares& shares,
                            const DistinctDevices& devices) const;
  /// Equal for devices of one type.
  int type_of(int device) const { return types_.type_of[size_t(device)]; }

  /// The instruction that takes a tensor from one form to another, which differ on one axis, with its cheapest
  /// realisation; costs are those of as often as the tensor is moved (times).
  Conversion conversion(NodeId node, const Form& from, const Form& to, const Shares& shares) const;
  /// How often a step carries out what moves the tensor by this instruction; communication that may hide
  /// (Analysis::may_hide) counts as the part of itself that weigh_hidden gave.
  double times(NodeId node, Opcode opcode) const;
  void weigh_hidden(const std::vector<char>& may_hide, double weight) {
    may_hide_ = &may_hide, hidden_weight_ = weight;
  }
  double hidden_weight() const { return hidden_weight_; }
  /// Plans do without these instructions.
  void forbid(const std::vector<Opcode>& opcodes) { forbidden_ = opcodes; }
  /// The same by the bytes that a device holds of the tensor in a form, moved once.
  using Held = std::function<double(const Form& form, int device)>;
  Conversion conversion(const Form& from, const Form& to, const Held& held) const;
  /// `before`, `after`: by device.
  Conversion conversion(const Form& from, const Form& to, const std::vector<double>& before,
                        const std::vector<double>& after) const;
  /// A conversion that was priced once, as often as the tensor is moved.
  Conversion repeated(Conversion conversion, NodeId node) const;

  /// Whether a tensor lives only inside its consumer's loop, or block by block inside of attention.
  bool fused(NodeId node) const { return fused_[node] != 0 || in_blocks(node); }
  /// The latter, where a plan leaves attention in one piece.
  bool in_blocks(NodeId node) const { return native_ ? attention_.in_blocks(node) : attention_.in_kernels(node); }
  /// Whether one of those is stored all the same once the gradient makes it again.
  bool stored_for_gradient(NodeId node) const { return !native_ && attention_.stored_for_gradient(node); }
  const AttentionCost& attention() const { return attention_; }

  /// Bytes of a whole tensor, and of the part in this form on a device.
  int64_t bytes(NodeId node) const;
  double local_bytes(NodeId node, const Form& form, const Shares& shares, int device) const;
  /// What of the class, or of its parts, a device has along an axis, from 0 to 1; 1 where nothing is cut.
  double part(CutClass cut, int axis, const Shares& shares, int device) const;

 private:
  struct Step {
    std::optional<Opcode> opcode;  ///< none: not by one instruction
    int axis = -1;
  };
  Step step(const Form& from, const Form& to) const;
  size_t axes() const { return mesh_.axes.size(); }
  Parts parts(const Work& work, const Shares& shares, int device) const;
  void find_works(const std::vector<int>& kinds);
  bool priced_in_blocks(NodeId node) const { return native_ && attention_.in_blocks(node); }

  /// What an operation touches, whole.
  struct WholeWork {
    struct Operand {
      double bytes = 0;
      uint64_t factors = 0;    ///< those that index it; more than 64 are never split
      bool in_blocks = false;  ///< moved only where keys are cut
    };
    double flops = 0;
    OperatorClass operators = OperatorClass::loop;
    bool called = true;
    double turns = 1;
    std::vector<Operand> operands;  ///< and the result; none of them fused
    std::vector<int> factor_classes;
    int column_factor = -1;  ///< see AttentionCost
  };

  std::vector<Opcode> forbidden_;
  const std::vector<char>* may_hide_ = nullptr;  ///< none: all communication counts whole
  double hidden_weight_ = 1;
  const Program& program_;
  const DimensionClasses& classes_;
  const AttentionCost& attention_;
  const Cluster& cluster_;
  Mesh mesh_;
  bool native_;  ///< all devices are cores: uneven shards need no padding, attention runs in blocks
  CommunicationCost communication_;
  DeviceTypes types_;
  std::array<std::vector<ComputeSpeed>, std::size(operator_classes)> speeds_;  ///< [class][device]
  std::vector<double> memory_speeds_;                                          ///< by device: bytes per second
  std::vector<int64_t> bytes_;                                                 ///< by node
  const std::vector<char>& fused_;  ///< by node: never stored, its consumer's loop makes it
  ByKind<WholeWork> works_;
};

}  // namespace hetsynth::synth
