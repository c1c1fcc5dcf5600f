// Bugs that real systems shipped, each as a plan: docs/bugs.md tells where they come from. Every one must be refuted,
// with a sentence that says what is wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dsl/base/file.h"
#include "hetsynth/build_paths.h"
#include "tests/support/plan_builder.h"
#include "verify/verify.h"

namespace hetsynth {
namespace {

using namespace test;
using ::testing::HasSubstr;

const Expr a = Expr::input(0), b = Expr::input(1);
const Placement by_row(int table) { return Placement::sharded(0, table); }

/// A linear layer with bias, squared error and plain steps; with a gain before it and clipping by norm where asked.
Program linear(bool clipped = false, bool gained = false) {
  ProgramBuilder p;
  p.leaf("x", NodeKind::input, {8, 4});
  p.leaf("w", NodeKind::parameter, {4, 5});
  p.leaf("bias", NodeKind::parameter, {5});
  if (gained) p.leaf("gain", NodeKind::parameter, {4});
  if (gained) {
    p.general("n", "bk->bk", {"x"}, a / sqrt(a * a + 1.0));
    p.general("scaled", "bk,k->bk", {"n", "gain"}, a * b);
  }
  std::string in = gained ? "scaled" : "x";
  p.einsum("o", "bk,kn->bn", in, "w");
  p.general("z", "bn,n->bn", {"o", "bias"}, a + b);
  p.program.loss = p.general("loss", "bn->", {"z"}, a * a * (1.0 / 8));
  p.general("d_z", "bn->bn", {"z"}, a * (2.0 / 8));
  p.einsum("d_w", "bk,bn->kn", in, "d_z");
  p.general("d_bias", "bn->n", {"d_z"}, a);
  if (clipped) {
    p.general("norm", "kn->", {"d_w"}, a * a);
    p.general("clipped", "kn,->kn", {"d_w", "norm"}, a / sqrt(b + 1.0));
  }
  p.general("w_new", "kn,kn->kn", {"w", clipped ? "clipped" : "d_w"}, a - 0.1 * b);
  p.general("bias_new", "n,n->n", {"bias", "d_bias"}, a - 0.1 * b);
  p.update("w", "w_new");
  p.update("bias", "bias_new");
  return p.program;
}

struct LinearFault {
  bool no_bias_gradient_sum = false;
  ReduceOp weight_gradient = ReduceOp::sum;
  ReduceOp loss = ReduceOp::sum;
  bool local_norm = false;
  bool gain_lost = false;
};

/// By batch over two devices with uneven shares.
SpmdProgram linear_by_batch(const Program& p, const LinearFault& fault) {
  PlanBuilder s(p, {{"dp", 2}});
  int t = s.table("batch", 0, 8, {0, 3, 8});
  ValueId x = s.leaf("x", {by_row(t)}), w = s.leaf("w"), bias = s.leaf("bias"), in = x;
  bool gained = std::any_of(p.nodes.begin(), p.nodes.end(), [](const Node& n) { return n.name == "gain"; });
  bool clipped = std::any_of(p.nodes.begin(), p.nodes.end(), [](const Node& n) { return n.name == "norm"; });
  if (gained) {
    ValueId gain = s.leaf("gain"), n = s.compute("n", {x}, {{"b", t}});
    in = fault.gain_lost ? n : s.compute("scaled", {n, gain}, {{"b", t}});
  }
  ValueId z = s.compute("z", {s.compute("o", {in, w}, {{"b", t}}), bias}, {{"b", t}});
  s.plan.loss = s.all_reduce(s.compute("loss", {z}, {{"b", t}}), 0, fault.loss);
  ValueId d_z = s.compute("d_z", {z}, {{"b", t}}), d_w = s.compute("d_w", {in, d_z}, {{"b", t}});
  ValueId d_bias = s.compute("d_bias", {d_z}, {{"b", t}});
  if (!fault.no_bias_gradient_sum) d_bias = s.all_reduce(d_bias, 0);
  if (clipped) {
    ValueId whole = s.all_reduce(d_w, 0), norm = s.compute("norm", {fault.local_norm ? d_w : whole});
    d_w = s.compute("clipped", {whole, norm});
  } else {
    d_w = s.all_reduce(d_w, 0, fault.weight_gradient);
  }
  s.final("w", s.compute("w_new", {w, d_w}));
  s.final("bias", s.compute("bias_new", {bias, d_bias}));
  return s.plan;
}

/// The linear layer cut by its inner dimension: partial sums, and the bias must be added once.
SpmdProgram linear_by_features(const Program& p, bool bias_on_every_device) {
  PlanBuilder s(p, {{"tp", 2}});
  int k = s.table("features", 0, 4, {0, 1, 4});
  ValueId x = s.leaf("x", {Placement::sharded(1, k)}), w = s.leaf("w", {by_row(k)}), bias = s.leaf("bias");
  ValueId o = s.compute("o", {x, w}, {{"k", k}});
  ValueId z =
      bias_on_every_device ? s.all_reduce(s.compute("z", {o, bias}), 0) : s.compute("z", {s.all_reduce(o, 0), bias});
  s.plan.loss = s.compute("loss", {z});
  ValueId d_z = s.compute("d_z", {z}), d_w = s.compute("d_w", {x, d_z}, {{"k", k}});
  s.final("w", s.compute("w_new", {w, d_w}, {{"k", k}}));
  s.final("bias", s.compute("bias_new", {bias, s.compute("d_bias", {d_z})}));
  return s.plan;
}

/// An embedding table and a position table that every sample shares.
Program embedding() {
  ProgramBuilder p;
  p.leaf("ids", NodeKind::input, {6}, DType::i32);
  p.leaf("table", NodeKind::parameter, {4, 3});
  p.leaf("position", NodeKind::parameter, {1, 3});
  p.general("e", "b,vk->bk", {"ids", "table"}, select(equal(a, Expr::factor(1)), b, 0.0));
  p.general("h", "bk,ok->bk", {"e", "position"}, a + b);
  p.program.loss = p.general("loss", "bk->", {"h"}, a * a);
  p.general("d_table", "b,bk->vk", {"ids", "h"}, select(equal(a, Expr::factor(1)), b, 0.0), FactorKind::sum,
            {{'v', 4}});
  p.general("d_position", "bk->k", {"h"}, a * 2.0);
  p.general("table_new", "vk,vk->vk", {"table", "d_table"}, a - 0.1 * b);
  p.general("position_new", "ok,k->ok", {"position", "d_position"}, a - 0.1 * b);
  p.update("table", "table_new");
  p.update("position", "position_new");
  return p.program;
}

/// Three equal layers, two kinds of noise, two masks: what plans may mix up.
Program tower() {
  ProgramBuilder p;
  p.leaf("x", NodeKind::input, {4, 4});
  p.leaf("w", NodeKind::parameter, {4, 4});
  p.einsum("h1", "bk,kn->bn", "x", "w");
  p.einsum("h2", "bk,kn->bn", "h1", "w");
  p.einsum("h3", "bk,kn->bn", "h2", "w");
  Expr i = Expr::factor(0), j = Expr::factor(1);
  p.general("causal", "bn->bn", {"h3"}, select(less_equal(j, i), a, 0.0));
  p.general("reversed", "bn->bn", {"h3"}, select(less_equal(i, j), a, 0.0));
  p.general("drop1", "bn->bn", {"causal"}, select(less(Expr::random(1), 0.5), a, 0.0));
  p.general("drop2", "bn->bn", {"causal"}, select(less(Expr::random(2), 0.5), a, 0.0));
  p.general("both", "bn,bn->bn", {"drop1", "drop2"}, a + 2.0 * b);
  p.general("mixed", "bn,bn->bn", {"both", "reversed"}, a + 0.5 * b);
  p.program.loss = p.general("loss", "bn->", {"mixed"}, a * a);
  p.einsum("d_w", "bk,bn->kn", "h2", "mixed");
  p.general("w_new", "kn,kn->kn", {"w", "d_w"}, a - 0.1 * b);
  p.update("w", "w_new");
  return p.program;
}

enum class TowerFault { none, layer_lost, mask_reversed, noise_shared, wrong_group };

SpmdProgram tower_by_batch(const Program& p, TowerFault fault) {
  PlanBuilder s(p, {{"dp", 2}, {"tp", 2}});
  int t = s.table("batch", 0, 4, {0, 1, 4});
  Placements cut{by_row(t), {}};
  std::vector<std::pair<std::string, int>> split{{"b", t}, {"", -1}};
  ValueId x = s.leaf("x", cut), w = s.leaf("w");
  ValueId h1 = s.compute("h1", {x, w}, split);
  ValueId h2 = fault == TowerFault::layer_lost ? h1 : s.compute("h2", {h1, w}, split);
  ValueId h3 = s.compute("h3", {h2, w}, split);
  ValueId causal = s.compute("causal", {h3}, split), reversed = s.compute("reversed", {h3}, split);
  ValueId masked = fault == TowerFault::mask_reversed ? reversed : causal;
  ValueId drop1 = s.compute("drop1", {masked}, split), drop2 = s.compute("drop2", {causal}, split);
  ValueId both = s.compute("both", {drop1, fault == TowerFault::noise_shared ? drop1 : drop2}, split);
  ValueId mixed = s.compute("mixed", {both, reversed}, split);
  int axis = fault == TowerFault::wrong_group ? 1 : 0;
  s.plan.loss = s.all_reduce(s.compute("loss", {mixed}, split), 0);
  ValueId d_w = s.all_reduce(s.compute("d_w", {h2, mixed}, split), axis);
  s.final("w", s.compute("w_new", {w, d_w}));
  return s.plan;
}

enum class EmbeddingFault { none, no_position_gradient_sum, no_offset };

SpmdProgram embedding_plan(const Program& p, EmbeddingFault fault) {
  PlanBuilder s(p, {{"tp", 2}});
  bool by_vocabulary = fault == EmbeddingFault::no_offset;
  int t = by_vocabulary ? s.table("vocabulary", 0, 4, {0, 1, 4}) : s.table("batch", 0, 6, {0, 2, 6});
  std::vector<std::pair<std::string, int>> rows{{by_vocabulary ? "" : "b", t}};
  ValueId ids = s.leaf("ids", by_vocabulary ? Placements() : Placements{by_row(t)});
  ValueId table = s.leaf("table", by_vocabulary ? Placements{by_row(t)} : Placements());
  ValueId position = s.leaf("position");
  ValueId h = s.compute("h", {s.compute("e", {ids, table}, rows), position}, rows);
  s.plan.loss = s.compute("loss", {h}, rows);
  if (!by_vocabulary) s.plan.loss = s.all_reduce(s.plan.loss, 0);
  ValueId d_table = s.compute("d_table", {ids, h}, {{by_vocabulary ? "v" : "b", t}});
  ValueId d_position = s.compute("d_position", {h}, rows);
  if (!by_vocabulary) d_table = s.all_reduce(d_table, 0);
  if (!by_vocabulary && fault != EmbeddingFault::no_position_gradient_sum) d_position = s.all_reduce(d_position, 0);
  s.final("table", s.compute("table_new", {table, d_table}, {{by_vocabulary ? "v" : "", t}}));
  s.final("position", s.compute("position_new", {position, d_position}));
  return s.plan;
}

/// Momentum and parameter cut over the data-parallel axis (ZeRO), with the steps people forget.
SpmdProgram zero(const Program& p, bool reduced_before, bool gathered, bool gathered_evenly) {
  PlanBuilder s(p, {{"dp", 2}});
  int t = s.table("batch", 0, 8, {0, 3, 8}), rows = s.table("rows", 0, 4, {0, 1, 4}),
      even = s.table("even", 0, 4, {0, 2, 4});
  ValueId x = s.leaf("x", {by_row(t)}), w = s.leaf("w"), bias = s.leaf("bias");
  ValueId z = s.compute("z", {s.compute("o", {x, w}, {{"b", t}}), bias}, {{"b", t}});
  s.plan.loss = s.all_reduce(s.compute("loss", {z}, {{"b", t}}), 0);
  ValueId d_z = s.compute("d_z", {z}, {{"b", t}}), d_w = s.compute("d_w", {x, d_z}, {{"b", t}});
  if (reduced_before) d_w = s.all_reduce(d_w, 0);
  ValueId part = s.compute("w_new", {s.slice(w, 0, 0, rows), s.reduce_scatter(d_w, 0, 0, rows)}, {{"k", rows}});
  s.plan.values[size_t(part)].placements = {by_row(rows)};
  if (gathered) part = s.all_gather(part, 0);
  if (gathered_evenly) s.plan.instructions.back().table = even;
  s.final("w", part);
  s.final("bias", s.compute("bias_new", {bias, s.all_reduce(s.compute("d_bias", {d_z}, {{"b", t}}), 0)}));
  return s.plan;
}

SpmdProgram softmax_without(const Program& p, bool reduce_max, bool reduce_sum) {
  PlanBuilder s(p, {{"tp", 2}});
  int t = s.table("n", 0, 6, {0, 2, 6});
  ValueId x = s.leaf("x"), w = s.leaf("w", {Placement::sharded(1, t)});
  ValueId o = s.compute("o", {x, w}, {{"n", t}}), mx = s.compute("mx", {o}, {{"n", t}});
  if (reduce_max) mx = s.all_reduce(mx, 0, ReduceOp::max);
  ValueId e = s.compute("e", {o, mx}, {{"n", t}}), sum = s.compute("s", {e}, {{"n", t}});
  if (reduce_sum) sum = s.all_reduce(sum, 0);
  ValueId q = s.compute("p", {e, sum}, {{"n", t}});
  s.plan.loss = s.all_reduce(s.compute("loss", {q, mx}, {{"n", t}}), 0);
  s.final("w", s.compute("w_new", {w, s.compute("d_w", {x, q}, {{"n", t}})}, {{"n", t}}));
  return s.plan;
}

struct Bug {
  const char* name;  ///< as docs/bugs.md calls it
  const char* sentence;
  std::function<std::pair<Program, SpmdProgram>()> make;
};

template <class Plan>
std::pair<Program, SpmdProgram> with(Program p, Plan&& plan) {
  SpmdProgram s = plan(p);
  return {std::move(p), std::move(s)};
}

const Bug bugs[] = {
    {"Mean of local means", "loss is partial(sum) over axis dp, but all_reduce takes the average",
     [] { return with(linear(), [](const Program& p) { return linear_by_batch(p, {.loss = ReduceOp::average}); }); }},
    {"Gradients averaged over uneven batches", "d_w is partial(sum) over axis dp, but all_reduce takes the average",
     [] {
       return with(linear(),
                   [](const Program& p) { return linear_by_batch(p, {.weight_gradient = ReduceOp::average}); });
     }},
    {"Bias gradient never synchronised", "d_bias is partial over axis dp and never reduced",
     [] {
       return with(linear(), [](const Program& p) { return linear_by_batch(p, {.no_bias_gradient_sum = true}); });
     }},
    {"Clipping by the local norm",
     "d_w is partial over axis dp where norm, which is not additive in it, reads it before it is reduced",
     [] { return with(linear(true), [](const Program& p) { return linear_by_batch(p, {.local_norm = true}); }); }},
    {"Gain of a normalisation dropped", "o needs scaled as operand 0, but is given n",
     [] {
       return with(linear(false, true), [](const Program& p) { return linear_by_batch(p, {.gain_lost = true}); });
     }},
    {"Bias added on every device", "o is partial over axis tp and never reduced, but z is not additive in it",
     [] { return with(linear(), [](const Program& p) { return linear_by_features(p, true); }); }},
    {"Broadcast position embedding", "d_position is partial over axis tp and never reduced",
     [] {
       return with(embedding(),
                   [](const Program& p) { return embedding_plan(p, EmbeddingFault::no_position_gradient_sum); });
     }},
    {"Vocabulary offset dropped", "table is needed whole over axis tp by e but is cut in dimension 0",
     [] { return with(embedding(), [](const Program& p) { return embedding_plan(p, EmbeddingFault::no_offset); }); }},
    {"Lost layers", "h3 needs h2 as operand 0, but is given h1",
     [] { return with(tower(), [](const Program& p) { return tower_by_batch(p, TowerFault::layer_lost); }); }},
    {"Reversed mask", "drop1 needs causal as operand 0, but is given reversed",
     [] { return with(tower(), [](const Program& p) { return tower_by_batch(p, TowerFault::mask_reversed); }); }},
    {"Two dropouts with one stream", "both needs drop2 as operand 1, but is given drop1",
     [] { return with(tower(), [](const Program& p) { return tower_by_batch(p, TowerFault::noise_shared); }); }},
    {"Wrong process group", "d_w is already whole on every device of axis tp",
     [] { return with(tower(), [](const Program& p) { return tower_by_batch(p, TowerFault::wrong_group); }); }},
    {"Gradient reduced twice", "d_w is already whole on every device of axis dp",
     [] { return with(linear(), [](const Program& p) { return zero(p, true, true, false); }); }},
    {"Updated shards never gathered", "the new contents of w end cut in dimension 0 by table rows",
     [] { return with(linear(), [](const Program& p) { return zero(p, false, false, false); }); }},
    {"Even gather of uneven shards", "is cut in dimension 0 by table rows over axis dp where all_gather expects",
     [] { return with(linear(), [](const Program& p) { return zero(p, false, true, true); }); }},
    {"Softmax over a slice", "s is partial over axis tp, over which p is divided",
     [] { return with(softmax_layer(), [](const Program& p) { return softmax_without(p, true, false); }); }},
    {"Local maximum in a softmax", "mx is partial over axis tp, over which e is divided",
     [] { return with(softmax_layer(), [](const Program& p) { return softmax_without(p, false, true); }); }},
    {"Stale momentum", "m1_new needs d_w1 as operand 1, but is given m1",
     [] {
       return with(two_layers(), [](const Program& p) {
         SpmdProgram plan = data_parallel(p);
         Instruction& i = plan.instructions[size_t(find(plan, p, Opcode::compute, "m1_new"))];
         i.operands[1] = i.operands[0];
         return plan;
       });
     }},
};

class Gallery : public ::testing::TestWithParam<Bug> {};

TEST_P(Gallery, IsRefutedInOneSentence) {
  auto [reference, plan] = GetParam().make();
  Verification v = verify(reference, plan);
  EXPECT_EQ(v.verdict, Verdict::refuted) << v.summary;
  EXPECT_THAT(v.summary, HasSubstr(GetParam().sentence));
  EXPECT_FALSE(v.counterexample.text.empty());
}

/// The page tells of every bug, with the sentence that is tested.
TEST_P(Gallery, StandsInTheDocument) {
  std::string page = read_file(HETSYNTH_SOURCE_DIR "/docs/bugs.md", "page", 1 << 20);
  EXPECT_THAT(page, HasSubstr(GetParam().name));
  EXPECT_THAT(page, HasSubstr(GetParam().sentence));
}

INSTANTIATE_TEST_SUITE_P(Bugs, Gallery, ::testing::ValuesIn(bugs));

TEST(GalleryWithoutBugs, TheSamePlansWithoutTheBugAreProved) {
  auto proved = [](const Program& p, const SpmdProgram& plan) {
    Verification v = verify(p, plan);
    EXPECT_EQ(v.verdict, Verdict::proved) << v.summary << "\n" << text(plan, p);
  };
  for (const Program& p : {linear(), linear(true), linear(false, true)}) proved(p, linear_by_batch(p, {}));
  Program l = linear(), e = embedding(), t = tower(), s = softmax_layer();
  proved(l, linear_by_features(l, false));
  proved(l, zero(l, false, true, false));
  proved(e, embedding_plan(e, EmbeddingFault::none));
  proved(t, tower_by_batch(t, TowerFault::none));
  proved(s, softmax_without(s, true, true));
}

}  // namespace
}  // namespace hetsynth
