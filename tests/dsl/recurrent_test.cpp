// Recurrent cells and scan: values against plain loops, gradients against finite differences, and the rules checked on
// every node that unrolling makes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <functional>

#include "dsl/include/hetsynth/hetsynth.h"
#include "dsl/ir/differentiate.h"
#include "tests/dsl/operator_testing.h"
#include "tests/support/error_of.h"

namespace hetsynth {
namespace {

using ::testing::HasSubstr;

using Build = std::function<std::vector<Tensor>(const std::vector<Tensor>& leaves)>;

/// A function of leaves of these shapes, and the gradients of the sum of its outputs, each element weighed.
struct Function {
  Function(const std::vector<Shape>& shapes, const Build& build) {
    Trace trace("test.cpp");
    std::vector<Tensor> leaves;
    const auto here = std::source_location::current();
    const auto leaf = [&](const Shape& shape) {
      return trace.add_leaf(NodeKind::parameter, fmt_name(trace), {shape, DType::f32}, here);
    };
    for (const Shape& shape : shapes) leaves.push_back(leaf(shape));
    Tensor loss;
    for (Tensor out : build(leaves)) {
      outputs.push_back(out.node());
      Tensor weighed = sum(out * leaf(out.shape()));
      loss = loss.defined() ? loss + weighed : weighed;
    }
    total = loss.node();
    trace.phase = Phase::backward;
    for (Tensor gradient : hetsynth::gradients(loss, leaves)) gradients.push_back(gradient.node());
    for (Tensor t : leaves) inputs.push_back(t.node());
    program = trace.program;
    std::mt19937 random(7);
    values = spread_leaves(program, random);
    for (auto& [node, array] : values)
      for (double& value : array.values) value *= 0.5;
  }
  static std::string fmt_name(const Trace& trace) { return "leaf" + std::to_string(trace.program.nodes.size()); }

  std::vector<Array> run() const { return interpret(program, values, {}); }

  Program program;
  std::vector<NodeId> inputs, outputs, gradients;
  NodeId total = -1;
  Bindings values;
};

void expect_right_gradients(Function f) {
  const std::vector<Array> at = f.run();
  for (size_t j = 0; j < f.inputs.size(); ++j) {
    ASSERT_GE(f.gradients[j], 0) << "input " << j;
    Array& input = f.values.at(f.inputs[j]);
    for (size_t i = 0; i < input.values.size(); ++i) {
      constexpr double h = 1e-5;
      const double value = input.values[i];
      input.values[i] = value + h;
      const double up = f.run()[static_cast<size_t>(f.total)].values[0];
      input.values[i] = value - h;
      const double down = f.run()[static_cast<size_t>(f.total)].values[0];
      input.values[i] = value;
      // The third derivative gives 1e-10 of it, rounding 1e-16 / h of the loss.
      EXPECT_NEAR(at[static_cast<size_t>(f.gradients[j])].values[i], (up - down) / (2 * h), 1e-7)
          << "input " << j << " element " << i;
    }
  }
  std::mt19937 random(11);
  for (const Node& node : f.program.nodes) {
    if (node.leaf()) continue;
    for (int i = 0; i < 5; ++i) EXPECT_EQ(check_splits(node, at, {}, random), "") << node.tag();
    EXPECT_EQ(check_linearity(node, at, {}, random), "") << node.tag();
    EXPECT_EQ(check_type(node, at), "") << node.tag();
  }
}

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

std::vector<Tensor> scanned_lstm(const std::vector<Tensor>& in) {
  ScanResult out = scan(in[0], {in[4], in[5]}, [&](const std::vector<Tensor>& state, Tensor x, int64_t) {
    LstmState next = lstm_cell(x, {state[0], state[1]}, lstm_of(in));
    return ScanStep{{next.h, next.c}, next.h};
  });
  return {out.outputs, out.state[0], out.state[1]};
}

TEST(Recurrent, ScanOfTheCellIsTheLayer) {
  const Function scanned(lstm_shapes, scanned_lstm);
  const Function layer(lstm_shapes, [](const std::vector<Tensor>& in) {
    LstmStates states = lstm_states(in[0], lstm_of(in), {in[4], in[5]});
    return std::vector<Tensor>{states.sequence, states.last.h, states.last.c};
  });
  const std::vector<Array> a = scanned.run(), b = layer.run();
  for (size_t i = 0; i < 3; ++i) {
    const Array &left = a[static_cast<size_t>(scanned.outputs[i])], &right = b[static_cast<size_t>(layer.outputs[i])];
    ASSERT_EQ(left.shape, right.shape);
    for (size_t j = 0; j < left.values.size(); ++j) EXPECT_NEAR(left.values[j], right.values[j], 1e-12);
  }
  expect_right_gradients({lstm_shapes, scanned_lstm});
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

TEST(Recurrent, StepsOfAScanHaveNamesOfTheirOwn) {
  Trace trace("model.cpp");
  Tensor x = parameter("x", {2, 3, 4}, zeros()), h = parameter("h0", {2, 4}, zeros());
  scan(x, {h}, [](const std::vector<Tensor>& state, Tensor now, int64_t) {
    Tensor next = named(tanh(state[0] + now), "h", "model.cpp", 7, 3);
    return ScanStep{{next}, {}};
  });
  std::vector<std::string> names;
  for (const Node& node : trace.program.nodes)
    if (node.tag() == "tanh") names.push_back(node.name);
  EXPECT_EQ(names, (std::vector<std::string>{"h[0]", "h[1]", "h[2]"}));
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
  const auto keep = [](const std::vector<Tensor>& state, Tensor, int64_t) { return ScanStep{state, {}}; };
  EXPECT_THAT(error_of([&] { scan(parameter("flat", {4}, zeros()), {h}, keep); }),
              HasSubstr("[scan] there is no dimension of time"));
  EXPECT_THAT(error_of([&] { scan(x, {h}, [](const auto&, Tensor, int64_t) {
                               return ScanStep{{}, {}};
                             }); }),
              HasSubstr("another number of states"));
  EXPECT_THAT(error_of([&] { scan(x, {h}, [](const auto&, Tensor now, int64_t) {
                               return ScanStep{{now}, {}};
                             }); }),
              HasSubstr("step 0 gives state 0 another shape"));
  EXPECT_THAT(error_of([&] {
                scan(x, {h}, [](const auto& state, Tensor, int64_t) {
                  return ScanStep{{state[0] + parameter("inside", {2, 5}, zeros())}, {}};
                });
              }),
              HasSubstr("make it before the scan"));
  EXPECT_THAT(
      error_of([&] {
        scan(x, {h}, [](const auto& state, Tensor now, int64_t t) { return ScanStep{state, t == 1 ? now : Tensor()}; });
      }),
      HasSubstr("step 1 differs from those before it"));
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
