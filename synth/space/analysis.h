// What follows from the reference program alone, derived once for all clusters and meshes.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "synth/space/attention_cost.h"
#include "synth/space/covering_sets.h"
#include "synth/space/rules.h"
#include "synth/space/tensor_needs.h"

namespace hetsynth::synth {

/// How often what moves a tensor between its forms runs in a step: in every turn of the loop that makes it, but behind
/// the loop if the loop fills it turn by turn.
double moved_times(const Program& program, NodeId node);

/// Whether a consumer runs after the forward phase: an operation, a leaf that is updated, or -1 for the loss and named
/// outputs.
bool is_late(const Program& program, NodeId consumer);

struct Analysis {
  /// For meshes of so many axes; none: a single device, on which nothing is cut and nothing is partial.
  explicit Analysis(const Program& program, int axes, NestedCuts nested = NestedCuts::of_samples);
  /// The same for a single device, of what is known for several.
  static std::shared_ptr<const Analysis> of_one_device(const Analysis& several);
  /// hash_text of the program.
  const std::string& program_hash() const;
  Analysis(const Analysis&) = delete;
  Analysis& operator=(const Analysis&) = delete;

  const Program& program;
  std::vector<int> kinds;    ///< node_kinds
  DimensionClasses classes;  ///< none on a single device
  AttentionCost attention;
  std::vector<char> fused;  ///< fused_tensors
  std::vector<std::vector<NodeId>> consumers;
  /// One operand of an operation.
  struct Use {
    NodeId consumer;
    int position;
  };
  std::vector<std::vector<Use>> uses;               ///< by node: in program order
  std::vector<std::vector<NodeId>> update_targets;  ///< by value node: leaves that take its value at the end of the
                                                    ///< step, and carries of loops that do at the end of a turn
  std::vector<char> is_output;                      ///< by node: a named output
  /// By node: what moves the tensor between its forms can run beside most of the step's computing, since its readers or
  /// its makers are at an end of the step. So are parameters, states, what only the update phase reads, and what this
  /// makes before the backward phase ends.
  std::vector<char> may_hide;
  Rules rules;
  std::vector<int> tensor_kind;  ///< by node: equal for tensors of equal size, forms and classes, moved equally often
                                 ///< and with the same may_hide
  std::vector<NodeId> tensor_example;  ///< by tensor kind: a node
  /// By node: equal for tensors of one kind that are made and read by the same options, all that read them in one
  /// order: what happens between two such tensors' forms follows from the choices of those.
  std::vector<int> tensor_situation;
  // Found as they are asked for.
  mutable FormSubsets subsets;  ///< of any needs
  mutable TensorNeeds needs;    ///< of any tensor's consumers

 private:
  Analysis(const Program& program, int axes, NestedCuts nested, std::vector<int> kinds);
  /// `known`: of the same program, if it was analysed before; what does not depend on axes is taken from there.
  Analysis(const Program& program, int axes, NestedCuts nested, std::vector<int> kinds, DimensionClasses classes,
           const Analysis* known = nullptr);
  void find_tensor_kinds();
  void find_tensor_situations();

  // Worked out when first asked for.
  mutable std::shared_ptr<const Analysis> of_one_device_;
  mutable std::shared_ptr<std::string> hash_ = std::make_shared<std::string>();  ///< that of one device shares it
};

}  // namespace hetsynth::synth
