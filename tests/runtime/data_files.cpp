#include "tests/runtime/data_files.h"

#include <zlib.h>

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

std::string zip_file(const std::vector<std::pair<std::string, std::string>>& files, bool deflate) {
  std::string out, directory;
  for (const auto& [name, content] : files) {
    std::string packed = content;
    if (deflate) {
      z_stream stream{};
      deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
      packed.resize(deflateBound(&stream, content.size()));
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
      stream.avail_in = static_cast<uInt>(content.size());
      stream.next_out = reinterpret_cast<Bytef*>(packed.data());
      stream.avail_out = static_cast<uInt>(packed.size());
      ::deflate(&stream, Z_FINISH);
      packed.resize(stream.total_out);
      deflateEnd(&stream);
    }
    const uLong checksum = crc32(0, reinterpret_cast<const Bytef*>(content.data()), static_cast<uInt>(content.size()));
    const size_t offset = out.size();
    const std::string what = number(deflate ? 8 : 0, 2) + number(0, 4) + number(checksum, 4);
    // NumPy writes the sizes of a local header into an extra field, as zip64 has it.
    const std::string extra = number(1, 2) + number(16, 2) + number(content.size(), 8) + number(packed.size(), 8);
    out += "PK\x03\x04" + number(45, 2) + number(0, 2) + what + number(0xFFFFFFFF, 4) + number(0xFFFFFFFF, 4) +
           number(name.size(), 2) + number(extra.size(), 2) + name + extra + packed;
    directory += "PK\x01\x02" + number(45, 2) + number(45, 2) + number(0, 2) + what + number(packed.size(), 4) +
                 number(content.size(), 4) + number(name.size(), 2) + number(0, 2) + number(0, 2) + number(0, 2) +
                 number(0, 2) + number(0, 4) + number(offset, 4) + name;
  }
  const size_t begin = out.size();
  return out + directory + "PK\x05\x06" + number(0, 4) + number(files.size(), 2) + number(files.size(), 2) +
         number(directory.size(), 4) + number(begin, 4) + number(0, 2);
}

std::string safetensors_file(const std::string& header, const std::string& bytes) {
  return number(header.size(), 8) + header + bytes;
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
  const Program named = inputs_of([] {
    input("x", {2, 2}, f32);
    input("labels", {2, 3}, i32, {.classes = 7, .ignored = -100});
    input("weight", {2}, f32, {.lowest = 0, .highest = 1});
  });
  const std::string real = floats({1, -2, 3.5, 4, 5, 6, 7, 8}), weights = floats({0, 1, 0.5, 1});
  std::string labels;
  for (const int label : {1, 2, 3, -100, -100, 0, 6, 5, 4, 3, 2, -100})
    labels += number(static_cast<uint64_t>(label), 8);
  const std::vector<uint32_t> chain = {5, 6, 7, 8, 9, 10, 11, 999};
  std::string shorts, longs;
  for (uint64_t i = 0; i < 12; ++i) shorts += number(i * 3, 2), longs += number(i % 7, 8);
  const auto npy = [](const std::string& descr, const std::string& shape, const std::string& elements) {
    return npy_file(npy_dictionary(descr, shape), elements);
  };
  const std::vector<std::pair<std::string, std::string>> arrays = {
      {"x.npy", npy("<f4", "(4, 2)", real)},
      {"labels.npy", npy("<i8", "(4, 3)", labels)},
      {"weight.npy", npy("<f4", "(4,)", weights)},
  };
  const std::string tensors =
      R"({"x":{"dtype":"F32","shape":[4,2],"data_offsets":[0,32]},"labels":{"dtype":"I64","shape":[4,3],)"
      R"("data_offsets":[32,128]},"weight":{"dtype":"F32","shape":[4],"data_offsets":[128,144]}})";
  const std::string table_text =
      "id,x.0,x.1,labels_0,labels_1,labels_2,weight\n"
      "a,1,-2,1,2,3,0\n\"b,c\",3.5,4,-100,-100,0,1\nd,5, 6,6,5,4,0.5\ne,7,8e0,3,2,-100,true\n";
  const std::string lines =
      "{\"x\": [1, -2], \"labels\": [1, 2, 3], \"weight\": 0, \"id\": \"a\"}\n"
      "{\"labels\": [-100, -100, 0], \"x\": [3.5, 4.0], \"weight\": true}\n"
      "{\"x\": [5, 6], \"more\": {\"x\": [[]]}, \"labels\": [6, 5, 4], \"weight\": 0.5}\n"
      "{\"x\": [7, 8e0], \"labels\": [3, 2, -100], \"weight\": 1}";
  return {
      {"npy", named, "", arrays},
      {"npz", named, "a.npz", {{"a.npz", zip_file(arrays, false)}}},
      {"npz", named, "", {{"a.npz", zip_file(arrays, true)}}},
      {"safetensors", named, "a.safetensors", {{"a.safetensors", safetensors_file(tensors, real + labels + weights)}}},
      {"csv", named, "a.csv", {{"a.csv", table_text}}},
      {"jsonl", named, "a.jsonl", {{"a.jsonl", lines}}},
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
