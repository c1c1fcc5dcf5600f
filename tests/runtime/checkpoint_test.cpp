// Checkpoints: independent of the plan, atomic, and suspicious of every byte they read.
#include "runtime/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstring>

#include "dsl/base/error.h"
#include "runtime/safetensors.h"
#include "runtime/train.h"
#include "tests/runtime/fake_program.h"
#include "tests/runtime/temporary_folder.h"
#include "tests/support/error_of.h"

namespace hetsynth {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace testing;  // NOLINT: fixtures of this folder

FakeOptions one_rank() { return {{0, 12}, {0, 7}, false, -1, -1}; }

std::string file_of(const std::string& header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::string out(8, '\0');
  std::memcpy(out.data(), &length, 8);
  return out + header + std::string(data_bytes, '\0');
}

TEST(Checkpoint, WrittenUnderOnePlanContinuesUnderAnother) {
  TemporaryFolder folder;
  const auto data = open_data(fake_reference(), {"", 5});
  TrainOptions options;
  options.steps = 6;
  const auto whole = fake_executor(three_uneven_ranks());
  const TrainReport straight = train(*whole, *data, options);

  options.steps = 4;
  options.checkpoint = folder.path("model.safetensors");
  train(*fake_executor(three_uneven_ranks()), *data, options);
  const auto resumed = fake_executor(one_rank(), 99);
  const CheckpointInfo info = load_checkpoint(folder.path("model.safetensors"), *resumed);
  EXPECT_EQ(read_checkpoint_info(folder.path("model.safetensors")).next_step, 4);
  EXPECT_EQ(info.next_step, 4);
  EXPECT_EQ(info.seed, 5u);
  options.first_step = info.next_step;
  options.steps = 2;
  const TrainReport rest = train(*resumed, *data, options);
  // Another plan adds in another order: a few float32 roundings of numbers near 1.
  EXPECT_NEAR(rest.losses[0], straight.losses[4], 1e-6);
  EXPECT_NEAR(rest.losses[1], straight.losses[5], 1e-6);
  const Array a = to_array(whole->read(1)), b = to_array(resumed->read(1));
  for (size_t i = 0; i < a.values.size(); ++i) EXPECT_NEAR(a.values[i], b.values[i], 1e-6);
  EXPECT_EQ(to_array(resumed->read(2)).values, to_array(whole->read(2)).values);
}

TEST(Checkpoint, IsTheSameFileUnderEveryPlan) {
  TemporaryFolder folder;
  save_checkpoint(folder.path("one"), *fake_executor(one_rank()), 0);
  save_checkpoint(folder.path("three"), *fake_executor(three_uneven_ranks()), 0);
  EXPECT_EQ(folder.read("one"), folder.read("three"));
  EXPECT_FALSE(folder.read("one").empty());
}

TEST(Checkpoint, KeepsTheOldFileIfTheNewOneCannotBeWritten) {
  TemporaryFolder folder;
  folder.write("model/kept", "old");
  EXPECT_THAT(error_of([&] { save_checkpoint(folder.path("absent/model"), *fake_executor(one_rank()), 0); }),
              HasSubstr("cannot be written"));
  EXPECT_THAT(error_of([&] { save_checkpoint(folder.path("model"), *fake_executor(one_rank()), 0); }),
              HasSubstr("cannot be written"));
  EXPECT_EQ(folder.read("model/kept"), "old");
  size_t entries = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) entries += entry.exists();
  EXPECT_EQ(entries, 1u);  // no temporary file is left
}

TEST(Checkpoint, DamagedFilesAreRefused) {
  TemporaryFolder folder;
  const auto executor = fake_executor(one_rank());
  save_checkpoint(folder.path("good"), *executor, 3);
  const std::string good = folder.read("good");
  const auto message = [&](const std::string& bytes) {
    folder.write("bad", bytes);
    return error_of([&] { load_checkpoint(folder.path("bad"), *executor); });
  };
  EXPECT_THAT(error_of([&] { load_checkpoint(folder.path("none"), *executor); }),
              AllOf(HasSubstr("none"), HasSubstr("no such file")));
  EXPECT_THAT(message(""), HasSubstr("cut short"));
  EXPECT_THAT(message(good.substr(0, 20)), HasSubstr("cut short"));
  EXPECT_THAT(message(good.substr(0, good.size() - 1)), HasSubstr("does not lie inside"));
  EXPECT_THAT(message(std::string(8, '\xff') + good.substr(8)), HasSubstr("cut short"));
  EXPECT_THAT(message(file_of("[1, 2]", 0)), HasSubstr("no JSON object"));
  EXPECT_THAT(message(file_of(R"({"w":{"dtype":"F32","shape":[4611686018427387904,8],"data_offsets":[0,0]}})", 0)),
              HasSubstr("does not lie inside"));
  EXPECT_THAT(message(file_of(R"({"w":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4)),
              HasSubstr("broken shape"));
  EXPECT_THAT(message(file_of(R"({"w":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}})", 8)), HasSubstr("F64"));
  EXPECT_THAT(message(file_of(R"({"w":{"dtype":"F32"}})", 8)), HasSubstr("header is damaged"));
  EXPECT_THAT(message(file_of("{}", 0)), HasSubstr("no checkpoint of hetsynth"));
}

TEST(Checkpoint, NoDamageCrashesOrGoesUnnoticedInTheHeader) {
  TemporaryFolder folder;
  const auto executor = fake_executor(one_rank());
  save_checkpoint(folder.path("good"), *executor, 3);
  const std::string good = folder.read("good");
  EXPECT_TRUE(rc::check([&] {
    std::string bad = good;
    const auto at = *rc::gen::inRange<size_t>(0, bad.size());
    bad[at] = *rc::gen::arbitrary<char>();
    if (*rc::gen::arbitrary<bool>()) bad.resize(*rc::gen::inRange<size_t>(0, bad.size()));
    folder.write("bad", bad);
    try {
      load_checkpoint(folder.path("bad"), *executor);
      RC_ASSERT(bad.size() == good.size());  // accepted: at most a number was changed
    } catch (const UserError&) {
    }
  }));
}

TEST(Checkpoint, OfAnotherModelIsRefusedBeforeAnythingIsSet) {
  TemporaryFolder folder;
  const auto executor = fake_executor(one_rank());
  const auto before = executor->read(1).bytes;
  const std::map<std::string, std::string> metadata{
      {"format", "hetsynth checkpoint 1"}, {"next_step", "1"}, {"seed", "2"}};
  const auto zeros = [](TensorType type) { return [type](const std::string&) { return HostTensor(type); }; };
  const TensorType type{{7, 2}, DType::f32}, other{{7, 3}, DType::f32};
  const auto message = [&] { return error_of([&] { load_checkpoint(folder.path("file"), *executor); }); };
  write_safetensors(folder.path("file"), {{"w", type}}, metadata, zeros(type));
  EXPECT_THAT(message(), HasSubstr("has no tensor m"));
  write_safetensors(folder.path("file"), {{"w", other}, {"m", other}}, metadata, zeros(other));
  EXPECT_THAT(message(), AllOf(HasSubstr("tensor w has another type"), HasSubstr("f32[7,2]"), HasSubstr("f32[7,3]")));
  write_safetensors(folder.path("file"), {{"w", type}, {"m", type}, {"q", type}}, metadata, zeros(type));
  EXPECT_THAT(message(), HasSubstr("the model has no tensor q"));
  write_safetensors(folder.path("file"), {{"w", type}, {"m", type}},
                    {{"format", "hetsynth checkpoint 1"}, {"seed", "-3"}}, zeros(type));
  EXPECT_THAT(message(), HasSubstr("no valid next_step"));
  EXPECT_EQ(executor->read(1).bytes, before);
}

}  // namespace
}  // namespace hetsynth
