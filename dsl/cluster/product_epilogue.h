// What cublasLt can do to a matrix product before it stores it, in place of a kernel that reads it again.
#pragma once
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "dsl/ir/type.h"

namespace hetsynth {

enum class ProductEpilogue : uint8_t {
  bias,            ///< c + bias
  bias_relu,       ///< max(c + bias, 0)
  bias_gelu,       ///< gelu(c + bias), by the tanh approximation
  bias_gelu_kept,  ///< the same, and c + bias is stored beside it
  gelu_slope,      ///< c times the slope of gelu at a stored matrix; where wanted, the sums of its columns beside it
};
constexpr ProductEpilogue product_epilogues[] = {ProductEpilogue::bias, ProductEpilogue::bias_relu,
                                                 ProductEpilogue::bias_gelu, ProductEpilogue::bias_gelu_kept,
                                                 ProductEpilogue::gelu_slope};
/// "bias_relu".
std::string_view name(ProductEpilogue epilogue);

/// A product with an epilogue, by the type of its operands; what is stored is float32.
struct FusedProduct {
  ProductEpilogue epilogue = ProductEpilogue::bias;
  DType operands = DType::f32;
  auto operator<=>(const FusedProduct&) const = default;
};
using FusedProducts = std::set<FusedProduct>;

/// As cluster files have it: "bias_relu", "bf16 bias_relu", "fp16 bias_relu".
std::string text(const FusedProduct& product);
/// nullopt: no name of one.
std::optional<FusedProduct> fused_product(std::string_view text);
/// All names, for messages.
std::vector<std::string> fused_product_names();

/// Where nothing was measured. An estimate: float32 products with any epilogue, since each spares a kernel that reads
/// and writes the whole result (the generator fuses only then), and the product itself is assumed to take no longer.
/// None of bf16 or fp16 operands: that cublasLt has them with float32 results is for a measurement to show.
const FusedProducts& estimated_fused_products();

}  // namespace hetsynth
