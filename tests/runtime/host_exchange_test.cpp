// Hierarchical all-to-alls and broadcasts of cpu ranks, in shared memory and by messages: over any numbers of devices
// on any hosts they do what the flat ones do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "tests/runtime/random_parts.h"
#include "tests/runtime/rank_harness.h"

namespace hetsynth {
namespace {

using testing::mesh_of;
using testing::MovedCut;
using testing::ProcessHarness;
using testing::RankHarness;

class ByHost : public ::testing::TestWithParam<testing::Transport> {};

/// So many devices on each host.
struct Hosts {
  std::vector<int64_t> devices =
      *rc::gen::nonEmpty(rc::gen::resize(4, rc::gen::container<std::vector<int64_t>>(rc::gen::inRange<int64_t>(1, 5))));
  std::vector<int64_t> of;  // by member
  Hosts() {
    for (size_t h = 0; h < devices.size(); ++h) of.insert(of.end(), size_t(devices[h]), int64_t(h));
  }
  int members() const { return int(of.size()); }
};

TEST_P(ByHost, AllToAllGivesEachItsShareOfUnevenAndEmptyParts) {
  EXPECT_TRUE(rc::check([] {
    const Hosts hosts;
    std::mt19937_64 random{*rc::gen::arbitrary<uint64_t>()};
    const auto extent = [](int64_t low, int64_t high) { return *rc::gen::inRange(low, high); };
    MovedCut moved(random, hosts.members(), {extent(0, 3), extent(0, 9), extent(1, 4), extent(0, 9), extent(1, 4)},
                   *rc::gen::arbitrary<bool>());
    RankHarness ranks(mesh_of({hosts.members()}), GetParam());
    ranks.run([&](int rank, HetsynthContext* context) {
      const auto r = size_t(rank);
      ASSERT_EQ(hetsynth_hierarchical_all_to_all(context, 1, 0, moved.sources[r].data(), moved.results[r].data(),
                                                 moved.extents.data(), moved.from_first, moved.before.data(),
                                                 moved.after.data(), 0, hosts.of.data()),
                0);
    });
    RC_ASSERT(moved.results == moved.expected);
  }));
}

/// Twice over in bf16, of which two elements have four bytes.
TEST_P(ByHost, AllToAllMovesTwoBytesAndMeetsAgain) {
  RankHarness ranks(mesh_of({5}), GetParam());
  const std::vector<int64_t> hosts{0, 0, 1, 2, 2}, rows{0, 1, 1, 2, 4, 5}, columns{0, 0, 3, 4, 6, 7};
  const int64_t extents[] = {1, 5, 1, 7, 1};
  std::vector<std::vector<uint16_t>> back(5);
  ranks.run([&](int rank, HetsynthContext* context) {
    const auto r = size_t(rank);
    std::vector<uint16_t> own, there(size_t(5 * (columns[r + 1] - columns[r])));
    for (int64_t at = rows[r] * 7; at < rows[r + 1] * 7; ++at) own.push_back(uint16_t(at));
    back[r].resize(own.size());
    for (int turn = 0; turn < 2; ++turn) {
      ASSERT_EQ(hetsynth_hierarchical_all_to_all(context, 1, 0, own.data(), there.data(), extents, 1, rows.data(),
                                                 columns.data(), 2, hosts.data()),
                0);
      ASSERT_EQ(hetsynth_hierarchical_all_to_all(context, 2, 0, there.data(), back[r].data(), extents, 0,
                                                 columns.data(), rows.data(), 2, hosts.data()),
                0);
      EXPECT_EQ(back[r], own);
    }
    for (size_t row = 0; row < 5; ++row)
      for (int64_t c = columns[r]; c < columns[r + 1]; ++c)
        EXPECT_EQ(there[row * size_t(columns[r + 1] - columns[r]) + size_t(c - columns[r])], row * 7 + size_t(c));
  });
}

TEST_P(ByHost, BroadcastTakesTheCopyOfAnyRoot) {
  for (const std::vector<int64_t>& hosts :
       {std::vector<int64_t>{0, 0, 0, 1, 1}, {0, 1, 1, 1, 2}, {0, 0, 0, 0, 0}, {0, 1, 2, 3, 4}}) {
    for (int root = 0; root < 5; ++root) {
      RankHarness ranks(mesh_of({5}), GetParam());
      std::vector<std::vector<int32_t>> results(5, std::vector<int32_t>(3));
      ranks.run([&](int rank, HetsynthContext* context) {
        const std::vector<int32_t> own{rank, 10 + rank, -rank};
        // Where only the root's stage holds anything, the others have no source.
        const void* const source = rank == root || rank % 2 ? own.data() : nullptr;
        ASSERT_EQ(hetsynth_hierarchical_broadcast(context, 1, 0, source, results[size_t(rank)].data(), 3, root, 1,
                                                  hosts.data()),
                  0);
      });
      for (const auto& result : results) EXPECT_EQ(result, (std::vector<int32_t>{root, 10 + root, -root}));
    }
  }
}

/// Flat, each of 3 ranks sends to each of 3 on the other host.
TEST(ByHostMessages, OneMessageGoesFromLeaderToLeader) {
  const std::vector<int64_t> hosts{0, 0, 0, 1, 1, 1}, bounds{0, 1, 2, 3, 4, 5, 6};
  for (const CollectiveKind kind : {CollectiveKind::all_to_all, CollectiveKind::broadcast}) {
    ProcessHarness ranks(mesh_of({6}));
    ranks.each([&](int rank) {
      const std::vector<float> own(6, float(rank));
      std::vector<float> result(6);
      CollectiveCall call;
      call.kind = kind;
      call.count = call.first = call.second = 6;
      call.root = 4;
      call.bounds = call.bounds_to = bounds;
      call.hosts = hosts;
      call.source = own.data();
      call.destination = result.data();
      EXPECT_TRUE(ranks.communicator(rank).run(call));
      for (size_t j = 0; j < 6; ++j) EXPECT_EQ(result[j], kind == CollectiveKind::broadcast ? 4.0f : float(j));
    });
    for (int from = 0; from < 6; ++from)
      for (int to = 0; to < 6; ++to) {
        if (hosts[size_t(from)] == hosts[size_t(to)]) continue;
        EXPECT_EQ(ranks.network().sent(from, to, first_free_tag), from % 3 == 0 && to % 3 == 0 ? 1 : 0)
            << name(kind) << ", " << from << " to " << to;
      }
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, ByHost,
                         ::testing::Values(testing::Transport::shared_memory, testing::Transport::messages),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace hetsynth
