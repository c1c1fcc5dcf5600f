#include "runtime/weights/gguf.h"

#include <fmt/format.h>

#include <bit>
#include <span>

#include "dsl/base/error.h"
#include "dsl/base/new_file.h"

namespace hetsynth {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie in memory");

constexpr int64_t alignment = 32;
constexpr size_t longest_tensor_name = 63;  // and a zero, in memory of llama.cpp
constexpr uint32_t float32_tensor = 0;
constexpr std::string_view magic = "GGUF";
constexpr uint32_t version = 3;
/// Stands first, so that files of others are told apart.
constexpr const char* writer_key = "general.source.converter";
constexpr const char* writer = "hetsynth export";

/// Numbers of the kinds of values, in the format.
enum class Kind : uint32_t { uint32 = 4, int32 = 5, float32 = 6, boolean = 7, string = 8, array = 9 };

class Bytes {
 public:
  template <class Number>
  void number(Number value) {
    out_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void text(std::string_view text) {
    number(uint64_t(text.size()));
    out_ += text;
  }
  void kind(Kind kind) { number(static_cast<uint32_t>(kind)); }

  void value(uint32_t value) { kind(Kind::uint32), number(value); }
  void value(float value) { kind(Kind::float32), number(value); }
  void value(bool value) { kind(Kind::boolean), number(uint8_t(value)); }
  void value(const std::string& value) { kind(Kind::string), text(value); }
  void value(const std::vector<float>& list) {
    begin_list(Kind::float32, list.size());
    for (const float element : list) number(element);
  }
  void value(const std::vector<int32_t>& list) {
    begin_list(Kind::int32, list.size());
    for (const int32_t element : list) number(element);
  }
  void value(const std::vector<std::string>& list) {
    begin_list(Kind::string, list.size());
    for (const std::string& element : list) text(element);
  }
  void raw(std::string_view bytes) { out_ += bytes; }
  void align() { out_.resize((out_.size() + alignment - 1) / alignment * alignment, '\0'); }
  const std::string& bytes() const { return out_; }

 private:
  void begin_list(Kind of, size_t size) {
    kind(Kind::array);
    kind(of);
    number(uint64_t(size));
  }
  std::string out_;
};

int64_t aligned(int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

int64_t bytes_of(const TensorEntry& tensor) { return element_count(tensor.type.shape) * size_bytes(tensor.type.dtype); }

void check_tensor(const std::string& path, const TensorEntry& tensor) {
  HETSYNTH_CHECK(tensor.type.dtype == DType::f32, "weights are float32");
  if (tensor.name.size() > longest_tensor_name)
    throw UserError({.where = {path},
                     .tag = "gguf",
                     .message = "the name of a tensor is longer than the format allows",
                     .expected = fmt::format("at most {} bytes", longest_tensor_name),
                     .found = tensor.name,
                     .mend = "give it a shorter one in the rules"});
  if (tensor.type.shape.size() > 4)
    throw UserError({.where = {path},
                     .tag = "gguf",
                     .message = fmt::format("{} has more dimensions than the format allows", tensor.name),
                     .expected = "at most 4",
                     .found = fmt::format("{}", tensor.type.shape.size()),
                     .mend = "join some of them in the rules, as in layout = \"a b c -> (a b) c\""});
}

}  // namespace

void write_gguf(const std::string& path, const GgufEntries& entries, const std::vector<TensorEntry>& tensors,
                const std::function<HostTensor(const std::string& name)>& tensor) {
  Bytes head;
  head.raw(magic);
  head.number(version);
  head.number(uint64_t(tensors.size()));
  head.number(uint64_t(entries.size() + 1));
  head.text(writer_key);
  head.value(std::string(writer));
  for (const auto& [key, value] : entries) {
    head.text(key);
    std::visit([&](const auto& of_its_kind) { head.value(of_its_kind); }, value);
  }
  int64_t at = 0;
  for (const TensorEntry& entry : tensors) {
    check_tensor(path, entry);
    head.text(entry.name);
    head.number(uint32_t(entry.type.shape.size()));
    for (size_t d = entry.type.shape.size(); d-- > 0;) head.number(uint64_t(entry.type.shape[d]));
    head.number(float32_tensor);
    head.number(uint64_t(at));
    at += aligned(bytes_of(entry));
  }
  head.align();
  NewFile file(path, "GGUF file");
  file.write(std::as_bytes(std::span(head.bytes())));
  const std::vector<std::byte> zeros(alignment);
  for (const TensorEntry& entry : tensors) {
    const HostTensor value = tensor(entry.name);
    HETSYNTH_CHECK(value.type == entry.type, "the tensor written is the one announced");
    file.write(value.bytes);
    file.write(std::span(zeros).first(size_t(aligned(bytes_of(entry)) - bytes_of(entry))));
  }
  file.place();
}

const OutputKind gguf_kind = {"GGUF file that hetsynth exported",
                              begins_with(std::string(magic), {std::string(writer_key), std::string(writer)})};

}  // namespace hetsynth
