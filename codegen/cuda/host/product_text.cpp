#include "codegen/cuda/host/product_text.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>
#include <vector>

namespace hetsynth::codegen::cuda {
namespace {

std::string_view word_of(const Epilogue& epilogue) {
  switch (epilogue.kind) {
    case ProductEpilogue::bias:
      return "add_bias";
    case ProductEpilogue::bias_relu:
      return "add_bias_relu";
    case ProductEpilogue::bias_gelu:
      return "add_bias_gelu";
    case ProductEpilogue::bias_gelu_kept:
      return "add_bias_gelu_keep";
    case ProductEpilogue::gelu_slope:
      break;
  }
  return epilogue.sums >= 0 ? "times_gelu_slope_sum" : "times_gelu_slope";
}

}  // namespace

void product_text(Lines& out, const LocalOp& op, const Contraction& c, DType operands, const PointerTo& pointer) {
  auto offset = [](const std::string& base, int64_t constant,
                   const std::vector<std::pair<std::string, int64_t>>& terms) {
    std::string text = base;
    if (constant) text += fmt::format(" + {}", constant);
    for (const auto& [counter, stride] : terms)
      if (stride) text += fmt::format(" + {} * {}", counter, stride);
    return text;
  };
  std::vector<std::pair<std::string, int64_t>> a, w, result;
  std::string accumulate;
  int depth = 0;
  auto loop = [&](const ProductDim& dim, bool sums) {
    std::string counter = fmt::format("at_{}", depth++);
    out.open(fmt::format("for (int64 {0} = 0; {0} < {1}; ++{0}) {{  // {2}", counter, dim.extent, dim.name));
    a.push_back({counter, dim.a}), w.push_back({counter, dim.w}), result.push_back({counter, dim.c});
    if (sums) accumulate += fmt::format("{}{} > 0", accumulate.empty() ? "" : " || ", counter);
  };
  for (const ProductDim& dim : c.outer) loop(dim, false);
  for (const ProductDim& dim : c.outer_k) loop(dim, true);
  std::string from_a = offset(pointer(op.inputs[size_t(c.a)].value), c.a_offset, a);
  std::string from_w = offset(pointer(op.inputs[size_t(c.w)].value), c.w_offset, w);
  std::string to = offset(pointer(op.result), c.c_offset, result);
  out.add(fmt::format("// [{}] x {} x {}, sums of {}", c.batch.extent, c.m.extent, c.n.extent, c.k.extent));
  out.add(fmt::format(
      "if (hetsynth_device_matmul{}(context, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, "
      "{}, {})) return 1;",
      product_suffix(operands), c.batch.extent, c.m.extent, c.n.extent, c.k.extent, from_a, c.batch.a, c.m.a, c.k.a,
      from_w, c.batch.w, c.k.w, c.n.w, to, c.batch.c, c.m.c, c.n.c, accumulate.empty() ? "0" : accumulate));
  while (depth-- > 0) out.close();
}

void product_then_text(Lines& out, const LocalOp& op, const Contraction& c, const Epilogue& epilogue, DType operands,
                       const PointerTo& pointer) {
  const bool by_rows = c.n.c == 1;
  const ProductDim &m = by_rows ? c.m : c.n, &n = by_rows ? c.n : c.m;
  auto offset = [](const std::string& base, int64_t constant) {
    return constant ? fmt::format("{} + {}", base, constant) : base;
  };
  std::string left = offset(pointer(op.inputs[size_t(c.a)].value), c.a_offset);
  std::string right = offset(pointer(op.inputs[size_t(c.w)].value), c.w_offset);
  int64_t left_row = c.m.a, left_column = c.k.a, right_row = c.k.w, right_column = c.n.w;
  if (!by_rows) {
    std::swap(left, right);
    left_row = c.n.w, left_column = c.k.w, right_row = c.k.a, right_column = c.m.a;
  }
  const std::string bias = epilogue.bias >= 0   ? offset(pointer(epilogue.bias), epilogue.bias_offset)
                           : epilogue.sums >= 0 ? pointer(epilogue.sums)
                                                : "0";
  const std::string beside = epilogue.beside < 0 ? "0" : pointer(epilogue.beside);
  out.add(fmt::format("// {} x {}, sums of {}", m.extent, n.extent, c.k.extent));
  out.add(
      fmt::format("if (hetsynth_device_matmul_then(context, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, "
                  "{})) return 1;",
                  operands == DType::bf16   ? 1
                  : operands == DType::fp16 ? 2
                                            : 0,
                  m.extent, n.extent, c.k.extent, left, left_row, left_column, right, right_row, right_column,
                  pointer(epilogue.result), n.extent, word_of(epilogue), bias, beside));
}

}  // namespace hetsynth::codegen::cuda
