// run --trace: the measured timeline holds what the plan says, in an order its data allow, and its sums add up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "tests/cli/command.h"

namespace hetsynth::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

/// A piece of a measured step.
struct Piece {
  std::vector<std::string> instructions;
  int row = 0;
  double start = 0, end = 0;
};

/// "d_w[2]" without its turn, and the turn; -1: none.
std::pair<std::string, int> without_turn(const std::string& name) {
  const size_t at = name.rfind('[');
  if (at == std::string::npos || name.back() != ']') return {name, -1};
  return {name.substr(0, at), std::atoi(name.c_str() + at + 1)};
}

class Trace : public ::testing::Test {
 protected:
  std::string done(const std::string& words, const std::string& launcher = "") const {
    const Outcome outcome = place.run(words, launcher);
    EXPECT_EQ(outcome.code, 0) << words << "\n" << outcome.out << outcome.err;
    return outcome.out;
  }

  /// Plans with these options, runs the plan, and reads what was measured.
  void measure(const std::string& options, const std::string& launcher = "", const std::string& cluster = "c.toml") {
    done("plan model.cpp --set batch=3000 --cluster " + cluster + " " + options + " -o plan.json");
    said = done("run model.cpp --plan plan.json --cluster " + cluster + " --steps 5 --sample 0 --trace trace.json",
                launcher);
    plan = Json::parse(place.read("plan.json"));
    trace = Json::parse(place.read("trace.json"));
    ranks = int(plan["devices"].size());
  }

  std::vector<Piece> pieces_of(int rank) const {
    std::vector<Piece> out;
    for (const Json& event : trace["traceEvents"]) {
      if (event["ph"] != "X" || event["pid"] != 2 * rank || event["tid"] == 2) continue;
      Piece piece{{}, event["tid"], event["ts"], double(event["ts"]) + double(event["dur"])};
      if (event["args"].contains("instructions"))
        piece.instructions = event["args"]["instructions"].get<std::vector<std::string>>();
      out.push_back(std::move(piece));
    }
    return out;
  }

  /// Coordinate of the rank along the axis of stages, which is the first.
  int stage_of(int rank) const {
    int after = 1;
    for (size_t axis = 1; axis < plan["decisions"]["mesh"].size(); ++axis)
      after *= int(plan["decisions"]["mesh"][axis]["size"]);
    return rank / after;
  }

  bool takes_part(const Json& instruction, int rank) const {
    if (instruction["op"] == "send") {
      const int stage = stage_of(rank);
      return stage == int(instruction["root"]) || stage == int(instruction["to"]);
    }
    if (!instruction.contains("split")) return true;
    for (const auto& [axis, how] : instruction["split"].items())
      if (how.get<std::string>() == "stage(" + std::to_string(1 - stage_of(rank)) + ")") return false;
    return true;
  }

  void expect_all_instructions_once(int rank) const {
    std::map<std::string, std::map<int, int>> count;  // by name and turn
    const auto add = [&](const std::string& name) {
      const auto [base, turn] = without_turn(name);
      ++count[base][turn];
    };
    for (const Piece& piece : pieces_of(rank))
      for (const std::string& name : piece.instructions) add(name);
    for (const Json& name : trace["otherData"]["ranks"][size_t(rank)]["without_code"]) add(name);
    for (const Json& instruction : plan["decisions"]["instructions"]) {
      const std::string name = instruction["result"];
      const auto found = count.find(name);
      if (!takes_part(instruction, rank)) {
        EXPECT_TRUE(found == count.end()) << name << " on rank " << rank;
        continue;
      }
      ASSERT_TRUE(found != count.end()) << name << " on rank " << rank;
      for (const auto& [turn, times] : found->second) EXPECT_EQ(times, 1) << name << " in turn " << turn;
      const size_t turns = found->second.size();
      // What a turn takes over from the one before has one beginning.
      EXPECT_TRUE(turns == 1 || turns == size_t(turns_expected)) << name << " in " << turns << " turns";
      EXPECT_EQ(found->second.contains(-1) ? turns : 1, 1u) << name;
      count.erase(found);
    }
    EXPECT_TRUE(count.empty()) << count.begin()->first << " is none of the plan";
  }

  void expect_operands_before_readers(int rank) const {
    std::map<std::string, std::pair<size_t, double>> made;  // piece and end, by name
    const std::vector<Piece> pieces = pieces_of(rank);
    for (size_t p = 0; p < pieces.size(); ++p)
      for (const std::string& name : pieces[p].instructions) made[name] = {p, pieces[p].end};
    std::map<std::string, const Json*> by_result;
    for (const Json& instruction : plan["decisions"]["instructions"]) by_result[instruction["result"]] = &instruction;
    size_t looked_at = 0;
    for (const auto& [name, at] : made) {
      const auto [base, turn] = without_turn(name);
      for (const Json& operand : (*by_result.at(base))["from"]) {
        const std::string plain = operand.get<std::string>();
        const auto from = made.count(plain) ? made.find(plain) : made.find(plain + "[" + std::to_string(turn) + "]");
        if (from == made.end() || from->second.first == at.first) continue;  // of a leaf, or in one kernel
        ++looked_at;
        EXPECT_LE(from->second.second, pieces[at.first].start + 1e-3) << plain << " for " << name;
      }
    }
    EXPECT_GT(looked_at, 0u);
  }

  void expect_within_the_step(int rank) const {
    double begin = -1, end = -1;
    for (const Json& event : trace["traceEvents"])
      if (event["ph"] == "X" && event["pid"] == 2 * rank && event["cat"] == "step")
        begin = event["ts"], end = begin + double(event["dur"]);
    ASSERT_GE(begin, 0);
    std::map<int, std::vector<Piece>> rows;
    for (const Piece& piece : pieces_of(rank)) {
      EXPECT_GE(piece.start, begin - 1e-3);
      EXPECT_LE(piece.end, end + 1e-3);
      rows[piece.row].push_back(piece);
    }
    for (auto& [row, pieces] : rows) {
      std::ranges::sort(pieces, {}, &Piece::start);
      for (size_t i = 1; i < pieces.size(); ++i) EXPECT_LE(pieces[i - 1].end, pieces[i].start + 1e-3) << "row " << row;
    }
    EXPECT_LE(end, 1e6 * double(trace["otherData"]["measured_seconds"]) + 1e-3);
  }

  void expect_sums(int rank) const {
    const Json& sums = trace["otherData"]["ranks"][size_t(rank)];
    double all = 0, computing = 0;
    for (const char* part :
         {"computing_seconds", "slept_seconds", "communicating_seconds", "data_seconds", "waiting_seconds"}) {
      EXPECT_GE(double(sums[part]), -1e-9) << part;
      all += double(sums[part]);
    }
    EXPECT_NEAR(all, double(trace["otherData"]["measured_seconds"]), 1e-9);
    for (const Piece& piece : pieces_of(rank))
      if (piece.row == 0) computing += 1e-6 * (piece.end - piece.start);
    EXPECT_NEAR(computing,
                double(sums["computing_seconds"]) + double(sums["slept_seconds"]) + double(sums["data_seconds"]), 1e-9);
  }

  void expect_whole(int turns = 1) {
    turns_expected = turns;
    for (int rank = 0; rank < ranks; ++rank) {
      expect_all_instructions_once(rank);
      expect_operands_before_readers(rank);
      expect_within_the_step(rank);
      expect_sums(rank);
    }
    std::set<std::string> processes;
    for (const Json& event : trace["traceEvents"])
      if (event["name"] == "process_name") processes.insert(event["args"]["name"].get<std::string>().substr(0, 15));
    for (int rank = 0; rank < ranks; ++rank)
      for (const char* kind : {" measured", " planned"})
        EXPECT_TRUE(processes.count(("rank " + std::to_string(rank) + kind + ": ").substr(0, 15))) << rank << kind;
    EXPECT_THAT(said, AllOf(HasSubstr("trace written to trace.json"), HasSubstr("bubble as planned"),
                            HasSubstr("do what the plan says")));
  }

  std::string turn_names() const {
    std::string out;
    for (const Json& event : trace["traceEvents"])
      if (event["ph"] == "X" && event["tid"] == 2) out += event["name"].get<std::string>() + "\n";
    return out;
  }

  const Workplace place;
  Json plan, trace;
  std::string said;
  int ranks = 0, turns_expected = 1;
};

TEST_F(Trace, OfAStepInOne) {
  measure("");
  expect_whole();
}

TEST_F(Trace, OfTurnsThatFollowEachOther) {
  measure("--turns 3 --stages 1");
  expect_whole(3);
  EXPECT_THAT(turn_names(), HasSubstr("turn 2"));
}

TEST_F(Trace, OfAPipeline) {
  measure("--turns 3 --stages 2");
  expect_whole(3);
  EXPECT_THAT(turn_names(), AllOf(HasSubstr("forward of turn 2"), HasSubstr("backward of turn 0")));
}

TEST_F(Trace, OfADeviceThatSleeps) {
  place.write("duty.toml", everywhere(place.read("c.toml"), "declared =", "duty = 0.5\n declared="));
  measure("", "", "duty.toml");
  expect_whole();
  EXPECT_GT(double(trace["otherData"]["ranks"][0]["slept_seconds"]), 0);
}

TEST_F(Trace, OfSeveralProcessesIsOneFile) {
  if (std::system("command -v mpirun > /dev/null") != 0) GTEST_SKIP() << "there is no mpirun here";
  std::string cluster = place.read("c.toml");
  const std::string host = "[[host]]\ninside = { bandwidth = \"5 GB/s\", latency = \"20 us\" }\n";
  cluster.insert(cluster.rfind("[[host.device]]"), host);
  place.write("hosts.toml",
              "between = { bandwidth = \"5 GB/s\", latency = \"20 us\" }\n" + cluster.substr(cluster.find("[[host]]")));
  measure("--turns 3 --stages 2", mpirun(2), "hosts.toml");
  expect_whole(3);
  EXPECT_EQ(said.find("trace written"), said.rfind("trace written")) << "the first process writes";
}

TEST_F(Trace, CostsNothingWhereNoneIsAskedFor) {
  done("plan model.cpp --cluster c.toml -o plan.json");
  EXPECT_THAT(done("run model.cpp --plan plan.json --cluster c.toml --steps 1 --dump-after=generate"),
              Not(HasSubstr("hetsynth_mark")));
  EXPECT_THAT(done("run model.cpp --plan plan.json --cluster c.toml --steps 1 --dump-after=generate --trace t.json"),
              HasSubstr("hetsynth_mark(context, 1, 0);"));
}

/// Nothing is said of a plan: it is refused before.
TEST_F(Trace, IsRefusedBeforePlanning) {
  place.write("notes.txt", "somebody's\n");
  const std::string run = "run model.cpp --cluster c.toml --steps 1 --trace ";
  const auto refused = [&](const std::string& words, int code, const std::string& message) {
    const Outcome outcome = place.run(words);
    EXPECT_THAT(outcome, Fails(code, HasSubstr(message)));
    EXPECT_THAT(outcome.out, Not(HasSubstr("plan for")));
  };
  refused(run + "notes.txt", 3, "notes.txt: error: the file exists and is no trace; it was left as it is");
  refused(run + "c.toml", 3, "it was left as it is");
  refused(run + "nowhere/t.json", 1, "nowhere");
  refused(run + "t.json --log-json t.json", 2, "the trace and the log would be the same file");
  refused(run + "t.st --checkpoint t.st", 2, "the trace and the checkpoint would be the same file");
  refused(run + "t.json --balance shares", 2, "--balance excludes --trace");
  EXPECT_EQ(place.read("notes.txt"), "somebody's\n");
  place.write("gpus.toml",
              everywhere(place.read("c.toml"), "kind = \"cpu\"", "kind = \"cuda\"\narchitecture = \"sm_80\""));
  refused("run model.cpp --cluster gpus.toml --steps 1 --trace t.json", 2, "steps are traced on cpu devices alone");
}

TEST_F(Trace, OfARunThatIsKilledStaysWhatItWas) {
  done("run model.cpp --cluster c.toml --steps 2 --trace trace.json");
  const std::string before = place.read("trace.json");
  EXPECT_EQ(place.run("run model.cpp --cluster c.toml --steps 100000000 --trace trace.json", "timeout -s KILL 2").code,
            128 + 9);
  EXPECT_EQ(place.read("trace.json"), before);
  for (const auto& entry : std::filesystem::directory_iterator(place.folder()))
    EXPECT_THAT(entry.path().filename().string(), Not(HasSubstr("trace.json.")));
}

TEST_F(Trace, OfARunThatIsStoppedIsWritten) {
  // Without --foreground the whole group gets the signal as well, and a second one ends a run at once.
  const Outcome ran =
      place.run("run model.cpp --cluster c.toml --steps 100000000 --trace trace.json", "timeout --foreground -s INT 3");
  EXPECT_THAT(ran.out, HasSubstr("trace written to trace.json"));
  EXPECT_TRUE(Json::parse(place.read("trace.json")).contains("traceEvents"));
}

TEST_F(Trace, OfNoStepIsNone) {
  EXPECT_THAT(done("run model.cpp --cluster c.toml --steps 0 --trace trace.json"), HasSubstr("no trace was written"));
  EXPECT_FALSE(place.exists("trace.json"));
}

}  // namespace
}  // namespace hetsynth::testing
