// Text: its bytes are the tokens. A file, or a folder with all files below it.
#include "runtime/data/text_tokens.h"

#include <fmt/format.h>

#include "runtime/arena.h"
#include "runtime/data/formats.h"
#include "runtime/data/text_corpus.h"

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

}  // namespace

std::unique_ptr<Dataset> open_text(const std::string& path, const std::vector<const Node*>& inputs) {
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
