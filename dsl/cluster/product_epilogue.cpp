#include "dsl/cluster/product_epilogue.h"

namespace hetsynth {
namespace {

constexpr std::string_view bf16_prefix = "bf16 ";

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

std::string text(const FusedProduct& product) {
  return std::string(product.bf16 ? bf16_prefix : "") + std::string(name(product.epilogue));
}

std::optional<FusedProduct> fused_product(std::string_view text) {
  const bool bf16 = text.starts_with(bf16_prefix);
  if (bf16) text.remove_prefix(bf16_prefix.size());
  for (ProductEpilogue epilogue : product_epilogues)
    if (text == name(epilogue)) return FusedProduct{epilogue, bf16};
  return std::nullopt;
}

std::vector<std::string> fused_product_names() {
  std::vector<std::string> out;
  for (bool bf16 : {false, true})
    for (ProductEpilogue epilogue : product_epilogues) out.push_back(text({epilogue, bf16}));
  return out;
}

const FusedProducts& estimated_fused_products() {
  static const FusedProducts all = [] {
    FusedProducts out;
    for (ProductEpilogue epilogue : product_epilogues) out.insert({epilogue, false});
    return out;
  }();
  return all;
}

}  // namespace hetsynth
