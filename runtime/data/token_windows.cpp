#include "runtime/data/token_windows.h"

#include <fmt/format.h>

#include <utility>

#include "dsl/base/data_file.h"
#include "dsl/base/error.h"
#include "runtime/data/sample_order.h"

namespace hetsynth {

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
