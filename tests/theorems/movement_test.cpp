// Every rule of movements is a theorem: what it concludes follows from what the operand holds and from the definition
// of the instruction (movements.h), for unknown tables and tensors. Left without one of its premises it is none.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>

#include "dsl/spmd/plan_text.h"
#include "tests/support/plan_builder.h"
#include "tests/theorems/movements.h"
#include "tests/theorems/setting.h"

namespace hetsynth::theorems {
namespace {

/// A rule applied: the operand, the instruction, and what the rule concludes.
struct Case {
  Instruction instruction;
  Held before;
  Held after;
};

/// A mesh with its tables and one tensor.
class Setting {
 public:
  explicit Setting(const std::vector<int>& axes, int dims = 2) : plan_(plan_with_tables(axes)), dims_(dims) {
    builder_.leaf("T", NodeKind::parameter, Shape(size_t(dims), extent));
    subject_.emplace(make_subject(builder_.program, plan_));
    held_ = all_held(*subject_, 0);
  }

  const Subject& subject() const { return *subject_; }
  const std::vector<Held>& held() const { return held_; }
  const Shape& shape() const { return builder_.program[0].type.shape; }

  /// Every movement over every axis.
  std::vector<Instruction> instructions(Opcode opcode) const {
    std::vector<Instruction> out;
    for (int a = 0; a < subject_->axis_count(); ++a) {
      const OpcodeFields fields = fields_of(opcode);
      Instruction i;
      i.opcode = opcode;
      i.axis = a;
      if (fields.halo) i.before = i.after = 1;
      std::vector<Instruction> mine{i};
      const auto vary = [&](bool applies, int count, auto&& set) {
        if (!applies) return;
        std::vector<Instruction> more;
        for (const Instruction& from : mine)
          for (int k = 0; k < count; ++k) set(more.emplace_back(from), k);
        mine = std::move(more);
      };
      const std::vector<int> tables = tables_of(plan_, a);
      const int size = plan_.mesh.axes[size_t(a)].size;
      vary(fields.cut, dims_, [](Instruction& x, int k) { x.dim = k; });
      vary(fields.cut, int(tables.size()), [&](Instruction& x, int k) { x.table = tables[size_t(k)]; });
      vary(fields.to_cut, dims_ - 1, [this](Instruction& x, int k) { x.to_dim = (x.dim + 1 + k) % dims_; });
      vary(fields.to_cut, int(tables.size()), [&](Instruction& x, int k) { x.to_table = tables[size_t(k)]; });
      const bool reduces = opcode == Opcode::all_reduce || opcode == Opcode::reduce_scatter;
      // Thirds are no exact numbers of the solver's: averages of three devices are left to the lemma.
      vary(reduces, 5, [&](Instruction& x, int k) { x.reduce = ReduceOp(k); });
      if (size > 2) std::erase_if(mine, [&](const Instruction& x) { return reduces && x.reduce == ReduceOp::average; });
      vary(fields.root, size, [](Instruction& x, int k) { x.root = k; });
      vary(fields.to, size, [](Instruction& x, int k) { x.to = k; });
      std::erase_if(mine, [&](const Instruction& x) { return fields.to && x.to == x.root; });
      out.insert(out.end(), mine.begin(), mine.end());
    }
    return out;
  }

  smt::Answer prove(const Case& c) const {
    smt::Solver solver(smt::Clock::now() + std::chrono::seconds(60));
    World world(*subject_, solver);
    const std::string tensor = "T";
    Terms index;
    for (int d = 0; d < dims_; ++d) index.push_back(solver.integer_symbol(fmt::format("i{}", d)));
    const Family after = moved(world, c.instruction, family_of(world, tensor, c.before, shape()), shape());
    const Terms goals = is_held(world, after, tensor, c.after, shape(), index);
    know_sums(world, tensor, c.before, index);
    Terms premises = world.facts;
    premises.insert(premises.end(), world.tables.facts().begin(), world.tables.facts().end());
    for (const smt::Term& at : index) premises.push_back(world.inside(at, {solver.integer(0), solver.integer(extent)}));
    return solver.prove(premises, solver.all(goals));
  }

  std::string told(const Case& c) const {
    const Instruction& i = c.instruction;
    return fmt::format(
        "{} over axis {} dim {} table {} to dim {} table {} reduce {} root {} to {}\n  before: {}\n  after: {}",
        name(i.opcode), plan_.mesh.axes[size_t(i.axis)].name, i.dim, i.table, i.to_dim, i.to_table, name(i.reduce),
        i.root, i.to, text(*subject_, c.before), text(*subject_, c.after));
  }

 private:
  SpmdProgram plan_;
  int dims_;
  test::ProgramBuilder builder_;
  std::optional<Subject> subject_;
  std::vector<Held> held_;
};

/// All cases of a rule that the rule accepts, without a premise if one is given; then only those that it refuses with
/// it. `visit` says whether to go on.
void each_case(const Setting& setting, Opcode opcode, std::optional<Premise> without,
               const std::function<bool(const Case&)>& visit) {
  const std::vector<Instruction> instructions = setting.instructions(opcode);
  for (const Held& before : setting.held())
    for (const Instruction& i : instructions) {
      Inference inference = infer_movement(setting.subject(), i, before, without);
      if (!inference.result || (without && infer_movement(setting.subject(), i, before).result)) continue;
      if (!visit({i, before, *inference.result})) return;
    }
}

const std::vector<std::vector<int>> two_axes = {{2, 2}, {2, 1}, {1, 2}, {1, 1}, {2, 3}, {3, 2}};
const std::vector<std::vector<int>> three_axes = {{2, 2, 2}, {2, 1, 2}};

class MovementRule : public ::testing::TestWithParam<Opcode> {};

TEST_P(MovementRule, IsATheoremOverTwoAxes) {
  int theorems = 0;
  for (const std::vector<int>& axes : two_axes) {
    const Setting setting(axes);
    each_case(setting, GetParam(), std::nullopt, [&](const Case& c) {
      ++theorems;
      EXPECT_EQ(setting.prove(c), smt::Answer::proved) << setting.told(c);
      return !HasFailure();
    });
  }
  RecordProperty("theorems", theorems);
  EXPECT_GT(theorems, 0);
}

/// With a third axis there are some hundred thousand theorems: a share of them, other ones in every run, or all if
/// HETSYNTH_ALL_THEOREMS is set.
TEST_P(MovementRule, IsATheoremOverThreeAxes) {
  const bool all = std::getenv("HETSYNTH_ALL_THEOREMS") != nullptr;
  const uint64_t seed = std::random_device{}();
  std::mt19937_64 random(seed);
  int64_t met = 0, proved = 0;
  for (const std::vector<int>& axes : three_axes) {
    const Setting setting(axes);
    int64_t cases = 0;
    each_case(setting, GetParam(), std::nullopt, [&](const Case&) { return ++cases, true; });
    const int64_t some = 60;
    each_case(setting, GetParam(), std::nullopt, [&](const Case& c) {
      ++met;
      if (!all && int64_t(random() % uint64_t(cases)) >= some) return true;
      ++proved;
      EXPECT_EQ(setting.prove(c), smt::Answer::proved) << "seed " << seed << "\n" << setting.told(c);
      return !HasFailure();
    });
  }
  fmt::print("{}: {} of {} theorems over three axes proved, seed {}\n", name(GetParam()), proved, met, seed);
  EXPECT_GT(proved, 0);
}

TEST_P(MovementRule, IsNoneWithoutAnyOneOfItsPremises) {
  for (Premise premise : rule_of(GetParam()).premises) {
    bool needed = false;
    const auto look = [&](const Setting& setting) {
      each_case(setting, GetParam(), premise, [&](const Case& c) {
        needed = setting.prove(c) == smt::Answer::disproved;
        return !needed;
      });
    };
    for (size_t m = 0; m < two_axes.size() && !needed; ++m) look(Setting(two_axes[m]));
    // An all_to_all leaves no dimension to other axes where there are but two.
    if (!needed) look(Setting({2, 2}, 3));
    for (size_t m = 0; m < three_axes.size() && !needed; ++m) look(Setting(three_axes[m]));
    if (!needed) look(Setting({2, 2, 2}, 3));
    EXPECT_TRUE(needed) << name(premise);
  }
}

std::vector<Opcode> movements() {
  std::vector<Opcode> out;
  for (const Rule& rule : rules())
    if (rule.opcode != Opcode::compute) out.push_back(rule.opcode);
  return out;
}

INSTANTIATE_TEST_SUITE_P(List, MovementRule, ::testing::ValuesIn(movements()),
                         [](const auto& info) { return std::string(name(info.param)); });

/// Every opcode has one rule, and no rule tests a premise twice.
TEST(Rules, AreOnePerOpcode) {
  std::set<Opcode> met;
  for (const Rule& rule : rules()) {
    EXPECT_TRUE(met.insert(rule.opcode).second) << name(rule.opcode);
    const std::set<Premise> premises(rule.premises.begin(), rule.premises.end());
    EXPECT_EQ(premises.size(), rule.premises.size()) << name(rule.opcode);
  }
  EXPECT_EQ(met.size(), size_t(Opcode::halo_exchange) + 1);
}

}  // namespace
}  // namespace hetsynth::theorems
