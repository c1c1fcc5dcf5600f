#include "dsl/cluster/device_models.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstddef>
#include <iterator>
#include <set>
#include <string>
#include <utility>

#include "dsl/base/suggest.h"

namespace hetsynth {
namespace {

// Peaks and bandwidths: NVIDIA's data sheets of each product ("Tesla K80", "M60", "P4", "P40", "P100", "V100", "T4",
// "A2", "A10", "A16", "A30", "A40", "A100", "A800", "H20", "H100", "H200", "L4", "L40", "L40S", "RTX
// A4000/A5000/A6000", "RTX 2000/4000/4500/5000/6000 Ada", "GH200 Superchip", "HGX B100/B200", "GB200 NVL72", each per
// GPU of a card or board with several; A10G: Amazon's page of G5 instances and NVIDIA's sheet for it; A800 and H800 are
// A100 and H100 with slower NVLink); for GeForce, TITAN and Quadro cards the architecture papers of Pascal (GP102),
// Volta (GV100), Turing (TU102), Ampere (GA102), Ada (AD102) and Blackwell (RTX). Sparse figures are halved; tensor
// cores with float32 sums, which are half as fast as with fp16 sums on GeForce cards. Memory that the driver tells
// (cuMemGetInfo) is what users of each card report, to about a hundredth.
//
// The usable fraction is an estimate, not a data-sheet value: FMA units are easier to keep busy than tensor cores,
// whose peak outruns the memory; on Hopper and later the clock falls besides. A measured table replaces it.
//
// A kernel takes a few microseconds however little it does: the start-up share of small work, an estimate too.
constexpr double launch_microseconds = 5;
constexpr double usable_fma = 0.85, usable_fma_since_hopper = 0.8;
constexpr double usable_tensor = 0.75, usable_tensor_since_hopper = 0.65;
constexpr double usable_core = 0.6;

constexpr DeviceModel models[] = {
    // name, kind, architecture, GB by name, GiB by the driver, GB/s, then TFLOP/s: float32, TF32, bf16, fp16
    {"K80", DeviceKind::cuda, "sm_37", 12, 11.17, 240, 4.4, 0, 0, 0},
    {"M60", DeviceKind::cuda, "sm_52", 8, 7.4, 160, 4.8, 0, 0, 0},
    {"P4", DeviceKind::cuda, "sm_61", 8, 7.4, 192, 5.5, 0, 0, 0},
    {"P40", DeviceKind::cuda, "sm_61", 24, 22.4, 347, 11.8, 0, 0, 0},
    {"P100", DeviceKind::cuda, "sm_60", 16, 15.9, 732, 10.6, 0, 0, 0},
    {"P100-PCIe", DeviceKind::cuda, "sm_60", 16, 15.9, 732, 9.3, 0, 0, 0},
    {"GTX-1070", DeviceKind::cuda, "sm_61", 8, 7.9, 256, 6.5, 0, 0, 0},
    {"GTX-1080", DeviceKind::cuda, "sm_61", 8, 7.9, 320, 8.9, 0, 0, 0},
    {"GTX-1080-Ti", DeviceKind::cuda, "sm_61", 11, 10.9, 484, 11.3, 0, 0, 0},
    {"V100", DeviceKind::cuda, "sm_70", 16, 15.8, 900, 15.7, 0, 0, 125},
    {"V100-32GB", DeviceKind::cuda, "sm_70", 32, 31.7, 900, 15.7, 0, 0, 125},
    {"V100-PCIe", DeviceKind::cuda, "sm_70", 16, 15.8, 900, 14.0, 0, 0, 112},
    {"V100-32GB-PCIe", DeviceKind::cuda, "sm_70", 32, 31.7, 900, 14.0, 0, 0, 112},
    {"V100S-PCIe", DeviceKind::cuda, "sm_70", 32, 31.7, 1134, 16.4, 0, 0, 130},
    {"TITAN-V", DeviceKind::cuda, "sm_70", 12, 11.8, 653, 14.9, 0, 0, 110},
    {"T4", DeviceKind::cuda, "sm_75", 16, 14.7, 320, 8.1, 0, 0, 65},
    {"GTX-1660", DeviceKind::cuda, "sm_75", 6, 5.8, 192, 5.0, 0, 0, 0},
    {"GTX-1660-SUPER", DeviceKind::cuda, "sm_75", 6, 5.8, 336, 5.0, 0, 0, 0},
    {"GTX-1660-Ti", DeviceKind::cuda, "sm_75", 6, 5.8, 288, 5.4, 0, 0, 0},
    {"RTX-2060", DeviceKind::cuda, "sm_75", 6, 5.8, 336, 6.5, 0, 0, 25.8},
    {"RTX-2070", DeviceKind::cuda, "sm_75", 8, 7.8, 448, 7.5, 0, 0, 29.9},
    {"RTX-2080", DeviceKind::cuda, "sm_75", 8, 7.8, 448, 10.1, 0, 0, 40.3},
    {"RTX-2080-Ti", DeviceKind::cuda, "sm_75", 11, 10.8, 616, 13.4, 0, 0, 53.8},
    {"TITAN-RTX", DeviceKind::cuda, "sm_75", 24, 23.6, 672, 16.3, 0, 0, 130.5},
    {"Quadro-RTX-6000", DeviceKind::cuda, "sm_75", 24, 23.6, 672, 16.3, 0, 0, 130.5},
    {"Quadro-RTX-8000", DeviceKind::cuda, "sm_75", 48, 47.5, 672, 16.3, 0, 0, 130.5},
    {"A100", DeviceKind::cuda, "sm_80", 40, 39.4, 1555, 19.5, 156, 312, 312},
    {"A100-80GB", DeviceKind::cuda, "sm_80", 80, 79.2, 2039, 19.5, 156, 312, 312},
    {"A100-80GB-PCIe", DeviceKind::cuda, "sm_80", 80, 79.2, 1935, 19.5, 156, 312, 312},
    {"A100-PCIe", DeviceKind::cuda, "sm_80", 40, 39.4, 1555, 19.5, 156, 312, 312},
    {"A800", DeviceKind::cuda, "sm_80", 80, 79.2, 2039, 19.5, 156, 312, 312},
    {"A800-PCIe", DeviceKind::cuda, "sm_80", 80, 79.2, 1935, 19.5, 156, 312, 312},
    {"A30", DeviceKind::cuda, "sm_80", 24, 23.5, 933, 10.3, 82, 165, 165},
    {"A2", DeviceKind::cuda, "sm_86", 16, 14.8, 200, 4.5, 9, 18, 18},
    {"A10", DeviceKind::cuda, "sm_86", 24, 22.1, 600, 31.2, 62.5, 125, 125},
    {"A10G", DeviceKind::cuda, "sm_86", 24, 22.1, 600, 31.5, 35, 70, 70},
    {"A16", DeviceKind::cuda, "sm_86", 16, 14.6, 200, 4.5, 9, 18, 18},
    {"A40", DeviceKind::cuda, "sm_86", 48, 44.4, 696, 37.4, 74.8, 149.7, 149.7},
    {"RTX-A4000", DeviceKind::cuda, "sm_86", 16, 15.7, 448, 19.2, 38.3, 76.7, 76.7},
    {"RTX-A5000", DeviceKind::cuda, "sm_86", 24, 23.6, 768, 27.8, 55.6, 111.1, 111.1},
    {"RTX-A6000", DeviceKind::cuda, "sm_86", 48, 47.5, 768, 38.7, 77.4, 154.8, 154.8},
    {"RTX-3060", DeviceKind::cuda, "sm_86", 12, 11.8, 360, 12.7, 12.7, 25.4, 25.4},
    {"RTX-3060-Ti", DeviceKind::cuda, "sm_86", 8, 7.7, 448, 16.2, 16.2, 32.4, 32.4},
    {"RTX-3070", DeviceKind::cuda, "sm_86", 8, 7.7, 448, 20.3, 20.3, 40.6, 40.6},
    {"RTX-3070-Ti", DeviceKind::cuda, "sm_86", 8, 7.7, 608, 21.7, 21.7, 43.5, 43.5},
    {"RTX-3080", DeviceKind::cuda, "sm_86", 10, 9.7, 760, 29.8, 29.8, 59.5, 59.5},
    {"RTX-3080-Ti", DeviceKind::cuda, "sm_86", 12, 11.7, 912, 34.1, 34.1, 68.2, 68.2},
    {"RTX-3090", DeviceKind::cuda, "sm_86", 24, 23.7, 936, 35.6, 35.6, 71.2, 71.2},
    {"RTX-3090-Ti", DeviceKind::cuda, "sm_86", 24, 23.7, 1008, 40.0, 40.0, 80.0, 80.0},
    {"L4", DeviceKind::cuda, "sm_89", 24, 22.0, 300, 30.3, 60.5, 121, 121},
    {"L40", DeviceKind::cuda, "sm_89", 48, 44.4, 864, 90.5, 90.5, 181, 181},
    {"L40S", DeviceKind::cuda, "sm_89", 48, 44.4, 864, 91.6, 183, 362, 362},
    {"RTX-2000-Ada", DeviceKind::cuda, "sm_89", 16, 15.7, 224, 12.0, 24, 48, 48},
    {"RTX-4000-Ada", DeviceKind::cuda, "sm_89", 20, 19.6, 360, 26.7, 53.4, 106.9, 106.9},
    {"RTX-4500-Ada", DeviceKind::cuda, "sm_89", 24, 23.6, 432, 39.6, 79.3, 158.5, 158.5},
    {"RTX-5000-Ada", DeviceKind::cuda, "sm_89", 32, 31.5, 576, 65.3, 130.6, 261.1, 261.1},
    {"RTX-6000-Ada", DeviceKind::cuda, "sm_89", 48, 47.4, 960, 91.1, 182.1, 364.2, 364.2},
    {"RTX-4060", DeviceKind::cuda, "sm_89", 8, 7.7, 272, 15.1, 15.1, 30.2, 30.2},
    {"RTX-4060-Ti", DeviceKind::cuda, "sm_89", 8, 7.7, 288, 22.1, 22.1, 44.1, 44.1},
    {"RTX-4070", DeviceKind::cuda, "sm_89", 12, 11.7, 504, 29.1, 29.1, 58.3, 58.3},
    {"RTX-4070-SUPER", DeviceKind::cuda, "sm_89", 12, 11.7, 504, 35.5, 35.5, 71, 71},
    {"RTX-4070-Ti", DeviceKind::cuda, "sm_89", 12, 11.7, 504, 40.1, 40.1, 80.2, 80.2},
    {"RTX-4070-Ti-SUPER", DeviceKind::cuda, "sm_89", 16, 15.6, 672, 44.1, 44.1, 88.2, 88.2},
    {"RTX-4080", DeviceKind::cuda, "sm_89", 16, 15.6, 717, 48.7, 48.7, 97.5, 97.5},
    {"RTX-4080-SUPER", DeviceKind::cuda, "sm_89", 16, 15.6, 736, 52.2, 52.2, 104.4, 104.4},
    {"RTX-4090", DeviceKind::cuda, "sm_89", 24, 23.6, 1008, 82.6, 82.6, 165.2, 165.2},
    {"H100", DeviceKind::cuda, "sm_90", 80, 79.6, 3350, 66.9, 494.5, 989, 989},
    {"H100-PCIe", DeviceKind::cuda, "sm_90", 80, 79.6, 2000, 51.2, 378, 756, 756},
    {"H100-NVL", DeviceKind::cuda, "sm_90", 94, 93.1, 3938, 60, 417.5, 835, 835},
    {"H800", DeviceKind::cuda, "sm_90", 80, 79.6, 3350, 66.9, 494.5, 989, 989},
    {"H800-PCIe", DeviceKind::cuda, "sm_90", 80, 79.6, 2000, 51.2, 378, 756, 756},
    {"H20", DeviceKind::cuda, "sm_90", 96, 95.1, 4000, 44, 74, 148, 148},
    {"H200", DeviceKind::cuda, "sm_90", 141, 139.8, 4800, 66.9, 494.5, 989, 989},
    {"H200-NVL", DeviceKind::cuda, "sm_90", 141, 139.8, 4800, 60, 417.5, 835, 835},
    {"GH200", DeviceKind::cuda, "sm_90", 96, 94.5, 4000, 66.9, 494.5, 989, 989},
    {"GH200-144GB", DeviceKind::cuda, "sm_90", 144, 140.0, 4900, 66.9, 494.5, 989, 989},
    {"B100", DeviceKind::cuda, "sm_100", 180, 178.4, 8000, 60, 900, 1750, 1750},
    {"B200", DeviceKind::cuda, "sm_100", 180, 178.4, 8000, 75, 1125, 2250, 2250},
    {"GB200", DeviceKind::cuda, "sm_100", 186, 184.0, 8000, 80, 1250, 2500, 2500},
    {"RTX-5060-Ti", DeviceKind::cuda, "sm_120", 16, 15.5, 448, 23.7, 23.7, 47.4, 47.4},
    {"RTX-5070", DeviceKind::cuda, "sm_120", 12, 11.5, 672, 30.9, 30.9, 61.7, 61.7},
    {"RTX-5070-Ti", DeviceKind::cuda, "sm_120", 16, 15.5, 896, 43.9, 43.9, 87.9, 87.9},
    {"RTX-5080", DeviceKind::cuda, "sm_120", 16, 15.5, 960, 56.3, 56.3, 112.6, 112.6},
    {"RTX-5090", DeviceKind::cuda, "sm_120", 32, 31.4, 1792, 104.8, 104.8, 209.5, 209.5},
    // One core of a current server at about 3 GHz with 256-bit vectors: 2 FMA units x 8 lanes x 2 x 3e9; its share of
    // two memory channels.
    {"core", DeviceKind::cpu, "", 0, 0, 10, 0.096, 0, 0, 0},
};

/// What tools write where it is none of the names above: of a GH200, nvidia-smi tells the memory of the processor.
constexpr std::pair<std::string_view, std::string_view> other_names[] = {{"GH200 480GB", "GH200"},
                                                                         {"GH200 144G", "GH200-144GB"}};

/// Words that say who sells a card and how it is mounted, which tells nothing of its speed.
bool says_nothing(const std::string& word) {
  constexpr std::string_view words[] = {"nvidia",   "geforce", "tesla", "quadro", "gpu",   "generation",
                                        "graphics", "card",    "sxm",   "sxm2",   "sxm3",  "sxm4",
                                        "sxm5",     "hbm2",    "hbm2e", "hbm3",   "hbm3e", "dgxs"};
  return std::ranges::find(words, word) != std::end(words);
}

/// A line of `nvidia-smi -L`, "GPU 0: NVIDIA A100 (UUID: GPU-...)", without what tells of the one card that it is.
std::string_view without_its_number(std::string_view line) {
  const size_t colon = line.find(": ");
  if (line.starts_with("GPU ") && colon != std::string_view::npos && line.find_first_not_of("0123456789", 4) == colon)
    line.remove_prefix(colon + 2);
  return line.substr(0, line.find("(UUID"));
}

/// The words of a name that tell of the model, in lower case.
std::vector<std::string> words_of(std::string_view name) {
  std::vector<std::string> out(1);
  for (const char c : without_its_number(name))
    if (std::isspace(static_cast<unsigned char>(c)) || std::string_view("_-(),/[]").find(c) != std::string_view::npos)
      out.emplace_back();
    else
      out.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  std::erase_if(out, [](const std::string& word) { return word.empty() || says_nothing(word); });
  return out;
}

/// The parts of a name in an order of their own: "NVIDIA A100 80GB PCIe" and "a100-pcie-80gb" have the same.
std::multiset<std::string> parts_of(std::string_view name) {
  std::multiset<std::string> out;
  for (const std::string& word : words_of(name)) {
    // Letters and digits apart: "RTX4090" is "RTX 4090".
    std::string part;
    for (const char c : word) {
      if (!part.empty() &&
          std::isdigit(static_cast<unsigned char>(part.back())) != std::isdigit(static_cast<unsigned char>(c)))
        out.insert(std::exchange(part, ""));
      part += c;
    }
    // Gigabytes are written in three ways: "80GB", "80G" and "80 GiB".
    out.insert(part == "g" || part == "gib" ? "gb" : part);
  }
  return out;
}

/// Whether a name as people and tools write it is the model's; it may say the memory that the model has anyway.
bool means(const std::multiset<std::string>& name, std::string_view own, const DeviceModel& model) {
  std::multiset<std::string> parts = parts_of(own);
  if (name == parts) return true;
  parts.insert("gb");
  parts.insert(std::to_string(model.sold_gb));
  return name == parts;
}

/// The names of a model: its own, and "3090", which is what people say; the prefix is optional.
std::vector<std::string_view> names_of(const DeviceModel& model) {
  const std::string_view name = model.name;
  if (name.starts_with("RTX-") || name.starts_with("GTX-")) return {name, name.substr(4)};
  return {name};
}

/// Words that make another chip of a number.
bool says_mobile(const std::string& word) {
  constexpr std::string_view words[] = {"laptop", "notebook", "mobile", "max", "q", "maxq"};
  return std::ranges::find(words, word) != std::end(words);
}

/// What counts of a name, in one word: "rtx4090".
std::string key_of(std::string_view name) {
  std::string out;
  for (const std::string& word : words_of(name))
    if (!says_mobile(word)) out += word;
  return out;
}

/// How many letters of a name the model's own are, if the name has all of them and more; 0: it has not.
size_t letters_shared(const std::multiset<std::string>& name, const DeviceModel& model) {
  size_t out = 0;
  for (const std::string_view own : names_of(model)) {
    const std::multiset<std::string> parts = parts_of(own);
    const bool numbered = std::ranges::any_of(
        parts, [](const std::string& part) { return std::isdigit(static_cast<unsigned char>(part[0])) != 0; });
    size_t letters = 0;
    for (const std::string& part : parts) letters += part.size();
    if (numbered && parts != name && std::ranges::includes(name, parts)) out = std::max(out, letters);
  }
  return out;
}

}  // namespace

DeviceSpeed DeviceModel::speed() const {
  DeviceSpeed out;
  const bool since_hopper = architecture.size() > 5 || architecture >= "sm_90";
  const double fma = kind == DeviceKind::cpu ? usable_core : since_hopper ? usable_fma_since_hopper : usable_fma;
  const double tensor = since_hopper ? usable_tensor_since_hopper : usable_tensor;
  const auto usable = [](double teraflops, double fraction) -> std::optional<double> {
    return teraflops > 0 ? std::optional(teraflops * 1e12 * fraction) : std::nullopt;
  };
  out.matmul_flops_per_second = out.convolution_flops_per_second = out.loop_flops_per_second = usable(float32, fma);
  out.matmul_tf32_flops_per_second = usable(tf32, tensor);
  out.matmul_bf16_flops_per_second = usable(bf16, tensor);
  out.matmul_fp16_flops_per_second = usable(fp16, tensor);
  out.memory_bytes_per_second = memory_gbytes_per_second * 1e9;
  out.matmul_call_seconds = out.convolution_call_seconds = out.loop_call_seconds =
      kind == DeviceKind::cpu ? 0 : launch_microseconds * 1e-6;
  return out;
}

int64_t DeviceModel::memory_bytes() const {
  constexpr double gib = 1024.0 * 1024 * 1024, mib = 1024.0 * 1024;
  if (told_gib == 0) return 0;
  return int64_t((told_gib * 0.99 - 0.5) * gib / mib) * int64_t(mib);
}

std::span<const DeviceModel> device_models() { return models; }

int architecture_number(std::string_view architecture) {
  int number = 0;
  if (!architecture.starts_with("sm_")) return 0;
  const std::string_view digits = architecture.substr(3);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return error == std::errc() && end == digits.data() + digits.size() ? number : 0;
}

const DeviceModel* find_device_model(std::string_view name) {
  std::multiset<std::string> parts = parts_of(name);
  for (const auto& [other, known] : other_names)
    if (parts == parts_of(other)) parts = parts_of(known);
  for (const DeviceModel& model : models) {
    for (const std::string_view own : names_of(model))
      if (means(parts, own, model)) return &model;
  }
  return nullptr;
}

std::vector<std::string> near_device_models(std::string_view name) {
  constexpr size_t most = 4;
  std::vector<std::string> keys, out;
  for (const DeviceModel& model : models) keys.push_back(key_of(model.name));
  const auto take = [&](size_t at) {
    out.emplace_back(models[at].name);
    keys[at].assign(name.size() + 64, '?');  // not again
  };
  // First that of which it is a variant by its name, then those that are spelled alike.
  const std::multiset<std::string> parts = parts_of(name);
  size_t nearest_model = 0, letters = 0;
  for (size_t i = 0; i < std::size(models); ++i)
    if (const size_t shared = letters_shared(parts, models[i]); shared > letters) nearest_model = i, letters = shared;
  if (letters > 0) take(nearest_model);
  const std::string key = key_of(name);
  while (out.size() < most) {
    const std::string found = nearest(key, keys);
    if (found.empty()) break;
    take(size_t(std::ranges::find(keys, found) - keys.begin()));
  }
  return out;
}

bool is_variant_of(std::string_view name, std::string_view model) {
  const DeviceModel* known = find_device_model(model);
  return known && letters_shared(parts_of(name), *known) > 0;
}

bool is_amd_model(std::string_view name) {
  const std::multiset<std::string> parts = parts_of(name);
  const auto has = [&](const char* part) { return parts.contains(part); };
  return has("amd") || has("radeon") || has("instinct") || has("mi") || (has("rx") && !has("rtx"));
}

}  // namespace hetsynth
