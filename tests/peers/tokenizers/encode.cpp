// Encodes and decodes texts for tests/peers/tokenizers/compare.py: reads texts from standard input, each as its length
// (int32) and bytes, and writes for each the number of its ids, the ids, the number of bytes that they stand for, and
// these (numbers are int32).
//   tokenizer_encode TOKENIZER
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "runtime/tokenizers/tokenizer.h"

namespace {

bool read_number(int32_t& number) { return std::fread(&number, sizeof number, 1, stdin) == 1; }

void write_number(size_t number) {
  const auto small = static_cast<int32_t>(number);
  std::fwrite(&small, sizeof small, 1, stdout);
}

void answer(const hetsynth::Tokenizer& tokenizer) {
  const auto encoder = tokenizer.encoder();
  for (int32_t bytes = 0; read_number(bytes);) {
    std::string text(static_cast<size_t>(bytes), '\0');
    if (std::fread(text.data(), 1, text.size(), stdin) != text.size()) return;
    std::vector<int32_t> ids;
    encoder->encode(text, true, false, ids);
    const std::string back = tokenizer.decode(ids);
    write_number(ids.size());
    std::fwrite(ids.data(), sizeof(int32_t), ids.size(), stdout);
    write_number(back.size());
    std::fwrite(back.data(), 1, back.size(), stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    answer(*hetsynth::open_tokenizer(argv[1]));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
