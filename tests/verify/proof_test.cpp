#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support.h"
#include "verify/concrete.h"
#include "verify/verify.h"

namespace hetsynth {
namespace {

using namespace test;

void expect_proved(const Program& reference, const SpmdProgram& plan) {
  Verification v = verify(reference, plan);
  EXPECT_EQ(v.verdict, Verdict::proved) << v.summary << "\n" << v.counterexample.text << "\n" << text(plan, reference);
}

TEST(Proof, DataParallelism) {
  Program p = two_layers();
  expect_proved(p, data_parallel(p));
}

TEST(Proof, TensorParallelism) {
  Program p = two_layers();
  expect_proved(p, tensor_parallel(p));
}

TEST(Proof, EmptySharesAndOneShareForAll) {
  Program p = two_layers();
  for (std::vector<int64_t> bounds : {std::vector<int64_t>{0, 0, 8}, {0, 8, 8}, {0, 0, 5, 5, 8}, {0, 8}})
    expect_proved(p, data_parallel(p, bounds));
  for (std::vector<int64_t> bounds : {std::vector<int64_t>{0, 0, 6}, {0, 6, 6}, {0, 1, 1, 4, 6}, {0, 6}})
    expect_proved(p, tensor_parallel(p, bounds));
}

}  // namespace
}  // namespace hetsynth
