#include "dsl/ir/data_source.h"

#include <fmt/format.h>

namespace hetsynth {

std::string text_of_values(const DataSource& data, DType dtype) {
  if (dtype == DType::i32) {
    std::string out = fmt::format("{} to {}", lowest_whole(data), highest_whole(data));
    if (data.ignored) out += fmt::format(", or {}", *data.ignored);
    return out;
  }
  if (data.kind == DataSource::Kind::response && data.classes == 2) return "0 or 1";
  if (data.lowest && data.highest) return fmt::format("a number from {} to {}", *data.lowest, *data.highest);
  if (data.lowest) return fmt::format("a number from {} on", *data.lowest);
  if (data.highest) return fmt::format("a number up to {}", *data.highest);
  return "a finite number";
}

}  // namespace hetsynth
