// What data sheets say of known devices: used where a cluster file names only the model.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "dsl/cluster/cluster.h"

namespace hetsynth {

struct DeviceModel {
  std::string_view name;  ///< as written in a cluster file, compared without case: "A100-80GB"
  DeviceKind kind;
  std::string_view architecture;  ///< "sm_80"; empty for cpu
  double memory_gib;              ///< 0: must be given
  double peak_matmul_tflops;      ///< float32 operands, dense: TF32 tensor cores where the device has them, FMA units
                                  ///< otherwise
  double memory_gbytes_per_second;
  double usable_fraction;    ///< of the peak, that a library's large matrix products reach
  double peak_fma_tflops;    ///< float32 outside of tensor cores: what loops run on
  double call_microseconds;  ///< shortest time that a launched kernel takes

  DeviceSpeed speed() const;
  int64_t memory_bytes() const { return int64_t(memory_gib * 1024 * 1024 * 1024); }
};

std::span<const DeviceModel> device_models();
/// nullptr if the model is not known.
const DeviceModel* find_device_model(std::string_view name);

}  // namespace hetsynth
