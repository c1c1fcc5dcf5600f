// Collectives beside computing in the generated text of cpu devices: a wait that is missing, late or for something
// else, a bucket with other members, and places that are used again too early are found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <sstream>

#include "dsl/spmd/buckets.h"
#include "synth/baselines/peers/peers.h"
#include "synth/planner/synthesize.h"
#include "tests/codegen/harness.h"
#include "tests/codegen/models.h"
#include "tests/source/fixture.h"

namespace hetsynth::test {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

Generated in_buckets(const std::string& name) {
  const Program program = mlp_program();
  const Cluster cluster = unequal_cluster({1e9, 3e9, 2e9});
  for (const PeerPlan& peer : peer_plans(program, cluster))
    if (peer.name.find(name) != std::string::npos) {
      Generated made{program, with_buckets(program, peer.plan->program), {}};
      for (int rank = 0; rank < 3; ++rank) made.devices.push_back(generate(program, made.plan, cluster, rank));
      return made;
    }
  throw std::runtime_error("no such peer");
}

/// Gradients are reduced and scattered, every device updates its part, and gathers the rest.
const Generated& sharded_update() {
  static const Generated out = in_buckets("ZeRO-1");
  return out;
}

/// Devices keep their part, and gather parameters ahead of their readers, forward and backward.
const Generated& sharded_parameters() {
  static const Generated out = in_buckets("ZeRO-3");
  return out;
}

using Lines = std::vector<std::string>;

Lines lines_of(const Generated& generated, int rank) {
  Lines out;
  std::istringstream text(generated.devices[size_t(rank)].files.front().text);
  for (std::string line; std::getline(text, line);) out.push_back(line);
  return out;
}

class BesideSource : public ::testing::TestWithParam<const Generated& (*)()> {
 protected:
  const Generated& generated() const { return GetParam()(); }
  Lines lines_of(int rank) const { return test::lines_of(generated(), rank); }
  SourceCheck checked(const Lines& lines, int rank = 1) const {
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    return check(generated(), rank, text);
  }
};

INSTANTIATE_TEST_SUITE_P(Plans, BesideSource, ::testing::Values(&sharded_update, &sharded_parameters),
                         [](const auto& info) { return info.index == 0 ? "OfUpdates" : "OfParameters"; });

/// In the step, not among the declarations.
std::vector<size_t> with(const Lines& lines, const std::string& words) {
  std::vector<size_t> out;
  for (size_t i = 0; i < lines.size(); ++i)
    if (lines[i].find(words) != std::string::npos && lines[i].find("if (") != std::string::npos) out.push_back(i);
  return out;
}

TEST_P(BesideSource, IsGeneratedAndAgreesWithItsPlan) {
  for (int rank = 0; rank < 3; ++rank) {
    const Lines lines = lines_of(rank);
    const SourceCheck result = checked(lines, rank);
    EXPECT_EQ(result.verdict, Verdict::proved) << result.summary;
    EXPECT_FALSE(with(lines, "hetsynth_begin(").empty());
    EXPECT_EQ(with(lines, "hetsynth_begin(").size(), with(lines, "hetsynth_end(").size());
    EXPECT_FALSE(std::ranges::none_of(lines, [](const std::string& line) {
      return std::regex_search(line, std::regex(R"(hetsynth_begin\(context, \d+, [2-9]\))"));
    })) << "some travel together";
  }
}

TEST_P(BesideSource, AWaitThatIsMissingIsFound) {
  const Lines lines = lines_of(1);
  for (const size_t at : with(lines, "hetsynth_end(")) {
    Lines edited = lines;
    edited.erase(edited.begin() + ptrdiff_t(at));
    const SourceCheck result = checked(edited);
    EXPECT_EQ(result.verdict, Verdict::refuted) << lines[at];
    EXPECT_THAT(result.summary, AnyOf(HasSubstr("not waited for yet, may still"), HasSubstr("but not waited for")));
  }
}

TEST_P(BesideSource, AWaitThatIsLateIsFound) {
  const Lines lines = lines_of(1);
  int late = 0;
  for (const size_t at : with(lines, "hetsynth_end(")) {
    Lines edited = lines;
    edited.erase(edited.begin() + ptrdiff_t(at));
    const auto end = std::ranges::find(edited, "  return 0;");
    ASSERT_NE(end, edited.end());
    edited.insert(end, lines[at]);
    const SourceCheck result = checked(edited);
    if (result.verdict == Verdict::proved) continue;  // nobody needed it before
    EXPECT_EQ(result.verdict, Verdict::refuted);
    EXPECT_THAT(result.summary, HasSubstr("not waited for yet, may still "));
    ++late;
  }
  EXPECT_GE(late, 1);
}

TEST_P(BesideSource, AnEarlyWaitIsRightAndAWrongOneIsFound) {
  const Lines lines = lines_of(1);
  for (const size_t at : with(lines, "hetsynth_end(")) {
    const std::string number = std::regex_replace(lines[at], std::regex(R"(.*context, (\d+)\).*)"), "$1");
    const size_t begin = with(lines, "hetsynth_begin(context, " + number + ",").at(0);
    size_t last = begin;  // the members follow the line that begins them
    const int members = std::stoi(std::regex_replace(lines[begin], std::regex(R"(.*, (\d+)\)\) return.*)"), "$1"));
    for (int seen = 0; seen < members; seen += lines[last].find("if (hetsynth_") != std::string::npos) ++last;
    Lines early = lines;
    early.erase(early.begin() + ptrdiff_t(at));
    early.insert(early.begin() + ptrdiff_t(last) + 1, lines[at]);
    EXPECT_EQ(checked(early).verdict, Verdict::proved) << lines[at];
    Lines other = lines;
    other[at] = std::regex_replace(lines[at], std::regex(R"(context, \d+\))"), "context, 4999)");
    EXPECT_THAT(checked(other).summary, HasSubstr("collective 4999 is waited for, but is not under way"));
    Lines among = lines;  // before its last member is called
    among.insert(among.begin() + ptrdiff_t(last), lines[at]);
    EXPECT_THAT(checked(among).summary, HasSubstr("are not called"));
  }
}

TEST_P(BesideSource, OtherMembersAreFound) {
  const Lines lines = lines_of(1);
  for (const size_t at : with(lines, "hetsynth_begin(")) {
    Lines fewer = lines, alone = lines;
    fewer[at] = std::regex_replace(lines[at], std::regex(R"(, (\d+)\)\) return)"), ", 99)) return");
    EXPECT_THAT(checked(fewer).summary, HasSubstr("the number of collectives that are begun is 99"));
    alone.erase(alone.begin() + ptrdiff_t(at));
    const SourceCheck result = checked(alone);
    EXPECT_EQ(result.verdict, Verdict::refuted) << lines[at];
  }
  // Members that trade places, and one that is lost.
  int traded = 0;
  for (const size_t at : with(lines, "hetsynth_reduce_scatter(")) {
    size_t next = at + 1;
    while (next < lines.size() && lines[next].find("hetsynth_") == std::string::npos) ++next;
    if (next == lines.size() || lines[next].find("hetsynth_reduce_scatter(") == std::string::npos) continue;
    Lines swapped = lines, lost = lines;
    std::swap(swapped[at], swapped[next]);
    EXPECT_EQ(checked(swapped).verdict, Verdict::refuted) << lines[at];
    lost.erase(lost.begin() + ptrdiff_t(at));
    EXPECT_EQ(checked(lost).verdict, Verdict::refuted) << lines[at];
    ++traded;
  }
  EXPECT_GE(traded, 1);
}

/// What is computed while a collective is under way is put where that reads or writes.
TEST_P(BesideSource, APlaceThatIsUsedAgainTooEarlyIsFound) {
  const Lines lines = lines_of(1);
  const std::regex declared(R"(.* (\w+) = \(float\*\)\(arena \+ (\d+)\);.*)");
  int found = 0;
  for (const size_t begin : with(lines, "hetsynth_begin(")) {
    const std::string number = std::regex_replace(lines[begin], std::regex(R"(.*context, (\d+),.*)"), "$1");
    const size_t end = with(lines, "hetsynth_end(context, " + number + ")").at(0);
    std::string source;  // of its first member
    std::smatch match;
    for (size_t i = begin; i < end && source.empty(); ++i)
      if (std::regex_search(lines[i], match, std::regex(R"(\(context, \d+, \d+, (\w+), \w+,)"))) source = match[1];
    std::string place;
    for (const std::string& line : lines)
      if (std::regex_match(line, match, declared) && match[1] == source) place = match[2];
    for (size_t i = begin; i < end; ++i) {
      if (!std::regex_match(lines[i], match, declared) || match[2] == place) continue;
      Lines edited = lines;
      edited[i] = std::regex_replace(lines[i], std::regex(R"(arena \+ \d+)"), "arena + " + place);
      const SourceCheck result = checked(edited);
      EXPECT_EQ(result.verdict, Verdict::refuted) << lines[i];
      found += result.summary.find("not waited for yet, may still read") != std::string::npos;
    }
  }
  EXPECT_GE(found, 1);
}

/// Gradients are summed within hosts first and then among them, in buckets: a member of the second kind reads what one
/// of the first makes.
TEST(BesideOfPlans, OfTwoAxesAgreesWithItsPlan) {
  const Program program = mlp_program();
  Cluster cluster = unequal_cluster({5e9, 4e9, 5e9, 4e9});
  cluster.hosts.push_back(cluster.hosts[0]);
  cluster.hosts[1].name = "other";
  cluster.devices[2].host = cluster.devices[3].host = 1;
  cluster.between = {1e8, 1e-4};
  SynthesisOptions options;
  options.most_axes = 2;
  options.pins.mesh = {2, 2};
  Generated g{program, synthesize(program, cluster, options).program, {}};
  EXPECT_TRUE(std::ranges::any_of(g.plan.instructions, [](const Instruction& i) { return i.bucket >= 0; }));
  for (int rank = 0; rank < 4; ++rank) {
    g.devices.push_back(generate(program, g.plan, cluster, rank));
    const SourceCheck result = check(g, rank);
    EXPECT_EQ(result.verdict, Verdict::proved) << "line " << result.line << ": " << result.summary << "\n"
                                               << g.devices.back().files.front().text;
  }
}

/// An old parameter is gathered in the bucket that gathers the new one: neither comes first, so that the new one is not
/// put in the place of the old.
TEST(BesideOfPlans, MembersThatReadAndReplaceALeafHaveTheirOwnPlaces) {
  const Program program = mlp_program();
  const Cluster cluster = unequal_cluster({1e9, 3e9, 2e9});
  SpmdProgram plan = sharded_update().plan;
  std::vector<Instruction>& all = plan.instructions;
  for (size_t last = 1; last < all.size(); ++last) {
    if (all[last].opcode != Opcode::all_gather || all[last].bucket < 0 || all[last].bucket != all[last - 1].bucket)
      continue;
    size_t first = last;
    while (first > 0 && all[first - 1].bucket == all[last].bucket) --first;
    const NodeId node = plan.values[size_t(all[last].result)].node;
    const auto target = std::ranges::find(plan.finals, all[last].result, &std::pair<NodeId, ValueId>::second);
    ASSERT_NE(target, plan.finals.end());
    const auto leaf = std::ranges::find_if(
        plan.leaves, [&](ValueId value) { return plan.values[size_t(value)].node == target->first; });
    ASSERT_NE(leaf, plan.leaves.end());
    const Placements cut = plan.values[size_t(all[last].operands[0])].placements;
    const auto add = [&](const char* name, Placements placements) {
      plan.values.push_back({name, target->first, std::move(placements)});
      return ValueId(plan.values.size()) - 1;
    };
    Instruction slice, gather = all[last];
    slice.opcode = Opcode::slice;
    slice.axis = gather.axis, slice.dim = gather.dim, slice.table = gather.table;
    slice.operands = {*leaf};
    slice.result = add("part of the old", cut);
    gather.operands = {slice.result};
    gather.result = add("copy of the old", {Placement::replicated()});
    all.insert(all.begin() + ptrdiff_t(last), gather);
    all.insert(all.begin() + ptrdiff_t(first), slice);
    EXPECT_EQ(program[node].phase, Phase::update);
    break;
  }
  ASSERT_NE(plan.values.size(), sharded_update().plan.values.size());
  Generated g{program, plan, {}};
  for (int rank = 0; rank < 3; ++rank) {
    g.devices.push_back(generate(program, g.plan, cluster, rank));
    const SourceCheck result = check(g, rank);
    EXPECT_EQ(result.verdict, Verdict::proved) << "line " << result.line << ": " << result.summary;
  }
}

}  // namespace
}  // namespace hetsynth::test
