#include "tests/attack/rules.h"

#include <chrono>
#include <ctime>

#include "dsl/base/hash.h"
#include "verify/rules/normalised_plan.h"
#include "verify/solver/lemmas.h"

namespace hetsynth::attack {
namespace {

/// After which the solver's context is renewed: its tables only grow.
constexpr size_t proofs_per_context = 400;

}  // namespace

ProofCache::ProofCache() {
  for (const auto& [name, text] : lemma_texts()) known_.lemmas.insert(name);
}

bool ProofCache::proves(const Obligation& obligation) {
  const std::string text = key(obligation);
  const auto [entry, is_new] = proved_.try_emplace(text, false);
  if (!is_new) return entry->second;
  if (!solver_ || proved_.size() % proofs_per_context == 0) {
    solver_.reset();
    solver_ = std::make_unique<smt::Solver>(smt::Clock::now() + std::chrono::hours(24));
  }
  const std::clock_t start = std::clock();
  entry->second = prove(*solver_, obligation).answer == smt::Answer::proved;
  seconds_ += double(std::clock() - start) / CLOCKS_PER_SEC;
  if (entry->second) known_.obligations.insert(wide_content_hash(text));
  return entry->second;
}

std::optional<Held> Rules::result(const Instruction& instruction, const std::vector<Held>& operands) {
  if (instruction.opcode != Opcode::compute) return infer_movement(subject_, instruction, operands[0]).result;
  const ComputeInference inference = infer_compute(subject_, instruction, operands, cuts_);
  if (!inference.result || !cache_.proves(inference.obligation)) return std::nullopt;
  return inference.result;
}

Held Rules::as_said(const Value& value) const { return {value.node, normalised(subject_, value.placements)}; }

Placements Rules::said(const Held& found, const Placements& word) const {
  Placements out = found.placements;
  const Shape& shape = subject_.node(found.node).type.shape;
  for (int a = 0; a < int(out.size()); ++a) {
    Placement& p = out[size_t(a)];
    if (alike_over(a, p, word[size_t(a)])) {
      p = word[size_t(a)];
      continue;
    }
    for (int t = 0; p.kind == Placement::Kind::sharded && t < int(plan_.tables.size()); ++t)
      if (!uncuttable(subject_, shape, p.dim, p.table).empty() && subject_.table_of[size_t(t)] == p.table &&
          uncuttable(subject_, shape, p.dim, t).empty())
        p.table = t;
  }
  // What is said of axes of one device means nothing, but has to go together with the rest.
  for (int a = 0; a < int(out.size()) && !holdable(found.node, out); ++a)
    if (subject_.trivial(a)) out[size_t(a)] = Placement::replicated();
  return out;
}

bool Rules::holdable(NodeId node, const Placements& placements) const {
  const Shape& shape = subject_.node(node).type.shape;
  for (const Placement& p : placements)
    if (p.kind == Placement::Kind::sharded && !uncuttable(subject_, shape, p.dim, p.table).empty()) return false;
  return unfit(subject_, shape, placements).empty();
}

bool Rules::alike(const Placements& one, const Placements& other) const {
  return normalised(subject_, one) == normalised(subject_, other);
}

bool Rules::alike_over(int axis, const Placement& one, const Placement& other) const {
  Placements left(plan_.mesh.axes.size()), right = left;
  left[size_t(axis)] = one, right[size_t(axis)] = other;
  return alike(left, right);
}

std::optional<SpmdProgram> said_anew(const Program& reference, SpmdProgram plan, ProofCache& cache) {
  Rules rules(reference, plan, cache);
  std::vector<Held> held(plan.values.size());
  for (ValueId leaf : plan.leaves) held[size_t(leaf)] = rules.as_said(plan.values[size_t(leaf)]);
  for (const Instruction& i : plan.instructions) {
    std::vector<Held> operands;
    for (ValueId v : i.operands) operands.push_back(held[size_t(v)]);
    const std::optional<Held> made = rules.result(i, operands);
    if (!made) return std::nullopt;
    held[size_t(i.result)] = *made;
    plan.values[size_t(i.result)].node = made->node;
    Placements& word = plan.values[size_t(i.result)].placements;
    word = rules.said(*made, word);
  }
  return plan;
}

}  // namespace hetsynth::attack
