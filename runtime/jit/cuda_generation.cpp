#include "runtime/jit/cuda_generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <string_view>

#include "runtime/jit/cuda_libraries.h"

namespace hetsynth {

bool works_on(const CudaMachine& machine, int release) {
  const bool driven = machine.driver == 0 || release <= machine.driver / 1000;
  const bool has_code = release < 13 || machine.oldest_gpu == 0 || machine.oldest_gpu >= oldest_gpu_of_cuda_13;
  return driven && has_code;
}

std::vector<int> cuda_releases(const CudaMachine& machine) {
  std::vector<int> out{13, 12};
  std::stable_partition(out.begin(), out.end(), [&](int release) { return works_on(machine, release); });
  return out;
}

std::vector<std::string> cuda_files(const std::string& name) {
  std::vector<std::string> out;
  for (int release : cuda_releases(cuda_machine())) out.push_back(fmt::format("{}.so.{}", name, release));
  return out;
}

int release_of_nccl(const std::string& path) {
  constexpr std::string_view mark = "+cuda";
  constexpr size_t block = size_t(1) << 20, overlap = mark.size() + 2;  // the mark and two digits
  std::ifstream file(path, std::ios::binary);
  std::string text;
  while (file) {
    // What may be the beginning of the mark stays.
    text.erase(0, text.size() - std::min(text.size(), overlap));
    const size_t kept = text.size();
    text.resize(kept + block);
    file.read(text.data() + kept, std::streamsize(block));
    text.resize(kept + size_t(file.gcount()));
    for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + 1)) {
      const std::string digits = text.substr(at + mark.size(), 2);
      if (digits.size() == 2 && std::isdigit(static_cast<unsigned char>(digits[0])) &&
          std::isdigit(static_cast<unsigned char>(digits[1])))
        return std::stoi(digits);
    }
  }
  return 0;
}

std::string objection_to_nccl(const SharedLibrary& library) {
  // Reading hundreds of megabytes says something only where one release would do and another would not.
  if (works_on(cuda_machine(), 13)) return "";
  const int release = release_of_nccl(library.path());
  if (release == 0 || works_on(cuda_machine(), release)) return "";
  return fmt::format("{} was built for CUDA {}", library.path(), release);
}

}  // namespace hetsynth
