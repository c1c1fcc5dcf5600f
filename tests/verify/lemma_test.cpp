#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dsl/base/error.h"
#include "verify/solver/lemmas.h"

namespace hetsynth {
namespace {

using smt::Answer;

smt::Clock::time_point soon() { return smt::Clock::now() + std::chrono::seconds(20); }

TEST(Lemmas, EveryLemmaIsProved) {
  smt::Solver solver(soon());
  EXPECT_GE(lemma_texts().size(), 16u);
  for (const auto& [name, text] : lemma_texts()) EXPECT_EQ(prove_lemma(solver, text), Answer::proved) << name;
}

/// The lemma with one piece of its text replaced; the piece must be there.
std::string broken(const std::string& name, const std::string& from, const std::string& to) {
  std::string text = lemma_texts().at(name);
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << name << ": " << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

struct Broken {
  std::string lemma, from, to;
};

TEST(Lemmas, BrokenLemmasHaveCounterexamples) {
  const Broken mutants[] = {
      {"sum_congruence", "(assert (= (f m) (g (+ lo m))))", "(assert (= (f m) (g m)))"},
      {"sum_congruence", "(assert (= (F (+ m 1)) (+ (F m) (f m))))", "(assert (= (F (+ m 1)) (f m)))"},
      {"sum_of_boxes", "(- (G (b (+ c 1))) (G (b c)))", "(- (G (b (+ c 1))) (G (+ (b c) 1)))"},
      {"sum_of_boxes", "(assert (= (b 0) 0))", "(assert (>= (b 0) 0))"},
      {"sum_of_boxes", "(assert (= (b n) D))", "(assert (<= (b n) D))"},
      {"sum_additive", "(+ (f m) (g m))", "(- (f m) (g m))"},
      {"sum_exchange", "(assert (= (B (+ m 1)) (+ (B m) (T m))))", "(assert (= (B (+ m 1)) (+ (B m) (T (+ m 1)))))"},
      {"additive_body", "(assert (= (h (+ (X n) (x n))) (+ (h (X n)) (h (x n)))))", ""},
      {"copies_average", "(assert (= (* n average) sum))", "(assert (= average sum))"},
      {"copies_extremum", "(assert (= (op t t) t))", ""},
      {"one_holder", "(ite (= c root) t 0.0)", "(ite (<= c root) t 0.0)"},
      {"owner_exists", "(assert (= (b 0) 0))", "(assert (<= (b 0) 1))"},
      {"owner_unique", "(assert (<= (b d) (b (+ d 1))))", ""},
      {"owner_unique", "(< i (b (+ c 1))))", "(<= i (b (+ c 1))))"},
      {"displacement", "(- (b (+ c 1)) (b c))", "(b (+ c 1))"},
      {"nested_parts", "(assert (= (b n) hi))", "(assert (>= (b n) hi))"},
      {"nested_parts", "(assert (= (s 0) (- (b 0) lo)))", "(assert (= (s 0) (b 0)))"},
      {"max_congruence", "(assert (= (f m) (g (+ lo m))))", "(assert (= (f m) (g m)))"},
      {"max_of_boxes", "(assert (<= (b c) (b (+ c 1))))\n(assert (= (A (+ c 1)) (op (A c)",
       "(assert (<= (b c) (b (+ c 1))))\n(assert (= (A (+ c 1)) (op (A 0)"},
      {"max_body", "(assert (= (h (op (X n) (x n))) (op (h (X n)) (h (x n)))))", ""},
      {"max_exchange", "(op (op (V n) (s n)) (op (T n) (t n)))))", "(op (op (V n) (t n)) (op (T n) (s n)))))"},
      {"mixed_radix", "(assert (and (<= 0 r) (< r s) (<= 0 r2) (< r2 s)))",
       "(assert (and (<= 0 r) (<= r s) (<= 0 r2) (<= r2 s)))"},
      {"mixed_radix", "(assert (=> (< q lo) (<= (+ q_s s) lo_s)))", "(assert (=> (< q lo) (<= q_s lo_s)))"},
  };
  for (const Broken& mutant : mutants) {
    smt::Solver solver(soon());
    EXPECT_EQ(prove_lemma(solver, broken(mutant.lemma, mutant.from, mutant.to)), Answer::disproved)
        << mutant.lemma << ": " << mutant.from;
  }
}

TEST(Lemmas, ContradictingPremisesProveNothing) {
  smt::Solver solver(soon());
  std::string text = broken("sum_of_boxes", "(assert (= (b 0) 0))", "(assert (= (b 0) 0))\n(assert (= (b 0) 1))");
  EXPECT_EQ(prove_lemma(solver, text), Answer::vacuous);
}

TEST(Lemmas, TheFormOfAFileIsChecked) {
  EXPECT_THROW(lemma_steps("(assert true)"), InternalError);
  EXPECT_THROW(lemma_steps(";; step a\n(assert true)"), InternalError);
  EXPECT_THROW(lemma_steps(";; goal\n"), InternalError);
  smt::Solver solver(soon());
  EXPECT_THROW(prove_lemma(solver, ";; step a\n(assert (=\n;; goal\n(assert false)\n"), InternalError);
}

TEST(Solver, KeepsItsDeadline) {
  // Integers with x^3 + y^3 = z^3: without a limit the search does not end.
  smt::Solver solver(smt::Clock::now() + std::chrono::milliseconds(300));
  smt::Term x = solver.integer_symbol("x"), y = solver.integer_symbol("y"), z = solver.integer_symbol("z");
  auto cube = [&](smt::Term t) { return solver.mul(t, solver.mul(t, t)); };
  std::vector<smt::Term> positive;
  for (smt::Term t : {x, y, z}) positive.push_back(solver.less(solver.integer(100), t));
  Answer answer = solver.prove(positive, solver.negation(solver.equal(solver.add(cube(x), cube(y)), cube(z))));
  EXPECT_EQ(answer, Answer::unknown);
}

TEST(Solver, ConstantsAreExact) {
  smt::Solver solver(soon());
  auto equal = [&](smt::Term a, smt::Term b) { return solver.prove({}, solver.equal(a, b)); };
  EXPECT_EQ(equal(solver.mul(solver.real(0.25), solver.real(4)), solver.real(1)), Answer::proved);
  EXPECT_EQ(equal(solver.mul(solver.real(1e-8), solver.real(1e8)), solver.real(1)),
            Answer::disproved);  // 1e-8 is rounded
  EXPECT_EQ(equal(solver.real(1e-300), solver.real(0)), Answer::disproved);
  double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(equal(solver.real(-infinity), solver.real(-infinity)), Answer::proved);
  EXPECT_EQ(equal(solver.real(-infinity), solver.real(0)), Answer::disproved);
}

}  // namespace
}  // namespace hetsynth
