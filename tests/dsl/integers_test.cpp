// Whole numbers computed with, comparisons by operators, and assignment with an operator.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/dsl/evaluation.h"

namespace hetsynth {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Integers, AreAddedSubtractedAndMultipliedAsWholeNumbers) {
  Evaluation value;
  Tensor a = value.indices({3}, {1, -2, 3}), b = value.indices({2, 1}, {10, 20});
  for (Tensor t : {a + b, a - b, a * b, -a, a + 1, 2 * a, 5 - a, maximum(a, 0), minimum(a, b)})
    EXPECT_EQ(t.dtype(), DType::i32);
  EXPECT_THAT(value(a + b), ElementsAre(11, 8, 13, 21, 18, 23));
  EXPECT_THAT(value(a - 1), ElementsAre(0, -3, 2));
  EXPECT_THAT(value(5 - a), ElementsAre(4, 7, 2));
  EXPECT_THAT(value(a * b), ElementsAre(10, -20, 30, 20, -40, 60));
  EXPECT_THAT(value(-a), ElementsAre(-1, 2, -3));
  EXPECT_THAT(value(maximum(a, 0)), ElementsAre(1, 0, 3));
  EXPECT_THAT(value(minimum(a, 2)), ElementsAre(1, -2, 2));
  Tensor table = value.counting({6, 2});
  EXPECT_THAT(value(embedding(table, a + 2)), ElementsAre(6, 7, 0, 1, 10, 11)) << "an index like any other";
}

TEST(Integers, AreChosenBroadcastAndCompared) {
  Evaluation value;
  Tensor a = value.indices({3}, {1, -2, 3});
  Tensor chosen = where(a > 0, a, -1), wide = broadcast(a, {2, 3});
  EXPECT_EQ(chosen.dtype(), DType::i32);
  EXPECT_THAT(value(chosen), ElementsAre(1, -1, 3));
  EXPECT_THAT(value(where(a, a * 2, a)), ElementsAre(2, -4, 6)) << "an index as a condition";
  EXPECT_THAT(value(wide), ElementsAre(1, -2, 3, 1, -2, 3));
  EXPECT_THAT(value(a == value.indices({3}, {1, 2, 3})), ElementsAre(1, 0, 1));
}

TEST(Integers, DoNotMixWithNumbers) {
  Evaluation value;
  Tensor a = value.indices({3}, {1, -2, 3}), x = value.leaf({3}, {1, 2, 3});
  EXPECT_THAT(error_of([&] { a + x; }),
              AllOf(HasSubstr("integers_test.cpp"), HasSubstr("[add] argument 1 must hold numbers, not indices"),
                    HasSubstr("to_float(indices)")));
  EXPECT_THAT(error_of([&] { x* a; }), HasSubstr("[mul] argument 2 must hold numbers, not indices"));
  EXPECT_THAT(error_of([&] { where(x, a, x); }), HasSubstr("[where] argument 2 must hold numbers"));
  EXPECT_THAT(error_of([&] { where(x, x, a); }), HasSubstr("[where] argument 3 must hold numbers"));
  EXPECT_THAT(error_of([&] { a * 0.5; }), AllOf(HasSubstr("[mul] a number that is not whole meets whole numbers"),
                                                HasSubstr("0.5"), HasSubstr("to_float(x)")));
  EXPECT_THAT(error_of([&] { where(x, a, 1e12); }),
              HasSubstr("[where] a number that is not whole meets whole numbers"));
  EXPECT_THAT(error_of([&] { a / 2; }), HasSubstr("[div] argument 1 must hold numbers"));
  EXPECT_FALSE(gradients(sum(to_float(to_int(x) * 2)), {x})[0].defined());
}

TEST(Comparisons, AreOperatorsToo) {
  Evaluation value;
  Tensor a = value.leaf({3}, {1, 2, 3}), b = value.leaf({3}, {2, 2, 2});
  EXPECT_THAT(value(a < b), ElementsAre(1, 0, 0));
  EXPECT_THAT(value(a <= b), ElementsAre(1, 1, 0));
  EXPECT_THAT(value(a > b), ElementsAre(0, 0, 1));
  EXPECT_THAT(value(a >= 2), ElementsAre(0, 1, 1));
  EXPECT_THAT(value(2 == a), ElementsAre(0, 1, 0));
  EXPECT_THAT(value(a != b), ElementsAre(1, 0, 1));
  EXPECT_THAT(value((a > 1) * (a < 3)), ElementsAre(0, 1, 0));
  EXPECT_THAT(error_of([&] {
                a < value.indices({3}, {0, 1, 2});
              }),
              AllOf(HasSubstr("integers_test.cpp"), HasSubstr("[less] numbers and indices cannot be compared")));
}

TEST(Assignment, WithAnOperatorGivesTheVariableAnotherTensor) {
  Evaluation value;
  Tensor x = value.leaf({2}, {6, 8}), first = x, y = value.leaf({2}, {2, 4});
  x += y;
  EXPECT_THAT(value(x), ElementsAre(8, 12));
  x -= 2;
  EXPECT_THAT(value(x), ElementsAre(6, 10));
  x *= y;
  EXPECT_THAT(value(x), ElementsAre(12, 40));
  (x /= 4) += 1.0;
  EXPECT_THAT(value(x), ElementsAre(4, 11));
  EXPECT_THAT(value(first), ElementsAre(6, 8)) << "other handles stay what they were";
  EXPECT_THAT(value(gradients(sum(x), {first})[0]), ElementsAre(0.5, 1));
  int line = 0;
  const std::string text = error_of([&] {
    line = __LINE__ + 1;
    x += value.leaf({3}, {1, 2, 3});
  });
  EXPECT_THAT(
      text, AllOf(HasSubstr("integers_test.cpp:" + std::to_string(line)), HasSubstr("[add] shapes do not broadcast")));
}

}  // namespace
}  // namespace hetsynth
