// Hierarchical collectives mean what flat ones do: the same proofs, and the same wrong plans. What has no hierarchical
// form, or would be none, is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "dsl/ir/differentiate.h"
#include "hetsynth/hetsynth.h"
#include "synth/peers/peers.h"
#include "tests/support/by_host.h"
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
  int gathered = 0, scattered = 0;
  for (const PeerPlan& peer : peer_plans(program, cluster)) {
    ASSERT_TRUE(peer.plan) << peer.name;
    const SpmdProgram plan = by_host(peer.plan->program, {1, 3, 1});
    const Verification proof = verify(program, plan);
    EXPECT_EQ(proof.verdict, Verdict::proved) << peer.name << ": " << proof.summary;
    EXPECT_EQ(proof.proofs.size(), verify(program, peer.plan->program).proofs.size()) << peer.name;
    for (const Instruction& i : plan.instructions) {
      gathered += i.realisation == Realisation::hierarchical && i.opcode == Opcode::all_gather;
      scattered += i.realisation == Realisation::hierarchical && i.opcode == Opcode::reduce_scatter;
    }
  }
  EXPECT_GT(gathered, 0);
  EXPECT_GT(scattered, 0);
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
  EXPECT_THAT(refusal({0, 0, 1}, [](Instruction& i) { i.opcode = Opcode::broadcast; }),
              HasSubstr("broadcast over dp has no hierarchical form"));
}

TEST(HierarchicalProof, CertificatesAreOfTheHostsToo) {
  const SpmdProgram plan = by_host(data_parallel_plan(model(), local_cluster(3)).program, {2, 1});
  SpmdProgram other = plan;
  other.hosts = {0, 1, 1};
  EXPECT_NE(program_hash(plan), program_hash(other));
}

}  // namespace
}  // namespace hetsynth
