// Runs of several processes, which are threads here: they train like one process, and one that fails or falls silent
// ends all of them by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>

#include "dsl/base/error.h"
#include "runtime/launch.h"
#include "runtime/processes/agreement.h"
#include "runtime/processes/placement.h"
#include "runtime/training/train.h"
#include "synth/planner/synthesize.h"
#include "tests/runtime/models.h"
#include "tests/runtime/plans.h"
#include "tests/runtime/process_runs.h"
#include "tests/runtime/rank_harness.h"
#include "tests/runtime/temporary_folder.h"
#include "tests/support/by_host.h"
#include "tests/support/detours.h"

namespace hetsynth {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace testing;  // NOLINT: fixtures of this folder
using testing_support::DoubleProcesses;

using Clock = std::chrono::steady_clock;

TEST(Job, ExchangesWordsOfAnyLengthInOrder) {
  DoubleProcesses network({"a", "b", "b"});
  const auto thrown = in_processes(network, 3, {}, [](Job& job) {
    EXPECT_EQ(job.host(2), "b");
    EXPECT_EQ(job.describe(1), "process 1 on b");
    for (int round = 0; round < 20; ++round) {
      const auto own = [&](int process) { return std::string(size_t(process * 1000 * round), char('a' + process)); };
      const std::vector<std::string> all = job.exchange(own(job.process()));
      for (int p = 0; p < 3; ++p) EXPECT_EQ(all[size_t(p)], own(p));
    }
  });
  EXPECT_THAT(thrown, ::testing::Each(""));
  EXPECT_EQ(network.undelivered(), 0);
}

TEST(Job, WhatProcessesWereGivenIsComparedBeforeTheyBegin) {
  const std::vector<GivenValue> given{{"seed", "4"}, {"data", "1f", "a.txt"}, {"checkpoint", ""}};
  const auto thrown_with = [&](int process, size_t value, const GivenValue& other) {
    DoubleProcesses network({"a", "b", "c"});
    return in_processes(network, 3, {}, [&](Job& job) {
      std::vector<GivenValue> own = given;
      if (job.process() == process) own[value] = other;
      agree(job, own);
    });
  };
  EXPECT_THAT(thrown_with(1, 1, {"data", "1f", "elsewhere/a.txt"}), ::testing::Each(""));
  EXPECT_THAT(thrown_with(2, 0, {"seed", "5"}),
              ::testing::Each(AllOf(HasSubstr("were not given the same seed"), HasSubstr("process 0 on a: 4"),
                                    HasSubstr("process 2 on c: 5"))));
  EXPECT_THAT(thrown_with(0, 1, {"data", "2e", "b.txt"}),
              ::testing::Each(AllOf(HasSubstr("process 0 on a: b.txt (2e)"), HasSubstr("process 1 on b: a.txt (1f)"))));
  EXPECT_THAT(thrown_with(1, 2, {"checkpoint", "step 3"}),
              ::testing::Each(AllOf(HasSubstr("process 0 on a: none"), HasSubstr("process 1 on b: step 3"))));
}

TEST(Job, WhoFailsIsHeardByAllWhateverTheyWaitFor) {
  DoubleProcesses network({"a", "b", "c"});
  const auto thrown = in_processes(network, 3, {}, [](Job& job) {
    if (job.process() == 1) throw std::runtime_error("out of paper");
    job.exchange("waits");
  });
  EXPECT_EQ(thrown[1], "out of paper");
  EXPECT_THAT(thrown[0], AllOf(HasSubstr("process 1 on b failed"), HasSubstr("out of paper")));
  EXPECT_THAT(thrown[2], AllOf(HasSubstr("process 1 on b failed"), HasSubstr("out of paper")));
}

TEST(Job, AProcessThatFallsSilentIsNamedInAll) {
  for (const int dead : {0, 1, 2}) {
    DoubleProcesses network({"a", "b", "c"});
    const auto start = Clock::now();
    const auto thrown = in_processes(network, 3, {.patience = std::chrono::milliseconds(300)}, [&](Job& job) {
      job.exchange("all there");
      if (job.process() == dead) network.silence(dead);
      job.exchange("one is gone");
    });
    EXPECT_LT(Clock::now() - start, std::chrono::seconds(10));
    for (int p = 0; p < 3; ++p) {
      if (p == dead) continue;
      const std::string name = "process " + std::to_string(dead);
      EXPECT_THAT(thrown[size_t(p)], AllOf(HasSubstr(name), HasSubstr("nothing was heard of it for 0.3 s"))) << p;
    }
  }
}

TEST(Job, AProcessThatNeverComesIsNamedInAll) {
  DoubleProcesses network({"a", "b", "c"});
  const auto thrown = in_processes(network, 2, {.patience = std::chrono::milliseconds(300)},
                                   [](Job&) { FAIL() << "the job began without the third process"; });
  for (const std::string& words : thrown)
    EXPECT_THAT(words, AllOf(HasSubstr("process 2"), HasSubstr("nothing was heard of it for 0.3 s")));
}

TEST(Job, RanksThatCallDifferentCollectivesAreTold) {
  ProcessHarness ranks(mesh_of({2}));
  ranks.each([&](int rank) {
    float source[6] = {}, destination[6] = {};
    CollectiveCall call;
    call.id = 4;
    call.count = rank == 0 ? 3 : 6;
    call.source = source;
    call.destination = destination;
    EXPECT_FALSE(ranks.communicator(rank).run(call) && ranks.communicator(rank).run(call));
  });
  std::string told;
  for (int rank : {0, 1})
    if (ranks.state(rank).failure()) told += ranks.state(rank).failure()->message;
  EXPECT_THAT(told, AllOf(HasSubstr("ranks met in different collectives"), HasSubstr("all_reduce of instruction 4"),
                          HasSubstr("3 f32"), HasSubstr("6 f32")));
}

Cluster two_hosts(const std::vector<double>& speeds) {
  Cluster cluster = cpu_cluster(speeds);
  cluster.hosts.resize(2, cluster.hosts.front());
  cluster.between = cluster.hosts.front().inside;
  for (size_t i = speeds.size() / 2; i < speeds.size(); ++i) cluster.devices[i].host = 1;
  return cluster;
}

TEST(Placement, AProcessForEachDeviceOrForEachHost) {
  const Cluster cluster = two_hosts({1, 2, 3, 4});
  EXPECT_EQ(place_ranks(cluster, 4), (ProcessOfRank{0, 1, 2, 3}));
  EXPECT_EQ(place_ranks(cluster, 2), (ProcessOfRank{0, 0, 1, 1}));
  try {
    place_ranks(cluster, 3);
    FAIL() << "three processes were placed";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("the plan runs on 4 devices of 2 hosts"),
                                    HasSubstr("2 (one for each host) or 4 (one for each device) processes"),
                                    HasSubstr("the launcher has started 3 processes")));
  }
}

Outcome train_some(const Program& program, const Plan& plan, const Cluster& cluster, Job* job, int processes,
                   const std::function<void(const StepReport&)>& on_step = {}, const std::string& data = text_file()) {
  TrainOptions training;
  training.steps = 8;
  training.on_step = on_step;
  return trained(program, plan.program, cluster, {data, 3}, training, job, processes);
}

TEST(Processes, TrainToTheBitAsOneProcessDoes) {
  const Program program = small_gpt();
  const Cluster cluster = two_hosts({1, 2, 3, 4});
  for (const Plan& plan : {data_parallel_plan(program, cluster, RatioRule::proportional),
                           random_plan(program, cluster, {0.1, 0.4, 0.2, 0.3}, 7)}) {
    const Outcome alone = train_some(program, plan, cluster, nullptr, 1);
    for (const int count : {2, 4}) {
      DoubleProcesses network(std::vector<std::string>(size_t(count), "here"));
      std::vector<Outcome> outcomes(static_cast<size_t>(count));
      const auto thrown = in_processes(network, count, {}, [&](Job& job) {
        outcomes[size_t(job.process())] = train_some(program, plan, cluster, &job, count);
      });
      EXPECT_THAT(thrown, ::testing::Each(""));
      for (const Outcome& outcome : outcomes) expect_equal(outcome, alone);
      EXPECT_EQ(network.undelivered(), 0);
    }
  }
}

TEST(Processes, TrainToTheBitOnInputsWithNamesOfTheModelsOwn) {
  const Program program = small_tagger();
  const Cluster cluster = cpu_cluster({1, 3, 2});
  for (const Plan& plan : {data_parallel_plan(program, cluster, RatioRule::proportional),
                           random_plan(program, cluster, {0.2, 0.5, 0.3}, 4)}) {
    const Outcome alone = train_some(program, plan, cluster, nullptr, 1, {}, tagger_files());
    DoubleProcesses network({"here", "here", "here"});
    std::vector<Outcome> outcomes(3);
    const auto thrown = in_processes(network, 3, {}, [&](Job& job) {
      outcomes[size_t(job.process())] = train_some(program, plan, cluster, &job, 3, {}, tagger_files());
    });
    EXPECT_THAT(thrown, ::testing::Each(""));
    for (const Outcome& outcome : outcomes) expect_equal(outcome, alone);
  }
}

/// What goes through leaders arrives as what is sent directly.
TEST(Processes, TrainToTheBitAlikeHoweverValuesTravel) {
  const Program program = small_gpt();
  const Cluster cluster = two_hosts({1, 2, 3, 4});
  Plan plan = data_parallel_plan(program, cluster, RatioRule::proportional);
  plan.program = test::with_detours(program, plan.program);
  // Sums of hosts would be added in another order.
  for (Instruction& i : plan.program.instructions) i.realisation = Realisation::native;
  const Outcome flat = train_some(program, plan, cluster, nullptr, 1);
  const SpmdProgram levels = by_host(plan.program, {1, 2, 1});
  plan.program.hosts = levels.hosts;
  std::map<Opcode, int> met;
  for (size_t i = 0; i < levels.instructions.size(); ++i) {
    const Opcode opcode = levels.instructions[i].opcode;
    if (opcode != Opcode::all_to_all && opcode != Opcode::broadcast) continue;
    plan.program.instructions[i] = levels.instructions[i];
    ++met[opcode];
  }
  EXPECT_GT(met[Opcode::all_to_all], 4);
  EXPECT_GT(met[Opcode::broadcast], 0);
  expect_equal(train_some(program, plan, cluster, nullptr, 1), flat);
  DoubleProcesses network({"here", "there", "there", "here"});
  std::vector<Outcome> outcomes(4);
  const auto thrown = in_processes(
      network, 4, {}, [&](Job& job) { outcomes[size_t(job.process())] = train_some(program, plan, cluster, &job, 4); });
  EXPECT_THAT(thrown, ::testing::Each(""));
  for (const Outcome& outcome : outcomes) expect_equal(outcome, flat);
  EXPECT_EQ(network.undelivered(), 0);
}

TEST(Processes, ARankThatFailsEndsTheStepsOfAllOthers) {
  const Program program = small_gpt();
  const Cluster cluster = two_hosts({1, 2, 3, 4});
  const Plan plan = data_parallel_plan(program, cluster, RatioRule::even);
  DoubleProcesses network({"left", "right"});
  const auto start = Clock::now();
  const auto thrown = in_processes(network, 2, {}, [&](Job& job) {
    train_some(program, plan, cluster, &job, 2, [&](const StepReport& report) {
      if (job.process() == 1 && report.step == 3) throw std::runtime_error("the disk is full");
    });
  });
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(10));
  EXPECT_EQ(thrown[1], "the disk is full");
  EXPECT_THAT(thrown[0], AllOf(HasSubstr("process 1 on right failed"), HasSubstr("the disk is full")));
}

TEST(Processes, OneThatDiesInsideOfACollectiveIsNamed) {
  const Program program = small_gpt();
  const Cluster cluster = two_hosts({1, 2, 3, 4});
  const Plan plan = data_parallel_plan(program, cluster, RatioRule::even);
  DoubleProcesses network({"left", "right"});
  const auto thrown = in_processes(network, 2, {.patience = std::chrono::milliseconds(400)}, [&](Job& job) {
    train_some(program, plan, cluster, &job, 2, [&](const StepReport& report) {
      if (report.step == 2) network.silence(1);
    });
  });
  EXPECT_THAT(thrown[0], AllOf(HasSubstr("process 1 on right failed"), HasSubstr("nothing was heard of it")));
}

}  // namespace
}  // namespace hetsynth
