// The generated source of a small program on the second of two ranks, as people see it. HETSYNTH_UPDATE_GOLDEN=1 writes
// it anew.
#include "tests/support/golden.h"

#include <gtest/gtest.h>

#include "codegen/interface/device_program.h"
#include "dsl/transform/differentiate.h"
#include "harness.h"
#include "hetsynth/hetsynth.h"
#include "synth/planner/synthesize.h"

namespace hetsynth::test {
namespace {

Tensor called(const char* name, Tensor tensor, std::source_location where = std::source_location::current()) {
  return named(tensor, name, where.file_name(), int(where.line()), 0);
}

// Lines of the model as if it were a file of its own, so that edits of this test do not move them.
#line 1 "small.cpp"
void model() {
  auto [bytes, next] = text_next_byte(6, 2);
  Tensor table = parameter("table", {256, 4}, normal(0.1));
  Tensor x = called("x", reshape(embedding(table, bytes), {6, 8}));
  Tensor h = called("h", gelu(matmul(x, parameter("w1", {8, 16}, normal(0.1)))));
  Tensor logits = called("logits", matmul(h, parameter("w2", {16, 256}, normal(0.1))));
  Tensor loss = called("loss", cross_entropy(logits, next));
  minimize(loss, SGD{});
}
#line 36 "golden_test.cpp"

Program small_model() {
  Trace trace("small.cpp");
  run_builder(trace, model);
  return differentiate(trace);
}

TEST(Golden, SourceOfTheSecondRank) {
  Program program = small_model();
  Cluster cluster = cpu_cluster(2);
  for (Device& device : cluster.devices) device.memory_bytes = int64_t(1) << 30;
  for (int i : {0, 1}) cluster.devices[i].declared = {i == 0 ? 1e9 : 3e9, 1e10};
  cluster.hosts[0].inside = {10e9, 1e-6};
  SpmdProgram plan = data_parallel_plan(program, cluster, RatioRule::proportional).program;
  testing::expect_golden("generated_cpu.txt", generate(program, plan, cluster, 1).files[0].text);
}

}  // namespace
}  // namespace hetsynth::test
