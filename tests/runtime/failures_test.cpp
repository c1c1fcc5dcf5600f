// A rank that fails, disagrees or never comes: the others leave, and the message names who and where.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "dsl/base/error.h"
#include "tests/runtime/rank_harness.h"

namespace hetsynth {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::mesh_of;
using testing::RankHarness;

std::string message_of(RankHarness& ranks, const std::function<void(int, HetsynthContext*)>& body) {
  try {
    ranks.run(body);
  } catch (const RunFailed& error) {
    return error.what();
  }
  return "no failure";
}

TEST(Failures, ExceptionOfOneRankReleasesTheOthers) {
  for (int failing = 0; failing < 4; ++failing) {
    RankHarness ranks(mesh_of({4}));
    std::atomic<int> released{0};
    const std::string message = message_of(ranks, [&](int rank, HetsynthContext* context) {
      float value = 1, sum = 0;
      if (rank == failing) throw std::runtime_error("out of luck");
      if (hetsynth_all_reduce(context, 7, 0, &value, &sum, 1, 0, 0) != 0) ++released;
    });
    EXPECT_EQ(message, "rank " + std::to_string(failing) + " (dev" + std::to_string(failing) + ") failed: out of luck");
    EXPECT_EQ(released, 3);
  }
}

TEST(Failures, FirstFailureIsTheOneShown) {
  RankHarness ranks(mesh_of({2}));
  const std::string message = message_of(ranks, [&](int rank, HetsynthContext* context) {
    float value = 1, sum = 0;
    if (rank == 1) throw std::runtime_error("the cause");
    if (hetsynth_all_reduce(context, 7, 0, &value, &sum, 1, 0, 0) != 0) throw std::runtime_error("a consequence");
  });
  EXPECT_THAT(message, AllOf(HasSubstr("rank 1 (dev1)"), HasSubstr("the cause")));
}

TEST(Failures, UserErrorOfARankKeepsItsKindAndNamesTheRank) {
  RankHarness ranks(mesh_of({2}));
  try {
    ranks.run([&](int rank, HetsynthContext* context) {
      float value = 1, sum = 0;
      if (rank == 1) throw UserError({{"data.txt", 0, 0}, "data", "cannot be read", "", "", ""});
      EXPECT_NE(hetsynth_all_reduce(context, 7, 0, &value, &sum, 1, 0, 0), 0);
    });
    FAIL() << "the run went on";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("data.txt: error: [data] cannot be read\nnote: rank 1 ("));
  }
}

TEST(Failures, DifferentInstructionsAreNamed) {
  RankHarness ranks(mesh_of({3}));
  const std::string message = message_of(ranks, [&](int rank, HetsynthContext* context) {
    float value = 1, sum = 0;
    EXPECT_NE(hetsynth_all_reduce(context, rank == 2 ? 12 : 11, 0, &value, &sum, 1, 0, 0), 0);
  });
  EXPECT_THAT(message, AllOf(HasSubstr("ranks met in different collectives"),
                             HasSubstr("rank 2 (dev2): all_reduce of instruction 12"),
                             HasSubstr("all_reduce of instruction 11")));
}

TEST(Failures, DifferentKindsCountsTypesReductionsAndTablesAreNamed) {
  const int64_t even[3] = {0, 2, 4}, uneven[3] = {0, 1, 4};
  float in[4] = {}, out[2][4] = {};
  const auto gather = [&](int rank, HetsynthContext* context, const int64_t* bounds) {
    return hetsynth_all_gather(context, 1, 0, in, out[rank], 1, 1, bounds, 0);
  };
  const auto reduce = [&](int rank, HetsynthContext* context, int64_t count, int reduction, int type) {
    return hetsynth_all_reduce(context, 1, 0, in, out[rank], count, reduction, type);
  };
  using Body = std::function<int(int, HetsynthContext*)>;
  const std::vector<std::pair<Body, std::vector<std::string>>> cases = {
      {[&](int r, HetsynthContext* c) { return r ? gather(r, c, even) : reduce(r, c, 4, 0, 0); },
       {"all_gather", "all_reduce"}},
      {[&](int r, HetsynthContext* c) { return reduce(r, c, r ? 4 : 3, 0, 0); }, {"3 f32", "4 f32"}},
      {[&](int r, HetsynthContext* c) { return reduce(r, c, 4, r ? 0 : 1, 0); }, {"sum", "max"}},
      {[&](int r, HetsynthContext* c) { return reduce(r, c, 4, 0, r); }, {"4 f32", "4 i32"}},
      {[&](int r, HetsynthContext* c) { return gather(r, c, r ? even : uneven); }, {"{0,1,4}", "{0,2,4}"}},
  };
  for (const auto& [body, parts] : cases) {
    RankHarness ranks(mesh_of({2}));
    const std::string message =
        message_of(ranks, [&](int rank, HetsynthContext* context) { EXPECT_NE(body(rank, context), 0); });
    EXPECT_THAT(message, AllOf(HasSubstr("rank 0 (dev0)"), HasSubstr("rank 1 (dev1)"), HasSubstr(parts[0]),
                               HasSubstr(parts[1])));
  }
}

TEST(Failures, SkippedCollectiveIsADeadlockThatIsFound) {
  RankHarness ranks(mesh_of({3}));
  const std::string message = message_of(ranks, [&](int rank, HetsynthContext* context) {
    float value = 1, sum = 0;
    if (rank != 1) {
      EXPECT_NE(hetsynth_all_reduce(context, 5, 0, &value, &sum, 1, 0, 0), 0);
    }
  });
  EXPECT_THAT(message, AllOf(HasSubstr("rank 1 (dev1): has left the step"),
                             HasSubstr("rank 0 (dev0): waits in all_reduce of instruction 5"),
                             HasSubstr("rank 2 (dev2): waits in all_reduce of instruction 5")));
}

TEST(Failures, CrossedAxesAreADeadlockThatIsFound) {
  RankHarness ranks(mesh_of({2, 2}));
  const std::string message = message_of(ranks, [&](int rank, HetsynthContext* context) {
    float value = 1, sum = 0;
    // Ranks 0 and 3 begin with axis 0, ranks 1 and 2 with axis 1: a circle of waits.
    EXPECT_NE(hetsynth_all_reduce(context, 5, rank == 0 || rank == 3 ? 0 : 1, &value, &sum, 1, 0, 0), 0);
  });
  EXPECT_THAT(message, HasSubstr("wait for each other"));
}

TEST(Failures, AFailedRunStaysFailed) {
  RankHarness ranks(mesh_of({2}));
  EXPECT_THROW(ranks.run([](int, HetsynthContext*) { throw std::runtime_error("once"); }), RunFailed);
  EXPECT_THROW(ranks.run([](int, HetsynthContext*) { FAIL() << "must not run"; }), RunFailed);
}

TEST(Failures, NonsenseCallsAreRefused) {
  const int64_t falling[3] = {0, 5, 4};
  float in[4] = {}, out[2][4] = {};
  RankHarness table(mesh_of({2}));
  EXPECT_THAT(message_of(table,
                         [&](int rank, HetsynthContext* context) {
                           EXPECT_NE(hetsynth_all_gather(context, 1, 0, in, out[rank], 1, 1, falling, 0), 0);
                         }),
              HasSubstr("boundary table does not cut"));
  RankHarness root(mesh_of({2}));
  EXPECT_THAT(message_of(root,
                         [&](int rank, HetsynthContext* context) {
                           EXPECT_NE(hetsynth_broadcast(context, 1, 0, in, out[rank], 1, 2, 0), 0);
                         }),
              HasSubstr("the root is not in the group"));
  RankHarness axis(mesh_of({2}));
  EXPECT_THAT(message_of(axis,
                         [&](int rank, HetsynthContext* context) {
                           EXPECT_NE(hetsynth_broadcast(context, 1, 4, in, out[rank], 1, 0, 0), 0);
                         }),
              HasSubstr("no such axis"));
}

}  // namespace
}  // namespace hetsynth
