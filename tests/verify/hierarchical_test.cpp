// Hierarchical collectives mean what flat ones do: the same proofs, and the same wrong plans. What has no hierarchical
// form, or would be none, is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "dsl/transform/differentiate.h"
#include "hetsynth/hetsynth.h"
#include "synth/baselines/baseline_plans.h"
#include "synth/baselines/peers/peers.h"
#include "tests/support/by_host.h"
#include "tests/support/detours.h"
#include "tests/support/pipelined_plan.h"
#include "verify/certificate.h"
#include "verify/verify.h"

namespace hetsynth {
namespace {

using ::testing::HasSubstr;

Program model() {
  Trace trace("model.cpp");
  run_builder(trace, [] {
    auto [x, labels] = synthetic_batch(12, 8, 4);
    Tensor h = relu(matmul(x, parameter("w", {8, 16}, normal(0.1))));
    minimize(cross_entropy(matmul(h, parameter("v", {16, 4}, normal(0.1))), labels), AdamW{});
  });
  return differentiate(trace);
}

int hierarchical(const SpmdProgram& plan) {
  return int(std::ranges::count(plan.instructions, Realisation::hierarchical, &Instruction::realisation));
}

TEST(HierarchicalProof, IsThatOfTheFlatCollectives) {
  const Program program = model();
  const Cluster cluster = local_cluster(5);
  std::map<Opcode, int> met;
  for (const PeerPlan& peer : peer_plans(program, cluster)) {
    ASSERT_TRUE(peer.plan) << peer.name;
    const bool one_axis = peer.plan->program.mesh.axes.size() == 1;
    const SpmdProgram flat = one_axis ? test::with_detours(program, peer.plan->program) : peer.plan->program;
    const SpmdProgram plan = by_host(flat, {1, 3, 1});
    const Verification proof = verify(program, plan);
    EXPECT_EQ(proof.verdict, Verdict::proved) << peer.name << ": " << proof.summary;
    EXPECT_EQ(proof.proofs.size(), verify(program, flat).proofs.size()) << peer.name;
    for (const Instruction& i : plan.instructions)
      if (i.realisation == Realisation::hierarchical) ++met[i.opcode];
  }
  for (Opcode opcode :
       {Opcode::all_reduce, Opcode::all_gather, Opcode::reduce_scatter, Opcode::all_to_all, Opcode::broadcast})
    EXPECT_GT(met[opcode], 0) << name(opcode);
}

/// One that is missing, or of another reduction, is found in the same way.
TEST(HierarchicalProof, FindsTheSameMistakes) {
  const Program program = model();
  const SpmdProgram right = by_host(data_parallel_plan(program, local_cluster(3)).program, {2, 1});
  ASSERT_GT(hierarchical(right), 2);
  for (size_t at = 0; at < right.instructions.size(); ++at) {
    if (right.instructions[at].realisation != Realisation::hierarchical) continue;
    SpmdProgram wrong = right;
    wrong.instructions[at].reduce = ReduceOp::max;
    EXPECT_EQ(verify(program, wrong).verdict, Verdict::refuted) << at;
  }
}

/// Cut by another table, in another dimension, or left out; and a copy from a stage that holds none.
TEST(HierarchicalProof, FindsMistakesOfExchangesAndBroadcasts) {
  const Program program = model();
  const SpmdProgram plan = data_parallel_plan(program, local_cluster(3)).program;
  const SpmdProgram right = by_host(test::with_detours(program, plan), {2, 1});
  ASSERT_EQ(verify(program, right).verdict, Verdict::proved);
  int exchanges = 0;
  for (size_t at = 0; at < right.instructions.size(); ++at) {
    if (right.instructions[at].opcode != Opcode::all_to_all) continue;
    ++exchanges;
    const auto refuted = [&](const auto& change) {
      SpmdProgram wrong = right;
      change(wrong, wrong.instructions[at]);
      EXPECT_EQ(verify(program, wrong).verdict, Verdict::refuted) << at;
    };
    refuted([](SpmdProgram&, Instruction& i) { std::swap(i.dim, i.to_dim); });
    refuted([](SpmdProgram& wrong, Instruction& i) {
      wrong.tables.push_back(wrong.tables[size_t(i.to_table)]);
      wrong.tables.back().name += "'";
      std::ranges::fill(wrong.tables.back().bounds, 0);
      wrong.tables.back().bounds.back() = wrong.tables.back().extent;
      i.to_table = int(wrong.tables.size()) - 1;
    });
    refuted([](SpmdProgram&, Instruction& i) { i.opcode = Opcode::all_gather; });
  }
  EXPECT_GT(exchanges, 4);

  const SpmdProgram stages = test::pipelined_plan(program, data_parallel_plan(program, local_cluster(1)).program, 3);
  SpmdProgram staged = by_host(stages, {2, 1});
  EXPECT_EQ(verify(program, staged).verdict, Verdict::proved);
  const auto broadcast = std::ranges::find(staged.instructions, Opcode::broadcast, &Instruction::opcode);
  ASSERT_NE(broadcast, staged.instructions.end());
  EXPECT_EQ(broadcast->realisation, Realisation::hierarchical);
  broadcast->root = (broadcast->root + 1) % 3;
  EXPECT_EQ(verify(program, staged).verdict, Verdict::refuted);
}

TEST(HierarchicalProof, IsRefusedWhereThereIsNoSuchForm) {
  const Program program = model();
  const SpmdProgram flat = data_parallel_plan(program, local_cluster(3)).program;
  const size_t at = size_t(std::ranges::find(flat.instructions, Opcode::all_reduce, &Instruction::opcode) -
                           flat.instructions.begin());
  const auto refusal = [&](const std::vector<int>& hosts, const auto& change) {
    SpmdProgram plan = flat;
    plan.hosts = hosts;
    plan.instructions[at].realisation = Realisation::hierarchical;
    change(plan.instructions[at]);
    const Verification v = verify(program, plan);
    EXPECT_EQ(v.verdict, Verdict::refuted);
    return v.summary;
  };
  const auto as_is = [](Instruction&) {};
  EXPECT_THAT(refusal({}, as_is), HasSubstr("the plan does not say which devices share a host"));
  EXPECT_THAT(refusal({0, 0, 0}, as_is), HasSubstr("each of its groups lies on one host"));
  EXPECT_THAT(refusal({0, 1, 2}, as_is), HasSubstr("no host holds two devices of a group"));
  EXPECT_THAT(refusal({0, 1}, as_is), HasSubstr("the plan's 2 hosts of 3 devices are not in the order of the ranks"));
  EXPECT_THAT(refusal({0, 1, 0}, as_is), HasSubstr("not in the order of the ranks"));
  EXPECT_THAT(refusal({0, 0, 1}, [](Instruction& i) { i.reduce = ReduceOp::average; }), HasSubstr("takes the average"));
  EXPECT_THAT(refusal({0, 0, 1}, [](Instruction& i) { i.opcode = Opcode::send, i.to = 1; }),
              HasSubstr("send over dp has no hierarchical form"));
}

TEST(HierarchicalProof, CertificatesAreOfTheHostsToo) {
  const SpmdProgram plan = by_host(data_parallel_plan(model(), local_cluster(3)).program, {2, 1});
  SpmdProgram other = plan;
  other.hosts = {0, 1, 1};
  EXPECT_NE(program_hash(plan), program_hash(other));
}

}  // namespace
}  // namespace hetsynth
