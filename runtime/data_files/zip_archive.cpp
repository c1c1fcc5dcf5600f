#include "runtime/data_files/zip_archive.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>

#include "dsl/base/suggest.h"

namespace hetsynth {
namespace {

// Records begin with "PK" and two bytes that tell them apart.
constexpr uint64_t local_record = 0x04034b50, directory_record = 0x02014b50, end_record = 0x06054b50,
                   end_record_64 = 0x06064b50, locator_64 = 0x07064b50;
constexpr int64_t local_bytes = 30, directory_bytes = 46, end_bytes = 22, end_bytes_64 = 56, locator_bytes = 20;
constexpr int64_t longest_comment = 65535;
constexpr uint64_t in_zip64_16 = 0xFFFF, in_zip64_32 = 0xFFFFFFFF;  ///< the number stands in the zip64 record
constexpr int encrypted = 1;
constexpr int stored = 0, deflated = 8;
/// Deflate makes nothing more than 1032 times smaller (https://zlib.net/zlib_tech.html).
constexpr int64_t most_deflated = 1032, unpacked_of_nothing = 64;

/// `count` little-endian bytes at `at`. The caller has seen that they are there.
uint64_t number_at(std::span<const std::byte> bytes, size_t at, int count) {
  uint64_t out = 0;
  for (int i = count; i-- > 0;) out = out << 8 | std::to_integer<uint64_t>(bytes[at + static_cast<size_t>(i)]);
  return out;
}

std::vector<std::byte> read_bytes(const DataFile& file, int64_t begin, int64_t count) {
  std::vector<std::byte> out(static_cast<size_t>(count));
  file.read(begin, out);
  return out;
}

/// A number of 64 bits that is to be an offset or a size in the file.
int64_t within(const DataFile& file, uint64_t value, int64_t at) {
  if (value <= static_cast<uint64_t>(file.bytes())) return static_cast<int64_t>(value);
  throw file.error("the archive's directory does not fit the file", fmt::format("at most {}", file.bytes()),
                   fmt::format("{} in the record at byte {}", value, at), "the file may be cut short: copy it again");
}

}  // namespace

ZipArchive::ZipArchive(const std::string& path) : file_(path) { find_directory(); }

void ZipArchive::find_directory() {
  // The last record of the file, behind which only a comment stands.
  const int64_t tail = std::min(file_.bytes(), end_bytes + longest_comment), begin = file_.bytes() - tail;
  const std::vector<std::byte> bytes = read_bytes(file_, begin, tail);
  int64_t at = tail - end_bytes;
  while (at >= 0 && !(number_at(bytes, static_cast<size_t>(at), 4) == end_record &&
                      at + end_bytes + static_cast<int64_t>(number_at(bytes, static_cast<size_t>(at) + 20, 2)) == tail))
    --at;
  if (at < 0)
    throw file_.error("this is no whole npz file", "a zip archive with its directory at the end",
                      fmt::format("no directory in the last {} bytes", tail),
                      "write it with numpy.savez; it may be cut short");
  const std::span<const std::byte> end = std::span(bytes).subspan(static_cast<size_t>(at));
  const int64_t end_at = begin + at;
  uint64_t count = number_at(end, 10, 2), size = number_at(end, 12, 4), offset = number_at(end, 16, 4);
  int64_t limit = end_at;
  if (count == in_zip64_16 || size == in_zip64_32 || offset == in_zip64_32) {
    if (end_at < locator_bytes) throw file_.error("the archive's directory is damaged");
    const std::vector<std::byte> locator = read_bytes(file_, end_at - locator_bytes, locator_bytes);
    const int64_t place = within(file_, number_at(locator, 8, 8), end_at - locator_bytes);
    if (number_at(locator, 0, 4) != locator_64 || place > end_at - locator_bytes - end_bytes_64)
      throw file_.error("the archive's directory is damaged", "a zip64 locator",
                        fmt::format("other bytes at {}", end_at - locator_bytes));
    const std::vector<std::byte> wide = read_bytes(file_, place, end_bytes_64);
    if (number_at(wide, 0, 4) != end_record_64)
      throw file_.error("the archive's directory is damaged", "a zip64 record",
                        fmt::format("other bytes at {}", place));
    count = number_at(wide, 32, 8), size = number_at(wide, 40, 8), offset = number_at(wide, 48, 8);
    limit = place;
  }
  directory_begin_ = within(file_, offset, end_at);
  const int64_t directory_size = within(file_, size, end_at);
  if (directory_begin_ > limit - directory_size)
    throw file_.error("the archive's directory does not fit the file", fmt::format("an end at byte {}", limit),
                      fmt::format("{} bytes from byte {} on", directory_size, directory_begin_),
                      "the file may be cut short: copy it again");
  read_directory(directory_begin_, directory_size, within(file_, count, end_at));
}

void ZipArchive::read_directory(int64_t begin, int64_t size, int64_t count) {
  const std::vector<std::byte> all = read_bytes(file_, begin, size);
  std::span<const std::byte> rest(all);
  const auto damaged = [&] {
    return file_.error(
        "the archive's directory is damaged", fmt::format("{} entries", count),
        fmt::format("{} until byte {}", entries_.size(), begin + size - static_cast<int64_t>(rest.size())));
  };
  for (int64_t i = 0; i < count; ++i) {
    if (static_cast<int64_t>(rest.size()) < directory_bytes || number_at(rest, 0, 4) != directory_record)
      throw damaged();
    const auto name_bytes = static_cast<size_t>(number_at(rest, 28, 2)),
               extra_bytes = static_cast<size_t>(number_at(rest, 30, 2)),
               comment_bytes = static_cast<size_t>(number_at(rest, 32, 2));
    const size_t whole = static_cast<size_t>(directory_bytes) + name_bytes + extra_bytes + comment_bytes;
    if (rest.size() < whole) throw damaged();
    const std::string name(reinterpret_cast<const char*>(rest.data()) + directory_bytes, name_bytes);
    uint64_t numbers[] = {number_at(rest, 24, 4), number_at(rest, 20, 4), number_at(rest, 42, 4)};
    // The extra field of zip64 has those that do not fit 32 bits, with 64 bits each and in this order.
    std::span<const std::byte> extra = rest.subspan(static_cast<size_t>(directory_bytes) + name_bytes, extra_bytes);
    while (extra.size() >= 4) {
      const auto id = number_at(extra, 0, 2);
      const size_t length = std::min<size_t>(number_at(extra, 2, 2), extra.size() - 4);
      size_t at = 4;
      for (uint64_t& number : numbers) {
        if (id != 1 || number != in_zip64_32 || at + 8 > 4 + length) continue;
        number = number_at(extra, at, 8);
        at += 8;
      }
      extra = extra.subspan(4 + length);
    }
    Entry entry;
    entry.unpacked = static_cast<int64_t>(std::min<uint64_t>(numbers[0], uint64_t{1} << 62));  // believed by nobody yet
    entry.packed = within(file_, numbers[1], begin);
    entry.offset = within(file_, numbers[2], begin);
    entry.flags = static_cast<int>(number_at(rest, 8, 2));
    entry.method = static_cast<int>(number_at(rest, 10, 2));
    entry.checksum = static_cast<uint32_t>(number_at(rest, 16, 4));
    if (!entries_.emplace(name, entry).second)
      throw file_.error(fmt::format("the archive holds {} twice", quote(name)), "", "",
                        "write it anew with numpy.savez");
    rest = rest.subspan(whole);
  }
}

std::vector<std::string> ZipArchive::names() const {
  std::vector<std::string> out;
  for (const auto& [name, entry] : entries_) out.push_back(name);
  return out;
}

DataFile ZipArchive::open(const std::string& name, int64_t limit) const {
  const Entry& entry = entries_.at(name);
  const std::string path = file_.path() + "/" + name;
  if (entry.flags & encrypted) throw data_error(path, "the file is encrypted", "", "", "write it with numpy.savez");
  if (entry.method != stored && entry.method != deflated)
    throw data_error(path, "the file is packed in a way that is not known", "0 (stored) or 8 (deflated)",
                     fmt::format("{}", entry.method), "write it with numpy.savez or numpy.savez_compressed");
  const auto damaged = [&](const std::string& expected, const std::string& found) {
    return data_error(path, "the archive is damaged", expected, found, "copy or write the archive again");
  };
  if (entry.offset > directory_begin_ - local_bytes)
    throw damaged("a place before the directory", fmt::format("byte {}", entry.offset));
  const std::vector<std::byte> local = read_bytes(file_, entry.offset, local_bytes);
  const auto name_bytes = static_cast<int64_t>(number_at(local, 26, 2)),
             extra_bytes = static_cast<int64_t>(number_at(local, 28, 2));
  const int64_t name_begin = entry.offset + local_bytes, begin = name_begin + name_bytes + extra_bytes;
  if (number_at(local, 0, 4) != local_record || begin > directory_begin_ - entry.packed)
    throw damaged(fmt::format("a file of {} bytes", entry.packed), fmt::format("other bytes at {}", entry.offset));
  const std::vector<std::byte> own_name = read_bytes(file_, name_begin, name_bytes);
  if (std::string_view(reinterpret_cast<const char*>(own_name.data()), own_name.size()) != name)
    throw damaged("the name " + quote(name), fmt::format("another one at byte {}", name_begin));
  if (entry.method == stored) {
    if (entry.packed != entry.unpacked)
      throw damaged(fmt::format("{} bytes", entry.packed), fmt::format("{} in the directory", entry.unpacked));
    return file_.part(path, begin, entry.packed);
  }
  if (entry.unpacked > entry.packed * most_deflated + unpacked_of_nothing)
    throw damaged(fmt::format("at most {} bytes", entry.packed * most_deflated + unpacked_of_nothing),
                  fmt::format("{} in the directory", entry.unpacked));
  if (entry.unpacked > limit)
    throw data_error(path, "the array is too large to be unpacked into memory", fmt::format("at most {} bytes", limit),
                     fmt::format("{}", entry.unpacked), "write it with numpy.savez, whose files are read in place");
  return {path, inflated(path, entry, begin)};
}

std::vector<std::byte> ZipArchive::inflated(const std::string& path, const Entry& entry, int64_t begin) const {
  constexpr int64_t block = int64_t{1} << 20;
  std::vector<std::byte> out(static_cast<size_t>(entry.unpacked) + 1);  // a byte more, so that too much is seen
  z_stream stream{};
  HETSYNTH_CHECK(inflateInit2(&stream, -MAX_WBITS) == Z_OK, "zlib begins");
  int status = Z_OK;
  size_t written = 0;
  for (int64_t done = 0; done < entry.packed && status == Z_OK; done += block) {
    std::vector<std::byte> packed;
    try {
      packed = read_bytes(file_, begin + done, std::min(block, entry.packed - done));
    } catch (...) {
      inflateEnd(&stream);
      throw;
    }
    stream.next_in = reinterpret_cast<Bytef*>(packed.data());
    stream.avail_in = static_cast<uInt>(packed.size());
    while (status == Z_OK && written < out.size()) {
      const size_t room = std::min(out.size() - written, static_cast<size_t>(block));
      stream.next_out = reinterpret_cast<Bytef*>(out.data() + written);
      stream.avail_out = static_cast<uInt>(room);
      status = inflate(&stream, Z_NO_FLUSH);
      written += room - stream.avail_out;
      if (stream.avail_in == 0 && stream.avail_out > 0) break;
    }
  }
  inflateEnd(&stream);
  out.pop_back();
  const bool whole = status == Z_STREAM_END && written == out.size();
  uLong checksum = crc32(0, nullptr, 0);
  for (size_t done = 0; whole && done < out.size(); done += static_cast<size_t>(block))
    checksum = crc32(checksum, reinterpret_cast<const Bytef*>(out.data() + done),
                     static_cast<uInt>(std::min(out.size() - done, static_cast<size_t>(block))));
  if (!whole || checksum != entry.checksum)
    throw data_error(path, "the archive is damaged: what is packed in it does not unpack",
                     fmt::format("{} bytes of checksum {:08x}", entry.unpacked, entry.checksum),
                     whole ? fmt::format("checksum {:08x}", checksum) : fmt::format("an end after {} bytes", written),
                     "copy or write the archive again");
  return out;
}

}  // namespace hetsynth
