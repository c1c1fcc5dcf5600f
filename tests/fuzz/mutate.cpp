#include "tests/fuzz/mutate.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace hetsynth::testing {
namespace {

size_t below(size_t bound, std::mt19937_64& random) { return bound == 0 ? 0 : size_t(random() % bound); }

struct Piece {
  size_t begin, end;
};

/// The piece of equal nature (word, number or single character) around a random place.
Piece random_piece(const std::string& text, std::mt19937_64& random) {
  const size_t at = below(text.size(), random);
  const auto wordly = [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '.' || c == '-'; };
  Piece piece{at, at + 1};
  if (!wordly(static_cast<unsigned char>(text[at]))) return piece;
  while (piece.begin > 0 && wordly(static_cast<unsigned char>(text[piece.begin - 1]))) --piece.begin;
  while (piece.end < text.size() && wordly(static_cast<unsigned char>(text[piece.end]))) ++piece.end;
  return piece;
}

/// The number at or after a random place; empty without one.
Piece random_number(const std::string& text, std::mt19937_64& random) {
  static constexpr std::string_view digits = "0123456789";
  const size_t begin = std::min(text.find_first_of(digits, below(text.size(), random)), text.size());
  return {begin, std::min(text.find_first_not_of(digits, begin), text.size())};
}

Piece random_line(const std::string& text, std::mt19937_64& random) {
  const size_t at = below(text.size(), random);
  const size_t before = at == 0 ? std::string::npos : text.rfind('\n', at - 1);
  const size_t after = text.find('\n', at);
  return {before == std::string::npos ? 0 : before + 1, after == std::string::npos ? text.size() : after + 1};
}

std::string_view extreme(std::mt19937_64& random) {
  static constexpr std::array<std::string_view, 24> texts{"0",
                                                          "1",
                                                          "2",
                                                          "-1",
                                                          "3",
                                                          "1e308",
                                                          "1e999",
                                                          "-0.0",
                                                          "nan",
                                                          "inf",
                                                          "null",
                                                          "true",
                                                          "9223372036854775807",
                                                          "9223372036854775808",
                                                          "-9223372036854775809",
                                                          "\"\"",
                                                          "[]",
                                                          "{}",
                                                          "[[[[",
                                                          "\"\\u0000\"",
                                                          "\xff",
                                                          "4294967296",
                                                          "2147483648",
                                                          "replicated"};
  return texts[below(texts.size(), random)];
}

void change(std::string& text, std::mt19937_64& random) {
  const Piece piece = random_piece(text, random), other = random_piece(text, random), line = random_line(text, random);
  const Piece number = random_number(text, random);
  const std::string piece_text = text.substr(piece.begin, piece.end - piece.begin);
  const std::string other_text = text.substr(other.begin, other.end - other.begin);
  const std::string line_text = text.substr(line.begin, line.end - line.begin);
  switch (below(9, random)) {
    case 0:
      text[below(text.size(), random)] = char(random() & 0xff);
      break;
    case 1:
      text.erase(piece.begin, piece_text.size());
      break;
    case 2:
      text.replace(piece.begin, piece_text.size(), extreme(random));
      break;
    case 3:
      text.replace(piece.begin, piece_text.size(), other_text);
      break;
    case 4:
      text.insert(piece.begin, piece_text);
      break;
    case 5:
      text.erase(line.begin, line_text.size());
      break;
    case 6:
      text.insert(line.begin, line_text);
      break;
    case 7:
      text.replace(number.begin, number.end - number.begin, extreme(random));
      break;
    default:
      text.resize(below(text.size(), random) + 1);
      break;
  }
}

}  // namespace

std::string mutate(std::string text, std::mt19937_64& random) {
  const size_t changes = 1 + below(4, random);
  for (size_t i = 0; i < changes && !text.empty(); ++i) change(text, random);
  return text;
}

}  // namespace hetsynth::testing
