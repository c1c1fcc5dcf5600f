// An operator written as one statement over elements: out[b,t,h] = f(in[b,t,0,h], in[b,t,1,h], ...). For composites
// whose parts read fixed positions of a dimension, such as the gates of a recurrent cell, without a slice for each.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "dsl/ir/operator.h"
#include "dsl/ir/trace.h"

namespace hetsynth {

/// Collects what a statement reads, then appends it to the current trace. Its factors are the output's dimensions. The
/// operator has no gradient of its own: the composite that it belongs to sets one (Trace::set_custom_vjp).
class Statement {
 public:
  /// `tag`: name of the operator, of one meaning. The output is f32.
  Statement(std::string tag, Shape output);
  /// Index of the output's dimension; 0 where it has extent 1.
  DimIndex dim(int d) const;
  int rank() const { return static_cast<int>(output_.size()); }
  /// Position `at` of a dimension.
  static DimIndex fixed(int64_t at) { return {.offset = at}; }
  /// The number of the output's element along dimension `d`, for conditions.
  Expr index(int d) const;
  /// The element of a tensor at these indices, one per dimension.
  Expr read(Tensor tensor, std::vector<DimIndex> indices);
  /// Appends the operator.
  Tensor emit(const Expr& body);

 private:
  std::string tag_;
  Shape output_;
  Space space_;
  std::vector<int> factors_;  ///< by dimension; -1: extent 1
  std::vector<Tensor> inputs_;
};

/// 1 / (1 + e^-x) of an element.
Expr logistic(const Expr& x);

}  // namespace hetsynth
