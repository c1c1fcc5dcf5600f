// Token files of llm.c (https://github.com/karpathy/llm.c, dev/data/data_common.py): a header of 256 int32, little
// endian, of which the first three are magic, version and number of tokens; then the tokens.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "dsl/base/binary_file.h"
#include "dsl/base/data_file.h"
#include "dsl/base/element_type.h"
#include "runtime/data/formats.h"
#include "runtime/data/token_windows.h"
#include "runtime/rank/arena.h"

namespace hetsynth {
namespace {

constexpr int64_t header_bytes = 256 * 4;

struct Version {
  int64_t magic;
  int64_t version;
  const char* tokenizer;
  StoredType type;
};
constexpr Version versions[] = {
    {llmc_short_tokens, 1, "GPT-2", {StoredType::Kind::unsigned_integer, 2, false}},
    {llmc_long_tokens, 7, "Llama 3", {StoredType::Kind::unsigned_integer, 4, false}},
};

int64_t header_number(std::span<const unsigned char> header, size_t index) {
  return whole_at(std::as_bytes(header.subspan(4 * index)), {StoredType::Kind::integer, 4, false});
}

const Version* version_of(int64_t magic) {
  const auto found = std::ranges::find(versions, magic, &Version::magic);
  return found == std::end(versions) ? nullptr : found;
}

std::string known_magics() {
  std::string out;
  for (const Version& v : versions)
    out += fmt::format("{}{} ({}, version {})", out.empty() ? "" : " or ", v.magic, v.tokenizer, v.version);
  return out;
}

/// A file whose header is as it should be.
struct TokenFile {
  DataFile file;
  const Version* version = nullptr;
  int64_t tokens = 0;
  TokenOrigin origin = {};
};

TokenFile open_tokens(const std::string& path, bool may_be_empty) {
  TokenFile out{DataFile(path)};
  const std::vector<unsigned char> header = out.file.head(header_bytes);
  if (header.size() < 4 || !version_of(header_number(header, 0))) {
    const std::span<const unsigned char> bytes = header;
    throw out.file.error("this is no llm.c token file", "magic number " + known_magics(),
                         header.size() < 4
                             ? fmt::format("{} bytes", header.size())
                             : fmt::format("{} at byte 0 ({})", header_number(header, 0), hex(bytes.first(4))),
                         "write token files with llm.c's dev/data scripts");
  }
  if (static_cast<int64_t>(header.size()) < header_bytes) {
    throw out.file.error("the header is cut short", fmt::format("{} bytes", header_bytes),
                         fmt::format("the end of the file at byte {}", header.size()));
  }
  out.version = version_of(header_number(header, 0));
  if (const int64_t version = header_number(header, 1); version != out.version->version) {
    throw out.file.error("the version of this token file is not known",
                         fmt::format("version {} with magic number {}", out.version->version, out.version->magic),
                         fmt::format("{} at byte 4", version));
  }
  out.tokens = header_number(header, 2);  // an int32: no product below overflows
  const int64_t bytes = header_bytes + out.tokens * out.version->type.bytes;
  if (out.tokens < (may_be_empty ? 0 : 1) || bytes != out.file.bytes()) {
    throw out.file.error(
        "the number of tokens in the header does not fit the file",
        fmt::format("{} tokens in {} bytes",
                    std::max<int64_t>(0, out.file.bytes() - header_bytes) / out.version->type.bytes, out.file.bytes()),
        fmt::format("{} tokens at byte 8", out.tokens), "the file may be cut short: copy or write it again");
  }
  const char* const line = reinterpret_cast<const char*>(header.data()) + llmc_origin_at;
  out.origin = origin_in({line, strnlen(line, header.size() - llmc_origin_at)});
  return out;
}

class LlmcTokens : public TokenSequence {
 public:
  LlmcTokens(const std::string& path, bool may_be_empty) : opened_(open_tokens(path, may_be_empty)) {}

  int64_t size() const override { return opened_.tokens; }

  void read(int64_t offset, std::span<int64_t> out) const override {
    const StoredType type = opened_.version->type;
    std::vector<std::byte> bytes(out.size() * static_cast<size_t>(type.bytes));
    opened_.file.read(byte_of(offset), bytes);
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = whole_at(std::span(bytes).subspan(i * static_cast<size_t>(type.bytes)), type);
  }

  std::pair<std::string, std::string> place_of(int64_t offset) const override {
    return {opened_.file.path(), fmt::format("byte {}", byte_of(offset))};
  }

  std::string description() const override {
    return fmt::format("{} {}, 1 file, {} tokens", kind(), opened_.file.path(), opened_.tokens);
  }
  std::string kind() const override { return fmt::format("{} tokens", opened_.version->tokenizer); }
  std::vector<DataTrait> traits() const override {
    return {{"kind of tokens", opened_.version->tokenizer}, tokenizer_trait(opened_.origin)};
  }
  TokenOrigin origin() const override { return opened_.origin; }
  std::string unit() const override { return "tokens"; }
  std::string mend() const override {
    return fmt::format("raise the model's vocabulary: {} has {} tokens", opened_.version->tokenizer,
                       opened_.version->magic == llmc_short_tokens ? 50257 : 128256);
  }

 private:
  int64_t byte_of(int64_t offset) const { return header_bytes + offset * opened_.version->type.bytes; }

  TokenFile opened_;
};

std::vector<std::string> token_files(const DataPath& path) {
  std::vector<std::string> out;
  for (const std::string& name : path.files) {
    if (name.ends_with(".bin")) out.push_back(path.file(name));
  }
  if (out.empty()) throw data_error(path.path, "the folder holds no token files", "files named *.bin");
  return out;
}

bool looks_like_tokens(const DataPath& path) {
  if (!path.asks_only({DataSource::Kind::tokens, DataSource::Kind::token_targets})) return false;
  return path.has_file({".bin"}) || (path.head.size() >= 4 && version_of(header_number(path.head, 0)));
}

}  // namespace

std::unique_ptr<TokenSequence> open_llmc_tokens(const std::string& path, bool may_be_empty) {
  return std::make_unique<LlmcTokens>(path, may_be_empty);
}

DataFormat llmc_format() {
  using Kind = DataSource::Kind;
  return {"llmc",
          "token files of llm.c",
          {Kind::tokens, Kind::token_targets},
          looks_like_tokens,
          [](const DataPath& path) -> OpenedData { return open_llmc_tokens(path.path, path.may_be_empty()); },
          token_files};
}

}  // namespace hetsynth
