#include "runtime/unicode/categories.h"

#include <algorithm>
#include <iterator>
#include <vector>

namespace hetsynth::unicode {
namespace {

constexpr char32_t code_points = 0x110000;
constexpr std::string_view names = "CnCcCfCsCoLuLlLtLmLoMnMcMeNdNlNoPcPdPsPePiPfPoSmScSkSoZsZlZp";

bool white_space(char32_t code) {
  return (code >= 0x09 && code <= 0x0D) || code == 0x20 || code == 0x85 || code == 0xA0 || code == 0x1680 ||
         (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F ||
         code == 0x3000;
}

uint8_t properties_of(char32_t code, uint32_t run) {
  const auto category = static_cast<Category>(run & 0x7F);
  uint8_t out = 0;
  if (category >= Category::Lu && category <= Category::Lo) out |= letter;
  if (category >= Category::Nd && category <= Category::No) out |= number;
  if (run & 0x80) out |= word;
  if (white_space(code)) out |= space;
  if (code == '\n' || code == '\r') out |= line_end;
  return out;
}

std::vector<uint8_t> make_table() {
  std::vector<uint8_t> out(code_points);
  for (size_t i = 0; i < category_runs.size(); ++i) {
    const char32_t end = i + 1 < category_runs.size() ? category_runs[i + 1] >> 8 : code_points;
    for (char32_t code = category_runs[i] >> 8; code < end; ++code) out[code] = properties_of(code, category_runs[i]);
  }
  return out;
}

}  // namespace

const uint8_t* property_table() {
  static const std::vector<uint8_t> table = make_table();
  return table.data();
}

Category category(char32_t code) {
  const auto after = std::ranges::upper_bound(category_runs, code, {}, [](uint32_t run) { return run >> 8; });
  return static_cast<Category>(*std::prev(after) & 0x7F);
}

uint32_t category_set(std::string_view name) {
  uint32_t out = 0;
  if (name.empty() || name.size() > 2) return 0;
  for (size_t i = 0; i < names.size(); i += 2) {
    if (names.substr(i, 2).starts_with(name)) out |= uint32_t{1} << (i / 2);
  }
  return out;
}

}  // namespace hetsynth::unicode
