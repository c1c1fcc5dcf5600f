#include "dsl/base/safetensors_header.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

#include "dsl/base/error.h"

namespace hetsynth {
namespace {

using nlohmann::json;

/// Whose errors name the file.
struct HeaderPlace {
  const std::string& path;
  const std::string& tag;

  [[noreturn]] void refuse(const std::string& message, const std::string& expected = "",
                           const std::string& found = "") const {
    throw UserError({{path, 0, 0}, tag, message, expected, found, ""});
  }
};

/// Throws if an object has a key twice: readers differ in which one they believe.
json parse_header(const HeaderPlace& at, const std::string& header) {
  // The parser takes a NUL for the end of the text.
  if (const size_t nul = header.find('\0'); nul != std::string::npos)
    at.refuse("the header is damaged: it holds a NUL byte", "JSON, behind which spaces may stand",
              fmt::format("NUL at byte {} of {}", nul, header.size()));
  std::vector<std::set<std::string>> open;
  std::string twice;
  const auto watch = [&](int, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start) open.emplace_back();
    if (event == json::parse_event_t::object_end) open.pop_back();
    if (event == json::parse_event_t::key && !open.back().insert(parsed.get<std::string>()).second)
      twice = parsed.get<std::string>();
    return true;
  };
  json parsed = json::parse(header, watch, false);
  if (!parsed.is_object() || header.front() != '{')
    at.refuse("the header is no JSON object: the file is damaged or no safetensors file");
  if (!twice.empty()) at.refuse("the header is damaged: the key " + json(twice).dump() + " stands in it twice");
  return parsed;
}

std::string in_words(const json& value) {
  return value.is_number() ? value.dump()
         : value.is_null() ? "null"
                           : fmt::format("a value of type {}", value.type_name());
}

/// A member of what the header says of a tensor.
const json& member(const HeaderPlace& at, const std::string& name, const json& entry, const char* key,
                   json::value_t type) {
  const auto found = entry.is_object() ? entry.find(key) : entry.end();
  if (found != entry.end() && found->type() == type) return *found;
  at.refuse(fmt::format("the header is damaged: tensor {} has no {}", name, key),
            type == json::value_t::string ? "a text" : "a list of numbers",
            found == entry.end() ? "nothing" : in_words(*found));
}

std::map<std::string, std::string> metadata_of(const HeaderPlace& at, const json& entry) {
  if (!entry.is_object())
    at.refuse("the header is damaged: __metadata__ is no object", "an object of texts", in_words(entry));
  std::map<std::string, std::string> out;
  for (const auto& [key, value] : entry.items()) {
    if (!value.is_string())
      at.refuse(fmt::format("the header is damaged: {} in __metadata__ is no text", json(key).dump()),
                "a text, as \"3\"", in_words(value));
    out[key] = value.get<std::string>();
  }
  return out;
}

/// The format's element types. `readable`: those that the caller takes, for the message.
std::optional<StoredType> type_of(const HeaderPlace& at, const std::string& name, const std::string& dtype,
                                  const std::string& readable) {
  using Kind = StoredType::Kind;
  static const std::map<std::string, std::optional<StoredType>> types = {
      {"BOOL", StoredType{Kind::boolean, 1}},
      {"U8", StoredType{Kind::unsigned_integer, 1}},
      {"U16", StoredType{Kind::unsigned_integer, 2}},
      {"U32", StoredType{Kind::unsigned_integer, 4}},
      {"U64", StoredType{Kind::unsigned_integer, 8}},
      {"I8", StoredType{Kind::integer, 1}},
      {"I16", StoredType{Kind::integer, 2}},
      {"I32", StoredType{Kind::integer, 4}},
      {"I64", StoredType{Kind::integer, 8}},
      {"F16", StoredType{Kind::real, 2}},
      {"F32", StoredType{Kind::real, 4}},
      {"F64", StoredType{Kind::real, 8}},
      {"BF16", StoredType{Kind::bfloat, 2}},
      {"F8_E5M2", std::nullopt},
      {"F8_E4M3", std::nullopt},
  };
  const auto found = types.find(dtype);
  if (found == types.end()) at.refuse("tensor " + name + " has an element type that is not supported", readable, dtype);
  return found->second;
}

std::vector<int64_t> shape_of(const HeaderPlace& at, const std::string& name, const json& entry) {
  std::vector<int64_t> shape;
  for (const json& extent : member(at, name, entry, "shape", json::value_t::array)) {
    if (!extent.is_number_unsigned()) at.refuse("tensor " + name + " has a negative or broken shape");
    shape.push_back(extent.get<int64_t>());
  }
  return shape;
}

/// Bytes of a tensor whose numbers come from a file: nothing if they exceed `limit` or overflow.
bool checked_bytes(const std::vector<int64_t>& shape, int64_t element_bytes, int64_t limit, int64_t* bytes) {
  int64_t total = element_bytes;
  for (const int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(total, extent, &total)) return false;
  }
  *bytes = total;
  return total <= limit;
}

/// First and last byte of a tensor, from the start of the data.
std::pair<int64_t, int64_t> place_of(const HeaderPlace& at, const std::string& name, const json& entry,
                                     const std::vector<int64_t>& shape, int64_t element_bytes, int64_t data_bytes) {
  const json& offsets = member(at, name, entry, "data_offsets", json::value_t::array);
  if (offsets.size() != 2 || !offsets[0].is_number_unsigned() || !offsets[1].is_number_unsigned())
    at.refuse("the header is damaged: data_offsets of " + name + " are no two numbers");
  const auto begin = offsets[0].get<int64_t>(), end = offsets[1].get<int64_t>();
  int64_t bytes = 0;
  if (!checked_bytes(shape, element_bytes, data_bytes, &bytes) || begin < 0 || end < begin || end > data_bytes ||
      end - begin != bytes)
    at.refuse("tensor " + name + " does not lie inside of the file", fmt::format("[{}]", fmt::join(shape, ",")),
              fmt::format("bytes {} to {} of {}", begin, end, data_bytes));
  return {begin, end};
}

struct TensorPlace {
  int64_t begin, end;
  std::string name;
  auto operator<=>(const TensorPlace&) const = default;
};

void check_parts(const HeaderPlace& at, std::vector<TensorPlace> parts, int64_t data_bytes) {
  std::ranges::sort(parts);
  int64_t next = 0;
  for (const TensorPlace& part : parts) {
    if (part.begin != next)
      at.refuse("the header is damaged: tensors overlap or leave a gap",
                fmt::format("{} from byte {} on", part.name, next), fmt::format("from byte {} on", part.begin));
    next = part.end;
  }
  if (next != data_bytes)
    at.refuse("the file is longer than its tensors", fmt::format("{} bytes of data", next),
              fmt::format("{} bytes", data_bytes));
}

}  // namespace

SafetensorsHeader parse_safetensors_header(const std::string& path, const std::string& tag, const std::string& text,
                                           int64_t data_bytes, const std::string& readable) {
  const HeaderPlace at{path, tag};
  const json parsed = parse_header(at, text);
  SafetensorsHeader out;
  std::vector<TensorPlace> places;
  for (const auto& [name, entry] : parsed.items()) {
    if (name == "__metadata__") {
      out.metadata = metadata_of(at, entry);
      continue;
    }
    StoredTensor tensor;
    tensor.dtype = member(at, name, entry, "dtype", json::value_t::string).get<std::string>();
    tensor.type = type_of(at, name, tensor.dtype, readable);
    tensor.element_bytes = tensor.type ? tensor.type->bytes : 1;
    tensor.shape = shape_of(at, name, entry);
    std::tie(tensor.begin, tensor.end) = place_of(at, name, entry, tensor.shape, tensor.element_bytes, data_bytes);
    places.push_back({tensor.begin, tensor.end, name});
    out.tensors[name] = std::move(tensor);
  }
  check_parts(at, std::move(places), data_bytes);
  return out;
}

}  // namespace hetsynth
