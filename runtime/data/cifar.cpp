// CIFAR-10 and CIFAR-100, binary version (https://www.cs.toronto.edu/~kriz/cifar.html): records of one label byte, or a
// coarse and a fine one, and 3 x 32 x 32 pixels, red, green, blue, each row by row.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "runtime/data/array_dataset.h"
#include "runtime/data/formats.h"

namespace hetsynth {
namespace {

using Kind = DataSource::Kind;

constexpr int64_t pixels = 3 * 32 * 32;
constexpr int64_t coarse_classes = 20;  ///< of CIFAR-100

struct Variant {
  const char* title;
  int64_t label_bytes;
  bool (*belongs)(const std::string& file_name);  ///< to the training data
};
constexpr Variant cifar10 = {
    "CIFAR-10", 1, [](const std::string& name) { return name.starts_with("data_batch") && name.ends_with(".bin"); }};
constexpr Variant cifar100 = {"CIFAR-100", 2, [](const std::string& name) { return name == "train.bin"; }};

std::vector<std::string> training_files(const DataPath& path, const Variant& variant) {
  std::vector<std::string> out;
  for (const std::string& name : path.files) {
    if (variant.belongs(name)) out.push_back(path.file(name));
  }
  if (out.empty()) {
    throw data_error(path.path, fmt::format("the folder holds no training data of {}", variant.title),
                     variant.label_bytes == 1 ? "data_batch_1.bin to data_batch_5.bin" : "train.bin",
                     fmt::format("{} other files", path.files.size()), "unpack the archive of the binary version");
  }
  return out;
}

ArrayField::Part open_file(const std::string& path, const Variant& variant) {
  ArrayField::Part out{std::make_shared<DataFile>(path), 0, variant.label_bytes + pixels, 0};
  const int64_t bytes = out.file->bytes();
  if (bytes == 0 || bytes % out.stride_bytes != 0) {
    throw out.file->error(
        fmt::format("this is no {} file, or it is cut short", variant.title),
        fmt::format("records of {} bytes", out.stride_bytes),
        fmt::format("{} bytes: the last record ends at byte {}", bytes, bytes / out.stride_bytes * out.stride_bytes));
  }
  out.samples = bytes / out.stride_bytes;
  return out;
}

void check_sizes(const Node& input, const std::string& path, const Variant& variant) {
  const Shape& shape = input.type.shape;
  if (input.data.kind != Kind::image || (shape.size() == 4 && shape[1] == 3 && shape[2] == 32 && shape[3] == 32))
    return;
  throw data_error(path, fmt::format("the images of {} do not have the shape of input {}", variant.title, input.name),
                   "[batch, 3, 32, 32] in the model", hetsynth::text(shape),
                   "change the model's sizes to those of the data");
}

OpenedData open_cifar(const DataPath& path, const Variant& variant) {
  const ArrayField::Part file = open_file(path.path, variant);
  std::map<std::string, ArrayField> fields;
  for (const Node* input : path.inputs) {
    check_sizes(*input, path.path, variant);
    const bool image = input->data.kind == Kind::image;
    ArrayField field;
    field.parts = {file};
    field.pixels = image;
    field.elements = image ? pixels : 1;
    const bool coarse = variant.label_bytes == 1 || input->data.classes == coarse_classes;
    field.parts.front().offset = image ? variant.label_bytes : coarse ? 0 : 1;
    fields[input->name] = std::move(field);
  }
  return std::make_unique<ArrayDataset>(fmt::format("{} {}", variant.title, path.path), std::move(fields), false);
}

bool looks_like(const DataPath& path, const Variant& variant) {
  if (!path.asks_only({Kind::image, Kind::image_label})) return false;
  if (path.folder) return std::ranges::any_of(path.files, variant.belongs);
  const std::string name = path.name();
  return variant.belongs(name) || name == (variant.label_bytes == 1 ? "test_batch.bin" : "test.bin");
}

}  // namespace

DataFormat cifar10_format() {
  return {"cifar10",
          "CIFAR-10, binary version",
          {Kind::image, Kind::image_label},
          [](const DataPath& path) { return looks_like(path, cifar10); },
          [](const DataPath& path) { return open_cifar(path, cifar10); },
          [](const DataPath& folder) { return training_files(folder, cifar10); }};
}

DataFormat cifar100_format() {
  return {"cifar100",
          "CIFAR-100, binary version",
          {Kind::image, Kind::image_label},
          [](const DataPath& path) { return looks_like(path, cifar100); },
          [](const DataPath& path) { return open_cifar(path, cifar100); },
          [](const DataPath& folder) { return training_files(folder, cifar100); }};
}

}  // namespace hetsynth
