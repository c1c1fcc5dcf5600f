// Text that marks where its pieces begin: it passes the check as text without marks does, and what a mark could hide is
// found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "tests/source/fixture.h"
#include "tests/support/plan_builder.h"

namespace hetsynth::test {
namespace {

using ::testing::HasSubstr;

Generated marked(const Program& program, const SpmdProgram& plan, const Cluster& cluster) {
  Generated out{program, plan, {}};
  for (int rank = 0; rank < plan.mesh.device_count(); ++rank)
    out.devices.push_back(generate(out.reference, out.plan, cluster, rank, true));
  return out;
}

Generated two_marked_layers() {
  const Program program = two_layers();
  return marked(program, data_parallel(program), local_cluster(2));
}

TEST(Marks, AreTextThatTheCheckFollows) {
  const Generated made = two_marked_layers();
  for (int rank = 0; rank < 2; ++rank) {
    const DeviceProgram& device = made.devices[size_t(rank)];
    EXPECT_THAT(device.files[0].text, HasSubstr("hetsynth_mark(context, 0, 0);"));
    EXPECT_EQ(check(made, rank).verdict, Verdict::proved) << check(made, rank).summary;
    // But for marks it is the text that runs without them.
    std::string plain;
    std::istringstream lines(device.files[0].text);
    for (std::string line; std::getline(lines, line);)
      if (line.find("hetsynth_mark") == std::string::npos && line.find("// The time is noted") == std::string::npos)
        plain += line + "\n";
    const DeviceProgram without = generate(made.reference, made.plan, local_cluster(2), rank);
    EXPECT_TRUE(without.marks.empty());
    const auto squeezed = [](std::string text) {
      std::erase_if(text, [](char c) { return c == '\n'; });
      return text;
    };
    EXPECT_EQ(squeezed(plain), squeezed(without.files[0].text));
  }
}

TEST(Marks, StandForEachInstructionOnce) {
  const Generated made = two_marked_layers();
  std::set<std::pair<int, int64_t>> seen;
  for (const MarkedWork& work : made.devices[1].marks)
    for (const MarkedWork::Part& part : work.parts) {
      EXPECT_TRUE(seen.insert({part.instruction, part.turn}).second) << part.instruction;
      const bool moves = communicates(made.plan.instructions[size_t(part.instruction)].opcode);
      EXPECT_EQ(work.kind == MarkedWork::Kind::communicates, moves);
    }
  size_t collectives = 0;
  for (size_t i = 0; i < made.plan.instructions.size(); ++i)
    if (communicates(made.plan.instructions[i].opcode)) {
      ++collectives;
      EXPECT_TRUE(seen.contains({int(i), -1})) << i;
    }
  EXPECT_GT(collectives, 0u);
}

TEST(Marks, HideNothing) {
  const Generated made = two_marked_layers();
  const std::string text = made.devices[0].files[0].text;
  const std::string mark = "hetsynth_mark(context, 0, 0);", declared = "extern \"C\" void hetsynth_mark(";
  const auto verdict = [&](const std::string& changed) { return check(made, 0, changed).verdict; };
  EXPECT_EQ(verdict(replaced(text, mark, mark, "")), Verdict::proved) << "a mark may be missing";
  // What is computed in an argument, or by a function of the text's own.
  for (const char* argument : {"context->step++", "(arena[0] = 1)", "arena[0]"})
    EXPECT_NE(verdict(replaced(text, mark, mark, "hetsynth_mark(context, " + std::string(argument) + ", 0);")),
              Verdict::proved)
        << argument;
  EXPECT_NE(verdict(replaced(text, mark, mark, "hetsynth_mark(context, 0, 0, 0);")), Verdict::proved);
  EXPECT_NE(verdict(replaced(text, declared, ";\n", " { context->arena[0] = 1; }\n")), Verdict::proved);
}

}  // namespace
}  // namespace hetsynth::test
