// Arrays of NumPy in one archive, as numpy.savez and numpy.savez_compressed write them.
#include "dsl/base/npy_header.h"
#include "runtime/data/array_store.h"
#include "runtime/data/formats.h"
#include "runtime/data_files/zip_archive.h"

namespace hetsynth {
namespace {

constexpr std::string_view npz_member = ".npy";
OpenedData open_npz(const DataPath& path) {
  const std::string& file = path.path;
  const auto archive = std::make_shared<ZipArchive>(file);
  ArrayStore store{file, "npz " + file, "archive", "", {}};
  for (const std::string& name : archive->names()) {
    if (!name.ends_with(npz_member)) continue;
    const auto open = [archive, left = path.unpacked_left, name]() -> StoredArray {
      auto member = std::make_shared<DataFile>(archive->open(name, *left));
      if (member->unpacked()) *left -= member->bytes();
      NpyHeader header = read_npy_header(*member);
      return {std::move(member), header.type, std::move(header.shape), header.data_offset};
    };
    store.arrays[name.substr(0, name.size() - npz_member.size())] = {open};
  }
  return open_arrays(store, path);
}

bool looks_like_npz(const DataPath& path) {
  const std::vector<unsigned char>& head = path.head;
  return path.has_file({".npz"}) ||
         (head.size() > 3 && head[0] == 'P' && head[1] == 'K' && head[2] == 3 && head[3] == 4);
}

}  // namespace

DataFormat npz_format() {
  return {"npz",         "an archive of NumPy's arrays",
          array_kinds(), looks_like_npz,
          open_npz,      [](const DataPath& folder) { return folder.series({".npz"}); }};
}

}  // namespace hetsynth
