#include "verify/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <unordered_map>

#include "dsl/base/error.h"
#include "dsl/base/hash.h"
#include "verify/refute/refute.h"
#include "verify/rules/form.h"
#include "verify/rules/rules.h"
#include "verify/solver/lemmas.h"

namespace hetsynth {

std::string_view name(Verdict verdict) {
  static constexpr std::string_view names[] = {"proved", "refuted", "unknown"};
  return names[int(verdict)];
}

std::string_view name(Evidence evidence) {
  static constexpr std::string_view names[] = {"form", "results", "word"};
  return names[int(evidence)];
}

namespace {

/// Proofs after which the solver's context is renewed: its tables only grow.
constexpr int proofs_per_context = 400;

class Verifier {
 public:
  Verifier(const Subject& subject, smt::Clock::time_point deadline, const ProofStore* known, Verification& out)
      : s_(subject), deadline_(deadline), known_(known), out_(out), held_(subject.program.values.size()) {}

  /// Proves the whole plan; false with `out.summary` (and the instruction) at the first thing without proof.
  bool run() {
    for (ValueId leaf : s_.program.leaves)
      if (!take_leaf(leaf)) return false;
    for (size_t i = 0; i < s_.program.instructions.size(); ++i) {
      out_.instruction = int(i);
      if (smt::Clock::now() >= deadline_) return fail("the time limit was reached before the proof was complete");
      const Instruction& instruction = s_.program.instructions[i];
      if (!(instruction.opcode == Opcode::compute ? compute(instruction) : movement(instruction))) return false;
    }
    out_.instruction = -1;
    return carried() && loss() && finals() && lemmas();
  }

 private:
  bool fail(std::string summary) {
    out_.summary = std::move(summary);
    return false;
  }

  smt::Solver& solver() {
    if (!solver_ || proofs_ >= proofs_per_context) {
      solver_.reset();
      solver_ = std::make_unique<smt::Solver>(deadline_);
      proofs_ = 0;
    }
    return *solver_;
  }

  const std::string& name_of(NodeId node) const { return s_.node(node).name; }

  /// The plan's word on a value must be what was found: the generated source is laid out by it.
  bool claim_fits(ValueId v, const Held& found) {
    const Value& value = s_.program.values[v];
    if (!s_.same(value.node, found.node))
      return fail(fmt::format("value {} is said to hold {}, but holds {}", value.name, name_of(value.node),
                              name_of(found.node)));
    Placements claimed = normalised(s_, value.placements);
    for (int a = 0; a < s_.axis_count(); ++a)
      if (claimed[a] != found.placements[a])
        return fail(fmt::format("value {} is said to be {}, but is {}", value.name, describe(s_, claimed[a], a),
                                describe(s_, found.placements[a], a)));
    return true;
  }

  bool take_leaf(ValueId v) {
    const Value& value = s_.program.values[v];
    Held held{value.node, normalised(s_, value.placements)};
    for (int a = 0; a < s_.axis_count(); ++a)
      if (held.placements[a].kind == Placement::Kind::partial)
        return fail(fmt::format("{} cannot begin the step partial over axis {}", name_of(value.node), s_.axis(a).name));
    held_[v] = held;
    return claim_fits(v, held);
  }

  bool movement(const Instruction& instruction) {
    ++out_.obligations;
    Inference inference = infer_movement(s_, instruction, held_[instruction.operands[0]]);
    return accept(instruction, inference);
  }

  bool compute(const Instruction& instruction) {
    ++out_.obligations;
    std::vector<Held> operands;
    for (ValueId v : instruction.operands) operands.push_back(held_[v]);
    ComputeInference inference = infer_compute(s_, instruction, operands, cuts_);
    if (!inference.result) return fail(inference.reason);
    auto [entry, is_new] = proved_.try_emplace(key(inference.obligation));
    Proof& proof = entry->second;
    if (is_new && !prove_first(entry->first, inference.obligation, instruction, proof)) return false;
    if (proof.result.answer != smt::Answer::proved) return fail(explain(s_, instruction, operands, proof.result));
    ++out_.proofs[proof.number].instructions;
    return accept(instruction, inference);
  }

  struct Proof {
    ObligationResult result;
    size_t number = 0;  ///< in out_.proofs
  };

  bool prove_first(const std::string& key, const Obligation& obligation, const Instruction& instruction, Proof& proof) {
    ++out_.distinct_obligations;
    std::string hash = wide_content_hash(key);
    if (known_) {
      if (!known_->obligations.count(hash))
        return fail(fmt::format("the certificate has no proof of what {} needs", name_of(instruction.node)));
      proof.result.answer = smt::Answer::proved;
    } else {
      proof.result = prove(solver(), obligation);
      proofs_ += proof.result.proofs;
    }
    proof.number = out_.proofs.size();
    if (proof.result.answer == smt::Answer::proved)
      out_.proofs.push_back({hash, name_of(instruction.node), 0, proof.result.proofs});
    return true;
  }

  bool accept(const Instruction& instruction, const Inference& inference) {
    if (!inference.result) return fail(inference.reason);
    needed_lemmas_.insert(inference.lemmas.begin(), inference.lemmas.end());
    held_[instruction.result] = *inference.result;
    return claim_fits(instruction.result, *inference.result);
  }

  /// The invariant of every loop: what a carry was found to hold before the first turn (where it is its input), it
  /// holds again behind every turn, in which all instructions were proved from no more than that. Summands that were
  /// assumed to vary along an axis may be alike along it.
  bool carried() {
    for (const auto& [carry, value] : s_.program.carried) {
      const Held& made = held_[value];
      const NodeId next = s_.reference.next_of(carry);
      if (!s_.same(made.node, next))
        return fail(fmt::format("{} goes on with {}, not {}, from turn to turn", name_of(carry), name_of(made.node),
                                name_of(next)));
      for (const Instruction& i : s_.program.instructions) {
        if (i.opcode != Opcode::compute || i.node != carry) continue;
        const Held& begins = held_[i.result];
        for (int a = 0; a < s_.axis_count(); ++a)
          if (made.placements[a] != begins.placements[a])
            return fail(fmt::format("{} ends a turn {}, but {} begins it {}", name_of(next),
                                    describe(s_, made.placements[a], a), name_of(carry),
                                    describe(s_, begins.placements[a], a)));
        for (int a : made.varying)
          if (!begins.varying.count(a))
            return fail(
                fmt::format("the summands of {} differ along axis {} at the end of a turn, but those of {} do "
                            "not at its beginning",
                            name_of(next), s_.axis(a).name, name_of(carry)));
      }
    }
    return true;
  }

  bool loss() {
    if (s_.program.loss < 0) return true;
    const Held& held = held_[s_.program.loss];
    if (!s_.same(held.node, s_.reference.loss))
      return fail(
          fmt::format("the plan gives {} as the loss, which is {}", name_of(held.node), name_of(s_.reference.loss)));
    for (int a = 0; a < s_.axis_count(); ++a)
      if (held.placements[a].kind != Placement::Kind::replicated)
        return fail(fmt::format("the loss {} ends {}", name_of(held.node), describe(s_, held.placements[a], a)));
    return true;
  }

  /// Every update of the program, its new contents placed as the old ones were.
  bool finals() {
    std::map<NodeId, ValueId> final_of(s_.program.finals.begin(), s_.program.finals.end());
    for (const Update& update : s_.reference.updates) {
      auto found = final_of.find(update.target);
      if (found == final_of.end()) return fail(fmt::format("{} is never updated", name_of(update.target)));
      if (!final_fits(update, held_[found->second])) return false;
    }
    return true;
  }

  bool final_fits(const Update& update, const Held& held) {
    if (!s_.same(held.node, update.value))
      return fail(fmt::format("the new contents of {} are {}, not {}", name_of(update.target), name_of(held.node),
                              name_of(update.value)));
    ValueId start = *std::find_if(s_.program.leaves.begin(), s_.program.leaves.end(),
                                  [&](ValueId leaf) { return held_[leaf].node == update.target; });
    const Placements& before = held_[start].placements;
    for (int a = 0; a < s_.axis_count(); ++a)
      if (held.placements[a] != before[a])
        return fail(fmt::format("the new contents of {} end {}, but {} begins {}", name_of(update.target),
                                describe(s_, held.placements[a], a), name_of(update.target),
                                describe(s_, before[a], a)));
    return true;
  }

  bool lemmas() {
    for (const std::string& lemma : needed_lemmas_) {
      if (known_ && !known_->lemmas.count(lemma))
        return fail(fmt::format("the certificate has no proof of the lemma {}", lemma));
      if (!known_ && prove_named_lemma(solver(), lemma) != smt::Answer::proved)
        return fail(fmt::format("the lemma {} was not proved in the time given", lemma));
      ++out_.lemmas;
      out_.lemma_names.push_back(lemma);
    }
    return true;
  }

  const Subject& s_;
  smt::Clock::time_point deadline_;
  const ProofStore* known_;
  Verification& out_;
  std::vector<Held> held_;  ///< by value
  CutNumbers cuts_;
  std::unordered_map<std::string, Proof> proved_;
  std::set<std::string> needed_lemmas_;
  std::unique_ptr<smt::Solver> solver_;
  int proofs_ = 0;
};

std::vector<std::string> assumptions(const SpmdProgram& program) {
  std::vector<std::string> out = {
      "arithmetic is that of the real numbers: rounding (to bf16 and fp16 too), overflow and the order of additions "
      "are "
      "not covered",
      "functions such as exp, log and 1/x are the same function on every device, of which nothing else is known",
      "operators mean what their iteration space and body say; that kernels compute this is checked elsewhere",
      "the proof holds for every boundary table of the form used and for every number of devices above one per axis",
      "collectives deliver what their definition says, and every device runs the same instructions in the same order",
  };
  for (int axis : axes_of_stages(program))
    if (axis >= 0 && axis < int(program.mesh.axes.size()))
      out.push_back(fmt::format("axis {} has pipeline stages: of it, and of the {} devices along it, the plan alone",
                                program.mesh.axes[size_t(axis)].name, program.mesh.axes[size_t(axis)].size));
  return out;
}

void refute_flaw(const Program& reference, const Flaw& flaw, Verification& out) {
  out.verdict = Verdict::refuted;
  out.instruction = flaw.instruction;
  out.summary = flaw.text;
  out.counterexample.evidence = Evidence::form;
  out.counterexample.text = "the plan itself: " + flaw.text;
  if (flaw.node >= 0) out.counterexample.where = reference[flaw.node].where;
}

/// A proof was found: the plan is executed at small instances, and proved if they agree.
void conclude(const Program& reference, const SpmdProgram& program, const VerifyOptions& options, Verification& out) {
  const auto limit = std::chrono::duration<double>(std::clamp(options.trial_seconds, 0.0, 1e6));
  const ProofTrial trial =
      try_proved(reference, program, smt::Clock::now() + std::chrono::duration_cast<smt::Clock::duration>(limit),
                 program.instructions.size());
  out.trials = trial.instances;
  if (!trial.left_out.empty())
    out.assumptions.push_back(
        fmt::format("the plan was executed at {} of 3 small instances: {}", trial.instances, trial.left_out));
  if (trial.difference) {
    out.contradiction = trial.difference->text;
    out.summary = "a proof was found, but executing a small instance of the plan contradicts it";
    return;
  }
  out.verdict = Verdict::proved;
  out.summary = "the plan computes what the program says";
}

}  // namespace

Verification verify(const Program& reference, const SpmdProgram& program, const VerifyOptions& options) {
  auto start = smt::Clock::now();
  double limit = std::clamp(options.time_limit_seconds, 0.0, 1e6);
  auto deadline = start + std::chrono::duration_cast<smt::Clock::duration>(std::chrono::duration<double>(limit));
  Verification out;
  out.solver = smt::solver_version();
  out.assumptions = assumptions(program);
  if (std::optional<Flaw> flaw = flaw_of(reference, program)) {
    refute_flaw(reference, *flaw, out);
  } else {
    Subject subject = make_subject(reference, program);
    if (Verifier(subject, deadline, options.known, out).run()) {
      conclude(reference, program, options, out);
    } else {
      Refutation refutation = find_counterexample(reference, program, deadline);
      if (refutation.conclusive) out.verdict = Verdict::refuted;
      if (refutation.counterexample) out.counterexample = std::move(*refutation.counterexample);
    }
  }
  out.seconds = std::chrono::duration<double>(smt::Clock::now() - start).count();
  return out;
}

}  // namespace hetsynth
