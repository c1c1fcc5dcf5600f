#include "dsl/base/npy_header.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "dsl/base/suggest.h"

namespace hetsynth {
namespace {

constexpr unsigned char magic[] = {0x93, 'N', 'U', 'M', 'P', 'Y'};
constexpr int64_t longest_header = int64_t{1} << 16;  // NumPy itself refuses more than 10,000 bytes by default

/// Reads a Python literal: the dictionary of the header.
class Literal {
 public:
  Literal(const DataFile& file, std::string_view text, int64_t offset) : file_(file), text_(text), offset_(offset) {}

  [[noreturn]] void fail(const std::string& expected) const {
    const std::string shown = in_ascii(text_.substr(std::min(at_, text_.size()), 16));
    throw file_.error("the header of the array is damaged", expected,
                      fmt::format("\"{}\" at byte {}", shown, offset_ + static_cast<int64_t>(at_)));
  }

  bool accept(char wanted) {
    skip_spaces();
    if (at_ >= text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }

  void expect(char wanted) {
    if (!accept(wanted)) fail(fmt::format("'{}'", wanted));
  }

  std::string string() {
    skip_spaces();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') fail("a string");
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) fail("a string with an end");
    const std::string out(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return out;
  }

  bool boolean() {
    skip_spaces();
    for (const bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return value;
      }
    }
    fail("True or False");
  }

  std::vector<int64_t> tuple() {
    expect('(');
    std::vector<int64_t> out;
    while (!accept(')')) {
      out.push_back(number());
      accept('L');  // Python 2 wrote long integers so
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return out;
  }

  bool list_follows() {
    skip_spaces();
    return at_ < text_.size() && text_[at_] == '[';
  }

  /// Gives the comment before the end, if there is one.
  std::string end() {
    std::string comment;
    if (accept('#')) {
      skip_spaces();
      const size_t line = std::min(text_.find('\n', at_), text_.size());
      comment = text_.substr(at_, line - at_);
      comment.erase(comment.find_last_not_of(' ') + 1);
      at_ = line;
    }
    skip_spaces();
    if (at_ != text_.size()) fail("the end of the header");
    return comment;
  }

 private:
  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }

  int64_t number() {
    skip_spaces();
    int64_t value = 0;
    const char* begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error != std::errc() || value < 0) fail("an extent from 0 to 2^63 - 1");
    at_ += static_cast<size_t>(end - begin);
    return value;
  }

  const DataFile& file_;
  std::string_view text_;
  int64_t offset_;  ///< of the text in the file
  size_t at_ = 0;
};

StoredType element_type(const DataFile& file, const std::string& descr) {
  const auto refuse = [&]() {
    return file.error("the array's elements have a type that cannot be read",
                      "bool, integers of 1 to 8 bytes, or floats of 2, 4 or 8 bytes", "'" + descr + "'",
                      "convert it: numpy.save(file, array.astype(numpy.float32))");
  };
  if (descr.size() != 3 || std::strchr("<>|=", descr[0]) == nullptr) throw refuse();
  StoredType out{StoredType::Kind::boolean, descr[2] - '0', descr[0] == '>'};
  switch (descr[1]) {
    case 'b':
      break;
    case 'u':
      out.kind = StoredType::Kind::unsigned_integer;
      break;
    case 'i':
      out.kind = StoredType::Kind::integer;
      break;
    case 'f':
      out.kind = StoredType::Kind::real;
      break;
    default:
      throw refuse();
  }
  const bool power = out.bytes == 1 || out.bytes == 2 || out.bytes == 4 || out.bytes == 8;
  const bool one_byte = out.kind == StoredType::Kind::boolean, no_byte = out.kind == StoredType::Kind::real;
  if (!power || (one_byte && out.bytes != 1) || (no_byte && out.bytes == 1)) throw refuse();
  return out;
}

}  // namespace

bool begins_like_npy(std::span<const unsigned char> head) {
  return head.size() >= sizeof(magic) && std::memcmp(head.data(), magic, sizeof(magic)) == 0;
}

namespace {

/// Length of the header's text and where it begins.
std::pair<int64_t, int64_t> text_range(const DataFile& file, std::span<const unsigned char> head) {
  if (!begins_like_npy(head)) {
    throw file.error("this is no npy file", "93 4e 55 4d 50 59 (\\x93NUMPY)",
                     hex(head.first(std::min(head.size(), sizeof(magic)))) + " at byte 0", "write it with numpy.save");
  }
  if (head.size() < 8) throw file.error("the header is cut short", "", fmt::format("the end at byte {}", head.size()));
  const int major = head[6];
  if (major < 1 || major > 3)
    throw file.error("the version of this npy file is not known", "1, 2 or 3", fmt::format("{} at byte 6", major));
  const int size = major == 1 ? 2 : 4;
  if (head.size() < static_cast<size_t>(8 + size))
    throw file.error("the header is cut short", "", fmt::format("the end at byte {}", head.size()));
  const int64_t length = whole_at(std::as_bytes(head.subspan(8)), {StoredType::Kind::unsigned_integer, size, false});
  if (length > longest_header || 8 + size + length > file.bytes()) {
    throw file.error("the length of the header does not fit the file",
                     fmt::format("at most {} bytes", std::min(longest_header, file.bytes() - 8 - size)),
                     fmt::format("{} at byte 8", length));
  }
  return {8 + size, length};
}

}  // namespace

NpyHeader read_npy_header(const DataFile& file) {
  const auto [begin, length] = text_range(file, file.head(12));
  std::string text(static_cast<size_t>(length), '\0');
  file.read(begin, std::as_writable_bytes(std::span(text)));

  std::optional<StoredType> type;
  std::optional<std::vector<int64_t>> shape;
  std::optional<bool> fortran;
  Literal literal(file, text, begin);
  literal.expect('{');
  while (!literal.accept('}')) {
    const std::string key = literal.string();
    literal.expect(':');
    if (key == "descr") {
      if (literal.list_follows()) {
        throw file.error("the array has structured elements", "numbers", "a list as 'descr'",
                         "save each field as an array of its own");
      }
      type = element_type(file, literal.string());
    } else if (key == "fortran_order") {
      fortran = literal.boolean();
    } else if (key == "shape") {
      shape = literal.tuple();
    } else {
      literal.fail("'descr', 'fortran_order' or 'shape' as key");
    }
    if (!literal.accept(',')) {
      literal.expect('}');
      break;
    }
  }
  const std::string comment = literal.end();
  if (!type || !shape || !fortran) literal.fail("'descr', 'fortran_order' and 'shape'");
  int64_t elements = 1, bytes = 0;
  bool fits = true;
  for (const int64_t extent : *shape) fits = fits && multiply_exactly(elements, extent, &elements);
  if (!fits || !multiply_exactly(elements, type->bytes, &bytes) || bytes != file.bytes() - begin - length) {
    throw file.error("the array does not fit the file",
                     fmt::format("{} bytes of elements from byte {} on", file.bytes() - begin - length, begin + length),
                     fmt::format("shape [{}] of {}", fmt::join(*shape, ","), hetsynth::text(*type)),
                     "the file may be cut short: copy or write it again");
  }
  if (*fortran && shape->size() > 1) {
    throw file.error("the array is in Fortran order", "'fortran_order': False", "True",
                     "save numpy.ascontiguousarray(array)");
  }
  return {*type, *shape, begin + length, comment};
}

}  // namespace hetsynth
