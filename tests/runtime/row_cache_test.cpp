// Samples of files of text are parsed once, and are the same ever after.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "dsl/base/error.h"
#include "runtime/data/formats.h"

namespace hetsynth {
namespace {

constexpr int64_t samples = 50, elements = 6;

/// Element e of sample s is 10 s + e. Sample 7 cannot be read.
class CountedRows : public Dataset {
 public:
  explicit CountedRows(std::atomic<int>& parsed) : parsed_(parsed) {}
  int64_t samples(const Node&) const override { return hetsynth::samples; }
  void read(const Node&, SampleId sample, int64_t inside, int64_t count, std::span<std::byte> out) const override {
    ++parsed_;
    if (sample.index == 7) throw UserError({.tag = "data", .message = "no number"});
    for (int64_t i = 0; i < count; ++i) reinterpret_cast<float*>(out.data())[i] = float(10 * sample.index + inside + i);
  }
  std::string description() const override { return "rows"; }

 private:
  std::atomic<int>& parsed_;
};

Node rows_input() {
  Node input;
  input.kind = NodeKind::input;
  input.name = "x";
  input.type = {{4, 2, 3}, DType::f32};
  input.data.kind = DataSource::Kind::named;
  return input;
}

DataPath path_of(const Node& input) {
  DataPath path;
  path.inputs = {&input};
  return path;
}

void expect_sample(const Dataset& data, const Node& input, int64_t sample, uint64_t epoch, int64_t inside,
                   int64_t count) {
  std::vector<float> out(size_t(count), -1);
  data.read(input, {sample, epoch}, inside, count, std::as_writable_bytes(std::span(out)));
  for (int64_t i = 0; i < count; ++i) EXPECT_EQ(out[size_t(i)], float(10 * sample + inside + i)) << sample;
}

TEST(RowCache, ParsesEachSampleOnceAndGivesAnyPartOfIt) {
  std::atomic<int> parsed = 0;
  const Node input = rows_input();
  const std::unique_ptr<Dataset> data = with_row_cache(std::make_unique<CountedRows>(parsed), path_of(input));
  for (uint64_t epoch = 0; epoch < 3; ++epoch)
    for (int64_t sample = 8; sample < samples; ++sample)
      for (const auto& [inside, count] : {std::pair<int64_t, int64_t>(0, elements), {4, 2}, {2, 1}})
        expect_sample(*data, input, sample, epoch, inside, count);
  EXPECT_EQ(parsed, samples - 8);
  EXPECT_EQ(data->samples(input), samples);
  EXPECT_EQ(data->description(), "rows");
}

TEST(RowCache, AnErrorComesEachTime) {
  std::atomic<int> parsed = 0;
  const Node input = rows_input();
  const std::unique_ptr<Dataset> data = with_row_cache(std::make_unique<CountedRows>(parsed), path_of(input));
  std::vector<std::byte> out(elements * 4);
  for (int i = 0; i < 2; ++i) EXPECT_THROW(data->read(input, {7, 0}, 0, elements, out), UserError);
}

TEST(RowCache, SeveralThreadsGetTheSame) {
  std::atomic<int> parsed = 0;
  const Node input = rows_input();
  const std::unique_ptr<Dataset> data = with_row_cache(std::make_unique<CountedRows>(parsed), path_of(input));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round)
        for (int64_t sample = 8; sample < samples; ++sample) expect_sample(*data, input, sample, 0, 1, 4);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(parsed, samples - 8);
  EXPECT_LE(parsed, 4 * (samples - 8));
}

TEST(RowCache, LeavesDataThatAreTooLargeAsTheyAre) {
  std::atomic<int> parsed = 0;
  Node input = rows_input();
  DataPath path = path_of(input);
  path.parts = 1 << 20;  // of 256 bytes each
  const std::unique_ptr<Dataset> data = with_row_cache(std::make_unique<CountedRows>(parsed), path);
  for (int i = 0; i < 3; ++i) expect_sample(*data, input, 9, 0, 0, elements);
  EXPECT_EQ(parsed, 3);
}

}  // namespace
}  // namespace hetsynth
