// hetsynth elastic: what is lost is left out, and training goes on from the last checkpoint.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "tests/cli/command.h"

namespace hetsynth::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// Three hosts with links so fast that a plan for a small model uses all of them.
const char* const three_hosts = R"(name = "three"
between = { bandwidth = "5 GB/s", latency = "0.02 us" }
[[host]]
name = "a"
[[host.device]]
name = "d0"
kind = "cpu"
memory = "1 GiB"
declared = { matmul = "0.03 GFLOP/s", memory_bandwidth = "0.01 GB/s" }
[[host]]
name = "b"
[[host.device]]
name = "d1"
kind = "cpu"
memory = "1 GiB"
declared = { matmul = "0.02 GFLOP/s", memory_bandwidth = "0.01 GB/s" }
[[host]]
name = "c"
[[host.device]]
name = "d2"
kind = "cpu"
memory = "1 GiB"
declared = { matmul = "0.02 GFLOP/s", memory_bandwidth = "0.01 GB/s" }
)";

class Elastic : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::system("command -v mpirun > /dev/null") != 0) GTEST_SKIP() << "there is no mpirun here";
    ::setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    ::setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    ::setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 1);
    place.write(marked, small_model);
    place.write("three.toml", three_hosts);
    place.write("hosts", "localhost\nlocalhost # the same machine\nlocalhost\n");
  }
  /// Host x is lost as soon as there is a file x.lost; all are this machine, so that the address does not tell.
  std::string command(const std::string& more) const {
    return "elastic " + marked + " --cluster three.toml --hosts hosts --checkpoint c.st --checkpoint-every 500 " + more;
  }
  Outcome disturbed(const std::string& arguments, const std::string& shell) const {
    Outcome ran;
    std::thread job([&] { ran = place.run(arguments); });
    for (int tries = 0; tries < 1200 && !place.exists("c.st"); ++tries)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const std::string found = "$(pgrep -f '^[^ ]*hetsynth [r]un " + marked + "' | tail -1)";
    EXPECT_EQ(std::system(("cd '" + place.folder().string() + "' && " + everywhere(shell, "MARKED", found)).c_str()),
              0);
    job.join();
    return ran;
  }
  const std::string marked = "elastic" + std::to_string(::getpid()) + ".cpp";
  const Workplace place;
};

TEST_F(Elastic, ARunThatNothingHappensToIsARun) {
  const Outcome ran = place.run(command("--steps 1200 -- --sample 0 --log-json log"));
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("elastic: start 1 on a, b, c"), HasSubstr("1200 steps in")));
  EXPECT_THAT(place.run("checkpoint c.st").out, HasSubstr("next step  1200"));
  EXPECT_THAT(place.run(command("--steps 5")), Fails(2, HasSubstr("give --resume to go on from it")));
  const Outcome more = place.run(command("--steps 100 --resume"));
  EXPECT_EQ(more.code, 0) << more.err;
  EXPECT_THAT(place.run("checkpoint c.st").out, HasSubstr("next step  1300"));
}

// The process is ended behind the first checkpoint, of step 500; three processes on few cores take milliseconds a step.
TEST_F(Elastic, AKilledProcessIsStartedAgainAndNoStepIsLeftOut) {
  const Outcome ran = disturbed(command("--steps 4000 --alive true -- --sample 0 --log-json log"), "kill -9 MARKED");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out,
              AllOf(HasSubstr("all hosts answer; it goes on from step"), HasSubstr("elastic: start 2 on a, b, c")));
  EXPECT_THAT(place.run("checkpoint c.st").out, HasSubstr("next step  4000"));
}

TEST_F(Elastic, AHostThatDoesNotAnswerIsLeftOut) {
  place.write("alive.sh",
              "#!/bin/sh\n# The second one asked about is lost.\n"
              "n=$(cat asked 2>/dev/null || echo 0); n=$((n + 1)); echo $n > asked; [ $((n % 3)) -ne 2 ]\n");
  const Outcome ran =
      disturbed(command("--steps 4000 --alive 'sh ./alive.sh {}' -- --sample 0 --log-json log"), "kill -9 MARKED");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("it goes on"), HasSubstr("without b"), HasSubstr("elastic: start 2 on a, c")));
  EXPECT_THAT(place.run("checkpoint c.st").out, HasSubstr("next step  4000"));
}

TEST_F(Elastic, WhatCannotGoOnSaysSo) {
  EXPECT_THAT(place.run("elastic nowhere.cpp --cluster three.toml --checkpoint c.st"),
              Fails(3, HasSubstr("nowhere.cpp")));
  EXPECT_THAT(place.run("elastic " + marked + " --cluster three.toml --checkpoint nowhere/c.st"),
              Fails(1, HasSubstr("nowhere")));
  place.write("two", "x\ny\n");
  EXPECT_THAT(place.run("elastic " + marked + " --cluster three.toml --checkpoint c.st --hosts two"),
              Fails(3, AllOf(HasSubstr("two"), HasSubstr("3 lines"), HasSubstr("2 lines"))));
  EXPECT_THAT(place.run(command("--steps 5 --launcher no-such-launcher")),
              Fails(1, HasSubstr("no-such-launcher cannot be started")));
  const Outcome never = place.run(command("--steps 5 --alive false --launcher false"));
  EXPECT_THAT(never, Fails(1, HasSubstr("no host of the cluster answers")));
  const Outcome again = place.run(command("--steps 5 --alive true --restarts 2 --launcher false"));
  EXPECT_THAT(again, Fails(1, HasSubstr("failed again after 2 restarts")));
  EXPECT_THAT(place.run(command("--steps 5 --alive true --launcher false")),
              Fails(1, HasSubstr("3 starts in a row failed before they had kept a step")));
  EXPECT_THAT(place.run("plan " + marked + " --cluster three.toml --without e"),
              Fails(2, AllOf(HasSubstr("no such host or device"), HasSubstr("a, b, c"))));
  EXPECT_EQ(place.run("plan " + marked + " --cluster three.toml --without b --without c.d2").code, 0);
}

}  // namespace
}  // namespace hetsynth::testing
