// Steps as they unfold: what waits for what, what overlaps, and that sums add up.
#include "synth/schedule/timeline.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "programs.h"
#include "synth/planner/synthesize.h"

namespace hetsynth {
namespace {

using namespace testing_support;

/// x is gathered while y, which does not need it, is computed; z needs both. Seconds of each are given.
Unfolding in_order(size_t instructions, bool beside) {
  Unfolding out;
  for (size_t i = 0; i < instructions; ++i) out.order.push_back(int(i));
  out.bundle_of.assign(instructions, -1);
  out.latency.assign(instructions, 0);
  out.beside.assign(instructions, beside);
  return out;
}

struct Example {
  Example() {
    NodeId x = b.input("x", {6, 4});
    NodeId y = b.op("y", "ab->ab", {x}), z = b.op("z", "ab,ab->ab", {x, y});
    spmd.mesh.axes = {{"dev", 2}};
    spmd.tables = {{"rows", 0, 6, {0, 3, 6}}};
    spmd.values = {{"x@S0", x, {Placement::sharded(0, 0)}},
                   {"x@R", x, {Placement::replicated()}},
                   {"y@S0", y, {Placement::sharded(0, 0)}},
                   {"z@S0", z, {Placement::sharded(0, 0)}}};
    spmd.leaves = {0};
    Instruction gather;
    gather.opcode = Opcode::all_gather;
    gather.result = 1;
    gather.operands = {0};
    gather.axis = 0;
    Instruction first, second;
    first.result = 2, first.operands = {0}, first.node = y;
    second.result = 3, second.operands = {1, 2}, second.node = z;
    spmd.instructions = {gather, first, second};
    prices = {price({5, 5}, 96), price({3, 1}, 0), price({2, 2}, 0)};
  }
  static InstructionPrice price(std::vector<double> seconds, double bytes) {
    InstructionPrice out;
    out.seconds = std::ranges::max(seconds);
    out.device_seconds = std::move(seconds);
    out.bytes = bytes;
    return out;
  }
  Timeline on(DeviceKind kind) const { return simulate(spmd, prices, in_order(3, kind == DeviceKind::cuda)); }
  ProgramBuilder b;
  SpmdProgram spmd;
  std::vector<InstructionPrice> prices;
};

/// Two micro-batches through two stages: the second stage works on one while the first makes the next.
TEST(Timeline, StagesWorkAtOnce) {
  ProgramBuilder b;
  const NodeId x = b.input("x", {6, 4});
  SpmdProgram spmd;
  spmd.mesh.axes = {{"pp", 2}};
  spmd.values = {{"x@R", x, {Placement::replicated()}}};
  spmd.leaves = {0};
  std::vector<InstructionPrice> prices;
  for (int batch = 0; batch < 2; ++batch) {
    const std::string n = std::to_string(batch);
    const NodeId y = b.op("y" + n, "ab->ab", {x}), z = b.op("z" + n, "ab->ab", {y});
    const ValueId first = ValueId(spmd.values.size());
    spmd.values.push_back({"y" + n + "@0", y, {Placement::stage(0)}});
    spmd.values.push_back({"y" + n + "@1", y, {Placement::stage(1)}});
    spmd.values.push_back({"z" + n, z, {Placement::stage(1)}});
    Instruction make, send, use;
    make.result = first, make.operands = {0}, make.node = y, make.splits = {Split::on_stage(0)};
    send.opcode = Opcode::send, send.result = first + 1, send.operands = {first}, send.axis = 0, send.root = 0,
    send.to = 1;
    use.result = first + 2, use.operands = {first + 1}, use.node = z, use.splits = {Split::on_stage(1)};
    spmd.instructions.insert(spmd.instructions.end(), {make, send, use});
    prices.insert(prices.end(), {Example::price({4, 0}, 0), Example::price({1, 1}, 96), Example::price({0, 4}, 0)});
  }
  const Timeline timeline = simulate(spmd, prices, in_order(6, true));
  // 4 | 4        on stage 0
  //     5 | 4 4  on stage 1, from 5 to 13, in place of 18 one after the other
  EXPECT_EQ(timeline.seconds, 13);
  EXPECT_EQ(timeline.spans[3][0].start, 4);
  EXPECT_EQ(timeline.spans[2][1].start, 5);
  EXPECT_EQ(timeline.spans[5][1].start, 9);
  EXPECT_EQ(timeline.devices[0].compute_seconds, 8);
  EXPECT_EQ(timeline.devices[1].compute_seconds, 8);
}

/// What goes each way between stages takes a stream of its own, beside collectives.
TEST(Timeline, SendsOfBothDirectionsAndCollectivesRunAtOnce) {
  ProgramBuilder b;
  SpmdProgram spmd;
  spmd.mesh.axes = {{"pp", 2}};
  std::vector<InstructionPrice> prices;
  const auto send = [&](int from) {
    const NodeId node = b.input("x" + std::to_string(spmd.leaves.size()), {6, 4});
    const ValueId leaf = ValueId(spmd.values.size());
    spmd.values.push_back({"x", node, {Placement::stage(from)}});
    spmd.values.push_back({"x@other", node, {Placement::stage(1 - from)}});
    spmd.leaves.push_back(leaf);
    Instruction send;
    send.opcode = Opcode::send, send.result = leaf + 1, send.operands = {leaf}, send.axis = 0;
    send.root = from, send.to = 1 - from;
    spmd.instructions.push_back(send);
    prices.push_back(Example::price({5, 5}, 96));
  };
  send(0);
  send(1);
  send(0);
  const NodeId node = b.input("y", {6, 4});
  const ValueId leaf = ValueId(spmd.values.size());
  spmd.values.push_back({"y", node, {Placement::stage(0)}});
  spmd.values.push_back({"y@all", node, {Placement::replicated()}});
  spmd.leaves.push_back(leaf);
  Instruction broadcast;
  broadcast.opcode = Opcode::broadcast, broadcast.result = leaf + 1, broadcast.operands = {leaf}, broadcast.axis = 0;
  spmd.instructions.push_back(broadcast);
  prices.push_back(Example::price({8, 8}, 96));
  const Timeline timeline = simulate(spmd, prices, in_order(4, true));
  EXPECT_EQ(timeline.spans[0][1].start, 0);
  EXPECT_EQ(timeline.spans[1][0].start, 0) << "the other way";
  EXPECT_EQ(timeline.spans[2][0].start, 5) << "behind what goes the same way";
  EXPECT_EQ(timeline.spans[3][0].start, 0) << "a collective";
  EXPECT_EQ(timeline.seconds, 10);
}

TEST(Timeline, OverlapsCommunicationOnDevicesWithAStreamForIt) {
  Timeline timeline = Example().on(DeviceKind::cuda);
  EXPECT_EQ(timeline.seconds, 7);  // the gather hides y; z waits for the gather
  EXPECT_EQ(timeline.spans[1][0].start, 0);
  EXPECT_EQ(timeline.spans[2][1].start, 5);
  EXPECT_EQ(timeline.devices[0].hidden_seconds, 3);
  EXPECT_EQ(timeline.devices[0].idle_seconds, 0);
  EXPECT_EQ(timeline.devices[1].compute_seconds, 3);
  EXPECT_EQ(timeline.devices[1].communication_seconds, 5);
  EXPECT_EQ(timeline.devices[1].hidden_seconds, 1);
}

/// A device whose program begins collectives itself computes first what stands before them.
TEST(Timeline, CoresBeginACollectiveWhenTheyComeToIt) {
  const Example example;
  Unfolding unfolding = in_order(3, true);
  std::swap(unfolding.order[0], unfolding.order[1]);  // y stands before the gather, which does not need it
  EXPECT_EQ(simulate(example.spmd, example.prices, unfolding).seconds, 7);
  unfolding.begun_in_order = true;
  const Timeline timeline = simulate(example.spmd, example.prices, unfolding);
  EXPECT_EQ(timeline.spans[0][1].start, 3) << "when the slower of the two has y";
  EXPECT_EQ(timeline.seconds, 10);
}

TEST(Timeline, CoresDoOneThingAfterTheOtherAndWaitAtCollectivesOnly) {
  Timeline timeline = Example().on(DeviceKind::cpu);
  EXPECT_EQ(timeline.seconds, 10);
  EXPECT_EQ(timeline.spans[1][0].start, 5);
  EXPECT_EQ(timeline.spans[2][0].start, 8);
  EXPECT_EQ(timeline.spans[2][1].start, 6);  // does not wait for the other device
  EXPECT_EQ(timeline.devices[1].hidden_seconds, 0);
  EXPECT_EQ(timeline.devices[1].idle_seconds, 2);
}

/// Two gathers of one bucket begin when the operands of both are there and cost the larger latency once.
TEST(Timeline, CollectivesThatGoTogetherHaveOneLatency) {
  ProgramBuilder b;
  const NodeId x = b.input("x", {6, 4}), y = b.op("y", "ab->ab", {x}), z = b.op("z", "ab->ab", {x});
  SpmdProgram spmd;
  spmd.mesh.axes = {{"dev", 2}};
  spmd.tables = {{"rows", 0, 6, {0, 3, 6}}};
  const auto part = Placement::sharded(0, 0);
  spmd.values = {{"x@S0", x, {part}}, {"y@S0", y, {part}}, {"z@S0", z, {part}}, {"y@R", y, {}}, {"z@R", z, {}}};
  spmd.leaves = {0};
  spmd.instructions.resize(4);
  for (int i = 0; i < 4; ++i) spmd.instructions[size_t(i)].result = i + 1;
  spmd.instructions[0].operands = spmd.instructions[1].operands = {0};
  for (int i : {2, 3}) {
    spmd.instructions[size_t(i)].opcode = Opcode::all_gather;
    spmd.instructions[size_t(i)].operands = {i - 1};
    spmd.instructions[size_t(i)].axis = 0;
  }
  const std::vector<InstructionPrice> prices = {Example::price({3, 1}, 0), Example::price({2, 2}, 0),
                                                Example::price({5, 5}, 96), Example::price({4, 4}, 96)};
  Unfolding unfolding = in_order(4, true);
  unfolding.latency = {0, 0, 2, 1};
  EXPECT_EQ(simulate(spmd, prices, unfolding).seconds, 3 + 5 + 4) << "one by one, the first beside the second operator";
  unfolding.bundle_of = {-1, -1, 7, 7};
  const Timeline timeline = simulate(spmd, prices, unfolding);
  EXPECT_EQ(timeline.seconds, 5 + (5 - 2) + (4 - 1) + 2);
  EXPECT_EQ(timeline.spans[2][1].start, 5);
  EXPECT_EQ(timeline.spans[3][0].end, timeline.seconds);
  EXPECT_EQ(timeline.devices[0].communication_seconds, 8);
}

/// A bucket may hold what different stages move: each waits for its own members.
TEST(Timeline, MembersOfABucketMayBeOfDifferentStages) {
  ProgramBuilder b;
  const NodeId x = b.input("x", {6, 4}), y = b.op("y", "ab->ab", {x}), z = b.op("z", "ab->ab", {x}),
               u = b.op("u", "ab->ab", {z});
  SpmdProgram spmd;
  spmd.mesh.axes = {{"pp", 2}, {"dp", 2}};
  spmd.tables = {{"rows", 1, 6, {0, 3, 6}}};
  const auto all = Placement::replicated(), part = Placement::sharded(0, 0);
  spmd.values = {{"x@S0", x, {all, part}},
                 {"y@S0", y, {Placement::stage(0), part}},
                 {"z@S0", z, {Placement::stage(1), part}},
                 {"y@R", y, {Placement::stage(0), all}},
                 {"z@R", z, {Placement::stage(1), all}},
                 {"u", u, {Placement::stage(1), all}}};
  spmd.leaves = {0};
  spmd.instructions.resize(5);
  for (int i = 0; i < 5; ++i) spmd.instructions[size_t(i)].result = i + 1;
  const auto operands = {0, 0, 1, 2, 4};
  for (size_t i = 0; i < 5; ++i) spmd.instructions[i].operands = {operands.begin()[i]};
  for (size_t i : {0, 1, 4}) spmd.instructions[i].splits = {Split::on_stage(i == 0 ? 0 : 1), {}};
  for (size_t i : {2, 3}) spmd.instructions[i].opcode = Opcode::all_gather, spmd.instructions[i].axis = 1;
  const std::vector<InstructionPrice> prices = {Example::price({3, 3, 0, 0}, 0), Example::price({0, 0, 2, 2}, 0),
                                                Example::price({5, 5, 0, 0}, 96), Example::price({0, 0, 4, 4}, 96),
                                                Example::price({0, 0, 1, 1}, 0)};
  Unfolding unfolding = in_order(5, true);
  unfolding.bundle_of = {-1, -1, 0, 0, -1};
  const Timeline timeline = simulate(spmd, prices, unfolding);
  EXPECT_EQ(timeline.spans[2][0].end, 3 + 5);
  EXPECT_EQ(timeline.spans[3][2].end, 2 + 4);
  EXPECT_EQ(timeline.spans[4][3].start, 6) << "it waits for what its own stage gathers";
  EXPECT_EQ(timeline.seconds, 8);
}

/// A second of each device's computing goes into messages: what is beside is late by it, what waits anyway is not.
TEST(Timeline, MessagesTakeTimeFromComputing) {
  const Example example;
  Unfolding unfolding = in_order(3, true);
  unfolding.message_seconds = {{1, 1}, {}, {}};
  const Timeline timeline = simulate(example.spmd, example.prices, unfolding);
  EXPECT_EQ(timeline.spans[1][0].start, 1);
  EXPECT_EQ(timeline.spans[1][0].end, 4);
  EXPECT_EQ(timeline.spans[2][0].start, 5) << "what is gathered is there then";
  unfolding.message_seconds = {{9, 1}, {}, {}};
  EXPECT_EQ(simulate(example.spmd, example.prices, unfolding).spans[0][1].end, 9)
      << "no faster than they are handed over";
}

/// What is sent arrives: in all, ranks pay for each byte twice.
TEST(Timeline, MessagesArePaidForWhereTheyAreSentAndWhereTheyArrive) {
  const Program program = mlp(96, {48, 64, 40});
  Cluster cluster = cluster_of_speeds({3e10, 1e10, 2e9}, 1e8, 1e-5);
  cluster.between = {1e8, 1e-5};
  cluster.hosts.resize(3, cluster.hosts[0]);
  for (size_t d = 0; d < 3; ++d) cluster.devices[d].host = int(d);
  const Plan free = data_parallel_plan(program, cluster, RatioRule::proportional);
  EXPECT_TRUE(unfolding_of(program, free.program, cluster).message_seconds.empty()) << "nothing is known of messages";
  for (Device& device : cluster.devices) device.declared.message_bytes_per_second = 1e9;
  const Plan plan = data_parallel_plan(program, cluster, RatioRule::proportional);
  EXPECT_GT(plan.prediction.step_seconds, free.prediction.step_seconds);
  const auto prices = price_instructions(program, plan.program, cluster);
  const Unfolding unfolding = unfolding_of(program, plan.program, cluster);
  int collectives = 0;
  for (size_t i = 0; i < prices.size(); ++i) {
    if (!prices[i].communicates()) continue;
    double bytes = 0;
    for (const double seconds : unfolding.message_seconds[i]) bytes += seconds * 1e9;
    // Each of three hosts gets what the others have, and that was sent.
    ++collectives;
    const double once = 2 * prices[i].bytes;
    const bool twice = plan.program.instructions[i].opcode == Opcode::all_reduce;
    EXPECT_NEAR(bytes, (twice ? 2 : 1) * 2 * once, 1e-6 * bytes) << name(plan.program.instructions[i].opcode);
  }
  EXPECT_GT(collectives, 0);
}

TEST(Timeline, TellsWhatHidesACollective) {
  const Example example;
  const std::vector<HiddenPart> beside = hidden_parts(example.prices, example.on(DeviceKind::cuda));
  EXPECT_EQ(beside[0].seconds, 1) << "the second device computes y for a second only";
  EXPECT_EQ(beside[0].beside, 1);
  EXPECT_EQ(beside[1].beside, -1);
  const std::vector<HiddenPart> alone = hidden_parts(example.prices, example.on(DeviceKind::cpu));
  EXPECT_EQ(alone[0].seconds, 0);
  EXPECT_EQ(alone[0].beside, -1);
}

/// On one device less is hidden in all than the collectives say one by one, since those tell of the device that hides
/// least.
TEST(Timeline, WhatHidesCollectivesAddsUpToNoMoreThanTheDevicesHide) {
  const Program program = mlp(96, {48, 64, 40});
  Cluster cluster = cluster_of_speeds({1e10, 1e10, 1e10}, 1e8, 1e-5);
  for (Device& device : cluster.devices) device.kind = DeviceKind::cuda;
  const Plan plan = data_parallel_plan(program, cluster, RatioRule::proportional);
  const auto prices = price_instructions(program, plan.program, cluster);
  const Timeline timeline = simulate(plan.program, prices, unfolding_of(program, plan.program, cluster));
  double sum = 0;
  for (const HiddenPart& part : hidden_parts(prices, timeline)) sum += part.seconds;
  EXPECT_GT(sum, 0);
  for (const DeviceTimeline& device : timeline.devices) EXPECT_LE(sum, device.hidden_seconds * (1 + 1e-9));
}

/// Waiting less can only help: the sum over instructions bounds the timeline, a device's own work bounds it from below.
TEST(Timeline, LiesBetweenADevicesWorkAndTheSumOfInstructions) {
  Program program = mlp(96, {48, 64, 40});
  for (Cluster cluster : {cluster_of_speeds({3e10, 1e10, 2e9}, 1e8, 1e-5), cluster_of_speeds({1e10, 1e10})})
    for (DeviceKind kind : {DeviceKind::cpu, DeviceKind::cuda}) {
      for (Device& device : cluster.devices) device.kind = kind;
      Plan plan = data_parallel_plan(program, cluster, RatioRule::proportional);
      auto prices = price_instructions(program, plan.program, cluster);
      Timeline timeline = simulate(plan.program, prices, unfolding_of(program, plan.program, cluster));
      EXPECT_LE(timeline.seconds, step_seconds(prices) * (1 + 1e-9) + 1e-12 * double(prices.size()));
      for (const DeviceTimeline& device : timeline.devices) {
        EXPECT_GE(timeline.seconds, std::max(device.compute_seconds, device.communication_seconds));
        EXPECT_NEAR(device.compute_seconds + device.communication_seconds - device.hidden_seconds + device.idle_seconds,
                    timeline.seconds, 1e-12);
      }
    }
}

}  // namespace
}  // namespace hetsynth
