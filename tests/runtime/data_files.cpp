#include "tests/runtime/data_files.h"

#include <bit>

#include "dsl/ir/trace.h"
#include "hetsynth/hetsynth.h"

namespace hetsynth::testing {

std::string number(uint64_t value, int bytes, bool big_endian) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> 8 * (big_endian ? bytes - 1 - i : i) & 0xFF);
  return out;
}

std::string llmc_file(uint32_t magic, uint32_t version, uint32_t count, const std::vector<uint32_t>& tokens,
                      int token_bytes) {
  std::string out = number(magic, 4) + number(version, 4) + number(count, 4);
  out.resize(1024, '\0');
  for (const uint32_t token : tokens) out += number(token, token_bytes);
  return out;
}

std::string npy_dictionary(const std::string& descr, const std::string& shape) {
  return "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
}

std::string npy_file(const std::string& dictionary, const std::string& elements, int major) {
  std::string text = dictionary;
  const size_t before = major == 1 ? 10 : 12;
  while ((before + text.size() + 1) % 64 != 0) text += ' ';
  text += '\n';
  return "\x93NUMPY" + number(static_cast<uint64_t>(major), 1) + number(0, 1) +
         number(text.size(), major == 1 ? 2 : 4) + text + elements;
}

std::string floats(const std::vector<float>& values) {
  std::string out;
  for (const float value : values) out += number(std::bit_cast<uint32_t>(value), 4);
  return out;
}

std::string idx_file(const std::vector<uint32_t>& shape, const std::string& elements, int type) {
  std::string out = number(0, 2) + number(static_cast<uint64_t>(type), 1) + number(shape.size(), 1);
  for (const uint32_t extent : shape) out += number(extent, 4, true);
  return out + elements;
}

Program inputs_of(const std::function<void()>& batch) {
  Trace trace("model.cpp");
  batch();
  return trace.program;
}

namespace {

std::string counted(size_t count, int modulus) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += static_cast<char>(static_cast<int>(i) % modulus);
  return out;
}

std::string cifar(int label_bytes, int samples) {
  std::string out;
  for (int i = 0; i < samples; ++i)
    out += std::string(static_cast<size_t>(label_bytes), static_cast<char>(i % 10)) +
           std::string(3072, static_cast<char>(i));
  return out;
}

}  // namespace

std::vector<DataSample> data_samples() {
  const Program tokens = inputs_of([] { token_batch(2, 3, 1000); });
  const Program grey = inputs_of([] { image_batch(2, 1, 2, 3, 10); });
  const Program colour = inputs_of([] { image_batch(2, 3, 32, 32, 100); });
  const Program table = inputs_of([] { table_batch(2, 2, {5, 7}); });
  const std::vector<uint32_t> chain = {5, 6, 7, 8, 9, 10, 11, 999};
  std::string shorts, longs;
  for (uint64_t i = 0; i < 12; ++i) shorts += number(i * 3, 2), longs += number(i % 7, 8);
  const auto npy = [](const std::string& descr, const std::string& shape, const std::string& elements) {
    return npy_file(npy_dictionary(descr, shape), elements);
  };
  return {
      {"text", tokens, "text.txt", {{"text.txt", "a small text to be read in windows"}}},
      {"llmc", tokens, "a.bin", {{"a.bin", llmc_file(20240520, 1, 8, chain, 2)}}},
      {"llmc", tokens, "a.bin", {{"a.bin", llmc_file(20240801, 7, 8, chain, 4)}}},
      {"npy", tokens, "t.npy", {{"t.npy", npy("<u2", "(12,)", shorts)}}},
      {"npy", tokens, "", {{"tokens.npy", npy("<i8", "(3, 4)", longs)}}},
      {"npy",
       table,
       "",
       {{"numeric.npy", npy("<f4", "(3, 2)", floats({1, 2, 3, 4, 5, 6}))},
        {"categories.npy", npy("|u1", "(3, 2)", counted(6, 5))},
        {"labels.npy", npy("<f8", "(3,)", std::string(24, '\0'))}}},
      {"idx",
       grey,
       "",
       {{"train-images-idx3-ubyte", idx_file({4, 2, 3}, counted(24, 256))},
        {"train-labels-idx1-ubyte", idx_file({4}, counted(4, 10))}}},
      {"cifar10", colour, "", {{"data_batch_1.bin", cifar(1, 2)}, {"data_batch_2.bin", cifar(1, 1)}}},
      {"cifar100", colour, "", {{"train.bin", cifar(2, 3)}}},
      {"criteo", table, "rows.tsv", {{"rows.tsv", "1\t3\t-1\tabc\tff\n0\t\t2.5\t\t0\n0\t1e3\t0\tabc\t12\n"}}},
  };
}

std::string write_sample(const DataSample& sample, const TemporaryFolder& folder) {
  for (const auto& [name, content] : sample.files) folder.write(name, content);
  return folder.path(sample.name);
}

}  // namespace hetsynth::testing
