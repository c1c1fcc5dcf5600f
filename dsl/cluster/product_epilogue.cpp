#include "dsl/cluster/product_epilogue.h"

namespace hetsynth {
namespace {

/// "bf16 "; float32 is not said.
std::string prefix(DType operands) { return is_half(operands) ? std::string(name(operands)) + " " : ""; }

}  // namespace

std::string_view name(ProductEpilogue epilogue) {
  switch (epilogue) {
    case ProductEpilogue::bias:
      return "bias";
    case ProductEpilogue::bias_relu:
      return "bias_relu";
    case ProductEpilogue::bias_gelu:
      return "bias_gelu";
    case ProductEpilogue::bias_gelu_kept:
      return "bias_gelu_kept";
    case ProductEpilogue::gelu_slope:
      break;
  }
  return "gelu_slope";
}

std::string text(const FusedProduct& product) { return prefix(product.operands) + std::string(name(product.epilogue)); }

std::optional<FusedProduct> fused_product(std::string_view text) {
  DType operands = DType::f32;
  for (const HalfFormat& format : half_formats)
    if (text.starts_with(prefix(format.dtype))) operands = format.dtype;
  text.remove_prefix(prefix(operands).size());
  for (ProductEpilogue epilogue : product_epilogues)
    if (text == name(epilogue)) return FusedProduct{epilogue, operands};
  return std::nullopt;
}

std::vector<std::string> fused_product_names() {
  std::vector<std::string> out;
  for (DType operands : {DType::f32, DType::bf16, DType::fp16})
    for (ProductEpilogue epilogue : product_epilogues) out.push_back(text({epilogue, operands}));
  return out;
}

const FusedProducts& estimated_fused_products() {
  static const FusedProducts all = [] {
    FusedProducts out;
    for (ProductEpilogue epilogue : product_epilogues) out.insert({epilogue, DType::f32});
    return out;
  }();
  return all;
}

}  // namespace hetsynth
