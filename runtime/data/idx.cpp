// IDX files of MNIST and its relatives (http://yann.lecun.com/exdb/mnist, "file formats"): two zero bytes, the type of
// the elements, the number of dimensions, their extents as big-endian 32-bit numbers, then the elements.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "dsl/ir/type.h"
#include "runtime/data/array_dataset.h"
#include "runtime/data/formats.h"
#include "runtime/data_files/part_names.h"

namespace hetsynth {
namespace {

using Kind = DataSource::Kind;

const std::map<int, StoredType>& element_types() {
  using Number = StoredType::Kind;
  static const std::map<int, StoredType> types = {
      {0x08, {Number::unsigned_integer, 1, false}},
      {0x09, {Number::integer, 1, false}},
      {0x0B, {Number::integer, 2, true}},
      {0x0C, {Number::integer, 4, true}},
      {0x0D, {Number::real, 4, true}},
      {0x0E, {Number::real, 8, true}},
  };
  return types;
}

StoredArray open_idx(const std::string& path) {
  StoredArray out;
  out.file = std::make_shared<DataFile>(path);
  const DataFile& file = *out.file;
  const std::vector<unsigned char> head = file.head(4 + 4 * 255);
  const std::string expected = "00 00, a type (08, 09, 0b, 0c, 0d or 0e), and the number of dimensions";
  if (head.size() < 4 || head[0] != 0 || head[1] != 0 || !element_types().contains(head[2]) || head[3] == 0) {
    throw file.error("this is no IDX file", expected,
                     hex(std::span(head).first(std::min<size_t>(4, head.size()))) + " at byte 0",
                     head.size() > 1 && head[0] == 0x1F && head[1] == 0x8B ? "unpack the file with gunzip" : "");
  }
  out.type = element_types().at(head[2]);
  out.data_offset = 4 + 4 * static_cast<int64_t>(head[3]);
  if (static_cast<int64_t>(head.size()) < out.data_offset) {
    throw file.error("the header is cut short", fmt::format("{} bytes", out.data_offset),
                     fmt::format("the end of the file at byte {}", head.size()));
  }
  int64_t bytes = out.type.bytes;
  bool fits = true;
  for (int64_t at = 4; at < out.data_offset; at += 4) {
    const auto extent_bytes = std::as_bytes(std::span(head).subspan(static_cast<size_t>(at), 4));
    out.shape.push_back(whole_at(extent_bytes, {StoredType::Kind::unsigned_integer, 4, true}));
    fits = fits && multiply_exactly(bytes, out.shape.back(), &bytes);
  }
  if (!fits || bytes != file.bytes() - out.data_offset) {
    throw file.error(
        "the extents in the header do not fit the file",
        fmt::format("{} bytes of elements from byte {} on", file.bytes() - out.data_offset, out.data_offset),
        fmt::format("{} of {} at byte 4", hetsynth::text(Shape(out.shape)), text(out.type)),
        "the file may be cut short: copy or unpack it again");
  }
  return out;
}

/// Both spellings: train-images-idx3-ubyte and train-images.idx3-ubyte.
bool is_images(const std::string& name) { return name.find("images") != std::string::npos && !name.ends_with(".gz"); }

std::string labels_beside(const std::string& images) {
  namespace fs = std::filesystem;
  std::string name = fs::path(images).filename().string();
  name.replace(name.find("images"), 6, "labels");
  if (const size_t at = name.find("idx3"); at != std::string::npos) name.replace(at, 4, "idx1");
  return (fs::path(images).parent_path() / name).string();
}

/// Returns the files of images for training, or those for tests if there are none; several if their names are the same
/// but for numbers.
std::vector<std::string> images_files(const DataPath& path) {
  for (const bool train : {true, false}) {
    std::vector<std::string> out;
    std::string series;
    for (const std::string& name : path.files) {
      if (!is_images(name) || (train && !name.starts_with("train"))) continue;
      if (out.empty()) series = series_of(name);
      if (series_of(name) == series) out.push_back(path.file(name));
    }
    if (!out.empty()) return out;
  }
  throw data_error(path.path, "the folder holds no IDX images", "a file such as train-images-idx3-ubyte",
                   fmt::format("{} files", path.files.size()), "unpack the .gz files with gunzip");
}

void check_shape(const Node& input, const StoredArray& array) {
  std::vector<int64_t> found(array.shape.begin() + 1, array.shape.end());
  const std::vector<int64_t> wanted(input.type.shape.begin() + 1, input.type.shape.end());
  if (input.data.kind == Kind::image && found.size() == 2) found.insert(found.begin(), 1);  // grey
  if (found == wanted) return;
  throw array.file->error("the file does not have the shape of input " + input.name, samples_text(wanted),
                          hetsynth::text(Shape(array.shape)), "change the model's sizes to those of the data");
}

OpenedData open_idx(const DataPath& path) {
  const std::string& images = path.path;
  if (!is_images(path.name()))
    throw data_error(images, "the labels of these images cannot be found",
                     "a name with \"images\" in it, beside a file with \"labels\" in its name", path.name());
  std::map<std::string, ArrayField> fields;
  for (const Node* input : path.inputs) {
    const bool image = input->data.kind == Kind::image;
    const StoredArray array = open_idx(image ? images : labels_beside(images));
    check_shape(*input, array);
    if (!image && !array.type.whole())
      throw array.file->error("labels are whole numbers", "an integer type", text(array.type));
    ArrayField field = array.field();
    field.pixels = image && array.type == StoredType{};
    fields[input->name] = std::move(field);
  }
  return std::make_unique<ArrayDataset>("IDX " + images, std::move(fields), path.may_be_empty());
}

bool looks_like_idx(const DataPath& path) {
  if (!path.asks_only({Kind::image, Kind::image_label})) return false;
  const auto named = [](const std::string& name) {
    return name.find("idx3") != std::string::npos || name.find("idx1") != std::string::npos;
  };
  if (path.folder) return std::ranges::any_of(path.files, named);
  return named(path.name()) || (path.head.size() > 3 && path.head[0] == 0 && path.head[1] == 0 &&
                                element_types().contains(path.head[2]) && path.head[3] > 0 && path.head[3] < 5);
}

}  // namespace

DataFormat idx_format() {
  return {"idx",       "IDX images and labels, as of MNIST", {Kind::image, Kind::image_label}, looks_like_idx, open_idx,
          images_files};
}

}  // namespace hetsynth
