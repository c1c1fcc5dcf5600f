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
  std::string spelled(int32_t id) const override { return processor_->IdToPiece(id); }
  std::vector<int32_t> before_text() const override { return special(processor_->bos_id()); }
  std::vector<int32_t> after_text() const override { return special(processor_->eos_id()); }
  std::string description() const override { return fmt::format("SentencePiece of {} tokens", vocabulary()); }

 private:
  /// -1: the model has none.
  static std::vector<int32_t> special(int id) { return id < 0 ? std::vector<int32_t>{} : std::vector<int32_t>{id}; }
  std::unique_ptr<SentencePieceProcessor> processor_;
};

/// In TrainerSpec of the library's sentencepiece_model.proto.
constexpr uint64_t trainer_spec = 2, model_type_field = 3, unigram_model = 1, bpe_model = 2;

/// Reads the fields of a message of protocol buffers (https://protobuf.dev/programming-guides/encoding), one by one.
class Fields {
 public:
  explicit Fields(std::string_view message) : rest_(message) {}
  /// False at the end, and where the message is broken off.
  bool next() {
    if (rest_.empty()) return false;
    const uint64_t tag = varint();
    number = tag >> 3, bytes = {}, value = 0;
    switch (tag & 7) {
      case 0:
        value = varint();
        return true;
      case 1:
        return take(8);
      case 2:
        return take(varint());
      case 5:
        return take(4);
      default:
        return false;
    }
  }
  uint64_t number = 0, value = 0;
  std::string_view bytes;

 private:
  uint64_t varint() {
    uint64_t out = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      out |= uint64_t(byte & 0x7F) << shift;
      if (byte < 0x80) break;
    }
    return out;
  }
  bool take(uint64_t count) {
    if (count > rest_.size()) return false;
    bytes = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return true;
  }
  std::string_view rest_;
};

/// What the library does not tell: how the model was trained.
uint64_t model_type(std::string_view model) {
  for (Fields field(model); field.next();)
    if (field.number == trainer_spec)
      for (Fields of_trainer(field.bytes); of_trainer.next();)
        if (of_trainer.number == model_type_field) return of_trainer.value;
  return unigram_model;
}

}  // namespace

bool looks_like_sentence_piece(std::string_view bytes) {
  // Field 1, a message; in it field 1, a string.
  return bytes.size() > 3 && bytes[0] == '\x0A' && (bytes[2] == '\x0A' || bytes[3] == '\x0A');
}

static std::unique_ptr<SentencePieceProcessor> load(std::string_view bytes, const std::string& file) {
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
  return processor;
}

std::unique_ptr<Tokenizer> read_sentence_piece(std::string_view bytes, const std::string& file) {
  return std::make_unique<SentencePieceTokenizer>(load(bytes, file));
}

SentencePieces sentence_pieces(std::string_view bytes, const std::string& file) {
  const std::unique_ptr<SentencePieceProcessor> model = load(bytes, file);
  SentencePieces out;
  for (int id = 0; id < model->GetPieceSize(); ++id) {
    using enum SentencePieces::Kind;
    out.pieces.push_back({model->IdToPiece(id), model->GetScore(id),
                          model->IsUnknown(id)   ? unknown
                          : model->IsControl(id) ? control
                          : model->IsUnused(id)  ? unused
                          : model->IsByte(id)    ? byte
                                                 : normal});
  }
  out.bos = model->bos_id(), out.eos = model->eos_id();
  out.merges_by_score = model_type(bytes) == bpe_model;
  return out;
}

}  // namespace hetsynth
