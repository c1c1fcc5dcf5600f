// Files that fill inputs by name: what good ones give, and what is said of wrong ones.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dsl/base/error.h"
#include "dsl/ir/trace.h"
#include "hetsynth/hetsynth.h"
#include "runtime/data/batch_source.h"
#include "runtime/data/dataset.h"
#include "runtime/data_files/text_rows.h"
#include "tests/runtime/data_files.h"
#include "tests/support/error_of.h"

namespace hetsynth {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace testing;  // NOLINT: fixtures of this folder

using Files = std::vector<std::pair<std::string, std::string>>;

std::string npy(const std::string& descr, const std::string& shape, const std::string& elements) {
  return npy_file(npy_dictionary(descr, shape), elements);
}

/// Two steps of a data set of these files, or what is said of it.
std::string said_of(const Program& program, const Files& files, const std::string& name = "") {
  TemporaryFolder folder;
  for (const auto& [file, content] : files) folder.write(file, content);
  std::string said = error_of([&] {
    const auto data = open_data(program, {folder.path(name), 1});
    for (int64_t step = 0; step < 8; ++step) whole_batch(program, *data, step);
  });
  for (size_t at = said.find(folder.path()); at != std::string::npos; at = said.find(folder.path()))
    said.replace(at, folder.path().size(), "FOLDER");
  return said;
}

/// All samples of an input, in the order of the file.
std::vector<double> stored(const Program& program, const std::string& path, int node) {
  const auto data = open_dataset(program, path);
  const Node& input = program[node];
  const int64_t per_sample = element_count(input.type.shape) / input.type.shape[0];
  std::vector<double> out;
  for (int64_t sample = 0; sample < data->samples(input); ++sample) {
    std::vector<std::byte> bytes(static_cast<size_t>(per_sample) * 4);
    data->read(input, {sample, 0}, 0, per_sample, bytes);
    for (int64_t i = 0; i < per_sample; ++i)
      out.push_back(input.type.dtype == DType::i32 ? reinterpret_cast<const int32_t*>(bytes.data())[i]
                                                   : reinterpret_cast<const float*>(bytes.data())[i]);
  }
  return out;
}

TEST(NamedData, AllFormatsGiveTheSameNumbers) {
  int formats = 0;
  for (const DataSample& sample : data_samples()) {
    if (sample.program[0].data.kind != DataSource::Kind::named) continue;
    ++formats;
    TemporaryFolder folder;
    const std::string path = write_sample(sample, folder);
    EXPECT_EQ(stored(sample.program, path, 0), (std::vector<double>{1, -2, 3.5, 4, 5, 6, 7, 8})) << sample.format;
    EXPECT_EQ(stored(sample.program, path, 1), (std::vector<double>{1, 2, 3, -100, -100, 0, 6, 5, 4, 3, 2, -100}))
        << sample.format;
    EXPECT_EQ(stored(sample.program, path, 2), (std::vector<double>{0, 1, 0.5, 1})) << sample.format;
  }
  EXPECT_EQ(formats, 6);
}

TEST(NamedData, SamplesOfAllInputsBelongTogetherInEveryEpochAndStep) {
  std::string numbers, rows = "label,x\n";
  for (uint64_t i = 0; i < 11; ++i) numbers += number(i, 4), rows += fmt::format("{},{}\n", i, i);
  const Program program = inputs_of([] {
    input("x", {4}, f32);
    input("label", {4}, i32, {.classes = 11});
  });
  TemporaryFolder folder;
  folder.write("x.npy", npy("<i4", "(11,)", numbers));
  folder.write("label.npy", npy("<u4", "(11,)", numbers));
  folder.write("t.csv", rows);
  for (const char* name : {"", "t.csv"}) {
    const auto data = open_data(program, {folder.path(name), 7});
    std::vector<int> met(11);
    for (int64_t step = 0; step < 11; ++step) {  // four epochs
      const Bindings batch = whole_batch(program, *data, step);
      EXPECT_EQ(batch.at(0).values, batch.at(1).values);
      for (const double value : batch.at(0).values) ++met[static_cast<size_t>(value)];
    }
    EXPECT_THAT(met, ::testing::Each(4));
    EXPECT_EQ(data->samples_of_epoch(program[0]), 11);
  }
}

TEST(NamedData, MicroBatchesReadTheFirstOnesFile) {
  Trace trace("model.cpp", {{"micro_batches", "2"}});
  trace.micro_batches = 2;
  trace.builder = [] { input("x", {2}, f32); };
  trace.builder();
  trace.trace_next_micro_batch();
  TemporaryFolder folder;
  folder.write("x.npy", npy("<f4", "(4,)", floats({1, 2, 3, 4})));
  for (const std::string& path : {folder.path(), folder.path("x.npy")}) {
    const auto data = open_data(trace.program, {path, 1});
    const Bindings batch = whole_batch(trace.program, *data, 0);
    std::vector<double> all = batch.at(0).values;
    all.insert(all.end(), batch.at(1).values.begin(), batch.at(1).values.end());
    EXPECT_THAT(all, ::testing::UnorderedElementsAre(1, 2, 3, 4));
  }
}

/// What several batch functions read of a folder lies in an archive likewise.
TEST(NamedData, ArchivesHoldWhatFoldersDo) {
  const Program images = inputs_of([] { image_batch(2, 1, 1, 2, 10); });
  const Files arrays = {{"samples.npy", npy("|u1", "(3, 1, 1, 2)", std::string("\x00\xFF\x10\x20\x30\x40", 6))},
                        {"labels.npy", npy("|u1", "(3,)", std::string("\x01\x02\x03", 3))}};
  TemporaryFolder folder;
  for (const auto& [name, content] : arrays) folder.write("parts/" + name, content);
  folder.write("all.npz", zip_file(arrays, true));
  EXPECT_EQ(stored(images, folder.path("all.npz"), 0), stored(images, folder.path("parts"), 0));
  EXPECT_EQ(stored(images, folder.path("all.npz"), 1), stored(images, folder.path("parts"), 1));
}

TEST(NamedData, SafetensorsHaveAllTypesOfNumbers) {
  const Program program = inputs_of([] { input("x", {1}, f32); });
  const auto file = [](const std::string& type, const std::string& bytes) {
    return safetensors_file(
        "{\"x\":{\"dtype\":\"" + type + "\",\"shape\":[1],\"data_offsets\":[0," + std::to_string(bytes.size()) + "]}}",
        bytes);
  };
  TemporaryFolder folder;
  const std::pair<std::string, std::string> types[] = {
      {"BF16", number(0xC020, 2)}, {"F16", number(0xC100, 2)},       {"F32", floats({-2.5f})},
      {"I8", number(0xFE, 1)},     {"I64", number(uint64_t(-2), 8)}, {"F64", number(0xC004000000000000, 8)}};
  for (const auto& [type, bytes] : types) {
    folder.write("x.safetensors", file(type, bytes));
    EXPECT_EQ(stored(program, folder.path("x.safetensors"), 0)[0], type[0] == 'I' ? -2 : -2.5) << type;
  }
  EXPECT_THAT(said_of(program, {{"x.safetensors", file("F8_E5M2", "\x01")}}),
              AllOf(HasSubstr("tensor x has a type that cannot be read"), HasSubstr("F8_E5M2")));
}

Program two_inputs() {
  return inputs_of([] {
    input("age", {2, 2}, f32);
    input("label", {2}, i32, {.classes = 3, .ignored = -100});
  });
}

TEST(NamedData, SaysWhichArrayIsMissingOrDoesNotFit) {
  const Program program = two_inputs();
  const std::string ages = npy("<f4", "(2, 2)", floats({1, 2, 3, 4})), labels = npy("<i4", "(2,)", number(0, 8));
  EXPECT_EQ(said_of(program, {{"age.npy", ages}, {"label.npy", labels}}), "no error");
  EXPECT_THAT(said_of(program, {{"age.npy", ages}, {"labels.npy", labels}}),
              AllOf(HasSubstr("FOLDER: error: [data] the folder has no array for input label"),
                    HasSubstr("expected: label.npy"), HasSubstr("\"age.npy\", \"labels.npy\""),
                    HasSubstr("did you mean \"labels\"?")));
  EXPECT_THAT(
      said_of(program, {{"a.npz", zip_file({{"age.npy", ages}}, false)}}, "a.npz"),
      AllOf(HasSubstr("FOLDER/a.npz: error: [data] the archive has no array for input label"), HasSubstr("\"age\"")));
  EXPECT_THAT(said_of(program, {{"age.npy", npy("<f4", "(2, 3)", floats({1, 2, 3, 4, 5, 6}))}, {"label.npy", labels}}),
              AllOf(HasSubstr("FOLDER/age.npy"), HasSubstr("the shape of input age"), HasSubstr("[samples, 2]"),
                    HasSubstr("[2,3]")));
  EXPECT_THAT(said_of(program, {{"age.npy", npy("<f4", "(3, 2)", floats({1, 2, 3, 4, 5, 6}))}, {"label.npy", labels}}),
              AllOf(HasSubstr("do not belong together"), HasSubstr("3 samples"), HasSubstr("2 samples"),
                    HasSubstr("age.npy"), HasSubstr("label.npy")));
  EXPECT_THAT(
      said_of(program, {{"age.npy", ages}, {"label.npy", npy("<f4", "(2,)", floats({0, 1}))}}),
      AllOf(HasSubstr("input label takes whole numbers"), HasSubstr("float32"), HasSubstr("astype(numpy.int32)")));
  EXPECT_THAT(said_of(program, {{"age.npy", ages}}, "age.npy"), HasSubstr("one array does not hold all inputs"));
}

TEST(NamedData, SaysWhichValueAnInputDoesNotTake) {
  const Program program = inputs_of([] {
    input("mask", {1}, f32, {.lowest = 0, .highest = 1});
    input("label", {1}, i32, {.classes = 3, .ignored = -100});
  });
  const auto said = [&](float mask, int label) {
    return said_of(program, {{"mask.npy", npy("<f4", "(1,)", floats({mask}))},
                             {"label.npy", npy("<i4", "(1,)", number(static_cast<uint32_t>(label), 4))}});
  };
  EXPECT_EQ(said(1, -100), "no error");
  EXPECT_THAT(said(1.5, 0),
              AllOf(HasSubstr("mask.npy"), HasSubstr("sample 0 has a value that input mask cannot take"),
                    HasSubstr("a number from 0 to 1"), HasSubstr("1.5 at byte 128"), HasSubstr("wider bounds")));
  EXPECT_THAT(said(1, 3), AllOf(HasSubstr("0 to 2, or -100"), HasSubstr("3 at byte 128")));
  EXPECT_THAT(said(1, -1), HasSubstr("-1 at byte 128"));
  EXPECT_THAT(said(NAN, 0), HasSubstr("nan at byte 128"));
  // Labels of -100 come as they are where the input says what they are.
  EXPECT_THAT(said_of(inputs_of([] { input("label", {1}, i32, {.classes = 3}); }),
                      {{"label.npy", npy("<i4", "(1,)", number(static_cast<uint32_t>(-100), 4))}}),
              AllOf(HasSubstr("0 to 2"), HasSubstr("-100 at byte 128"), HasSubstr(".ignored = -100"),
                    HasSubstr(".ignored_label = -100")));
}

TEST(NamedData, ArchivesThatAreDamagedAreRefused) {
  const Program program = inputs_of([] { input("x", {1}, f32); });
  const std::string array = npy("<f4", "(40,)", floats(std::vector<float>(40, 1.25f)));
  const std::string packed = zip_file({{"x.npy", array}}, true), plain = zip_file({{"x.npy", array}}, false);
  const auto said = [&](const std::string& file) { return said_of(program, {{"a.npz", file}}, "a.npz"); };
  const auto with = [](std::string file, size_t at, const std::string& bytes) {
    return file.replace(at, bytes.size(), bytes);
  };
  ASSERT_EQ(said(packed), "no error");
  ASSERT_EQ(said(plain), "no error");
  const size_t entry = packed.find("PK\x01\x02"), end = packed.find("PK\x05\x06");
  EXPECT_THAT(said(with(packed, entry + 16, number(7, 4))),
              AllOf(HasSubstr("a.npz/x.npy"), HasSubstr("does not unpack"), HasSubstr("checksum")));
  EXPECT_THAT(said(with(packed, entry + 24, number(100, 4))), HasSubstr("does not unpack"));
  EXPECT_THAT(said(with(packed, entry + 24, number(0x7FFFFFFF, 4))),
              AllOf(HasSubstr("is damaged"), HasSubstr("2147483647")));
  EXPECT_THAT(said(with(packed, entry + 20, number(0x7FFFFFFF, 4))), HasSubstr("does not fit the file"));
  EXPECT_THAT(said(with(packed, entry + 42, number(5, 4))), HasSubstr("is damaged"));
  EXPECT_THAT(said(with(packed, entry + 10, number(12, 2))), HasSubstr("packed in a way that is not known"));
  EXPECT_THAT(said(with(packed, entry + 8, number(1, 2))), HasSubstr("is encrypted"));
  EXPECT_THAT(said(with(packed, end + 12, number(0x7FFFFFFF, 4))), HasSubstr("directory"));
  EXPECT_THAT(said(with(packed, end + 10, number(9, 2))), HasSubstr("the archive's directory is damaged"));
  EXPECT_THAT(said(packed.substr(0, packed.size() - 4)), HasSubstr("no whole npz file"));
  EXPECT_THAT(said(zip_file({{"x.npy", array}, {"x.npy", array}}, false)),
              HasSubstr("the archive holds \"x.npy\" twice"));
  EXPECT_THAT(said(with(plain, plain.find("PK\x01\x02") + 24, number(3, 4))), HasSubstr("is damaged"));
  // Not one byte of the packed array may change.
  for (size_t at = packed.find("x.npy") + 25; at < entry; ++at) {
    std::string file = packed;
    file[at] = static_cast<char>(file[at] ^ 1);
    EXPECT_THAT(said(file), HasSubstr("[data]")) << at;
  }
}

TEST(NamedData, CsvSaysLineAndColumn) {
  const Program program = two_inputs();
  const auto said = [&](const std::string& text) { return said_of(program, {{"t.csv", text}}, "t.csv"); };
  EXPECT_EQ(said("age.0,age.1,label\n1,2,0\n3,4,-100\n"), "no error");
  EXPECT_EQ(said("\xEF\xBB\xBFlabel;age_0;age_1\r\n0;1;2\r\n2; 3 ;\"4\"\r\n\r\n"), "no error")
      << "as spreadsheets write";
  EXPECT_EQ(said("age.1\tlabel\tage.0\n1\t1\t2\n3\t2\t4"), "no error");
  EXPECT_THAT(said("age.0,age.1,lable\n1,2,0\n"),
              AllOf(HasSubstr("FOLDER/t.csv"), HasSubstr("no column \"label\" for input \"label\""),
                    HasSubstr("\"lable\""), HasSubstr("did you mean \"lable\"?")));
  EXPECT_THAT(said("age.0,label\n1,0\n"),
              AllOf(HasSubstr("no column \"age.1\""), HasSubstr("2 columns, from \"age.0\" to \"age.1\"")));
  EXPECT_THAT(said("age.0,age.1,age.2,label\n1,2,3,0\n"), HasSubstr("more columns for input \"age\""));
  EXPECT_THAT(said("age.0,age.1,label,label\n1,2,0,0\n"), HasSubstr("two columns have the name \"label\""));
  EXPECT_THAT(said("age.0,age.1,label\n1,2,0\n1,x,0\n"),
              AllOf(HasSubstr("sample 1 has no number for input age"), HasSubstr("\"x\" at line 3, column \"age.1\"")));
  EXPECT_THAT(said("age.0,age.1,label\n1,2,0\n1,,0\n"), HasSubstr("an empty field at line 3, column \"age.1\""));
  EXPECT_THAT(said("age.0,age.1,label\n1,2,0\n1,2,1.0\n"),
              AllOf(HasSubstr("sample 1 has no whole number for input label"),
                    HasSubstr("\"1.0\" at line 3, column \"label\""), HasSubstr("write 3, not 3.0")));
  EXPECT_THAT(said("age.0,age.1,label\n1,2,0\n1,2,3\n"), AllOf(HasSubstr("0 to 2, or -100"), HasSubstr("3 at line 3")));
  EXPECT_THAT(said("age.0,age.1,label\n1,nan,0\n"), HasSubstr("a finite number"));
  EXPECT_THAT(said("age.0,age.1,label\n1,1e99,0\n"), HasSubstr("a finite number"));
  EXPECT_THAT(said("age.0,age.1,label\n1,2,0\n1,2\n"),
              AllOf(HasSubstr("line 3 does not have the columns"), HasSubstr("3 fields")));
  EXPECT_THAT(said("age.0,age.1,label\n1,2,\"0\n\"\n"), HasSubstr("a quoted field of line 2 has no end"));
  EXPECT_THAT(said("age.0,age.1,label\n"), HasSubstr("the file holds no samples"));
  EXPECT_THAT(said(""), HasSubstr("the file is empty"));
  EXPECT_THAT(said("\n\n"), HasSubstr("the file is empty"));
  EXPECT_THAT(said("age.0,age.1,l\xFF\n1,2,0\n"), AllOf(HasSubstr("no text in UTF-8"), HasSubstr("ff at byte 13")));
  EXPECT_THAT(said(std::string("\xFF\xFE"
                               "a\0g\0e\0\n",
                               9)),
              HasSubstr("save the table as \"CSV UTF-8\""));
}

TEST(NamedData, JsonLinesSayLineAndElement) {
  const Program program = inputs_of([] {
    input("x", {1, 2, 2}, f32);
    input("y", {1}, i32, {.classes = 3, .ignored = -100});
  });
  const auto said = [&](const std::string& second) {
    return said_of(program, {{"t.jsonl", "{\"x\":[[1,2],[3,4]],\"y\":0}\n" + second + "\n"}}, "t.jsonl");
  };
  const auto x = [&](const std::string& value) { return said("{\"x\":" + value + ",\"y\":1}"); };
  EXPECT_EQ(x("[[1,2],[3,4e0]]"), "no error");
  EXPECT_EQ(said("{\"y\":[2],\"text\":\"a\",\"x\":[[true,false],[0,0]],\"z\":{\"x\":[]}}"), "no error");
  EXPECT_THAT(x("[[1,2],[3]]"), AllOf(HasSubstr("FOLDER/t.jsonl"), HasSubstr("a list of sample 1"),
                                      HasSubstr("2 elements"), HasSubstr("1 at line 2, x[1]"), HasSubstr("pad lists")));
  EXPECT_THAT(x("[[1,2],[3,4,5]]"), HasSubstr("more at line 2, x[1][2]"));
  EXPECT_THAT(x("[[1,2]]"), AllOf(HasSubstr("2 elements"), HasSubstr("1 at line 2, x")));
  EXPECT_THAT(x("[1,2,3,4]"), AllOf(HasSubstr("numbers in lists of 2 x 2"), HasSubstr("a number at line 2, x[0]")));
  EXPECT_THAT(x("[[[1],2],[3,4]]"), HasSubstr("a list at line 2, x[0][0]"));
  EXPECT_THAT(x("7"), HasSubstr("a number at line 2, x"));
  EXPECT_THAT(x("{}"), HasSubstr("an object at line 2, x"));
  EXPECT_THAT(x("[[1,\"2\"],[3,4]]"), HasSubstr("\"2\" at line 2, x[0][1]"));
  EXPECT_THAT(x("[[1,null],[3,4]]"), HasSubstr("null at line 2, x[0][1]"));
  EXPECT_THAT(x("[[1,1e99],[3,4]]"), HasSubstr("a finite number"));
  EXPECT_THAT(x("[[1,NaN],[3,4]]"), HasSubstr("line 2 is no JSON"));
  EXPECT_THAT(x("[[1,2],[3,4]],\"x\":[[1,2],[3,4]]"), HasSubstr("line 2 has \"x\" twice"));
  EXPECT_THAT(said("{\"x\":[[1,2],[3,4]],\"Y\":1}"),
              AllOf(HasSubstr("line 2 has no member for input \"y\""), HasSubstr("\"Y\""), HasSubstr("did you mean")));
  EXPECT_THAT(said("{\"x\":[[1,2],[3,4]],\"y\":1.5}"), HasSubstr("1.5 at line 2, y"));
  EXPECT_THAT(said("{\"x\":[[1,2],[3,4]],\"y\":3}"), HasSubstr("0 to 2, or -100"));
  EXPECT_THAT(said("{\"x\":[[1,2],[3,4]],\"y\":99999999999999999999}"), HasSubstr("99999999999999999999 at line 2, y"));
  EXPECT_THAT(said("{\"x\":[[1,2],[3,4]],\"y\":-99999999999999}"), HasSubstr("-99999999999999 at line 2, y"));
  EXPECT_THAT(said("[1]"), HasSubstr("line 2 holds no object"));
  EXPECT_THAT(said("5"), HasSubstr("line 2 holds no object"));
  EXPECT_THAT(said("{\"x\":[[1,2],[3,4]],\"y\":1} 7"), HasSubstr("line 2 is no JSON"));
  EXPECT_THAT(said("{\"x\":[[1,2],[3,4]],\"y\":1}" + std::string(1, '\0') + "7"),
              AllOf(HasSubstr("line 2 holds a NUL byte"), HasSubstr("at byte 25")));
  EXPECT_THAT(said("{\"x\":[[1,2],[3,4]],\"y\":1,\"t\":\"\xFF\"}"),
              AllOf(HasSubstr("line 2 is no JSON"), HasSubstr("save the file as UTF-8")));
  EXPECT_THAT(said("{\"x\":" + std::string(200000, '[')), HasSubstr("[data]")) << "nesting without end";
  EXPECT_THAT(said("{\"z\":" + std::string(200000, '[')), HasSubstr("line 2 is no JSON"));
  EXPECT_THAT(said("{"), AllOf(HasSubstr("line 2 is no JSON"), HasSubstr("write each object in a line of its own")));
  EXPECT_THAT(said("\xFF\xFE{"), AllOf(HasSubstr("line 2 is no JSON"), HasSubstr("save the file as UTF-8")));
  EXPECT_THAT(said("\n{\"x\":[[1,2],[3,4]],\"y\":1}"),
              AllOf(HasSubstr("line 2 is empty"), HasSubstr("leave empty lines out")));
  EXPECT_EQ(said(""), "no error");
  EXPECT_THAT(said_of(program, {{"all.json", "[{\"x\":1}]"}}, "all.json"),
              HasSubstr("write an object of named values in every line"));
  EXPECT_THAT(said_of(program, {{"t.jsonl", "\n"}}, "t.jsonl"), HasSubstr("the file is empty"));
}

TEST(NamedData, OneFileOfAFolderHoldsTheData) {
  const Program program = inputs_of([] { input("x", {1}, f32); });
  EXPECT_EQ(said_of(program, {{"t.csv", "x\n1\n"}, {"readme.txt", "text"}}), "no error");
  EXPECT_THAT(
      said_of(program, {{"a.csv", "x\n1\n"}, {"b.csv", "x\n1\n"}}),
      AllOf(HasSubstr("not clear which file"), HasSubstr("\"a.csv\", \"b.csv\""), HasSubstr("name the file itself")));
  EXPECT_THAT(said_of(program, {{"readme.txt", "text"}}),
              AllOf(HasSubstr("the format of these data is not known"), HasSubstr("csv (a table with named columns)")));
  EXPECT_EQ(said_of(program, {{"x.npy", npy("<f4", "(3,)", floats({1, 2, 3}))}}, "x.npy"), "no error")
      << "the only input's";
  const Program mixed = inputs_of([] {
    token_batch(2, 3, 50);
    input("x", {2}, f32);
  });
  EXPECT_THAT(said_of(mixed, {{"t.csv", "x\n1\n"}}, "t.csv"), HasSubstr("[data]"));
}

TEST(TextRows, AreFoundInLargeFilesToo) {
  TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 1000; ++i) text += fmt::format("row {}{}\n", i, std::string(static_cast<size_t>(i % 7), 'x'));
  folder.write("rows", text + "\r\n\n");
  for (const int64_t resident : {int64_t{0}, int64_t{1} << 20}) {
    for (const int64_t per_mark : {1, 16}) {
      const TextRows rows(DataFile(folder.path("rows")), {per_mark, 1000, resident});
      ASSERT_EQ(rows.count(), 1000);
      std::string buffer;
      for (const int i : {0, 1, 15, 16, 500, 999})
        EXPECT_EQ(rows.row(i, buffer), fmt::format("row {}{}", i, std::string(static_cast<size_t>(i % 7), 'x')));
    }
  }
  EXPECT_THAT(error_of([&] {
                TextRows(DataFile(folder.path("rows")), {4, 30, 0});
              }),
              AllOf(HasSubstr("lines are too long"), HasSubstr("at most 30 bytes in 4 lines")));
}

}  // namespace
}  // namespace hetsynth
