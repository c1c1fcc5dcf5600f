// How fast a device is, by class of operators, and how that falls for small ones.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "dsl/cluster/attention_by.h"
#include "dsl/cluster/product_epilogue.h"
#include "dsl/cluster/quantity.h"
#include "dsl/ir/type.h"

namespace hetsynth {

/// Operators that go at different speeds: products with sums over a shared dimension, of float32, bf16 and fp16
/// operands, convolutions, and everything that is a plain loop (elementwise operators, sums, gathers).
enum class OperatorClass : uint8_t { matmul, convolution, loop, matmul_bf16, matmul_fp16 };
constexpr OperatorClass operator_classes[] = {OperatorClass::matmul, OperatorClass::convolution, OperatorClass::loop,
                                              OperatorClass::matmul_bf16, OperatorClass::matmul_fp16};

/// Products of operands of this type.
constexpr OperatorClass products_of(DType operands) {
  return operands == DType::bf16   ? OperatorClass::matmul_bf16
         : operands == DType::fp16 ? OperatorClass::matmul_fp16
                                   : OperatorClass::matmul;
}

/// Hockney's law: n floating-point operations take call_seconds + n / flops_per_second, so that half of the speed is
/// reached at n = call_seconds * flops_per_second (R. W. Hockney, Parallel Computers, 1981: n_1/2).
struct ComputeSpeed {
  double flops_per_second = 0;
  double call_seconds = 0;
  bool operator==(const ComputeSpeed&) const = default;
};

/// Speeds of a device that runs all the time (duty 1), as far as they are known.
struct DeviceSpeed {
  std::optional<double> matmul_flops_per_second{};  ///< of float32 operands, multiplied as float32
  std::optional<double> memory_bytes_per_second{};
  std::optional<double> convolution_flops_per_second{};
  std::optional<double> loop_flops_per_second{};
  std::optional<double> matmul_call_seconds{};
  std::optional<double> convolution_call_seconds{};
  std::optional<double> loop_call_seconds{};
  /// cpu: bytes of messages to and from other hosts, sent and received ones added up, that take all of the device's
  /// time for a second. Not known: messages cost no computing.
  std::optional<double> message_bytes_per_second{};
  /// GPUs: products by tensor cores, by what the operands are rounded to; sums are float32. No
  /// program asks for TF32. Not known: products of bf16 or fp16 operands are as fast as those of float32.
  std::optional<double> matmul_tf32_flops_per_second{};
  std::optional<double> matmul_bf16_flops_per_second{};
  std::optional<double> matmul_fp16_flops_per_second{};
  /// GPUs: products with an epilogue that take no longer than the product and a kernel.
  std::optional<FusedProducts> epilogues{};
  /// GPUs: by whom attention is faster.
  std::optional<AttentionBy> attention{};
};

/// A value of DeviceSpeed as a cluster file names it.
struct SpeedField {
  std::string_view key;
  Dimension dimension;
  std::optional<double> DeviceSpeed::*value;
};
std::span<const SpeedField> speed_fields();

/// The speeds of a device that takes `times` as long for everything, messages included.
DeviceSpeed slowed(DeviceSpeed speed, double times);

}  // namespace hetsynth
