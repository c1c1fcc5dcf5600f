// Transfers of cuda devices begin when what they read is made, not when the program comes to them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <source_location>

#include "codegen/cuda/host/device_schedule.h"
#include "codegen/cuda/host/host_text.h"
#include "cuda_programs.h"
#include "dsl/ir/trace.h"
#include "dsl/transform/differentiate.h"
#include "hetsynth/hetsynth.h"
#include "tests/support/cuda/cuda_cluster.h"

namespace hetsynth::testing_support {
namespace {

using codegen::cuda::DeviceSchedule;
using codegen::cuda::ScheduledStep;
using ::testing::HasSubstr;

/// y = tanh(x) by rows; then w, which lies in shares, is gathered, and z = exp(w) is computed whole.
struct Example {
  Program reference;
  SpmdProgram program;
  BucketedProgram alone;
  NodeId x = -1, w = -1, y = -1, z = -1;

  Example() {
    Trace trace("ahead.cpp");
    run_builder(trace, [&] {
      const auto here = std::source_location::current();
      Tensor in = Trace::current().add_leaf(NodeKind::input, "x", {{6, 4}, DType::f32}, here);
      Tensor weight = Trace::current().add_leaf(NodeKind::input, "w", {{6, 5}, DType::f32}, here);
      Tensor first = tanh(in), second = exp(weight);
      output("y", first);
      output("z", second);
      x = in.node(), w = weight.node(), y = first.node(), z = second.node();
    });
    reference = trace.program;
    SpmdProgram& p = program;
    p.mesh.axes = {{"dp", 2}};
    p.tables = {{"rows", 0, 6, {0, 2, 6}}};
    p.values = {{"x@S", x, {Placement::sharded(0, 0)}},
                {"w@S", w, {Placement::sharded(0, 0)}},
                {"y@S", y, {Placement::sharded(0, 0)}},
                {"w@R", w, {Placement::replicated()}},
                {"z@R", z, {Placement::replicated()}}};
    p.leaves = {0, 1};
    Instruction make, gather, use;
    make.node = y, make.operands = {0}, make.result = 2, make.splits = {Split{0, 0}};
    gather.opcode = Opcode::all_gather, gather.operands = {1}, gather.result = 3, gather.axis = 0, gather.dim = 0,
    gather.table = 0;
    use.node = z, use.operands = {3}, use.result = 4, use.splits = {Split{}};
    p.instructions = {make, gather, use};
    alone = without_buckets(p);
  }

  DeviceSchedule schedule(int64_t memory_bytes) const {
    Cluster cluster = cuda_cluster({1, 2});
    for (Device& device : cluster.devices) device.memory_bytes = memory_bytes;
    return codegen::cuda::schedule(reference, alone, cluster, 1, {});
  }
};

int transfer_of(const DeviceSchedule& schedule) {
  const auto at =
      std::ranges::find_if(schedule.steps, [](const ScheduledStep& s) { return !s.step.collectives.empty(); });
  return int(at - schedule.steps.begin());
}

TEST(CudaAhead, AGatherRunsBesideWhatStandsBeforeIt) {
  const Example example;
  const DeviceSchedule schedule = example.schedule(int64_t(1) << 30);
  const int transfer = transfer_of(schedule);
  ASSERT_GT(transfer, 0);
  EXPECT_EQ(schedule.steps[size_t(transfer)].begins, 0);
  const std::string text = codegen::cuda::host_text(schedule, cuda_cluster({1, 2}));
  const size_t recorded = text.find("if (hetsynth_record(context, 0, compute_stream)) return 1;  // what ");
  const size_t computed = text.find("if (launch(context, compute_stream, ");
  const size_t waited = text.find("if (hetsynth_wait(context, 0, communication_stream)) return 1;");
  ASSERT_NE(recorded, std::string::npos) << text;
  EXPECT_LT(recorded, computed);
  EXPECT_LT(computed, waited);
}

/// Where there is no room for its result, it begins at its place.
TEST(CudaAhead, NothingRunsAheadWithoutRoom) {
  const Example example;
  const DeviceSchedule schedule = example.schedule(1);
  const int transfer = transfer_of(schedule);
  EXPECT_EQ(schedule.steps[size_t(transfer)].begins, transfer);
  EXPECT_LE(schedule.lowered.memory.arena_bytes, example.schedule(int64_t(1) << 30).lowered.memory.arena_bytes);
  EXPECT_THAT(codegen::cuda::host_text(schedule, cuda_cluster({1, 2})),
              HasSubstr("if (hetsynth_record(context, 0, compute_stream) || hetsynth_wait(context, 0, "
                        "communication_stream)) return 1;"));
}

TEST(CudaAhead, ValuesAreRightWhicheverStreamGoesAhead) {
  const Example example;
  CudaCluster cluster(example.reference, example.program, cuda_cluster({1, 2}));
  Array x(Shape{6, 4}), w(Shape{6, 5});
  for (size_t i = 0; i < x.values.size(); ++i) x.values[i] = 0.1 * double(i) - 1;
  for (size_t i = 0; i < w.values.size(); ++i) w.values[i] = 0.05 * double(i) - 1;
  cluster.write_leaf(example.x, x);
  cluster.write_leaf(example.w, w);
  for (const Eager eager : {Eager::compute, Eager::communication, Eager::random}) {
    cluster.step(0, eager);
    const Array y = cluster.read(example.y), z = cluster.read(example.z);
    for (size_t i = 0; i < x.values.size(); ++i) EXPECT_NEAR(y.values[i], std::tanh(x.values[i]), 1e-6);
    for (size_t i = 0; i < w.values.size(); ++i) EXPECT_NEAR(z.values[i], std::exp(w.values[i]), 1e-6);
  }
}

}  // namespace
}  // namespace hetsynth::testing_support
