// The verifier's own rules, asked one instruction at a time while a plan is grown.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "verify/rules/rules.h"
#include "verify/verify.h"

namespace hetsynth::attack {

/// Answers of the solver, by what an obligation depends on: the same for all plans.
class ProofCache {
 public:
  bool proves(const Obligation& obligation);
  /// What was proved, in the form that `verify` takes; with every lemma.
  const ProofStore& known() const { return known_; }
  size_t size() const { return proved_.size(); }
  /// Of a core, spent in the solver.
  double seconds() const { return seconds_; }

  ProofCache();

 private:
  std::map<std::string, bool> proved_;
  ProofStore known_;
  double seconds_ = 0;
  std::unique_ptr<smt::Solver> solver_;
};

/// Of one plan, whose mesh and tables are complete. Both arguments and the cache must outlive it.
class Rules {
 public:
  Rules(const Program& reference, const SpmdProgram& plan, ProofCache& cache)
      : plan_(plan), subject_(make_subject(reference, plan)), cache_(cache) {}

  /// What the result of an instruction is found to hold; nothing if a rule refuses it. `operands`: what they hold.
  std::optional<Held> result(const Instruction& instruction, const std::vector<Held>& operands);
  /// What a value holds if the plan's word on it is true.
  Held as_said(const Value& value) const;
  /// What was found, in the plan's words: those given, where they mean the same, else with tables that divide the
  /// tensor's dimensions (of tables that cut alike in different units, the one that stands for all need not).
  Placements said(const Held& found, const Placements& word) const;
  /// Whether a tensor can be held so at all.
  bool holdable(NodeId node, const Placements& placements) const;
  bool same(NodeId one, NodeId other) const { return subject_.same(one, other); }
  /// Whether both say the same, with tables that cut alike and axes of one device.
  bool alike(const Placements& one, const Placements& other) const;
  bool alike_over(int axis, const Placement& one, const Placement& other) const;

 private:
  const SpmdProgram& plan_;
  Subject subject_;
  ProofCache& cache_;
  CutNumbers cuts_;
};

/// The plan with each value's placements as its instruction gives them; nothing if a rule refuses one.
std::optional<SpmdProgram> said_anew(const Program& reference, SpmdProgram plan, ProofCache& cache);

}  // namespace hetsynth::attack
