// Numbers of cudnn_graph.h as far as they are used here; a test compares them with the toolkit's header.
#pragma once
#include <fmt/format.h>

#include <cstddef>
#include <string>

#include "runtime/jit/cuda_libraries.h"

namespace hetsynth::cuda::cudnn {

constexpr int least_version = int(least_cudnn_version);

/// "9.16.0" from 91600.
inline std::string version_text(size_t version) {
  return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

enum DataType { float32 = 0, int32 = 4, bfloat16 = 9, boolean = 11 };
enum ValueType {
  of_handle = 0,
  of_data_type = 1,
  of_boolean = 2,
  of_int64 = 3,
  of_pointer = 6,
  of_heuristic = 8,
  of_pointwise = 14,
  of_descriptor = 15,
  of_reduction = 18,
  of_char = 24,
};
enum DescriptorType {
  pointwise = 0,
  engine_configuration = 3,
  heuristics = 4,
  execution_plan = 5,
  pointwise_operation = 13,
  operation_graph = 15,
  variant_pack = 16,
  tensor = 17,
  matmul = 18,
  matmul_operation = 19,
  reduction = 21,
  reduction_operation = 22,
  reshape_operation = 31,
  device_properties = 38,
};
enum Attribute {
  pointwise_mode = 0,
  pointwise_precision = 1,
  pointwise_axis = 9,
  heuristics_mode = 200,
  heuristics_graph = 201,
  heuristics_results = 202,
  heuristics_device = 204,
  plan_configuration = 401,
  plan_workspace_bytes = 402,
  plan_device = 407,
  pointwise_of = 750,
  pointwise_x = 751,
  pointwise_b = 752,
  pointwise_y = 753,
  pointwise_t = 758,
  graph_operations = 801,
  tensor_alignment = 900,
  tensor_data_type = 901,
  tensor_extents = 902,
  tensor_strides = 903,
  tensor_id = 906,
  tensor_virtual = 907,
  tensor_by_value = 908,
  pack_ids = 1000,
  pack_pointers = 1001,
  pack_workspace = 1003,
  matmul_precision = 1500,
  matmul_a = 1520,
  matmul_b = 1521,
  matmul_c = 1522,
  matmul_of = 1523,
  reduction_mode = 1600,
  reduction_precision = 1601,
  reduction_x = 1610,
  reduction_y = 1611,
  reduction_of = 1612,
  reshape_x = 2200,
  reshape_y = 2201,
  device_handle = 2701,
  device_json = 2702,
};
enum PointwiseMode {
  add = 0,
  multiply = 1,
  divide = 6,
  subtract = 9,
  exponential = 13,
  logarithm = 15,
  identity = 21,
  greater_or_equal = 303,
  index = 501,
  select = 601,
};
enum ReductionMode { sum = 0, maximum = 3 };
enum HeuristicsMode { mode_a = 3 };

}  // namespace hetsynth::cuda::cudnn
