// Products without some of their columns: numbers of single calls against float64, and what becomes of training.
#include "runtime/rank/left_out.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <set>

#include "codegen/interface/abi.h"
#include "dsl/ir/trace.h"
#include "dsl/transform/differentiate.h"
#include "hetsynth/hetsynth.h"
#include "runtime/launch.h"
#include "runtime/rank/half.h"
#include "tests/runtime/models.h"
#include "tests/runtime/plans.h"
#include "tests/runtime/temporary_folder.h"

namespace hetsynth {
namespace {

using namespace testing;  // NOLINT: fixtures of this folder

/// A matrix of the batch by its strides in elements, with gaps that nothing may write to.
struct Matrices {
  int64_t batch, row, column;
  std::vector<float> values;

  Matrices(int64_t batches, int64_t rows, int64_t columns, std::mt19937& random) {
    const int64_t gap = random() % 2;
    const bool by_rows = random() % 2 == 0;
    row = by_rows ? columns + gap : 1;
    column = by_rows ? 1 : rows + gap;
    batch = by_rows ? rows * row : columns * column;
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (int64_t i = 0; i < batches * batch; ++i) values.push_back(uniform(random));
  }
  int64_t at(int64_t b, int64_t i, int64_t j) const { return b * batch + i * row + j * column; }
};

/// A program of one product whose dimension `dim` has columns `first`, `first + 1`, ..., each `inner` times.
DeviceProgram program_of(ColumnProduct::Dim dim, int64_t first, int64_t count, int64_t inner) {
  DeviceProgram out;
  out.marks.resize(2);
  out.column_products = {{.mark = 1,
                          .set = 0,
                          .dim = dim,
                          .first = first,
                          .count = count,
                          .inner = inner,
                          .weight = 1,
                          .sums_forward = dim == ColumnProduct::Dim::sum}};
  out.column_sets = {first + count};
  return out;
}

constexpr int64_t steps_to_know = 11;

/// Steps after which something is left out.
void let_it_know(LeftOutColumns& left) {
  for (int64_t step = 0; step < steps_to_know; ++step) {
    left.begin_step();
    left.end_step();
  }
}

TEST(LeftOut, AProductIsThatOfTheColumnsThatAreKept) {
  std::mt19937 random(7);
  int left_out_somewhere = 0;
  for (int round = 0; round < 200; ++round) {
    const auto dim = ColumnProduct::Dim(random() % 3);
    const int64_t count = 10 + int64_t(random() % 90), inner = 1 + int64_t(random() % 3), repeated = 1 + random() % 2;
    const int64_t columns = count * inner * repeated, first = random() % 5;
    const int64_t batch = 1 + random() % 3;
    int64_t m = 4 + random() % 9, n = 4 + random() % 9, k = 2 + random() % 9;
    (dim == ColumnProduct::Dim::row ? m : dim == ColumnProduct::Dim::column ? n : k) = columns;
    Matrices a(batch, m, k, random), w(batch, k, n, random), c(batch, m, n, random);
    const bool accumulate = random() % 2, is_half = random() % 4 == 0;
    const DeviceProgram program = program_of(dim, first, count, inner);
    LeftOutColumns left(program);
    let_it_know(left);
    left.leave_out(std::vector{0.1, 0.5, 0.9}[random() % 3]);
    left.begin_step();
    const auto kept = [&](int64_t index) { return left.keeps(0, first + index / inner % count); };
    std::vector<uint16_t> half_a, half_w;
    if (is_half)
      for (auto [floats, halves] : {std::pair(&a.values, &half_a), std::pair(&w.values, &half_w)})
        for (float& value : *floats) {
          halves->push_back(Bf16(value).bits);
          value = float(Bf16(value));
        }
    std::vector<double> expected(c.values.begin(), c.values.end());
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
          double sum = 0;
          const bool is_there =
              (dim != ColumnProduct::Dim::row || kept(i)) && (dim != ColumnProduct::Dim::column || kept(j));
          left_out_somewhere += !is_there;
          for (int64_t t = 0; t < k && is_there; ++t)
            if (dim != ColumnProduct::Dim::sum || kept(t))
              sum += double(a.values[size_t(a.at(b, i, t))]) * double(w.values[size_t(w.at(b, t, j))]);
          double& element = expected[size_t(c.at(b, i, j))];
          element = (accumulate ? element : 0) + sum;
        }
    HetsynthContext context{};
    hetsynth_mark(&context, 1, 0);
    if (is_half)
      hetsynth_matmul_bf16(batch, m, n, k, half_a.data(), a.batch, a.row, a.column, half_w.data(), w.batch, w.row,
                           w.column, c.values.data(), c.batch, c.row, c.column, accumulate);
    else
      hetsynth_matmul(batch, m, n, k, a.values.data(), a.batch, a.row, a.column, w.values.data(), w.batch, w.row,
                      w.column, c.values.data(), c.batch, c.row, c.column, accumulate);
    left.end_step();
    // Terms are below 1: roundings of a sum of float32.
    for (size_t i = 0; i < expected.size(); ++i)
      ASSERT_NEAR(c.values[i], expected[i], 1e-6 * double(k + 1)) << "round " << round << " element " << i;
    EXPECT_GT(left.work().left_out_flops, 0);
    EXPECT_LT(left.work().left_out_flops, left.work().flops);
  }
  EXPECT_GT(left_out_somewhere, 0);
}

TEST(LeftOut, OtherCallsAreAsTheyAre) {
  const DeviceProgram program = program_of(ColumnProduct::Dim::sum, 0, 8, 1);
  LeftOutColumns left(program);
  let_it_know(left);
  left.leave_out(0.5);
  left.begin_step();
  const std::vector<float> ones(64, 1);
  std::vector<float> c(64);
  HetsynthContext context{};
  hetsynth_mark(&context, 0, 0);
  hetsynth_matmul(1, 8, 8, 8, ones.data(), 0, 8, 1, ones.data(), 0, 8, 1, c.data(), 0, 8, 1, 0);
  EXPECT_THAT(c, ::testing::Each(8.0f));
  hetsynth_mark(&context, 1, 0);
  hetsynth_matmul(1, 8, 8, 8, ones.data(), 0, 8, 1, ones.data(), 0, 8, 1, c.data(), 0, 8, 1, 0);
  EXPECT_THAT(c, ::testing::Each(4.0f));
  left.end_step();
  hetsynth_matmul(1, 8, 8, 8, ones.data(), 0, 8, 1, ones.data(), 0, 8, 1, c.data(), 0, 8, 1, 0);
  EXPECT_THAT(c, ::testing::Each(8.0f));
}

TEST(LeftOut, WhatChangedLeastIsLeftOutAndStaysSo) {
  const DeviceProgram program = program_of(ColumnProduct::Dim::sum, 0, 8, 1);
  LeftOutColumns left(program);
  std::vector<float> x(64, 1), w(64, 1), c(64);
  HetsynthContext context{};
  /// Steps in which the weights of these two columns change less than others.
  const auto steps = [&](int64_t count, std::set<int64_t> still) {
    for (int64_t step = 0; step < count; ++step) {
      left.begin_step();
      hetsynth_mark(&context, 1, 0);
      hetsynth_matmul(1, 8, 8, 8, x.data(), 0, 8, 1, w.data(), 0, 8, 1, c.data(), 0, 8, 1, 0);
      left.end_step();
      for (int64_t i = 0; i < 64; ++i) w[size_t(i)] += still.contains(i / 8) ? 0.001f : 1.0f;
    }
  };
  const auto left_out = [&] {
    std::set<int64_t> out;
    for (int64_t column = 0; column < 8; ++column)
      if (!left.keeps(0, column)) out.insert(column);
    return out;
  };
  left.leave_out(0.25);
  steps(steps_to_know, {2, 5});
  EXPECT_THAT(left_out(), ::testing::IsEmpty()) << "it is not known yet which";
  steps(1, {2, 5});
  EXPECT_EQ(left_out(), (std::set<int64_t>{2, 5}));
  steps(400, {0, 1});
  EXPECT_EQ(left_out(), (std::set<int64_t>{2, 5})) << "it stays so";
  left.leave_out(0.125);
  steps(1, {0, 1});
  EXPECT_EQ(left_out().size(), 1u);
  EXPECT_TRUE(left_out().contains(2) || left_out().contains(5)) << "of the same";
  left.leave_out(0);
  steps(steps_to_know, {0, 1});
  EXPECT_THAT(left_out(), ::testing::IsEmpty());
  left.leave_out(0.25);
  steps(1, {0, 1});
  EXPECT_EQ(left_out(), (std::set<int64_t>{0, 1})) << "it is found anew";
}

std::unique_ptr<BatchSource> data_of(const Program& program) {
  static const TemporaryFolder folder;
  const bool reads_text = std::ranges::any_of(program.nodes, [](const Node& node) {
    return node.kind == NodeKind::input && node.data.kind == DataSource::Kind::text_tokens;
  });
  if (reads_text) {
    std::string text;
    for (int i = 0; i < 3000; ++i) text += "the quick brown fox jumps over the lazy dog. "[(i * i / 7) % 45];
    folder.write("text", text);
  }
  return open_data(program, {.path = reads_text ? folder.path("text") : "", .seed = 3});
}

struct Training {
  Training(const Program& program, const Plan& plan, const Cluster& cluster, bool may_leave_out)
      : executor(launch(
            program, plan.program, cluster,
            {.executor = {.seed = 3, .threads = {1, false}, .may_leave_out = may_leave_out}, .optimization = 0})),
        data(data_of(program)) {}
  double step(int64_t number) { return executor->step(number, *data).loss; }
  std::unique_ptr<Executor> executor;
  std::unique_ptr<BatchSource> data;
};

std::map<NodeId, std::vector<std::byte>> kept_by(const Executor& executor) {
  std::map<NodeId, std::vector<std::byte>> out;
  for (const Node& node : executor.reference().nodes)
    if (is_kept(node)) out[node.id] = executor.read(node.id).bytes;
  return out;
}

/// Steps without anything left out are, to the bit, those of a run that cannot leave anything out, before and after
/// those that do: when a device is fast again nothing stays of it but what was trained.
TEST(LeftOut, StepsThatLeaveNothingOutAreAsEver) {
  for (const Program& program : {small_mlp(), small_gpt(), small_recurrent()}) {
    const Cluster cluster = cpu_cluster({2, 1});
    for (uint64_t seed = 1; seed <= 2; ++seed) {
      const Plan plan = random_plan(program, cluster, {0.6, 0.4}, seed);
      Training plain(program, plan, cluster, false), lossy(program, plan, cluster, true);
      int64_t step = 0;
      for (; step < steps_to_know; ++step) EXPECT_EQ(plain.step(step), lossy.step(step));
      EXPECT_EQ(kept_by(*plain.executor), kept_by(*lossy.executor));
      lossy.executor->leave_out({0, 0.5});
      for (int i = 0; i < 3; ++i) lossy.step(step++);
      EXPECT_NE(kept_by(*plain.executor), kept_by(*lossy.executor));
      lossy.executor->leave_out({0, 0});
      copy_parameters(*lossy.executor, *plain.executor);
      for (int i = 0; i < 3; ++i, ++step) EXPECT_EQ(plain.step(step), lossy.step(step));
      EXPECT_EQ(kept_by(*plain.executor), kept_by(*lossy.executor));
    }
  }
}

/// A step without columns is that of a model whose weights of these columns are 0, and it leaves them alone.
TEST(LeftOut, AStepIsThatOfAModelWithoutTheColumns) {
  constexpr int64_t inputs = 24, classes = 5;
  Trace trace("model.cpp", {});
  run_builder(trace, [] {
    auto [x, labels] = synthetic_batch(16, inputs, classes);
    minimize(cross_entropy(matmul(x, parameter("w", {inputs, classes}, normal(0.5))), labels),
             SGD{.learning_rate = 0.1, .momentum = 0});
  });
  const Program program = differentiate(trace);
  const Cluster cluster = cpu_cluster({1});
  const Plan plan = random_plan(program, cluster, {1}, 1);
  Training lossy(program, plan, cluster, true), zeroed(program, plan, cluster, false);
  const NodeId w = std::ranges::find(program.nodes, "w", &Node::name)->id;
  const auto weights = [&](const Executor& executor) {
    const HostTensor value = executor.read(w);
    const auto* const first = reinterpret_cast<const float*>(value.bytes.data());
    return std::vector<float>(first, first + inputs * classes);
  };
  for (int64_t step = 0; step < steps_to_know; ++step) lossy.step(step);
  const std::vector<float> before = weights(*lossy.executor);
  HostTensor without = lossy.executor->read(w);
  lossy.executor->leave_out({0.5});
  const double loss = lossy.step(steps_to_know);
  const std::vector<float> after = weights(*lossy.executor);
  auto* const values = reinterpret_cast<float*>(without.bytes.data());
  std::vector<bool> left_out;
  for (int64_t row = 0; row < inputs; ++row) {
    bool same = true;
    for (int64_t j = row * classes; j < (row + 1) * classes; ++j) same = same && before[size_t(j)] == after[size_t(j)];
    left_out.push_back(same);
    if (same) std::fill_n(values + row * classes, classes, 0.0f);
  }
  EXPECT_EQ(std::ranges::count(left_out, true), inputs / 2);
  zeroed.executor->write(w, without);
  EXPECT_NEAR(zeroed.step(steps_to_know), loss, 1e-6);
  const std::vector<float> expected = weights(*zeroed.executor);
  for (int64_t i = 0; i < inputs * classes; ++i)
    if (!left_out[size_t(i / classes)]) {
      EXPECT_NEAR(after[size_t(i)], expected[size_t(i)], 1e-6) << i;
    }
}

TEST(LeftOut, AStepTellsHowMuch) {
  const Program program = small_gpt();
  const Cluster cluster = cpu_cluster({1, 1});
  Training run(program, split_plan(program, cluster, "wte", 1, {0.5, 0.5}), cluster, true);
  for (int64_t step = 0; step < steps_to_know; ++step) EXPECT_EQ(run.executor->step(step, *run.data).left_out(), 0);
  run.executor->leave_out({0, 0.5});
  const StepReport report = run.executor->step(steps_to_know, *run.data);
  const auto part = [&](size_t rank) {
    return report.ranks[rank].columns.left_out_flops / report.ranks[rank].columns.flops;
  };
  EXPECT_EQ(part(0), 0);
  EXPECT_NEAR(part(1), 0.5, 0.1);
  EXPECT_GT(report.left_out(), 0.1);
  EXPECT_LT(report.left_out(), 0.4);
  EXPECT_TRUE(std::isfinite(report.loss));
}

}  // namespace
}  // namespace hetsynth
