// Temporaries share storage, and never with those that live at the same time.
#include "codegen/passes/places.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>

namespace hetsynth::codegen {
namespace {

using ::testing::ElementsAre;

TEST(Places, AreSharedByThoseThatLiveOneAfterTheOther) {
  const Places places = place({{100, 0, 1}, {100, 2, 3}, {40, 1, 2}});
  EXPECT_THAT(places.offset_bytes, ElementsAre(0, 0, 100));
  EXPECT_EQ(places.bytes, 140);
}

TEST(Places, NothingTakesNothing) {
  EXPECT_EQ(place({}).bytes, 0);
  EXPECT_EQ(place({{0, 0, 5}}).bytes, 0);
}

TEST(Places, OfRandomLivesNeverOverlapAndAreNearWhatLivesAtOneTime) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](int n) { return int(random() % unsigned(n)); };
    std::vector<Lifetime> lives;
    std::vector<int64_t> alive(40, 0);
    for (int i = 0; i < 60; ++i) {
      const int first = below(30), last = first + below(9);
      lives.push_back({64 * (1 + below(50)), first, last});
      for (int at = first; at <= last; ++at) alive[size_t(at)] += lives.back().bytes;
    }
    const Places places = place(lives);
    for (size_t a = 0; a < lives.size(); ++a) {
      EXPECT_LE(places.offset_bytes[a] + lives[a].bytes, places.bytes) << "seed " << seed;
      for (size_t b = 0; b < a; ++b) {
        const bool together = lives[a].first <= lives[b].last && lives[b].first <= lives[a].last;
        const bool apart = places.offset_bytes[a] + lives[a].bytes <= places.offset_bytes[b] ||
                           places.offset_bytes[b] + lives[b].bytes <= places.offset_bytes[a];
        EXPECT_TRUE(!together || apart) << "seed " << seed << ": " << a << " and " << b;
      }
    }
    const int64_t least = *std::max_element(alive.begin(), alive.end());
    EXPECT_GE(places.bytes, least);
    EXPECT_LE(places.bytes, least * 5 / 4) << "seed " << seed;
  }
}

}  // namespace
}  // namespace hetsynth::codegen
