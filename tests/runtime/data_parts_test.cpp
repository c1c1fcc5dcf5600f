// Data in several files: they give what one file of all their samples gives, and what does not belong together is told.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "hetsynth/hetsynth.h"
#include "runtime/data/batch_source.h"
#include "runtime/data/dataset.h"
#include "runtime/data_files/part_names.h"
#include "tests/runtime/data_files.h"
#include "tests/support/error_of.h"

namespace hetsynth {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using namespace testing;  // NOLINT: fixtures of this folder

using Files = std::vector<std::pair<std::string, std::string>>;

/// A number of samples in one file and the same in several, of which one has none.
struct DataInParts {
  std::string format;
  Program program;
  Files whole;
  std::string whole_name;
  Files parts;
  std::vector<std::string> parts_names;  ///< ways to name them
};

constexpr int samples = 11;
/// Parts that end within a batch, as samples have numbers from the first on.
const std::vector<std::pair<int, int>> parts_of_samples = {{0, 3}, {3, 3}, {3, 4}, {4, samples}};

std::string npy_of(const std::string& descr, const std::string& extents, int count, const std::string& elements) {
  return npy_file(npy_dictionary(descr, fmt::format("({},{})", count, extents)), elements);
}

std::string reals_of(int begin, int end) {
  std::vector<float> out;
  for (int s = begin; s < end; ++s) out.insert(out.end(), {float(s), -0.5f * float(s)});
  return floats(out);
}
std::string labels_of(int begin, int end) {
  std::string out;
  for (int s = begin; s < end; ++s) out += number(static_cast<uint64_t>(s % 7), 2);
  return out;
}
std::string x_npy(int begin, int end) { return npy_of("<f4", " 2", end - begin, reals_of(begin, end)); }
std::string y_npy(int begin, int end) { return npy_of("<u2", "", end - begin, labels_of(begin, end)); }

std::string tensors_of(int begin, int end) {
  const int n = end - begin;
  return safetensors_file(fmt::format(R"({{"x":{{"dtype":"F32","shape":[{0},2],"data_offsets":[0,{1}]}},)"
                                      R"("y":{{"dtype":"U16","shape":[{0}],"data_offsets":[{1},{2}]}}}})",
                                      n, 8 * n, 10 * n),
                          reals_of(begin, end) + labels_of(begin, end));
}
std::string table_of(int begin, int end) {
  std::string out = "x.0,y,x.1\n";
  for (int s = begin; s < end; ++s) out += fmt::format("{},{},{}\n", s, s % 7, -0.5 * s);
  return out;
}
std::string lines_of(int begin, int end) {
  std::string out;
  for (int s = begin; s < end; ++s) out += fmt::format("{{\"x\": [{}, {}], \"y\": {}}}\n", s, -0.5 * s, s % 7);
  return out;
}
std::string archive_of(int begin, int end, bool deflate) {
  return zip_file({{"x.npy", x_npy(begin, end)}, {"y.npy", y_npy(begin, end)}}, deflate);
}
std::string text_of_samples(int begin, int end) {
  std::string out;
  for (int s = begin; s < end; ++s) out += fmt::format("line {}\n", s);
  return out;
}
std::string tokens_of(int begin, int end) {
  std::vector<uint32_t> out;
  for (int t = 5 * begin; t < 5 * end; ++t) out.push_back(static_cast<uint32_t>(t));
  return llmc_file(20240520, 1, static_cast<uint32_t>(out.size()), out, 2);
}
std::string tokens_npy(int begin, int end) {
  std::string out;
  for (int t = 5 * begin; t < 5 * end; ++t) out += number(static_cast<uint64_t>(t), 2);
  return npy_of("<u2", "", 5 * (end - begin), out);
}
std::string rows_of(int begin, int end) {
  std::string out;
  for (int s = begin; s < end; ++s) out += fmt::format("{}\t{}\t{}\tabc\t{}\n", s % 2, s, 2 * s, s);
  return out;
}
std::string images_of(int begin, int end) {
  std::string out;
  for (int s = begin; s < end; ++s) out += std::string(6, static_cast<char>(20 * s));
  return idx_file({static_cast<uint32_t>(end - begin), 2, 3}, out);
}
std::string classes_of(int begin, int end) {
  std::string out;
  for (int s = begin; s < end; ++s) out += static_cast<char>(s % 7);
  return idx_file({static_cast<uint32_t>(end - begin)}, out);
}

/// `NAME-00002-of-00004ENDING` of every part.
template <class Content>
Files numbered(const std::string& name, const std::string& ending, const Content& content) {
  Files out;
  for (size_t i = 0; i < parts_of_samples.size(); ++i) {
    const auto [begin, end] = parts_of_samples[i];
    out.emplace_back(fmt::format("{}-{:05}-of-{:05}{}", name, i, parts_of_samples.size(), ending), content(begin, end));
  }
  return out;
}

Files both(Files a, const Files& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<DataInParts> all_data_in_parts() {
  const Program named = inputs_of([] {
    input("x", {4, 2}, f32);
    input("y", {4}, i32, {.classes = 7});
  });
  const Program tokens = inputs_of([] { token_batch(4, 3, 1000); });
  const Program bytes = inputs_of([] { text_batch(4, 3); });
  const Program table = inputs_of([] { table_batch(4, 2, {5, 7}); });
  const Program images = inputs_of([] { image_batch(4, 1, 2, 3, 7); });
  const auto stored = [](int begin, int end) { return archive_of(begin, end, false); };
  const auto packed = [](int begin, int end) { return archive_of(begin, end, true); };
  Files folders;
  for (size_t i = 0; i < parts_of_samples.size(); ++i) {
    const auto [begin, end] = parts_of_samples[i];
    folders.emplace_back(fmt::format("part{}/x.npy", i), x_npy(begin, end));
    folders.emplace_back(fmt::format("part{}/y.npy", i), y_npy(begin, end));
  }
  const Files arrays = {{"x.npy", x_npy(0, samples)}, {"y.npy", y_npy(0, samples)}};
  return {
      {"npy", named, arrays, "", both(numbered("x", ".npy", x_npy), numbered("y", ".npy", y_npy)), {""}},
      {"npy", named, arrays, "", both(numbered("x", ".npy", x_npy), {{"y.npy", y_npy(0, samples)}}), {""}},
      {"npy", named, arrays, "", folders, {"part*"}},
      {"npz", named, {{"a.npz", stored(0, samples)}}, "a.npz", numbered("a", ".npz", stored), {"", "a-*", "*.npz"}},
      {"npz", named, {{"a.npz", packed(0, samples)}}, "a.npz", numbered("a", ".npz", packed), {"", "a-*"}},
      {"safetensors",
       named,
       {{"a.safetensors", tensors_of(0, samples)}},
       "",
       numbered("a", ".safetensors", tensors_of),
       {"", "*"}},
      {"csv", named, {{"a.csv", table_of(0, samples)}}, "", numbered("train", ".csv", table_of), {"", "train-*.csv"}},
      {"jsonl",
       named,
       {{"a.jsonl", lines_of(0, samples)}},
       "",
       numbered("a", ".jsonl", lines_of),
       {"", "a-0???[0-9]-of*"}},
      {"llmc", tokens, {{"a.bin", tokens_of(0, samples)}}, "a.bin", numbered("a", ".bin", tokens_of), {"", "*.bin"}},
      {"npy", tokens, {{"t.npy", tokens_npy(0, samples)}}, "t.npy", numbered("t", ".npy", tokens_npy), {"t-*.npy"}},
      {"npy", tokens, {{"t.npy", tokens_npy(0, samples)}}, "t.npy", numbered("tokens", ".npy", tokens_npy), {"", "*"}},
      {"text", tokens, {{"a", text_of_samples(0, samples)}}, "a", numbered("b", ".txt", text_of_samples), {"", "b*"}},
      {"text", bytes, {{"a", text_of_samples(0, samples)}}, "a", numbered("b", ".txt", text_of_samples), {"", "b*"}},
      {"criteo", table, {{"a.tsv", rows_of(0, samples)}}, "a.tsv", numbered("day", "", rows_of), {"", "day*"}},
      {"idx",
       images,
       {{"images", images_of(0, samples)}, {"labels", classes_of(0, samples)}},
       "images",
       both(numbered("train-images", "", images_of), numbered("train-labels", "", classes_of)),
       {"", "*images*"}},
  };
}

/// All numbers of some steps, of more than an epoch.
std::vector<double> read_of(const Program& program, const BatchSource& data) {
  std::vector<double> out;
  for (int64_t step = 0; step < 9; ++step)
    for (const auto& [node, array] : whole_batch(program, data, step))
      out.insert(out.end(), array.values.begin(), array.values.end());
  return out;
}

TEST(DataInParts, GiveWhatOneFileGives) {
  for (const DataInParts& data : all_data_in_parts()) {
    TemporaryFolder whole, parts;
    for (const auto& [name, content] : data.whole) whole.write(name, content);
    for (const auto& [name, content] : data.parts) parts.write(name, content);
    const auto one = open_data(data.program, {data.format + ":" + whole.path(data.whole_name), 3});
    const std::vector<double> expected = read_of(data.program, *one);
    for (const std::string& name : data.parts_names) {
      const std::string format = data.format + ":";
      const auto several = open_data(data.program, {format + parts.path(name), 3});
      EXPECT_EQ(read_of(data.program, *several), expected) << data.format << " " << name;
      EXPECT_EQ(several->fingerprint(), one->fingerprint()) << data.format << " " << name;
      EXPECT_EQ(several->samples_of_epoch(data.program[0]), one->samples_of_epoch(data.program[0]));
      // A folder of npy files is one folder, however many its arrays have.
      const bool arrays = data.format == "npy" && name.empty() && data.program[0].data.kind == DataSource::Kind::named;
      EXPECT_EQ(several->description().find(" files, ") == std::string::npos, arrays) << several->description();
    }
  }
}

/// What is said of files in a folder, with FOLDER for its path.
std::string said_of(const Program& program, const Files& files, const std::string& name = "") {
  TemporaryFolder folder;
  for (const auto& [file, content] : files) folder.write(file, content);
  std::string said = error_of([&] { open_data(program, {folder.path(name), 1}); });
  for (size_t at = said.find(folder.path()); at != std::string::npos; at = said.find(folder.path()))
    said.replace(at, folder.path().size(), "FOLDER");
  return said;
}

Program x_and_y() {
  return inputs_of([] {
    input("x", {4, 2}, f32);
    input("y", {4}, i32, {.classes = 7});
  });
}

TEST(DataInParts, APartThatIsMissingIsNamed) {
  const Program program = x_and_y();
  Files files = numbered("train", ".jsonl", lines_of);
  files.erase(files.begin() + 2);
  const auto names_it =
      AllOf(HasSubstr("parts of the data are missing"), HasSubstr("3 of them, without"),
            HasSubstr("\"train-00002-of-00004.jsonl\""), HasSubstr("from train-00000-of-00004.jsonl"));
  EXPECT_THAT(said_of(program, files), names_it);
  EXPECT_THAT(said_of(program, files, "train-*"), AllOf(HasSubstr("FOLDER/train-*: error: [data]"), names_it));
  EXPECT_EQ(said_of(program, files, "train-0000[03]*"), "no error") << "some of them were asked for";
  EXPECT_EQ(said_of(program, files, "train-00000-of-00004.jsonl"), "no error") << "one was asked for";
  Files arrays = both(numbered("x", ".npy", x_npy), numbered("y", ".npy", y_npy));
  arrays.erase(arrays.begin() + 1);
  EXPECT_THAT(said_of(program, arrays), HasSubstr("without \"x-00001-of-00004.npy\""));
  EXPECT_EQ(said_of(program, {{"a_1_of_2.csv", table_of(0, 4)}, {"a_2_of_2.csv", table_of(4, 9)}}), "no error")
      << "they may be counted from 1";
  const Program bytes = inputs_of([] { text_batch(4, 3); });
  EXPECT_THAT(said_of(bytes, {{"sub/a-1-of-2", "some text"}, {"more", "some text"}}),
              HasSubstr("without \"a-0-of-2\""));
  EXPECT_THAT(said_of(program, {{"a-1-of-900000.csv", table_of(0, 4)}}, "a-*"), HasSubstr("and others"));
}

TEST(DataInParts, PartsThatDifferAreRefused) {
  const Program program = x_and_y();
  EXPECT_THAT(said_of(program, {{"a-0.csv", table_of(0, 4)}, {"a-1.csv", "y,x.0,x.1\n1,2,3\n"}}),
              AllOf(HasSubstr("FOLDER/a-1.csv: error: [data] the parts of the data differ in the columns"),
                    HasSubstr("\"x.0\", \"y\", \"x.1\", as in FOLDER/a-0.csv"), HasSubstr("\"y\", \"x.0\", \"x.1\""),
                    HasSubstr("write all parts alike")));
  const std::string doubles = npy_of("<f8", " 2", 1, std::string(16, '\0'));
  const Files ys = {{"y.npy", y_npy(0, 5)}};
  EXPECT_THAT(said_of(program, both(ys, {{"x_0.npy", x_npy(0, 4)}, {"x_1.npy", doubles}})),
              AllOf(HasSubstr("FOLDER/x_1.npy: error: [data] the parts of the data differ in the type"),
                    HasSubstr("float32, as in FOLDER/x_0.npy"), HasSubstr("float64")));
  const std::string wide = npy_of("<f4", " 3", 1, std::string(12, '\0'));
  EXPECT_THAT(said_of(program, both(ys, {{"x_0.npy", x_npy(0, 4)}, {"x_1.npy", wide}})),
              AllOf(HasSubstr("FOLDER/x_1.npy"), HasSubstr("differ in the shape of a sample"), HasSubstr("[3]")));
  EXPECT_THAT(said_of(program, both(ys, {{"x_0.npy", x_npy(0, 4)}, {"x_1.npy", x_npy(4, 6)}})),
              AllOf(HasSubstr("do not belong together"), HasSubstr("6 samples"), HasSubstr("5 samples")));
  const Program only_x = inputs_of([] { input("x", {4, 2}, f32); });
  EXPECT_THAT(said_of(only_x, {{"0.npy", x_npy(0, 4)}, {"1.npy", doubles}}, "*.npy"),
              AllOf(HasSubstr("FOLDER/1.npy"), HasSubstr("differ in the type of input x")));
  const Program tokens = inputs_of([] { token_batch(4, 3, 1000); });
  const std::string longs = npy_of("<i8", "", 2, std::string(16, '\0'));
  const std::string rows = npy_of("<u2", " 4", 1, std::string(8, '\0'));
  EXPECT_THAT(said_of(tokens, {{"0.npy", tokens_npy(0, 4)}, {"1.npy", longs}}, "*.npy"),
              AllOf(HasSubstr("FOLDER/1.npy"), HasSubstr("differ in the type of the tokens"), HasSubstr("uint16")));
  EXPECT_THAT(said_of(tokens, {{"0.npy", tokens_npy(0, 4)}, {"1.npy", rows}}, "*.npy"),
              AllOf(HasSubstr("FOLDER/1.npy"), HasSubstr("one dimension of integers")));
}

/// A token file of either format that says which tokenizer made it, if any.
std::string tokens_by(const std::string& fingerprint, bool npy) {
  const std::string line = fingerprint.empty() ? "" : "tokenizer " + fingerprint + " t.json, BPE of 9 tokens";
  const std::string dictionary = npy_dictionary("<u2", "(8,)") + (line.empty() ? "" : "  # " + line);
  if (npy) return npy_file(dictionary, std::string(16, '\0'));
  std::string out = llmc_file(20240520, 1, 8, std::vector<uint32_t>(8), 2);
  return out.replace(512, line.size(), line);
}

TEST(DataInParts, TokensSayWhichTokenizerMadeThem) {
  const Program program = inputs_of([] { token_batch(4, 3, 1000); });
  const std::string one(16, '1'), two(16, '2');
  for (const bool npy : {false, true}) {
    const std::string ending = npy ? ".npy" : ".bin";
    const auto of = [&](const std::vector<std::string>& makers) {
      Files files;
      for (const std::string& maker : makers)
        files.emplace_back(std::to_string(files.size()) + ending, tokens_by(maker, npy));
      return files;
    };
    EXPECT_EQ(said_of(program, of({one, one, one}), "*"), "no error");
    EXPECT_EQ(said_of(program, of({"", one}), "*"), "no error") << "files of other programs do not say it";
    EXPECT_THAT(said_of(program, of({one, two}), "*"),
                AllOf(HasSubstr("FOLDER/1" + ending + ": error: [data] the parts of the data differ in the tokenizer"),
                      HasSubstr("t.json, BPE of 9 tokens (fingerprint 1111111111111111), as in FOLDER/0" + ending),
                      HasSubstr("(fingerprint 2222222222222222)")));
    TemporaryFolder folder;
    folder.write("0" + ending, tokens_by("", npy));
    folder.write("1" + ending, tokens_by(two, npy));
    EXPECT_EQ(open_data(program, {folder.path("*"), 1})->origin().fingerprint, two);
    EXPECT_FALSE(open_data(program, {folder.path("0" + ending), 1})->origin().known());
    folder.write("text", "some text of bytes");
    EXPECT_EQ(open_data(program, {folder.path("text"), 1})->origin(), origin_of_bytes());
  }
  EXPECT_FALSE(open_data(program, {"synthetic", 1})->origin().known());
}

TEST(DataInParts, WhatIsNoSetOfPartsIsRefused) {
  const Program program = x_and_y();
  EXPECT_THAT(said_of(program, {{"train.csv", table_of(0, 4)}, {"test.csv", table_of(4, 8)}}),
              AllOf(HasSubstr("not clear which file"), HasSubstr("x-00000-of-00008.csv"),
                    HasSubstr("'FOLDER/train-*.csv' in quotation marks")));
  const Files two = {
      {"a-0-of-1.csv", table_of(0, 4)}, {"a-0-of-2.csv", table_of(0, 2)}, {"a-1-of-2.csv", table_of(2, 4)}};
  EXPECT_THAT(said_of(program, two, "a*"), AllOf(HasSubstr("parts of two sets of data are mixed"),
                                                 HasSubstr("FOLDER/a-0-of-2.csv"), HasSubstr("'FOLDER/a-*-of-1.csv'")));
  EXPECT_THAT(said_of(program, {}, "none-*.csv"), HasSubstr("the pattern names no file"));
  EXPECT_THAT(said_of(program, {{"a.jsonl", ""}, {"b.jsonl", ""}}, "*.jsonl"),
              AllOf(HasSubstr("the files hold no samples"), HasSubstr("2 files without")));
  EXPECT_THAT(said_of(program, {{"a-0.npz", archive_of(0, 0, false)}, {"a-1.npz", archive_of(0, 0, true)}}),
              HasSubstr("the files hold no samples"));
  EXPECT_EQ(said_of(program, {{"odd*.csv", table_of(0, 4)}, {"odd1.csv", "no table"}}, "odd*.csv"), "no error")
      << "a file may be called like a pattern";
  const Program tokens = inputs_of([] { token_batch(4, 3, 1000); });
  EXPECT_THAT(said_of(tokens, {{"a.bin", tokens_of(0, 0)}, {"b.bin", tokens_of(0, 0)}}),
              AllOf(HasSubstr("shorter than one sample"), HasSubstr("0 tokens")));
}

TEST(DataInParts, AValueIsToldWithTheNumberInItsFile) {
  TemporaryFolder folder;
  folder.write("a-0.jsonl", lines_of(0, 4));
  folder.write("a-1.jsonl", "{\"x\": [1, 2], \"y\": 3}\n{\"x\": [1, 2], \"y\": 9}\n");
  const Program program = x_and_y();
  EXPECT_THAT(error_of([&] {
                read_of(program, *open_data(program, {folder.path(), 1}));
              }),
              AllOf(HasSubstr("a-1.jsonl: error: [data] sample 1 has a value that input y cannot take"),
                    HasSubstr("9 at line 2")));
}

TEST(DataInParts, MayBeMoreThanAProcessHasFilesAtFirst) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = 64;
  if (before.rlim_max < 300) GTEST_SKIP() << "no process may open so many files here";
  TemporaryFolder folder;
  for (int i = 0; i < 200; ++i) folder.write(fmt::format("a{}.jsonl", i), lines_of(i, i + 1));
  const Program program = inputs_of([] { input("x", {4, 2}, f32); });
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const auto data = open_dataset(program, folder.path());
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_EQ(data->samples(program[0]), 200);
  for (const int64_t sample : {2, 10, 199}) {
    std::vector<std::byte> bytes(8);
    data->read(program[0], {sample, 0}, 0, 2, bytes);
    EXPECT_EQ(reinterpret_cast<const float*>(bytes.data())[0], float(sample)) << "part 10 comes behind part 2";
  }
}

TEST(PartNames, AreOrderedAndGroupedByTheirNumbers) {
  EXPECT_TRUE(part_before("x-2", "x-10"));
  EXPECT_FALSE(part_before("x-10", "x-2"));
  EXPECT_TRUE(part_before("x-02", "x-2") != part_before("x-2", "x-02")) << "some order all the same";
  EXPECT_TRUE(part_before("a", "b"));
  EXPECT_TRUE(part_before("a", "a1"));
  EXPECT_FALSE(part_before("a", "a"));
  EXPECT_EQ(series_of("train-00003-of-00008.csv"), "train-#-of-00008.csv");
  EXPECT_EQ(series_of("part-12-v2.npz"), "part-#-v#.npz");
  EXPECT_EQ(name_of_whole("tokens-00003-of-00008"), "tokens");
  EXPECT_EQ(name_of_whole("tokens_3"), "tokens");
  EXPECT_EQ(name_of_whole("tokens.part-3"), "tokens");
  EXPECT_EQ(name_of_whole("part-3"), "part");
  EXPECT_EQ(name_of_whole("conv2"), "");
  EXPECT_EQ(name_of_whole("7"), "");
  EXPECT_EQ(name_of_whole(""), "");
}

}  // namespace
}  // namespace hetsynth
