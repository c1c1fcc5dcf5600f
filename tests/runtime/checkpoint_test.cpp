// Checkpoints: independent of the plan, atomic, and suspicious of every byte they read.
#include "runtime/training/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "dsl/base/error.h"
#include "runtime/training/safetensors.h"
#include "runtime/training/train.h"
#include "tests/runtime/fake_program.h"
#include "tests/runtime/temporary_folder.h"
#include "tests/support/error_of.h"

namespace hetsynth {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
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
  save_checkpoint(folder.path("one"), *fake_executor(one_rank()), {.next_step = 0});
  save_checkpoint(folder.path("three"), *fake_executor(three_uneven_ranks()), {.next_step = 0});
  EXPECT_EQ(folder.read("one"), folder.read("three"));
  EXPECT_FALSE(folder.read("one").empty());
}

TEST(Checkpoint, KeepsTheOldFileIfTheNewOneCannotBeWritten) {
  TemporaryFolder folder;
  folder.write("model/kept", "old");
  EXPECT_THAT(
      error_of([&] { save_checkpoint(folder.path("absent/model"), *fake_executor(one_rank()), {.next_step = 0}); }),
      HasSubstr("cannot write the checkpoint"));
  EXPECT_THAT(error_of([&] { save_checkpoint(folder.path("model"), *fake_executor(one_rank()), {.next_step = 0}); }),
              HasSubstr("cannot write the checkpoint"));
  EXPECT_EQ(folder.read("model/kept"), "old");
  size_t entries = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) entries += entry.exists();
  EXPECT_EQ(entries, 1u);  // no temporary file is left
}

TEST(Checkpoint, DamagedFilesAreRefused) {
  TemporaryFolder folder;
  const auto executor = fake_executor(one_rank());
  save_checkpoint(folder.path("good"), *executor, {.next_step = 3});
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
  EXPECT_THAT(message(good + " "), HasSubstr("longer than its tensors"));
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

/// Files of version 1 have no checksum of their header: only strict reading tells what nobody wrote.
TEST(Checkpoint, WithoutChecksumsIsReadAsTheStrictestReaderDoes) {
  TemporaryFolder folder;
  const auto header = [](const std::string& metadata, const std::string& tensors = "") {
    return R"({"__metadata__":{"format":"hetsynth checkpoint 1")" + metadata + "}" + tensors + "}";
  };
  const auto message = [&](const std::string& text, size_t data_bytes = 0) {
    folder.write("bad", file_of(text, data_bytes));
    return error_of([&] { read_checkpoint_info(folder.path("bad")); });
  };
  const std::string seed = R"(,"seed":"0")", good = R"(,"next_step":"3")" + seed;
  EXPECT_EQ(message(header(good) + "   "), "no error") << "spaces may stand behind the header";
  EXPECT_EQ(message(header(good + R"(,"samples":"12","validation_loss":"1.5e-05")")), "no error");
  EXPECT_EQ(read_checkpoint_info(folder.path("bad")).samples, 12);
  const std::string whole = header(good);
  for (const size_t at : {whole.size(), size_t{1}, whole.size() - 1})
    EXPECT_THAT(message(whole.substr(0, at) + std::string(2, '\0') + whole.substr(at)),
                AllOf(HasSubstr("NUL byte"), HasSubstr("at byte " + std::to_string(at))));
  for (const std::string number : {"03", "+3", "-0", " 3", "3 ", "3.0", "1e3", "0x3", "", "-1", "abc",
                                   "281474976710657", "99999999999999999999"}) {
    const std::string quoted = ":\"" + number + "\"";
    EXPECT_THAT(message(header(R"(,"next_step")" + quoted + seed)),
                AllOf(HasSubstr("no valid next_step"), HasSubstr("found:    \"" + number + "\"")));
    EXPECT_THAT(message(header(good + R"(,"samples")" + quoted)), HasSubstr("no valid samples"));
  }
  for (const std::string number : {"03", "-1", "abc", "18446744073709551616"})
    EXPECT_THAT(message(header(R"(,"next_step":"3","seed":")" + number + "\"")), HasSubstr("no valid seed"));
  for (const std::string number : {"nan", "inf", "-inf", "01.5", "1.50", "1,5", ""})
    EXPECT_THAT(message(header(good + R"(,"validation_loss":")" + number + "\"")),
                HasSubstr("no valid validation_loss"));
  EXPECT_EQ(message(header(good + R"(,"left_out_steps":"7","left_out_work":"1.5")")), "no error");
  EXPECT_EQ(read_checkpoint_info(folder.path("bad")).left_out, (LeftOutSteps{7, 1.5}));
  EXPECT_THAT(message(header(good + R"(,"left_out_work":"1.5")")), HasSubstr("no valid left_out_steps"));
  for (const std::string number : {"0", "-1", "07", "many"})
    EXPECT_THAT(message(header(good + R"(,"left_out_work":"1.5","left_out_steps":")" + number + "\"")),
                HasSubstr("no valid left_out_steps"));
  for (const std::string number : {"nan", "-0.5", "1.50", ""})
    EXPECT_THAT(message(header(good + R"(,"left_out_steps":"7","left_out_work":")" + number + "\"")),
                HasSubstr("no valid left_out_work"));
}

TEST(Checkpoint, SaysHowMuchWasLeftOut) {
  TemporaryFolder folder;
  const LeftOutSteps left_out{120, 15.25};
  save_checkpoint(folder.path("lossy"), *fake_executor(one_rank()), {.next_step = 200, .left_out = left_out});
  EXPECT_EQ(read_checkpoint_info(folder.path("lossy")).left_out, left_out);
  EXPECT_EQ(text(left_out), "120 steps, in all the work of 15.2");
  save_checkpoint(folder.path("plain"), *fake_executor(one_rank()), {.next_step = 200});
  EXPECT_EQ(read_checkpoint_info(folder.path("plain")).left_out, LeftOutSteps());
  EXPECT_THAT(folder.read("plain"), ::testing::Not(HasSubstr("left_out")));
}

TEST(Checkpoint, HeadersOfTheWrongFormAreToldInOurWords) {
  TemporaryFolder folder;
  const auto message = [&](const std::string& header) {
    folder.write("bad", file_of(header, 4));
    return error_of([&] { read_checkpoint_info(folder.path("bad")); });
  };
  EXPECT_THAT(message(R"({"__metadata__":{"next_step":3}})"),
              AllOf(HasSubstr("\"next_step\" in __metadata__ is no text"), HasSubstr("found:    3"),
                    Not(HasSubstr("json.exception"))));
  EXPECT_THAT(message(R"({"__metadata__":["next_step"]})"), HasSubstr("__metadata__ is no object"));
  for (const std::string tensor :
       {R"(7)", R"("w")", R"([])", R"({"shape":[1],"data_offsets":[0,4]})",
        R"({"dtype":32,"shape":[1],"data_offsets":[0,4]})", R"({"dtype":"F32","shape":1,"data_offsets":[0,4]})",
        R"({"dtype":"F32","shape":[1],"data_offsets":{"0":4}})", R"({"dtype":"F32","shape":[1]})"})
    EXPECT_THAT(message(R"({"w":)" + tensor + "}"),
                AllOf(HasSubstr("the header is damaged: tensor w has no "), Not(HasSubstr("json.exception"))))
        << tensor;
  for (const std::string type : {"BF16", "F99"})
    EXPECT_THAT(message(R"({"w":{"dtype":")" + type + R"(","shape":[2],"data_offsets":[0,4]}})"),
                AllOf(HasSubstr("element type that is not supported"), HasSubstr("expected: F32 or I32"),
                      HasSubstr("found:    " + type)));
}

TEST(Checkpoint, NoFlippedBitGoesUnnoticed) {
  TemporaryFolder folder;
  const auto executor = fake_executor(one_rank());
  save_checkpoint(folder.path("good"), *executor, {.next_step = 3, .samples = 36, .data = "text"});
  const std::string good = folder.read("good");
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string bad = good;
    bad[bit / 8] = char(bad[bit / 8] ^ (1 << bit % 8));
    folder.write("bad", bad);
    EXPECT_THROW(load_checkpoint(folder.path("bad"), *executor), UserError)
        << "bit " << bit % 8 << " of byte " << bit / 8;
  }
}

TEST(Checkpoint, NoDamageCrashesOrGoesUnnoticed) {
  TemporaryFolder folder;
  const auto executor = fake_executor(one_rank());
  save_checkpoint(folder.path("good"), *executor, {.next_step = 3});
  const std::string good = folder.read("good");
  EXPECT_TRUE(rc::check([&] {
    std::string bad = good;
    for (int changes = *rc::gen::inRange(1, 4); changes > 0; --changes) {
      const auto at = *rc::gen::inRange<size_t>(0, bad.size()), length = *rc::gen::inRange<size_t>(0, 40);
      switch (*rc::gen::inRange(0, 4)) {
        case 0:
          bad[at] = *rc::gen::arbitrary<char>();
          break;
        case 1:
          bad.erase(at, length);
          break;
        case 2:
          bad.insert(at, good.substr(*rc::gen::inRange<size_t>(0, good.size()), length));
          break;
        default:
          bad.resize(at + 1);
      }
    }
    RC_PRE(bad != good);
    folder.write("bad", bad);
    RC_ASSERT_THROWS_AS(load_checkpoint(folder.path("bad"), *executor), UserError);
  }));
}

/// Headers of the version without checksums: what is wrong is seen in the header alone.
TEST(Checkpoint, HeadersThatTheFormatForbidsAreRefused) {
  TemporaryFolder folder;
  const auto executor = fake_executor(one_rank());
  const std::string start = R"({"__metadata__":{"format":"hetsynth checkpoint 1","next_step":"1","seed":"2"},)";
  const auto message = [&](const std::string& rest, size_t bytes = 112) {
    folder.write("bad", file_of(start + rest, bytes));
    return error_of([&] { load_checkpoint(folder.path("bad"), *executor); });
  };
  const auto tensor = [](const std::string& name, int begin, int end) {
    return "\"" + name + R"(":{"dtype":"F32","shape":[7,2],"data_offsets":[)" + std::to_string(begin) + "," +
           std::to_string(end) + "]}";
  };
  EXPECT_EQ(message(tensor("w", 0, 56) + "," + tensor("m", 56, 112) + "}"), "no error");
  EXPECT_EQ(message(tensor("m", 0, 56) + "," + tensor("w", 56, 112) + "}   "), "no error");
  EXPECT_THAT(message(tensor("w", 0, 56) + "," + tensor("m", 0, 56) + "}"), HasSubstr("overlap or leave a gap"));
  EXPECT_THAT(message(tensor("w", 0, 56) + "," + tensor("m", 52, 108) + "}"), HasSubstr("overlap or leave a gap"));
  EXPECT_THAT(message(tensor("w", 4, 60) + "," + tensor("m", 60, 116) + "}", 116), HasSubstr("overlap or leave a gap"));
  EXPECT_THAT(message(tensor("w", 0, 56) + "," + tensor("m", 60, 116) + "}", 116), HasSubstr("overlap or leave a gap"));
  EXPECT_THAT(message(tensor("w", 0, 56) + "," + tensor("m", 56, 112) + "}", 113),
              HasSubstr("longer than its tensors"));
  EXPECT_THAT(message(tensor("w", 0, 56) + "," + tensor("m", 56, 112) + "," + tensor("w", 0, 56) + "}"),
              HasSubstr("stands in it twice"));
  EXPECT_THAT(message(R"("w":{"dtype":"F32","dtype":"F32","shape":[7,2],"data_offsets":[0,56]}})", 56),
              HasSubstr("stands in it twice"));
  EXPECT_THAT(message(R"("w":{"dtype":"F32","shape":[7,2],"data_offsets":[0.0,56.0]}})", 56),
              HasSubstr("no two numbers"));
  EXPECT_THAT(message(R"("w":{"dtype":"F32","shape":[7,2],"data_offsets":[0,56,56]}})", 56),
              HasSubstr("no two numbers"));
  EXPECT_THAT(message(tensor("w", 0, 56) + "," + tensor("m", 56, 112) + "} x"), HasSubstr("no JSON object"));
}

TEST(Checkpoint, NumbersThatAreNotFiniteAreNeitherWrittenNorRead) {
  TemporaryFolder folder;
  const auto executor = fake_executor(one_rank());
  save_checkpoint(folder.path("model"), *executor, {.next_step = 3});
  const std::string good = folder.read("model");
  for (const float value : {NAN, INFINITY, -INFINITY}) {
    HostTensor w = executor->read(1);
    const HostTensor before = w;
    w.as<float>()[7] = value;
    executor->write(1, w);
    EXPECT_THAT(error_of([&] { save_checkpoint(folder.path("model"), *executor, {.next_step = 4}); }),
                AllOf(HasSubstr("after step 3 parameter w is no finite number any more"), HasSubstr("at [3,1]")));
    EXPECT_EQ(folder.read("model"), good);
    executor->write(1, before);
    const TensorType type{{7, 2}, DType::f32};
    write_safetensors(folder.path("spoilt"), {{"w", type}, {"m", type}},
                      {{"format", "hetsynth checkpoint 2"}, {"next_step", "1"}, {"samples", "0"}, {"seed", "2"}},
                      [&](const std::string& name) { return name == "w" ? w : before; });
    EXPECT_THAT(error_of([&] { load_checkpoint(folder.path("spoilt"), *executor); }),
                AllOf(HasSubstr("tensor w holds a number that is not finite"), HasSubstr("at [3,1]")));
  }
}

TEST(Checkpoint, StepsThatNobodyCanCountAreRefused) {
  TemporaryFolder folder;
  const TensorType type{{7, 2}, DType::f32};
  const auto message = [&](const std::string& step, const std::string& samples) {
    write_safetensors(folder.path("file"), {{"w", type}, {"m", type}},
                      {{"format", "hetsynth checkpoint 2"}, {"next_step", step}, {"samples", samples}, {"seed", "2"}},
                      [&](const std::string&) { return HostTensor(type); });
    return error_of([&] { read_checkpoint_info(folder.path("file")); });
  };
  EXPECT_EQ(message("281474976710656", "0"), "no error");
  EXPECT_THAT(message("9223372036854775806", "0"), HasSubstr("no valid next_step"));
  EXPECT_THAT(message("1", "9223372036854775806"), HasSubstr("no valid samples"));
  EXPECT_THAT(message("1", "-1"), HasSubstr("no valid samples"));
  EXPECT_THAT(message("1 ", "1"), HasSubstr("no valid next_step"));
  TrainOptions options;
  options.first_step = int64_t{1} << 48;
  for (const int64_t steps : {int64_t{1}, std::numeric_limits<int64_t>::max()}) {
    options.steps = steps;
    EXPECT_THAT(error_of([&] {
                  train(*fake_executor(one_rank()), *open_data(fake_reference(), {"", 5}), options);
                }),
                HasSubstr("does not count so many steps"));
  }
}

TEST(Checkpoint, OnesThatCannotBeWrittenAreToldBeforeTraining) {
  TemporaryFolder folder;
  const Program program = fake_reference();
  const auto message = [&](const std::string& name) {
    return error_of([&] { check_checkpoint_target(folder.path(name), program); });
  };
  EXPECT_EQ(message("model"), "no error");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EXPECT_THAT(message("absent/model"), HasSubstr("No such file or directory"));
  folder.write("thesis.tex", "\\documentclass{article}");
  EXPECT_THAT(message("thesis.tex"), HasSubstr("is no checkpoint of hetsynth"));
  EXPECT_THAT(message("thesis.tex/model"), HasSubstr("Not a directory"));
  std::filesystem::create_directory(folder.path("inner"));
  EXPECT_THAT(message("inner"), HasSubstr("Is a directory"));
  EXPECT_THAT(message("inner/"), HasSubstr("Is a directory"));
  EXPECT_THAT(message(std::string(300, 'x')), HasSubstr("File name too long"));
  EXPECT_THAT(message(std::string(250, 'x')), HasSubstr("File name too long"));  // .previous has to fit too
  folder.write("model.previous", "a letter");
  EXPECT_THAT(message("model"), HasSubstr("is no checkpoint of hetsynth"));
  save_checkpoint(folder.path("kept"), *fake_executor(one_rank()), {});
  EXPECT_EQ(message("kept"), "no error");
}

TEST(Checkpoint, TheOneBeforeIsKeptAndNamedWhereTheLastIsNotWhole) {
  TemporaryFolder folder;
  const auto executor = fake_executor(one_rank());
  for (int64_t step = 1; step <= 3; ++step) save_checkpoint(folder.path("model"), *executor, {.next_step = step});
  EXPECT_EQ(read_checkpoint_info(folder.path("model.previous")).next_step, 2);
  std::string bytes = folder.read("model");
  bytes.back() = char(bytes.back() ^ 1);
  folder.write("model", bytes);
  EXPECT_THAT(error_of([&] { load_checkpoint(folder.path("model"), *executor); }),
              AllOf(HasSubstr("is damaged"), HasSubstr("--resume " + folder.path("model.previous"))));
  std::filesystem::remove(folder.path("model"));
  EXPECT_THAT(error_of([&] { load_checkpoint(folder.path("model"), *executor); }),
              AllOf(HasSubstr("no such file"), HasSubstr("--resume " + folder.path("model.previous"))));
}

TEST(Checkpoint, IsWrittenThoughNoStepIsDone) {
  TemporaryFolder folder;
  TrainOptions options;
  options.steps = 0;
  options.checkpoint = folder.path("model");
  train(*fake_executor(one_rank()), *open_data(fake_reference(), {"", 5}), options);
  EXPECT_EQ(read_checkpoint_info(folder.path("model")),
            (CheckpointInfo{0, 5, 0, "synthetic samples", open_data(fake_reference(), {"", 5})->fingerprint()}));
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
