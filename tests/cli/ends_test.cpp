// How a run ends before its time: signals, models that end the program, results that nobody can take, data that wait.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "tests/cli/command.h"

namespace hetsynth::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Ends : public ::testing::Test {
 protected:
  /// Runs the command until it has logged some steps, then the shell commands, in which MARKED finds its processes.
  Outcome disturbed(const std::string& options, const std::string& shell, const std::string& launcher = "") const {
    place.write(marked, small_model);
    Outcome ran;
    std::thread job([&] {
      ran = place.run("run " + marked + " --cluster c.toml --sample 0 --log-json log.json " + options, launcher);
    });
    for (int tries = 0; tries < 1200 && place.read("log.json").size() < 1000; ++tries)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const std::string find = "$(pgrep -f '^[^ ]*hetsynth [r]un " + marked + "')";
    EXPECT_EQ(std::system(everywhere(shell, "MARKED", find).c_str()), 0);
    job.join();
    return ran;
  }
  const std::string marked = "ends" + std::to_string(::getpid()) + ".cpp";
  const Workplace place;
};

TEST_F(Ends, SignalsThatAskToStopSaveAndHaveACodeOfTheirOwn) {
  for (const char* signal : {"INT", "TERM", "HUP", "USR1"}) {
    const std::string file = std::string(signal) + ".st";
    const Outcome ran =
        disturbed("--steps 1000000000 --checkpoint " + file, std::string("kill -") + signal + " MARKED");
    EXPECT_EQ(ran.code, 7) << signal << ran.err;
    EXPECT_THAT(ran.out, HasSubstr("stopped after")) << signal;
    EXPECT_EQ(place.run("checkpoint " + file).code, 0) << signal;
    std::filesystem::remove(place.folder() / "log.json");
  }
}

TEST_F(Ends, AModelThatCallsExitIsNotTakenForDone) {
  for (const char* call : {"std::exit(0);", "std::quick_exit(0);", "std::_Exit(0);", "::_exit(0);"}) {
    place.write("model.cpp", "#include <cstdlib>\n#include <unistd.h>\n" +
                                 everywhere(small_model, "Tensor w2", std::string(call) + " auto w2"));
    EXPECT_THAT(place.run("run model.cpp --cluster c.toml"),
                Fails(3, HasSubstr("the model ended the program while it was built")));
  }
}

TEST_F(Ends, AThreadOfTheModelThatCallsExitIsNotTakenForDoneEither) {
  for (const char* call : {"std::exit(0);", "::_exit(0);"}) {
    const std::string thread = "std::thread([] { " + std::string(call) + " }).join();";
    place.write("model.cpp", "#include <cstdlib>\n#include <thread>\n#include <unistd.h>\n" +
                                 everywhere(small_model, "Tensor w2", thread + " auto w2"));
    EXPECT_THAT(place.run("run model.cpp --cluster c.toml"), Fails(3, HasSubstr("the model ended the program")));
  }
}

/// What is said on standard error decides nothing.
TEST_F(Ends, WordsThatCannotBeWrittenChangeNothing) {
  for (const std::string words : {"2> /dev/full", "2>&-"}) {
    if (words == "2> /dev/full" && ::access("/dev/full", W_OK) != 0) continue;
    const auto run = [&](const std::string& command) {
      return place.run(command, "sh -c '\"$0\" \"$@\" " + words + "'").code;
    };
    EXPECT_EQ(run("run missing.cpp"), 3) << words;
    EXPECT_EQ(run("run --nothing"), 2) << words;
    EXPECT_EQ(run("plan model.cpp --cluster c.toml -o plan.json --times"), 0) << words;
    EXPECT_EQ(run("run model.cpp --cluster c.toml --steps 2 --checkpoint a.st --log-json log.json --times"), 0)
        << words;
    for (const char* made : {"plan.json", "a.st", "log.json"}) {
      EXPECT_TRUE(place.exists(made)) << made << words;
      std::filesystem::remove(place.folder() / made);
    }
  }
}

TEST_F(Ends, ResultsThatCannotBeWrittenAreAFailure) {
  if (::access("/dev/full", W_OK) != 0) GTEST_SKIP() << "there is no /dev/full here";
  for (const char* command : {"plan model.cpp --cluster c.toml", "run model.cpp --cluster c.toml --steps 3"}) {
    const Outcome ran = place.run(command, "sh -c '\"$0\" \"$@\" > /dev/full'");
    EXPECT_THAT(ran, Fails(1, HasSubstr("cannot be written to standard output"))) << command;
    EXPECT_FALSE(place.exists("hetsynth-fault.txt"));
  }
}

TEST_F(Ends, HelpAndVersionThatCannotBeWrittenAreAFailure) {
  if (::access("/dev/full", W_OK) != 0) GTEST_SKIP() << "there is no /dev/full here";
  for (const char* command : {"--help", "run --help", "--version"})
    EXPECT_THAT(place.run(command, "sh -c '\"$0\" \"$@\" > /dev/full'"),
                Fails(1, HasSubstr("cannot be written to standard output")))
        << command;
}

TEST_F(Ends, ARunWhoseReaderHasEndedSavesAndStops) {
  const Outcome ran = place.run("run model.cpp --cluster c.toml --sample 0 --steps 1000000000 --checkpoint a.st",
                                "bash -c 'set -o pipefail; \"$0\" \"$@\" | grep -m 1 step'");
  EXPECT_THAT(ran, Fails(1, HasSubstr("has what reads them ended?")));
  EXPECT_EQ(place.run("checkpoint a.st").code, 0);
}

TEST_F(Ends, APipeAsDataIsRefusedAndNotWaitedFor) {
  place.write("model.cpp",
              everywhere(everywhere(small_model, "synthetic_batch(batch, 6, 3)", "image_batch(batch, 1, 2, 3, 3)"),
                         "matmul(x, w1)", "matmul(reshape(x, {batch, 6}), w1)"));
  ASSERT_EQ(::mkfifo((place.folder() / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(place.run("run model.cpp --cluster c.toml --data pipe"), Fails(3, HasSubstr("no regular file")));
}

TEST_F(Ends, SuspendedTogetherIsNotSilence) {
  if (std::system("command -v mpirun > /dev/null") != 0) GTEST_SKIP() << "there is no mpirun here";
  std::string cluster = small_cluster;
  cluster = everywhere(everywhere(cluster, "60 GFLOP", "0.03 GFLOP"), "30 GFLOP", "0.02 GFLOP");
  place.write("c.toml", everywhere(everywhere(cluster, "10 GB/s", "0.01 GB/s"), "20 us", "0.02 us"));
  const Outcome ran =
      disturbed("--steps 1000000000 --patience 2 --checkpoint a.st",
                "kill -STOP MARKED && sleep 5 && kill -CONT MARKED && sleep 4 && kill -TERM MARKED", mpirun(2));
  EXPECT_EQ(ran.code, 7) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("stopped after"));
}

TEST_F(Ends, ALostProcessNamesTheCheckpointToGoOnFrom) {
  if (std::system("command -v mpirun > /dev/null") != 0) GTEST_SKIP() << "there is no mpirun here";
  std::string cluster = small_cluster;
  cluster = everywhere(everywhere(cluster, "60 GFLOP", "0.03 GFLOP"), "30 GFLOP", "0.02 GFLOP");
  place.write("c.toml", everywhere(everywhere(cluster, "10 GB/s", "0.01 GB/s"), "20 us", "0.02 us"));
  // The second process hangs; the first has the last word.
  const Outcome ran = disturbed("--steps 1000000000 --patience 2 --checkpoint a.st --checkpoint-every 2",
                                "kill -STOP $(printf '%s\\n' MARKED | tail -1)", mpirun(2));
  EXPECT_NE(ran.code, 0);
  EXPECT_THAT(ran.err, AllOf(HasSubstr("to go on: a.st holds the run up to step"), HasSubstr("--resume a.st")));
}

}  // namespace
}  // namespace hetsynth::testing
