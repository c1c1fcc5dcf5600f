// Hierarchical collectives in the cost model and in plans: their price phase by phase, when they are chosen, and that
// everything on one host stays as it was.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "brute_force.h"
#include "dsl/spmd/hosts.h"
#include "programs.h"
#include "synth/baselines/baselines.h"
#include "synth/bounds/mesh_bound.h"
#include "synth/bounds/share_bound.h"
#include "synth/schedule/price.h"
#include "synth/schedule/timeline.h"

namespace hetsynth {
namespace {

using namespace testing_support;
using ::testing::HasSubstr;
using ::testing::Not;

/// Hosts of so many equal devices, at 1e9 B/s and 1 us inside and 1e7 B/s and 1 ms between.
Cluster hosts_of(const std::vector<int>& devices) {
  int count = 0;
  for (int on_host : devices) count += on_host;
  Cluster cluster = cluster_of_speeds(std::vector<double>(size_t(count), 1e10), 1e9, 1e-6);
  cluster.hosts.resize(devices.size(), cluster.hosts[0]);
  cluster.between = {1e7, 1e-3};
  int at = 0;
  for (size_t host = 0; host < devices.size(); ++host)
    for (int d = 0; d < devices[host]; ++d) cluster.devices[size_t(at++)].host = int(host);
  return cluster;
}

Cluster on_gpus(Cluster cluster) {
  for (Device& device : cluster.devices) device.kind = DeviceKind::cuda, device.architecture = "sm_80";
  return cluster;
}

/// A tensor of 24000 bytes, moved by one instruction; its rows lie as the bounds say.
struct Moved {
  explicit Moved(int devices, std::vector<int64_t> bounds) {
    x = b.input("x", {6, 1000});
    b.program.loss = b.op("loss", "ab->", {x});
    spmd.mesh.axes = {{"dev", devices}};
    spmd.tables = {{"rows", 0, 6, std::move(bounds)}, {"columns", 0, 1000, {0}}};
    for (int d = 1; d <= devices; ++d) spmd.tables[1].bounds.push_back(1000 * d / devices);
    spmd.leaves = {0};
    instruction.result = 1;
    instruction.operands = {0};
    instruction.axis = 0;
  }
  double price(Opcode opcode, Realisation realisation, const Cluster& cluster) {
    const Placement whole = Placement::replicated(), rows = Placement::sharded(0, 0),
                    sum = Placement::partial(ReduceOp::sum);
    instruction.opcode = opcode;
    instruction.realisation = realisation;
    const bool cuts = opcode != Opcode::all_reduce && opcode != Opcode::broadcast,
               exchanges = opcode == Opcode::all_to_all;
    instruction.dim = instruction.table = cuts ? 0 : -1;
    instruction.to_dim = instruction.to_table = exchanges ? 1 : -1;
    const Placement before = opcode == Opcode::all_gather || exchanges ? rows
                             : opcode == Opcode::broadcast             ? Placement::stage(1)
                                                                       : sum;
    spmd.values = {{"x@0", x, {before}},
                   {"x@1",
                    x,
                    {opcode == Opcode::reduce_scatter ? rows
                     : exchanges                      ? Placement::sharded(1, 1)
                                                      : whole}}};
    instruction.root = opcode == Opcode::broadcast ? 1 : 0;
    spmd.instructions = {instruction};
    return price_instructions(b.program, spmd, cluster).at(0).seconds;
  }
  ProgramBuilder b;
  NodeId x;
  SpmdProgram spmd;
  Instruction instruction;
};

constexpr Realisation native = Realisation::native, levels = Realisation::hierarchical;

TEST(HierarchicalPrice, OfAnAllReduceIsThatOfItsThreePhases) {
  Moved moved(5, {0, 1, 2, 3, 4, 6});
  const Cluster cluster = hosts_of({3, 2});
  // Around the ring of five: 8 steps of the slow link.
  EXPECT_DOUBLE_EQ(moved.price(Opcode::all_reduce, native, cluster), 8e-3 + 2 * 0.8 * 24000e-7);
  // Through the host of three, between the two hosts, and back.
  EXPECT_DOUBLE_EQ(moved.price(Opcode::all_reduce, levels, cluster), 2 * (2e-6 + 24000e-9) + 2e-3 + 2 * 0.5 * 24000e-7);
  EXPECT_DOUBLE_EQ(moved.price(Opcode::all_reduce, levels, on_gpus(cluster)),
                   moved.price(Opcode::all_reduce, levels, cluster));
}

TEST(HierarchicalPrice, OfGatheringAndScatteringIsThatOfWhatHostsHold) {
  Moved moved(5, {0, 1, 2, 3, 4, 6});  // 3 rows on each host
  const Cluster cluster = hosts_of({3, 2});
  const double within = 2e-6 + 12000e-9, on = 2e-6 + 24000e-9;
  for (Opcode opcode : {Opcode::all_gather, Opcode::reduce_scatter}) {
    EXPECT_DOUBLE_EQ(moved.price(opcode, native, cluster), 4e-3 + 20000e-7);
    EXPECT_DOUBLE_EQ(moved.price(opcode, levels, cluster), within + 1e-3 + 12000e-7 + on);
    EXPECT_DOUBLE_EQ(moved.price(opcode, levels, on_gpus(cluster)), within + 1e-3 + 12000e-7 + on);
  }
  // 2 rows and 4: the host that lacks more waits. NCCL knows no uneven blocks.
  moved.spmd.tables[0].bounds = {0, 1, 2, 2, 4, 6};
  const double uneven = 1e-6 + 16000e-9 + 16000e-7 + on;
  EXPECT_DOUBLE_EQ(moved.price(Opcode::all_gather, levels, cluster), uneven + 1e-3);
  EXPECT_DOUBLE_EQ(moved.price(Opcode::all_gather, levels, on_gpus(cluster)), uneven + 2e-3);
}

/// Devices with 4800 bytes of columns, the last one with 8000 of rows: a host of three moves 4/5 of 14400 bytes.
TEST(HierarchicalPrice, OfAnAllToAllIsThatOfWhatPassesTheLeaders) {
  Moved moved(5, {0, 1, 2, 3, 4, 6});
  const Cluster cluster = hosts_of({3, 2});
  const double three = 11520e-9, between = 1e-3 + 11520e-7;
  EXPECT_DOUBLE_EQ(moved.price(Opcode::all_to_all, native, cluster), 4e-3 + 11520e-7);
  EXPECT_DOUBLE_EQ(moved.price(Opcode::all_to_all, levels, cluster), 2 * (2e-6 + three) + between);
  // NCCL packs nothing at leaders: of each device a message per host, to each one per device of other hosts.
  const double out = 2 * 2e-6 + three, back = 2 * 2e-6 + three;
  EXPECT_DOUBLE_EQ(moved.price(Opcode::all_to_all, levels, on_gpus(cluster)), out + between + back);
  EXPECT_DOUBLE_EQ(moved.price(Opcode::all_to_all, levels, hosts_of({4, 1})),
                   2 * (3e-6 + 4 * 0.8 * 4800e-9) + 1e-3 + 4 * 0.8 * 4800e-7);
  // Of three devices 2 messages each, and as many to each; the second and the third have 8 bytes more of columns.
  Moved wide(6, {0, 1, 2, 3, 4, 5, 6});
  const double four = 5.0 / 6 * (4 * 4000 + 2 * 8) * 1e-9;
  EXPECT_NEAR(wide.price(Opcode::all_to_all, levels, on_gpus(hosts_of({4, 2}))),
              3 * 2e-6 + four + 1e-3 + 100 * four + 3 * 2e-6 + four, 2e-12);
}

TEST(HierarchicalPrice, OfABroadcastIsThatOfItsPhasesFromAnyRoot) {
  Moved moved(5, {0, 1, 2, 3, 4, 6});
  const Cluster cluster = hosts_of({3, 2});
  EXPECT_DOUBLE_EQ(moved.price(Opcode::broadcast, native, cluster), 4e-3 + 24000e-7);
  for (const Cluster& on : {cluster, on_gpus(cluster)})
    EXPECT_DOUBLE_EQ(moved.price(Opcode::broadcast, levels, on), 2 * (2e-6 + 24000e-9) + 1e-3 + 24000e-7);
}

TEST(HierarchicalPrice, OfFewBytesOverManyHostsIsTheLeastAndOfManyBytesTheFlatOnesIs) {
  using synth::CommunicationCost;
  for (const Cluster& cluster : {hosts_of({8, 8, 8, 8}), on_gpus(hosts_of({8, 8, 8, 8}))}) {
    const CommunicationCost cost(cluster, {{{"dev", 32}}}, cluster.devices[0].kind == DeviceKind::cpu);
    for (const double bytes : {1e3, 1e6, 1e7, 1e8, 1e9}) {
      const std::vector<double> shards(32, bytes / 32);
      const auto chosen = cost.movement(Opcode::all_to_all, 0, shards, shards, {});
      const double flat = cost.movement(Opcode::all_to_all, 0, shards, shards, native).seconds;
      const double by_host = cost.movement(Opcode::all_to_all, 0, shards, shards, levels).seconds;
      EXPECT_EQ(chosen.seconds, std::min(flat, by_host));
      EXPECT_EQ(chosen.realisation, bytes < 5e7 ? levels : native) << bytes;
      const std::vector<double> whole(32, bytes);
      const auto handed_out = cost.movement(Opcode::broadcast, 0, whole, whole, {});
      EXPECT_EQ(handed_out.realisation, bytes < 5e7 ? levels : native) << bytes;
      EXPECT_EQ(handed_out.seconds, std::min(cost.movement(Opcode::broadcast, 0, whole, whole, native).seconds,
                                             cost.movement(Opcode::broadcast, 0, whole, whole, levels).seconds));
    }
  }
}

TEST(HierarchicalPrice, SharesTheLinksBetweenHostsAmongGroups) {
  Moved moved(4, {0, 1, 2, 4, 6});
  moved.spmd.mesh.axes = {{"outer", 4}, {"inner", 2}};
  moved.spmd.values = {{"x@P", moved.x, {Placement::partial(ReduceOp::sum), Placement::replicated()}},
                       {"x@R", moved.x, {Placement::replicated(), Placement::replicated()}}};
  moved.instruction.opcode = Opcode::all_reduce;
  moved.instruction.realisation = levels;
  moved.spmd.instructions = {moved.instruction};
  const Cluster cluster = hosts_of({4, 4});
  EXPECT_DOUBLE_EQ(price_instructions(moved.b.program, moved.spmd, cluster)[0].seconds,
                   2 * (1e-6 + 24000e-9) + 2e-3 + 2 * 0.5 * 2 * 24000e-7);
}

int count_of(const SpmdProgram& program, Realisation realisation) {
  return int(std::ranges::count(program.instructions, realisation, &Instruction::realisation));
}

TEST(HierarchicalPlans, AreMadeWhereLinksBetweenHostsAreSlow) {
  const Program program = mlp(4096, {256, 256, 64});
  for (const Cluster& cluster : {hosts_of({3, 2}), hosts_of({4, 1}), hosts_of({2, 2, 2}), on_gpus(hosts_of({3, 2}))}) {
    const Plan plan = data_parallel_plan(program, cluster);
    ASSERT_GT(count_of(plan.program, levels), 0);
    ASSERT_EQ(plan.program.hosts.size(), cluster.devices.size());
    for (size_t d = 0; d < cluster.devices.size(); ++d) EXPECT_EQ(plan.program.hosts[d], cluster.devices[d].host);
    for (const Instruction& i : plan.program.instructions)
      EXPECT_EQ(i.realisation == levels ? why_not_hierarchical(plan.program, i) : "", "");
    // As the search priced it, and never dearer than on a ring.
    const auto prices = price_instructions(program, plan.program, cluster);
    EXPECT_EQ(step_seconds(prices), plan.prediction.objective_seconds);
    SpmdProgram ring = plan.program;
    for (Instruction& i : ring.instructions)
      if (i.realisation == levels) i.realisation = native;
    const auto flat = price_instructions(program, ring, cluster);
    for (size_t i = 0; i < prices.size(); ++i) EXPECT_LE(prices[i].seconds, flat[i].seconds);
    EXPECT_LT(step_seconds(prices), step_seconds(flat));
    EXPECT_LT(simulate(plan.program, prices, unfolding_of(program, plan.program, cluster)).seconds,
              simulate(ring, flat, unfolding_of(program, ring, cluster)).seconds);
  }
}

TEST(HierarchicalPlans, AreNotMadeOnOneHostOrOfLoneDevices) {
  const Program program = mlp(4096, {256, 256, 64});
  for (const Cluster& cluster : {hosts_of({4}), hosts_of({1, 1, 1, 1})}) {
    const Plan plan = data_parallel_plan(program, cluster);
    EXPECT_EQ(count_of(plan.program, levels), 0);
    EXPECT_TRUE(plan.program.hosts.empty());
    EXPECT_THAT(plan_to_json(plan, program), Not(HasSubstr("hosts")));
  }
  // Where the link between hosts is no slower, a ring moves fewer bytes.
  Cluster alike = hosts_of({2, 2});
  alike.between = {1e12, 0};
  for (Host& host : alike.hosts) host.inside.latency_seconds = 0;
  EXPECT_EQ(count_of(data_parallel_plan(program, alike).program, levels), 0);
}

/// With hosts left out, the others are numbered from 0.
TEST(HierarchicalPlans, NumberTheHostsThatTheyUse) {
  Cluster cluster = hosts_of({1, 2, 2});
  cluster.devices.erase(cluster.devices.begin());
  const Plan plan = data_parallel_plan(mlp(4096, {256, 256, 64}), cluster);
  EXPECT_EQ(plan.program.hosts, (std::vector<int>{0, 0, 1, 1}));
}

/// Of so many bytes together: equal ones, or any, a quarter of them empty.
std::vector<double> random_shares(uint64_t& random, int count, double bytes, bool even) {
  std::vector<double> shares;
  double sum = 0;
  while (sum == 0) {
    shares.clear();
    for (int d = 0; d < count; ++d) {
      random = random * 6364136223846793005ULL + 1442695040888963407ULL;
      shares.push_back(even ? 1 : random >> 62 ? double(random >> 40) : 0);
      sum += shares.back();
    }
  }
  for (double& share : shares) share *= bytes / sum;
  return shares;
}

/// A thousand shares of every kind: no hierarchical collective is below what bounds count with.
TEST(HierarchicalBounds, HoldAtAnyShares) {
  using namespace synth;
  for (const std::vector<int>& devices : {std::vector<int>{3, 2}, {4, 1}, {2, 2}, {1, 3, 2}}) {
    for (const Cluster& cluster : {hosts_of(devices), on_gpus(hosts_of(devices))}) {
      const int count = int(cluster.devices.size());
      const CommunicationCost cost(cluster, {{{"dev", count}}}, cluster.devices[0].kind == DeviceKind::cpu);
      ASSERT_TRUE(cost.has_levels(0));
      const std::vector<double> whole(size_t(count), 1e6);
      const Line least = cost.least_hierarchical(Opcode::all_gather, 0, 0, 1e6);
      double nearest = HUGE_VAL;
      uint64_t random = 1;
      for (int round = 0; round < 1000; ++round) {
        const std::vector<double> shares = random_shares(random, count, 1e6, round == 0);
        const double seconds = cost.movement(Opcode::all_gather, 0, shares, whole, levels).seconds;
        EXPECT_LE(least.fixed + least.per_byte * 1e6, seconds * (1 + 1e-12));
        nearest = std::min(nearest, seconds);
      }
      // Equal hosts: what they hold can be equal.
      if (devices[0] == devices[1] && devices.size() == 2) {
        EXPECT_NEAR(least.fixed + least.per_byte * 1e6, nearest, 1e-9 * nearest);
      }
      // Of exchanges, from any shares to any others.
      const Line exchange = cost.least_hierarchical(Opcode::all_to_all, 0, 0, 1e6);
      nearest = HUGE_VAL;
      for (int round = 0; round < 1000; ++round) {
        const std::vector<double> before = random_shares(random, count, 1e6, round == 0),
                                  after = random_shares(random, count, 1e6, round == 0);
        const double seconds = cost.movement(Opcode::all_to_all, 0, before, after, levels).seconds;
        EXPECT_LE(exchange.fixed + exchange.per_byte * 1e6, seconds * (1 + 1e-12));
        nearest = std::min(nearest, seconds);
      }
      if (devices[0] == devices[1] && devices.size() == 2) {
        EXPECT_NEAR(exchange.fixed + exchange.per_byte * 1e6, nearest, 1e-9 * nearest);
      }
      const Line reduce = cost.least_hierarchical(Opcode::all_reduce, 0, 0, 1e6);
      EXPECT_NEAR(reduce.fixed + reduce.per_byte * 1e6,
                  cost.movement(Opcode::all_reduce, 0, whole, whole, levels).seconds, 1e-12);
    }
  }
}

}  // namespace
}  // namespace hetsynth
