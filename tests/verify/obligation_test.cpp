// Obligations by themselves: what must be provable, what must not, and what the memo may confuse.
#include "verify/solver/obligation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>

namespace hetsynth {
namespace {

using smt::Answer;

const Expr in0 = Expr::input(0), in1 = Expr::input(1), f0 = Expr::factor(0), f1 = Expr::factor(1);

DimRead by(int factor, Cut held = whole) { return DimRead{true, index_by(factor), 0, held}; }

/// out[b, n] = sum over k of x[b, k] * w[k, n]; factors b, n, k.
Obligation product() {
  Obligation o;
  o.factors = {{FactorKind::parallel}, {FactorKind::parallel}, {FactorKind::sum}};
  o.operands = {{{by(0), by(2)}, false, 0}, {{by(2), by(1)}, false, 1}};
  o.output = {index_by(0), index_by(1)};
  o.body = in0 * in1;
  return o;
}

/// out[b, n] = body(x[b, n], y[b, n]).
Obligation elementwise(Expr body) {
  Obligation o;
  o.factors = {{FactorKind::parallel}, {FactorKind::parallel}};
  o.operands = {{{by(0), by(1)}, false, 0}, {{by(0), by(1)}, false, 1}};
  o.output = {index_by(0), index_by(1)};
  o.body = std::move(body);
  return o;
}

ObligationResult solve(const Obligation& o) {
  smt::Solver solver(smt::Clock::now() + std::chrono::seconds(20));
  return prove(solver, o);
}

void expect_proved(const Obligation& o) {
  ObligationResult r = solve(o);
  EXPECT_EQ(r.answer, Answer::proved) << key(o) << " failed in part " << int(r.failed);
}

void expect_fails(const Obligation& o, ObligationPart part, int operand = -1) {
  ObligationResult r = solve(o);
  EXPECT_EQ(r.answer, Answer::disproved) << key(o);
  EXPECT_EQ(r.failed, part) << key(o);
  EXPECT_EQ(r.operand, operand) << key(o);
}

TEST(Obligation, ReductionOverOneDevicesRange) {
  Obligation o = product();
  o.factors[2].executed = o.factors[2].claimed = 0;
  o.operands[0].dims[1].held = o.operands[1].dims[0].held = 0;
  expect_proved(o);
  o.operands[0].dims[1].held = whole;  // a whole operand serves as well
  expect_proved(o);
}

TEST(Obligation, GapsAndOverlapsInAReductionAreFound) {
  Obligation o = product();
  o.factors[2].executed = 0;  // a part is summed, the whole claimed
  expect_fails(o, ObligationPart::value);
  o.factors[2] = {FactorKind::sum, 0, whole, 0};  // the whole is summed, a part claimed
  expect_fails(o, ObligationPart::value);
  o.factors[2] = {FactorKind::sum, 0, 0, 1};  // parts of two tables
  expect_fails(o, ObligationPart::value);
  o.factors[2] = {FactorKind::max, 0, 0, 1};
  expect_fails(o, ObligationPart::value);
}

TEST(Obligation, ReadsOutsideOfWhatIsHeldAreFound) {
  Obligation o = product();
  o.operands[1].dims[0].held = 0;  // all of k is read
  expect_fails(o, ObligationPart::bounds, 1);
  o.factors[2].executed = o.factors[2].claimed = 1;  // another table's part of k is read
  expect_fails(o, ObligationPart::bounds, 1);
  o = product();
  o.operands[0].dims[0].held = 0;
  expect_fails(o, ObligationPart::bounds, 0);
}

TEST(Obligation, TheResultCoversWhatIsClaimed) {
  Obligation o = elementwise(in0 + in1);
  o.factors[0].executed = o.factors[0].claimed = 0;
  expect_proved(o);
  o.factors[0].claimed = 1;
  expect_fails(o, ObligationPart::extent);
  o.factors[0].claimed = whole;
  expect_fails(o, ObligationPart::extent);
}

TEST(Obligation, PositionsAreGlobal) {
  Obligation o = elementwise(select(less_equal(f1, f0), in0, Expr(-1e9)));
  o.factors[0].executed = o.factors[0].claimed = 0;
  o.operands[0].dims[0].held = 0;
  expect_proved(o);
  o.body = select(less(Expr::random(3), 0.9), in0 * f0, 0.0);
  expect_proved(o);
}

TEST(Obligation, DigitsOfAReshape) {
  // out[(b t), d] = x[b, (t d)], cut by b
  Obligation o;
  o.factors = {{FactorKind::parallel, 0, 0, 0}, {FactorKind::parallel}, {FactorKind::parallel}};
  DimIndex td{{IndexTerm{1, 4}, IndexTerm{2, 1}}, 0}, bt{{IndexTerm{0, 7}, IndexTerm{1, 1}}, 0};
  o.operands = {{{by(0, 0), DimRead{true, td, 0, whole}}, false, 0}};
  o.output = {bt, index_by(2)};
  o.body = in0;
  expect_proved(o);
  o.factors[0] = {FactorKind::parallel};
  o.factors[1] = {FactorKind::parallel, 0, 0, 0};
  o.operands[0].dims[0].held = whole;
  o.operands[0].dims[1].held = 0;
  expect_proved(o);
  o.operands[0].dims[1].held = 1;
  expect_fails(o, ObligationPart::bounds, 0);
}

TEST(Obligation, OffsetsCountAsNumbers) {
  // out[i] = x[i + 3], i below 5, x of 8
  Obligation o;
  o.factors = {{FactorKind::parallel, 5}};
  DimIndex shifted = index_by(0);
  shifted.offset = 3;
  o.operands = {{{DimRead{false, shifted, 8, whole}}, false, 0}};
  o.output = {index_by(0)};
  o.body = in0;
  expect_proved(o);
  o.factors[0].executed = o.factors[0].claimed = 0;  // of a whole operand, any part may be computed
  expect_proved(o);
  o.operands[0].dims[0].extent = 7;  // one short
  expect_fails(o, ObligationPart::bounds, 0);
  o.operands[0].zero_outside = true;  // which is meant, then
  expect_proved(o);
  o.operands[0].dims[0].held = 0;  // but a part of the operand does not do
  expect_fails(o, ObligationPart::bounds, 0);
}

TEST(Obligation, QuotientsAndRemainders) {
  // out[i] = x[i / 3, i % 3], i below 12
  Obligation o;
  o.factors = {{FactorKind::whole, 12}};
  DimIndex quotient{{IndexTerm{0, 1, 3, 0}}, 0}, remainder{{IndexTerm{0, 1, 1, 3}}, 0};
  o.operands = {{{DimRead{false, quotient, 4, whole}, DimRead{false, remainder, 3, whole}}, false, 0}};
  o.output = {index_by(0)};
  o.body = in0;
  expect_proved(o);
  o.operands[0].dims[0].extent = 3;
  expect_fails(o, ObligationPart::bounds, 0);
}

TEST(Obligation, CommutedOperands) {
  for (const Expr& body : {in0 + in1, in0 * in1, maximum(in0, in1), exp(in0) * exp(in1), in0 * in1 + in1 * in0}) {
    Obligation o = elementwise(body);
    o.operands[0].input = 1, o.operands[1].input = 0;
    expect_proved(o);
  }
  for (const Expr& body : {in0 - in1, in0 / in1, less(in0, in1), in0 * exp(in1)}) {
    Obligation o = elementwise(body);
    o.operands[0].input = 1, o.operands[1].input = 0;
    expect_fails(o, ObligationPart::value);
  }
}

TEST(Obligation, ProductsInAnyOrder) {
  Obligation o = elementwise(in0 * Expr::input(2) * in1);
  o.operands.push_back({{by(0), by(1)}, false, 1});
  o.operands[0].input = 2, o.operands[1].input = 0;
  expect_proved(o);
}

struct Body {
  Expr body;
  std::set<int> partial;
};

TEST(Obligation, SumsPassAdditiveBodies) {
  const Body additive[] = {
      {in0, {0}},
      {in0 + in1, {0, 1}},
      {2.0 * in0 - in1 / 3.0, {0, 1}},
      {in0 * in1, {0}},
      {in1 / exp(in0), {1}},
      {in0 * tanh(in1) - 0.5 * in0, {0}},
      {select(less(f0, f1), in0, 0.0), {0}},
      {select(less(Expr::random(0), 0.9), in0 * (1 / 0.9), 0.0), {0}},
      {select(less(0.0, in1), in0, 0.0), {0}},
      {select(less(0.0, in1), in0, 0.0) * in1, {0}},
      {(in0 + in1) - in1, {0}},  // additive after all
      {in0 * f0, {0}},
  };
  for (const Body& b : additive) {
    Obligation o = elementwise(b.body);
    o.partial = {{ReduceOp::sum, b.partial}};
    expect_proved(o);
    o.factors[1].kind = FactorKind::sum;
    expect_proved(o);
    o.factors[1].kind = FactorKind::max;
    expect_fails(o, ObligationPart::additive, 0);
  }
}

TEST(Obligation, SumsDoNotPassOtherBodies) {
  const Body others[] = {
      {select(less(0.0, in0), in0, 0.0), {0}},
      {in0 + in1, {0}},
      {in0 + 1.0, {0}},
      {in0 * in1, {0, 1}},
      {in0 * in0, {0}},
      {exp(in0), {0}},
      {in1 / in0, {0}},
      {maximum(in0, in1), {0, 1}},
      {sqrt(in0) + in1, {0, 1}},
      {select(less(f0, f1), in0, 1.0), {0}},
      {less(in0, in1), {0}},
      {Expr(0.5), {0}},
  };
  for (const Body& b : others) {
    Obligation o = elementwise(b.body);
    o.partial = {{ReduceOp::sum, b.partial}};
    expect_fails(o, ObligationPart::additive, 0);
  }
}

TEST(Obligation, MaximaPassOnlyMaxima) {
  auto with = [](Expr body, std::set<int> partial, FactorKind kind) {
    Obligation o = elementwise(std::move(body));
    o.factors[1].kind = kind;
    o.partial = {{ReduceOp::max, std::move(partial)}};
    return o;
  };
  expect_proved(with(in0, {0}, FactorKind::parallel));
  expect_proved(with(in0, {0}, FactorKind::max));
  expect_proved(with(maximum(in0, in1), {0, 1}, FactorKind::max));
  expect_fails(with(in0, {0}, FactorKind::sum), ObligationPart::additive, 0);
  expect_fails(with(maximum(in0, in1), {0}, FactorKind::max), ObligationPart::additive, 0);
  expect_fails(with(in0 + in1, {0, 1}, FactorKind::parallel), ObligationPart::additive, 0);
  expect_fails(with(2.0 * in0, {0}, FactorKind::parallel), ObligationPart::additive, 0);
  Obligation minima = with(in0, {0}, FactorKind::parallel);
  minima.partial[0].reduce = ReduceOp::min;
  expect_fails(minima, ObligationPart::additive, 0);
}

TEST(Obligation, EachAxisOfPartialValuesCounts) {
  Obligation o = elementwise(in0 * in1);
  o.partial = {{ReduceOp::sum, {0}}, {ReduceOp::sum, {1}}};  // over two axes: bilinear
  expect_proved(o);
  o.partial = {{ReduceOp::sum, {0}}, {ReduceOp::sum, {0, 1}}};
  expect_fails(o, ObligationPart::additive, 1);
}

TEST(Obligation, TimeLimitIsUnknown) {
  smt::Solver solver(smt::Clock::now() - std::chrono::seconds(1));
  EXPECT_EQ(prove(solver, product()).answer, Answer::unknown);
}

TEST(Obligation, ContradictingPremisesAreVacuous) {
  smt::Solver solver(smt::Clock::now() + std::chrono::seconds(20));
  smt::Term lo = solver.integer_symbol("lo"), hi = solver.integer_symbol("hi");
  EXPECT_EQ(solver.prove({solver.less(lo, hi), solver.less(hi, lo)}, solver.equal(lo, hi)), Answer::vacuous);
  EXPECT_EQ(solver.prove({solver.less(lo, hi)}, solver.less_equal(lo, hi)), Answer::proved);
}

TEST(Memo, TablesMayBeRenamed) {
  Obligation a = product(), b = product();
  a.factors[2].executed = a.factors[2].claimed = a.operands[0].dims[1].held = 17;
  b.factors[2].executed = b.factors[2].claimed = b.operands[0].dims[1].held = 3;
  EXPECT_NE(key(a), key(b));
  number_cuts(a), number_cuts(b);
  EXPECT_EQ(key(a), key(b));
  b.operands[0].dims[1].held = 1;
  EXPECT_NE(key(a), key(b));
}

/// A key that forgets a field would let a proof stand for another obligation.
TEST(Memo, EveryFieldCounts) {
  const std::function<void(Obligation&)> changes[] = {
      [](Obligation& o) { o.factors[2].kind = FactorKind::max; },
      [](Obligation& o) { o.factors[0].size = 7; },
      [](Obligation& o) { o.factors[0].executed = 0; },
      [](Obligation& o) { o.factors[0].claimed = 0; },
      [](Obligation& o) { o.factors.push_back({FactorKind::sum}); },
      [](Obligation& o) { o.operands[0].zero_outside = true; },
      [](Obligation& o) { o.operands[0].input = 1; },
      [](Obligation& o) { o.operands[0].dims[0].held = 0; },
      [](Obligation& o) { o.operands[0].dims[1].held = 0; },
      [](Obligation& o) { o.operands[1].dims[0].held = 0; },
      [](Obligation& o) { o.operands[0].dims[0].index = index_by(1); },
      [](Obligation& o) { o.operands[0].dims[0].index.terms.push_back({1}); },
      [](Obligation& o) { o.operands[0].dims[0].digits = false; },
      [](Obligation& o) { o.operands[0].dims.pop_back(); },
      [](Obligation& o) { o.output.pop_back(); },
      [](Obligation& o) { o.output[0] = index_by(1); },
      [](Obligation& o) {
        o.partial = {{ReduceOp::sum, {0}}};
      },
      [](Obligation& o) {
        o.partial = {{ReduceOp::max, {0}}};
      },
      [](Obligation& o) {
        o.partial = {{ReduceOp::sum, {0, 1}}};
      },
      [](Obligation& o) {
        o.partial = {{ReduceOp::sum, {0}}, {ReduceOp::sum, {1}}};
      },
      [](Obligation& o) { o.body = in1 * in0; },
      [](Obligation& o) { o.body = in0 * in1 * 2.0; },
  };
  std::set<std::string> keys{key(product())};
  for (const auto& change : changes) {
    Obligation o = product();
    change(o);
    EXPECT_TRUE(keys.insert(key(o)).second) << key(o);
  }
  // Where indices are numbers, all of their parts count.
  const std::function<void(DimRead&)> number_changes[] = {
      [](DimRead&) {},
      [](DimRead& d) { d.extent = 9; },
      [](DimRead& d) { d.index.offset = 1; },
      [](DimRead& d) { d.index.terms[0].stride = 2; },
      [](DimRead& d) { d.index.terms[0].divide = 2; },
      [](DimRead& d) { d.index.terms[0].modulo = 2; },
  };
  for (const auto& change : number_changes) {
    Obligation o = product();
    o.operands[0].dims[0].digits = false;
    o.operands[0].dims[0].extent = 8;
    change(o.operands[0].dims[0]);
    EXPECT_TRUE(keys.insert(key(o)).second) << key(o);
  }
}

}  // namespace
}  // namespace hetsynth
