#include "runtime/tokenizers/sentence_piece.h"

#include <fmt/format.h>
#include <sentencepiece_processor.h>

#include "dsl/base/error.h"

namespace hetsynth {
namespace {

using sentencepiece::SentencePieceProcessor;

/// The library says what is wrong with itself only.
void require(const sentencepiece::util::Status& status, const char* doing) {
  HETSYNTH_CHECK(status.ok(), fmt::format("{}: {}", doing, status.ToString()));
}

class SentencePieceEncoder : public TokenEncoder {
 public:
  explicit SentencePieceEncoder(const SentencePieceProcessor& processor) : processor_(processor) {}
  void encode(std::string_view text, bool, bool, std::vector<int32_t>& ids) override {
    std::vector<int> made;
    require(processor_.Encode({text.data(), text.size()}, &made), "encoding by SentencePiece");
    ids.insert(ids.end(), made.begin(), made.end());
  }

 private:
  const SentencePieceProcessor& processor_;
};

class SentencePieceTokenizer : public Tokenizer {
 public:
  explicit SentencePieceTokenizer(std::unique_ptr<SentencePieceProcessor> processor)
      : processor_(std::move(processor)) {}

  std::unique_ptr<TokenEncoder> encoder() const override { return std::make_unique<SentencePieceEncoder>(*processor_); }
  std::string decode(std::span<const int32_t> ids) const override {
    std::vector<int> known;
    for (const int32_t id : ids)
      if (id >= 0 && id < processor_->GetPieceSize()) known.push_back(id);
    std::string out;
    require(processor_->Decode(known, &out), "decoding by SentencePiece");
    return out;
  }
  int64_t vocabulary() const override { return processor_->GetPieceSize(); }
  std::optional<int32_t> id_of(std::string_view token) const override {
    const int id = processor_->PieceToId({token.data(), token.size()});
    const std::string& spelled = processor_->IdToPiece(id);  // of what is unknown: the unknown token's
    if (spelled != token) return {};
    return id;
  }
  std::vector<int32_t> before_text() const override { return special(processor_->bos_id()); }
  std::vector<int32_t> after_text() const override { return special(processor_->eos_id()); }
  std::string description() const override { return fmt::format("SentencePiece of {} tokens", vocabulary()); }

 private:
  /// -1: the model has none.
  static std::vector<int32_t> special(int id) { return id < 0 ? std::vector<int32_t>{} : std::vector<int32_t>{id}; }
  std::unique_ptr<SentencePieceProcessor> processor_;
};

}  // namespace

bool looks_like_sentence_piece(std::string_view bytes) {
  // Field 1, a message; in it field 1, a string.
  return bytes.size() > 3 && bytes[0] == '\x0A' && (bytes[2] == '\x0A' || bytes[3] == '\x0A');
}

std::unique_ptr<Tokenizer> read_sentence_piece(std::string_view bytes, const std::string& file) {
  auto processor = std::make_unique<SentencePieceProcessor>();
  const sentencepiece::util::Status status = processor->LoadFromSerializedProto({bytes.data(), bytes.size()});
  if (!status.ok() || processor->GetPieceSize() < 1) {
    throw UserError({.where = {file},
                     .tag = "tokenizer",
                     .message = "this is no model of SentencePiece",
                     .expected = "a model that spm_train wrote",
                     .found = status.ok() ? "a model without pieces" : status.ToString(),
                     .mend = "the file may be cut short: copy it again"});
  }
  return std::make_unique<SentencePieceTokenizer>(std::move(processor));
}

}  // namespace hetsynth
