// Tensors that are there twice: plans may read either.
#include "verify/rules/same_tensor.h"

#include <gtest/gtest.h>

#include "tests/support/plan_builder.h"
#include "verify/verify.h"

namespace hetsynth {
namespace {

using namespace test;

/// h = x w and the same once more; `again_by` is what the second applies.
Program twice(const char* spec_again = "bk,kn->bn") {
  ProgramBuilder p;
  Expr a = Expr::input(0), b = Expr::input(1);
  p.leaf("x", NodeKind::input, {4, 4});
  p.leaf("w", NodeKind::parameter, {4, 4});
  p.einsum("h", "bk,kn->bn", "x", "w");
  p.general("t", "bn->bn", {"h"}, tanh(a));
  p.einsum("h_again", spec_again, "x", "w");
  p.general("t_again", "bn->bn", {"h_again"}, tanh(a));
  p.general("w_new", "kn,kn->kn", {"w", "t_again"}, a - 0.1 * b);
  p.general("copy", "bn->bn", {"t"}, a);
  p.program.loss = p.general("loss", "bn,bn->", {"t", "copy"}, a * b);
  p.update("w", "w_new");
  return p.program;
}

TEST(SameTensors, AreFoundThroughTheProgram) {
  Program p = twice();
  std::vector<NodeId> first = same_tensors(p);
  EXPECT_EQ(first, (std::vector<NodeId>{0, 1, 2, 3, 2, 3, 6, 3, 8}));
}

TEST(SameTensors, AnotherContractionIsAnotherTensor) {
  Program p = twice("kb,kn->bn");
  std::vector<NodeId> first = same_tensors(p);
  EXPECT_EQ(first, (std::vector<NodeId>{0, 1, 2, 3, 4, 5, 6, 3, 8}));
}

SpmdProgram that_computes_once(const Program& p) {
  PlanBuilder b(p, {{"dp", 2}});
  int rows = b.table("rows", 0, 4, {0, 1, 4});
  ValueId x = b.leaf("x", {Placement::sharded(0, rows)}), w = b.leaf("w");
  ValueId t = b.compute("t", {b.compute("h", {x, w}, {{"b", rows}})}, {{"b", rows}});
  b.plan.loss = b.all_reduce(b.compute("loss", {t, t}, {{"b", rows}}), 0);
  b.final("w", b.compute("w_new", {w, b.all_gather(t, 0)}));
  return b.plan;
}

TEST(SameTensors, APlanThatComputesThemOnceIsProved) {
  Program p = twice();
  Verification v = verify(p, that_computes_once(p));
  EXPECT_EQ(v.verdict, Verdict::proved) << v.summary << "\n" << v.counterexample.text;
}

TEST(SameTensors, APlanThatTakesADifferentTensorForThemIsRefuted) {
  Program p = twice("kb,kn->bn");
  Verification v = verify(p, that_computes_once(p));
  EXPECT_EQ(v.verdict, Verdict::refuted);
  EXPECT_EQ(v.summary, "w_new needs t_again as operand 1, but is given t");
}

}  // namespace
}  // namespace hetsynth
