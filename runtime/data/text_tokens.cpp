// Text: its bytes are the tokens. A file, or a folder with all files below it.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <ranges>
#include <string_view>

#include "dsl/base/counted.h"
#include "runtime/data/formats.h"
#include "runtime/data/token_windows.h"
#include "runtime/data_files/text_corpus.h"
#include "runtime/rank/arena.h"
#include "runtime/rank/notice.h"

namespace hetsynth {
namespace {

class TextTokens : public TokenSequence {
 public:
  explicit TextTokens(const DataPath& path)
      : corpus_(TextCorpus::open(path.path, path.resident_bytes(), path.may_be_empty())) {}
  int64_t size() const override { return corpus_.bytes(); }
  void read(int64_t offset, std::span<int64_t> out) const override {
    std::vector<unsigned char> bytes(out.size());
    corpus_.read(offset, bytes);
    std::copy(bytes.begin(), bytes.end(), out.begin());
  }
  std::pair<std::string, std::string> place_of(int64_t offset) const override { return corpus_.place_of(offset); }
  std::string description() const override {
    if (corpus_.files() == 1) return fmt::format("text {}, {}", corpus_.path(), text_of_bytes(corpus_.bytes()));
    return fmt::format("text {}, {} files, {}", corpus_.path(), corpus_.files(), text_of_bytes(corpus_.bytes()));
  }
  std::string kind() const override { return "text"; }
  TokenOrigin origin() const override { return origin_of_bytes(); }
  std::string unit() const override { return "bytes"; }
  std::string mend() const override { return "raise the model's vocabulary to 256"; }

 private:
  TextCorpus corpus_;
};

/// Whether a file's first line is an object of JSON with a key, or the file begins as a list of them: one of records,
/// not of text. Of a long line the beginning alone is looked at.
bool looks_like_records(const TextCorpus& corpus, int64_t begin, int64_t end) {
  std::vector<unsigned char> head(static_cast<size_t>(std::min<int64_t>(end - begin, 1 << 16)));
  corpus.read(begin, head);
  std::string start;  // of the file, without white space
  for (const unsigned char c : head)
    if (start.size() < 3 && !std::isspace(c)) start += static_cast<char>(c);
  if (start == "[{\"") return true;
  const auto line = std::ranges::find(head, '\n');
  if (line == head.end() && start.starts_with("{\"")) return true;
  const nlohmann::json record = nlohmann::json::parse(head.begin(), line, nullptr, false);
  return record.is_object() && !record.empty();
}

void warn_of_records(const std::string& path) {
  const TextCorpus corpus = TextCorpus::open(path, 0, true);
  const std::vector<int64_t> starts = corpus.starts();
  std::vector<std::string> records;
  // The first files of a folder of many stand for all.
  constexpr size_t most_files = 1000;
  for (size_t i = 0; i < std::min(starts.size(), most_files); ++i)
    if (looks_like_records(corpus, starts[i], i + 1 < starts.size() ? starts[i + 1] : corpus.bytes()))
      records.push_back(corpus.place_of(starts[i]).first);
  if (records.empty()) return;
  warn(
      "{}{} records of JSON: every byte of them is trained on, keys and quotation marks too; to train on the texts "
      "alone, write them to a file of their own",
      records.front(),
      records.size() > 1 ? fmt::format(" and {} hold", counted(int64_t(records.size() - 1), "other file")) : " holds");
}

}  // namespace

DataFormat text_format() {
  using Kind = DataSource::Kind;
  return {"text",
          "the bytes of a text file, or of a folder of them",
          {Kind::tokens, Kind::token_targets, Kind::text_tokens, Kind::text_targets, Kind::text_next},
          [](const DataPath& path) {
            return path.asks_only({Kind::tokens, Kind::token_targets});
          },
          [](const DataPath& path) -> OpenedData {
            if (path.part == 0) warn_of_records(path.path);  // the first part stands for all
            return std::make_unique<TextTokens>(path);
          }};
}

}  // namespace hetsynth
