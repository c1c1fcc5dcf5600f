#include "dsl/cluster/device_models.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <set>
#include <string>
#include <utility>

namespace hetsynth {
namespace {

// Peaks and bandwidths: NVIDIA's data sheets of each product ("Tesla P100", "V100", "T4", "A100 Tensor Core GPU", "H100
// Tensor Core GPU", "H200 Tensor Core GPU", "A10", "A30", "A40", "L4", "L40", "L40S", "RTX A4000/A5000/A6000", "RTX
// 6000 Ada"); for the GeForce cards the TU102 (Turing), GA102 (Ampere) and AD102 (Ada) architecture papers. Sparse
// figures are halved. The usable fraction is an estimate, not a data-sheet value: FMA units are easier to keep busy
// than tensor cores, whose peak outruns the memory. A measured table replaces it.
//
// A kernel takes a few microseconds however little it does: the start-up share of small work, an estimate too.
constexpr double launch = 5;
constexpr double fma = 0.85;
constexpr double tensor = 0.65;
constexpr DeviceModel models[] = {
    {"P100", DeviceKind::cuda, "sm_60", 16, 10.6, 732, fma, 10.6, launch},
    {"P100-PCIe", DeviceKind::cuda, "sm_60", 16, 9.3, 732, fma, 9.3, launch},
    {"V100", DeviceKind::cuda, "sm_70", 16, 15.7, 900, fma, 15.7, launch},
    {"V100-32GB", DeviceKind::cuda, "sm_70", 32, 15.7, 900, fma, 15.7, launch},
    {"V100-PCIe", DeviceKind::cuda, "sm_70", 16, 14.0, 900, fma, 14.0, launch},
    {"T4", DeviceKind::cuda, "sm_75", 16, 8.1, 320, fma, 8.1, launch},
    {"A100", DeviceKind::cuda, "sm_80", 40, 156, 1555, tensor, 19.5, launch},
    {"A100-80GB", DeviceKind::cuda, "sm_80", 80, 156, 2039, tensor, 19.5, launch},
    {"A100-80GB-PCIe", DeviceKind::cuda, "sm_80", 80, 156, 1935, tensor, 19.5, launch},
    {"A100-PCIe", DeviceKind::cuda, "sm_80", 40, 156, 1555, tensor, 19.5, launch},
    {"A30", DeviceKind::cuda, "sm_80", 24, 82, 933, tensor, 10.3, launch},
    {"A40", DeviceKind::cuda, "sm_86", 48, 37.4, 696, fma, 37.4, launch},
    {"A10", DeviceKind::cuda, "sm_86", 24, 31.2, 600, fma, 31.2, launch},
    {"L4", DeviceKind::cuda, "sm_89", 24, 30.3, 300, fma, 30.3, launch},
    {"L40", DeviceKind::cuda, "sm_89", 48, 90.5, 864, fma, 90.5, launch},
    {"L40S", DeviceKind::cuda, "sm_89", 48, 91.6, 864, fma, 91.6, launch},
    {"H100", DeviceKind::cuda, "sm_90", 80, 494.5, 3350, tensor, 66.9, launch},
    {"H100-PCIe", DeviceKind::cuda, "sm_90", 80, 378, 2000, tensor, 51.2, launch},
    {"H200", DeviceKind::cuda, "sm_90", 141, 494.5, 4800, tensor, 66.9, launch},
    {"RTX-A4000", DeviceKind::cuda, "sm_86", 16, 19.2, 448, fma, 19.2, launch},
    {"RTX-A5000", DeviceKind::cuda, "sm_86", 24, 27.8, 768, fma, 27.8, launch},
    {"RTX-A6000", DeviceKind::cuda, "sm_86", 48, 38.7, 768, fma, 38.7, launch},
    {"RTX-6000-Ada", DeviceKind::cuda, "sm_89", 48, 91.1, 960, fma, 91.1, launch},
    {"RTX-2080-Ti", DeviceKind::cuda, "sm_75", 11, 13.4, 616, fma, 13.4, launch},
    {"RTX-3060", DeviceKind::cuda, "sm_86", 12, 12.7, 360, fma, 12.7, launch},
    {"RTX-3070", DeviceKind::cuda, "sm_86", 8, 20.3, 448, fma, 20.3, launch},
    {"RTX-3080", DeviceKind::cuda, "sm_86", 10, 29.8, 760, fma, 29.8, launch},
    {"RTX-3080-Ti", DeviceKind::cuda, "sm_86", 12, 34.1, 912, fma, 34.1, launch},
    {"RTX-3090", DeviceKind::cuda, "sm_86", 24, 35.6, 936, fma, 35.6, launch},
    {"RTX-3090-Ti", DeviceKind::cuda, "sm_86", 24, 40.0, 1008, fma, 40.0, launch},
    {"RTX-4060", DeviceKind::cuda, "sm_89", 8, 15.1, 272, fma, 15.1, launch},
    {"RTX-4070", DeviceKind::cuda, "sm_89", 12, 29.1, 504, fma, 29.1, launch},
    {"RTX-4070-Ti", DeviceKind::cuda, "sm_89", 12, 40.1, 504, fma, 40.1, launch},
    {"RTX-4080", DeviceKind::cuda, "sm_89", 16, 48.7, 717, fma, 48.7, launch},
    {"RTX-4090", DeviceKind::cuda, "sm_89", 24, 82.6, 1008, fma, 82.6, launch},
    // One core of a current server at about 3 GHz with 256-bit vectors: 2 FMA units x 8 lanes x 2 x 3e9; its share of
    // two memory channels.
    {"core", DeviceKind::cpu, "", 0, 0.096, 10, 0.6, 0.096, 0},
};

/// Words that say who sells a card and how it is mounted, which tells nothing of its speed.
bool says_nothing(const std::string& word) {
  constexpr std::string_view words[] = {"nvidia",   "geforce", "tesla", "quadro", "gpu",  "generation",
                                        "graphics", "card",    "sxm",   "sxm2",   "sxm3", "sxm4",
                                        "sxm5",     "hbm2",    "hbm2e", "hbm3",   "hbm3e"};
  return std::ranges::find(words, word) != std::end(words);
}

/// The parts of a name in an order of their own: "NVIDIA A100 80GB PCIe" and "a100-pcie-80gb" have the same.
std::multiset<std::string> parts_of(std::string_view name) {
  std::multiset<std::string> out;
  std::string word;
  const auto end_word = [&] {
    if (!word.empty() && !says_nothing(word)) {
      // Letters and digits apart: "RTX4090" is "RTX 4090".
      std::string part;
      for (const char c : word) {
        if (!part.empty() &&
            std::isdigit(static_cast<unsigned char>(part.back())) != std::isdigit(static_cast<unsigned char>(c)))
          out.insert(std::exchange(part, ""));
        part += c;
      }
      out.insert(part);
    }
    word.clear();
  };
  for (const char c : name)
    if (c == ' ' || c == '_' || c == '-')
      end_word();
    else
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  end_word();
  return out;
}

/// Whether a name as people and tools write it is the model's; it may say the memory that the model has anyway.
bool means(const std::multiset<std::string>& name, std::string_view own, const DeviceModel& model) {
  std::multiset<std::string> parts = parts_of(own);
  if (name == parts) return true;
  parts.insert("gb");
  parts.insert(std::to_string(int(model.memory_gib)));
  return name == parts;
}

}  // namespace

DeviceSpeed DeviceModel::speed() const {
  const double matmul = peak_matmul_tflops * 1e12 * usable_fraction;
  const double loop = peak_fma_tflops * 1e12 * (kind == DeviceKind::cuda ? fma : usable_fraction);
  const double call = call_microseconds * 1e-6;
  return {matmul, memory_gbytes_per_second * 1e9, matmul, loop, call, call, call};
}

std::span<const DeviceModel> device_models() { return models; }

const DeviceModel* find_device_model(std::string_view name) {
  const std::multiset<std::string> parts = parts_of(name);
  for (const DeviceModel& model : models) {
    // "3090" is what people say; the prefix is optional.
    std::string_view short_name = model.name;
    if (short_name.starts_with("RTX-")) short_name.remove_prefix(4);
    if (means(parts, model.name, model) || means(parts, short_name, model)) return &model;
  }
  return nullptr;
}

}  // namespace hetsynth
