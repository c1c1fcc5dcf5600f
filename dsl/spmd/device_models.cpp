#include "dsl/spmd/device_models.h"

#include <algorithm>
#include <cctype>

namespace hetsynth {
namespace {

// Peaks and bandwidths: NVIDIA's data sheets of each product ("Tesla P100", "V100", "T4", "A100 Tensor Core GPU", "H100
// Tensor Core GPU", "H200 Tensor Core GPU"); for the GeForce cards the GA102 (Ampere) and AD102 (Ada) architecture
// papers. Sparse figures are halved. The usable fraction is an estimate, not a data-sheet value: FMA units are easier
// to keep busy than tensor cores, whose peak outruns the memory. A measured table replaces it.
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
    {"H100", DeviceKind::cuda, "sm_90", 80, 494.5, 3350, tensor, 66.9, launch},
    {"H100-PCIe", DeviceKind::cuda, "sm_90", 80, 378, 2000, tensor, 51.2, launch},
    {"H200", DeviceKind::cuda, "sm_90", 141, 494.5, 4800, tensor, 66.9, launch},
    {"RTX-3060", DeviceKind::cuda, "sm_86", 12, 12.7, 360, fma, 12.7, launch},
    {"RTX-3090", DeviceKind::cuda, "sm_86", 24, 35.6, 936, fma, 35.6, launch},
    {"RTX-4090", DeviceKind::cuda, "sm_89", 24, 82.6, 1008, fma, 82.6, launch},
    // One core of a current server at about 3 GHz with 256-bit vectors: 2 FMA units x 8 lanes x 2 x 3e9; its share of
    // two memory channels.
    {"core", DeviceKind::cpu, "", 0, 0.096, 10, 0.6, 0.096, 0},
};

bool same_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    const auto plain = [](unsigned char c) { return c == ' ' || c == '_' ? '-' : std::tolower(c); };
    return plain(x) == plain(y);
  });
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
  for (const DeviceModel& model : models) {
    // "3090" is what people say; the vendor's prefix is optional.
    std::string_view short_name = model.name;
    if (short_name.starts_with("RTX-")) short_name.remove_prefix(4);
    if (same_name(name, model.name) || same_name(name, short_name)) return &model;
  }
  return nullptr;
}

}  // namespace hetsynth
