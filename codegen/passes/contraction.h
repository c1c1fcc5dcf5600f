// Recognises matrix products: sums of products of two operands, as calls of hetsynth_matmul inside loops over what is
// left.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "codegen/passes/layout.h"

namespace hetsynth::codegen {

/// One dimension of a product with its strides in the three operands, in elements.
struct ProductDim {
  int64_t extent = 1;
  int64_t a = 0, w = 0, c = 0;
  std::string name;  ///< of the factors it stands for
  /// These factors, the outermost first.
  std::vector<int> factors = {};
};

/// c[batch, m, n] = sum over k of a[batch, m, k] w[batch, k, n], repeated for all `outer` and accumulated over all
/// `outer_k`.
struct Contraction {
  ProductDim batch, m, n, k;
  std::vector<ProductDim> outer, outer_k;
  int a = 0, w = 1;                                  ///< operands of the operator
  int64_t a_offset = 0, w_offset = 0, c_offset = 0;  ///< elements from the values' first elements
  int64_t a_turn = 0, w_turn = 0, c_turn = 0;        ///< that the turn of the loop around adds
};

/// Whether the operator sums products of two different operands: a matrix product or a convolution.
bool is_product(const LocalOp& op);

/// nullopt if the operator is no product, or so thin that loops serve better.
std::optional<Contraction> match_contraction(const LocalOp& op, const Layouts& layouts);

}  // namespace hetsynth::codegen
