// Inputs with names of the model's own: what may be declared, and what operators make of the declaration.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "dsl/include/hetsynth/hetsynth.h"
#include "dsl/ir/trace.h"
#include "dsl/transform/differentiate.h"
#include "tests/support/error_of.h"

namespace hetsynth {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Inputs : public ::testing::Test {
 protected:
  Trace trace{"model.cpp"};
};

TEST_F(Inputs, HaveTheTypeAndTheValuesThatAreSaid) {
  Tensor x = input("x", {4, 3, 2}, f32, {.lowest = 0});
  Tensor y = input("y", {4}, i32, {.lowest = -2, .highest = 5, .ignored = -100});
  const Node& real = trace.program[x.node()];
  const Node& whole = trace.program[y.node()];
  EXPECT_EQ(real.type, (TensorType{{4, 3, 2}, DType::f32}));
  EXPECT_EQ(whole.type, (TensorType{{4}, DType::i32}));
  EXPECT_TRUE(real.data.files);
  EXPECT_TRUE(takes_real(real.data, 0) && takes_real(real.data, 1e30f));
  EXPECT_FALSE(takes_real(real.data, -1e-30f) || takes_real(real.data, std::numeric_limits<float>::infinity()));
  for (const int64_t value : {-2, 0, 5, -100}) EXPECT_TRUE(takes_whole(whole.data, value)) << value;
  for (const int64_t value : {-3, 6, -99, 100}) EXPECT_FALSE(takes_whole(whole.data, value)) << value;
  EXPECT_EQ(text_of_values(whole.data, DType::i32), "-2 to 5, or -100");
}

/// A bound is compared as float32, as which the data are read.
TEST_F(Inputs, BoundsAreThoseOfFloat32) {
  const Node& node = trace.program[input("x", {4}, f32, {.lowest = 0.1, .highest = 0.7}).node()];
  EXPECT_TRUE(takes_real(node.data, 0.1f) && takes_real(node.data, 0.7f));
}

TEST(InputPrograms, DifferByTheValuesThatAreTaken) {
  const auto text_of = [](const InputOptions& options) {
    Trace other("model.cpp");
    input("y", {4}, i32, options);
    return text(other.program);
  };
  EXPECT_NE(text_of({.classes = 5}), text_of({.classes = 5, .ignored = -100}));
  EXPECT_NE(text_of({.lowest = 0, .highest = 4}), text_of({.lowest = -1, .highest = 4}));
}

TEST_F(Inputs, RefuseWhatIsNoDeclaration) {
  const auto refusal = [](const std::string& name, const std::vector<int64_t>& shape, DType dtype,
                          const InputOptions& options = {}) {
    return error_of([&] { input(name, shape, dtype, options); });
  };
  EXPECT_THAT(refusal("", {4}, f32), AllOf(HasSubstr("[input] an input needs a name"), HasSubstr("inputs_test.cpp")));
  EXPECT_THAT(refusal("a/b", {4}, f32), HasSubstr("cannot be that of a file"));
  EXPECT_THAT(refusal("x", {}, f32), HasSubstr("input \"x\": it has no dimension for the batch"));
  EXPECT_THAT(refusal("x", {4, 0}, f32), HasSubstr("impossible shape"));
  EXPECT_THAT(refusal("x", {4}, bf16), AllOf(HasSubstr("read as f32 or i32"), HasSubstr("cast(x, bf16)")));
  EXPECT_THAT(refusal("x", {4}, i32),
              AllOf(HasSubstr("it is not said which integers it takes"), HasSubstr(".classes")));
  EXPECT_THAT(refusal("x", {4}, i32, {.lowest = 0}), HasSubstr("one bound"));
  EXPECT_THAT(refusal("x", {4}, i32, {.classes = 3, .lowest = 0}), HasSubstr("its values are said twice"));
  EXPECT_THAT(refusal("x", {4}, i32, {.classes = -3}), HasSubstr("must be positive"));
  EXPECT_THAT(refusal("x", {4}, i32, {.lowest = 0.5, .highest = 2}), HasSubstr("no range of int32"));
  EXPECT_THAT(refusal("x", {4}, i32, {.lowest = 3, .highest = 2}), HasSubstr("3 to 2"));
  EXPECT_THAT(refusal("x", {4}, i32, {.lowest = 0, .highest = 3e9}), HasSubstr("no range of int32"));
  EXPECT_THAT(refusal("x", {4}, i32, {.classes = 3, .ignored = int64_t{1} << 40}), HasSubstr("is no int32"));
  EXPECT_THAT(refusal("x", {4}, f32, {.classes = 3}), AllOf(HasSubstr(".classes is of integers"), HasSubstr("i32")));
  EXPECT_THAT(refusal("x", {4}, f32, {.ignored = 3}), HasSubstr(".ignored is of integers"));
  EXPECT_THAT(refusal("x", {4}, f32, {.lowest = 2, .highest = 1}), HasSubstr("2 to 1"));
  EXPECT_THAT(refusal("x", {4}, f32, {.highest = std::numeric_limits<double>::infinity()}), HasSubstr("no float32"));
}

TEST_F(Inputs, OfOneModelHaveOneBatchAndNamesOfTheirOwn) {
  input("x", {4, 2}, f32);
  EXPECT_THAT(error_of([] { input("x", {4}, f32); }),
              AllOf(HasSubstr("a second input has this name"), HasSubstr("x is made here")));
  EXPECT_THAT(error_of([] { input("y", {5}, f32); }),
              AllOf(HasSubstr("4 samples in dimension 0, as x has"), HasSubstr("[5]")));
  EXPECT_THAT(error_of([] { image_batch(3, 1, 2, 2, 4); }), HasSubstr("4 samples in dimension 0, as x has"));
  EXPECT_EQ(error_of([] { image_batch(4, 1, 2, 2, 4); }), "no error");
  EXPECT_THAT(error_of([] { input("labels", {4}, f32); }), HasSubstr("a second input has this name"));
}

TEST_F(Inputs, AreHeldAgainstTheTablesThatTheyLookUp) {
  Tensor table = parameter("table", {10, 3}, zeros());
  EXPECT_EQ(error_of([&] { embedding(table, input("a", {4}, i32, {.classes = 10})); }), "no error");
  EXPECT_THAT(error_of([&] { embedding(table, input("b", {4}, i32, {.classes = 11})); }),
              HasSubstr("the indices reach 10"));
  EXPECT_THAT(error_of([&] { embedding(table, input("c", {4}, i32, {.lowest = -1, .highest = 5})); }),
              AllOf(HasSubstr("the indices begin below"), HasSubstr("c takes -1 to 5"), HasSubstr(".classes = 10")));
}

TEST_F(Inputs, WithIgnoredLabelsNeedALossThatIgnoresThem) {
  Tensor logits = parameter("logits", {4, 3}, zeros());
  Tensor labels = input("labels", {4}, i32, {.classes = 3, .ignored = -100});
  EXPECT_THAT(error_of([&] { cross_entropy(logits, labels); }),
              AllOf(HasSubstr("labels may be -100, which is no class"), HasSubstr("{.ignored_label = -100}"),
                    HasSubstr("no ignored_label"), HasSubstr("labels")));
  EXPECT_THAT(error_of([&] { cross_entropy(logits, labels, {.ignored_label = -1}); }),
              HasSubstr("found:    {.ignored_label = -1}"));
  EXPECT_EQ(error_of([&] { cross_entropy(logits, labels, {.ignored_label = -100}); }), "no error");
  // A class that may be ignored need not be.
  Tensor padded = input("padded", {4}, i32, {.classes = 3, .ignored = 0});
  EXPECT_EQ(error_of([&] { cross_entropy(logits, padded); }), "no error");
}

/// Micro-batches repeat the declarations; their samples follow each other under the first one's name.
TEST(InputsOfMicroBatches, ContinueTheFirstOnes) {
  Trace accumulating("model.cpp", {{"micro_batches", "2"}});
  run_builder(accumulating, [] {
    Tensor x = input("x", {4, 3}, f32), y = input("y", {4}, i32, {.classes = 2});
    minimize(cross_entropy(matmul(x, parameter("w", {3, 2}, normal(0.1))), y), SGD{.learning_rate = 0.1});
  });
  const Program program = differentiate(accumulating);
  std::vector<std::string> names;
  std::vector<int64_t> first;
  for (const Node& node : program.nodes) {
    if (node.kind != NodeKind::input) continue;
    names.push_back(data_name(node));
    first.push_back(global_sample(node, 1, 0));
  }
  EXPECT_EQ(names, (std::vector<std::string>{"x", "y", "x", "y"}));
  EXPECT_EQ(first, (std::vector<int64_t>{8, 8, 12, 12}));
}

}  // namespace
}  // namespace hetsynth
