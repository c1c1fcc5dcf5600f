#include "runtime/training/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "dsl/base/element_type.h"
#include "dsl/base/error.h"
#include "dsl/base/hash.h"
#include "dsl/base/new_file.h"
#include "dsl/base/suggest.h"

namespace hetsynth {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "tensors are written as they lie in memory");

constexpr std::string_view tensor_checksum = "checksum of ";
constexpr std::string_view header_checksum = "header_checksum";
constexpr const char* own_types = "F32 or I32";
const std::string no_checksum(16, '0');

[[noreturn]] void refuse_file(const std::string& path, const std::string& message, const std::string& expected = "",
                              const std::string& found = "") {
  throw UserError({{path, 0, 0}, "checkpoint", message, expected, found, ""});
}

/// `front`: the file's first bytes.
[[noreturn]] void refuse_foreign_file(const std::string& path, int64_t size, std::string_view front) {
  refuse_file(path, "the file is cut short or no safetensors file",
              "the length of a header, and a header of that length",
              size == 0 ? "an empty file" : fmt::format("{} bytes that begin with {}", size, quote(in_ascii(front))));
}

std::string json_text(const std::string& text) { return json(text).dump(); }

std::string checksum_of(std::span<const std::byte> bytes) {
  return content_hash({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

/// The header has one length whatever the checksums, so that it can be written when they are known. What the file is
/// stands first.
std::string header_of(const std::vector<TensorEntry>& entries, const std::map<std::string, std::string>& metadata,
                      const std::vector<std::string>& checksums, const std::string& own_checksum) {
  std::string text = "{\"__metadata__\":{";
  for (const auto& [key, value] : metadata) text += json_text(key) + ":" + json_text(value) + ",";
  for (size_t i = 0; i < entries.size(); ++i)
    text += json_text(std::string(tensor_checksum) + entries[i].name) + ":" + json_text(checksums[i]) + ",";
  text += fmt::format("\"{}\":\"{}\"}}", header_checksum, own_checksum);
  int64_t at = 0;
  for (const TensorEntry& entry : entries) {
    const int64_t bytes = element_count(entry.type.shape) * size_bytes(entry.type.dtype);
    text +=
        fmt::format(",{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}", json_text(entry.name),
                    entry.type.dtype == DType::f32 ? "F32" : "I32", fmt::join(entry.type.shape, ","), at, at + bytes);
    at += bytes;
  }
  text += "}";
  text.resize((text.size() + 7) / 8 * 8, ' ');  // tensors start aligned
  return text;
}

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

/// What the header's checksum is of: the header with zeros in its place. Empty if it has none.
std::string without_checksum(std::string header) {
  const std::string key = fmt::format("\"{}\":\"", header_checksum);
  const size_t at = header.find(key);  // inside of a string its quotation marks would be escaped
  if (at == std::string::npos || at + key.size() + no_checksum.size() > header.size()) return "";
  return header.replace(at + key.size(), no_checksum.size(), no_checksum);
}

/// Elements as the file has them, to float32. f64 is rounded.
void read_as_f32(const StoredType& type, std::span<const std::byte> stored, std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = float(real_at(stored.subspan(size_t(type.bytes) * i, size_t(type.bytes)), type));
}

/// The file that was written has to read back as what was to be written.
void check_written(const std::string& path, const std::string& temporary) {
  try {
    SafetensorsFile file(temporary);
    for (const auto& [name, type] : file.types()) file.read(name);
  } catch (const UserError& error) {
    throw UserError(
        {.where = {path},
         .tag = "checkpoint",
         .message =
             "cannot write the checkpoint: what was written does not read back (" + error.diagnostic().message + ")",
         .mend = "the disk or the memory of this machine is at fault; what stood there before is as it was"},
        ExitCode::failure);
  }
}

}  // namespace

void write_safetensors(const std::string& path, const std::vector<TensorEntry>& entries,
                       const std::map<std::string, std::string>& metadata,
                       const std::function<HostTensor(const std::string& name)>& tensor, const std::string& previous) {
  NewFile file(path, "checkpoint");
  std::vector<std::string> checksums(entries.size(), no_checksum);
  // The header's bytes are zeros until all else is there: what is broken off is no safetensors file.
  const uint64_t header_bytes = header_of(entries, metadata, checksums, no_checksum).size();
  file.write(bytes_of(std::string(sizeof header_bytes + header_bytes, '\0')));
  for (size_t i = 0; i < entries.size(); ++i) {
    const HostTensor value = tensor(entries[i].name);
    HETSYNTH_CHECK(value.type == entries[i].type, "the tensor written is the one announced");
    checksums[i] = checksum_of(value.bytes);
    file.write(value.bytes);
  }
  std::string header = header_of(entries, metadata, checksums, no_checksum);
  header = header_of(entries, metadata, checksums, content_hash(header));
  HETSYNTH_CHECK(header.size() == header_bytes, "checksums have one length");
  file.write_at(0, std::as_bytes(std::span(&header_bytes, 1)));
  file.write_at(sizeof header_bytes, bytes_of(header));
  check_written(path, file.sync());
  file.place(previous);
}

OutputKind safetensors_kind(std::string what, std::string words) {
  constexpr size_t front = 512;
  return {std::move(what), [words = std::move(words)](std::string_view beginning) {
            return beginning.substr(0, front).find(words) != beginning.npos;
          }};
}

SafetensorsFile::SafetensorsFile(const std::string& path, SafetensorsTypes accepted)
    : path_(path), accepted_(accepted) {
  std::error_code error;
  if (!fs::exists(path, error)) refuse_file(path, "no such file");
  if (!fs::is_regular_file(path, error)) refuse_file(path, "this is no regular file");
  const auto size = static_cast<int64_t>(fs::file_size(path, error));
  file_.open(path, std::ios::binary);
  if (error || !file_) refuse_file(path, "the file cannot be read");

  uint64_t header_bytes = 0;
  file_.read(reinterpret_cast<char*>(&header_bytes), sizeof(header_bytes));
  const std::string_view front(reinterpret_cast<const char*>(&header_bytes), static_cast<size_t>(file_.gcount()));
  const int64_t limit = std::min<int64_t>(size - 8, largest_safetensors_header);
  if (!file_ || limit < 2 || header_bytes > static_cast<uint64_t>(limit) || header_bytes < 2)
    refuse_foreign_file(path, size, front);
  std::string header(header_bytes, '\0');
  file_.read(header.data(), static_cast<std::streamsize>(header.size()));
  if (!file_) refuse_foreign_file(path, size, front);
  header_hash_ = content_hash(header);
  const int64_t data_start = 8 + static_cast<int64_t>(header_bytes);
  read_header(header, data_start, size - data_start);
}

void SafetensorsFile::read_header(const std::string& header, int64_t data_start, int64_t data_bytes) {
  SafetensorsHeader parsed =
      parse_safetensors_header(path_, "checkpoint", header, data_bytes,
                               accepted_ == SafetensorsTypes::own ? own_types : "F32, I32, F16, BF16 or F64");
  take_metadata(std::move(parsed.metadata), header);
  for (auto& [name, tensor] : parsed.tensors) {
    const bool is_own = tensor.dtype == "F32" || tensor.dtype == "I32";
    if (!is_own && accepted_ == SafetensorsTypes::own)
      refuse_file(path_, "tensor " + name + " has an element type that is not supported", own_types, tensor.dtype);
    if (!is_own && (!tensor.type || tensor.type->whole())) continue;
    types_[name] = {tensor.shape, tensor.dtype == "I32" ? DType::i32 : DType::f32};
    if (!is_own) stored_[name] = tensor;
    offsets_[name] = data_start + tensor.begin;
  }
}

void SafetensorsFile::take_metadata(std::map<std::string, std::string> metadata, const std::string& header) {
  for (auto& [key, value] : metadata) {
    if (key.starts_with(tensor_checksum)) {
      checksums_[key.substr(tensor_checksum.size())] = std::move(value);
    } else if (key == header_checksum) {
      const std::string covered = without_checksum(header);
      if (covered.empty() || content_hash(covered) != value)
        refuse_file(path_, "the header is damaged: it has other bytes than its checksum is of", value,
                    covered.empty() ? "" : content_hash(covered));
      header_checksummed_ = true;
    } else {
      metadata_[key] = std::move(value);
    }
  }
}

bool SafetensorsFile::checksummed() const {
  return header_checksummed_ &&
         std::ranges::all_of(types_, [&](const auto& entry) { return checksums_.contains(entry.first); });
}

HostTensor SafetensorsFile::read(const std::string& name) {
  const auto found = types_.find(name);
  if (found == types_.end()) refuse_file(path_, "the file has no tensor " + name);
  HostTensor out(found->second);
  file_.clear();
  file_.seekg(offsets_.at(name));
  const auto stored = stored_.find(name);
  std::vector<std::byte> raw;
  if (stored != stored_.end()) raw.resize(out.as<float>().size() * static_cast<size_t>(stored->second.element_bytes));
  std::vector<std::byte>& bytes = stored == stored_.end() ? out.bytes : raw;
  file_.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!file_) refuse_file(path_, "tensor " + name + " cannot be read");
  if (stored != stored_.end()) read_as_f32(*stored->second.type, raw, out.as<float>());
  const auto checksum = checksums_.find(name);
  if (checksum != checksums_.end() && checksum_of(out.bytes) != checksum->second)
    refuse_file(path_, "tensor " + name + " is damaged: it has other bytes than its checksum is of", checksum->second,
                checksum_of(out.bytes));
  return out;
}

}  // namespace hetsynth
