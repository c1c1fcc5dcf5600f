// hetsynth run under mpirun: several processes train like one, and all end when one of them dies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "command.h"
#include "dsl/cluster/cluster.h"
#include "hetsynth/build_paths.h"

namespace hetsynth::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// Each device slow and each link fast, so that a plan for so small a model uses all of them.
std::string slow_devices(int hosts, int devices) {
  std::string out = "name = \"slow\"\nbetween = { bandwidth = \"5 GB/s\", latency = \"0.02 us\" }\n";
  for (int h = 0; h < hosts; ++h) {
    out += "[[host]]\ninside = { bandwidth = \"5 GB/s\", latency = \"0.02 us\" }\n";
    for (int d = 0; d < devices; ++d)
      out += "[[host.device]]\nname = \"d" + std::to_string(h) + std::to_string(d) +
             "\"\nkind = \"cpu\"\nmemory = \"1 GiB\"\ndeclared = { matmul = \"0.0" + std::to_string(3 + 3 * d) +
             " GFLOP/s\", memory_bandwidth = \"0.01 GB/s\" }\n";
  }
  return out;
}

class Processes : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::system("command -v mpirun > /dev/null") != 0) GTEST_SKIP() << "there is no mpirun here";
  }
  /// Processes of this test that are still there.
  /// Known among all processes of the machine: other tests run at the same time.
  const std::string marked = "marked" + std::to_string(::getpid()) + ".cpp";
  int left_over() const {
    place.run("--version");
    const std::string count =
        "pgrep -fc 'hetsynth [r]un " + marked + "' > '" + (place.folder() / "count").string() + "'";
    (void)std::system(count.c_str());
    return std::atoi(place.read("count").c_str());
  }
  const Workplace place;
};

TEST_F(Processes, TrainAsOneProcessDoes) {
  place.write("slow.toml", slow_devices(2, 2));
  const std::string run = "run model.cpp --cluster slow.toml --steps 12 --sample 0 --seed 4 ";
  ASSERT_EQ(place.run(run + "--checkpoint one.st --log-json one.json").code, 0);
  for (const int count : {2, 4}) {
    const std::string name = std::to_string(count);
    const Outcome ran = place.run(run + "--checkpoint " + name + ".st --log-json " + name + ".json", mpirun(count));
    EXPECT_EQ(ran.code, 0) << ran.err;
    // One of them speaks.
    EXPECT_THAT(ran.out, HasSubstr("12 steps in"));
    EXPECT_EQ(ran.out.find("12 steps in"), ran.out.rfind("12 steps in"));
    EXPECT_THAT(ran.out, AllOf(HasSubstr("step  0/11"), Not(HasSubstr("\33")))) << "lines, not one that is updated";
    EXPECT_EQ(place.read(name + ".st"), place.read("one.st"));
    EXPECT_THAT(place.read(name + ".json"), AllOf(HasSubstr("\"step\":11"), HasSubstr("\"host1.d11\":")));
  }
}

/// Experts cut over two hosts that are slow to reach: tokens go through one process of each.
TEST_F(Processes, TrainAsOneWhereExchangesGoThroughLeaders) {
  place.write("experts.cpp", R"(#include "hetsynth/hetsynth.h"
using namespace hetsynth;
void model() {
  auto [samples, labels] = synthetic_batch(8, 256, 8);
  Tensor x = relu(matmul(reshape(samples, {8, 16, 16}), parameter("in", {16, 16}, normal(0.1))));
  Routing routing = top2_gating(matmul(x, parameter("gate", {16, 8}, normal(0.1))));
  Tensor queues = expert_dispatch(x, routing);
  Tensor up = parameter("up", {8, 16, 256}, normal(0.1)), down = parameter("down", {8, 256, 16}, normal(0.1));
  Tensor answers = einsum("gepf,efc->gepc", relu(einsum("gepc,ecf->gepf", queues, up)), down);
  Tensor logits = matmul(mean(expert_combine(answers, routing), 1), parameter("head", {16, 8}, normal(0.1)));
  minimize(cross_entropy(logits, labels) + 0.01 * routing.balance_loss, SGD{});
}
)");
  std::string cluster = slow_devices(2, 2);
  cluster.replace(cluster.find("0.02 us"), 7, "1000 us");
  place.write("slow.toml", cluster);
  ASSERT_EQ(place.run("plan experts.cpp --cluster slow.toml --mesh-axes 1 -o plan.json").code, 0);
  EXPECT_THAT(place.read("plan.json"), ::testing::ContainsRegex("\"all_to_all\"[^}]*\"hierarchical\""));
  const std::string run = "run experts.cpp --plan plan.json --cluster slow.toml --steps 4 --sample 0 --seed 4 ";
  ASSERT_EQ(place.run(run + "--checkpoint one.st").code, 0);
  const Outcome ran = place.run(run + "--checkpoint four.st", mpirun(4));
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(place.read("four.st"), place.read("one.st"));
}

TEST_F(Processes, MeasureTheirHostsAndTheLinksBetweenThem) {
  place.write("two.toml", slow_devices(2, 1));
  const Outcome probed = place.run("probe two.toml --seconds 0.02 -o measured.toml", mpirun(2));
  ASSERT_EQ(probed.code, 0) << probed.err;
  EXPECT_THAT(probed.out, AllOf(HasSubstr("links between hosts"), HasSubstr("host0"), HasSubstr("host1"),
                                HasSubstr("written to measured.toml")));
  const std::string text = place.read("measured.toml");
  EXPECT_THAT(text, HasSubstr("latency = \"0.02 us\", measured = { bandwidth = "));
  // Two hosts have one pair, which is as fast as the slower of them.
  const Cluster measured = parse_cluster(text, "measured.toml");
  for (const int host : {0, 1}) EXPECT_EQ(measured.outside(host), measured.between) << text;
  EXPECT_THAT(text, HasSubstr("outside = { measured = { bandwidth = "));
  const size_t first = text.find("messages = "), second = text.find("messages = ", first + 1);
  EXPECT_NE(second, std::string::npos) << text;
  EXPECT_LT(text.find("measured = { matmul"), first);
  // What is measured of links alone leaves the rest.
  const Outcome links = place.run("probe measured.toml --links --seconds 0.02 -o again.toml", mpirun(2));
  ASSERT_EQ(links.code, 0) << links.err;
  const auto speeds = [](std::string of) { return of.substr(of.find("matmul_call"), 30); };
  EXPECT_EQ(speeds(place.read("again.toml")), speeds(text));
  EXPECT_EQ(place.run("plan model.cpp --cluster again.toml").code, 0);
}

TEST_F(Processes, ThatAreToMeasureAreOnePerHost) {
  place.write("two.toml", slow_devices(2, 1));
  EXPECT_THAT(place.run("probe two.toml", mpirun(3)).err,
              AllOf(HasSubstr("another number of processes than the cluster has hosts"),
                    HasSubstr("expected: 2 processes"), HasSubstr("found:    3")));
  EXPECT_THAT(place.run("probe two.toml --host host0", mpirun(2)).err,
              HasSubstr("under a launcher every process measures a host of its own"));
  EXPECT_THAT(place.run("probe two.toml --links"),
              Fails(2, HasSubstr("links between hosts are measured by processes on them")));
}

TEST_F(Processes, ResumeACheckpointOnAnotherNumberOfProcesses) {
  place.write("slow.toml", slow_devices(1, 2));
  const std::string run = "run model.cpp --cluster slow.toml --sample 0 ";
  ASSERT_EQ(place.run(run + "--steps 10 --checkpoint whole.st").code, 0);
  ASSERT_EQ(place.run(run + "--steps 6 --checkpoint half.st", mpirun(2)).code, 0);
  ASSERT_EQ(place.run(run + "--steps 4 --resume half.st --checkpoint rest.st", mpirun(2)).code, 0);
  EXPECT_EQ(place.read("rest.st"), place.read("whole.st"));
}

/// Two processes, one of which is given something else: neither trains, and what differs is named with both values.
TEST_F(Processes, ThatAreGivenDifferentThingsAreTold) {
  place.write("slow.toml", slow_devices(1, 2));
  place.write("other.toml", slow_devices(1, 2) + "\n");
  place.write("other.cpp", everywhere(small_model, "0.1}", "0.2}"));
  const std::string base = "run model.cpp --cluster slow.toml --sample 0 ";
  ASSERT_EQ(place.run(base + "--steps 3 --checkpoint a.st").code, 0);
  ASSERT_EQ(place.run(base + "--steps 3 --checkpoint b.st --seed 5").code, 0);
  for (const std::string share : {"1", "3"})
    ASSERT_EQ(place.run("plan model.cpp --cluster slow.toml --ratio " + share + ",1 -o plan" + share + ".json").code,
              0);
  place.write("one.pins", "ratio = [3, 1]\n");
  place.write("two.pins", "ratio = [1, 3]\n");
  place.write("text.cpp", small_text_model);
  place.write("v1.txt", std::string(100, 'a'));
  place.write("v2.txt", std::string(100, 'b'));
  const std::string text = "run text.cpp --cluster slow.toml --sample 0 --data v1.txt ";
  const std::vector<std::array<std::string, 3>> cases{
      {base, base + "--seed 9", "the same --seed"},
      {base, base + "--steps 7", "the same --steps"},
      {base, base + "--batch 6", "the same options of the model"},
      {base, "run other.cpp --cluster slow.toml --sample 0", "the same model"},
      {base, "run model.cpp --cluster other.toml --sample 0", "the same cluster"},
      {base + "--resume a.st", base, "the same checkpoint to resume"},
      {base + "--resume a.st", base + "--resume b.st", "the same checkpoint to resume"},
      {base, base + "--checkpoint c.st", "the same --checkpoint"},
      // The plan and whatever decides it, though the first process alone plans.
      {base + "--plan plan1.json", base + "--plan plan3.json", "the same plan"},
      {base + "--plan plan1.json", base + "--mesh 2", "the same plan"},
      {base + "--ratio 3,1", base + "--ratio 1,3", "the same --ratio"},
      {base, base + "--mesh 2", "the same --mesh"},
      {base + "--pins one.pins", base + "--pins two.pins", "the same pins"},
      {base, base + "--forbid all_to_all", "the same --forbid"},
      {base, base + "--effort quick", "the same --effort"},
      {base, base + "--unverified", "the same --unverified"},
      {text + "--valid v1.txt", text + "--valid v2.txt", "the same validation data"},
      {"evaluate model.cpp a.st --cluster slow.toml --ratio 3,1",
       "evaluate model.cpp a.st --cluster slow.toml --ratio 1,3", "the same --ratio"},
  };
  for (const auto& [first, second, message] : cases) {
    const Outcome ran = place.run(first + " : -np 1 '" HETSYNTH_BINARY_DIR "/hetsynth' " + second, mpirun(1));
    EXPECT_EQ(ran.code, 3) << second << ran.err;
    EXPECT_THAT(ran.err, AllOf(HasSubstr(message), HasSubstr("process 0 on"), HasSubstr("process 1 on"))) << second;
    EXPECT_THAT(ran.out, Not(HasSubstr("plan for"))) << second;
  }
}

TEST_F(Processes, AnErrorIsToldOnceAndEndsAll) {
  place.write("slow.toml", slow_devices(1, 2));
  const Outcome missing = place.run("run missing.cpp --cluster slow.toml", mpirun(2));
  EXPECT_EQ(missing.code, 3);
  // Whole, by the process that failed. The other may be quick enough to name it in a line of its own why it stops.
  EXPECT_THAT(missing.err, HasSubstr("missing.cpp: error: cannot read the model file"));
  const std::string mend = "to mend:  check the path";
  const size_t first = missing.err.find(mend);
  EXPECT_NE(first, std::string::npos) << missing.err;
  EXPECT_EQ(missing.err.find(mend, first + 1), std::string::npos) << missing.err;
}

/// A number of processes that no plan can have is told before planning, one that this plan has not before the proof.
TEST_F(Processes, ThatAreTooManyAreToldBeforePlanning) {
  place.write("slow.toml", slow_devices(1, 2));
  place.write("four.toml", slow_devices(1, 4));
  const std::string plan = "--dump-after synthesize", proof = "--dump-after verify";
  const auto few = [](const std::string& found) {
    return AllOf(HasSubstr(found), HasSubstr("expected:"), HasSubstr("processes"), HasSubstr("to mend:"));
  };
  const Outcome more = place.run("run model.cpp --cluster slow.toml " + plan, mpirun(5));
  EXPECT_THAT(more, Fails(1, few("there are 2 devices of 1 host, and the launcher has started 5 processes")));
  EXPECT_EQ(more.out, "");
  const Outcome pinned = place.run("run model.cpp --cluster four.toml --mesh 4 " + plan, mpirun(3));
  EXPECT_THAT(pinned, Fails(1, few("the plan runs on 4 devices of 1 host, and the launcher has started 3 processes")));
  EXPECT_EQ(pinned.out, "");
  ASSERT_EQ(place.run("plan model.cpp --cluster four.toml --mesh 4 -o plan.json").code, 0);
  const Outcome given = place.run("run model.cpp --cluster four.toml --plan plan.json " + proof, mpirun(3));
  EXPECT_THAT(given, Fails(1, few("the plan runs on 4 devices of 1 host, and the launcher has started 3 processes")));
  EXPECT_EQ(given.out, "");
}

TEST_F(Processes, OneThatIsKilledEndsAllByNameAndLeavesNothing) {
  place.write("slow.toml", slow_devices(1, 2));
  place.write(marked, small_model);
  for (const char* victim : {"head", "tail"}) {
    Outcome ran;
    std::thread job([&] {
      ran = place.run("run " + marked + " --cluster slow.toml --steps 1000000000 --log-json log.json", mpirun(2));
    });
    for (int tries = 0; tries < 600 && place.read("log.json").size() < 1000; ++tries)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const auto killed = std::chrono::steady_clock::now();
    // mpirun's own line mentions the command too, but does not begin with it.
    const std::string kill = "kill -9 $(pgrep -f '^[^ ]*hetsynth [r]un " + marked + "' | sort -n | " + victim + " -1)";
    EXPECT_EQ(std::system(kill.c_str()), 0);
    job.join();
    EXPECT_LT(std::chrono::steady_clock::now() - killed, std::chrono::seconds(10));
    EXPECT_NE(ran.code, 0);
    EXPECT_THAT(ran.err,
                AllOf(HasSubstr("while it waited"), HasSubstr("one of"), HasSubstr("died"), HasSubstr("Killed")));
    EXPECT_EQ(left_over(), 0);
    std::filesystem::remove(place.folder() / "log.json");
  }
}

TEST_F(Processes, OneThatHangsIsNamedWithinTenSeconds) {
  place.write("slow.toml", slow_devices(1, 2));
  place.write(marked, small_model);
  Outcome ran;
  std::thread job([&] {
    ran = place.run("run " + marked + " --cluster slow.toml --steps 1000000000 --log-json log.json", mpirun(2));
  });
  for (int tries = 0; tries < 600 && place.read("log.json").size() < 1000; ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const auto stopped = std::chrono::steady_clock::now();
  const std::string stop = "kill -STOP $(pgrep -f '^[^ ]*hetsynth [r]un " + marked + "' | sort -n | tail -1)";
  EXPECT_EQ(std::system(stop.c_str()), 0);
  job.join();
  EXPECT_LT(std::chrono::steady_clock::now() - stopped, std::chrono::seconds(10));
  EXPECT_NE(ran.code, 0);
  EXPECT_THAT(ran.err, AllOf(HasSubstr("process 1 on "), HasSubstr("nothing was heard of it for 6 s"),
                             Not(HasSubstr("internal fault"))));
  EXPECT_EQ(left_over(), 0);
}

}  // namespace
}  // namespace hetsynth::testing
