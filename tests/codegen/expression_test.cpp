// Bodies as C text: parts that occur more than once are declared once, in order, and only where that saves work.
#include "codegen/text/expression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hetsynth::codegen {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct Text {
  std::string value;
  std::vector<std::string> declared;
};

Text print_with_names(const Expr& e) {
  Text out;
  ExpressionLeaves leaves;
  leaves.input = [](int i) { return Printed{"x" + std::to_string(i), Printed::Binding::unary, false}; };
  leaves.factor = [](int f) { return "i" + std::to_string(f); };
  leaves.random = [](int stream) { return "uniform(" + std::to_string(stream) + ")"; };
  leaves.declare = [&](const std::string& word, const std::string& value) {
    std::string name = word + "_" + std::to_string(out.declared.size());
    out.declared.push_back(name + " = " + value);
    return name;
  };
  out.value = print(e, leaves).text;
  return out;
}

const Expr x = Expr::input(0), y = Expr::input(1);

TEST(Expression, RepeatedFunctionsAreComputedOnce) {
  Expr t = tanh(x * y);
  Text text = print_with_names((1.0 + t) * (1.0 - t * t));
  EXPECT_THAT(text.declared, ElementsAre("tanh_0 = tanh_f32(x0 * x1)"));
  EXPECT_EQ(text.value, "(1.0f + tanh_0) * (1.0f - tanh_0 * tanh_0)");
}

TEST(Expression, EqualPartsCountWhereverTheyWereBuilt) {
  Text text = print_with_names(exp(x - y) / (exp(x - y) + 1.0));
  EXPECT_THAT(text.declared, ElementsAre("exp_0 = exp_f32(x0 - x1)"));
  EXPECT_EQ(text.value, "exp_0 / (exp_0 + 1.0f)");
}

TEST(Expression, PartsOfRepeatedPartsAreDeclaredOnlyIfTheyOccurElsewhere) {
  Expr inner = exp(x), outer = log(1.0 + inner);
  EXPECT_THAT(print_with_names(outer * outer).declared, ElementsAre("log_0 = log_f32(1.0f + exp_f32(x0))"));
  EXPECT_THAT(print_with_names(outer * outer + inner).declared,
              ElementsAre("exp_0 = exp_f32(x0)", "log_1 = log_f32(1.0f + exp_0)"));
}

TEST(Expression, SingleOperationsAndConditionsStayWhereTheyAre) {
  EXPECT_THAT(print_with_names((x * y) + (x * y)).declared, IsEmpty());
  EXPECT_THAT(print_with_names(select(less(x, y + 1.0), x, select(less(x, y + 1.0), y, x))).declared, IsEmpty());
  Text draws = print_with_names(Expr::random(3) * Expr::random(3));
  EXPECT_THAT(draws.declared, ElementsAre("draw_0 = uniform(3)"));
}

TEST(Expression, WithoutNamesEverythingIsPrintedInPlace) {
  ExpressionLeaves leaves;
  leaves.input = [](int) { return Printed{"x", Printed::Binding::unary, false}; };
  EXPECT_EQ(print(exp(x) * exp(x), leaves).text, "exp_f32(x) * exp_f32(x)");
}

}  // namespace
}  // namespace hetsynth::codegen
