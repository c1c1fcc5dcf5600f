// What a user is told when arguments do not fit: tag, message, expected, found, mend, and the place of the call.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "dsl/include/hetsynth/hetsynth.h"
#include "dsl/ir/trace.h"
#include "dsl/transform/differentiate.h"
#include "tests/dsl/evaluation.h"
#include "tests/support/fresh_parameter.h"

namespace hetsynth {
namespace {

using ::testing::HasSubstr;

class OperatorErrors : public ::testing::Test {
 protected:
  Trace trace{"model.cpp"};

  Tensor tensor(const Dims& shape) { return fresh_parameter(shape); }
  Tensor indices(const Dims& shape, int64_t classes = 256) {
    Tensor t = trace.add_leaf(NodeKind::input, "labels", {shape, DType::i32}, std::source_location::current());
    trace.program.nodes[t.node()].data.classes = classes;
    return t;
  }
};

TEST_F(OperatorErrors, SayWhereTheCallIsAndWhatTheArgumentsWere) {
  Tensor h = tensor({32, 256}), w = tensor({128, 10});
  int line = 0;
  std::string text = error_of([&] {
    line = __LINE__ + 1;
    matmul(h, w);
  });
  EXPECT_THAT(text, HasSubstr("operator_errors_test.cpp:" + std::to_string(line)));
  EXPECT_THAT(text, HasSubstr("[matmul] inner dimensions disagree: [32,256] x [128,10]"));
  EXPECT_THAT(text, HasSubstr("expected: a second argument with 256 rows"));
  EXPECT_THAT(text, HasSubstr("128 rows"));
  EXPECT_THAT(text, HasSubstr("argument 1 is x0, f32[32,256]"));
  EXPECT_THAT(text, HasSubstr("argument 2 is x1, f32[128,10]"));
}

TEST_F(OperatorErrors, CompositesPointAtTheUserNotAtTheirOwnParts) {
  Tensor x = tensor({2, 3});
  std::string text = error_of([&] { softmax(x, 2); });
  EXPECT_THAT(text, HasSubstr("operator_errors_test.cpp"));
  EXPECT_THAT(text, HasSubstr("[softmax] there is no dimension 2"));
  Tensor y = softmax(x, 1);
  for (NodeId id = x.node() + 1; id <= y.node(); ++id)
    EXPECT_THAT(trace.program[id].where.file, HasSubstr("operator_errors_test.cpp")) << trace.program[id].tag();
}

TEST_F(OperatorErrors, Matmul) {
  EXPECT_THAT(error_of([&] {
                matmul(tensor({4}), tensor({4, 3}));
              }),
              HasSubstr("[matmul] argument 1 has too few dimensions"));
  EXPECT_THAT(error_of([&] {
                matmul(tensor({2, 5, 4}), tensor({3, 4, 5}));
              }),
              HasSubstr("[matmul] leading dimensions disagree: [2,5,4] x [3,4,5]"));
  EXPECT_THAT(error_of([&] { matmul(tensor({2, 4}), tensor({3, 4})); }), HasSubstr("transpose the second argument"));
  EXPECT_THAT(error_of([&] {
                matmul(indices({2, 4}), tensor({4, 3}));
              }),
              HasSubstr("[matmul] argument 1 must hold numbers, not indices"));
}

TEST_F(OperatorErrors, Einsum) {
  Tensor a = tensor({2, 3}), b = tensor({4, 5});
  for (const char* spec : {"ij,jk", "ij->ik", "ii,jk->ik", "ij,jk->iz", "ij,jk->ikk", "i1,1k->ik", "", "->,"})
    EXPECT_THAT(error_of([&] { einsum(spec, a, b); }), HasSubstr("is no contraction of two tensors")) << spec;
  EXPECT_THAT(error_of([&] { einsum("ij,jk->ik", a, b); }), HasSubstr("[einsum] extents of j disagree: [2,3] x [4,5]"));
  EXPECT_THAT(error_of([&] { einsum("ijk,jk->ik", a, b); }), HasSubstr("as many dimensions as \"ijk\" has letters"));
}

TEST_F(OperatorErrors, Broadcasting) {
  Tensor a = tensor({32, 256}), b = tensor({128});
  EXPECT_THAT(error_of([&] { a + b; }), HasSubstr("[add] shapes do not broadcast: [32,256] with [128]"));
  EXPECT_THAT(error_of([&] { a / b; }), HasSubstr("[div] shapes do not broadcast"));
  EXPECT_THAT(error_of([&] { a* indices({256}); }), HasSubstr("[mul] argument 2 must hold numbers, not indices"));
  EXPECT_THAT(error_of([&] { broadcast(a, {256}); }), HasSubstr("[broadcast] [32,256] does not broadcast to [256]"));
  EXPECT_THAT(error_of([&] { relu(indices({3})); }), HasSubstr("[relu] argument 1 must hold numbers"));
}

TEST_F(OperatorErrors, Dimensions) {
  Tensor a = tensor({2, 3});
  EXPECT_THAT(error_of([&] { sum(a, 2); }), HasSubstr("[sum] there is no dimension 2"));
  EXPECT_THAT(error_of([&] { sum(a, 2); }), HasSubstr("a dimension from -2 to 1"));
  EXPECT_THAT(error_of([&] { max(a, {0, -2}); }), HasSubstr("[max] dimension 0 is named twice"));
  EXPECT_THAT(error_of([&] { mean(a, -3); }), HasSubstr("[mean] there is no dimension -3"));
  EXPECT_THAT(error_of([&] { log_softmax(tensor({2}), 1); }), HasSubstr("[log_softmax] there is no dimension 1"));
  EXPECT_THAT(error_of([&] { softmax(constant(1), 0); }), HasSubstr("a scalar"));
}

TEST_F(OperatorErrors, Shapes) {
  Tensor a = tensor({2, 3});
  EXPECT_THAT(error_of([&] { reshape(a, {4, 2}); }), HasSubstr("[reshape] [2,3] cannot become [4,2]"));
  EXPECT_THAT(error_of([&] { reshape(a, {4, 2}); }), HasSubstr("6 elements"));
  EXPECT_THAT(error_of([&] { reshape(a, {-1, -1}); }), HasSubstr("[reshape]"));
  EXPECT_THAT(error_of([&] { reshape(a, {4, -1}); }), HasSubstr("[reshape]"));
  EXPECT_THAT(error_of([&] { reshape(a, {-6, -1}); }), HasSubstr("[reshape]"));
  EXPECT_THAT(error_of([&] { reshape(a, {int64_t(1) << 62, int64_t(1) << 62}); }), HasSubstr("[reshape]"));
  EXPECT_THAT(error_of([&] { transpose(a, {0}); }), HasSubstr("[transpose] the order must name every dimension once"));
  EXPECT_THAT(error_of([&] { transpose(a, {0, 0}); }), HasSubstr("[transpose]"));
  EXPECT_THAT(error_of([&] { slice(a, 1, 2, 4); }), HasSubstr("[slice] [2,4) is no range of dimension 1 of [2,3]"));
  EXPECT_THAT(error_of([&] { slice(a, 1, 2, 2); }), HasSubstr("[slice]"));
  EXPECT_THAT(error_of([&] { slice(a, 2, 0, 1); }), HasSubstr("[slice] there is no dimension 2"));
  EXPECT_THAT(error_of([&] { pad(a, 0, -1, 0); }), HasSubstr("[pad] padding is negative or too large"));
  EXPECT_THAT(error_of([&] {
                concat({a, tensor({3, 3})}, 1);
              }),
              HasSubstr("[concat] the tensors differ in more than dimension 1"));
  EXPECT_THAT(error_of([&] { concat({a, indices({2, 3})}, 0); }), HasSubstr("tensors like f32[2,3]"));
  EXPECT_THAT(error_of([&] { concat(std::vector<Tensor>{}, 0); }), HasSubstr("[concat] there is nothing to join"));
  EXPECT_THAT(error_of([&] { full({2, 0}, 1); }), HasSubstr("[constant] the result has an impossible shape"));
}

TEST_F(OperatorErrors, ImpossibleSizes) {
  constexpr int64_t huge = int64_t(1) << 40;
  EXPECT_THAT(error_of([&] { parameter("w", {huge, huge}, zeros()); }), HasSubstr("at most 2^48 elements"));
  EXPECT_THAT(error_of([&] { full({-3}, 0); }), HasSubstr("[-3]"));
  Tensor row = tensor({1, huge}), column = tensor({huge, 1});
  EXPECT_THAT(error_of([&] { row + column; }), HasSubstr("[add] the result has an impossible shape"));
  EXPECT_THAT(error_of([&] { matmul(column, row); }), HasSubstr("[einsum] the result has an impossible shape"));
  EXPECT_THAT(error_of([&] { broadcast(row, {huge, huge}); }), HasSubstr("[broadcast] the result has"));
  EXPECT_THAT(error_of([&] { pad(row, 0, std::numeric_limits<int64_t>::max(), 1); }), HasSubstr("[pad]"));
  EXPECT_THAT(error_of([&] { slice(row, 1, std::numeric_limits<int64_t>::min(), 1); }), HasSubstr("[slice]"));
  EXPECT_THAT(error_of([&] { text_batch(huge, huge); }), HasSubstr("[input] tokens has an impossible shape"));
  EXPECT_THAT(error_of([&] { matmul(tensor(Dims(13, 1)), tensor({1, 1})); }), HasSubstr("too many leading dimensions"));
}

TEST_F(OperatorErrors, Networks) {
  EXPECT_THAT(error_of([&] {
                embedding(tensor({10, 4}), tensor({3}));
              }),
              HasSubstr("[embedding] argument 2 must hold indices"));
  EXPECT_THAT(error_of([&] { embedding(tensor({10}), indices({3})); }),
              HasSubstr("[embedding] argument 1 must be a table"));
  EXPECT_THAT(error_of([&] {
                embedding(tensor({10, 4}), indices({3}));
              }),
              HasSubstr("[embedding] the table has 10 entries, but the indices reach 255"));
  EXPECT_THAT(error_of([&] {
                layernorm(tensor({2, 8}), tensor({8}), tensor({4}));
              }),
              HasSubstr("[layernorm] bias has another width than the tensor"));
  EXPECT_THAT(error_of([&] { causal_mask(tensor({2, 3, 4})); }), HasSubstr("[causal_mask] as many keys as queries"));
  EXPECT_THAT(error_of([&] { causal_mask(tensor({4})); }),
              HasSubstr("[causal_mask] argument 1 has too few dimensions"));
  EXPECT_THAT(error_of([&] { dropout(tensor({4}), 1); }), HasSubstr("[dropout] the probability is out of range"));
  EXPECT_THAT(error_of([&] { dropout(tensor({4}), -0.5); }), HasSubstr("[dropout]"));
  EXPECT_THAT(error_of([&] { pick(tensor({4, 3}), indices({4, 3})); }), HasSubstr("[pick] labels do not fit"));
}

TEST_F(OperatorErrors, CrossEntropy) {
  EXPECT_THAT(error_of([&] {
                cross_entropy(tensor({8, 256}), indices({4}));
              }),
              HasSubstr("[cross_entropy] labels do not fit logits: [4] and [8,256]"));
  EXPECT_THAT(error_of([&] {
                cross_entropy(tensor({8, 256}), tensor({8}));
              }),
              HasSubstr("[cross_entropy] argument 2 must hold indices"));
  EXPECT_THAT(error_of([&] {
                cross_entropy(tensor({8, 10}), indices({8}));
              }),
              HasSubstr("[cross_entropy] a row of logits has 10 entries, but the indices reach 255"));
  EXPECT_THAT(error_of([&] { cross_entropy(indices({}), indices({})); }), HasSubstr("[cross_entropy]"));
}

TEST_F(OperatorErrors, UndefinedTensors) {
  Tensor nothing;
  EXPECT_THAT(error_of([&] { nothing + 1; }), HasSubstr("an argument is no tensor of this model"));
  EXPECT_THAT(error_of([&] { nothing.size(0); }), HasSubstr("a default-constructed Tensor has no shape"));
  for (const auto& call : std::vector<std::function<void()>>{
           [&] {
             matmul(nothing, tensor({2, 2}));
           },
           [&] { softmax(nothing, 0); }, [&] { mean(nothing); }, [&] { layernorm(nothing, nothing, nothing); },
           [&] { cross_entropy(nothing, nothing); }, [&] { causal_mask(nothing); }, [&] { dropout(nothing, 0.5); },
           [&] { reshape(nothing, {1}); },
           [&] {
             embedding(tensor({2, 2}), nothing);
           },
           [&] { pick(nothing, nothing); }, [&] { broadcast(nothing, {1}); }, [&] { pad(nothing, 0, 0, 0); },
           [&] { minimize(nothing, SGD{}); }, [&] { output("y", nothing); }, [&] { stop_gradient(nothing); },
           [&] { log_softmax(nothing, 0); }})
    EXPECT_THAT(error_of(call), HasSubstr("no tensor of this model"));
}

TEST_F(OperatorErrors, ModelFunctions) {
  EXPECT_THAT(error_of([&] { parameter("w", {2, 0}, zeros()); }), HasSubstr("[parameter] w has an impossible shape"));
  EXPECT_THAT(error_of([&] { parameter("", {2}, zeros()); }), HasSubstr("[parameter] a parameter needs a name"));
  EXPECT_THAT(error_of([&] { text_batch(0, 8); }), HasSubstr("[text_batch] batch must be positive"));
  EXPECT_THAT(error_of([&] { text_next_byte(4, -1); }), HasSubstr("[text_next_byte] length must be positive"));
  EXPECT_THAT(error_of([&] { synthetic_batch(4, 3, 0); }), HasSubstr("[synthetic_batch] classes must be positive"));
  EXPECT_THAT(error_of([&] { minimize(tensor({8, 3}), SGD{}); }), HasSubstr("[minimize] the loss must be a scalar"));
  EXPECT_THAT(error_of([&] { minimize(sum(tensor({8})), SGD{.momentum = 1}); }),
              HasSubstr("[SGD] momentum is out of range"));
  EXPECT_THAT(error_of([&] { minimize(sum(tensor({8})), AdamW{.learning_rate = -1}); }),
              HasSubstr("[AdamW] learning_rate is out of range"));
  EXPECT_THAT(error_of([&] { minimize(sum(tensor({8})), AdamW{.learning_rate = HUGE_VAL}); }),
              AllOf(HasSubstr("[AdamW] learning_rate is out of range"), HasSubstr("a finite number")));
  Tensor loss = sum(tensor({8}));
  minimize(loss, SGD{});
  EXPECT_THAT(error_of([&] { minimize(loss, SGD{}); }), HasSubstr("[minimize] a model minimises one loss"));
  output("y", loss);
  EXPECT_THAT(error_of([&] { output("y", loss); }), HasSubstr("[output] there are two outputs named y"));
}

TEST(Options, TakeTheCommandLinesValueAndListThemselvesOnce) {
  Trace trace("model.cpp", {{"layers", "12"}, {"lr", "2.5e-3"}, {"kind", "wide"}});
  EXPECT_EQ(option("layers", 4, "blocks"), 12);
  EXPECT_EQ(option("layers", 4), 12);
  EXPECT_EQ(option("hidden", int64_t(4) * 32), 128);
  EXPECT_EQ(option("lr", 0.1), 2.5e-3);
  EXPECT_EQ(option("kind", "narrow"), "wide");
  ASSERT_EQ(trace.program.options.size(), 4u);
  EXPECT_EQ(trace.program.options[0].value, "12");
  EXPECT_EQ(trace.program.options[0].help, "blocks");
  EXPECT_EQ(trace.settings_used.size(), 3u);
}

TEST(Options, RefuseValuesOfAnotherType) {
  for (const char* value : {"abc", "1.5", "12x", "", "99999999999999999999", " 3"}) {
    Trace trace("model.cpp", {{"layers", value}});
    std::string text = error_of([] { option("layers", 4); });
    EXPECT_THAT(text, HasSubstr("[option] layers has no valid value")) << value;
    EXPECT_THAT(text, HasSubstr("a whole number"));
    EXPECT_THAT(text, HasSubstr("--set layers=4"));
  }
  for (const char* value : {"fast", "nan", "inf", "1e999", "0.1.2"}) {
    Trace trace("model.cpp", {{"lr", value}});
    EXPECT_THAT(error_of([] { option("lr", 0.1); }), HasSubstr("a finite number")) << value;
  }
}

TEST(StopGradient, StopsOnlyTheMarkedUse) {
  Trace trace("model.cpp");
  Tensor x = parameter("x", {}, zeros());
  Tensor loss = x * stop_gradient(x * 3);
  Tensor gradient = gradients(loss, {x})[0];
  std::string body = text(trace.program[gradient.node()].body);
  EXPECT_EQ(body, "(in1 * in0)") << "the gradient is 3x alone, not 6x";
}

}  // namespace
}  // namespace hetsynth
