// The host program of a cuda rank: collectives, transfers and events against the plan.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <regex>

#include "dsl/ir/trace.h"
#include "dsl/transform/differentiate.h"
#include "hetsynth/hetsynth.h"
#include "synth/planner/synthesize.h"
#include "tests/codegen/harness.h"
#include "tests/codegen/models.h"
#include "tests/source/fixture.h"
#include "tests/support/detours.h"
#include "tests/support/pipelined_plan.h"

namespace hetsynth::test {
namespace {

using ::testing::HasSubstr;

const Generated& shared() {
  static const Generated g = [] {
    Program program = mlp_program();
    Cluster cluster = cuda_devices({1e9, 3e9, 2e9});
    return generated_for_cuda(program, data_parallel_plan(program, cluster, RatioRule::proportional).program, cluster);
  }();
  return g;
}

const std::string& host_of(const Generated& g, int rank) { return g.devices[size_t(rank)].files.front().text; }

void expect_agrees(const Generated& g) {
  for (int rank = 0; rank < int(g.devices.size()); ++rank) {
    SourceCheck result = check(g, rank);
    EXPECT_EQ(result.verdict, Verdict::proved)
        << "rank " << rank << " line " << result.line << ": " << result.summary << "\n"
        << host_of(g, rank);
    EXPECT_GT(result.statements, 5);
  }
}

TEST(DeviceSource, OfPlansOfEveryKindAgrees) {
  for (Program program : {mlp_program(), gpt_program()}) {
    Cluster one = cuda_devices({1e9}), three = cuda_devices({1e9, 3e9, 2e9}), two = cuda_devices({1e9, 2.5e9});
    expect_agrees(generated_for_cuda(program, single_device_plan(program, one).program, one));
    expect_agrees(
        generated_for_cuda(program, data_parallel_plan(program, three, RatioRule::proportional).program, three));
    SynthesisOptions options;
    options.time_limit_seconds = 3;
    expect_agrees(generated_for_cuda(program, synthesize(program, two, options).program, two));
  }
}

/// Shares of constants lie alike in whatever order they are packed: that says nothing of what the same kernel does with
/// other numbers, as masks on the same way.
TEST(DeviceSource, OfSharesOfConstantsAgrees) {
  Trace trace("model.cpp");
  run_builder(trace, [] {
    auto [tokens, next] = token_batch(6, 16, 8);
    Tensor mask = dropout(full({6, 16}, 1), 0.2);
    Tensor rows = embedding(parameter("words", {8, 4}, normal(1)), tokens);
    minimize(sum(rows * reshape(mask, {6, 16, 1})), SGD{.learning_rate = 0.1});
  });
  const Program program = differentiate(trace);
  const Cluster cluster = cuda_devices({3e9, 1e9, 2e9});
  const SpmdProgram plan = data_parallel_plan(program, cluster, RatioRule::proportional).program;
  expect_agrees(generated_for_cuda(program, with_detours(program, plan), cluster));
}

const Generated& staged() {
  static const Generated g = [] {
    Program program = mlp_program();
    const SpmdProgram plan = data_parallel_plan(program, cuda_devices({1e9, 3e9})).program;
    return generated_for_cuda(program, pipelined_plan(program, plan, 2), cuda_devices({1e9, 3e9, 1e9, 3e9}));
  }();
  return g;
}

TEST(DeviceSource, OfStagesAgrees) { expect_agrees(staged()); }

TEST(DeviceSource, DamagedSendsAreFound) {
  const std::string& text = host_of(staged(), 0);
  const std::regex sends("ncclSend\\(([a-z_0-9]+), ([0-9]+), nccl_float32, ([0-9])");
  std::smatch send;
  ASSERT_TRUE(std::regex_search(text, send, sends)) << text;
  const auto damaged = [&](const std::string& by) {
    return check(staged(), 0, text.substr(0, size_t(send.position())) + by + std::string(send.suffix())).summary;
  };
  const std::string place = send[1], count = send[2];
  EXPECT_THAT(damaged("ncclSend(" + place + ", 1" + count + ", nccl_float32, 1"), HasSubstr("the count of the send"));
  EXPECT_THAT(damaged("ncclSend(" + place + ", " + count + ", nccl_float32, 0"), HasSubstr("the peer of the send"));
  EXPECT_THAT(damaged("ncclSend(" + place + ", " + count + ", nccl_int32, 1"), HasSubstr("the type of the send"));
  EXPECT_THAT(damaged("ncclRecv(" + place + ", " + count + ", nccl_float32, 1"), HasSubstr("but takes ncclSend"));
}

/// What is sent has a communicator and a stream for its direction.
TEST(DeviceSource, SendsOverAnotherCommunicatorOrStreamAreFound) {
  int damaged = 0;
  for (const int rank : {0, 2}) {
    const std::string& text = host_of(staged(), rank);
    for (const std::string way : {"rising", "falling"}) {
      const std::string other = way == "rising" ? "falling" : "rising";
      for (const auto& [from, to, found] : std::vector<std::array<std::string, 3>>{
               {"context->" + way + "_stream", "context->communication_stream",
                "that is not on the " + way + "_stream"},
               {"context->" + way + "_stream", "context->" + other + "_stream",
                "that is not on the " + way + "_stream"},
               {"= hetsynth_nccl_" + way + "_communicator(", "= hetsynth_nccl_communicator(", "that is not on the"}}) {
        const size_t at = text.find(from);
        if (at == std::string::npos) continue;
        ++damaged;
        const SourceCheck result = check(staged(), rank, text.substr(0, at) + to + text.substr(at + from.size()));
        EXPECT_EQ(result.verdict, Verdict::refuted) << from << " to " << to << ": " << result.summary;
        EXPECT_THAT(result.summary, HasSubstr(found));
      }
    }
  }
  EXPECT_EQ(damaged, 12);
}

/// Every statement about a transfer, damaged: dropped, and each number of it changed.
TEST(DeviceSource, DamagedTransfersAreFound) {
  const std::string& text = host_of(shared(), 1);
  int damaged = 0;
  for (size_t at = 0; at < text.size();) {
    size_t end = text.find('\n', at) + 1;
    std::string line = text.substr(at, end - at);
    bool transfer = line.find("  if (nccl") == 0 || line.find("  if (hetsynth_record(") == 0;
    if (transfer) {
      ++damaged;
      SourceCheck dropped = check(shared(), 1, text.substr(0, at) + text.substr(end));
      // The record of an end that nobody waits for any more is missing where it is waited for.
      EXPECT_EQ(dropped.verdict, Verdict::refuted) << "without " << line << dropped.summary;
      EXPECT_FALSE(dropped.summary.empty());
      if (line.find("ncclAllReduce") != std::string::npos) {
        std::string more = std::regex_replace(line, std::regex(", ([0-9]+), nccl"), ", 1$1, nccl");
        EXPECT_THAT(check(shared(), 1, text.substr(0, at) + more + text.substr(end)).summary,
                    HasSubstr("the count of"));
        std::string max = std::regex_replace(line, std::regex("nccl_sum"), "nccl_max");
        EXPECT_THAT(check(shared(), 1, text.substr(0, at) + max + text.substr(end)).summary,
                    HasSubstr("the reduction of"));
        std::string integers = std::regex_replace(line, std::regex("nccl_float32"), "nccl_int32");
        EXPECT_THAT(check(shared(), 1, text.substr(0, at) + integers + text.substr(end)).summary,
                    HasSubstr("the type of"));
      }
    }
    at = end;
  }
  EXPECT_GT(damaged, 10);
}

TEST(DeviceSource, BucketsAreGroupsOfTheirMembersInOrder) {
  const std::string& text = host_of(shared(), 1);
  std::smatch group;
  const std::regex calls(
      "  if \\(ncclGroupStart\\(\\)\\) return 1;\n(  [^\n]*\n)(  [^\n]*\n)((?:  if \\(nccl[^\n]*\n)+)");
  ASSERT_TRUE(std::regex_search(text, group, calls)) << text;
  const auto changed = [&](const std::string& by) {
    return check(shared(), 1, std::string(group.prefix()) + by + std::string(group.suffix())).summary;
  };
  const std::string start = "  if (ncclGroupStart()) return 1;\n", first = group[1], second = group[2], rest = group[3];
  EXPECT_THAT(changed(start + second + first + rest), HasSubstr("the count of the all_reduce of"));
  EXPECT_THAT(changed(first + start + second + rest), HasSubstr("the all_reduce of"));
  EXPECT_THAT(changed(start + first + first + second + rest), HasSubstr("the all_reduce of"));
  // Sent one by one in the plan's order, they would meet other groups of the other ranks.
  EXPECT_THAT(changed(first + second + rest.substr(0, rest.rfind("  if (ncclGroupEnd"))),
              HasSubstr("but takes ncclAllReduce"));
}

TEST(DeviceSource, MissingWaitsAreFound) {
  const std::string& text = host_of(shared(), 1);
  std::regex waits("  if \\(hetsynth_wait\\(context, [0-9]+, compute_stream\\)\\) return 1;[^\n]*\n");
  int found = 0, refuted = 0;
  for (std::sregex_iterator at(text.begin(), text.end(), waits), end; at != end; ++at, ++found) {
    std::string changed = text.substr(0, size_t(at->position())) + text.substr(size_t(at->position() + at->length()));
    SourceCheck result = check(shared(), 1, changed);
    refuted += result.verdict == Verdict::refuted;
    if (result.verdict == Verdict::refuted) {
      EXPECT_THAT(result.summary,
                  ::testing::AnyOf(HasSubstr("no event orders them"), HasSubstr("without having waited")));
    }
  }
  EXPECT_GE(found, 2);
  // A wait that a later transfer's wait implies is missed by nobody.
  EXPECT_GE(refuted, 1);
}

TEST(DeviceSource, BuffersAreNotReusedWhileATransferReadsThem) {
  const std::string& text = host_of(shared(), 1);
  std::smatch call;
  ASSERT_TRUE(std::regex_search(text, call, std::regex("ncclAllReduce\\(([a-z_0-9]+), ([a-z_0-9]+), ")));
  std::string source = call[1];
  // A kernel that runs meanwhile writes to the operand's place instead of its own.
  size_t after = size_t(call.position());
  std::smatch next;
  std::string rest = text.substr(after);
  ASSERT_TRUE(
      std::regex_search(rest, next, std::regex("launch\\(context, compute_stream, [^\n]*, ([a-z_0-9]+)\\)\\)")));
  size_t at = after + size_t(next.position(1));
  std::string changed = text.substr(0, at) + source + text.substr(at + size_t(next.length(1)));
  SourceCheck checked = check(shared(), 1, changed);
  EXPECT_EQ(checked.verdict, Verdict::refuted);
  EXPECT_THAT(checked.summary, HasSubstr("no event orders them"));
  EXPECT_GT(checked.line, 0);
}

/// Calls of products that cublasLt follows up, each word of them damaged.
TEST(DeviceSource, DamagedEpiloguesAreFound) {
  const Program program = gpt_program();
  const Cluster cluster = cuda_devices({1e9});
  const Generated g = generated_for_cuda(program, single_device_plan(program, cluster).program, cluster);
  const std::string& text = host_of(g, 0);
  const std::string kept = "add_bias_gelu_keep, (\\w+), (\\w+)\\)", slope = "times_gelu_slope_sum, (\\w+), (\\w+)\\)";
  const std::pair<std::string, std::string> damages[] = {
      {kept, "add_bias_gelu, $1, $2)"},
      {kept, "add_bias_relu, $1, $2)"},
      {kept, "add_bias_gelu_keep, $1 + 4, $2)"},
      {kept, "add_bias_gelu_keep, $2, $2)"},
      {kept, "add_bias_gelu_keep, $1, $1)"},
      {slope, "times_gelu_slope_sum, $1, $2 + 8)"},
      {slope, "times_gelu_slope, 0, $2)"},
      {slope, "times_gelu_slope_sum, $1 + 4, $2)"},
      {slope, "add_bias, $1, 0)"},
      {kept, "add_bias, $1, 0)"},
      {"matmul_then\\(context, 0, ", "matmul_then(context, 1, "},
      {"device_matmul\\(context", "device_matmul_bf16(context"},
  };
  for (const auto& [from, to] : damages) {
    const std::string changed = std::regex_replace(text, std::regex(from), to, std::regex_constants::format_first_only);
    ASSERT_NE(changed, text) << from << " is not in\n" << text;
    const SourceCheck result = check(g, 0, changed);
    EXPECT_EQ(result.verdict, Verdict::refuted) << from << " -> " << to << ": " << result.summary;
    EXPECT_GT(result.line, 0) << result.summary;
  }
}

TEST(DeviceSource, WrongTextIsRefutedWhoeverWroteIt) {
  Generated g = shared();
  std::string& kernels = g.devices[0].files.at(1).text;
  const size_t at = kernels.rfind(" - ");
  ASSERT_NE(at, std::string::npos);
  kernels.replace(at, 3, " + ");
  const GeneratedCheck own = check_generated(g.reference, g.plan, g.devices);
  EXPECT_EQ(own.verdict, Verdict::refuted);
  EXPECT_EQ(own.worst().rank, 0);
  EXPECT_EQ(check_foreign(g.reference, g.plan, g.devices).verdict, Verdict::refuted);
}

}  // namespace
}  // namespace hetsynth::test
