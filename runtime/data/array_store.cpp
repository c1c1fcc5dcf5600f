#include "runtime/data/array_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "dsl/base/data_file.h"
#include "dsl/base/suggest.h"
#include "runtime/data/data_parts.h"

namespace hetsynth {
namespace {

using Kind = DataSource::Kind;

class ArrayTokens : public TokenSequence {
 public:
  explicit ArrayTokens(StoredArray array) : array_(std::move(array)) {}
  int64_t size() const override { return array_.shape[0]; }
  void read(int64_t offset, std::span<int64_t> out) const override {
    const StoredType type = array_.type;
    std::vector<std::byte> bytes(out.size() * static_cast<size_t>(type.bytes));
    array_.file->read(byte_of(offset), bytes);
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = whole_at(std::span(bytes).subspan(i * static_cast<size_t>(type.bytes)), type);
  }
  std::pair<std::string, std::string> place_of(int64_t offset) const override {
    return {array_.file->path(), fmt::format("byte {}", byte_of(offset))};
  }
  std::string description() const override { return fmt::format("npy {}, {} tokens", array_.file->path(), size()); }
  std::string kind() const override { return "npy"; }
  std::vector<DataTrait> traits() const override {
    return {{"type of the tokens", text(array_.type)}, tokenizer_trait(array_.origin)};
  }
  TokenOrigin origin() const override { return array_.origin; }
  std::string unit() const override { return "tokens"; }
  std::string mend() const override { return "raise the model's vocabulary, or mend the data"; }

 private:
  int64_t byte_of(int64_t offset) const { return array_.data_offset + offset * array_.type.bytes; }
  StoredArray array_;
};

/// The array that holds an input: named after the input, or after what several inputs share.
std::string array_name(const Node& input) {
  switch (input.data.kind) {
    case Kind::tokens:
    case Kind::token_targets:
      return "tokens";
    case Kind::token_label:
    case Kind::image_label:
      return "labels";
    case Kind::image:
      return "samples";
    case Kind::pair_source:
      return "source";
    case Kind::pair_input:
    case Kind::pair_target:
      return "targets";
    case Kind::category:
      return "categories";
    case Kind::response:
      return input.data.classes == 2 ? "labels" : "targets";
    default:
      return data_name(input);
  }
}

/// Extents of a sample in the file.
std::vector<int64_t> sample_shape(const Node& input, int64_t categories) {
  if (input.data.kind == Kind::category && categories > 0) return {categories};
  return {input.type.shape.begin() + 1, input.type.shape.end()};
}

/// What the parts of an array share: the extents of a sample are the input's besides.
std::vector<DataTrait> traits_of(const StoredArray& array) {
  std::vector<int64_t> sample(array.shape.begin() + (array.shape.empty() ? 0 : 1), array.shape.end());
  return {
      {"type", text(array.type)}, {"shape of a sample", hetsynth::text(Shape(sample))}, tokenizer_trait(array.origin)};
}

void check_array(const Node& input, const StoredArray& array, int64_t categories, bool longer) {
  const std::vector<int64_t>& shape = array.shape;
  std::vector<int64_t> wanted = sample_shape(input, categories);
  std::vector<int64_t> found(shape.begin() + (shape.empty() ? 0 : 1), shape.end());
  const bool one = wanted.empty() || wanted == std::vector<int64_t>{1};
  if (one && (found.empty() || found == std::vector<int64_t>{1})) found = wanted;  // [samples] or [samples, 1]
  const bool fits = longer ? found.size() == 1 && found[0] >= wanted[0] + 1 : found == wanted;
  if (shape.empty() || !fits) {
    if (longer) wanted.back() += 1;
    throw array.file->error("the array does not have the shape of input " + data_name(input),
                            samples_text(wanted, longer ? " or more" : ""), hetsynth::text(Shape(shape)),
                            "change the model's sizes to those of the data, or reshape the array");
  }
  if (input.type.dtype == DType::i32 && !array.type.whole()) {
    throw array.file->error("input " + data_name(input) + " takes whole numbers", "an array of integers",
                            text(array.type), "save array.astype(numpy.int32), or declare the input as f32");
  }
}

std::vector<StoredArray> opened_parts(const std::vector<std::function<StoredArray()>>& parts) {
  std::vector<StoredArray> out;
  for (const auto& open : parts) {
    out.push_back(open());
    const StoredArray &first = out.front(), &part = out.back();
    check_alike(first.file->path(), traits_of(first), part.file->path(), traits_of(part));
  }
  return out;
}

std::unique_ptr<TokenSequence> tokens_of(const std::vector<StoredArray>& parts, const std::string& path) {
  if (parts.size() == 1) return token_sequence(parts.front());
  std::vector<std::unique_ptr<TokenSequence>> out;
  for (const StoredArray& part : parts) out.push_back(token_sequence(part));
  return joined_tokens(std::move(out), path);
}

ArrayField joined_field(const std::vector<StoredArray>& parts) {
  ArrayField out = parts.front().field();
  out.parts.clear();
  for (const StoredArray& part : parts) {
    const ArrayField field = part.field();
    out.elements = std::max(out.elements, field.elements);  // no elements are told of a part without samples
    out.parts.push_back(field.parts.front());
  }
  return out;
}

[[noreturn]] void refuse_missing(const ArrayStore& store, const Node& input, const std::string& name) {
  std::vector<std::string> names, files;
  for (const auto& [there, parts] : store.arrays)
    if (parts.size() == 1) names.push_back(there), files.push_back(there + store.suffix);
  throw data_error(store.path, fmt::format("the {} has no array for input {}", store.place, data_name(input)),
                   name + store.suffix, files.empty() ? "no array" : quoted_list(files),
                   did_you_mean(name, names, "save it under this name, with the samples in dimension 0"));
}

}  // namespace

std::vector<Kind> array_kinds() {
  return {Kind::tokens,      Kind::token_targets, Kind::token_label, Kind::image,
          Kind::image_label, Kind::pair_source,   Kind::pair_input,  Kind::pair_target,
          Kind::numeric,     Kind::category,      Kind::response,    Kind::named};
}

std::unique_ptr<TokenSequence> token_sequence(StoredArray array) {
  if (array.shape.size() != 1 || !array.type.whole()) {
    throw array.file->error("a file of tokens has one dimension of integers", "[tokens]",
                            fmt::format("{} of {}", hetsynth::text(Shape(array.shape)), text(array.type)));
  }
  return std::make_unique<ArrayTokens>(std::move(array));
}

OpenedData open_arrays(const ArrayStore& store, const DataPath& path) {
  const std::vector<const Node*>& inputs = path.inputs;
  std::map<std::string, std::vector<StoredArray>> arrays;
  std::map<std::string, ArrayField> fields;
  const auto categories =
      std::ranges::count_if(inputs, [](const Node* input) { return input->data.kind == Kind::category; });
  const auto of_window = [](const Node* input) {
    return input->data.kind == Kind::tokens || input->data.kind == Kind::token_targets;
  };
  const bool windows =
      std::ranges::any_of(inputs, [](const Node* input) { return input->data.kind == Kind::token_targets; });
  for (const Node* input : inputs) {
    const std::string name = array_name(*input);
    auto found = arrays.find(name);
    if (found == arrays.end()) {
      const auto there = store.arrays.find(name);
      if (there == store.arrays.end()) refuse_missing(store, *input, name);
      found = arrays.emplace(name, opened_parts(there->second)).first;
    }
    const std::vector<StoredArray>& parts = found->second;
    if (windows && std::ranges::all_of(inputs, of_window) && parts.front().shape.size() == 1 &&
        parts.front().type.whole())
      return tokens_of(parts, store.path);
    for (const StoredArray& part : parts) check_array(*input, part, categories, windows && of_window(input));
    ArrayField field = joined_field(parts);
    if (input->data.kind == Kind::token_targets) field.first = 1;
    if (input->data.kind == Kind::category) field.first = input->data.column;
    field.shifted = input->data.kind == Kind::pair_input;
    field.pixels = input->data.kind == Kind::image && field.type == StoredType{};
    fields[input->name] = std::move(field);
  }
  const bool in_memory = std::ranges::all_of(fields, [](const auto& field) {
    return std::ranges::all_of(field.second.parts, [](const auto& part) { return part.file->unpacked(); });
  });
  std::unique_ptr<Dataset> samples =
      std::make_unique<ArrayDataset>(store.description, std::move(fields), path.may_be_empty());
  return in_memory ? std::move(samples) : with_row_cache(std::move(samples), path);
}

}  // namespace hetsynth
