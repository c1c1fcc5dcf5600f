// A sum of products of two tensors whose dimensions have names: "c r, r h d -> c h d".
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/rank/host_tensor.h"

namespace hetsynth {

/// As einsum writes it, with words for dimensions. A name that both factors have and the result has not is summed over.
class NamedProduct {
 public:
  /// Throws UserError (tag "weights") for a text that is none: each tensor has a name once, what the result has a
  /// factor has, and what one factor alone has the result has.
  explicit NamedProduct(const std::string& text);

  struct Tensor {
    std::string name;
    Shape shape;
  };
  /// Throws UserError (tag "weights") naming the tensors if they have other ranks than the text says, or if a name
  /// stands for two extents.
  void check(const Tensor& left, const Tensor& right, const Tensor& result) const;

  /// Whether check would throw nothing.
  bool multiplies(const Shape& left, const Shape& right, const Shape& result) const;

  /// to += scale * product, in double precision; `to` is the result, row-major. Shapes are those that were checked.
  void add(const HostTensor& left, const HostTensor& right, double scale, std::span<double> to,
           const Shape& result) const;

 private:
  std::string text_;
  std::vector<std::string> left_, right_, result_;
};

}  // namespace hetsynth
