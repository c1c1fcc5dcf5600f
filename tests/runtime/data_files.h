// Small data files of every format, as tests make them, and the programs that ask for them.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dsl/ir/program.h"
#include "tests/runtime/temporary_folder.h"

namespace hetsynth::testing {

/// `bytes` of the number, little or big endian.
std::string number(uint64_t value, int bytes, bool big_endian = false);

/// A token file of llm.c.
std::string llmc_file(uint32_t magic, uint32_t version, uint32_t count, const std::vector<uint32_t>& tokens,
                      int token_bytes);
/// An npy file, version `major`, with the header's dictionary and the elements' bytes as given.
std::string npy_file(const std::string& dictionary, const std::string& elements, int major = 1);
/// Dictionary of an array in C order.
std::string npy_dictionary(const std::string& descr, const std::string& shape);
/// Bytes of float32.
std::string floats(const std::vector<float>& values);
/// An IDX file of bytes.
std::string idx_file(const std::vector<uint32_t>& shape, const std::string& elements, int type = 0x08);

/// A zip archive of files by name and content, stored or deflated, with local sizes as numpy.savez writes them.
std::string zip_file(const std::vector<std::pair<std::string, std::string>>& files, bool deflate);
/// A safetensors file: the entries of its header as JSON, and the tensors' bytes.
std::string safetensors_file(const std::string& header, const std::string& bytes);

/// The inputs that a batch function declares.
Program inputs_of(const std::function<void()>& batch);

/// A data set of one format, right and complete.
struct DataSample {
  std::string format;
  Program program;
  std::string name;  ///< of the file or folder to name with --data; "": the folder
  std::vector<std::pair<std::string, std::string>> files;  ///< name and content
};
std::vector<DataSample> data_samples();
/// Writes its files and gives the path to name.
std::string write_sample(const DataSample& sample, const TemporaryFolder& folder);

}  // namespace hetsynth::testing
