// Operators over lines of a tensor that are made of others: minimum, logsumexp, running products, order, stacks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/dsl/evaluation.h"

namespace hetsynth {
namespace {

using ::testing::AllOf;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;

TEST(Reductions, MinimumIsTheNegatedMaximum) {
  Evaluation value;
  Tensor x = value.leaf({2, 3}, {3, -1, 2, 5, -1, 0});
  EXPECT_THAT(value(min(x)), ElementsAre(-1));
  EXPECT_THAT(value(min(x, 1)), ElementsAre(-1, -1));
  EXPECT_THAT(value(min(x, {0, 1}, true)), ElementsAre(-1));
  EXPECT_EQ(min(x, 0, true).shape(), (Dims{1, 3}));
  EXPECT_THAT(value(gradients(sum(min(x)), {x})[0]), ElementsAre(0, 0.5, 0, 0, 0.5, 0)) << "equal ones share it";
}

TEST(Reductions, LogSumExp) {
  Evaluation value;
  Tensor x = value.leaf({2, 3}, {1, 2, 3, 1000, 1001, 999});
  const auto one = [](double a, double b, double c) { return std::log(std::exp(a) + std::exp(b) + std::exp(c)); };
  EXPECT_THAT(value(logsumexp(x, 1)), Pointwise(DoubleNear(1e-9), Values{one(1, 2, 3), 1000 + one(0, 1, -1)}));
  EXPECT_EQ(logsumexp(x, 1, true).shape(), (Dims{2, 1}));
  EXPECT_EQ(logsumexp(x).shape(), Dims{});
}

TEST(Reductions, LogSumExpHasItsGradient) {
  for (bool keepdim : {false, true})
    for (const DimList& dims : {DimList(), DimList(0), DimList{0, 2}})
      expect_gradient({2, 3, 2}, {0.1, 0.5, -1, 2, 0.3, 0, 1, -0.2, 0.7, 0.4, 0.9, -0.5}, [&](Evaluation&, Tensor t) {
        return sum(square(logsumexp(t, dims, keepdim)) * 0.5 + logsumexp(t, dims, keepdim));
      });
}

TEST(Reductions, RunningProducts) {
  for (int64_t extent : {1, 2, 5, 8, 13}) {
    Evaluation value;
    Values line, wanted;
    double product = 1;
    for (int64_t i = 0; i < extent; ++i) {
      line.push_back(1 + 0.25 * double((i * 5) % 7) - 0.75);
      wanted.push_back(product *= line.back());
    }
    EXPECT_THAT(value(cumprod(value.leaf({extent}, line), 0)), Pointwise(DoubleNear(exact), wanted)) << extent;
  }
  Evaluation value;
  Tensor x = value.leaf({2, 3}, {1, 2, 3, 4, 0, 6});
  EXPECT_THAT(value(cumprod(x, -1)), ElementsAre(1, 2, 6, 4, 0, 0));
  EXPECT_THAT(value(cumprod(x, 0)), ElementsAre(1, 2, 3, 4, 0, 18));
}

TEST(Reductions, RunningProductsHaveTheirGradient) {
  // Zeros are where a gradient by division fails.
  expect_gradient({5}, {0.5, 0, 2, -1.5, 0.25}, [](Evaluation& e, Tensor t) {
    return sum(cumprod(t, 0) * e.leaf({5}, {1, 2, 3, 4, 5}));
  });
}

TEST(Reductions, SortedLines) {
  for (int64_t extent : {1, 2, 7, 40}) {
    Evaluation value;
    Values line(static_cast<size_t>(extent));
    for (size_t i = 0; i < line.size(); ++i) line[i] = double((i * 7919) % 11) - 5;  // with ties
    std::vector<size_t> up(line.size()), down;
    std::iota(up.begin(), up.end(), 0);
    down = up;
    std::ranges::stable_sort(up, {}, [&](size_t i) { return line[i]; });
    std::ranges::stable_sort(down, std::greater<>(), [&](size_t i) { return line[i]; });
    Tensor x = value.leaf({extent}, line);
    for (bool descending : {false, true}) {
      const std::vector<size_t>& order = descending ? down : up;
      auto [values, indices] = sort(x, 0, descending);
      EXPECT_EQ(indices.dtype(), DType::i32);
      for (size_t i = 0; i < order.size(); ++i) {
        EXPECT_EQ(value(values)[i], line[order[i]]) << extent;
        EXPECT_EQ(value(indices)[i], double(order[i])) << extent;
      }
      EXPECT_EQ(value(argsort(x, -1, descending)), value(indices));
    }
  }
}

TEST(Reductions, SortAlongAnyDimensionAndItsGradient) {
  Evaluation value;
  Tensor x = value.leaf({3, 2}, {5, 1, 2, 9, 7, 4});
  EXPECT_THAT(value(sort(x, 0).values), ElementsAre(2, 1, 5, 4, 7, 9));
  Tensor loss = sum(sort(x, 0).values * value.leaf({3, 2}, {1, 2, 3, 4, 5, 6}));
  EXPECT_THAT(value(gradients(loss, {x})[0]), ElementsAre(3, 2, 1, 6, 5, 4));
}

TEST(Reductions, Stacks) {
  Evaluation value;
  Tensor a = value.leaf({2}, {1, 2}), b = value.leaf({2}, {3, 4});
  EXPECT_THAT(value(stack({a, b})), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(value(stack({a, b}, 1)), ElementsAre(1, 3, 2, 4));
  EXPECT_THAT(value(stack({a, b}, -1)), ElementsAre(1, 3, 2, 4));
  EXPECT_EQ(stack({a}, 0).shape(), (Dims{1, 2}));
  EXPECT_EQ(stack(std::vector<Tensor>{a, b, a}, -2).shape(), (Dims{3, 2}));
  EXPECT_EQ(stack({value.indices({2}, {0, 1}), value.indices({2}, {1, 0})}).dtype(), DType::i32);
  Tensor scalar = value.leaf({}, {7});
  EXPECT_THAT(value(stack({scalar, scalar})), ElementsAre(7, 7));
  EXPECT_THAT(value(gradients(sum(stack({a, b}, 1) * value.leaf({2, 2}, {1, 2, 3, 4})), {b})[0]), ElementsAre(2, 4));
}

TEST(Reductions, ThreeTensorsInTheOrderOfFewestMultiplications) {
  Evaluation value;
  Tensor a = value.counting({2, 3}), b = value.counting({3, 50}), c = value.counting({50, 1});
  EXPECT_EQ(value(einsum("ab,bc,cd->ad", a, b, c)), value(matmul(a, matmul(b, c))));
  const auto products = [&](const std::string& spec, Tensor x, Tensor y, Tensor z) {
    const int before = Trace::current().program.nodes.size();
    einsum(spec, x, y, z);
    double all = 0;
    for (size_t i = size_t(before); i < Trace::current().program.nodes.size(); ++i)
      if (Trace::current().program.nodes[i].tag() == "einsum")
        all += Trace::current().program.nodes[i].space.iterations();
    return all;
  };
  EXPECT_EQ(products("ab,bc,cd->ad", a, b, c), 3 * 50 * 1 + 2 * 3 * 1) << "b c first";
  EXPECT_EQ(products("ab, cd, bc -> ad", a, c, b), 3 * 50 * 1 + 2 * 3 * 1) << "wherever they stand";
  Tensor u = value.counting({4}), v = value.counting({4}), m = value.counting({4, 4});
  Values found = value(einsum("i,ij,j->", u, m, v)),
         wanted = value(sum(u * value.leaf({}, {1}) * einsum("ij,j->i", m, v)));
  EXPECT_EQ(found, wanted);
  // A letter of all three, and one that stands in one alone.
  Tensor w = value.counting({2, 4}), s = value.counting({2, 3, 4});
  EXPECT_EQ(value(einsum("bi,bj,bkj->bi", w, w, s)), value(w * sum(einsum("bj,bkj->bk", w, s), 1, true)));
}

TEST(Reductions, ProductsOfThreeHaveTheirGradient) {
  expect_gradient({2, 2}, {0.5, -1, 2, 1.5}, [](Evaluation& e, Tensor t) {
    return sum(einsum("ij,jk,ki->i", t, e.counting({2, 3}), e.counting({3, 2})) * e.leaf({2}, {1, 3}));
  });
}

class ReductionErrors : public ::testing::Test {
 protected:
  Evaluation value;
  Tensor x = value.counting({2, 3});
  Tensor index = value.indices({2, 3}, Values(6, 0));
};

TEST_F(ReductionErrors, OfDimensionsAndTypes) {
  EXPECT_THAT(error_of([&] { min(x, 2); }),
              AllOf(HasSubstr("reductions_test.cpp"), HasSubstr("[min] there is no dimension 2")));
  EXPECT_THAT(error_of([&] { min(index); }), HasSubstr("[min] argument 1 must hold numbers"));
  EXPECT_THAT(error_of([&] { logsumexp(x, {1, 1}); }), HasSubstr("[logsumexp] dimension 1 is named twice"));
  EXPECT_THAT(error_of([&] { logsumexp(index); }), HasSubstr("[logsumexp] argument 1 must hold numbers"));
  EXPECT_THAT(error_of([&] { cumprod(x, 5); }), HasSubstr("[cumprod] there is no dimension 5"));
  EXPECT_THAT(error_of([&] { cumprod(index, 0); }), HasSubstr("[cumprod] argument 1 must hold numbers"));
  EXPECT_THAT(error_of([&] { sort(x, -3); }), HasSubstr("[sort] there is no dimension -3"));
  EXPECT_THAT(error_of([&] { sort(index); }), HasSubstr("[sort] argument 1 must hold numbers"));
  EXPECT_THAT(error_of([&] { argsort(x, 2); }), HasSubstr("[argsort] there is no dimension 2"));
}

TEST_F(ReductionErrors, OfStacks) {
  EXPECT_THAT(error_of([&] { stack(std::vector<Tensor>{}); }),
              AllOf(HasSubstr("[stack] there is nothing to put side by side"), HasSubstr("one tensor or more")));
  EXPECT_THAT(error_of([&] {
                stack({x, sum(x, 0)});
              }),
              AllOf(HasSubstr("[stack] the tensors differ in shape or type"), HasSubstr("tensors like f32[2,3]"),
                    HasSubstr("f32[3]"), HasSubstr("concat(tensors, dim)")));
  EXPECT_THAT(error_of([&] { stack({x, index}); }), HasSubstr("i32[2,3]"));
  EXPECT_THAT(error_of([&] { stack({x, x}, 3); }), HasSubstr("[stack] there is no dimension 3"));
}

TEST_F(ReductionErrors, OfThreeTensors) {
  for (const char* spec : {"ij,jk->ik", "ij,jk,kl", "ii,jk,kl->il", "ij,jk,kl->iz", "ij,jk,kl->ill", "ij,jk,k1->i"})
    EXPECT_THAT(error_of([&] { einsum(spec, x, x, x); }),
                AllOf(HasSubstr("is no contraction of three tensors"), HasSubstr("\"ij,jk,kl->il\""),
                      HasSubstr("one list for each")))
        << spec;
  EXPECT_THAT(
      error_of([&] { einsum("ij,jk,kl->il", x, x, x); }),
      AllOf(HasSubstr("[einsum] extents of j disagree in argument 2"), HasSubstr("3, as in an argument before")));
  EXPECT_THAT(error_of([&] { einsum("ij,ij,ijk->i", x, x, x); }),
              HasSubstr("gives argument 3 as many dimensions as \"ijk\" has letters"));
}

}  // namespace
}  // namespace hetsynth
