#include "runtime/tokenizers/added_tokens.h"

#include <algorithm>

#include "runtime/unicode/categories.h"
#include "runtime/unicode/utf8.h"

namespace hetsynth {
namespace {

unsigned char first_byte(const AddedToken& token) { return static_cast<unsigned char>(token.text[0]); }

/// Where the space at the end of text[from, to) begins.
size_t begin_of_space(std::string_view text, size_t from, size_t to) {
  while (to > from) {
    const size_t last = from + unicode::last_code_point(text.substr(from, to - from));
    if (!unicode::is_space(unicode::code_point_at(text, last).code)) break;
    to = last;
  }
  return to;
}

size_t end_of_space(std::string_view text, size_t at) {
  while (at < text.size()) {
    const unicode::CodePoint point = unicode::code_point_at(text, at);
    if (!unicode::is_space(point.code)) break;
    at += point.bytes;
  }
  return at;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::ranges::reverse(tokens_);
  std::ranges::stable_sort(tokens_, [](const AddedToken& a, const AddedToken& b) {
    return first_byte(a) != first_byte(b) ? first_byte(a) < first_byte(b) : a.text.size() > b.text.size();
  });
  for (uint32_t i = 0; i < tokens_.size(); ++i) {
    auto& [begin, end] = by_first_[first_byte(tokens_[i])];
    if (end == 0) begin = i;
    end = i + 1;
  }
}

const AddedToken* AddedTokens::at(std::string_view rest) const {
  const auto [begin, end] = by_first_[static_cast<unsigned char>(rest[0])];
  for (uint32_t i = begin; i < end; ++i)
    if (rest.starts_with(tokens_[i].text)) return &tokens_[i];
  return nullptr;
}

std::vector<AddedTokens::Part> AddedTokens::split(std::string_view text) const {
  std::vector<Part> out;
  size_t done = 0;
  if (!tokens_.empty()) {
    for (size_t at = 0; at < text.size();) {
      const AddedToken* token = this->at(text.substr(at));
      if (!token) {
        ++at;
        continue;
      }
      size_t begin = at, end = at + token->text.size();
      at = end;
      if (token->takes_space_before && begin > done) begin = begin_of_space(text, done, begin);
      if (token->takes_space_after) end = end_of_space(text, end);
      if (begin > done) out.push_back({text.substr(done, begin - done), -1});
      out.push_back({text.substr(begin, end - begin), token->id});
      done = end;
    }
  }
  if (done < text.size()) out.push_back({text.substr(done), -1});
  return out;
}

bool AddedTokens::stays_in_line() const {
  return std::ranges::none_of(tokens_, [](const AddedToken& token) {
    return token.takes_space_before || token.text.find('\n') != std::string::npos;
  });
}

}  // namespace hetsynth
