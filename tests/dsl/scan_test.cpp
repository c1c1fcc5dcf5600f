// Loops over time steps: values against the unrolled program, gradients against finite differences, the program's size,
// and what a scan refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "dsl/include/hetsynth/hetsynth.h"
#include "dsl/transform/differentiate.h"
#include "dsl/transform/unroll.h"
#include "tests/dsl/function_testing.h"
#include "tests/support/error_of.h"

namespace hetsynth {
namespace {

using ::testing::HasSubstr;
using States = std::vector<Tensor>;

constexpr int64_t batch = 2, steps = 3, inputs = 4, hidden = 5;
const std::vector<Shape> lstm_shapes = {{batch, steps, inputs}, {inputs, 4, hidden}, {hidden, 4, hidden}, {4, hidden},
                                        {batch, hidden},        {batch, hidden}};
LstmWeights lstm_of(const std::vector<Tensor>& in) { return {in[1], in[2], in[3]}; }

std::vector<Tensor> scanned_lstm(const std::vector<Tensor>& in) {
  ScanResult out = scan(in[0], {in[4], in[5]}, [&](const States& state, Tensor x) {
    LstmState next = lstm_cell(x, {state[0], state[1]}, lstm_of(in));
    return ScanStep{{next.h, next.c}, next.h};
  });
  return {out.outputs, out.state[0], out.state[1]};
}

/// Two states of which each takes over the other, two sequences, a constant, a state that nothing changes, and a tensor
/// that is the same in all steps.
std::vector<Tensor> tangled(const std::vector<Tensor>& in) {
  ScanResult out = scan({in[0], in[1]}, {in[2], in[3], in[2]}, [&](const States& state, const States& now) {
    Tensor same = exp(in[4]);
    Tensor mixed = tanh(state[0] * now[0] + same) - 0.5 * sum(now[1], {1}, true) * softmax(state[1], -1);
    return ScanStep{{state[1], mixed, state[2]}, mixed * state[2] + in[4]};
  });
  return {out.outputs, out.state[0], out.state[1], out.state[2]};
}
const std::vector<Shape> tangled_shapes = {{2, 4, 3}, {2, 4, 5}, {2, 3}, {2, 3}, {3}};

/// The values of two programs' nodes of equal names are equal, those of leaves given.
void expect_equal_values(const Program& loops, const Program& flat, const Bindings& values) {
  Bindings of_flat;
  for (const Node& node : flat.nodes)
    for (const auto& [leaf, array] : values)
      if (loops[leaf].name == node.name) of_flat[node.id] = array;
  const std::vector<Array> a = interpret(loops, values, {}), b = interpret(flat, of_flat, {});
  std::map<std::string, NodeId> named;
  std::map<std::string, int> times;
  for (const Node& node : flat.nodes) named[node.name] = node.id, ++times[node.name];
  int compared = 0;
  for (const Node& node : loops.nodes) {
    if ((node.loop >= 0 && stacked_dim(node.space) < 0) || times[node.name] != 1) continue;
    const Array &left = a[static_cast<size_t>(node.id)], &right = b[static_cast<size_t>(named.at(node.name))];
    ASSERT_EQ(left.shape, right.shape) << node.name;
    for (size_t i = 0; i < left.values.size(); ++i) EXPECT_NEAR(left.values[i], right.values[i], 1e-12) << node.name;
    ++compared;
  }
  EXPECT_GT(compared, 3);
}

TEST(Scan, OfTheCellIsTheLayer) {
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
  expect_right_gradients(scanned);
}

TEST(Scan, GradientsEqualFiniteDifferences) {
  expect_right_gradients({tangled_shapes, tangled});
  expect_right_gradients({{{2, 3}, {3, 3}}, [](const std::vector<Tensor>& in) {  // no sequence, no output
                            ScanResult out = scan_steps(3, {in[0]}, [&](const States& state, const States&) {
                              return ScanStep{{tanh(matmul(state[0], in[1]))}, {}};
                            });
                            EXPECT_FALSE(out.outputs.defined());
                            return out.state;
                          }});
  expect_right_gradients({{{2, 1, 3}, {2, 3}}, [](const std::vector<Tensor>& in) {  // one step
                            ScanResult out = scan(in[0], {in[1]}, [&](const States& state, Tensor x) {
                              return ScanStep{{x * state[0]}, square(x)};
                            });
                            return std::vector<Tensor>{out.outputs, out.state[0]};
                          }});
}

TEST(Scan, GradientsPassScansOneBehindTheOther) {
  expect_right_gradients({{{2, 3, 4}, {2, 4}, {4, 4}}, [](const std::vector<Tensor>& in) {
                            const auto layer = [&](Tensor x, Tensor h) {
                              return scan(x, {h}, [&](const States& state, Tensor now) {
                                Tensor next = tanh(matmul(state[0] + now, in[2]));
                                return ScanStep{{next}, next};
                              });
                            };
                            ScanResult first = layer(in[0], in[1]), second = layer(first.outputs, first.state[0]);
                            return std::vector<Tensor>{second.outputs, first.outputs};
                          }});
}

TEST(Scan, GradientsPassACheckpoint) {
  const auto build = [](bool again) {
    return [again](const std::vector<Tensor>& in) {
      const auto layer = [&] { return exp(scanned_lstm(in)[0]); };
      return std::vector<Tensor>{again ? checkpoint(layer) : layer()};
    };
  };
  const Function plain(lstm_shapes, build(false)), again(lstm_shapes, build(true));
  const std::vector<Array> a = plain.run(), b = again.run();
  for (size_t j = 0; j < plain.gradients.size(); ++j) {
    const Array &left = a[static_cast<size_t>(plain.gradients[j])], &right = b[static_cast<size_t>(again.gradients[j])];
    for (size_t i = 0; i < left.values.size(); ++i) EXPECT_NEAR(left.values[i], right.values[i], 1e-12);
  }
  EXPECT_EQ(again.program.loops.size(), 3u);  // forward, made again, backward
}

TEST(Scan, IsItsUnrolledProgram) {
  for (const auto& [shapes, build] :
       {std::pair(lstm_shapes, Function::Build(scanned_lstm)), {tangled_shapes, tangled}}) {
    const Function f(shapes, build);
    expect_equal_values(f.program, unrolled(f.program), f.values);
  }
}

Program training_step(int64_t length) {
  Trace trace("model.cpp");
  run_builder(trace, [&] {
    auto [tokens, targets] = token_batch(4, length, 11);
    Tensor x = embedding(parameter("table", {11, 6}, uniform(0.5)), tokens);
    Tensor w = parameter("w", {6, 6}, uniform(0.5));
    ScanResult out = scan(x, {full({4, 6}, 0)}, [&](const States& state, Tensor now) {
      Tensor h = named(tanh(now + matmul(state[0], w)), "h", "model.cpp", 7, 3);
      return ScanStep{{h}, h};
    });
    Tensor logits = matmul(out.outputs, parameter("out", {6, 11}, uniform(0.5)));
    minimize(cross_entropy(logits, targets), SGD{.learning_rate = 0.1});
  });
  return differentiate(trace);
}

TEST(Scan, KeepsTheProgramSmall) {
  const Program five = training_step(5), hundred = training_step(100);
  EXPECT_EQ(five.nodes.size(), hundred.nodes.size());
  EXPECT_EQ(five.loops.size(), 2u);
  EXPECT_NE(hash_text(five), hash_text(hundred));
  EXPECT_GT(unrolled(hundred).nodes.size(), 10 * hundred.nodes.size());
  EXPECT_THAT(text(five), HasSubstr("loop 0 of 5 turns {\n"));
  EXPECT_THAT(text(five), HasSubstr(" h = tanh("));
  // The nodes of a loop stand one behind the other, and what a turn hands on is in it.
  for (size_t l = 0; l < five.loops.size(); ++l) {
    int runs = 0;
    for (size_t i = 0; i < five.nodes.size(); ++i)
      runs += five.nodes[i].loop == int(l) && (i == 0 || five.nodes[i - 1].loop != int(l));
    EXPECT_EQ(runs, 1);
    for (const TurnLoop::Carry& c : five.loops[l].carries) {
      EXPECT_EQ(five[c.carry].loop, int(l));
      EXPECT_EQ(five[c.next].loop, int(l));
      EXPECT_EQ(five[c.carry].type, five[c.next].type);
    }
  }
}

TEST(Scan, OfATrainingStepIsItsUnrolledStep) {
  const Program loops = training_step(5), flat = unrolled(loops);
  Bindings values = initial_values(loops, 3);
  for (const Node& node : loops.nodes)
    if (node.kind == NodeKind::input) {
      Array array(node.type.shape);
      for (size_t i = 0; i < array.values.size(); ++i) array.values[i] = double(i * 7 % 11);
      values[node.id] = array;
    }
  expect_equal_values(loops, flat, values);
}

TEST(Scan, WhatIsTheSameInAllStepsIsComputedOnce) {
  const Program program = Function(tangled_shapes, tangled).program;
  int of_constants = 0;
  for (const Node& node : program.nodes) {
    if (node.tag() != "exp" || !program[node.inputs[0]].leaf()) continue;
    EXPECT_EQ(node.loop, -1);
    ++of_constants;
  }
  EXPECT_EQ(of_constants, 1);
}

/// A body of one tensor and one of a vector of tensors, named or not, typed or generic.
TEST(Scan, BodiesOfBothFormsAreBodies) {
  Trace trace("model.cpp");
  Tensor x = parameter("x", {2, 3, 4}, zeros()), h = parameter("h", {2, 4}, zeros());
  const ScanBody one = [](const States& state, Tensor now) { return ScanStep{{state[0] + now}, {}}; };
  const ScanBody many = [](const States& state, const States& now) {
    return ScanStep{{now.empty() ? state[0] : state[0] + now.front()}, {}};
  };
  const ScanBodyOfMany none = [](const States& state, const States&) { return ScanStep{{state[0]}, {}}; };
  const auto generic_one = [](auto& state, auto now) { return ScanStep{{state[0] + exp(now)}, {}}; };
  const auto generic_many = [](auto& state, auto now) { return ScanStep{{state[0] + now[0] * now[1]}, {}}; };
  const std::vector<Operand> pair{x, x};
  for (const ScanResult& result :
       {scan(x, {h}, one), scan(x, {h}, many), scan(pair, {h}, many), scan(std::vector<Operand>{x}, {h}, one),
        scan_steps(2, {h}, none), scan_steps(2, {h}, many), scan(x, {h}, generic_one), scan(pair, {h}, generic_many)})
    EXPECT_EQ(result.state[0].shape(), (Shape{2, 4}));
  const std::string several = error_of([&] { scan(pair, {h}, one); });
  EXPECT_THAT(several, HasSubstr("[scan] the body takes the tensor of one sequence"));
  EXPECT_THAT(several, HasSubstr("found:    2 sequences"));
  EXPECT_THAT(error_of([&] { scan_steps(2, {h}, one); }), HasSubstr("found:    0 sequences"));
}

TEST(Scan, SaysWhatDoesNotFit) {
  Trace trace("model.cpp");
  Tensor x = parameter("x", {2, 3, 4}, zeros()), h = parameter("h", {2, 5}, zeros());
  Tensor longer = parameter("longer", {2, 6, 4}, zeros());
  const auto keep = [](const States& state, Tensor) { return ScanStep{state, {}}; };
  const auto keep_many = [](const States& state, const States&) { return ScanStep{state, {}}; };
  EXPECT_EQ(error_of([&] { scan(x, {h}, keep); }), "no error");
  EXPECT_THAT(error_of([&] { scan(parameter("flat", {4}, zeros()), {h}, keep); }),
              HasSubstr("[scan] there is no dimension of time"));
  const std::string lengths = error_of([&] { scan({x, longer}, {h}, keep_many); });
  EXPECT_THAT(lengths, HasSubstr("[scan] sequence 1 has another number of steps than sequence 0"));
  EXPECT_THAT(lengths, HasSubstr("expected: 3 steps, as [2,3,4] has"));
  EXPECT_THAT(lengths, HasSubstr("found:    6 steps in [2,6,4]"));
  EXPECT_THAT(error_of([&] { scan_steps(0, {h}, keep_many); }), HasSubstr("[scan] there is no step to take"));
  EXPECT_THAT(error_of([&] { scan(x, {h}, [](const States&, Tensor) {
                               return ScanStep{{}, {}};
                             }); }),
              HasSubstr("another number of states"));
  EXPECT_THAT(error_of([&] { scan(x, {h}, [](const States&, Tensor now) {
                               return ScanStep{{now}, {}};
                             }); }),
              HasSubstr("a step gives state 0 another shape"));
  const std::string type = error_of([&] {
    scan(x, {h}, [](const States& state, Tensor) { return ScanStep{{to_int(state[0])}, {}}; });
  });
  EXPECT_THAT(type, HasSubstr("a step gives state 0 another type"));
  EXPECT_THAT(type, HasSubstr("expected: f32[2,5]"));
  EXPECT_THAT(type, HasSubstr("found:    i32[2,5]"));
  EXPECT_THAT(error_of([&] {
                scan(x, {h}, [](const States& state, Tensor) {
                  return ScanStep{{state[0] + parameter("inside", {2, 5}, zeros())}, {}};
                });
              }),
              HasSubstr("make it before the scan"));
  EXPECT_THAT(error_of([&] {
                scan(x, {h}, [](const States& state, Tensor) { return ScanStep{{dropout(state[0], 0.5)}, {}}; });
              }),
              HasSubstr("[scan] the body draws random numbers"));
  EXPECT_THAT(error_of([&] {
                scan(x, {h}, [&](const States& state, Tensor) { return ScanStep{scan(x, state, keep).state, {}}; });
              }),
              HasSubstr("a scan stands in the body of another"));
  EXPECT_THAT(error_of([&] {
                scan(x, {h}, [&](const States& state, Tensor) {
                  return ScanStep{{checkpoint([&] { return tanh(state[0]); })}, {}};
                });
              }),
              HasSubstr("the body contains a checkpoint"));
  EXPECT_THAT(error_of([&] {
                scan(x, {h}, [&](const States& state, Tensor) { return ScanStep{state, sum(state[0])}; });
              }),
              HasSubstr("the output of a step is a scalar"));
  Tensor taken_out;
  scan(x, {h}, [&](const States& state, Tensor) {
    taken_out = named(tanh(state[0]), "middle", "model.cpp", 4, 1);
    return ScanStep{{taken_out}, {}};
  });
  EXPECT_THAT(error_of([&] { exp(taken_out); }), HasSubstr("[exp] middle is read outside of the scan that makes it"));
}

}  // namespace
}  // namespace hetsynth
