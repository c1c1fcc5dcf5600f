#include "runtime/token_files/token_origin.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "dsl/base/error.h"
#include "dsl/base/hash.h"
#include "dsl/base/suggest.h"

namespace hetsynth {
namespace {

constexpr std::string_view line_begin = "tokenizer ";
constexpr size_t longest_name = 100, fingerprint_digits = 16;

/// Shows how a tokenizer normalizes texts and cuts them into words, which the tokens alone do not tell.
constexpr std::string_view probe =
    "The quick brown fox's 12345 jumps, isn't it?\n\n  Indented\tcode: f(x)=x*2; HTTPServer e-mail@example.org\r\n"
    "\xC3\x89t\xC3\xA9 na\xC3\xAFve \xE4\xB8\xAD\xE6\x96\x87 \xD0\xBC\xD0\xB8\xD1\x80 \xF0\x9F\x98\x80 ...   end";

bool is_fingerprint(std::string_view text) {
  return text.size() == fingerprint_digits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// The beginning of a name, with what is no printable ASCII as question marks.
std::string name_in_header(std::string_view name) { return in_ascii(name.substr(0, longest_name)); }

}  // namespace

TokenOrigin origin_of(const Tokenizer& tokenizer, const std::string& path) {
  std::string all;
  for (int64_t id = 0; id < tokenizer.vocabulary(); ++id) {
    const std::string token = tokenizer.spelled(static_cast<int32_t>(id));
    all += fmt::format("{} {}\n", token.size(), token);
  }
  all += fmt::format("{}", fmt::join(tokenizer.encode(probe), " "));
  const size_t folder = path.rfind('/') + 1;  // 0 if there is none
  return {fmt::format("{}, {}", path.substr(folder), tokenizer.description()), content_hash(all)};
}

TokenOrigin origin_of_bytes() { return {"bytes of text", content_hash("bytes of text")}; }

std::string text(const TokenOrigin& origin) {
  return origin.known() ? fmt::format("{} (fingerprint {})", origin.name, origin.fingerprint) : "not known";
}

bool differ(const TokenOrigin& a, const TokenOrigin& b) {
  return a.known() && b.known() && a.fingerprint != b.fingerprint;
}

void check_same_origin(const std::string& path, const std::string& message, const TokenOrigin& expected,
                       const TokenOrigin& found, const std::string& mend) {
  if (!differ(expected, found)) return;
  throw UserError({.where = {path},
                   .tag = "tokenizer",
                   .message = message,
                   .expected = text(expected),
                   .found = text(found),
                   .mend = mend});
}

std::string header_line(const TokenOrigin& origin) {
  if (!origin.known()) return "";
  return fmt::format("{}{} {}", line_begin, origin.fingerprint, name_in_header(origin.name));
}

TokenOrigin origin_in(std::string_view line) {
  if (!line.starts_with(line_begin)) return {};
  line.remove_prefix(line_begin.size());
  const std::string_view fingerprint = line.substr(0, fingerprint_digits);
  if (!is_fingerprint(fingerprint) || line.size() < fingerprint_digits + 2) return {};
  return {name_in_header(line.substr(fingerprint_digits + 1)), std::string(fingerprint)};
}

}  // namespace hetsynth
