// Halo exchanges on cuda ranks: who sends which rows to whom, the text of one, and training steps of networks whose
// images are divided by rows, executed on the doubles against the float64 interpreter.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <source_location>

#include "codegen/cuda/host/device_schedule.h"
#include "codegen/cuda/host/host_text.h"
#include "codegen/passes/lower.h"
#include "cuda_programs.h"
#include "dsl/ir/trace.h"
#include "dsl/transform/differentiate.h"
#include "hetsynth/hetsynth.h"
#include "runtime/jit/nvrtc.h"
#include "synth/planner/synthesize.h"
#include "tests/support/cuda/cuda_cluster.h"
#include "tests/support/golden.h"
#include "tests/support/halo_plan.h"
#include "tests/support/plan_builder.h"

namespace hetsynth::testing_support {
namespace {

using codegen::cuda::NcclCall;
using codegen::cuda::Transfer;
using test::HaloCase;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Cluster gpus_for(const SpmdProgram& plan) {
  return cuda_cluster(std::vector<double>(size_t(plan.mesh.device_count()), 1.0));
}

/// The first element that differs from the reference; "" if none does.
std::string difference(const std::string& what, const Array& found, const Array& expected) {
  for (size_t i = 0; i < expected.values.size(); ++i)
    // Sums of at most some hundred float32 terms of magnitude 10.
    if (const double e = expected.values[i], f = found.values[i]; !(std::abs(f - e) <= 3e-5 * (1 + std::abs(e))))
      return fmt::format("element {} of {} is {} instead of {}", i, what, f, e);
  return "";
}

/// What is wrong with two steps, one under either order of the streams: an error's text, or an output, a loss or new
/// contents of a leaf that are not the reference's; "" if nothing.
std::string problem_of(const Program& reference, const SpmdProgram& plan, const Cluster& devices,
                       std::vector<DeviceProgram> programs = {}) {
  constexpr uint64_t seed = 23;
  CudaCluster cluster(reference, plan, devices, std::move(programs), seed);
  Bindings leaves = initial_values(reference, 11);
  for (const Node& node : reference.nodes)
    if (node.kind == NodeKind::input) leaves[node.id] = random_contents(node, {-1, 1}, 3);
  for (const auto& [leaf, contents] : leaves) cluster.write_leaf(leaf, contents);
  try {
    for (int64_t step = 0; step < 2; ++step) {
      cluster.step(step, step ? Eager::communication : Eager::compute, step ? Turns::reversed : Turns::forward);
      const std::vector<Array> expected = interpret(reference, leaves, {seed, step});
      Array loss(Shape{});
      loss.values = {cluster.loss()};
      if (std::string wrong = difference("the loss", loss, expected[size_t(reference.loss)]); !wrong.empty())
        return wrong;
      for (const NamedOutput& output : reference.outputs)
        if (std::string wrong = difference(output.name, cluster.read(output.node), expected[size_t(output.node)]);
            !wrong.empty())
          return wrong;
      for (const Update& update : reference.updates) {
        leaves[update.target] = expected[size_t(update.value)];
        if (std::string wrong =
                difference(reference[update.target].name, cluster.read(update.target), leaves[update.target]);
            !wrong.empty())
          return wrong;
      }
    }
  } catch (const std::exception& error) {
    return error.what();
  }
  return cluster.leave();
}

class CudaHalo : public ::testing::TestWithParam<HaloCase> {};

TEST_P(CudaHalo, EqualsTheInterpreter) {
  const SpmdProgram& plan = GetParam().plan;
  const auto exchanges = std::ranges::count(plan.instructions, Opcode::halo_exchange, &Instruction::opcode);
  // Of two convolutions: both images, and the gradient of what lies between, unless that is cut off a larger one.
  const bool two = std::ranges::count(GetParam().reference.outputs, "z", &NamedOutput::name);
  EXPECT_GE(exchanges, GetParam().name == "leaf_with_its_halo" ? 0
                       : !two                                  ? 1
                       : GetParam().name == "stride_two"       ? 2
                                                               : 3)
      << text(plan, GetParam().reference);
  EXPECT_EQ(problem_of(GetParam().reference, plan, gpus_for(plan)), "");
}

/// Rows of a cpu device go through the host, as all of its groups' do.
TEST_P(CudaHalo, WithACpuDeviceEqualsTheInterpreter) {
  Cluster mixed = gpus_for(GetParam().plan);
  mixed.devices[1].kind = DeviceKind::cpu;
  for (size_t d = 2; d < mixed.devices.size(); ++d) --mixed.devices[d].index;
  EXPECT_EQ(problem_of(GetParam().reference, GetParam().plan, mixed), "");
}

INSTANTIATE_TEST_SUITE_P(Cases, CudaHalo, ::testing::ValuesIn(test::halo_cases()),
                         [](const auto& info) { return info.param.name; });

/// Devices slow enough for a small image to be worth dividing.
TEST(CudaHaloPlans, OfTheSearchEqualTheInterpreter) {
  const Program reference = test::network_of_one_image();
  for (const std::vector<double>& speeds :
       std::vector<std::vector<double>>{{2e8, 1e8}, {2e8, 1e8, 1e8}, {1e8, 5e8, 1e8, 1e8}}) {
    Cluster cluster = cuda_cluster(speeds);
    cluster.hosts[0].inside = {1e8, 1e-9};
    for (size_t d = 0; d < speeds.size(); ++d) cluster.devices[d].declared = {speeds[d], speeds[d] / 10};
    const Plan plan = synthesize(reference, cluster);
    const auto exchanges = std::ranges::count(plan.program.instructions, Opcode::halo_exchange, &Instruction::opcode);
    EXPECT_GE(exchanges, 2) << text(plan.program, reference);
    EXPECT_EQ(problem_of(reference, plan.program, cluster), "");
  }
}

TEST(CudaHaloText, NvrtcAcceptsAllKernels) {
  if (!cuda_toolkit().available) GTEST_SKIP() << "no NVRTC here: " << cuda_toolkit().problem;
  for (const HaloCase& each : test::halo_cases()) {
    const DeviceProgram device = generate(each.reference, each.plan, gpus_for(each.plan), 1);
    const CudaCode code = compile_cuda(device.files.at(1).text, device.files.at(1).name, "sm_80");
    EXPECT_EQ(code.status, CudaCompileStatus::compiled) << each.name << "\n" << code.log;
    EXPECT_EQ(code.log, "") << each.name;
  }
}

// ---- one exchange ----

/// x [outer, 1, 8, inner] cut by rows, and with a halo.
struct Exchange {
  Program reference;
  SpmdProgram plan;
};

Exchange exchange(int64_t outer, int64_t inner, std::vector<int64_t> bounds, int64_t before, int64_t after) {
  Exchange out;
  test::ProgramBuilder p;
  p.leaf("x", NodeKind::input, {outer, 1, 8, inner});
  out.reference = p.program;
  test::PlanBuilder b(out.reference, {{"sp", int(bounds.size()) - 1}});
  const int rows = b.table("rows", 0, 8, std::move(bounds));
  b.halo_exchange(b.leaf("x", {Placement::sharded(2, rows)}), 0, before, after);
  out.plan = b.plan;
  return out;
}

Transfer transfer_of(const Exchange& e, int rank) {
  return codegen::cuda::plan_transfer(e.plan, codegen::localize(e.reference, e.plan, rank), {0});
}

/// "3 to 1 from source + 2": the calls of a transfer.
std::vector<std::string> calls_of(const Transfer& transfer) {
  std::vector<std::string> out;
  constexpr const char* places[] = {"source", "result", "scratch"};
  for (const NcclCall& call : transfer.calls) {
    const bool sends = call.kind == NcclCall::Kind::send;
    const codegen::cuda::Spot& spot = sends ? call.from : call.to;
    out.push_back(fmt::format("{} {} {} {} {} + {}", call.count, sends ? "to" : "from", call.peer,
                              sends ? "from" : "into", places[int(spot.kind)], spot.offset));
  }
  return out;
}

TEST(HaloTransfer, RowsInOnePieceGoFromAndToTheirPlaces) {
  const Exchange e = exchange(1, 10, {0, 3, 4, 4, 8}, 2, 2);
  EXPECT_THAT(calls_of(transfer_of(e, 0)), ElementsAre("20 to 1 from source + 10", "10 from 1 into result + 30",
                                                       "10 to 3 from source + 20", "10 from 3 into result + 40"));
  EXPECT_THAT(calls_of(transfer_of(e, 1)), ElementsAre("10 to 0 from source + 0", "20 from 0 into result + 0",
                                                       "10 to 3 from source + 0", "20 from 3 into result + 30"));
  EXPECT_THAT(calls_of(transfer_of(e, 2)), ElementsAre());
  EXPECT_THAT(calls_of(transfer_of(e, 3)), ElementsAre("10 to 0 from source + 0", "10 from 0 into result + 0",
                                                       "20 to 1 from source + 0", "10 from 1 into result + 10"));
  const Transfer middle = transfer_of(e, 1);
  ASSERT_EQ(middle.copies_before.size(), 1u);
  EXPECT_EQ(middle.copies_before[0].to.offset, 20);
  EXPECT_EQ(middle.copies_before[0].count, 10);
  EXPECT_TRUE(middle.pack.empty() && middle.unpack.empty() && middle.scratch.empty());
}

TEST(HaloTransfer, OtherRowsArePackedRankByRank) {
  const Transfer t = transfer_of(exchange(5, 10, {0, 3, 4, 4, 8}, 2, 2), 1);
  EXPECT_THAT(calls_of(t), ElementsAre("50 to 0 from scratch + 0", "100 from 0 into scratch + 0",
                                       "50 to 3 from scratch + 50", "100 from 3 into scratch + 100"));
  ASSERT_EQ(t.pack.size(), 1u);
  // The one row goes to both sides.
  EXPECT_THAT(t.pack[0].pieces.parts, ElementsAre(Range{0, 1}, Range{0, 1}));
  ASSERT_EQ(t.unpack.size(), 1u);
  EXPECT_THAT(t.unpack[0].pieces.bounds, ElementsAre(0, 2, 3, 3, 5));
  EXPECT_EQ(t.unpack[0].pieces.own, 1);
  EXPECT_TRUE(t.copies_before.empty());
}

TEST(HaloTransfer, NobodyIsSentWhatNobodyWants) {
  const Exchange after = exchange(5, 10, {0, 3, 8}, 0, 2);
  EXPECT_THAT(calls_of(transfer_of(after, 0)), ElementsAre("100 from 1 into scratch + 0"));
  const Transfer last = transfer_of(after, 1);
  EXPECT_THAT(calls_of(last), ElementsAre("100 to 0 from scratch + 0"));
  // The last one only gives, and has its own part as its result.
  EXPECT_TRUE(last.unpack.empty());
  ASSERT_EQ(last.copies_before.size(), 1u);
  EXPECT_EQ(last.copies_before[0].count, 5 * 5 * 10);
  const Transfer alone = transfer_of(exchange(5, 10, {0, 0, 8, 8}, 1, 1), 1);
  EXPECT_TRUE(alone.calls.empty() && alone.pack.empty() && alone.unpack.empty());
  ASSERT_EQ(alone.copies_before.size(), 1u);
}

// ---- its text ----

/// The lines from the first that contains `from` to the next that contains `to`.
std::string excerpt(const std::string& text, const std::string& from, const std::string& to) {
  const size_t found = text.find(from);
  if (found == std::string::npos) return "no " + from;
  const size_t begin = text.rfind('\n', found) + 1, end = text.find('\n', text.find(to, found) + 1);
  return text.substr(begin, end + 1 - begin);
}

/// q = sum(t) and the rows of x travel in one group, as gradients of a bucket do.
TEST(CudaHaloText, ExchangesShareAGroupWithOtherCollectives) {
  Trace trace("rows.cpp");
  run_builder(trace, [&] {
    const auto here = std::source_location::current();
    Tensor t = Trace::current().add_leaf(NodeKind::input, "t", {{1, 1, 8, 2}, DType::f32}, here);
    Tensor x = Trace::current().add_leaf(NodeKind::input, "x", {{2, 3, 8, 6}, DType::f32}, here);
    Tensor q = sum(t);
    Tensor y = conv2d(x, parameter("w", {2, 3, 3, 3}, normal(0.5)), {.padding = 1}) * q;
    output("y", y);
    minimize(mean(y), SGD{.learning_rate = 0.1, .momentum = 0});
  });
  const Program reference = differentiate(trace);
  BucketedProgram bucketed{test::divided_by_rows(reference, {0, 1, 5, 8}), {}};
  const std::vector<Instruction>& instructions = bucketed.program.instructions;
  const auto halo = std::ranges::find(instructions, Opcode::halo_exchange, &Instruction::opcode);
  const auto sum = std::ranges::find(instructions, Opcode::all_reduce, &Instruction::opcode);
  ASSERT_TRUE(halo != instructions.end() && sum + 1 == halo) << text(bucketed.program, reference);
  bucketed.bucket_of.assign(instructions.size(), -1);
  for (const auto& member : {sum, halo}) bucketed.bucket_of[size_t(member - instructions.begin())] = 0;
  const Cluster cluster = gpus_for(bucketed.program);
  std::vector<DeviceProgram> programs;
  for (int rank = 0; rank < 3; ++rank) {
    codegen::cuda::DeviceSchedule schedule = codegen::cuda::schedule(reference, bucketed, cluster, rank, {});
    DeviceProgram device = codegen::describe(schedule.lowered, cluster);
    device.files = {{fmt::format("rank{}_host.cpp", rank), codegen::cuda::host_text(schedule, cluster)},
                    {fmt::format("rank{}_kernels.cu", rank), codegen::cuda::kernels_text(schedule, cluster)}};
    programs.push_back(std::move(device));
  }
  EXPECT_THAT(excerpt(programs[1].files[0].text, "if (ncclGroupStart", "if (ncclGroupEnd"),
              AllOf(HasSubstr("ncclAllReduce"), HasSubstr("ncclSend"), HasSubstr("ncclRecv")));
  EXPECT_EQ(problem_of(reference, bucketed.program, cluster, std::move(programs)), "");
}

TEST(CudaHaloText, OfOneExchange) {
  const Program reference = test::convolution_of_rows(2, 3);
  const SpmdProgram plan = test::divided_by_rows(reference, {0, 1, 4, 8});
  const DeviceProgram device = generate(reference, plan, gpus_for(plan), 1);
  const std::string &host = device.files.at(0).text, &kernels = device.files.at(1).text;
  testing::expect_golden("cuda_halo.cpp", excerpt(host, "// halo_exchange", "communication_stream)) return 1;\n\n") +
                                              "\n" + excerpt(kernels, "// packs", "\n}") + "\n" +
                                              excerpt(kernels, "// unpacks", "\n}"));
}

// ---- faults: the doubles that the tests above rely on find them ----

TEST(CudaHaloFaults, AreFound) {
  struct Fault {
    size_t file;
    std::string from, to, found;
  };
  const Fault faults[] = {
      {1, "start = 36, first = 4", "start = 0, first = 4", "instead of"},
      {1, "start = 36, first = 2, last = 3", "start = 36, first = 1, last = 2", "instead of"},
      {1, "column >= 1 && column < 4 ?", "column >= 1 && column < 3 ?", "instead of"},
      {0, ", 36, nccl_float32, 2,", ", 35, nccl_float32, 2,", "rule 3"},
      {0, "if (hetsynth_wait(context, 1, compute_stream)) return 1;", "", "race"},
  };
  const Program reference = test::convolution_of_rows(2, 3);
  const SpmdProgram plan = test::divided_by_rows(reference, {0, 1, 4, 8});
  const Cluster cluster = gpus_for(plan);
  for (const Fault& fault : faults) {
    std::vector<DeviceProgram> programs;
    for (int rank = 0; rank < 3; ++rank) programs.push_back(generate(reference, plan, cluster, rank));
    std::string& text = programs[1].files[fault.file].text;
    const size_t at = text.find(fault.from);
    ASSERT_NE(at, std::string::npos) << fault.from;
    text.replace(at, fault.from.size(), fault.to);
    const std::string problem = problem_of(reference, plan, cluster, std::move(programs));
    EXPECT_NE(problem, "") << fault.from;
    EXPECT_THAT(problem, HasSubstr(fault.found));
  }
}

}  // namespace
}  // namespace hetsynth::testing_support
