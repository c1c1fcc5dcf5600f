// hetsynth join: hosts are taken in by a run that goes on, and no step is left out or done twice.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "tests/cli/command.h"

namespace hetsynth::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// Hosts of one device, with links so fast that a plan for a small model uses all of them. They compute for a small
/// part of the time, so that a step takes milliseconds on few cores. `d_memory` and `d_latency` are of d alone.
std::string cluster_of(const std::string& names, const std::string& d_memory = "1 GiB",
                       const std::string& d_latency = "0.02 us") {
  std::string out = "name = \"joined\"\nbetween = { bandwidth = \"5 GB/s\", latency = \"0.02 us\" }\n";
  for (const char name : names)
    out += fmt::format(
        "[[host]]\nname = \"{0}\"\noutside = {{ bandwidth = \"5 GB/s\", latency = \"{2}\" }}\n"
        "[[host.device]]\nname = \"d{0}\"\nkind = \"cpu\"\nmemory = \"{1}\"\nduty = 0.02\n"
        "declared = {{ matmul = \"0.02 GFLOP/s\", memory_bandwidth = \"0.01 GB/s\" }}\n",
        name, name == 'd' ? d_memory : "1 GiB", name == 'd' ? d_latency : "0.02 us");
  return out;
}

class Join : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::system("command -v mpirun > /dev/null") != 0) GTEST_SKIP() << "there is no mpirun here";
    ::setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    ::setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    place.write(marked, small_model);
    place.write("three.toml", cluster_of("abc"));
    place.write("four.toml", cluster_of("abcd"));
    place.write("five.toml", cluster_of("abcde"));
    // All hosts are this machine. The run does not start on those in the file `bad`.
    place.write("launch.sh",
                "#!/bin/sh\nn=$2; hosts=$4; shift 4\n"
                "if [ -e bad ] && echo $hosts | grep -q $(cat bad); then echo 'the launcher fails'; exit 3; fi\n"
                "exec mpirun --oversubscribe --bind-to none -np $n \"$@\"\n");
    // A host does not answer while there is a file x.lost, and takes its time while there is x.slow.
    place.write("alive.sh", "#!/bin/sh\n[ -e $1.slow ] && sleep 4\n[ ! -e $1.lost ]\n");
    shell("chmod +x launch.sh alive.sh");
  }

  void shell(const std::string& words) const {
    EXPECT_EQ(std::system(("cd '" + place.folder().string() + "' && " + words).c_str()), 0) << words;
  }

  /// Starts the run, and returns what became of it when `meanwhile`, which begins when a checkpoint is there, has
  /// ended.
  Outcome run(int steps, const std::function<void()>& meanwhile, const std::string& more = "",
              const std::string& of_run = "") const {
    Outcome out;
    std::thread job([&] {
      out = place.run(
          fmt::format("elastic {} --batch 96 --cluster three.toml --launcher ./launch.sh --alive './alive.sh {{}}' "
                      "--ask-every 0.5 --checkpoint c.st --checkpoint-every 200 --steps {} {} -- --sample 0 --log-json "
                      "log --keep 100 {}",
                      marked, steps, more, of_run),
          "", "elastic");
    });
    EXPECT_TRUE(comes([&] { return place.exists("c.st"); }));
    meanwhile();
    job.join();
    EXPECT_FALSE(place.exists("c.st.elastic")) << "the notice was left";
    EXPECT_EQ(std::system(("pgrep -f '^[^ ]*hetsynth [re].*" + marked + "' > /dev/null").c_str()), 256)
        << "processes were left";
    shell("! ls c.st.elastic.* 2> /dev/null");
    return out;
  }

  /// Whether it becomes true within a minute.
  static bool comes(const std::function<bool()>& what) {
    for (int tries = 0; tries < 1200; ++tries, std::this_thread::sleep_for(std::chrono::milliseconds(50)))
      if (what()) return true;
    return false;
  }
  void wait_for(const std::string& words) const {
    EXPECT_TRUE(comes([&] { return place.read("elastic.out").find(words) != std::string::npos; })) << words;
  }

  Outcome join(const std::string& words, const std::string& name = "join") const {
    return place.run(fmt::format("join {} --checkpoint '{}'", words, checkpoint), "", name);
  }

  /// A process of the run ends, and host b is not there any more.
  void lose_b() const { shell("touch b.lost; kill -9 $(pgrep -f '^[^ ]*hetsynth [r]un " + marked + "' | tail -1)"); }

  struct Step {
    int64_t step;
    double loss;
    bool operator==(const Step&) const = default;
  };
  std::vector<Step> steps(const std::string& log) const {
    std::vector<Step> out;
    std::istringstream lines(place.read(log));
    for (std::string line; std::getline(lines, line);) {
      const auto record = nlohmann::json::parse(line);
      if (record.contains("loss")) out.push_back({record["step"], record["loss"]});
    }
    return out;
  }
  /// How often the log goes back to an earlier step; no step may be left out.
  int repeats(int64_t all) const {
    int out = 0;
    int64_t next = 0;
    for (const Step& step : steps("log")) {
      EXPECT_LE(step.step, next) << "steps were left out";
      out += step.step < next;
      next = step.step + 1;
    }
    EXPECT_EQ(next, all);
    return out;
  }

  /// Steps that were lost with a host are done again, unless it ended while a checkpoint was written.
  static constexpr int most_for_one_loss = 1;

  /// From the step in "takes part in the run from step N on", losses are to the bit those of one process that goes on
  /// from the checkpoint of that step.
  void expect_losses_from(const Outcome& joined, const std::string& cluster) const {
    const std::string words = "takes part in the run from step ";
    ASSERT_THAT(joined.out, HasSubstr(words));
    const int64_t from = std::stoll(joined.out.substr(joined.out.find(words) + words.size()));
    const std::vector<Step> all = steps("log");
    const auto first = std::find_if(all.begin(), all.end(), [&](const Step& step) { return step.step == from; });
    ASSERT_NE(first, all.end());
    const Outcome again =
        place.run(fmt::format("run {} --batch 96 --cluster {} --resume c.st.{} --steps {} --sample 0 --log-json again",
                              marked, cluster, from, all.end() - first),
                  "", "again");
    ASSERT_EQ(again.code, 0) << again.err;
    EXPECT_EQ(steps("again"), std::vector<Step>(first, all.end()));
  }

  const std::string marked = "joined" + std::to_string(::getpid()) + ".cpp";
  const Workplace place;
  /// By its whole path, which no other test that runs meanwhile has, a process of this test is found.
  const std::string checkpoint = (place.folder() / "c.st").string();
};

TEST_F(Join, AHostThatJoinsTakesPartFromTheNextStepOn) {
  Outcome joined;
  const Outcome ran = run(3000, [&] { joined = join("d --cluster four.toml"); });
  EXPECT_EQ(joined.code, 0) << joined.err;
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("d asks to join"), HasSubstr("a plan with d is proved"),
                             HasSubstr("start 2 on a, b, c, d"), Not(HasSubstr("start 3"))));
  EXPECT_EQ(repeats(3000), 0);
  expect_losses_from(joined, "four.toml");
}

// A seed among the words for `run` is for the first start: the second has that of the checkpoint.
TEST_F(Join, AHostThatWasLeftOutJoins) {
  Outcome joined;
  const Outcome ran = run(
      3000, [&] { joined = join("c"); }, "--without c", "--seed 3");
  EXPECT_EQ(joined.code, 0) << joined.err;
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("start 1 on a, b\n"), HasSubstr("start 2 on a, b, c\n")));
  EXPECT_EQ(repeats(3000), 0);
  EXPECT_THAT(place.run("checkpoint c.st").out, HasSubstr("seed       3"));
  expect_losses_from(joined, "three.toml");
}

TEST_F(Join, AHostThatWasKilledIsTakenInWhenItIsBack) {
  const Outcome ran = run(4000, [&] {
    lose_b();
    wait_for("start 2 on a, c");
    shell("rm b.lost");
    wait_for("start 3 on a, b, c");
  });
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("without b; it goes on"), HasSubstr("b answers again")));
  EXPECT_LE(repeats(4000), most_for_one_loss) << "steps before a planned change are not done again";
}

TEST_F(Join, TwoJoinAtOnce) {
  Outcome first, second;
  const Outcome ran = run(4000, [&] {
    std::thread other([&] { second = join("e --cluster five.toml", "second"); });
    first = join("d --cluster five.toml");
    other.join();
  });
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(second.code, 0) << second.err;
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("on a, b, c, d, e"));
  EXPECT_EQ(repeats(4000), 0);
}

TEST_F(Join, AHostIsLostWhileAnotherJoins) {
  Outcome joined;
  const Outcome ran = run(4000, [&] {
    shell("touch d.slow");  // so that it waits
    std::thread other([&] { joined = join("d --cluster four.toml"); });
    wait_for("d asks to join");
    lose_b();
    other.join();
    shell("rm b.lost");
    wait_for("on a, b, c, d");
  });
  EXPECT_EQ(joined.code, 0) << joined.err;
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("start 2 on a, c, d"), HasSubstr("start 3 on a, b, c, d")));
  EXPECT_LE(repeats(4000), most_for_one_loss);
}

TEST_F(Join, ARequestIsWithdrawnByCtrlC) {
  Outcome joined;
  const Outcome ran = run(5000, [&] {
    shell("touch d.slow");
    std::thread other([&] { joined = join("d --cluster four.toml"); });
    wait_for("d asks to join");
    shell("kill -INT $(pgrep -f '^[^ ]*hetsynth [j]oin d .*" + checkpoint + "')");
    other.join();
    wait_for("d does not ask to join any more");
  });
  EXPECT_THAT(joined, Fails(7, HasSubstr("the request is withdrawn; the run goes on as it was")));
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, Not(HasSubstr("start 2")));
  EXPECT_EQ(repeats(5000), 0);
}

TEST_F(Join, ARunThatIsStoppedMeanwhileSaysSo) {
  Outcome joined;
  const Outcome ran = run(4000, [&] {
    shell("touch d.slow");
    std::thread other([&] { joined = join("d --cluster four.toml"); });
    wait_for("d asks to join");
    shell("kill -INT $(pgrep -f '^[^ ]*hetsynth elastic " + marked + "')");
    other.join();
  });
  EXPECT_THAT(joined, Fails(1, HasSubstr("the run ended before d could be taken in")));
  EXPECT_EQ(ran.code, 7) << ran.err;
  const int64_t done = steps("log").back().step + 1;
  EXPECT_EQ(repeats(done), 0);
  EXPECT_THAT(place.run("checkpoint c.st").out, HasSubstr(fmt::format("next step  {}\n", done)));
}

TEST_F(Join, ASupervisorThatIsKilledLeavesNoProcesses) {
  std::thread job([&] {
    place.run("elastic " + marked +
                  " --cluster three.toml --launcher ./launch.sh --checkpoint c.st "
                  "--checkpoint-every 200 --batch 96 --steps 100000",
              "", "elastic");
  });
  EXPECT_TRUE(comes([&] { return place.exists("c.st"); }));
  shell("kill -9 $(pgrep -f '^[^ ]*hetsynth elastic " + marked + "')");
  job.join();
  EXPECT_TRUE(comes(
      [&] { return std::system(("pgrep -f '^[^ ]*hetsynth [r]un " + marked + "' > /dev/null").c_str()) == 256; }));
}

TEST_F(Join, WhatDoesNotFitIsRefusedAndTheRunGoesOn) {
  place.write("other.toml", cluster_of("abd"));
  place.write("huge.toml", cluster_of("abcd", "900 TiB"));
  place.write("far.toml", cluster_of("abcd", "1 GiB", "500 ms"));
  std::string of_dead_run;
  const Outcome ran = run(8000, [&] {
    of_dead_run = place.read("c.st.elastic");
    EXPECT_THAT(join("b"), Fails(2, AllOf(HasSubstr("[join] a host of this name takes part in the run already"),
                                          HasSubstr("expected: a host besides a, b, c"), HasSubstr("found:    b"))));
    EXPECT_THAT(join("d"), Fails(3, AllOf(HasSubstr("three.toml: error: [join] the cluster file does not describe"),
                                          HasSubstr("one of a, b, c"), HasSubstr("give it with --cluster"))));
    EXPECT_THAT(join("d --cluster other.toml"),
                Fails(3, AllOf(HasSubstr("has to describe the hosts of the run as well"),
                               HasSubstr("expected: a, b, c and d"), HasSubstr("found:    a, b, d"))));
    EXPECT_THAT(join("d --cluster huge.toml"),
                Fails(3, AllOf(HasSubstr("less memory than the cpu devices of d"), HasSubstr("900"))));
    EXPECT_THAT(join("d --cluster nowhere.toml"), Fails(3, HasSubstr("nowhere.toml")));
    EXPECT_THAT(join("d --cluster far.toml"), Fails(4, HasSubstr("the fastest plan for the hosts of the run and this "
                                                                 "one does not use it")));
    shell("touch d.lost");
    EXPECT_THAT(
        join("d --cluster four.toml --address d"),
        Fails(1, AllOf(HasSubstr("the host that is to join does not answer"), HasSubstr("d at the address d"))));
    shell("rm d.lost");
    // A request of a host that has something else than the run: the supervisor looks at it, too.
    const auto notice = nlohmann::json::parse(place.read("c.st.elastic"));
    const auto request = [&](const std::string& key, const std::string& value) {
      nlohmann::ordered_json out{{"hetsynth", "join"},
                                 {"run", notice["run"]},
                                 {"version", notice["version"]},
                                 {"program", notice["program"]},
                                 {"host", "d"},
                                 {"address", ""},
                                 {"cluster", (place.folder() / "four.toml").string()}};
      out[key] = value;
      return out.dump(1);
    };
    const auto refused = [&](const std::string& id, const std::string& message) {
      EXPECT_TRUE(comes([&] { return place.read("c.st.elastic").find(id) != std::string::npos; }));
      EXPECT_THAT(place.read("c.st.elastic"), HasSubstr(message));
    };
    place.write("c.st.elastic.0000000000000001", request("version", "0.0.9"));
    refused("0000000000000001", "d has another version of hetsynth than the run");
    place.write("c.st.elastic.0000000000000002", request("program", "?"));
    refused("0000000000000002", "the model is another one on d than that of the run");
    place.write("c.st.elastic.0000000000000003", request("run", "?"));
    refused("0000000000000003", "the run that the host wants to join has ended");
    place.write("c.st.elastic.0000000000000004", "{}");  // somebody's: it is told of, and stays
    EXPECT_TRUE(
        comes([&] { return place.read("elastic.err").find("c.st.elastic.0000000000000004") != std::string::npos; }));
    shell("rm c.st.elastic.0000000000000004");
    place.write(marked, everywhere(small_model, "{6, 16}", "{6, 8}"));
    place.write(marked, everywhere(place.read(marked), "{16, 3}", "{8, 3}"));
    EXPECT_THAT(join("d --cluster four.toml"),
                Fails(3, AllOf(HasSubstr(marked + ": error: [join] the model is another one on d"),
                               HasSubstr("expected: a traced program with the hash "), HasSubstr("found:"))));
    place.write(marked, small_model);
  });
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, Not(HasSubstr("start 2")));
  EXPECT_EQ(repeats(8000), 0);
  // A supervisor that was killed leaves its notice.
  place.write("c.st.elastic", of_dead_run);
  EXPECT_THAT(join("d --cluster four.toml --patience 1"),
              Fails(1, AllOf(HasSubstr("c.st.elastic: error: [join] nobody has read the request within 1 s"),
                             HasSubstr("start it again with --resume"))));
  shell("! ls c.st.elastic.* 2> /dev/null");
}

TEST_F(Join, AHostThatTheRunDoesNotStartWithIsLeftOutAgain) {
  Outcome joined;
  place.write("bad", "d");
  const Outcome ran = run(3000, [&] { joined = join("d --cluster four.toml"); });
  EXPECT_THAT(joined,
              Fails(1, HasSubstr("the run did not go on with d: it ended with code 3 before it had kept a step")));
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("start 2 on a, b, c, d"), HasSubstr("start 3 on a, b, c\n")));
  EXPECT_EQ(repeats(3000), 0);
}

TEST_F(Join, NobodyIsAskedWhereNoSupervisorRuns) {
  EXPECT_THAT(join("d"), Fails(3, AllOf(HasSubstr("c.st: error: [join] no run that takes in hosts goes on with this"),
                                        HasSubstr("c.st.elastic"))));
  const auto notice = [&](const std::string& version) {
    place.write("c.st.elastic", nlohmann::ordered_json{{"hetsynth", "elastic"},
                                                       {"run", "1"},
                                                       {"version", version},
                                                       {"model", (place.folder() / marked).string()},
                                                       {"settings", nlohmann::json::object()},
                                                       {"program", "?"},
                                                       {"cluster", (place.folder() / "four.toml").string()},
                                                       {"takes_devices", false},
                                                       {"hosts", {"a"}},
                                                       {"answers", nlohmann::json::array()}}
                                    .dump(1));
  };
  notice("0.0.9");
  EXPECT_THAT(join("d"), Fails(3, AllOf(HasSubstr("d has another version of hetsynth than the run"),
                                        HasSubstr("expected: 0.0.9"), HasSubstr("install version 0.0.9"))));
  place.write("c.st.elastic", "{\"hetsynth\": 3");
  EXPECT_THAT(join("d"), Fails(3, HasSubstr("c.st.elastic")));
  place.write("c.st.elastic", "notes");
  EXPECT_THAT(join("d"), Fails(3, AllOf(HasSubstr("c.st.elastic: error: [join] this file does not come from a run"),
                                        HasSubstr("remove it if nobody needs it"))));
  EXPECT_THAT(
      place.run("elastic " + marked + " --cluster three.toml --launcher ./launch.sh --checkpoint c.st --steps 1"),
      Fails(3, HasSubstr("c.st.elastic")));
  EXPECT_EQ(place.read("c.st.elastic"), "notes");
}

}  // namespace
}  // namespace hetsynth::testing
