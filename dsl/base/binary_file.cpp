#include "dsl/base/binary_file.h"

#include "dsl/base/error.h"

namespace hetsynth {
namespace {

using namespace std::string_view_literals;

struct Magic {
  std::string_view bytes;
  size_t at;
  const char* what;
  const char* mend;
};

constexpr const char* arrays = "models read arrays by input and token_batch (docs/data.md)";
constexpr const char* to_text = "write its texts to a file of text first";
constexpr const char* weights = "parameters are taken by --init-from and --resume";
constexpr const char* no_text = "leave it out";

// Each has a byte that no text has, or so many signs that none begins with them.
constexpr Magic magics[] = {
    {"\x1F\x8B"sv, 0, "a file packed by gzip", "unpack it (gunzip)"},
    {"PK\3\4"sv, 0, "a zip archive", "unpack it (unzip)"},
    {"PK\5\6"sv, 0, "an empty zip archive", "name a file of text"},
    {"\x28\xB5\x2F\xFD"sv, 0, "a file packed by zstd", "unpack it (zstd -d)"},
    {"\xFD"
     "7zXZ\0"sv,
     0, "a file packed by xz", "unpack it (xz -d)"},
    {"1AY&SY"sv, 4, "a file packed by bzip2", "unpack it (bunzip2)"},
    {"\x04\x22\x4D\x18"sv, 0, "a file packed by lz4", "unpack it (lz4 -d)"},
    {"7z\xBC\xAF\x27\x1C"sv, 0, "a 7z archive", "unpack it (7z x)"},
    {"Rar!\x1A\x07"sv, 0, "a rar archive", "unpack it (unrar x)"},
    {"ustar\0"sv, 257, "a tar archive", "unpack it (tar -xf)"},
    {"ustar  \0"sv, 257, "a tar archive", "unpack it (tar -xf)"},
    {"ARROW1\0"sv, 0, "an Arrow file", to_text},
    {"SQLite format 3\0"sv, 0, "an SQLite database", to_text},
    {"%PDF-"sv, 0, "a PDF document", "write its text to a file first (pdftotext)"},
    {"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1"sv, 0, "a document of an office program", to_text},
    {"\x93NUMPY"sv, 0, "an array of NumPy", arrays},
    {"\x89HDF\r\n\x1A\n"sv, 0, "an HDF5 file", arrays},
    {"\x89PNG\r\n\x1A\n"sv, 0, "a PNG image", no_text},
    {"\xFF\xD8\xFF"sv, 0, "a JPEG image", no_text},
    {"GIF87a"sv, 0, "a GIF image", no_text},
    {"GIF89a"sv, 0, "a GIF image", no_text},
    {"\x7F"
     "ELF"sv,
     0, "a program or library (ELF)", no_text},
    {"GGUF\2\0"sv, 0, "a GGUF file", weights},
    {"GGUF\3\0"sv, 0, "a GGUF file", weights},
    {"\xFF\xFF\xFF\xFF"sv, 0, "a stream of Arrow", to_text},
};

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\r' && c != '\t'; }

/// Files whose first bytes are not always the same.
std::optional<BinaryKind> kind_by_form(std::string_view head) {
  // The length of the header in eight bytes, of which the upper ones are 0, and the header, an object of JSON.
  if (head.size() > 9 && head.substr(5, 3) == "\0\0\0"sv && head[8] == '{' && (head[9] == '"' || head[9] == '}'))
    return BinaryKind{"a file of safetensors", weights};
  // Protocol 2 and later, and what can come behind its number: a frame, an object, or a mark.
  if (head.size() > 2 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5)
    return BinaryKind{"a pickle of Python", to_text};
  if (head.size() > 4 && (head.starts_with("PAR1") || head.starts_with("PARE")) && is_control(head[4]))
    return BinaryKind{"a Parquet file", to_text};
  return std::nullopt;
}

}  // namespace

bool begins_like_llmc(std::string_view head) {
  uint32_t number = 0;
  if (head.size() < sizeof number) return false;
  for (size_t byte = 0; byte < sizeof number; ++byte)
    number |= static_cast<uint32_t>(static_cast<unsigned char>(head[byte])) << 8 * byte;
  return number == llmc_short_tokens || number == llmc_long_tokens;
}

void refuse_binary(std::string_view head, const std::string& path, const std::string& tag) {
  if (const auto kind = binary_kind(head))
    throw UserError({.where = {path},
                     .tag = tag,
                     .message = "this is no text",
                     .expected = "a file of plain text",
                     .found = kind->what,
                     .mend = kind->mend});
}

std::optional<BinaryKind> binary_kind(std::string_view head) {
  for (const Magic& magic : magics)
    if (head.size() >= magic.at && head.substr(magic.at).starts_with(magic.bytes))
      return BinaryKind{magic.what, magic.mend};
  if (const auto kind = kind_by_form(head)) return kind;
  if (begins_like_llmc(head))
    return BinaryKind{"a token file of llm.c", "models read tokens by token_batch (docs/data.md)"};
  if (head.starts_with("\xFF\xFE"sv) || head.starts_with("\xFE\xFF"sv))
    return BinaryKind{"text in UTF-16", "write it in UTF-8 (iconv -f UTF-16 -t UTF-8)"};
  return std::nullopt;
}

}  // namespace hetsynth
