// Bad samples met while training: who met them, in which step, and which sample it was.
#include "runtime/data/input_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "dsl/base/error.h"
#include "runtime/training/checkpoint.h"
#include "runtime/training/train.h"
#include "tests/runtime/fake_program.h"
#include "tests/runtime/temporary_folder.h"
#include "tests/support/error_of.h"

namespace hetsynth {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace testing;  // NOLINT: fixtures of this folder

Node input_of(DType dtype, int64_t classes) {
  Node node = fake_leaf(0, NodeKind::input, "labels", {12, 3}, {});
  node.type.dtype = dtype;
  node.data.classes = classes;
  return node;
}

template <class T>
std::string check(const Node& node, const std::vector<T>& values) {
  const std::vector<Range> part = {{4, 6}, {0, 3}};  // samples 4 and 5 of each batch
  return error_of([&] {
    check_input_values(node, part, std::as_bytes(std::span(values)), 7, 7 * node.type.shape[0], "rank 1 (dev1)");
  });
}

TEST(InputCheck, NamesRankStepSampleAndPlace) {
  const std::string message = check<int32_t>(input_of(DType::i32, 10), {0, 9, 1, 2, 10, 3});
  EXPECT_THAT(message, AllOf(HasSubstr("[data] rank 1 (dev1), step 7: sample 89 of the run is no input for labels"),
                             HasSubstr("indices from 0 to 9"), HasSubstr("10 at [5,1]"), HasSubstr("checkpoint")));
}

TEST(InputCheck, RefusesNegativeIndicesAndNumbersThatAreNotFinite) {
  EXPECT_THAT(check<int32_t>(input_of(DType::i32, 10), {0, 0, -1, 0, 0, 0}), HasSubstr("-1 at [4,2]"));
  EXPECT_THAT(check<float>(input_of(DType::f32, 0), {0, 0, 0, NAN, 0, 0}), HasSubstr("nan at [5,0]"));
  EXPECT_THAT(check<float>(input_of(DType::f32, 0), {INFINITY, 0, 0, 0, 0, 0}), HasSubstr("finite numbers"));
}

TEST(InputCheck, AnInputWithoutSamplesIsAnInternalFault) {
  const Node scalar = fake_leaf(0, NodeKind::input, "x", {}, {});
  const float value = INFINITY;
  EXPECT_THROW(check_input_values(scalar, {}, std::as_bytes(std::span(&value, 1)), 7, 7, "rank 1"), InternalError);
}

TEST(InputCheck, AcceptsWhatTheInputDeclares) {
  EXPECT_EQ(check<int32_t>(input_of(DType::i32, 10), {0, 9, 1, 2, 3, 4}), "no error");
  EXPECT_EQ(check<int32_t>(input_of(DType::i32, 0), {-5, 90, 1, 2, 3, 4}), "no error") << "no index";
  EXPECT_EQ(check<float>(input_of(DType::f32, 0), {0, -1e30f, 3, 4, 5, 6}), "no error");
}

/// Zeros, and NaN in one sample.
class SpoiltData : public BatchSource {
 public:
  explicit SpoiltData(int64_t sample) : sample_(sample) {}
  void fill(const Node& input, std::span<const Range> ranges, int64_t step, std::span<std::byte> out) const override {
    const Range samples = ranges[0];
    for (int64_t s = samples.lo; s < samples.hi; ++s)
      for (int64_t f = 0; f < fake_features; ++f) {
        const bool spoilt = step * input.type.shape[0] + s == sample_;
        const float value = spoilt ? std::numeric_limits<float>::quiet_NaN() : 0.5f;
        std::memcpy(out.data() + ((s - samples.lo) * fake_features + f) * 4, &value, 4);
      }
  }
  std::string description() const override { return "spoilt"; }

 private:
  int64_t sample_;
};

TEST(InputCheck, StopsTrainingAndLeavesTheLastCheckpoint) {
  TemporaryFolder folder;
  const auto executor = fake_executor(three_uneven_ranks());
  TrainOptions options;
  options.steps = 10;
  options.checkpoint = folder.path("state.safetensors");
  options.checkpoint_every = 2;
  const int64_t sample = 5 * fake_batch + 1;  // of step 5
  const std::string message = error_of([&] { train(*executor, SpoiltData(sample), options); });
  EXPECT_THAT(message, AllOf(HasSubstr("rank "), HasSubstr("step 5: sample 61 of the run is no input for x")));
  const auto again = fake_executor(three_uneven_ranks());
  EXPECT_EQ(load_checkpoint(options.checkpoint, *again).next_step, 4);
}

}  // namespace
}  // namespace hetsynth
