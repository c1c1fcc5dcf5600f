#include "runtime/safetensors.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <bit>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "dsl/base/error.h"

namespace hetsynth {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

static_assert(std::endian::native == std::endian::little, "tensors are written as they lie in memory");

// As the format's own library limits it.
constexpr int64_t largest_header_bytes = 100'000'000;

[[noreturn]] void fail(const std::string& path, const std::string& message, const std::string& expected = "",
                       const std::string& found = "") {
  throw UserError({{path, 0, 0}, "checkpoint", message, expected, found, ""});
}

std::string header_of(const std::vector<TensorEntry>& entries, const std::map<std::string, std::string>& metadata) {
  ordered_json header;
  header["__metadata__"] = metadata;
  int64_t at = 0;
  for (const TensorEntry& entry : entries) {
    const int64_t bytes = element_count(entry.type.shape) * size_bytes(entry.type.dtype);
    header[entry.name] = {{"dtype", entry.type.dtype == DType::f32 ? "F32" : "I32"},
                          {"shape", entry.type.shape},
                          {"data_offsets", {at, at + bytes}}};
    at += bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // tensors start aligned
  return text;
}

/// The bytes must be on disk before the rename makes them the checkpoint.
void flush_to_disk(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  ::fsync(file);
  ::close(file);
}

TensorType type_of(const std::string& path, const std::string& name, const ordered_json& entry) {
  TensorType type;
  const std::string dtype = entry.at("dtype").get<std::string>();
  if (dtype != "F32" && dtype != "I32")
    fail(path, "tensor " + name + " has an element type that is not supported", "F32 or I32", dtype);
  type.dtype = dtype == "F32" ? DType::f32 : DType::i32;
  for (const ordered_json& extent : entry.at("shape")) {
    if (!extent.is_number_unsigned()) fail(path, "tensor " + name + " has a negative or broken shape");
    type.shape.push_back(extent.get<int64_t>());
  }
  return type;
}

/// Bytes of a tensor whose numbers come from a file: nothing if they exceed `limit` or overflow.
bool checked_bytes(const TensorType& type, int64_t limit, int64_t* bytes) {
  int64_t total = size_bytes(type.dtype);
  for (const int64_t extent : type.shape) {
    if (extent < 0 || __builtin_mul_overflow(total, extent, &total)) return false;
  }
  *bytes = total;
  return total <= limit;
}

}  // namespace

void write_safetensors(const std::string& path, const std::vector<TensorEntry>& entries,
                       const std::map<std::string, std::string>& metadata,
                       const std::function<HostTensor(const std::string& name)>& tensor) {
  const std::string temporary = fmt::format("{}.{}.tmp", path, ::getpid());
  const auto refuse = [&](const std::string& reason) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    fail(path, "the checkpoint cannot be written: " + reason);
  };
  std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
  if (!file) refuse(std::strerror(errno));
  const std::string header = header_of(entries, metadata);
  const uint64_t header_bytes = header.size();
  file.write(reinterpret_cast<const char*>(&header_bytes), sizeof(header_bytes));
  file.write(header.data(), static_cast<std::streamsize>(header.size()));
  for (const TensorEntry& entry : entries) {
    const HostTensor value = tensor(entry.name);
    HETSYNTH_CHECK(value.type == entry.type, "the tensor written is the one announced");
    file.write(reinterpret_cast<const char*>(value.bytes.data()), static_cast<std::streamsize>(value.bytes.size()));
  }
  file.close();
  if (!file) refuse(std::strerror(errno));
  flush_to_disk(temporary);
  std::error_code error;
  fs::rename(temporary, path, error);
  if (error) refuse(error.message());
}

SafetensorsFile::SafetensorsFile(const std::string& path) : path_(path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) fail(path, "no such file");
  const auto size = static_cast<int64_t>(fs::file_size(path, error));
  file_.open(path, std::ios::binary);
  if (error || !file_) fail(path, "the file cannot be read");

  uint64_t header_bytes = 0;
  file_.read(reinterpret_cast<char*>(&header_bytes), sizeof(header_bytes));
  const int64_t limit = std::min<int64_t>(size - 8, largest_header_bytes);
  if (!file_ || limit < 2 || header_bytes > static_cast<uint64_t>(limit))
    fail(path, "the file is cut short or no safetensors file");
  std::string header(header_bytes, '\0');
  file_.read(header.data(), static_cast<std::streamsize>(header.size()));
  const ordered_json parsed = ordered_json::parse(header, nullptr, false);
  if (!file_ || !parsed.is_object())
    fail(path, "the header is no JSON object: the file is damaged or no safetensors file");

  const int64_t data_start = 8 + static_cast<int64_t>(header_bytes), data_bytes = size - data_start;
  try {
    for (const auto& [name, entry] : parsed.items()) {
      if (name == "__metadata__") {
        metadata_ = entry.get<std::map<std::string, std::string>>();
        continue;
      }
      const TensorType type = type_of(path, name, entry);
      const auto begin = entry.at("data_offsets").at(0).get<int64_t>(),
                 end = entry.at("data_offsets").at(1).get<int64_t>();
      int64_t bytes = 0;
      if (!checked_bytes(type, data_bytes, &bytes) || begin < 0 || end < begin || end > data_bytes ||
          end - begin != bytes) {
        fail(path, "tensor " + name + " does not lie inside of the file", text(type),
             fmt::format("bytes {} to {} of {}", begin, end, data_bytes));
      }
      types_[name] = type;
      offsets_[name] = data_start + begin;
    }
  } catch (const nlohmann::json::exception& broken) {
    fail(path, std::string("the header is damaged: ") + broken.what());
  }
}

HostTensor SafetensorsFile::read(const std::string& name) {
  const auto found = types_.find(name);
  if (found == types_.end()) fail(path_, "the file has no tensor " + name);
  HostTensor out(found->second);
  file_.clear();
  file_.seekg(offsets_.at(name));
  file_.read(reinterpret_cast<char*>(out.bytes.data()), static_cast<std::streamsize>(out.bytes.size()));
  if (!file_) fail(path_, "tensor " + name + " cannot be read");
  return out;
}

}  // namespace hetsynth
