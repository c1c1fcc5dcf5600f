// Tensors of a safetensors file, by name, samples in dimension 0.
#include <fmt/format.h>

#include "dsl/base/safetensors_header.h"
#include "runtime/data/array_store.h"
#include "runtime/data/formats.h"

namespace hetsynth {
namespace {

constexpr int64_t length_bytes = 8;
constexpr const char* readable_types = "BOOL, integers of 8 to 64 bits, F16, BF16, F32 or F64";

StoredType element_type(const std::string& file, const std::string& name, const StoredTensor& tensor) {
  if (tensor.type) return *tensor.type;
  throw data_error(file, "tensor " + name + " has a type that cannot be read as data", readable_types, tensor.dtype,
                   "save it as float32");
}

OpenedData open_safetensors(const DataPath& path) {
  const std::string& name = path.path;
  const auto file = std::make_shared<DataFile>(name);
  const std::vector<unsigned char> head = file->head(length_bytes);
  const int64_t longest = std::min(file->bytes() - length_bytes, largest_safetensors_header);
  const int64_t length =
      head.size() < length_bytes ? -1 : whole_at(std::as_bytes(std::span(head)), {StoredType::Kind::integer, 8});
  if (length < 2 || length > longest)
    throw file->error(
        "this is no whole safetensors file", fmt::format("a header of 2 to {} bytes", std::max<int64_t>(0, longest)),
        head.size() < length_bytes ? fmt::format("{} bytes", head.size()) : fmt::format("{} at byte 0", length),
        "write it with safetensors.numpy.save_file; it may be cut short");
  std::string text(static_cast<size_t>(length), '\0');
  file->read(length_bytes, std::as_writable_bytes(std::span(text)));
  const int64_t begin = length_bytes + length;
  const SafetensorsHeader header = parse_safetensors_header(name, "data", text, file->bytes() - begin, readable_types);
  ArrayStore store{name, "safetensors " + name, "file", "", {}};
  for (const auto& [tensor, stored] : header.tensors) {
    const auto open = [&, tensor, stored]() -> StoredArray {
      auto part =
          std::make_shared<DataFile>(file->part(name + "/" + tensor, begin + stored.begin, stored.end - stored.begin));
      return {std::move(part), element_type(name, tensor, stored), stored.shape, 0};
    };
    store.arrays[tensor] = {open};
  }
  return open_arrays(store, path);
}

}  // namespace

DataFormat safetensors_format() {
  return {"safetensors",    "tensors of a safetensors file",
          array_kinds(),    [](const DataPath& path) { return path.has_file({".safetensors"}); },
          open_safetensors, [](const DataPath& folder) { return folder.series({".safetensors"}); }};
}

}  // namespace hetsynth
