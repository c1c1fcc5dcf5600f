// Text: its bytes are the tokens. A file, or a folder with all files below it.
#include "runtime/data/text_tokens.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ranges>
#include <string_view>

#include "runtime/data/formats.h"
#include "runtime/data/text_corpus.h"
#include "runtime/rank/arena.h"

namespace hetsynth {
namespace {

class TextTokens : public TokenSequence {
 public:
  explicit TextTokens(const std::string& path) : corpus_(TextCorpus::open(path)) {}
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
  std::string unit() const override { return "bytes"; }
  std::string mend() const override { return "raise the model's vocabulary to 256"; }

 private:
  TextCorpus corpus_;
};

/// Whether the first line is an object of JSON with a key: a file of records, not of text.
bool looks_like_records(const TextCorpus& corpus) {
  std::vector<unsigned char> head(static_cast<size_t>(std::min<int64_t>(corpus.bytes(), 1 << 16)));
  corpus.read(0, head);
  const auto end = std::ranges::find(head, '\n');
  // A longer line is read by its beginning alone.
  if (end == head.end() && std::ranges::equal(head | std::views::take(2), std::string_view("{\""))) return true;
  const nlohmann::json record = nlohmann::json::parse(head.begin(), end, nullptr, false);
  return record.is_object() && !record.empty();
}

void warn_of_records(const std::string& path) {
  const TextCorpus corpus = TextCorpus::open(path, 0);
  if (!looks_like_records(corpus)) return;
  spdlog::warn(
      "{} holds records of JSON: every byte of them is trained on, keys and quotation marks too; to train on the texts "
      "alone, write them to a file of their own",
      corpus.place_of(0).first);
}

}  // namespace

std::unique_ptr<Dataset> open_text(const std::string& path, const std::vector<const Node*>& inputs) {
  warn_of_records(path);
  return std::make_unique<TokenWindows>(std::make_unique<TextTokens>(path), inputs, path);
}

DataFormat text_format() {
  using Kind = DataSource::Kind;
  return {"text",
          "the bytes of a text file, or of a folder of them",
          {Kind::tokens, Kind::token_targets},
          [](const DataPath& path) {
            return path.asks_only({Kind::tokens, Kind::token_targets});
          },
          [](const DataPath& path) { return open_text(path.path, path.inputs); }};
}

}  // namespace hetsynth
