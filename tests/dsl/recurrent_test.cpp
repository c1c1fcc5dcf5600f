// Recurrent cells and layers: values against plain loops, gradients against finite differences, and the rules checked
// on every node that unrolling makes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <functional>

#include "dsl/include/hetsynth/hetsynth.h"
#include "dsl/transform/differentiate.h"
#include "tests/dsl/function_testing.h"
#include "tests/support/error_of.h"

namespace hetsynth {
namespace {

using ::testing::HasSubstr;

constexpr int64_t batch = 2, steps = 3, inputs = 4, hidden = 5;
const std::vector<Shape> lstm_shapes = {{batch, steps, inputs}, {inputs, 4, hidden}, {hidden, 4, hidden}, {4, hidden},
                                        {batch, hidden},        {batch, hidden}};
const std::vector<Shape> gru_shapes = {
    {batch, steps, inputs}, {inputs, 3, hidden}, {hidden, 3, hidden}, {3, hidden}, {hidden}, {batch, hidden}};

LstmWeights lstm_of(const std::vector<Tensor>& in) { return {in[1], in[2], in[3]}; }
GruWeights gru_of(const std::vector<Tensor>& in) { return {in[1], in[2], in[3], in[4]}; }

double logistic_of(double x) { return 1 / (1 + std::exp(-x)); }

/// x [.., features] at a row times weights [features, gates, hidden] at a gate and column.
double product(const Array& x, int64_t row, const Array& w, int64_t gate, int64_t column) {
  const int64_t features = w.shape[0], gates = w.shape[1], columns = w.shape[2];
  double sum = 0;
  for (int64_t f = 0; f < features; ++f)
    sum += x.values[static_cast<size_t>(row * features + f)] *
           w.values[static_cast<size_t>((f * gates + gate) * columns + column)];
  return sum;
}

TEST(Recurrent, LstmComputesItsFormula) {
  const Function f(lstm_shapes, [](const std::vector<Tensor>& in) {
    LstmStates states = lstm_states(in[0], lstm_of(in), {in[4], in[5]});
    return std::vector<Tensor>{states.sequence, states.last.h, states.last.c};
  });
  const std::vector<Array> values = f.run();
  Array h = f.values.at(f.inputs[4]), c = f.values.at(f.inputs[5]);
  const auto leaf = [&](size_t i) -> const Array& { return f.values.at(f.inputs[i]); };
  for (int64_t t = 0; t < steps; ++t) {
    Array next = h;
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t k = 0; k < hidden; ++k) {
        const auto gate = [&](int64_t g) {
          return product(leaf(0), b * steps + t, leaf(1), g, k) + product(h, b, leaf(2), g, k) +
                 leaf(3).values[static_cast<size_t>(g * hidden + k)];
        };
        const auto at = static_cast<size_t>(b * hidden + k);
        c.values[at] = logistic_of(gate(1)) * c.values[at] + logistic_of(gate(0)) * std::tanh(gate(2));
        next.values[at] = logistic_of(gate(3)) * std::tanh(c.values[at]);
        EXPECT_NEAR(values[static_cast<size_t>(f.outputs[0])].values[static_cast<size_t>((b * steps + t) * hidden + k)],
                    next.values[at], 1e-12);
      }
    }
    h = next;
  }
  for (size_t i = 0; i < h.values.size(); ++i) {
    EXPECT_NEAR(values[static_cast<size_t>(f.outputs[1])].values[i], h.values[i], 1e-12);
    EXPECT_NEAR(values[static_cast<size_t>(f.outputs[2])].values[i], c.values[i], 1e-12);
  }
}

TEST(Recurrent, GruComputesItsFormula) {
  const Function f(gru_shapes,
                   [](const std::vector<Tensor>& in) { return std::vector<Tensor>{gru(in[0], gru_of(in), in[5])}; });
  const std::vector<Array> values = f.run();
  Array h = f.values.at(f.inputs[5]);
  const auto leaf = [&](size_t i) -> const Array& { return f.values.at(f.inputs[i]); };
  for (int64_t t = 0; t < steps; ++t) {
    Array next = h;
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t k = 0; k < hidden; ++k) {
        const auto from_input = [&](int64_t g) {
          return product(leaf(0), b * steps + t, leaf(1), g, k) + leaf(3).values[static_cast<size_t>(g * hidden + k)];
        };
        const auto from_state = [&](int64_t g) { return product(h, b, leaf(2), g, k); };
        const double r = logistic_of(from_input(0) + from_state(0)), z = logistic_of(from_input(1) + from_state(1));
        const double n = std::tanh(from_input(2) + r * (from_state(2) + leaf(4).values[static_cast<size_t>(k)]));
        const auto at = static_cast<size_t>(b * hidden + k);
        next.values[at] = (1 - z) * n + z * h.values[at];
        EXPECT_NEAR(values[static_cast<size_t>(f.outputs[0])].values[static_cast<size_t>((b * steps + t) * hidden + k)],
                    next.values[at], 1e-12);
      }
    }
    h = next;
  }
}

std::vector<Shape> first(const std::vector<Shape>& shapes, size_t count) {
  return {shapes.begin(), shapes.begin() + static_cast<std::ptrdiff_t>(count)};
}

TEST(Recurrent, GradientsOfLstmEqualFiniteDifferences) {
  expect_right_gradients({lstm_shapes, [](const std::vector<Tensor>& in) {
                            LstmStates states = lstm_states(in[0], lstm_of(in), {in[4], in[5]});
                            return std::vector<Tensor>{states.sequence, states.last.h, states.last.c};
                          }});
  expect_right_gradients({first(lstm_shapes, 4),
                          [](const std::vector<Tensor>& in) { return std::vector<Tensor>{lstm(in[0], lstm_of(in))}; }});
}

TEST(Recurrent, GradientsOfLstmOfOneStepEqualFiniteDifferences) {
  std::vector<Shape> shapes = lstm_shapes;
  shapes[0] = {batch, 1, inputs};
  expect_right_gradients({shapes, [](const std::vector<Tensor>& in) {
                            return std::vector<Tensor>{lstm(in[0], lstm_of(in), {in[4], in[5]})};
                          }});
}

TEST(Recurrent, GradientsOfGruEqualFiniteDifferences) {
  expect_right_gradients(
      {gru_shapes, [](const std::vector<Tensor>& in) { return std::vector<Tensor>{gru(in[0], gru_of(in), in[5])}; }});
  expect_right_gradients({first(gru_shapes, 5),
                          [](const std::vector<Tensor>& in) { return std::vector<Tensor>{gru(in[0], gru_of(in))}; }});
}

TEST(Recurrent, GradientsOfCellsEqualFiniteDifferences) {
  std::vector<Shape> lstm_cell_shapes = lstm_shapes, gru_cell_shapes = gru_shapes;
  lstm_cell_shapes[0] = gru_cell_shapes[0] = {batch, inputs};
  expect_right_gradients({lstm_cell_shapes, [](const std::vector<Tensor>& in) {
                            LstmState next = lstm_cell(in[0], {in[4], in[5]}, lstm_of(in));
                            return std::vector<Tensor>{next.h, next.c};
                          }});
  expect_right_gradients({gru_cell_shapes, [](const std::vector<Tensor>& in) {
                            return std::vector<Tensor>{gru_cell(in[0], in[5], gru_of(in))};
                          }});
}

// The gradients of x[:, 0], x[:, 1], ... are joined, not added up one by one.
TEST(Recurrent, GradientsOfSlicesAreJoined) {
  const auto count = [](const Function& f, std::string_view tag) {
    const std::vector<Array> values = f.run();
    // What the gradient is computed from.
    std::vector<bool> needed(f.program.nodes.size(), false);
    needed[static_cast<size_t>(f.gradients[0])] = true;
    int found = 0;
    for (size_t i = f.program.nodes.size(); i-- > 0;) {
      if (!needed[i]) continue;
      for (NodeId input : f.program.nodes[i].inputs) needed[static_cast<size_t>(input)] = true;
      found += f.program.nodes[i].tag() == tag && f.program.nodes[i].phase == Phase::backward;
    }
    return found;
  };
  const Function all({{2, 5, 3}}, [](const std::vector<Tensor>& in) {
    std::vector<Tensor> out;
    for (int64_t t = 0; t < 5; ++t) out.push_back(exp(slice(in[0], 1, t, t + 1)));
    return out;
  });
  EXPECT_EQ(count(all, "concat"), 1);
  EXPECT_EQ(count(all, "pad"), 0);
  EXPECT_EQ(count(all, "add"), 0);
  expect_right_gradients(all);
  expect_right_gradients({{{2, 6, 3}}, [](const std::vector<Tensor>& in) {  // gaps, overlaps, the end missing
                            return std::vector<Tensor>{exp(slice(in[0], 1, 1, 2)), exp(slice(in[0], 1, 2, 4)),
                                                       exp(slice(in[0], 1, 3, 5)), exp(slice(in[0], 2, 0, 1))};
                          }});
}

TEST(Recurrent, SaysWhatDoesNotFit) {
  Trace trace("model.cpp");
  Tensor x = parameter("x", {2, 3, 4}, zeros()), h = parameter("h", {2, 5}, zeros());
  const LstmWeights right = lstm_weights("right", 4, 5), wrong = lstm_weights("wrong", 3, 5);
  EXPECT_EQ(error_of([&] { lstm(x, right, {h, h}); }), "no error");
  EXPECT_THAT(error_of([&] { lstm(h, right); }), HasSubstr("[lstm] the input has the wrong rank"));
  EXPECT_THAT(error_of([&] { lstm(x, wrong); }), HasSubstr("[4, 4, 5]"));
  EXPECT_THAT(error_of([&] {
                lstm(x, {right.input, right.input, right.bias});
              }),
              HasSubstr("the recurrent weights have the wrong shape"));
  EXPECT_THAT(error_of([&] { lstm(x, right, {x, h}); }), HasSubstr("a state has the wrong shape"));
  EXPECT_THAT(error_of([&] { lstm_cell(x, {}, right); }), HasSubstr("[lstm_cell] the input has the wrong rank"));
  const GruWeights gru_right = gru_weights("gru", 4, 5);
  EXPECT_EQ(error_of([&] { gru(x, gru_right, h); }), "no error");
  EXPECT_THAT(error_of([&] { gru(x, {right.input, right.recurrent, right.bias, h}); }), HasSubstr("[gru]"));
  EXPECT_THAT(error_of([&] {
                gru(x, {gru_right.input, gru_right.recurrent, gru_right.bias, h});
              }),
              HasSubstr("the bias of the candidate has the wrong shape"));
}

// The language model of 40 steps and two layers is traced and differentiated in a moment.
TEST(Recurrent, LongSequencesAreTracedQuickly) {
  const auto start = std::chrono::steady_clock::now();
  Trace trace("model.cpp");
  run_builder(trace, [] {
    auto [tokens, targets] = token_batch(64, 40, 10000);
    Tensor x = embedding(parameter("table", {10000, 2048}, zeros()), tokens);
    for (const char* name : {"a", "b"}) x = lstm(x, lstm_weights(name, 2048, 2048));
    Tensor logits = matmul(x, parameter("w", {2048, 10000}, zeros()));
    minimize(cross_entropy(logits, targets), AdamW{});
  });
  const Program program = differentiate(trace);
  EXPECT_LT(program.nodes.size(), 700u);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_LT(seconds, 0.3 * 5) << "0.3 s on a quiet machine, in an optimised build";
}

}  // namespace
}  // namespace hetsynth
