// What fills an input of a model, and which values it takes.
#pragma once
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "dsl/ir/type.h"

namespace hetsynth {

/// Where an input's values come from. Samples are counted globally; dimension 0 of the input runs over the batch's
/// samples.
struct DataSource {
  enum class Kind : uint8_t {
    none,
    text_tokens,       ///< bytes of a text, a window of `length` per sample
    text_targets,      ///< the same window moved by one byte
    text_next,         ///< the one byte after the window of `length`
    synthetic_normal,  ///< standard normal values
    synthetic_label,   ///< class of a fixed random linear teacher of the inputs of kind synthetic_normal, in [0,
                       ///< classes)
    tokens,            ///< a window of `length` tokens per sample
    token_targets,     ///< the same window moved by one token
    token_label,       ///< class of the window
    image,             ///< pixels, [channels, height, width] per sample
    image_label,       ///< class of the image
    pair_source,       ///< translation: `length` tokens to be translated
    pair_input,        ///< the translation moved by one token to the right, begun with token 1
    pair_target,       ///< the translation, `length` tokens
    numeric,           ///< `length` real features of a row, from column `column` of the numeric ones on
    category,          ///< categorical column `column` of a row
    response,          ///< what a row's features are to predict: 0 or 1 if `classes` is 2, else a real number
    named,             ///< what the data have under the input's name, as it is
  };
  Kind kind = Kind::none;
  int64_t length = 0;                               ///< tokens or features per sample
  int64_t classes = 0;                              ///< integer inputs take values below `classes`; 0: not an index
  int64_t column = 0;                               ///< first column of a table's row
  bool files = false;                               ///< read from the data the user names; if none are named, made up
  std::optional<double> lowest = {}, highest = {};  ///< of kind named: its values; whole numbers for int32
  std::optional<int64_t> ignored = {};              ///< of kind named: an integer that marks what does not count
};

/// The values of an input of int32 besides `ignored`: from `lowest`, else 0, to `highest`, else below `classes`, else
/// 2^31 - 1.
inline int64_t lowest_whole(const DataSource& data) { return data.lowest ? static_cast<int64_t>(*data.lowest) : 0; }
inline int64_t highest_whole(const DataSource& data) {
  if (data.highest) return static_cast<int64_t>(*data.highest);
  return data.classes > 0 ? data.classes - 1 : int64_t{std::numeric_limits<int32_t>::max()};
}
/// Whether an input of int32 takes the value.
inline bool takes_whole(const DataSource& data, int64_t value) {
  return (value >= lowest_whole(data) && value <= highest_whole(data)) || (data.ignored && value == *data.ignored);
}
/// Whether an input of float32 takes the value: a finite number within the bounds, as float32 has them.
inline bool takes_real(const DataSource& data, float value) {
  if (!std::isfinite(value)) return false;
  if (data.kind == DataSource::Kind::response && data.classes == 2) return value == 0 || value == 1;
  return !(data.lowest && value < static_cast<float>(*data.lowest)) &&
         !(data.highest && value > static_cast<float>(*data.highest));
}
/// What the input takes, for messages: "0 to 9, or -100", "0 or 1", "a finite number".
std::string text_of_values(const DataSource& data, DType dtype);

}  // namespace hetsynth
