// Collectives in shared memory and by messages between processes, against straightforward references on whole tensors.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "runtime/rank/half.h"
#include "tests/runtime/random_parts.h"
#include "tests/runtime/rank_harness.h"

namespace hetsynth {
namespace {

using testing::cut;
using testing::mesh_of;
using testing::MovedCut;
using testing::random_bounds;
using testing::random_values;
using testing::RankHarness;

float reduce_in_order(const std::vector<std::vector<float>>& sources, size_t at, int reduce) {
  float value = sources[0][at];
  for (size_t j = 1; j < sources.size(); ++j) {
    const float next = sources[j][at];
    switch (reduce) {
      case 0:
      case 2:
        value += next;
        break;
      case 1:
        value = std::max(value, next);
        break;
      case 3:
        value = std::min(value, next);
        break;
      case 4:
        value *= next;
        break;
    }
  }
  return reduce == 2 ? value / static_cast<float>(sources.size()) : value;
}

class Collectives : public ::testing::TestWithParam<testing::Transport> {};

struct Case {
  int members = *rc::gen::inRange(1, 6);
  uint64_t seed = *rc::gen::arbitrary<uint64_t>();
  // Half of the cases are large enough to be reduced in shares.
  int64_t scale = *rc::gen::element<int64_t>(1, 1, 40);
  int64_t outer = *rc::gen::inRange<int64_t>(0, 4);
  int64_t extent = *rc::gen::inRange<int64_t>(0, 12) * scale;
  int64_t inner = *rc::gen::inRange<int64_t>(1, 5) * scale;
  std::mt19937_64 random{seed};
};

TEST_P(Collectives, AllGatherJoinsUnevenAndEmptyShares) {
  EXPECT_TRUE(rc::check([] {
    Case c;
    const auto bounds = random_bounds(c.random, c.members, c.extent);
    const auto whole = random_values(c.random, c.outer * c.extent * c.inner);
    std::vector<std::vector<float>> results(static_cast<size_t>(c.members), std::vector<float>(whole.size(), -7));
    RankHarness ranks(mesh_of({c.members}), GetParam());
    ranks.run([&](int rank, HetsynthContext* context) {
      const auto r = static_cast<size_t>(rank);
      const auto part = cut(whole, c.outer, c.extent, c.inner, bounds[r], bounds[r + 1]);
      ASSERT_EQ(hetsynth_all_gather(context, 3, 0, part.data(), results[r].data(), c.outer, c.inner, bounds.data(), 0),
                0);
    });
    for (const auto& result : results) RC_ASSERT(result == whole);
  }));
}

TEST_P(Collectives, AllReduceIsExactlyTheReductionInRankOrder) {
  EXPECT_TRUE(rc::check([] {
    Case c;
    const int reduce = *rc::gen::inRange(0, 5);
    const int64_t count = c.outer * c.extent * c.inner;
    std::vector<std::vector<float>> sources;
    for (int j = 0; j < c.members; ++j) sources.push_back(random_values(c.random, count));
    std::vector<std::vector<float>> results(sources.size(), std::vector<float>(static_cast<size_t>(count), -7));
    RankHarness ranks(mesh_of({c.members}), GetParam());
    ranks.run([&](int rank, HetsynthContext* context) {
      const auto r = static_cast<size_t>(rank);
      ASSERT_EQ(hetsynth_all_reduce(context, 1, 0, sources[r].data(), results[r].data(), count, reduce, 0), 0);
    });
    std::vector<float> expected;
    for (size_t at = 0; at < static_cast<size_t>(count); ++at) expected.push_back(reduce_in_order(sources, at, reduce));
    for (const auto& result : results) RC_ASSERT(result == expected);  // the same bits on every rank
  }));
}

template <class Half>
std::vector<uint16_t> halves(const std::vector<float>& values) {
  std::vector<uint16_t> out;
  for (const float value : values) out.push_back(Half(value).bits);
  return out;
}
std::vector<uint16_t> halves(const std::vector<float>& values, DType type) {
  return type == DType::bf16 ? halves<Bf16>(values) : halves<Fp16>(values);
}

/// Sums of numbers of 16 bits are sums of float32 that are rounded once, whatever the number of ranks.
TEST_P(Collectives, NumbersOf16BitsAreReducedInFloat32AndMovedInTwoBytes) {
  EXPECT_TRUE(rc::check([] {
    Case c;
    const DType type = *rc::gen::element(DType::bf16, DType::fp16);
    const int number = static_cast<int>(type);  // numbered alike
    const int reduce = *rc::gen::inRange(0, 5);
    const auto bounds = random_bounds(c.random, c.members, c.extent);
    std::vector<std::vector<float>> exact;
    std::vector<std::vector<uint16_t>> sources, reduced, scattered, gathered;
    for (int j = 0; j < c.members; ++j) {
      exact.push_back(random_values(c.random, c.outer * c.extent * c.inner));
      for (float& value : exact.back()) value = static_cast<float>(rounded_to(type, value));
      sources.push_back(halves(exact.back(), type));
    }
    for (size_t j = 0; j < sources.size(); ++j) {
      reduced.emplace_back(sources[j].size(), uint16_t{7});
      gathered.emplace_back(sources[j].size(), uint16_t{7});
      scattered.emplace_back(static_cast<size_t>(c.outer * (bounds[j + 1] - bounds[j]) * c.inner), uint16_t{7});
    }
    RankHarness ranks(mesh_of({c.members}), GetParam());
    ranks.run([&](int rank, HetsynthContext* context) {
      const auto r = static_cast<size_t>(rank);
      const auto count = static_cast<int64_t>(sources[r].size());
      ASSERT_EQ(hetsynth_all_reduce(context, 1, 0, sources[r].data(), reduced[r].data(), count, reduce, number), 0);
      ASSERT_EQ(hetsynth_reduce_scatter(context, 2, 0, sources[r].data(), scattered[r].data(), c.outer, c.inner,
                                        bounds.data(), reduce, number),
                0);
      ASSERT_EQ(hetsynth_all_gather(context, 3, 0, scattered[r].data(), gathered[r].data(), c.outer, c.inner,
                                    bounds.data(), number),
                0);
    });
    std::vector<float> whole;
    for (size_t at = 0; at < exact[0].size(); ++at) whole.push_back(reduce_in_order(exact, at, reduce));
    const std::vector<uint16_t> expected = halves(whole, type);
    for (size_t j = 0; j < sources.size(); ++j) {
      RC_ASSERT(reduced[j] == expected);
      RC_ASSERT(gathered[j] == expected);
    }
  }));
}

TEST_P(Collectives, ReduceScatterGivesEveryRankItsPart) {
  EXPECT_TRUE(rc::check([] {
    Case c;
    const int reduce = *rc::gen::inRange(0, 5);
    const auto bounds = random_bounds(c.random, c.members, c.extent);
    std::vector<std::vector<float>> sources, results;
    for (int j = 0; j < c.members; ++j) sources.push_back(random_values(c.random, c.outer * c.extent * c.inner));
    for (size_t j = 0; j < sources.size(); ++j) {
      results.emplace_back(static_cast<size_t>(c.outer * (bounds[j + 1] - bounds[j]) * c.inner), -7.0f);
    }
    RankHarness ranks(mesh_of({c.members}), GetParam());
    ranks.run([&](int rank, HetsynthContext* context) {
      const auto r = static_cast<size_t>(rank);
      ASSERT_EQ(hetsynth_reduce_scatter(context, 1, 0, sources[r].data(), results[r].data(), c.outer, c.inner,
                                        bounds.data(), reduce, 0),
                0);
    });
    std::vector<float> whole;
    for (size_t at = 0; at < sources[0].size(); ++at) whole.push_back(reduce_in_order(sources, at, reduce));
    for (size_t j = 0; j < results.size(); ++j) {
      RC_ASSERT(results[j] == cut(whole, c.outer, c.extent, c.inner, bounds[j], bounds[j + 1]));
    }
  }));
}

TEST_P(Collectives, AllToAllMovesTheCutBetweenDimensions) {
  EXPECT_TRUE(rc::check([] {
    Case c;
    const auto extent = [](int64_t low, int64_t high) { return *rc::gen::inRange(low, high); };
    MovedCut moved(c.random, c.members, {extent(0, 3), extent(0, 9), extent(1, 4), extent(0, 9), extent(1, 4)},
                   *rc::gen::arbitrary<bool>());
    RankHarness ranks(mesh_of({c.members}), GetParam());
    ranks.run([&](int rank, HetsynthContext* context) {
      const auto r = static_cast<size_t>(rank);
      ASSERT_EQ(hetsynth_all_to_all(context, 1, 0, moved.sources[r].data(), moved.results[r].data(),
                                    moved.extents.data(), moved.from_first, moved.before.data(), moved.after.data(), 0),
                0);
    });
    RC_ASSERT(moved.results == moved.expected);
  }));
}

TEST_P(Collectives, BroadcastTakesTheRootsCopy) {
  for (int members = 1; members <= 5; ++members) {
    for (int root = 0; root < members; ++root) {
      RankHarness ranks(mesh_of({members}), GetParam());
      std::vector<std::vector<int32_t>> results(static_cast<size_t>(members), std::vector<int32_t>(3));
      ranks.run([&](int rank, HetsynthContext* context) {
        const std::vector<int32_t> own{rank, 10 + rank, -rank};
        ASSERT_EQ(hetsynth_broadcast(context, 1, 0, own.data(), results[static_cast<size_t>(rank)].data(), 3, root, 1),
                  0);
      });
      for (const auto& result : results) EXPECT_EQ(result, (std::vector<int32_t>{root, 10 + root, -root}));
    }
  }
}

/// A pipeline: every rank receives from the one before, adds its own, and sends on; the third skips its turn.
TEST_P(Collectives, SendsGoFromOneRankToAnother) {
  RankHarness ranks(mesh_of({4}), GetParam());
  std::vector<int32_t> results(4, -1);
  ranks.run([&](int rank, HetsynthContext* context) {
    for (int turn = 0; turn < 3; ++turn) {
      int32_t number = 100 * turn;
      const int before = rank == 3 ? 1 : rank - 1, next = rank == 1 ? 3 : rank + 1;
      if (rank == 2) continue;
      if (rank > 0) {
        ASSERT_EQ(hetsynth_receive(context, turn, 0, &number, 1, before, 1), 0);
      }
      number += rank;
      if (rank < 3) {
        ASSERT_EQ(hetsynth_send(context, turn, 0, &number, 1, next, 1), 0);
      }
      results[size_t(rank)] = number;
    }
  });
  EXPECT_EQ(results, (std::vector<int32_t>{200, 201, -1, 204}));
}

TEST(Sends, SendersAndReceiversThatDisagreeAreTold) {
  RankHarness ranks(mesh_of({2}));
  try {
    ranks.run([&](int rank, HetsynthContext* context) {
      float number = 1;
      if (rank == 0) {
        EXPECT_NE(hetsynth_send(context, 1, 0, &number, 1, 1, 0), 0);
      }
      if (rank == 1) {
        EXPECT_NE(hetsynth_receive(context, 2, 0, &number, 1, 0, 0), 0);
      }
    });
    FAIL() << "accepted";
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("ranks met in different collectives"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("send of instruction 1, axis 0, 1 f32, from 0 to 1"), std::string::npos)
        << error.what();
  }
}

TEST_P(Collectives, IntegersReduceAsIntegers) {
  RankHarness ranks(mesh_of({3}), GetParam());
  // Not representable in float32: an integer that passed through floating point would change.
  std::vector<int32_t> results(3);
  ranks.run([&](int rank, HetsynthContext* context) {
    const int32_t own = 16777217 + rank;
    ASSERT_EQ(hetsynth_all_reduce(context, 1, 0, &own, &results[static_cast<size_t>(rank)], 1, 0, 1), 0);
  });
  EXPECT_EQ(results, (std::vector<int32_t>(3, 3 * 16777217 + 3)));
}

TEST_P(Collectives, NotANumberSurvivesMaximum) {
  for (int bad = 0; bad < 2; ++bad) {
    RankHarness ranks(mesh_of({2}), GetParam());
    std::vector<float> results(2);
    ranks.run([&](int rank, HetsynthContext* context) {
      const float own = rank == bad ? NAN : 1.0f;
      ASSERT_EQ(hetsynth_all_reduce(context, 1, 0, &own, &results[static_cast<size_t>(rank)], 1, 1, 0), 0);
    });
    EXPECT_TRUE(std::isnan(results[0]) && std::isnan(results[1]));
  }
}

TEST_P(Collectives, TwoAxesReduceWithinTheirGroupsOnly) {
  RankHarness ranks(mesh_of({2, 3}), GetParam());
  std::vector<float> along_rows(6), along_columns(6);
  ranks.run([&](int rank, HetsynthContext* context) {
    const float own = std::exp2(static_cast<float>(rank));
    ASSERT_EQ(hetsynth_all_reduce(context, 1, 0, &own, &along_rows[static_cast<size_t>(rank)], 1, 0, 0), 0);
    ASSERT_EQ(hetsynth_all_reduce(context, 2, 1, &own, &along_columns[static_cast<size_t>(rank)], 1, 0, 0), 0);
  });
  // Rank = 3 * row + column; axis 0 joins ranks of one column, axis 1 ranks of one row.
  EXPECT_EQ(along_rows, (std::vector<float>{1 + 8, 2 + 16, 4 + 32, 1 + 8, 2 + 16, 4 + 32}));
  EXPECT_EQ(along_columns, (std::vector<float>{7, 7, 7, 56, 56, 56}));
}

TEST_P(Collectives, ManyInARowKeepTheirOrderWithMoreRanksThanCores) {
  RankHarness ranks(mesh_of({5}), GetParam());
  std::vector<float> results(5);
  ranks.run([&](int rank, HetsynthContext* context) {
    float value = static_cast<float>(rank), sum = 0;
    for (int id = 0; id < 500; ++id) {
      ASSERT_EQ(hetsynth_all_reduce(context, id, 0, &value, &sum, 1, 2, 0), 0);
      value = sum + static_cast<float>(rank);
    }
    results[static_cast<size_t>(rank)] = sum;
  });
  EXPECT_EQ(results, std::vector<float>(5, 2.0f * 500));
}

TEST(CollectiveTimes, CountWaitingAndBytes) {
  RankHarness ranks(mesh_of({2}));
  std::vector<float> source(10000, 1), results[2] = {std::vector<float>(10000), std::vector<float>(10000)};
  ranks.run([&](int rank, HetsynthContext* context) {
    if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ASSERT_EQ(hetsynth_all_reduce(context, 0, 0, source.data(), results[rank].data(), 10000, 0, 0), 0);
  });
  // Rank 0 waits for rank 1's sleep; sleeping counts as rank 1's own time. 40 ms leaves room for a late start of rank
  // 0.
  EXPECT_GT(ranks.communicator(0).times().idle_seconds, ranks.communicator(1).times().idle_seconds);
  EXPECT_GT(ranks.communicator(1).times().compute_seconds, 0.04);
  EXPECT_EQ(ranks.communicator(0).times().moved_bytes + ranks.communicator(1).times().moved_bytes, 2 * 10000 * 4);
}

INSTANTIATE_TEST_SUITE_P(Transports, Collectives,
                         ::testing::Values(testing::Transport::shared_memory, testing::Transport::messages),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace hetsynth
