#include "runtime/token_files/token_file.h"

#include <fmt/format.h>

#include <cstring>
#include <limits>

#include "dsl/base/binary_file.h"
#include "dsl/base/error.h"
#include "dsl/base/suggest.h"

namespace hetsynth {
namespace {

constexpr int64_t short_tokens = int64_t{1} << 16;
constexpr const char* npy_magic = "\x93NUMPY";
constexpr size_t npy_header_bytes = 128, npy_header_with_origin = 256, llmc_header_bytes = 1024;

void put_little(std::string& out, uint32_t value) {
  for (int byte = 0; byte < 4; ++byte) out += static_cast<char>(value >> 8 * byte & 0xFF);
}

}  // namespace

void check_token_file_name(const std::string& path) {
  if (path.ends_with(".npy") || path.ends_with(".bin")) return;
  throw UserError({.tag = "tokenize",
                   .message = "the name of the token file does not say its format",
                   .expected = "a name that ends in .npy (NumPy) or .bin (llm.c)",
                   .found = quote(path),
                   .mend = fmt::format("name it {}.npy", path)},
                  ExitCode::usage);
}

OutputKind token_file_kind(const std::string& path) {
  if (path.ends_with(".npy")) return {"token file", begins_with(npy_magic)};
  return {"token file", begins_like_llmc};
}

TokenFileWriter::TokenFileWriter(const std::string& path, int64_t vocabulary, const TokenOrigin& origin)
    : path_((check_token_file_name(path), path)),
      origin_(header_line(origin)),
      npy_(path.ends_with(".npy")),
      wide_(vocabulary > short_tokens),
      file_(path, "token file") {
  const std::string head = header();
  file_.write(std::as_bytes(std::span(head)));
}

std::string TokenFileWriter::header() const {
  std::string out;
  if (!npy_) {
    put_little(out, wide_ ? llmc_long_tokens : llmc_short_tokens);
    put_little(out, wide_ ? 7 : 1);
    put_little(out, static_cast<uint32_t>(tokens_));
    out.resize(llmc_origin_at);
    out += origin_;
    out.resize(llmc_header_bytes);
    return out;
  }
  out = npy_magic + std::string("\x01\x00", 2);
  const std::string dictionary =
      fmt::format("{{'descr': '<u{}', 'fortran_order': False, 'shape': ({},), }}", wide_ ? 4 : 2, tokens_);
  const size_t bytes = origin_.empty() ? npy_header_bytes : npy_header_with_origin;
  out += static_cast<char>(bytes - 10);
  out += '\0';
  out += dictionary;
  if (!origin_.empty()) out += "  # " + origin_;  // NumPy reads the header as Python does, which passes over comments
  out.resize(bytes - 1, ' ');
  return out + '\n';
}

void TokenFileWriter::write(std::span<const int32_t> tokens) {
  tokens_ += static_cast<int64_t>(tokens.size());
  if (!npy_ && tokens_ > std::numeric_limits<int32_t>::max()) {
    throw UserError({.where = {path_},
                     .tag = "tokenize",
                     .message = "llm.c's format counts tokens in 32 bits",
                     .expected = fmt::format("at most {} tokens", std::numeric_limits<int32_t>::max()),
                     .found = "more",
                     .mend = "write NumPy's format: a name that ends in .npy"});
  }
  std::string bytes;
  bytes.reserve(tokens.size() * (wide_ ? 4 : 2));
  for (const int32_t token : tokens) {
    const auto value = static_cast<uint32_t>(token);
    for (int byte = 0; byte < (wide_ ? 4 : 2); ++byte) bytes += static_cast<char>(value >> 8 * byte & 0xFF);
  }
  file_.write(std::as_bytes(std::span(bytes)));
}

void TokenFileWriter::place() {
  const std::string head = header();
  file_.write_at(0, std::as_bytes(std::span(head)));
  file_.place();
}

std::string TokenFileWriter::format() const {
  return fmt::format("{}, uint{}", npy_ ? "npy" : "llmc", wide_ ? 32 : 16);
}

}  // namespace hetsynth
