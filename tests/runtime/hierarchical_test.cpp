// Hierarchical collectives of cpu ranks, in shared memory and by messages: over any numbers of devices on any hosts
// they do what the flat ones do, with the same bits on every rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>

#include "tests/runtime/rank_harness.h"

namespace hetsynth {
namespace {

using ::testing::HasSubstr;
using testing::mesh_of;
using testing::ProcessHarness;
using testing::RankHarness;

class Hierarchical : public ::testing::TestWithParam<testing::Transport> {};

constexpr int sum = 0, max = 1, average = 2, min = 3, product = 4;
constexpr int f32 = 0, i32 = 1, bf16 = 2;

struct Case {
  uint64_t seed = *rc::gen::arbitrary<uint64_t>();
  std::vector<int64_t> devices =  // of each host
      *rc::gen::nonEmpty(rc::gen::resize(4, rc::gen::container<std::vector<int64_t>>(rc::gen::inRange<int64_t>(1, 5))));
  // Some cases are large enough to be reduced in shares.
  int64_t scale = *rc::gen::element<int64_t>(1, 1, 40);
  int64_t outer = *rc::gen::inRange<int64_t>(0, 4);
  int64_t extent = *rc::gen::inRange<int64_t>(0, 12) * scale;
  int64_t inner = *rc::gen::inRange<int64_t>(1, 5) * scale;
  std::mt19937_64 random{seed};
  std::vector<int64_t> hosts;  // by member
  std::vector<int64_t> bounds{0, extent};

  Case() {
    for (size_t h = 0; h < devices.size(); ++h) hosts.insert(hosts.end(), size_t(devices[h]), int64_t(h));
    for (size_t j = 1; j < hosts.size(); ++j) bounds.push_back(int64_t(random() % uint64_t(extent + 1)));
    std::ranges::sort(bounds);
  }
  int members() const { return int(hosts.size()); }
  int64_t count() const { return outer * extent * inner; }
  int64_t share(size_t member) const { return outer * (bounds[member + 1] - bounds[member]) * inner; }
  std::vector<float> values() {
    std::vector<float> out(static_cast<size_t>(count()));
    std::uniform_real_distribution<float> draw(-1, 1);
    for (float& value : out) value = draw(random);
    return out;
  }
  std::vector<float> part(const std::vector<float>& whole, size_t member) const {
    std::vector<float> out;
    for (int64_t o = 0; o < outer; ++o) {
      const auto row = whole.begin() + o * extent * inner;
      out.insert(out.end(), row + bounds[member] * inner, row + bounds[member + 1] * inner);
    }
    return out;
  }
};

float combined(float a, float b, int reduce) {
  return reduce == max ? std::max(a, b) : reduce == min ? std::min(a, b) : reduce == product ? a * b : a + b;
}

float as_it_is(float value) { return value; }

/// Within each host in the order of its members, then over the hosts, of `rounded` values of each.
float by_host(const std::vector<std::vector<float>>& sources, const std::vector<int64_t>& hosts, size_t at, int reduce,
              float (*rounded)(float) = as_it_is) {
  std::vector<float> parts;
  for (size_t j = 0; j < sources.size(); ++j) {
    if (j > 0 && hosts[j] == hosts[j - 1])
      parts.back() = combined(parts.back(), sources[j][at], reduce);
    else
      parts.push_back(sources[j][at]);
  }
  float out = rounded(parts[0]);
  for (size_t h = 1; h < parts.size(); ++h) out = combined(out, rounded(parts[h]), reduce);
  return out;
}

TEST_P(Hierarchical, AllReduceGivesAllTheSameBitsNearTheExactSum) {
  EXPECT_TRUE(rc::check([] {
    Case c;
    const int reduce = *rc::gen::element(sum, max, min, product);
    std::vector<std::vector<float>> sources;
    for (int j = 0; j < c.members(); ++j) sources.push_back(c.values());
    std::vector<std::vector<float>> results(sources.size(), std::vector<float>(size_t(c.count()), -7));
    RankHarness ranks(mesh_of({c.members()}), GetParam());
    ranks.run([&](int rank, HetsynthContext* context) {
      const auto r = size_t(rank);
      ASSERT_EQ(hetsynth_hierarchical_all_reduce(context, 1, 0, sources[r].data(), results[r].data(), c.count(), reduce,
                                                 f32, c.hosts.data()),
                0);
    });
    for (size_t at = 0; at < size_t(c.count()); ++at) {
      const float expected = by_host(sources, c.hosts, at, reduce);
      for (const auto& result : results) RC_ASSERT(result[at] == expected);
      if (reduce != sum) continue;
      double exact = 0;
      for (const auto& source : sources) exact += double(source[at]);
      // Each of n - 1 additions rounds a value below n by at most half a unit: n^2 2^-24.
      RC_ASSERT(std::abs(double(expected) - exact) <= double(c.members()) * c.members() * 0x1p-24);
    }
  }));
}

TEST_P(Hierarchical, AllGatherJoinsUnevenAndEmptyShares) {
  EXPECT_TRUE(rc::check([] {
    Case c;
    const auto whole = c.values();
    std::vector<std::vector<float>> results(size_t(c.members()), std::vector<float>(whole.size(), -7));
    RankHarness ranks(mesh_of({c.members()}), GetParam());
    ranks.run([&](int rank, HetsynthContext* context) {
      const auto part = c.part(whole, size_t(rank));
      ASSERT_EQ(hetsynth_hierarchical_all_gather(context, 3, 0, part.data(), results[size_t(rank)].data(), c.outer,
                                                 c.inner, c.bounds.data(), f32, c.hosts.data()),
                0);
    });
    for (const auto& result : results) RC_ASSERT(result == whole);
  }));
}

TEST_P(Hierarchical, ReduceScatterGivesEachItsShareOfTheAllReduce) {
  EXPECT_TRUE(rc::check([] {
    Case c;
    const int reduce = *rc::gen::element(sum, max, min, product);
    std::vector<std::vector<float>> sources, results;
    for (size_t j = 0; j < size_t(c.members()); ++j) {
      sources.push_back(c.values());
      results.emplace_back(size_t(c.share(j)), -7.0f);
    }
    RankHarness ranks(mesh_of({c.members()}), GetParam());
    ranks.run([&](int rank, HetsynthContext* context) {
      const auto r = size_t(rank);
      ASSERT_EQ(hetsynth_hierarchical_reduce_scatter(context, 2, 0, sources[r].data(), results[r].data(), c.outer,
                                                     c.inner, c.bounds.data(), reduce, f32, c.hosts.data()),
                0);
    });
    std::vector<float> whole;
    for (size_t at = 0; at < size_t(c.count()); ++at) whole.push_back(by_host(sources, c.hosts, at, reduce));
    for (size_t j = 0; j < results.size(); ++j) RC_ASSERT(results[j] == c.part(whole, j));
  }));
}

float rounded(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return std::bit_cast<float>((bits + 0x7fff + (bits >> 16 & 1)) >> 16 << 16);
}

/// What goes from host to host is of the type: sums of a host are rounded to it.
TEST_P(Hierarchical, Bf16RoundsTheSumOfEachHost) {
  EXPECT_TRUE(rc::check([] {
    Case c;
    std::vector<std::vector<uint16_t>> sources, results;
    std::vector<std::vector<float>> exact;
    for (size_t j = 0; j < size_t(c.members()); ++j) {
      exact.push_back(c.values());
      sources.emplace_back();
      for (float& value : exact.back()) {
        value = rounded(value);
        sources.back().push_back(uint16_t(std::bit_cast<uint32_t>(value) >> 16));
      }
      results.emplace_back(sources.back().size(), uint16_t{7});
    }
    RankHarness ranks(mesh_of({c.members()}), GetParam());
    ranks.run([&](int rank, HetsynthContext* context) {
      const auto r = size_t(rank);
      ASSERT_EQ(hetsynth_hierarchical_all_reduce(context, 1, 0, sources[r].data(), results[r].data(), c.count(), sum,
                                                 bf16, c.hosts.data()),
                0);
    });
    for (size_t at = 0; at < size_t(c.count()); ++at) {
      const float expected = by_host(exact, c.hosts, at, sum, rounded);
      for (const auto& result : results)
        RC_ASSERT(result[at] == uint16_t(std::bit_cast<uint32_t>(rounded(expected)) >> 16));
    }
  }));
}

/// Groups along one axis of two; the other axis is untouched.
TEST_P(Hierarchical, GroupsOfAnAxisHaveHostsOfTheirOwn) {
  RankHarness ranks(mesh_of({4, 2}), GetParam());
  const std::vector<int64_t> hosts{0, 0, 1, 1};
  std::vector<int> results(8, 0);
  ranks.run([&](int rank, HetsynthContext* context) {
    const int own = 1 << rank;
    ASSERT_EQ(hetsynth_hierarchical_all_reduce(context, 1, 0, &own, &results[size_t(rank)], 1, sum, i32, hosts.data()),
              0);
  });
  for (int rank = 0; rank < 8; ++rank) EXPECT_EQ(results[size_t(rank)], rank % 2 ? 0xAA : 0x55);
}

/// Flat, each of 3 ranks sends to each of 3 on the other host, twice over.
TEST(HierarchicalMessages, OnlyLeadersSendToOtherHosts) {
  ProcessHarness ranks(mesh_of({6}));
  const std::vector<int64_t> hosts{0, 0, 0, 1, 1, 1};
  std::vector<float> source(6000, 1);
  ranks.each([&](int rank) {
    std::vector<float> result(source.size());
    CollectiveCall call;
    call.count = int64_t(source.size());
    call.hosts = hosts;
    call.source = source.data();
    call.destination = result.data();
    EXPECT_TRUE(ranks.communicator(rank).run(call));
    EXPECT_EQ(result, std::vector<float>(6000, 6));
  });
  for (int from = 0; from < 6; ++from)
    for (int to = 0; to < 6; ++to) {
      if (hosts[size_t(from)] == hosts[size_t(to)]) continue;
      EXPECT_EQ(ranks.network().sent(from, to, first_free_tag), from % 3 == 0 && to % 3 == 0 ? 2 : 0)
          << from << " to " << to;
    }
}

TEST_P(Hierarchical, HostsThatCannotBeMeantAreRefused) {
  struct Wrong {
    std::vector<int64_t> hosts;
    int reduce;
    const char* message;
  };
  for (const Wrong& wrong : {Wrong{{0, 1, 0}, sum, "the hosts are not numbered in coordinate order"},
                             Wrong{{1, 1, 2}, sum, "the hosts are not numbered in coordinate order"},
                             Wrong{{0, 0, 2}, sum, "the hosts are not numbered in coordinate order"},
                             Wrong{{0, 0, 1}, average, "averages of hosts do not give that of all"}}) {
    RankHarness ranks(mesh_of({3}), GetParam());
    std::string told;
    try {
      ranks.run([&](int, HetsynthContext* context) {
        float value = 1, result = 0;
        EXPECT_NE(
            hetsynth_hierarchical_all_reduce(context, 5, 0, &value, &result, 1, wrong.reduce, f32, wrong.hosts.data()),
            0);
      });
    } catch (const std::exception& error) {
      told = error.what();
    }
    if (GetParam() == testing::Transport::shared_memory) {
      EXPECT_THAT(told, HasSubstr(wrong.message));
    }
  }
}

/// A rank of another idea of the hosts would add up in another order.
TEST(HierarchicalShared, RanksThatNameDifferentHostsAreTold) {
  RankHarness ranks(mesh_of({3}));
  const std::vector<int64_t> one{0, 0, 1}, other{0, 1, 1};
  try {
    ranks.run([&](int rank, HetsynthContext* context) {
      float value = 1, result = 0;
      EXPECT_NE(hetsynth_hierarchical_all_reduce(context, 5, 0, &value, &result, 1, sum, f32,
                                                 rank == 2 ? other.data() : one.data()),
                0);
    });
    FAIL() << "they agreed";
  } catch (const std::exception& error) {
    EXPECT_THAT(error.what(), HasSubstr("by hosts {0,0,1}"));
    EXPECT_THAT(error.what(), HasSubstr("by hosts {0,1,1}"));
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, Hierarchical,
                         ::testing::Values(testing::Transport::shared_memory, testing::Transport::messages),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace hetsynth
