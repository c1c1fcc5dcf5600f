// bf16 in programs: rounding, casts and their gradients, the switch of a whole model, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "dsl/ir/interpreter.h"
#include "dsl/ir/trace.h"
#include "dsl/transform/differentiate.h"
#include "hetsynth/hetsynth.h"
#include "tests/support/error_of.h"
#include "tests/support/fresh_parameter.h"

namespace hetsynth {
namespace {

Program program_of(const std::function<void()>& builder) {
  Trace trace("model.cpp");
  run_builder(trace, builder);
  return differentiate(trace);
}

/// 8 bits of mantissa: the spacing at 1 is 2^-7.
TEST(Bf16, RoundsToTheNearestAndTiesToEven) {
  const double step = std::ldexp(1, -7);
  EXPECT_EQ(rounded_to(DType::bf16, 1 + 0.4 * step), 1);
  EXPECT_EQ(rounded_to(DType::bf16, 1 + 0.6 * step), 1 + step);
  EXPECT_EQ(rounded_to(DType::bf16, 1 + 0.5 * step), 1) << "even";
  EXPECT_EQ(rounded_to(DType::bf16, 1 + 1.5 * step), 1 + 2 * step) << "even";
  EXPECT_EQ(rounded_to(DType::bf16, -3.0), -3);
  EXPECT_EQ(rounded_to(DType::bf16, 1e300), HUGE_VAL);
  EXPECT_TRUE(std::isnan(rounded_to(DType::bf16, std::nan(""))));
  for (double x : {1e-30, 0.1, 7.3, 1e30}) EXPECT_NEAR(rounded_to(DType::bf16, x) / x, 1, std::ldexp(1, -8));
}

TEST(Bf16, CastRoundsAndPassesTheGradientAsItIs) {
  Program p = program_of([] {
    Tensor x = parameter("x", {3, 1}, constant_init(1.003));
    Tensor half = cast(x, bf16);
    EXPECT_EQ(half.dtype(), DType::bf16);
    EXPECT_EQ(cast(half, bf16).node(), half.node()) << "has the type already";
    minimize(sum(cast(half, f32) * constant(2.0)), SGD{.learning_rate = 1, .momentum = 0});
  });
  std::vector<Array> values = interpret(p, initial_values(p, 0), {});
  EXPECT_EQ(values[p.loss].values[0], 6) << "1.003 is 1 in bf16";
  EXPECT_EQ(values[p.updates[0].value].values, std::vector<double>(3, double(float(1.003)) - 2));
  std::vector<Array> exact = interpret(p, initial_values(p, 0), {.rounds = false});
  EXPECT_NEAR(exact[p.loss].values[0], 6 * 1.003, 1e-6);
}

TEST(Bf16, HasTheSizeOfTwoBytesAndAnOwnIdentity) {
  EXPECT_EQ(size_bytes(DType::bf16), 2);
  EXPECT_EQ(text(TensorType{{2, 3}, DType::bf16}), "bf16[2,3]");
  EXPECT_EQ(text(round_to(DType::bf16, Expr::input(0) + 1.0)), "bf16((in0 + 1))");
  EXPECT_EQ(linearity(round_to(DType::bf16, Expr::input(0)), {0}), Linearity::linear) << "over the reals";
}

void expect_error(const std::function<void()>& builder, const char* message, const char* mend) {
  try {
    program_of(builder);
    FAIL() << message;
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr(message), testing::HasSubstr(mend)));
  }
}

TEST(Bf16, RefusesMixedTypes) {
  auto a = [] { return fresh_parameter({3, 3}, ones()); };
  expect_error([&] { einsum("ij,jk->ik", cast(a(), bf16), a()); }, "the arguments have different element types",
               "cast argument 2: cast(x, bf16)");
  expect_error([&] { matmul(a(), cast(a(), bf16)); }, "[matmul] the arguments have different element types",
               "found:    f32[3,3] and bf16[3,3]");
  expect_error([&] { exp(cast(a(), bf16)); }, "argument 1 is bf16, which only products take",
               "cast it back: cast(x, f32)");
  expect_error([&] { cast(text_batch(2, 3).tokens, bf16); }, "indices and numbers are not turned into each other",
               "embedding(table, indices)");
  expect_error([&] { mixed_precision("fp8"); }, "expected: f32, bf16 or fp16\n  found:    \"fp8\"", "precision=bf16");
  expect_error([&] { mixed_precision("bf16", 0); }, "loss_scale is out of range", "");
}

void mlp(const std::string& precision, double loss_scale) {
  mixed_precision(precision, loss_scale);
  auto [x, y] = synthetic_batch(4, 6, 3);
  Tensor hidden = tanh(matmul(x, parameter("w1", {6, 8}, normal(0.4))));
  minimize(cross_entropy(matmul(hidden, parameter("w2", {8, 3}, normal(0.4))), y),
           SGD{.learning_rate = 1, .momentum = 0});
}

std::vector<Array> step_of(const Program& p) {
  Bindings leaves = initial_values(p, 1);
  for (const Node& node : p.nodes) {
    if (node.kind != NodeKind::input) continue;
    Array array(node.type.shape);
    for (size_t i = 0; i < array.values.size(); ++i)
      array.values[i] = node.type.dtype == DType::i32 ? double(i % 3) : std::sin(double(i));
    leaves[node.id] = array;
  }
  return interpret(p, leaves, {});
}

TEST(MixedPrecision, MakesProductsWithWeightsBf16AndKeepsTheRest) {
  Program p = program_of([] { mlp("bf16", 1); });
  int products = 0;
  for (const Node& node : p.nodes) {
    if (node.leaf() || node.tag() == "cast") continue;
    EXPECT_EQ(node.type.dtype, DType::f32) << node.name;
    if (node.tag() != "einsum") continue;
    ++products;
    for (NodeId input : node.inputs) EXPECT_EQ(p[input].type.dtype, DType::bf16) << node.name;
  }
  EXPECT_EQ(products, 5) << "two forward, two by weights, one by the hidden layer";
  for (const Node& node : p.nodes)
    if (node.leaf() && node.kind != NodeKind::input) {
      EXPECT_EQ(node.type.dtype, DType::f32) << node.name;
    }
}

TEST(MixedPrecision, MakesMatrixProductsOfActivationsBf16) {
  Program p = program_of([] {
    mixed_precision("bf16");
    Tensor q = parameter("q", {2, 5, 2, 4}, normal(1)) * 1.0, k = parameter("k", {2, 5, 2, 4}, normal(1)) * 1.0;
    minimize(sum(square(attention(q, k, k))), SGD{.learning_rate = 1, .momentum = 0});
  });
  int products = 0;
  for (const Node& node : p.nodes) {
    if (node.leaf() || node.tag() != "einsum") continue;
    ++products;
    for (NodeId input : node.inputs) EXPECT_EQ(p[input].type.dtype, DType::bf16) << node.name;
    EXPECT_EQ(node.type.dtype, DType::f32) << node.name;
  }
  EXPECT_EQ(products, 6) << "two forward, their four gradients";
}

TEST(MixedPrecision, LeavesSumsOfProductsAndAveragesFloat32) {
  Program p = program_of([] {
    mixed_precision("bf16");
    // Of data: what is made from parameters alone is a weight, whose products are bf16.
    Tensor flat = synthetic_batch(1, 36, 3).samples * parameter("scale", {1, 36}, normal(1));
    Tensor x = reshape(flat, {1, 1, 6, 6});
    flat = reshape(flat, {36});
    minimize(einsum("k,k->", flat, flat) + sum(adaptive_avg_pool2d(x, {2, 3})), SGD{.learning_rate = 1, .momentum = 0});
  });
  for (const Node& node : p.nodes) EXPECT_EQ(node.type.dtype, DType::f32) << node.name;
}

TEST(MixedPrecision, IsNearFloat32) {
  Program single = program_of([] { mlp("f32", 1); }), mixed = program_of([] { mlp("bf16", 1); });
  std::vector<Array> wanted = step_of(single), found = step_of(mixed);
  // Each operand is off by 2^-9 of itself at most, sums have at most 8 terms of size below 1.
  EXPECT_NEAR(found[mixed.loss].values[0], wanted[single.loss].values[0], 8 * std::ldexp(1, -8));
  EXPECT_NE(found[mixed.loss].values[0], wanted[single.loss].values[0]);
  for (size_t u = 0; u < single.updates.size(); ++u) {
    const Array &a = found[mixed.updates[u].value], &b = wanted[single.updates[u].value];
    for (size_t i = 0; i < a.values.size(); ++i) EXPECT_NEAR(a.values[i], b.values[i], 8 * std::ldexp(1, -8));
  }
}

TEST(MixedPrecision, LossScaleChangesNothingButSizesOnTheWay) {
  Program plain = program_of([] { mlp("bf16", 1); }), scaled = program_of([] { mlp("bf16", 1024); });
  std::vector<Array> wanted = step_of(plain), found = step_of(scaled);
  EXPECT_EQ(found[scaled.loss].values, wanted[plain.loss].values);
  // A power of two scales bf16 exactly.
  for (size_t u = 0; u < plain.updates.size(); ++u)
    for (size_t i = 0; i < wanted[plain.updates[u].value].values.size(); ++i)
      EXPECT_NEAR(found[scaled.updates[u].value].values[i], wanted[plain.updates[u].value].values[i], 1e-14);
}

/// y = w x with a gradient of 2 x (w x - 1): x = 4 and w = 1 give 24, which overflows float32 at a scale of 2^124.
Program line(const DynamicLossScale& scale, int64_t batches = 1) {
  Trace trace("model.cpp", batches > 1 ? std::map<std::string, std::string>{{"micro_batches", std::to_string(batches)}}
                                       : std::map<std::string, std::string>{});
  run_builder(trace, [&] {
    mixed_precision("bf16", scale);
    Tensor w = parameter("w", {1}, ones());
    Tensor difference = w * 4 - 1;
    minimize(sum(difference * difference), SGD{.learning_rate = 1.0 / 64});
  });
  return differentiate(trace);
}

/// Contents of parameters and states by name after each of some steps.
std::vector<std::map<std::string, double>> steps_of(const Program& p, int count) {
  Bindings leaves = initial_values(p, 1);
  std::vector<std::map<std::string, double>> out;
  for (int step = 0; step < count; ++step) {
    const std::vector<Array> values = interpret(p, leaves, {.seed = 1, .step = step});
    for (const Update& update : p.updates) leaves[update.target] = values[size_t(update.value)];
    out.emplace_back();
    for (const auto& [node, array] : leaves) out.back()[p[node].name] = array.values[0];
  }
  return out;
}

TEST(DynamicLossScaling, SkipsStepsThatOverflowAndGrowsAfterThoseThatDoNot) {
  const double start = std::ldexp(1, 124);
  const auto after = steps_of(line({.initial = start, .growth = 4, .backoff = 0.5, .interval = 2}), 5);
  // Step 0 overflows: 24 * 2^124 > 2^128. Nothing changes but the scale.
  EXPECT_EQ(after[0].at("w"), 1);
  EXPECT_EQ(after[0].at("w.velocity"), 0);
  EXPECT_EQ(after[0].at("loss_scale"), start / 2);
  EXPECT_EQ(after[0].at("loss_scale.good_steps"), 0);
  // Step 1: 24 * 2^123 is more than 2^127 and less than 2^128: 1 - 24 / 64.
  EXPECT_EQ(after[1].at("w"), 0.625);
  EXPECT_EQ(after[1].at("w.velocity"), 24);
  EXPECT_EQ(after[1].at("loss_scale"), start / 2);
  EXPECT_EQ(after[1].at("loss_scale.good_steps"), 1);
  // Step 2 is the second one without overflow; the scale grows.
  EXPECT_EQ(after[2].at("loss_scale"), std::ldexp(1, 125));
  EXPECT_EQ(after[2].at("loss_scale.good_steps"), 0);
}

TEST(DynamicLossScaling, UnscalesWhatTheOptimizerSees) {
  const auto scaled = steps_of(line({.initial = 1024, .interval = 2}), 6);
  const auto plain = steps_of(line({.initial = 1, .growth = 1}), 6);
  for (int step = 0; step < 6; ++step) EXPECT_EQ(scaled[size_t(step)].at("w"), plain[size_t(step)].at("w")) << step;
  EXPECT_EQ(scaled[5].at("loss_scale"), 8192) << "a power of two, so that nothing is rounded";
}

TEST(DynamicLossScaling, IsOneDecisionForAllMicroBatches) {
  const Program p = line({.initial = 1024}, 3);
  int scales = 0;
  for (const Node& node : p.nodes) scales += node.kind == NodeKind::state && node.name == "loss_scale";
  EXPECT_EQ(scales, 1);
  EXPECT_NEAR(steps_of(p, 1)[0].at("w"), 0.625, 1e-12) << "a third three times";
}

TEST(DynamicLossScaling, LeavesFloat32Alone) {
  const auto model = [](bool dynamic) {
    return hash_text(program_of([&] {
      dynamic ? mixed_precision("f32", DynamicLossScale{}) : mixed_precision("f32");
      Tensor w = parameter("w", {3}, ones());
      minimize(sum(w * w), SGD{});
    }));
  };
  EXPECT_EQ(model(true), model(false));
}

TEST(DynamicLossScaling, RefusesImpossibleSettings) {
  expect_error([] { mixed_precision("bf16", DynamicLossScale{.initial = 0}); }, "initial is out of range", "");
  expect_error([] { mixed_precision("bf16", DynamicLossScale{.growth = 0.5}); }, "growth is out of range", "1 to 1e6");
  expect_error([] { mixed_precision("bf16", DynamicLossScale{.backoff = 1}); }, "backoff is out of range",
               "0 < backoff < 1");
  expect_error([] { mixed_precision("bf16", DynamicLossScale{.interval = 0}); }, "interval is out of range",
               "1 to 1000000 steps");
  // Zero as float32, by which gradients would be divided.
  expect_error([] { mixed_precision("fp16", DynamicLossScale{.initial = 1e-50}); }, "initial is out of range",
               "2^-126 to 2^126");
  expect_error([] { mixed_precision("fp16", 1e-46); }, "loss_scale is out of range", "2^-126 to 1e30");
}

using Settings = std::map<std::string, std::string>;

/// A model that knows nothing of precisions, under settings.
Program set_from_outside(const Settings& settings, const std::string& own = "") {
  Trace trace("model.cpp", settings);
  if (settings.contains("micro_batches")) trace.micro_batches = std::stoi(settings.at("micro_batches"));
  run_builder(trace, [&] {
    if (!own.empty()) mixed_precision(own);
    Tensor a = parameter("a", {5, 4}, constant_init(0.3)), b = parameter("b", {4, 3}, constant_init(0.7));
    Tensor y = matmul(tanh(matmul(full({6, 5}, 0.4) * parameter("x", {5}, ones()), a)), b);
    minimize(mean(y * y), SGD{.learning_rate = 0.5});
  });
  return differentiate(trace);
}

int casts_to(const Program& program, DType type) {
  return int(
      std::ranges::count_if(program.nodes, [&](const Node& n) { return n.tag() == "cast" && n.type.dtype == type; }));
}

TEST(MixedPrecision, IsSetFromOutsideOfAnyModel) {
  EXPECT_EQ(hash_text(set_from_outside({{"precision", "bf16"}})), hash_text(set_from_outside({}, "bf16")));
  EXPECT_EQ(hash_text(set_from_outside({{"precision", "f32"}})), hash_text(set_from_outside({})));
  const Program half = set_from_outside({{"precision", "fp16"}});
  EXPECT_EQ(casts_to(half, DType::fp16), casts_to(set_from_outside({}, "fp16"), DType::fp16));
  EXPECT_GT(casts_to(half, DType::fp16), 0);
  EXPECT_THAT(half.options, ::testing::Contains(::testing::Field(&OptionValue::name, "precision")));
  // fp16 has a scale that follows the gradients, which changes nothing but that.
  const auto after = steps_of(half, 1)[0], plain = steps_of(set_from_outside({}, "fp16"), 1)[0];
  EXPECT_EQ(after.at("loss_scale"), 65536);
  EXPECT_EQ(after.at("loss_scale.good_steps"), 1);
  for (const char* name : {"a", "b"})
    EXPECT_NEAR(after.at(name), plain.at(name), 1e-3) << "small gradients are rounded";
  const Program twice = set_from_outside({{"precision", "fp16"}, {"micro_batches", "2"}});
  EXPECT_EQ(std::ranges::count_if(twice.nodes, [](const Node& n) { return n.name == "loss_scale"; }), 1);
  EXPECT_EQ(casts_to(twice, DType::fp16), casts_to(set_from_outside({{"micro_batches", "2"}}, "fp16"), DType::fp16));
}

TEST(MixedPrecision, SetFromOutsideIsTheModelsOwnOptionWhereItHasOne) {
  std::string asked;
  const Program program = [&] {
    Trace trace("model.cpp", Settings{{"precision", "fp16"}});
    run_builder(trace, [&] {
      asked = option("precision", "f32", "of products");
      Tensor w = parameter("w", {3, 3}, ones());
      minimize(sum(matmul(w, w)), SGD{});
    });
    return differentiate(trace);
  }();
  EXPECT_EQ(asked, "fp16");
  EXPECT_EQ(casts_to(program, DType::fp16), 0) << "the model does with it what it likes";
  EXPECT_EQ(program.options.size(), 1u);
  // A model that decides for itself, and a value that is no type, are told as any option that a model has not.
  for (const auto& [value, own] : {std::pair("fp16", "bf16"), {"int8", ""}, {"", ""}})
    EXPECT_THAT(error_of([&] {
                  set_from_outside({{"precision", value}}, own);
                }),
                ::testing::HasSubstr("the model has no option named precision"))
        << value;
}

/// Some products would have one type and some another.
TEST(MixedPrecision, AModelAsksForItsPrecisionBeforeTheFirstProduct) {
  const auto asking_late = [](bool sets) {
    return error_of([&] {
      Trace trace("model.cpp", Settings{{"precision", "fp16"}});
      run_builder(trace, [&] {
        Tensor w = parameter("w", {3, 3}, ones());
        Tensor y = matmul(w, w);
        sets ? mixed_precision("bf16") : void(option("precision", "f32", "of products"));
        minimize(sum(y), SGD{});
      });
    });
  };
  for (const bool sets : {false, true})
    EXPECT_THAT(
        asking_late(sets),
        ::testing::AllOf(::testing::HasSubstr("products were computed in fp16 when the model asks for its precision"),
                         ::testing::HasSubstr("before the first product"),
                         ::testing::HasSubstr("ask for it first in model()")));
  EXPECT_EQ(error_of([] {
              Trace trace("model.cpp", Settings{{"precision", "fp16"}});
              run_builder(trace, [] {
                Tensor own = cast(parameter("w", {3, 3}, ones()), fp16);
                option("precision", "f32", "of products");
                minimize(sum(cast(own, f32)), SGD{});
              });
            }),
            "no error")
      << "what the model casts itself is its own affair";
}

TEST(MixedPrecision, IsSetOnceAndFirst) {
  expect_error(
      [] {
        parameter("x", {2}, zeros()) * 2;
        mixed_precision("bf16");
      },
      "the precision is set when something was computed already", "mixed_precision before anything else");
  expect_error([] { mixed_precision("bf16"), mixed_precision("f32"); }, "the precision is set twice",
               "one call of mixed_precision");
  expect_error([] { mixed_precision("bf16", DynamicLossScale{}), mixed_precision("fp16", DynamicLossScale{}); },
               "the precision is set twice", "one call of mixed_precision");
}

}  // namespace
}  // namespace hetsynth
