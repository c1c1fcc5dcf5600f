// fp16 in programs: exact values of its rounding, casts, the switch of a whole model, and what a loss scale is for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "dsl/ir/interpreter.h"
#include "dsl/ir/trace.h"
#include "dsl/transform/differentiate.h"
#include "hetsynth/hetsynth.h"
#include "tests/support/fresh_parameter.h"

namespace hetsynth {
namespace {

Program program_in(const std::function<void()>& builder) {
  Trace trace("model.cpp");
  run_builder(trace, builder);
  return differentiate(trace);
}

struct Rounded {
  double from, to;
};

/// IEEE 754 binary16: 11 digits, normal from 2^-14 to 65504, subnormal in steps of 2^-24.
constexpr Rounded table[] = {
    {0, 0},
    {1, 1},
    {-3, -3},
    {2048, 2048},
    {1 + 0.4 * 0x1p-10, 1},
    {1 + 0.6 * 0x1p-10, 1 + 0x1p-10},
    {1 + 0.5 * 0x1p-10, 1},                // a tie: even
    {1 + 1.5 * 0x1p-10, 1 + 2 * 0x1p-10},  // a tie: even
    {2049, 2048},                          // a tie
    {2051, 2052},                          // a tie
    {-2051, -2052},
    {0.1, 0.0999755859375},
    {1.0 / 3, 0.333251953125},
    {65504, 65504},  // the largest
    {65519.99, 65504},
    {65520, HUGE_VAL},  // half a step more: a tie, to what 65536 would be
    {-65520, -HUGE_VAL},
    {1e6, HUGE_VAL},
    {1e300, HUGE_VAL},
    {HUGE_VAL, HUGE_VAL},
    {-HUGE_VAL, -HUGE_VAL},
    {0x1p-14, 0x1p-14},          // the least normal number
    {0x1.ff8p-15, 0x1.ff8p-15},  // the largest subnormal one
    {0x1.ffbp-15, 0x1.ff8p-15},
    {0x1.ffcp-15, 0x1p-14},  // a tie between it and the least normal one: even
    {0x1p-24, 0x1p-24},      // the least subnormal number
    {0x1p-25, 0},            // a tie with zero
    {0x1.004p-25, 0x1p-24},
    {0x1.8p-24, 0x1p-23},  // a tie: even
    {-0x1p-24, -0x1p-24},
    {5 * 0x1p-25, 0x1p-23},  // 2.5 steps: even
    {3e-8, 0x1p-24},
    {2.9e-8, 0},
    {1e-40, 0},
    {1e-300, 0},
};

TEST(Fp16, RoundsToTheValuesOfTheTable) {
  for (const Rounded& r : table) {
    EXPECT_EQ(rounded_to(DType::fp16, r.from), r.to) << r.from;
    EXPECT_EQ(rounded_to(DType::fp16, r.to), r.to) << "rounding again changes nothing";
  }
  EXPECT_TRUE(std::isnan(rounded_to(DType::fp16, std::nan(""))));
  EXPECT_TRUE(std::signbit(rounded_to(DType::fp16, -0.0)));
  EXPECT_TRUE(std::signbit(rounded_to(DType::fp16, -1e-30))) << "-0";
}

/// The interpreter holds float64, and programs compute in float32: a number is rounded to that before.
TEST(Fp16, RoundsTheNearestFloat32) {
  const double above_a_tie = 1 + 0x1p-11 + 0x1p-40;
  EXPECT_EQ(rounded_to(DType::fp16, above_a_tie), 1) << "a tie in float32: even";
}

TEST(Fp16, CastRoundsToWhatItLeadsTo) {
  Program p = program_in([] {
    Tensor x = parameter("x", {2, 1}, constant_init(1.0009));
    Tensor half = cast(x, fp16);
    EXPECT_EQ(half.dtype(), DType::fp16);
    EXPECT_EQ(cast(half, fp16).node(), half.node()) << "has the type already";
    output("wide", cast(half, f32));
    output("narrow", cast(cast(half, bf16), f32));
    minimize(sum(cast(half, f32) * constant(2.0)), SGD{.learning_rate = 1, .momentum = 0});
  });
  const std::vector<Array> values = interpret(p, initial_values(p, 0), {});
  EXPECT_EQ(values[p.loss].values[0], 4 * (1 + 0x1p-10));
  EXPECT_EQ(values[p.updates[0].value].values, std::vector<double>(2, double(float(1.0009)) - 2))
      << "the gradient passes as it is";
  EXPECT_EQ(values[size_t(p.outputs[0].node)].values[0], 1 + 0x1p-10);
  EXPECT_EQ(values[size_t(p.outputs[1].node)].values[0], 1) << "bf16 has 8 digits";
  const std::vector<Array> exact = interpret(p, initial_values(p, 0), {.rounds = false});
  EXPECT_NEAR(exact[p.loss].values[0], 4 * 1.0009, 1e-6);
}

TEST(Fp16, HasTheSizeOfTwoBytesAndAnOwnIdentity) {
  EXPECT_EQ(size_bytes(DType::fp16), 2);
  EXPECT_EQ(text(TensorType{{2, 3}, DType::fp16}), "fp16[2,3]");
  const Expr rounded = round_to(DType::fp16, Expr::input(0));
  EXPECT_EQ(text(rounded), "fp16(in0)");
  EXPECT_EQ(linearity(rounded, {0}), Linearity::linear) << "over the reals";
  EXPECT_TRUE(is_rounding(rounded));
  EXPECT_FALSE(rounded == round_to(DType::bf16, Expr::input(0)));
  EXPECT_FALSE(is_rounding(round_to(DType::fp16, Expr::input(1))));
  EXPECT_FALSE(rounds_to(ExprKind::floor).has_value());
}

void expect_error(const std::function<void()>& builder, const std::vector<std::string>& parts) {
  try {
    program_in(builder);
    FAIL() << parts[0];
  } catch (const UserError& error) {
    for (const std::string& part : parts) EXPECT_THAT(error.what(), testing::HasSubstr(part));
  }
}

TEST(Fp16, RefusesMixedTypesAndUnknownNames) {
  const auto a = [] { return fresh_parameter({3, 3}, ones()); };
  expect_error([&] { einsum("ij,jk->ik", cast(a(), fp16), cast(a(), bf16)); },
               {"the arguments have different element types", "expected: both of one type: f32, bf16 or fp16",
                "found:    fp16[3,3] and bf16[3,3]", "cast argument 2: cast(x, fp16)"});
  expect_error([&] { matmul(a(), cast(a(), fp16)); }, {"the arguments have different element types", "cast(x, fp16)"});
  expect_error([&] { exp(cast(a(), fp16)); },
               {"argument 1 is fp16, which only products take", "cast it back: cast(x, f32)"});
  expect_error([&] { cast(text_batch(2, 3).tokens, fp16); },
               {"indices and numbers are not turned into each other", "expected: f32, bf16 or fp16"});
  expect_error([&] { input("x", {2, 3}, fp16); }, {"data are read as f32 or i32", "found:    fp16"});
  expect_error([&] { mixed_precision("half"); },
               {"there is no such precision", "expected: f32, bf16 or fp16", "found:    \"half\""});
}

TEST(Fp16, MixedPrecisionMakesItOfProducts) {
  Program p = program_in([] {
    mixed_precision("fp16");
    auto [x, y] = synthetic_batch(4, 6, 3);
    Tensor hidden = tanh(matmul(x, parameter("w1", {6, 8}, normal(0.4))));
    minimize(cross_entropy(matmul(hidden, parameter("w2", {8, 3}, normal(0.4))), y), SGD{});
  });
  int products = 0;
  for (const Node& node : p.nodes) {
    if (node.leaf()) {
      EXPECT_NE(node.type.dtype, DType::fp16) << node.name << ": parameters stay float32";
    }
    if (node.leaf() || node.tag() != "einsum") continue;
    ++products;
    EXPECT_EQ(node.type.dtype, DType::f32) << "sums are float32";
    for (NodeId operand : node.inputs) EXPECT_EQ(p[operand].type.dtype, DType::fp16);
  }
  EXPECT_EQ(products, 5) << "two forward, two by weights, one by the hidden layer";
}

/// The product of the first two is float32, and rounded where it is an operand beside one of 16 bits.
TEST(Fp16, AContractionOfThreeRoundsWhatIsBetween) {
  const Program p = program_in([] {
    const auto half = [](const std::string& name, Shape shape) {
      return cast(parameter(name, shape, normal(0.4)), fp16);
    };
    Tensor y = einsum("bi,ir,ro->bo", half("x", {4, 6}), half("down", {6, 2}), half("up", {2, 5}));
    minimize(sum(y * y), SGD{});
  });
  int products = 0;
  for (const Node& node : p.nodes) {
    if (node.leaf() || node.tag() != "einsum") continue;
    ++products;
    EXPECT_EQ(p[node.inputs[0]].type.dtype, p[node.inputs[1]].type.dtype) << node.name;
  }
  EXPECT_EQ(products, 6) << "two forward, and two for the gradient of each";
}

// ---- loss scales ----

/// loss = tiny * sum(x w): the gradient by w is the product of x and a gradient of `tiny`, which is rounded to fp16.
template <class Precision>
Program tiny_gradients(double tiny, const Precision& set_precision) {
  return program_in([&] {
    set_precision();
    Tensor x = stop_gradient(fresh_parameter({4, 2}, ones())), w = parameter("w", {2, 3}, ones());
    minimize(sum(matmul(x, w)) * tiny, SGD{.learning_rate = 1, .momentum = 0});
  });
}

double first_update(const Program& p) {
  const std::vector<Array> values = interpret(p, initial_values(p, 1), {});
  for (const Update& update : p.updates)
    if (p[update.target].name == "w") return 1 - values[size_t(update.value)].values[0];
  return NAN;
}

TEST(Fp16, ALossScaleKeepsSmallGradientsFromVanishing) {
  const double tiny = 0x1p-26;  // below half of the least number of fp16
  EXPECT_EQ(first_update(tiny_gradients(tiny, [] { mixed_precision("fp16"); })), 0) << "vanished";
  EXPECT_EQ(first_update(tiny_gradients(tiny, [] { mixed_precision("fp16", 1024); })), 4 * tiny);
  EXPECT_EQ(first_update(tiny_gradients(tiny, [] { mixed_precision("bf16"); })), 4 * tiny) << "has float32's range";
}

/// A gradient of 2 at a scale of 2^15 is 65536, which fp16 does not hold: the step is skipped and the scale halved.
TEST(Fp16, DynamicLossScaleBacksOffWhereTheFormatOverflows) {
  const DynamicLossScale rule{.initial = 0x1p15, .growth = 2, .backoff = 0.5, .interval = 2};
  const Program p = tiny_gradients(2, [&] { mixed_precision("fp16", rule); });
  Bindings leaves = initial_values(p, 1);
  std::vector<std::map<std::string, double>> after;
  for (int step = 0; step < 3; ++step) {
    const std::vector<Array> values = interpret(p, leaves, {.seed = 1, .step = step});
    for (const Update& update : p.updates) leaves[update.target] = values[size_t(update.value)];
    after.emplace_back();
    for (const auto& [node, array] : leaves) after.back()[p[node].name] = array.values[0];
  }
  EXPECT_EQ(after[0].at("w"), 1) << "skipped";
  EXPECT_EQ(after[0].at("loss_scale"), 0x1p14);
  EXPECT_EQ(after[1].at("w"), 1 - 8);
  EXPECT_EQ(after[2].at("w"), 1 - 16);
  EXPECT_EQ(after[2].at("loss_scale"), 0x1p15) << "two steps without overflow";
}

}  // namespace
}  // namespace hetsynth
