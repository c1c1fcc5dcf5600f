// Seeded faults in generated CUDA programs: each must be found by the doubles that the other tests rely on.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "codegen/cuda/kernels/prelude.h"
#include "cuda_programs.h"
#include "dsl/ir/trace.h"
#include "dsl/transform/differentiate.h"
#include "hetsynth/hetsynth.h"
#include "synth/planner/synthesize.h"
#include "tests/support/cuda/cuda_cluster.h"

namespace hetsynth::testing_support {
namespace {

using ::testing::HasSubstr;

/// Replaces the first occurrence; the text must have one.
void replace(std::string& text, const std::string& from, const std::string& to) {
  size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from << " is not in\n" << text;
  text.replace(at, from.size(), to);
}

/// x [5,6] cut by rows over three ranks, doubled, gathered whole by grouped broadcasts, and its sum reduced.
struct Gathered {
  Program reference;
  SpmdProgram program;
};

class TestOperator : public Operator {
 public:
  std::string_view tag() const override { return "double"; }
  TensorType infer(std::span<const TensorType> inputs) const override { return inputs[0]; }
  Space space(std::span<const TensorType>, const TensorType& output) const override {
    Space space;
    space.add_factor("i", output.shape[0], FactorKind::parallel);
    space.add_factor("j", output.shape[1], FactorKind::parallel);
    space.inputs = {Access{{index_by(0), index_by(1)}}};
    space.output = space.inputs[0];
    return space;
  }
  Expr body(std::span<const TensorType>, const TensorType&) const override { return Expr::input(0) + Expr::input(0); }
  std::vector<Tensor> vjp(const VjpArguments&) const override { return {}; }
};

Node operation(const std::string& name, NodeId id, NodeId input, const TensorType& type) {
  Node node;
  node.id = id;
  node.name = name;
  node.type = type;
  node.op = std::make_shared<TestOperator>();
  node.inputs = {input};
  node.space = node.op->space({}, type);
  node.body = node.op->body({}, type);
  return node;
}

Gathered gathered_program() {
  Gathered out;
  TensorType type{{5, 6}, DType::f32};
  Node x;
  x.id = 0;
  x.kind = NodeKind::input;
  x.name = "x";
  x.type = type;
  out.reference.nodes = {x, operation("y", 1, 0, type), operation("z", 2, 1, type)};
  out.reference.outputs = {{"z", 2}};
  SpmdProgram& p = out.program;
  p.mesh.axes = {{"dp", 3}};
  p.tables = {{"rows", 0, 5, {0, 1, 3, 5}}};
  p.values = {{"x@S", 0, {Placement::sharded(0, 0)}},
              {"y@S", 1, {Placement::sharded(0, 0)}},
              {"y@R", 1, {Placement::replicated()}},
              {"z@R", 2, {Placement::replicated()}}};
  p.leaves = {0};
  Instruction y, gather, z;
  y.node = 1, y.operands = {0}, y.result = 1, y.splits = {Split{0, 0}};
  gather.opcode = Opcode::all_gather, gather.operands = {1}, gather.result = 2, gather.axis = 0, gather.dim = 0,
  gather.table = 0;
  z.node = 2, z.operands = {2}, z.result = 3, z.splits = {Split{}};
  p.instructions = {y, gather, z};
  return out;
}

/// What is wrong with a step, under either order of the streams: an error's text, or a wrong element; "" if nothing.
std::string run(const std::function<void(std::vector<DeviceProgram>&)>& mutate) {
  Gathered g = gathered_program();
  const Cluster devices = cuda_cluster({1, 2, 2});
  std::vector<DeviceProgram> ranks;
  for (int rank = 0; rank < 3; ++rank) ranks.push_back(generate(g.reference, g.program, devices, rank));
  mutate(ranks);
  CudaCluster cluster(g.reference, g.program, devices, std::move(ranks));
  Array x(Shape{5, 6});
  for (size_t i = 0; i < x.values.size(); ++i) x.values[i] = double(i) + 1;
  cluster.write_leaf(0, x);
  try {
    for (Eager eager : {Eager::compute, Eager::communication}) {
      cluster.step(0, eager);
      Array z = cluster.read(2);
      for (size_t i = 0; i < z.values.size(); ++i)
        if (!(z.values[i] == 4 * x.values[i])) return fmt::format("element {}: {}", i, z.values[i]);
    }
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

struct Mutation {
  std::string name, from, to, found;
};

std::ostream& operator<<(std::ostream& out, const Mutation& m) { return out << m.name; }

class CudaMutation : public ::testing::TestWithParam<Mutation> {};

TEST_P(CudaMutation, IsFound) {
  const Mutation& m = GetParam();
  std::string problem = run([&](std::vector<DeviceProgram>& ranks) { replace(ranks[1].files[0].text, m.from, m.to); });
  EXPECT_THAT(problem, HasSubstr(m.found));
  EXPECT_NE(problem, "");
}

const Mutation mutations[] = {
    {"compute_does_not_wait", "if (hetsynth_wait(context, 1, compute_stream)) return 1;", "", "race"},
    {"communication_does_not_wait", "|| hetsynth_wait(context, 0, communication_stream)", "", "race"},
    {"event_is_never_recorded", "if (hetsynth_record(context, 1, communication_stream)) return 1;", "", "race"},
    {"group_is_not_ended", "if (ncclGroupEnd()) return 1;", "", "group"},
    {"wrong_count", ", 12, nccl_float32, 1,", ", 11, nccl_float32, 1,", "issues broadcast 11"},
    {"wrong_root", ", 12, nccl_float32, 1,", ", 12, nccl_float32, 0,", "peer 0"},
    {"wrong_type", ", 12, nccl_float32, 1,", ", 12, nccl_int32, 1,", "i32"},
    {"wrong_offset", "y_gathered + 6, 12", "y_gathered + 7, 12", "different values"},
    {"collective_is_skipped", "if (ncclBroadcast(", "if (0 && ncclBroadcast(", "collectives"},
    {"wrong_stream", "context->communication_stream)", "context->stream)", "rule 5"},
    {"outside_of_the_arena", "y_gathered + 6, 12", "y_gathered + 6000, 12", "outside of every allocation"},
};

INSTANTIATE_TEST_SUITE_P(Host, CudaMutation, ::testing::ValuesIn(mutations),
                         [](const auto& info) { return info.param.name; });

TEST(CudaMutation, TheUnchangedProgramIsRight) {
  EXPECT_EQ(run([](std::vector<DeviceProgram>&) {}), "");
}

// ---- barriers of the prelude ----

/// Whether block-wide sums come out right in both orders of turns.
bool block_sums_hold(const std::string& prelude) {
  std::string text = prelude +
                     "extern \"C\" __global__ void sums(const float* x, float* y) {\n"
                     "  y[threadIdx.x] = block_sum(x[threadIdx.x]);\n"
                     "  y[threadIdx.x] += block_sum(2.0f * x[threadIdx.x]);\n}\n";
  EmulatedKernels kernels(text, {"sums"});
  bool right = true;
  for (Turns turns : {Turns::forward, Turns::reversed}) {
    std::vector<float> x(96), y(96);
    float sum = 0;
    for (size_t i = 0; i < x.size(); ++i) sum += x[i] = float(i);
    const float* from = x.data();
    float* to = y.data();
    void* arguments[] = {&from, &to};
    kernels.launch(0, 1, 96, arguments, turns);
    for (float value : y) right = right && value == 3 * sum;
  }
  return right;
}

TEST(CudaPrelude, BlockSumNeedsBothBarriers) {
  std::string prelude(codegen::cuda::prelude());
  EXPECT_TRUE(block_sums_hold(prelude));
  size_t sum = prelude.find("float block_sum("), first = prelude.find("__syncthreads();", sum),
         second = prelude.find("__syncthreads();", first + 1);
  std::string without_first = prelude, without_second = prelude;
  without_first.erase(first, 16);
  without_second.erase(second, 16);
  EXPECT_FALSE(block_sums_hold(without_first));
  EXPECT_FALSE(block_sums_hold(without_second));
}

// ---- barriers of attention ----

void attention_model() {
  Tensor x = parameter("x", {70, 8}, normal(1.0));
  Tensor q = matmul(x, parameter("wq", {8, 8}, normal(0.5))), k = matmul(x, parameter("wk", {8, 8}, normal(0.5)));
  Tensor v = matmul(x, parameter("wv", {8, 8}, normal(0.5)));
  Tensor weights = softmax(causal_mask(einsum("td,sd->ts", q, k)), -1);
  Tensor mixed = einsum("ts,sd->td", weights, v);
  minimize(mean(mixed * mixed), SGD{.learning_rate = 1.0});
}

/// Parameters after a step under every order of turns, or the message of what was noticed.
std::string after_a_step(const Program& reference, const Plan& plan, const Cluster& cluster,
                         const DeviceProgram& device) {
  std::string out;
  for (Turns turns : {Turns::forward, Turns::reversed, Turns::shuffled}) try {
      CudaCluster gpu(reference, plan.program, cluster, std::vector<DeviceProgram>{device});
      gpu.step(0, Eager::compute, turns);
      for (const Update& update : reference.updates) {
        const Array found = gpu.read(update.target);
        out.append(reinterpret_cast<const char*>(found.values.data()), found.values.size() * sizeof(double));
      }
    } catch (const std::exception& error) {
      out += error.what();
    }
  return out;
}

TEST(CudaAttention, EveryBarrierIsNeeded) {
  Trace trace("attention.cpp");
  run_builder(trace, attention_model);
  const Program reference = differentiate(trace);
  const Cluster cluster = cuda_cluster({1});
  const Plan plan = single_device_plan(reference, cluster);
  const DeviceProgram device = generate(reference, plan.program, cluster, 0);
  const std::string right = after_a_step(reference, plan, cluster, device), barrier = "__syncthreads();";
  ASSERT_EQ(right.substr(0, right.size() / 3), right.substr(right.size() / 3, right.size() / 3))
      << "the order of turns makes no difference";
  const std::string& text = device.files.at(1).text;
  int tried = 0;
  for (size_t at = text.find(barrier, text.find(" attention_")); at != std::string::npos;
       at = text.find(barrier, at + 1)) {
    const size_t head = text.rfind("__global__", at);
    if (text.compare(text.find(") ", head) + 2, 10, "attention_") != 0) continue;
    DeviceProgram mutant = device;
    mutant.files.at(1).text.erase(at, barrier.size());
    EXPECT_NE(after_a_step(reference, plan, cluster, mutant), right) << text.substr(at - 300, 400);
    ++tried;
  }
  EXPECT_EQ(tried, 10) << "four forward, three by rows and three by columns";
}

TEST(CudaEmulator, ThreadsThatDoNotMeetAreAnError) {
  EmulatedKernels kernels(
      "extern \"C\" __global__ void partly(float* y) {\n  if (threadIdx.x < 5) __syncthreads();\n  y[threadIdx.x] = "
      "1;\n}\n",
      {"partly"});
  std::vector<float> y(32);
  float* to = y.data();
  void* arguments[] = {&to};
  EXPECT_THROW(kernels.launch(0, 1, 32, arguments, Turns::forward), std::runtime_error);
}

}  // namespace
}  // namespace hetsynth::testing_support
