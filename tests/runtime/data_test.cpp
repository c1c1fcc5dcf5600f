// Data: order, cutting by ranges, and what is said when files are missing or too short.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <array>
#include <filesystem>
#include <set>

#include "dsl/base/error.h"
#include "runtime/data/batch_source.h"
#include "runtime/data/sample_order.h"
#include "runtime/data_files/text_corpus.h"
#include "runtime/rank/host_tensor.h"
#include "tests/runtime/temporary_folder.h"
#include "tests/support/error_of.h"

namespace hetsynth {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

Node input(NodeId id, std::string name, TensorType type, DataSource::Kind kind, int64_t length, int64_t classes) {
  Node node;
  node.id = id;
  node.kind = NodeKind::input;
  node.name = std::move(name);
  node.type = std::move(type);
  node.data = {kind, length, classes};
  return node;
}

Program text_program(int64_t batch, int64_t length, int64_t classes = 256) {
  Program program;
  program.nodes.push_back(
      input(0, "tokens", {{batch, length}, DType::i32}, DataSource::Kind::text_tokens, length, classes));
  program.nodes.push_back(
      input(1, "targets", {{batch, length}, DType::i32}, DataSource::Kind::text_targets, length, classes));
  program.nodes.push_back(input(2, "next", {{batch}, DType::i32}, DataSource::Kind::text_next, length, classes));
  return program;
}

Program synthetic_program(int64_t batch) {
  Program program;
  program.nodes.push_back(input(0, "x", {{batch, 7}, DType::f32}, DataSource::Kind::synthetic_normal, 0, 0));
  program.nodes.push_back(input(1, "y", {{batch}, DType::i32}, DataSource::Kind::synthetic_label, 0, 5));
  return program;
}

TEST(SampleOrder, IsAPermutationForEverySizeAndKey) {
  EXPECT_TRUE(rc::check([] {
    const auto count = *rc::gen::inRange<int64_t>(1, 300);
    const auto key = *rc::gen::arbitrary<uint64_t>();
    std::set<int64_t> seen;
    for (int64_t i = 0; i < count; ++i) seen.insert(permuted(i, count, key));
    RC_ASSERT(static_cast<int64_t>(seen.size()) == count);
    RC_ASSERT(*seen.begin() == 0 && *seen.rbegin() == count - 1);
  }));
}

TEST(SampleOrder, KeysGiveDifferentOrders) {
  int same = 0;
  for (int64_t i = 0; i < 1000; ++i) same += permuted(i, 1000, 1) == permuted(i, 1000, 2);
  EXPECT_LT(same, 20);  // about 1 expected of two independent permutations
}

TEST(TextData, WindowsTargetsAndNextByteBelongTogether) {
  TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 250; ++i) text += static_cast<char>(i);
  folder.write("text", text);
  const Program program = text_program(4, 8);
  const auto data = open_data(program, {folder.path("text"), 3});
  for (int64_t step = 0; step < 12; ++step) {
    const Bindings batch = whole_batch(program, *data, step);
    for (size_t i = 0; i < 4; ++i) {
      for (size_t t = 0; t < 8; ++t) {
        EXPECT_EQ(batch.at(1).values[i * 8 + t], batch.at(0).values[i * 8 + t] + 1);
        EXPECT_EQ(batch.at(0).values[i * 8 + t], batch.at(0).values[i * 8] + static_cast<double>(t));
      }
      EXPECT_EQ(batch.at(2).values[i], batch.at(0).values[i * 8 + 7] + 1);
    }
  }
}

TEST(TextData, AnEpochUsesEveryWindowOnce) {
  TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 161; ++i) text += static_cast<char>(i);
  folder.write("text", text);
  const Program program = text_program(4, 8);
  const auto data = open_data(program, {folder.path("text"), 3});
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    std::set<double> starts;
    for (int64_t step = 5 * epoch; step < 5 * epoch + 5; ++step) {
      const Bindings batch = whole_batch(program, *data, step);
      for (size_t i = 0; i < 4; ++i) starts.insert(batch.at(0).values[i * 8]);
    }
    EXPECT_EQ(starts.size(), 20u);
  }
}

TEST(TextData, OrderDependsOnSeedOnlyAndNotOnBatchSize) {
  TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 4000; ++i) text += static_cast<char>(33 + (i * i) % 89);
  folder.write("text", text);
  const Program small = text_program(2, 8), large = text_program(6, 8);
  const auto first = open_data(small, {folder.path("text"), 3}), second = open_data(large, {folder.path("text"), 3});
  const auto other = open_data(large, {folder.path("text"), 4});
  std::vector<double> joined;
  for (int64_t step = 3; step < 6; ++step) {
    const Array part = whole_batch(small, *first, step).at(0);
    joined.insert(joined.end(), part.values.begin(), part.values.end());
  }
  EXPECT_EQ(joined, whole_batch(large, *second, 1).at(0).values);
  EXPECT_NE(joined, whole_batch(large, *other, 1).at(0).values);
}

// Any part of any input equals the same part of the whole batch: data do not depend on the plan.
/// Tokens of all samples of some steps.
std::vector<double> tokens_of(const TemporaryFolder& folder, DataOptions options, int64_t batch, int64_t first,
                              int64_t last) {
  const Program program = text_program(batch, 3);
  options.path = folder.path("text");
  options.seed = 11;
  const auto data = open_data(program, options);
  std::vector<double> out;
  for (int64_t step = first; step < last; ++step) {
    const Bindings values = whole_batch(program, *data, step);
    out.insert(out.end(), values.at(0).values.begin(), values.at(0).values.end());
  }
  return out;
}

TEST(TextData, ARunThatGoesOnWithAnotherBatchLeavesOutNoSampleAndRepeatsNone) {
  TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 500; ++i) text += char(i * 37 % 251);
  folder.write("text", text);
  const std::vector<double> whole = tokens_of(folder, {}, 12, 0, 10);
  EXPECT_TRUE(rc::check([&] {
    // Of 120 samples some in batches of one size, the rest in batches of others.
    const std::vector<int64_t> sizes{1, 2, 3, 4, 6, 12};
    std::vector<double> tokens;
    int64_t step = 0, seen = 0;
    while (seen < 120) {
      const int64_t batch = *rc::gen::elementOf(sizes), most = (120 - seen) / batch;
      const int64_t steps = most == 0 ? 0 : *rc::gen::inRange<int64_t>(1, most + 1);
      DataOptions options;
      options.first_step = step;
      options.seen_samples = seen;
      const std::vector<double> part = tokens_of(folder, options, batch, step, step + steps);
      tokens.insert(tokens.end(), part.begin(), part.end());
      const Program program = text_program(batch, 3);
      options.path = folder.path("text");
      step += steps;
      seen = samples_before(program, *open_data(program, options), step);
    }
    RC_ASSERT(tokens == whole);
  }));
}

TEST(Data, FingerprintsTellDataApartAndNotWhereTheyLie) {
  TemporaryFolder folder;
  const auto fingerprint = [&](const std::string& name, int64_t batch = 4, uint64_t seed = 1) {
    return open_data(text_program(batch, 3), {folder.path(name), seed})->fingerprint();
  };
  const std::string text(1000, 'a');
  folder.write("text", text);
  folder.write("moved/there", text);
  folder.write("longer", text + "aaa");
  std::string other = text;
  other[500] = 'b';
  folder.write("other", other);
  EXPECT_EQ(fingerprint("text"), fingerprint("moved/there"));
  EXPECT_EQ(fingerprint("text"), fingerprint("text", 8, 2));
  EXPECT_NE(fingerprint("text"), fingerprint("longer"));
  EXPECT_NE(fingerprint("text"), fingerprint("other"));
  EXPECT_NE(fingerprint("text"), open_data(synthetic_program(4), {})->fingerprint());
}

TEST(Data, PartsEqualTheWhole) {
  TemporaryFolder folder;
  folder.write("text", std::string(100, 'a') + "hello world, this is a text" + std::string(50, 'b'));
  const Program text = text_program(5, 8), synthetic = synthetic_program(5);
  const auto text_data = open_data(text, {folder.path("text"), 1}), synthetic_data = open_data(synthetic, {"", 1});
  EXPECT_TRUE(rc::check([&] {
    const bool pick = *rc::gen::arbitrary<bool>();
    const Program& program = pick ? text : synthetic;
    const BatchSource& data = pick ? *text_data : *synthetic_data;
    const auto step = *rc::gen::inRange<int64_t>(0, 50);
    const Node& node = program.nodes[*rc::gen::inRange<size_t>(0, program.nodes.size())];
    std::vector<Range> ranges;
    for (const int64_t extent : node.type.shape) {
      const auto lo = *rc::gen::inRange<int64_t>(0, extent + 1);
      ranges.push_back({lo, *rc::gen::inRange<int64_t>(lo, extent + 1)});
    }
    std::vector<std::byte> part(static_cast<size_t>(part_elements(ranges) * 4)), expected(part.size());
    data.fill(node, ranges, step, part);
    copy_part_out(to_host_tensor(whole_batch(program, data, step).at(node.id), node.type.dtype), ranges, expected);
    RC_ASSERT(part == expected);
  }));
}

TEST(SyntheticData, LabelsUseAllClassesAndValuesLookNormal) {
  const Program program = synthetic_program(500);
  const auto data = open_data(program, {"", 1});
  const Bindings batch = whole_batch(program, *data, 0);
  std::set<double> labels(batch.at(1).values.begin(), batch.at(1).values.end());
  EXPECT_EQ(labels, (std::set<double>{0, 1, 2, 3, 4}));
  double sum = 0, squares = 0;
  for (const double x : batch.at(0).values) sum += x, squares += x * x;
  // 3500 draws: standard errors are 0.017 and 0.024; five of them.
  EXPECT_NEAR(sum / 3500, 0, 0.085);
  EXPECT_NEAR(squares / 3500, 1, 0.12);
}

TEST(TextCorpus, FolderIsReadInOrderOfPathsWithoutLinks) {
  TemporaryFolder folder;
  folder.write("b/2.txt", "two");
  folder.write("a.txt", "one ");
  folder.write("b/1.txt", "and ");
  folder.write("c.txt", "");
  folder.link("a.txt", "link.txt");
  for (const int64_t resident : {int64_t{1} << 20, int64_t{0}}) {
    const TextCorpus corpus = TextCorpus::open(folder.path(), resident);
    std::vector<unsigned char> bytes(static_cast<size_t>(corpus.bytes()));
    corpus.read(0, bytes);
    EXPECT_EQ(std::string(bytes.begin(), bytes.end()), "one and two");
    EXPECT_EQ(corpus.files(), 3);
    std::vector<unsigned char> middle(5);
    corpus.read(3, middle);
    EXPECT_EQ(std::string(middle.begin(), middle.end()), " and ");
    EXPECT_THAT(corpus.place_of(9).first, HasSubstr("b/2.txt"));
    EXPECT_EQ(corpus.place_of(9).second, "byte 1");
  }
}

TEST(TextCorpus, SaysWhatIsWrongWithFiles) {
  TemporaryFolder folder;
  folder.write("empty", "");
  folder.write("sub/none", "");
  EXPECT_THAT(error_of([&] { TextCorpus::open(folder.path("absent")); }),
              AllOf(HasSubstr("absent"), HasSubstr("no such file or folder")));
  EXPECT_THAT(error_of([&] { TextCorpus::open(folder.path("empty")); }), HasSubstr("the file is empty"));
  EXPECT_THAT(error_of([&] { TextCorpus::open(folder.path("sub")); }), HasSubstr("holds no file with text"));
  EXPECT_THAT(error_of([&] { TextCorpus::open("/dev/null"); }), HasSubstr("neither a file nor a folder"));
}

TEST(TextCorpus, NoticesAFileThatShrank) {
  TemporaryFolder folder;
  folder.write("text", "0123456789");
  const TextCorpus corpus = TextCorpus::open(folder.path("text"), 0);
  folder.write("text", "012");
  std::vector<unsigned char> bytes(8);
  EXPECT_THAT(error_of([&] { corpus.read(0, bytes); }), AllOf(HasSubstr("text"), HasSubstr("became shorter")));
}

TEST(TextData, TakesTheNameOfItsFormatAndNoOther) {
  TemporaryFolder folder;
  folder.write("text", "a text that is long enough for two windows");
  const auto plain = open_data(text_program(2, 8), {folder.path("text"), 0});
  const auto named = open_data(text_program(2, 8), {"text:" + folder.path("text"), 0});
  EXPECT_EQ(named->fingerprint(), plain->fingerprint());
  EXPECT_EQ(named->description(), plain->description());
  for (const std::string format : {"npy", "jsonl", "llmc"})
    EXPECT_THAT(error_of([&] {
                  open_data(text_program(2, 8), {format + ":" + folder.path("text"), 0});
                }),
                AllOf(HasSubstr("these data cannot fill input tokens"), HasSubstr("expected: text (the bytes of"),
                      HasSubstr("found:    " + format + " (")));
}

TEST(TextData, WellKnownFilesThatAreNoTextAreRefused) {
  using namespace std::string_literals;
  TemporaryFolder folder;
  const std::vector<std::array<std::string, 3>> files = {
      {"\x1F\x8B\x08\0"s, "packed by gzip", "gunzip"},
      {"PK\3\4", "a zip archive", "unzip"},
      {"\x28\xB5\x2F\xFD", "packed by zstd", "zstd -d"},
      {"\xFD"
       "7zXZ\0"s,
       "packed by xz", "xz -d"},
      {"BZh91AY&SY", "packed by bzip2", "bunzip2"},
      {std::string(257, 'x') + "ustar\0"s, "a tar archive", "tar -xf"},
      {"PAR1\x15", "a Parquet file", "write its texts"},
      {"PAR1\x19\x18", "a Parquet file", "write its texts"},
      {"PARE\x02", "a Parquet file", "write its texts"},
      {"\x40\0\0\0\0\0\0\0{\"w\":{"s, "a file of safetensors", "--init-from"},
      {"\x02\0\0\0\0\0\0\0{}"s, "a file of safetensors", "--init-from"},
      {"\x80\x04\x95"s, "a pickle of Python", "write its texts"},
      {"\x80\x02}q"s, "a pickle of Python", "write its texts"},
      {"GGUF\3\0\0\0"s, "a GGUF file", "--init-from"},
      {"\xFF\xFF\xFF\xFF\x70\0\0\0"s, "a stream of Arrow", "write its texts"},
      {"%PDF-1.7", "a PDF document", "pdftotext"},
      {"\x93NUMPY\1", "an array of NumPy", "token_batch"},
      {"\x88\xD8\x34\x01", "llm.c", "token_batch"},
      {"\xA1\xD9\x34\x01", "llm.c", "token_batch"},
      {"\x89PNG\r\n\x1A\n", "a PNG image", "leave it out"},
      {"\x7F"
       "ELF",
       "ELF", "leave it out"},
      {"\xFF\xFEh\0i\0"s, "text in UTF-16", "iconv"}};
  std::filesystem::create_directory(folder.path("below"));
  folder.write("below/a.txt", std::string(100, 'a'));
  for (const auto& [head, what, mend] : files) {
    folder.write("below/b", head + std::string(100, 'a'));
    for (const std::string& path : {folder.path("below/b"), "text:" + folder.path("below/b"), folder.path("below")})
      EXPECT_THAT(error_of([&] {
                    open_data(text_program(2, 8), {path, 0});
                  }),
                  AllOf(HasSubstr("below/b: error: [data] this is no text"),
                        HasSubstr("expected: a file of plain text"), HasSubstr(what), HasSubstr(mend)));
  }
  // Texts that begin alike.
  for (const char* text :
       {"PK: a paper", "PAR1 is how files of Parquet begin", "BZh is", "ELF", "7z", "ARROW1 and 2"}) {
    folder.write("below/b", text + std::string(100, 'a'));
    EXPECT_EQ(error_of([&] { open_data(text_program(2, 8), {folder.path("below"), 0}); }), "no error") << text;
  }
}

TEST(TextData, SaysWhatIsMissing) {
  TemporaryFolder folder;
  folder.write("short", "12345678");
  folder.write("high", "plain \xc3\xa9 text that is long enough");
  EXPECT_THAT(error_of([&] { open_data(text_program(2, 8), {}); }), HasSubstr("--data"));
  EXPECT_THAT(error_of([&] {
                open_data(text_program(2, 8), {folder.path("short"), 0});
              }),
              AllOf(HasSubstr("shorter than one sample"), HasSubstr("at least 9 bytes"), HasSubstr("8 bytes")));
  const Program ascii = text_program(2, 8, 128);
  const auto data = open_data(ascii, {folder.path("high"), 0});
  EXPECT_THAT(
      error_of([&] {
        for (int64_t step = 0; step < 10; ++step) whole_batch(ascii, *data, step);
      }),
      AllOf(HasSubstr("no entry for"), HasSubstr("tokens below 128"), HasSubstr("195 at"), HasSubstr("byte 6")));
  Program none = text_program(2, 8);
  none.nodes[1].data.kind = DataSource::Kind::none;
  EXPECT_THAT(error_of([&] { open_data(none, {folder.path("high"), 0}); }), HasSubstr("targets has no source of data"));
}

}  // namespace
}  // namespace hetsynth
