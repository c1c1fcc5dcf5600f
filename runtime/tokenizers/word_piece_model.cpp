#include "runtime/tokenizers/word_piece_model.h"

#include <algorithm>

#include "runtime/unicode/utf8.h"

namespace hetsynth {

WordPieceModel::WordPieceModel(WordPieceSettings settings) : settings_(std::move(settings)) {
  int32_t greatest = 0;
  for (const auto& [token, id] : settings_.vocabulary) greatest = std::max(greatest, id);
  tokens_.resize(static_cast<size_t>(greatest) + 1);
  for (const auto& [token, id] : settings_.vocabulary) tokens_[static_cast<size_t>(id)] = token;
}

std::optional<int32_t> WordPieceModel::id_of(std::string_view token) const {
  const auto found = settings_.vocabulary.find(token);
  if (found == settings_.vocabulary.end()) return {};
  return found->second;
}

const std::string& WordPieceModel::token(int32_t id) const {
  static const std::string none;
  return id < 0 || static_cast<size_t>(id) >= tokens_.size() ? none : tokens_[static_cast<size_t>(id)];
}

void WordPieceModel::encode_word(std::string_view word, std::vector<int32_t>& ids) const {
  const size_t before = ids.size();
  const auto letters =
      std::ranges::count_if(word, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
  bool known = letters <= settings_.longest_word;
  std::string piece;
  for (size_t at = 0; known && at < word.size();) {
    piece = at > 0 ? settings_.prefix : std::string();
    const size_t prefix = piece.size();
    piece += word.substr(at);
    std::optional<int32_t> id;
    while (piece.size() > prefix && !(id = id_of(piece)))
      piece.resize(prefix + unicode::last_code_point(std::string_view(piece).substr(prefix)));
    known = id.has_value();
    if (known) ids.push_back(*id);
    at += piece.size() - prefix;
  }
  if (known) return;
  ids.resize(before);
  ids.push_back(settings_.unknown);
}

}  // namespace hetsynth
