// What data sheets say of known devices: used where a cluster file names only the model.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dsl/cluster/cluster.h"

namespace hetsynth {

struct DeviceModel {
  std::string_view name;  ///< as written in a cluster file, compared without case: "A100-80GB"
  DeviceKind kind;
  std::string_view architecture;  ///< "sm_80"; empty for cpu
  int sold_gb;                    ///< memory by its name: "80GB"; 0: a cluster file must give it
  double told_gib;                ///< what the driver tells of it
  double memory_gbytes_per_second;
  /// Peaks of dense products, TFLOP/s, with float32 sums: of float32 operands in FMA units, which loops run on too, and
  /// by tensor cores of operands that are rounded to TF32, bf16 and fp16; 0: it has none for them.
  double float32, tf32, bf16, fp16;

  DeviceSpeed speed() const;
  /// What a rank can have of it: what the driver tells, less a hundredth and half a GiB for the context, its kernels
  /// and NCCL's buffers (an estimate).
  int64_t memory_bytes() const;
};

std::span<const DeviceModel> device_models();
/// 80 of "sm_80"; 0: the text is no such name.
int architecture_number(std::string_view architecture);
/// nullptr if the model is not known.
const DeviceModel* find_device_model(std::string_view name);
/// Known models whose names are nearest to one that is not, the nearest first; empty for one like none of them.
std::vector<std::string> near_device_models(std::string_view name);
/// Whether a name is that of a known model and says more, as "RTX 4090 Laptop GPU": another chip of that number.
bool is_variant_of(std::string_view name, std::string_view model);
/// Whether a name is one of AMD's: no device of CUDA.
bool is_amd_model(std::string_view name);

}  // namespace hetsynth
