// Halo exchanges against a plain model: every rank gets its part with what lies around it, whoever holds that.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <limits>
#include <map>

#include "dsl/base/error.h"
#include "runtime/collectives/collective_pieces.h"
#include "runtime/collectives/collectives_transfer.h"
#include "runtime/cuda/staged_communicator.h"
#include "tests/runtime/random_parts.h"
#include "tests/runtime/rank_harness.h"

namespace hetsynth {
namespace {

using testing::cut;
using ::testing::HasSubstr;
using testing::mesh_of;
using testing::ProcessHarness;
using testing::RankHarness;

class HaloExchange : public ::testing::TestWithParam<testing::Transport> {};

/// Shares may be empty or smaller than the halo, and the halo larger than the tensor.
struct Case {
  int members = *rc::gen::inRange(1, 7);
  uint64_t seed = *rc::gen::arbitrary<uint64_t>();
  int64_t outer = *rc::gen::inRange<int64_t>(0, 4), extent = *rc::gen::inRange<int64_t>(0, 14),
          inner = *rc::gen::inRange<int64_t>(0, 5);
  int64_t before = *rc::gen::inRange<int64_t>(0, extent + 2), after = *rc::gen::inRange<int64_t>(0, extent + 2);
  std::mt19937_64 random{seed};
  std::vector<int64_t> bounds = testing::random_bounds(random, members, extent);
  std::vector<float> whole = testing::random_values(random, outer* extent* inner);

  std::vector<float> source(int member) const {
    return cut(whole, outer, extent, inner, bounds[size_t(member)], bounds[size_t(member) + 1]);
  }
  std::vector<float> expected(int member) const {
    const int64_t lo = bounds[size_t(member)], hi = bounds[size_t(member) + 1];
    if (lo == hi) return {};
    return cut(whole, outer, extent, inner, std::max<int64_t>(0, lo - before), std::min(extent, hi + after));
  }
  CollectiveCall call() const {
    CollectiveCall out;
    out.kind = CollectiveKind::halo_exchange;
    out.outer = outer;
    out.inner = inner;
    out.bounds = bounds;
    out.before = before;
    out.after = after;
    return out;
  }
};

TEST_P(HaloExchange, GivesEveryRankWhatLiesAroundItsPart) {
  EXPECT_TRUE(rc::check([] {
    const Case c;
    std::vector<std::vector<float>> sources, expected, results;
    for (int j = 0; j < c.members; ++j) {
      sources.push_back(c.source(j));
      expected.push_back(c.expected(j));
      results.emplace_back(expected.back().size(), -7.0f);
    }
    RankHarness ranks(mesh_of({c.members}), GetParam());
    ranks.run([&](int rank, HetsynthContext* context) {
      const auto r = size_t(rank);
      ASSERT_EQ(hetsynth_halo_exchange(context, 1, 0, sources[r].data(), results[r].data(), c.outer, c.inner,
                                       c.bounds.data(), c.before, c.after, 0),
                0);
    });
    RC_ASSERT(results == expected);
    for (int rank = 0; rank < c.members; ++rank)
      RC_ASSERT(ranks.communicator(rank).times().moved_bytes == int64_t(4 * expected[size_t(rank)].size()));
  }));
}

TEST_P(HaloExchange, MovesBf16InTwoBytes) {
  const std::vector<int64_t> bounds{0, 1, 1, 4};
  const std::vector<std::vector<uint16_t>> sources{{10, 20}, {}, {11, 12, 13, 21, 22, 23}};
  std::vector<std::vector<uint16_t>> results{std::vector<uint16_t>(6, 7), {}, std::vector<uint16_t>(8, 7)};
  RankHarness ranks(mesh_of({3}), GetParam());
  ranks.run([&](int rank, HetsynthContext* context) {
    const auto r = size_t(rank);
    ASSERT_EQ(hetsynth_halo_exchange(context, 1, 0, sources[r].data(), results[r].data(), 2, 1, bounds.data(), 1, 2, 2),
              0);
  });
  const std::vector<std::vector<uint16_t>> expected{{10, 11, 12, 20, 21, 22}, {}, {10, 11, 12, 13, 20, 21, 22, 23}};
  EXPECT_EQ(results, expected);
}

/// Rows over one axis, then columns over the other, of what has a halo of rows already.
TEST_P(HaloExchange, GoesAlongOneAxisAfterTheOther) {
  const std::vector<int64_t> rows{0, 1, 4}, columns{0, 2, 5, 6};
  std::vector<float> whole(4 * 6);
  for (size_t i = 0; i < whole.size(); ++i) whole[i] = float(i);
  std::vector<std::vector<float>> expected(6), results(6);
  RankHarness ranks(mesh_of({2, 3}), GetParam());
  ranks.run([&](int rank, HetsynthContext* context) {
    const auto row = size_t(rank / 3), column = size_t(rank % 3);
    const int64_t lo = std::max<int64_t>(0, rows[row] - 1), hi = std::min<int64_t>(4, rows[row + 1] + 1);
    const int64_t left = std::max<int64_t>(0, columns[column] - 1),
                  right = std::min<int64_t>(6, columns[column + 1] + 2);
    const std::vector<float> by_rows = cut(whole, 1, 4, 6, rows[row], rows[row + 1]);
    const std::vector<float> source =
        cut(by_rows, rows[row + 1] - rows[row], 6, 1, columns[column], columns[column + 1]);
    std::vector<float> with_rows(size_t((hi - lo) * (columns[column + 1] - columns[column])));
    results[size_t(rank)].resize(size_t((hi - lo) * (right - left)));
    expected[size_t(rank)] = cut(cut(whole, 1, 4, 6, lo, hi), hi - lo, 6, 1, left, right);
    ASSERT_EQ(hetsynth_halo_exchange(context, 1, 0, source.data(), with_rows.data(), 1,
                                     columns[column + 1] - columns[column], rows.data(), 1, 1, 0),
              0);
    ASSERT_EQ(hetsynth_halo_exchange(context, 2, 1, with_rows.data(), results[size_t(rank)].data(), hi - lo, 1,
                                     columns.data(), 1, 2, 0),
              0);
  });
  EXPECT_EQ(results, expected);
}

/// Piece by piece between members, each of which lies within what its side holds; together they are the whole of what
/// the receiver gets, once.
TEST(HaloPieces, AreWhatAMessageCarries) {
  EXPECT_TRUE(rc::check([] {
    const Case c;
    const CollectiveCall call = c.call();
    for (int to = 0; to < c.members; ++to) {
      const std::vector<float> expected = c.expected(to);
      std::vector<float> result(expected.size(), -7);
      int64_t received = 0;
      for (int from = 0; from < c.members; ++from) {
        const std::vector<float> source = c.source(from);
        const Piece sent = piece_sent(call, from, to, c.members), put = piece_received(call, from, to);
        RC_ASSERT(sent.elements() == put.elements());
        received += put.elements();
        if (sent.elements() == 0) continue;
        RC_ASSERT(sent.offset >= 0);
        RC_ASSERT(sent.offset + (sent.runs - 1) * sent.stride + sent.run <= int64_t(source.size()));
        RC_ASSERT(put.offset >= 0);
        RC_ASSERT(put.offset + (put.runs - 1) * put.stride + put.run <= int64_t(result.size()));
        std::vector<std::byte> packed(size_t(sent.elements() * 4));
        RC_ASSERT(copy_out(source.data(), sent, 4, packed.data()) == int64_t(packed.size()));
        RC_ASSERT(copy_in(packed.data(), put, 4, result.data()) == int64_t(packed.size()));
      }
      RC_ASSERT(result == expected);
      RC_ASSERT(received == int64_t(expected.size()));
    }
  }));
}

/// What a GPU copies to the host and back in a group that holds cpu devices.
TEST(HaloBytes, OfAGpuAreThoseOfItsPartWithoutAndWithTheHalo) {
  EXPECT_TRUE(rc::check([] {
    const Case c;
    CollectiveCall call = c.call();
    for (const ElementType type : {ElementType::f32, ElementType::bf16}) {
      call.type = type;
      for (int member = 0; member < c.members; ++member) {
        const cuda::CollectiveBytes bytes = cuda::bytes_of(call, member);
        RC_ASSERT(bytes.source == c.source(member).size() * size_t(bytes_per_element(type)));
        RC_ASSERT(bytes.destination == c.expected(member).size() * size_t(bytes_per_element(type)));
      }
    }
  }));
}

TEST(HaloExchangeCalls, SayWhatTheyAre) {
  const std::vector<int64_t> bounds{0, 2, 2, 9};
  CollectiveCall call;
  call.kind = CollectiveKind::halo_exchange;
  call.id = 12;
  call.outer = 3;
  call.inner = 5;
  call.bounds = bounds;
  call.before = 3;
  call.after = 2;
  EXPECT_EQ(text(call), "halo_exchange of instruction 12, axis 0, f32[3,{0,2,2,9},5], with 3 before and 2 after");
  for (int64_t CollectiveCall::*field : {&CollectiveCall::before, &CollectiveCall::after}) {
    CollectiveCall other = call;
    EXPECT_TRUE(same_call(call, other));
    other.*field += 1;
    EXPECT_FALSE(same_call(call, other));
  }
}

std::string told_of(const CollectiveCall& call, int members) {
  try {
    check_call(call, members);
    return "accepted";
  } catch (const UserError& error) {
    return error.what();
  }
}

TEST(HaloExchangeCalls, ThatCannotBeAreRefused) {
  const std::vector<int64_t> fits{0, 2, 4}, falls{0, 3, 2}, later{1, 2, 4}, hosts{0, 1};
  CollectiveCall call;
  call.kind = CollectiveKind::halo_exchange;
  call.bounds = fits;
  call.before = 1;
  EXPECT_EQ(told_of(call, 2), "accepted");
  EXPECT_THAT(told_of(call, 3), HasSubstr("the boundary table does not fit the group"));
  for (const auto& bounds : {falls, later}) {
    call.bounds = bounds;
    EXPECT_THAT(told_of(call, 2), HasSubstr("the boundary table does not cut the dimension"));
  }
  call.bounds = fits;
  for (int64_t CollectiveCall::*field : {&CollectiveCall::before, &CollectiveCall::after, &CollectiveCall::outer}) {
    CollectiveCall wrong = call;
    wrong.*field = -1;
    EXPECT_THAT(told_of(wrong, 2), HasSubstr("negative size"));
  }
  call.hosts = hosts;
  EXPECT_THAT(told_of(call, 2), HasSubstr("it has no hierarchical form"));
}

/// Any number is no more than the tensor has.
TEST(HaloExchangeCalls, OfVeryManyElementsEndWhereTheTensorDoes) {
  const std::vector<int64_t> bounds{0, 2, 4};
  CollectiveCall call;
  call.kind = CollectiveKind::halo_exchange;
  call.bounds = bounds;
  call.before = call.after = std::numeric_limits<int64_t>::max();
  for (int member : {0, 1}) EXPECT_EQ(held_with_halo(call, member), (Range{0, 4}));
}

/// On all ranks alike, or one of them is told of the other.
TEST(HaloExchangeCalls, ThatDifferAreTold) {
  const std::vector<int64_t> bounds{0, 2, 4};
  const auto call = [&](HetsynthContext* context, int rank) {
    const float source[4] = {};
    float destination[4] = {};
    return hetsynth_halo_exchange(context, 9, 0, source, destination, 1, 1, bounds.data(), 1 + rank, 0, 0);
  };
  const auto words = [](const std::string& before) {
    return HasSubstr("halo_exchange of instruction 9, axis 0, f32[1,{0,2,4},1], with " + before +
                     " before and 0 after");
  };
  RankHarness ranks(mesh_of({2}));
  try {
    ranks.run([&](int rank, HetsynthContext* context) { EXPECT_NE(call(context, rank), 0); });
    FAIL() << "accepted";
  } catch (const std::exception& error) {
    EXPECT_THAT(error.what(), HasSubstr("ranks met in different collectives"));
    EXPECT_THAT(error.what(), words("1"));
    EXPECT_THAT(error.what(), words("2"));
  }
  ProcessHarness processes(mesh_of({2}));
  processes.each([&](int rank) {
    HetsynthContext context{};
    context.communicator = &processes.communicator(rank);
    EXPECT_FALSE(call(&context, rank) == 0 && call(&context, rank) == 0);
  });
  std::string told;
  for (int rank : {0, 1})
    if (processes.state(rank).failure()) told += processes.state(rank).failure()->message;
  EXPECT_THAT(told, HasSubstr("ranks met in different collectives"));
  EXPECT_THAT(told, words("1"));
  EXPECT_THAT(told, words("2"));
}

INSTANTIATE_TEST_SUITE_P(Transports, HaloExchange,
                         ::testing::Values(testing::Transport::shared_memory, testing::Transport::messages),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace hetsynth
