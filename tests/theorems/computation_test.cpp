// The rule of compute instructions is a theorem: what it concludes follows from what the operands hold, from the local
// obligation that the solver proves and from the definition of the instruction (computations.h), for unknown tables and
// tensors and over several axes at once. Left without one of its premises it is none.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <unordered_map>

#include "dsl/spmd/nested_cut.h"
#include "tests/theorems/computations.h"
#include "tests/theorems/setting.h"

namespace hetsynth::theorems {
namespace {

/// Random compute instructions of one operator on one mesh, and what the rule says of them.
class Attempts {
 public:
  Attempts(const Operation& operation, const std::vector<int>& axes, uint64_t seed)
      : operation_(operation),
        plan_(plan_with_tables(axes)),
        subject_(make_subject(operation.program, plan_)),
        random_(seed) {}

  const Subject& subject() const { return subject_; }

  /// The next instruction that the verifier's checks of form let pass.
  Computation next() {
    for (;;) {
      Computation c = any();
      bool fits = why_not_divided(plan_, operation_.node().space.factors, c.instruction.splits).empty();
      for (Held& held : c.operands) {
        fits = fits && unfit(subject_, subject_.node(held.node).type.shape, held.placements).empty();
        if (!fits) break;
        held.placements = normalised(subject_, held.placements);
        for (int a = 0; a < subject_.axis_count(); ++a)
          if (below(3) == 0) held.varying.insert(a);
        settle(subject_, held);
        fits = owners_differ(subject_, held).empty();
      }
      if (fits) return c;
    }
  }

  ComputeInference infer(const Computation& c, std::optional<Premise> without = std::nullopt) {
    return infer_compute(subject_, c.instruction, c.operands, cuts_, without);
  }

  bool obligation_holds(const Obligation& obligation) {
    auto [entry, is_new] = proved_.try_emplace(key(obligation));
    if (is_new) {
      smt::Solver solver(smt::Clock::now() + std::chrono::seconds(60));
      entry->second = hetsynth::prove(solver, obligation).answer == smt::Answer::proved;
    }
    return entry->second;
  }

  std::string told(const Computation& c) const {
    std::string out = operation_.name;
    for (size_t a = 0; a < c.instruction.splits.size(); ++a) {
      const Split& s = c.instruction.splits[a];
      if (s.stage >= 0) out += fmt::format(" on stage {} of axis {}", s.stage, subject_.axis(int(a)).name);
      if (s.factor >= 0)
        out += fmt::format(" {} divided over axis {} by {}", operation_.node().space.factors[size_t(s.factor)].name,
                           subject_.axis(int(a)).name, plan_.tables[size_t(s.table)].name);
    }
    for (const Held& held : c.operands) out += "\n  " + text(subject_, held);
    return out + (c.result.defined() ? "\n  " + text(subject_, c.result) : "");
  }

 private:
  int below(int n) { return int(random_() % uint64_t(n)); }
  template <typename T>
  const T& one_of(const std::vector<T>& items) {
    return items[size_t(below(int(items.size())))];
  }

  Computation any() {
    const Node& node = operation_.node();
    Computation c;
    c.instruction.opcode = Opcode::compute;
    c.instruction.node = node.id;
    for (NodeId input : node.inputs) c.operands.push_back({input, {}});
    // Now and then a tensor that does not belong there.
    if (below(40) == 0) c.operands[0].node = 2;
    for (int a = 0; a < subject_.axis_count(); ++a) over_axis(a, c);
    return c;
  }

  /// What one axis does: nothing, partial operands, a divided factor, a stage, or anything.
  void over_axis(int a, Computation& c) {
    const Node& node = operation_.node();
    Split split;
    std::vector<Placement> placed(c.operands.size());
    const int what = below(6), stage = below(subject_.axis(a).size);
    const int table = one_of(tables_of(plan_, a));
    const int factor = below(int(node.space.factors.size()));
    if (what == 2 || what == 3) split = {factor, table};
    if (what == 4) split = Split::on_stage(stage);
    const ReduceOp open = below(4) == 0 ? ReduceOp::max : ReduceOp::sum;
    for (size_t j = 0; j < placed.size(); ++j) {
      const Shape& shape = subject_.node(c.operands[j].node).type.shape;
      const auto cut = cut_of(node.space, node.space.inputs[j], shape, factor);
      if (what == 1 && below(3) > 0) placed[j] = Placement::partial(open);
      if ((what == 2 || what == 3) && cut && below(5) > 0) placed[j] = Placement::sharded(cut->dim, table);
      if (what == 4 && below(2) == 0) placed[j] = Placement::stage(stage);
      if (what == 5 || below(25) == 0) placed[j] = one_of(placements_over(plan_, a, int(shape.size())));
    }
    if (what == 5 && below(2) == 0) split = {factor, table};
    for (size_t j = 0; j < placed.size(); ++j) c.operands[j].placements.push_back(placed[j]);
    c.instruction.splits.push_back(split);
  }

  const Operation& operation_;
  SpmdProgram plan_;
  Subject subject_;
  std::mt19937_64 random_;
  CutNumbers cuts_;
  std::unordered_map<std::string, bool> proved_;
};

const std::vector<std::vector<int>> meshes = {{2, 2}, {2, 1}, {2, 2, 2}};

class ComputeRule : public ::testing::TestWithParam<size_t> {};

/// Other instructions in every run; HETSYNTH_ALL_THEOREMS asks for a hundred times as many.
TEST_P(ComputeRule, IsATheorem) {
  const Operation& operation = operations()[GetParam()];
  const int wanted = std::getenv("HETSYNTH_ALL_THEOREMS") ? 4000 : 40;
  const uint64_t seed = std::random_device{}();
  int partial = 0, varying = 0, all = 0;
  for (const std::vector<int>& axes : meshes) {
    Attempts attempts(operation, axes, seed);
    std::set<std::string> met;
    for (int tries = 0; tries < 400 * wanted && int(met.size()) < wanted; ++tries) {
      Computation c = attempts.next();
      const ComputeInference inference = attempts.infer(c);
      if (!inference.result || !attempts.obligation_holds(inference.obligation)) continue;
      c.result = *inference.result;
      if (!met.insert(attempts.told(c)).second) continue;
      ++all, partial += c.result.open_reduction().has_value(), varying += !c.result.varying.empty();
      ASSERT_EQ(prove(attempts.subject(), operation, c), smt::Answer::proved) << "seed " << seed << "\n"
                                                                              << attempts.told(c);
    }
  }
  fmt::print("{}: {} theorems, {} of them of partial results, {} of varying ones; seed {}\n", operation.name, all,
             partial, varying, seed);
  EXPECT_GT(all, 20);
}

INSTANTIATE_TEST_SUITE_P(List, ComputeRule, ::testing::Range(size_t(0), operations().size()),
                         [](const auto& info) { return operations()[info.param].name; });

/// An instruction that the rule lets pass without the premise alone, and that does not compute what it is said to.
bool needed(Premise premise, const Operation& operation, const std::vector<int>& axes, uint64_t seed) {
  Attempts attempts(operation, axes, seed);
  for (int tries = 0; tries < 3000; ++tries) {
    Computation c = attempts.next();
    const bool obligation = premise == Premise::obligation_proved;
    const ComputeInference inference = attempts.infer(c, obligation ? std::nullopt : std::optional(premise));
    if (!inference.result || (!obligation && attempts.infer(c).result)) continue;
    if (attempts.obligation_holds(inference.obligation) == obligation) continue;
    c.result = *inference.result;
    if (prove(attempts.subject(), operation, c) == smt::Answer::disproved) return true;
  }
  return false;
}

class ComputePremise : public ::testing::TestWithParam<Premise> {};

TEST_P(ComputePremise, IsNeeded) {
  bool found = false;
  for (const std::vector<int>& axes : meshes)
    for (const Operation& operation : operations()) found = found || needed(GetParam(), operation, axes, 1);
  EXPECT_TRUE(found);
}

INSTANTIATE_TEST_SUITE_P(List, ComputePremise, ::testing::ValuesIn(rule_of(Opcode::compute).premises),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace
}  // namespace hetsynth::theorems
