#include "dsl/cluster/device_speed.h"

namespace hetsynth {

std::span<const SpeedField> speed_fields() {
  static constexpr SpeedField fields[] = {
      {"matmul", Dimension::compute, &DeviceSpeed::matmul_flops_per_second},
      {"memory_bandwidth", Dimension::bandwidth, &DeviceSpeed::memory_bytes_per_second},
      {"convolution", Dimension::compute, &DeviceSpeed::convolution_flops_per_second},
      {"loop", Dimension::compute, &DeviceSpeed::loop_flops_per_second},
      {"matmul_call", Dimension::time, &DeviceSpeed::matmul_call_seconds},
      {"convolution_call", Dimension::time, &DeviceSpeed::convolution_call_seconds},
      {"loop_call", Dimension::time, &DeviceSpeed::loop_call_seconds},
      {"messages", Dimension::bandwidth, &DeviceSpeed::message_bytes_per_second},
      {"matmul_tf32", Dimension::compute, &DeviceSpeed::matmul_tf32_flops_per_second},
      {"matmul_bf16", Dimension::compute, &DeviceSpeed::matmul_bf16_flops_per_second},
      {"matmul_fp16", Dimension::compute, &DeviceSpeed::matmul_fp16_flops_per_second}};
  return fields;
}

DeviceSpeed slowed(DeviceSpeed speed, double times) {
  for (const SpeedField& field : speed_fields())
    if (std::optional<double>& value = speed.*field.value)
      *value *= field.dimension == Dimension::time ? times : 1 / times;
  return speed;
}

}  // namespace hetsynth
