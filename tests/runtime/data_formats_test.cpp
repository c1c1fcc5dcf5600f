// Every data format: what a good file gives, and what is said of a bad one.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "dsl/base/error.h"
#include "hetsynth/hetsynth.h"
#include "runtime/data/batch_source.h"
#include "runtime/data/dataset.h"
#include "tests/runtime/data_files.h"
#include "tests/support/error_of.h"

namespace hetsynth {
namespace {

using ::testing::AllOf;
using testing::data_samples;
using testing::DataSample;
using testing::floats;
using ::testing::HasSubstr;
using testing::idx_file;
using testing::inputs_of;
using testing::llmc_file;
using testing::npy_dictionary;
using testing::npy_file;
using testing::number;
using testing::TemporaryFolder;

/// All steps of the first epochs, or the error.
std::string error_of_reading(const Program& program, const std::string& path) {
  return error_of([&] {
    const auto data = open_data(program, {path, 1});
    for (int64_t step = 0; step < 8; ++step) whole_batch(program, *data, step);
  });
}

/// Samples of the data set in the order of the files.
std::vector<double> stored(const Program& program, const std::string& path, int node, int64_t samples) {
  const auto data = open_dataset(program, path);
  const Node& input = program[node];
  EXPECT_EQ(data->samples(input), samples);
  const int64_t per_sample = element_count(input.type.shape) / input.type.shape[0];
  std::vector<double> out;
  for (int64_t sample = 0; sample < samples; ++sample) {
    std::vector<std::byte> bytes(static_cast<size_t>(per_sample) * 4);
    data->read(input, {sample, 0}, 0, per_sample, bytes);
    for (int64_t i = 0; i < per_sample; ++i) {
      if (input.type.dtype == DType::i32) {
        out.push_back(reinterpret_cast<const int32_t*>(bytes.data())[i]);
      } else {
        out.push_back(reinterpret_cast<const float*>(bytes.data())[i]);
      }
    }
  }
  return out;
}

TEST(DataFormats, AreFoundFromTheFilesAndByName) {
  for (const DataSample& sample : data_samples()) {
    TemporaryFolder folder;
    const std::string path = write_sample(sample, folder);
    EXPECT_EQ(error_of_reading(sample.program, path), "no error") << sample.format;
    EXPECT_EQ(error_of_reading(sample.program, sample.format + ":" + path), "no error") << sample.format;
  }
}

TEST(DataFormats, PartsEqualTheWhole) {
  for (const DataSample& sample : data_samples()) {
    TemporaryFolder folder;
    const auto data = open_data(sample.program, {write_sample(sample, folder), 2});
    for (const Node& node : sample.program.nodes) {
      const Array whole = whole_batch(sample.program, *data, 3).at(node.id);
      const auto per_sample = static_cast<size_t>(element_count(node.type.shape) / node.type.shape[0]);
      std::vector<Range> ranges{{1, 2}};
      for (size_t d = 1; d < node.type.shape.size(); ++d) ranges.push_back({0, node.type.shape[d]});
      if (ranges.size() > 1) ranges.back().lo = ranges.back().hi - 1;
      const int64_t stride = ranges.size() > 1 ? node.type.shape.back() : 1;
      std::vector<std::byte> part(per_sample / static_cast<size_t>(stride) * 4);
      data->fill(node, ranges, 3, part);
      for (size_t i = 0; i < part.size() / 4; ++i) {
        const double value = node.type.dtype == DType::i32 ? reinterpret_cast<const int32_t*>(part.data())[i]
                                                           : reinterpret_cast<const float*>(part.data())[i];
        const size_t at = per_sample + (i + 1) * static_cast<size_t>(stride) - 1;
        EXPECT_EQ(value, whole.values[at]) << sample.format << " " << node.name;
      }
    }
  }
}

// No reader may take a file that was cut short; text and lines of a table alone have no end of their own.
TEST(DataFormats, FilesCutShortAreRefused) {
  for (const DataSample& sample : data_samples()) {
    if (sample.format == "text" || sample.format == "criteo" || sample.format == "csv") continue;
    for (size_t cut = 0; cut < sample.files.size(); ++cut) {
      const size_t size = sample.files[cut].second.size();
      for (const size_t left : {size_t{0}, size_t{1}, size_t{3}, size_t{7}, size_t{11}, size / 2 + 1, size - 1}) {
        DataSample damaged = sample;
        damaged.files[cut].second.resize(left);
        TemporaryFolder folder;
        const std::string path = write_sample(damaged, folder);
        EXPECT_THAT(error_of_reading(sample.program, sample.format + ":" + path), HasSubstr("[data]"))
            << sample.format << " " << sample.files[cut].first << " cut to " << left;
      }
    }
  }
}

TEST(DataFormats, SaysWhatIsNotKnownOrDoesNotFit) {
  TemporaryFolder folder;
  folder.write("noise", "\x1f\x8b\x08noise");
  folder.write("text.txt", "some text, long enough");
  folder.write("empty/none", "");
  const Program images = inputs_of([] { image_batch(2, 1, 2, 3, 10); });
  const Program tokens = inputs_of([] { token_batch(2, 3, 300); });
  EXPECT_THAT(error_of_reading(images, folder.path("absent")), HasSubstr("no such file or folder"));
  EXPECT_THAT(error_of_reading(images, folder.path("noise")),
              AllOf(HasSubstr("the format of these data is not known"), HasSubstr("idx (IDX images"),
                    HasSubstr("1f 8b 08"), HasSubstr("gunzip")));
  EXPECT_THAT(error_of_reading(images, folder.path("empty")), HasSubstr("a folder with 1 files"));
  EXPECT_THAT(error_of_reading(images, "text:" + folder.path("text.txt")),
              AllOf(HasSubstr("these data cannot fill input samples"), HasSubstr("npy"), HasSubstr("cifar10"),
                    HasSubstr("samples is asked for here")));
  EXPECT_THAT(error_of_reading(tokens, "idx:" + folder.path("noise")), HasSubstr("cannot fill input tokens"));
  const Program made_up = inputs_of([] { synthetic_images(2, 1, 2, 3, 10); });
  EXPECT_THAT(error_of_reading(made_up, folder.path("text.txt")), HasSubstr("reads no data"));
  EXPECT_EQ(error_of_reading(images, "synthetic"), "no error");
}

TEST(LlmcData, TokensOfAllFilesAreWindowsInOrder) {
  TemporaryFolder folder;
  folder.write("1.bin", llmc_file(20240520, 1, 5, {0, 1, 2, 3, 4}, 2));
  folder.write("2.bin", llmc_file(20240520, 1, 4, {5, 6, 7, 65535}, 2));
  const Program program = inputs_of([] { token_batch(1, 4, 70000); });
  EXPECT_EQ(stored(program, folder.path(), 0, 2), (std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(stored(program, folder.path(), 1, 2), (std::vector<double>{1, 2, 3, 4, 5, 6, 7, 65535}));
  folder.write("2.bin", llmc_file(20240801, 7, 1, {128255}, 4));
  EXPECT_THAT(error_of_reading(program, folder.path()),
              AllOf(HasSubstr("2.bin"), HasSubstr("differ in the kind of tokens"), HasSubstr("Llama 3")));
}

TEST(LlmcData, SaysWhatIsWrongWithFiles) {
  TemporaryFolder folder;
  const Program program = inputs_of([] { token_batch(1, 4, 100); });
  const auto error = [&](const std::string& file) {
    folder.write("t.bin", file);
    return error_of_reading(program, folder.path("t.bin"));
  };
  EXPECT_THAT(error(llmc_file(20240326, 1, 5, {1, 2, 3, 4, 5}, 2)),
              AllOf(HasSubstr("t.bin"), HasSubstr("this is no llm.c token file"),
                    HasSubstr("20240520 (GPT-2, version 1) or 20240801 (Llama 3, version 7)"),
                    HasSubstr("20240326 at byte 0")));
  EXPECT_THAT(error(llmc_file(20240520, 2, 5, {1, 2, 3, 4, 5}, 2)),
              AllOf(HasSubstr("version of this token file is not known"), HasSubstr("2 at byte 4")));
  EXPECT_THAT(error(llmc_file(20240520, 1, 6, {1, 2, 3, 4, 5}, 2)),
              AllOf(HasSubstr("number of tokens in the header does not fit"), HasSubstr("5 tokens in 1034 bytes"),
                    HasSubstr("6 tokens at byte 8")));
  EXPECT_THAT(error(llmc_file(20240801, 7, 0xFFFFFFFF, {1, 2, 3, 4, 5}, 4)), HasSubstr("-1 tokens at byte 8"));
  EXPECT_THAT(error(llmc_file(20240520, 1, 0, {}, 2)), HasSubstr("0 tokens at byte 8"));
  EXPECT_THAT(error(llmc_file(20240520, 1, 4, {1, 2, 3, 4}, 2)),
              AllOf(HasSubstr("shorter than one sample"), HasSubstr("at least 5 tokens"), HasSubstr("4 tokens")));
  EXPECT_THAT(
      error(llmc_file(20240520, 1, 5, {1, 2, 3, 100, 5}, 2)),
      AllOf(HasSubstr("t.bin"), HasSubstr("token that the model has no entry for"), HasSubstr("tokens below 100"),
            HasSubstr("100 at byte 1030"), HasSubstr("50257 tokens"), HasSubstr("in step 0, sample 0 of the run")));
  EXPECT_THAT(error("abc"), HasSubstr("3 bytes"));
}

TEST(NpyData, ReadsVersionsAndElementTypes) {
  const Program program = inputs_of([] { image_batch(1, 1, 1, 2, 10); });
  const std::string labels = npy_file(npy_dictionary("<i8", "(2,)"), number(3, 8) + number(9, 8));
  const auto read = [&](const std::string& descr, const std::string& elements, int major = 1) {
    TemporaryFolder folder;
    folder.write("samples.npy", npy_file(npy_dictionary(descr, "(2, 1, 1, 2)"), elements, major));
    folder.write("labels.npy", labels);
    return stored(program, folder.path(), 0, 2);
  };
  const std::vector<double> wanted = {1, -2, 0.5, 4};
  for (const int major : {1, 2, 3}) EXPECT_EQ(read("<f4", floats({1, -2, 0.5F, 4}), major), wanted);
  EXPECT_EQ(read("<f2", number(0x3C00, 2) + number(0xC000, 2) + number(0x3800, 2) + number(0x4400, 2)), wanted);
  EXPECT_EQ(read(">f8", number(0x3FF0000000000000, 8, true) + number(0xC000000000000000, 8, true) +
                            number(0x3FE0000000000000, 8, true) + number(0x4010000000000000, 8, true)),
            wanted);
  EXPECT_EQ(read("|i1", "\x01\xFE\x03\x04"), (std::vector<double>{1, -2, 3, 4}));
  EXPECT_EQ(read(">i2", number(258, 2, true) + number(0xFFFF, 2, true) + number(0, 4)),
            (std::vector<double>{258, -1, 0, 0}));
  EXPECT_EQ(read("|b1", std::string("\0\1\1\0", 4)), (std::vector<double>{0, 1, 1, 0}));
  // Bytes are pixels.
  EXPECT_EQ(read("|u1", std::string("\0\xFF\0\xFF", 4)), (std::vector<double>{-1, 1, -1, 1}));
  TemporaryFolder folder;
  folder.write("samples.npy", npy_file(npy_dictionary("<f4", "(2L, 1, 1, 2)"), floats(std::vector<float>(4))));
  folder.write("labels.npy", labels);
  EXPECT_EQ(stored(program, folder.path(), 1, 2), (std::vector<double>{3, 9}));
}

TEST(NpyData, RowsOfTokensHoldTheirTargetsAndTranslationsBeginWithOne) {
  TemporaryFolder folder;
  std::string tokens, source;
  for (uint64_t i = 0; i < 10; ++i) tokens += number(i, 4);
  for (uint64_t i = 0; i < 4; ++i) source += number(i + 2, 1);
  folder.write("tokens.npy", npy_file(npy_dictionary("<u4", "(2, 5)"), tokens));
  const Program windows = inputs_of([] { token_batch(1, 4, 10); });
  EXPECT_EQ(stored(windows, folder.path(), 0, 2), (std::vector<double>{0, 1, 2, 3, 5, 6, 7, 8}));
  EXPECT_EQ(stored(windows, folder.path(), 1, 2), (std::vector<double>{1, 2, 3, 4, 6, 7, 8, 9}));
  TemporaryFolder pairs;
  pairs.write("source.npy", npy_file(npy_dictionary("|u1", "(2, 2)"), source));
  pairs.write("targets.npy", npy_file(npy_dictionary("<u4", "(2, 5)"), tokens));
  const Program translation = inputs_of([] { translation_batch(1, 2, 5, 10, 10); });
  EXPECT_EQ(stored(translation, pairs.path(), 0, 2), (std::vector<double>{2, 3, 4, 5}));
  EXPECT_EQ(stored(translation, pairs.path(), 1, 2), (std::vector<double>{1, 0, 1, 2, 3, 1, 5, 6, 7, 8}));
  EXPECT_EQ(stored(translation, pairs.path(), 2, 2), (std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST(NpyData, FeaturesHaveAFileEach) {
  TemporaryFolder folder;
  folder.write("dose.npy", npy_file(npy_dictionary("<f4", "(2,)"), floats({1, 2})));
  folder.write("cell.npy", npy_file(npy_dictionary("<f4", "(2, 2)"), floats({3, 4, 5, 6})));
  folder.write("targets.npy", npy_file(npy_dictionary("<f4", "(2,)"), floats({0.25F, -1})));
  const Program program = inputs_of([] { feature_batch(1, {{"dose", 1}, {"cell", 2}}); });
  EXPECT_EQ(stored(program, folder.path(), 0, 2), (std::vector<double>{1, 2}));
  EXPECT_EQ(stored(program, folder.path(), 1, 2), (std::vector<double>{3, 4, 5, 6}));
  EXPECT_EQ(stored(program, folder.path(), 2, 2), (std::vector<double>{0.25, -1}));
}

TEST(NpyData, SaysWhatIsWrongWithFiles) {
  const Program program = inputs_of([] { feature_batch(1, {{"x", 2}}); });
  TemporaryFolder folder;
  const std::string good = npy_file(npy_dictionary("<f4", "(2, 2)"), floats({1, 2, 3, 4}));
  folder.write("targets.npy", npy_file(npy_dictionary("<f4", "(2,)"), floats({1, 2})));
  const auto error = [&](const std::string& file) {
    folder.write("x.npy", file);
    return error_of_reading(program, folder.path());
  };
  EXPECT_EQ(error(good), "no error");
  EXPECT_EQ(error(npy_file(npy_dictionary("<f4", "(2, 2)") + "  # any comment {'shape'", floats({1, 2, 3, 4}))),
            "no error");
  EXPECT_THAT(error(npy_file(npy_dictionary("<f4", "(2, 2)") + "# one\nmore", floats({1, 2, 3, 4}))),
              HasSubstr("the end of the header"));
  EXPECT_THAT(error("PK\x03\x04zip file"), AllOf(HasSubstr("x.npy"), HasSubstr("this is no npy file"),
                                                 HasSubstr("50 4b 03 04"), HasSubstr("at byte 0")));
  EXPECT_THAT(error(npy_file(npy_dictionary("<f4", "(2, 2)"), floats({1, 2, 3, 4}), 4)), HasSubstr("4 at byte 6"));
  EXPECT_THAT(error("\x93NUMPY" + number(2, 1) + number(0, 1) + number(0xFFFFFFF0, 4) + "{"),
              AllOf(HasSubstr("the length of the header does not fit"), HasSubstr("4294967280 at byte 8")));
  EXPECT_THAT(error(npy_file(npy_dictionary("<f4", "(3, 2)"), floats({1, 2, 3, 4}))),
              AllOf(HasSubstr("the array does not fit the file"), HasSubstr("16 bytes of elements"),
                    HasSubstr("[3,2] of float32")));
  EXPECT_THAT(error(npy_file(npy_dictionary("<f4", "(4611686018427387904, 4611686018427387904)"), "")),
              HasSubstr("does not fit the file"));
  EXPECT_THAT(error(npy_file(npy_dictionary("<f4", "(99999999999999999999, 2)"), "")), HasSubstr("an extent from 0"));
  EXPECT_THAT(error(npy_file(npy_dictionary("<f4", "(-1, 2)"), "")), HasSubstr("an extent from 0"));
  EXPECT_THAT(error(npy_file(npy_dictionary("<c8", "(2, 2)"), std::string(32, 'a'))),
              AllOf(HasSubstr("a type that cannot be read"), HasSubstr("'<c8'"), HasSubstr("astype")));
  EXPECT_THAT(error(npy_file(npy_dictionary("|O8", "(2, 2)"), "")), HasSubstr("'|O8'"));
  EXPECT_THAT(error(npy_file("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2, 2), }", "")),
              HasSubstr("structured elements"));
  EXPECT_THAT(error(npy_file("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }", floats({1, 2, 3, 4}))),
              AllOf(HasSubstr("Fortran order"), HasSubstr("ascontiguousarray")));
  EXPECT_THAT(error(npy_file("{'descr': '<f4', 'shape': (2, 2)}", floats({1, 2, 3, 4}))),
              HasSubstr("'descr', 'fortran_order' and 'shape'"));
  EXPECT_THAT(error(npy_file("{'descr': '<f4', 'fortran_order': Maybe}", "")),
              AllOf(HasSubstr("True or False"), HasSubstr("Maybe}"), HasSubstr("at byte 44")));
  EXPECT_THAT(error(npy_file(npy_dictionary("<f4", "(2, 3)"), floats({1, 2, 3, 4, 5, 6}))),
              AllOf(HasSubstr("does not have the shape of input x"), HasSubstr("[samples, 2]"), HasSubstr("[2,3]")));
  EXPECT_THAT(error(npy_file(npy_dictionary("<f4", "(3, 2)"), floats({1, 2, 3, 4, 5, 6}))),
              AllOf(HasSubstr("do not belong together"), HasSubstr("2 samples"), HasSubstr("3 samples")));
  EXPECT_THAT(error(npy_file(npy_dictionary("<f4", "(0, 2)"), "")), HasSubstr("holds no samples"));
  EXPECT_THAT(error(npy_file(npy_dictionary("<f4", "(2, 2)"), floats({1, 2, 3, NAN}))),
              AllOf(HasSubstr("x.npy"), HasSubstr("sample 1 has a value that input x cannot take"),
                    HasSubstr("a finite number"), HasSubstr("nan at byte 140"), HasSubstr("of the run")));
  EXPECT_THAT(error(npy_file(npy_dictionary("<f8", "(2, 2)"), std::string(24, '\0') + number(0x7FE0000000000000, 8))),
              HasSubstr("a finite number"));  // finite, and beyond float32
  EXPECT_THAT(error_of_reading(program, folder.path("x.npy")), HasSubstr("a folder with a file per input"));
}

TEST(IdxData, ReadsImagesAndLabels) {
  TemporaryFolder folder;
  folder.write("t10k-images-idx3-ubyte", idx_file({1, 1, 2}, "zz"));
  folder.write("train-images.idx3-ubyte", idx_file({2, 1, 2}, std::string("\0\xFF\xFF\0", 4)));
  folder.write("train-labels.idx1-ubyte", idx_file({2}, "\x07\x01"));
  const Program program = inputs_of([] { image_batch(1, 1, 1, 2, 10); });
  for (const std::string& path : {folder.path(), folder.path("train-images.idx3-ubyte")}) {
    EXPECT_EQ(stored(program, path, 0, 2), (std::vector<double>{-1, 1, 1, -1}));
    EXPECT_EQ(stored(program, path, 1, 2), (std::vector<double>{7, 1}));
  }
}

TEST(IdxData, SaysWhatIsWrongWithFiles) {
  TemporaryFolder folder;
  const Program program = inputs_of([] { image_batch(1, 1, 1, 2, 10); });
  const auto error = [&](const std::string& images, const std::string& labels) {
    folder.write("train-images-idx3-ubyte", images);
    folder.write("train-labels-idx1-ubyte", labels);
    return error_of_reading(program, folder.path());
  };
  const std::string images = idx_file({2, 1, 2}, "abcd"), labels = idx_file({2}, "\x01\x02");
  EXPECT_EQ(error(images, labels), "no error");
  EXPECT_THAT(error("\x1f\x8b\x08\x08", labels), AllOf(HasSubstr("this is no IDX file"), HasSubstr("gunzip")));
  EXPECT_THAT(error(idx_file({2, 1, 2}, "abcd", 0x0A), labels), HasSubstr("00 00 0a 03 at byte 0"));
  EXPECT_THAT(error(idx_file({3, 1, 2}, "abcd"), labels),
              AllOf(HasSubstr("train-images"), HasSubstr("extents in the header do not fit"),
                    HasSubstr("4 bytes of elements from byte 16 on"), HasSubstr("[3,1,2] of uint8 at byte 4")));
  EXPECT_THAT(error(idx_file({0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, "abcd"), labels), HasSubstr("do not fit"));
  EXPECT_THAT(error(idx_file({4, 1, 1}, "abcd"), labels),
              AllOf(HasSubstr("does not have the shape of input samples"), HasSubstr("[samples, 1, 1, 2]")));
  EXPECT_THAT(error(images, idx_file({2, 1}, "\x01\x02")), HasSubstr("does not have the shape of input labels"));
  EXPECT_THAT(error(images, idx_file({3}, "\x01\x02\x03")), HasSubstr("do not belong together"));
  EXPECT_THAT(error(images, idx_file({2}, "\x01\x0a")),
              AllOf(HasSubstr("train-labels"), HasSubstr("sample 1 has a value that input labels cannot take"),
                    HasSubstr("0 to 9"), HasSubstr("10 at byte 9")));
  EXPECT_THAT(error(images, idx_file({2}, floats({0, 0}), 0x0D)), HasSubstr("labels are whole numbers"));
  TemporaryFolder alone;
  alone.write("train-images-idx3-ubyte", images);
  EXPECT_THAT(error_of_reading(program, alone.path()), HasSubstr("train-labels-idx1-ubyte"));
}

TEST(CifarData, ReadsBothVariants) {
  const auto record = [](const std::string& labels, char value) { return labels + std::string(3072, value); };
  TemporaryFolder ten, hundred;
  ten.write("data_batch_1.bin", record("\x03", '\xFF') + record("\x04", '\0'));
  ten.write("data_batch_2.bin", record("\x05", '\xFF'));
  ten.write("test_batch.bin", record("\x09", '\0'));
  hundred.write("train.bin", record(std::string("\x02\x63", 2), '\0'));
  const Program program = inputs_of([] { image_batch(1, 3, 32, 32, 10); });
  EXPECT_EQ(stored(program, ten.path(), 1, 3), (std::vector<double>{3, 4, 5}));
  const std::vector<double> pixels = stored(program, ten.path(), 0, 3);
  EXPECT_EQ(std::vector<double>(pixels.begin() + 3071, pixels.begin() + 3074), (std::vector<double>{1, -1, -1}));
  EXPECT_EQ(pixels.back(), 1);
  EXPECT_EQ(stored(program, ten.path("test_batch.bin"), 1, 1), (std::vector<double>{9}));
  EXPECT_EQ(stored(inputs_of([] { image_batch(1, 3, 32, 32, 100); }), hundred.path(), 1, 1), (std::vector<double>{99}));
  EXPECT_EQ(stored(inputs_of([] { image_batch(1, 3, 32, 32, 20); }), hundred.path(), 1, 1), (std::vector<double>{2}));
}

TEST(CifarData, SaysWhatIsWrongWithFiles) {
  TemporaryFolder folder;
  folder.write("data_batch_1.bin", std::string(3073, '\x01') + "x");
  const Program program = inputs_of([] { image_batch(1, 3, 32, 32, 10); });
  EXPECT_THAT(error_of_reading(program, folder.path()),
              AllOf(HasSubstr("data_batch_1.bin"), HasSubstr("cut short"), HasSubstr("records of 3073 bytes"),
                    HasSubstr("ends at byte 3073")));
  folder.write("data_batch_1.bin", std::string(3073, '\x0B'));
  EXPECT_THAT(error_of_reading(program, folder.path()),
              AllOf(HasSubstr("input labels cannot take"), HasSubstr("11 at byte 0")));
  EXPECT_THAT(error_of_reading(inputs_of([] { image_batch(1, 1, 28, 28, 10); }), folder.path()),
              AllOf(HasSubstr("images of CIFAR-10 do not have the shape"), HasSubstr("[1,1,28,28]")));
  EXPECT_THAT(error_of_reading(program, "cifar100:" + folder.path()), HasSubstr("train.bin"));
}

TEST(CriteoData, ReadsNumbersCategoriesAndMissingValues) {
  TemporaryFolder folder;
  folder.write("day", "1\t3\t-1\tabc\tff\r\n0\t\t2.5\t\tff\n0\t1e3\t0\tabc\t12");  // no end of the last line
  const Program program = inputs_of([] { table_batch(1, 2, {1000, 7}); });
  const std::vector<double> numbers = stored(program, folder.path("day"), 0, 3);
  const std::vector<double> wanted = {3, 0, 0, 2.5, 1000, 0};
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(numbers[i], std::log1p(wanted[i]), 1e-6);
  const std::vector<double> first = stored(program, folder.path("day"), 1, 3);
  EXPECT_EQ(first[0], first[2]);
  EXPECT_NE(first[0], first[1]);
  const std::vector<double> second = stored(program, folder.path("day"), 2, 3);
  EXPECT_EQ(second[0], second[1]);
  EXPECT_EQ(stored(program, folder.path("day"), 3, 3), (std::vector<double>{1, 0, 0}));
}

TEST(CriteoData, FindsEveryRowOfALongFile) {
  TemporaryFolder folder;
  std::string rows;
  for (int i = 0; i < 1000; ++i) rows += fmt::format("{}\t{}\n", i % 2, i);
  folder.write("day", rows);
  const std::vector<double> numbers = stored(inputs_of([] { table_batch(1, 1, {}); }), folder.path("day"), 0, 1000);
  for (size_t i = 0; i < numbers.size(); ++i) EXPECT_NEAR(numbers[i], std::log1p(i), 1e-5);
}

TEST(CriteoData, SaysWhatIsWrongWithFiles) {
  TemporaryFolder folder;
  const Program program = inputs_of([] { table_batch(3, 1, {10}); });
  const auto error = [&](const std::string& file) {
    folder.write("day", file);
    return error_of_reading(program, "criteo:" + folder.path("day"));
  };
  EXPECT_EQ(error("1\t3\tabc\n"), "no error");
  EXPECT_THAT(error(""), HasSubstr("the file is empty"));
  EXPECT_THAT(error("1\t3\tabc\n0\t3\n"), AllOf(HasSubstr("line 2 does not have the columns"),
                                                HasSubstr("3 tab-separated fields"), HasSubstr("2 fields")));
  EXPECT_THAT(error("1\t3\tabc\td\n"), HasSubstr("more"));
  EXPECT_THAT(
      error("1\t3\tabc\n1\tx\x01\tabc\n"),
      AllOf(HasSubstr("sample 1 has a value that input numeric cannot take"), HasSubstr("\"x?\" at line 2, field 2")));
  EXPECT_THAT(error("1\tnan\tabc\n"), HasSubstr("\"nan\" at line 1, field 2"));
  EXPECT_THAT(error("2\t1\tabc\n"), AllOf(HasSubstr("0 or 1"), HasSubstr("2 at line 1")));
  EXPECT_THAT(error(std::string(2 << 20, 'a')), HasSubstr("the lines are too long"));
}

TEST(Data, AFileThatShrinksIsToldWithItsPlace) {
  TemporaryFolder folder;
  folder.write("a.bin", llmc_file(20240520, 1, 5, {0, 1, 2, 3, 4}, 2));
  const Program program = inputs_of([] { token_batch(1, 4, 100); });
  const auto data = open_data(program, {folder.path("a.bin"), 1});
  folder.write("a.bin", std::string(1030, '\0'));
  EXPECT_THAT(error_of([&] { whole_batch(program, *data, 0); }),
              AllOf(HasSubstr("became shorter"), HasSubstr("its end at byte 1030"), HasSubstr("in step 0")));
}

}  // namespace
}  // namespace hetsynth
