// Racks with uplinks: what passes them, counted message by message, and plans that keep away from slow ones.
#include "synth/model/uplinks.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>

#include "programs.h"
#include "synth/model/communication_cost.h"
#include "synth/planner/synthesize.h"

namespace hetsynth::synth {
namespace {

using namespace testing_support;  // NOLINT: fixtures of this folder

/// Hosts of one device each, in racks as listed; -1: in none.
Cluster racked(const std::vector<int>& rack_of_host, const std::vector<Uplink>& uplinks) {
  Cluster cluster = cluster_of_speeds(std::vector<double>(rack_of_host.size(), 1e10), 1e10, 1e-6);
  cluster.hosts.resize(rack_of_host.size(), cluster.hosts[0]);
  cluster.between = {1e9, 1e-5};
  for (size_t h = 0; h < rack_of_host.size(); ++h) {
    cluster.devices[h].host = int(h);
    cluster.hosts[h].rack = rack_of_host[h];
  }
  for (size_t r = 0; r < uplinks.size(); ++r) cluster.racks.push_back({fmt::format("r{}", r), uplinks[r]});
  return cluster;
}

TEST(Uplinks, OfARingArePassedOnceForEachRunOfARacksHosts) {
  const std::vector<Uplink> uplinks = {{1e8, 2e8, 3e-5}, {4e8, 4e8, 0}};
  const std::vector<std::vector<int>> all = {{0, 1, 2, 3}};
  // Out of the first rack once.
  EXPECT_EQ(Uplinks(racked({0, 0, 1, 1}, uplinks), all).ring(0), (Link{1e8, 3e-5}));
  // Twice, as its hosts stand apart.
  EXPECT_EQ(Uplinks(racked({0, 1, 0, 1}, uplinks), all).ring(0), (Link{5e7, 3e-5}));
  // Two rings at once share it.
  EXPECT_EQ(Uplinks(racked({0, 0, 1, 1}, uplinks), {{0, 2}, {1, 3}}).ring(1), (Link{5e7, 3e-5}));
  // In the racks nothing is passed, and hosts of no rack have no uplink.
  EXPECT_EQ(Uplinks(racked({0, 0, 1, 1}, uplinks), {{0, 1}, {2, 3}}).ring(1), unlimited_link);
  EXPECT_EQ(Uplinks(racked({-1, -1, 1, 1}, uplinks), all).ring(0), (Link{4e8, 0}));
  EXPECT_EQ(Uplinks(racked({0, 0, 0, 0}, uplinks), all).ring(0), unlimited_link);
}

TEST(Uplinks, PricesOfCollectivesAreThoseOfTheSlowestUplink) {
  const Cluster cluster = racked({0, 0, 1, 1}, {{1e8, 1e8, 3e-5}, {4e8, 4e8, 0}});
  Mesh mesh;
  mesh.axes = {{"dev", 4}};
  const CommunicationCost cost(cluster, mesh, /*native=*/true);
  const std::vector<double> whole(4, 8e6), shards(4, 2e6);
  EXPECT_DOUBLE_EQ(cost.movement(Opcode::all_reduce, 0, whole, whole, {}).seconds, 6 * 3e-5 + 1.5 * 8e6 / 1e8);
  EXPECT_DOUBLE_EQ(cost.movement(Opcode::all_gather, 0, shards, whole, {}).seconds, 3 * 3e-5 + 6e6 / 1e8);
  // Each device moves 3/4 of its 2 MB, and 2/3 of that to the other rack.
  EXPECT_DOUBLE_EQ(cost.movement(Opcode::all_to_all, 0, shards, shards, {}).seconds, 3 * 3e-5 + 2 * 1e6 / 1e8);
  // Both devices of the first rack send to the second one at once.
  mesh.axes = {{"stage", 2}, {"dp", 2}};
  const CommunicationCost staged(cluster, mesh, /*native=*/true);
  EXPECT_DOUBLE_EQ(staged.send(0, 0, 1, whole).seconds, 3e-5 + 8e6 / 5e7);
  EXPECT_DOUBLE_EQ(staged.send(1, 0, 1, whole).seconds, 1e-5 + 8e6 / 1e9);
}

/// Message by message, for devices on hosts and hosts in racks in any order.
RC_GTEST_PROP(Uplinks, CarryEveryMessageBetweenRacks, ()) {
  const int devices = *rc::gen::inRange(2, 9), racks = *rc::gen::inRange(1, 4);
  std::vector<int> rack_of_host;
  for (int h = 0; h < devices; ++h) rack_of_host.push_back(*rc::gen::inRange(-1, racks));
  std::vector<Uplink> uplinks;
  for (int r = 0; r < racks; ++r)
    uplinks.push_back({1e8 * *rc::gen::element(1, 2, 5), 1e8 * *rc::gen::element(1, 3), 1e-6 * r});
  Cluster cluster = racked(rack_of_host, uplinks);
  int host = 0;
  for (Device& device : cluster.devices) {
    device.host = host;
    host += *rc::gen::inRange(0, 2);
  }
  const int size = devices % 2 == 0 && *rc::gen::arbitrary<bool>() ? devices / 2 : devices;
  std::vector<std::vector<int>> groups;
  for (int first = 0; first < devices; first += size) {
    groups.emplace_back();
    for (int d = first; d < first + size; ++d) groups.back().push_back(d);
  }
  const Uplinks found(cluster, groups);
  const auto rack_of = [&](int d) { return cluster.hosts[size_t(cluster.devices[size_t(d)].host)].rack; };
  std::map<int, double> leaving, entering;
  const auto each_hop = [&](const std::vector<int>& group, const auto& visit) {
    for (size_t i = 0; i < group.size(); ++i) {
      const int from = group[i], to = group[(i + 1) % group.size()];
      if (rack_of(from) != rack_of(to)) visit(from, to);
    }
  };
  for (const auto& group : groups)
    each_hop(group, [&](int from, int to) { ++leaving[rack_of(from)], ++entering[rack_of(to)]; });
  for (size_t g = 0; g < groups.size(); ++g) {
    double seconds_per_byte = 0;
    each_hop(groups[g], [&](int from, int to) {
      if (int r = rack_of(from); r >= 0)
        seconds_per_byte = std::max(seconds_per_byte, leaving[r] / uplinks[size_t(r)].sending_bytes_per_second);
      if (int r = rack_of(to); r >= 0)
        seconds_per_byte = std::max(seconds_per_byte, entering[r] / uplinks[size_t(r)].receiving_bytes_per_second);
    });
    RC_ASSERT(std::abs(1 / found.ring(g).bandwidth_bytes_per_second - seconds_per_byte) <= 1e-12 * seconds_per_byte);
  }
  std::vector<double> moved;
  for (int d = 0; d < devices; ++d) moved.push_back(*rc::gen::inRange(0, 1000));
  std::map<int, double> bytes;
  for (const auto& group : groups)
    for (int from : group)
      for (int to : group)
        if (rack_of(from) != rack_of(to) && rack_of(from) >= 0)
          bytes[rack_of(from)] += moved[size_t(from)] / double(group.size() - 1);
  double slowest = 0;
  for (const auto& [rack, sum] : bytes) slowest = std::max(slowest, sum / uplinks[size_t(rack)].both_ways());
  RC_ASSERT(std::abs(found.exchange_seconds(moved) - slowest) <= 1e-9 * slowest);
}

/// The slower the uplinks, the less a plan sends over them; over very slow ones nothing is sent.
TEST(Uplinks, PlansKeepAwayFromSlowOnes) {
  const Program program = mlp(512, {256, 256});
  const auto planned = [&](double bytes_per_second) {
    return synthesize(program, racked({0, 0, 1, 1}, {{bytes_per_second, bytes_per_second, 0},
                                                     {bytes_per_second, bytes_per_second, 0}}));
  };
  const Plan fast = planned(1e11), slow = planned(1e8), cut = planned(1e4);
  EXPECT_LE(fast.prediction.step_seconds, slow.prediction.step_seconds);
  EXPECT_LE(slow.prediction.step_seconds, cut.prediction.step_seconds);
  EXPECT_EQ(fast.devices.size(), 4u);
  // As good as the hosts of one rack alone, whatever the devices of the other do beside them.
  const double alone = synthesize(program, racked({0, 0}, {{1e4, 1e4, 0}})).prediction.step_seconds;
  EXPECT_LE(cut.prediction.step_seconds, alone * (1 + 1e-9));
  EXPECT_LT(fast.prediction.step_seconds, 0.9 * alone) << "the premise";
  // As without uplinks, where these are faster than all links together.
  EXPECT_DOUBLE_EQ(fast.prediction.step_seconds,
                   synthesize(program, racked({-1, -1, -1, -1}, {})).prediction.step_seconds);
}

}  // namespace
}  // namespace hetsynth::synth
