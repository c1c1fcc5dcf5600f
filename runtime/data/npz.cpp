// Arrays of NumPy in one archive, as numpy.savez and numpy.savez_compressed write them.
#include "dsl/base/npy_header.h"
#include "runtime/data/array_store.h"
#include "runtime/data/formats.h"
#include "runtime/data_files/zip_archive.h"

namespace hetsynth {
namespace {

constexpr std::string_view npz_member = ".npy";
/// What is compressed is unpacked into memory, as every sample may be asked for at any time.
constexpr int64_t largest_unpacked = int64_t{2} << 30;

std::unique_ptr<Dataset> open_npz(const DataPath& path) {
  const std::string file = path.only_file({".npz"});
  const auto archive = std::make_shared<ZipArchive>(file);
  const auto left = std::make_shared<int64_t>(largest_unpacked);
  ArrayStore store{file, "npz " + file, "archive", "", {}};
  for (const std::string& name : archive->names()) {
    if (!name.ends_with(npz_member)) continue;
    store.arrays[name.substr(0, name.size() - npz_member.size())] = [archive, left, name]() -> StoredArray {
      auto member = std::make_shared<DataFile>(archive->open(name, *left));
      if (member->unpacked()) *left -= member->bytes();
      NpyHeader header = read_npy_header(*member);
      return {std::move(member), header.type, std::move(header.shape), header.data_offset};
    };
  }
  return open_arrays(store, path.inputs);
}

bool looks_like_npz(const DataPath& path) {
  const std::vector<unsigned char>& head = path.head;
  return path.has_file({".npz"}) ||
         (head.size() > 3 && head[0] == 'P' && head[1] == 'K' && head[2] == 3 && head[3] == 4);
}

}  // namespace

DataFormat npz_format() { return {"npz", "an archive of NumPy's arrays", array_kinds(), looks_like_npz, open_npz}; }

}  // namespace hetsynth
