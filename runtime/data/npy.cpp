// Arrays of NumPy: a folder with one file per input, samples in dimension 0; or one file of tokens.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "dsl/base/npy_header.h"
#include "runtime/data/array_dataset.h"
#include "runtime/data/formats.h"
#include "runtime/data/token_windows.h"

namespace hetsynth {
namespace {

using Kind = DataSource::Kind;

StoredArray open_npy(const std::string& path) {
  auto file = std::make_shared<DataFile>(path);
  NpyHeader header = read_npy_header(*file);
  return {std::move(file), header.type, std::move(header.shape), header.data_offset};
}

/// A one-dimensional array of tokens.
class NpyTokens : public TokenSequence {
 public:
  explicit NpyTokens(StoredArray array) : array_(std::move(array)) {}
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
  std::string unit() const override { return "tokens"; }
  std::string mend() const override { return "raise the model's vocabulary, or mend the data"; }

 private:
  int64_t byte_of(int64_t offset) const { return array_.data_offset + offset * array_.type.bytes; }
  StoredArray array_;
};

/// The file that holds an input: named after the input, or after what several inputs share.
std::string file_name(const Node& input) {
  switch (input.data.kind) {
    case Kind::tokens:
    case Kind::token_targets:
      return "tokens.npy";
    case Kind::token_label:
    case Kind::image_label:
      return "labels.npy";
    case Kind::image:
      return "samples.npy";
    case Kind::pair_source:
      return "source.npy";
    case Kind::pair_input:
    case Kind::pair_target:
      return "targets.npy";
    case Kind::category:
      return "categories.npy";
    case Kind::response:
      return input.data.classes == 2 ? "labels.npy" : "targets.npy";
    default:
      return data_name(input) + ".npy";
  }
}

/// Extents of a sample in the file; -1: as many as the array has.
std::vector<int64_t> sample_shape(const Node& input, int64_t categories) {
  std::vector<int64_t> out(input.type.shape.begin() + 1, input.type.shape.end());
  if (input.data.kind == Kind::category && categories > 0) return {categories};
  return out;
}

void check_array(const Node& input, const StoredArray& array, int64_t categories, bool longer) {
  const std::vector<int64_t>& shape = array.shape;
  std::vector<int64_t> wanted = sample_shape(input, categories);
  std::vector<int64_t> found(shape.begin() + (shape.empty() ? 0 : 1), shape.end());
  if (found.empty() && wanted.size() == 1 && wanted[0] == 1) found = {1};  // [samples] for one feature
  const bool fits = longer ? found.size() == 1 && found[0] >= wanted[0] + 1 : found == wanted;
  if (shape.empty() || !fits) {
    if (longer) wanted.back() += 1;
    throw array.file->error("the array does not have the shape of input " + input.name,
                            samples_text(wanted, longer ? " or more" : ""), hetsynth::text(Shape(shape)));
  }
  if (input.type.dtype == DType::i32 && !array.type.whole()) {
    throw array.file->error("input " + input.name + " takes whole numbers", "an array of integers", text(array.type));
  }
}

std::unique_ptr<Dataset> open_arrays(const DataPath& path) {
  std::map<std::string, StoredArray> arrays;
  std::map<std::string, ArrayField> fields;
  const auto categories =
      std::ranges::count_if(path.inputs, [](const Node* input) { return input->data.kind == Kind::category; });
  const bool windows =
      std::ranges::any_of(path.inputs, [](const Node* input) { return input->data.kind == Kind::token_targets; });
  for (const Node* input : path.inputs) {
    const std::string name = file_name(*input);
    if (!path.has(name)) {
      throw data_error(path.path, "the folder has no file for input " + input->name, name,
                       fmt::format("{} other files", path.files.size()));
    }
    auto found = arrays.find(name);
    if (found == arrays.end()) found = arrays.emplace(name, open_npy(path.file(name))).first;
    const StoredArray& array = found->second;
    if (windows && path.inputs.size() == 2 && array.shape.size() == 1 && array.type.whole())
      return std::make_unique<TokenWindows>(std::make_unique<NpyTokens>(array), path.inputs, path.path);
    const bool longer = windows && (input->data.kind == Kind::tokens || input->data.kind == Kind::token_targets);
    check_array(*input, array, categories, longer);
    ArrayField field = array.field();
    if (input->data.kind == Kind::token_targets) field.first = 1;
    if (input->data.kind == Kind::category) field.first = input->data.column;
    field.shifted = input->data.kind == Kind::pair_input;
    field.pixels = input->data.kind == Kind::image && field.type == StoredType{};
    fields[input->name] = std::move(field);
  }
  return std::make_unique<ArrayDataset>("npy " + path.path, std::move(fields));
}

std::unique_ptr<Dataset> open_npy(const DataPath& path) {
  if (path.folder) return open_arrays(path);
  if (!path.asks_only({Kind::tokens, Kind::token_targets})) {
    throw data_error(path.path, "one array does not hold all inputs of the model", "a folder with a file per input",
                     "a file", "see docs/data.md for the names");
  }
  return std::make_unique<TokenWindows>(open_npy_tokens(path.path), path.inputs, path.path);
}

bool looks_like_npy(const DataPath& path) {
  if (!path.folder) return path.path.ends_with(".npy") || begins_like_npy(path.head);
  return std::ranges::any_of(path.files, [](const std::string& name) { return name.ends_with(".npy"); });
}

}  // namespace

std::unique_ptr<TokenSequence> open_npy_tokens(const std::string& path) {
  StoredArray array = open_npy(path);
  if (array.shape.size() != 1 || !array.type.whole()) {
    throw array.file->error("a file of tokens has one dimension of integers", "[tokens]",
                            fmt::format("{} of {}", hetsynth::text(Shape(array.shape)), text(array.type)));
  }
  return std::make_unique<NpyTokens>(std::move(array));
}

DataFormat npy_format() {
  return {"npy",
          "arrays of NumPy",
          {Kind::tokens, Kind::token_targets, Kind::token_label, Kind::image, Kind::image_label, Kind::pair_source,
           Kind::pair_input, Kind::pair_target, Kind::numeric, Kind::category, Kind::response},
          looks_like_npy,
          open_npy};
}

}  // namespace hetsynth
