#include "runtime/data/token_windows.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "dsl/base/data_file.h"
#include "dsl/base/error.h"
#include "runtime/data/sample_order.h"
#include "runtime/rank/arena.h"

namespace hetsynth {
namespace {

class JoinedTokens : public TokenSequence {
 public:
  JoinedTokens(std::vector<std::unique_ptr<TokenSequence>> parts, std::string path)
      : parts_(std::move(parts)), path_(std::move(path)) {
    for (const auto& part : parts_) {
      starts_.push_back(size_);
      size_ += part->size();
    }
  }

  int64_t size() const override { return size_; }
  void read(int64_t offset, std::span<int64_t> out) const override {
    while (!out.empty()) {
      const size_t part = part_at(offset);
      const int64_t inside = offset - starts_[part];
      const auto count = static_cast<size_t>(std::min(parts_[part]->size() - inside, static_cast<int64_t>(out.size())));
      parts_[part]->read(inside, out.first(count));
      out = out.subspan(count);
      offset += static_cast<int64_t>(count);
    }
  }
  std::pair<std::string, std::string> place_of(int64_t offset) const override {
    const size_t part = part_at(offset);
    return parts_[part]->place_of(offset - starts_[part]);
  }
  std::string description() const override {
    return fmt::format("{} {}, {} files, {}", kind(), path_, parts_.size(),
                       unit() == "bytes" ? text_of_bytes(size_) : fmt::format("{} {}", size_, unit()));
  }
  std::string kind() const override { return parts_.front()->kind(); }
  std::vector<DataTrait> traits() const override { return parts_.front()->traits(); }
  TokenOrigin origin() const override {
    for (const auto& part : parts_)
      if (part->origin().known()) return part->origin();
    return {};
  }
  std::string unit() const override { return parts_.front()->unit(); }
  std::string mend() const override { return parts_.front()->mend(); }

 private:
  /// Several parts begin at the same place if some are empty: the token lies in the last of them.
  size_t part_at(int64_t offset) const {
    return static_cast<size_t>(std::ranges::upper_bound(starts_, offset) - starts_.begin()) - 1;
  }

  const std::vector<std::unique_ptr<TokenSequence>> parts_;
  const std::string path_;
  std::vector<int64_t> starts_;
  int64_t size_ = 0;
};

}  // namespace

std::unique_ptr<TokenSequence> joined_tokens(std::vector<std::unique_ptr<TokenSequence>> parts,
                                             const std::string& path) {
  return std::make_unique<JoinedTokens>(std::move(parts), path);
}

TokenWindows::TokenWindows(std::unique_ptr<TokenSequence> sequence, const std::vector<const Node*>& inputs,
                           const std::string& path)
    : sequence_(std::move(sequence)) {
  for (const Node* input : inputs) {
    const int64_t needed = input->data.length + 1;  // the window and the token that follows it
    if (input->data.length >= 1 && sequence_->size() >= needed) continue;
    throw data_error(path, "the data are shorter than one sample of input " + input->name,
                     fmt::format("at least {} {}", needed, sequence_->unit()),
                     fmt::format("{} {}", sequence_->size(), sequence_->unit()), "use more data or shorter windows");
  }
}

int64_t TokenWindows::samples(const Node& input) const { return (sequence_->size() - 1) / input.data.length; }

void TokenWindows::read(const Node& input, SampleId sample, int64_t inside, int64_t count,
                        std::span<std::byte> out) const {
  using Kind = DataSource::Kind;
  const int64_t length = input.data.length;
  const int64_t left_over = sequence_->size() - 1 - samples(input) * length;
  const auto shift = static_cast<int64_t>(mix(sample.epoch_key, 0) % static_cast<uint64_t>(left_over + 1));
  int64_t start = sample.index * length + shift + inside;
  if (input.data.kind == Kind::token_targets || input.data.kind == Kind::text_targets) start += 1;
  if (input.data.kind == Kind::text_next) start += length;
  std::vector<int64_t> tokens(static_cast<size_t>(count));
  sequence_->read(start, tokens);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t token = tokens[static_cast<size_t>(i)];
    if (token < 0 || token >= (input.data.classes > 0 ? input.data.classes : int64_t{1} << 31)) {
      const auto [file, place] = sequence_->place_of(start + i);
      throw data_error(file, "the data have a token that the model has no entry for",
                       fmt::format("tokens below {}", input.data.classes), fmt::format("{} at {}", token, place),
                       sequence_->mend());
    }
    reinterpret_cast<int32_t*>(out.data())[i] = static_cast<int32_t>(token);
  }
}

}  // namespace hetsynth
