// Handle of a tensor in the program being traced. Light: user models include it through hetsynth.h.
#pragma once
#include <cstdint>
#include <source_location>
#include <vector>

namespace hetsynth {

enum class DType : uint8_t;

/// A tensor of the program under construction; an index, cheap to copy. Default-constructed: no tensor.
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(int node) : node_(node) {}
  int node() const { return node_; }
  bool defined() const { return node_ >= 0; }
  /// Extents, outermost first; empty for a scalar.
  const std::vector<int64_t>& shape() const;
  int rank() const;
  /// Extent of a dimension; negative counts from the end. Throws UserError if there is no such dimension.
  int64_t size(int dim) const;
  DType dtype() const;

 private:
  int node_ = -1;
};

/// An argument of a DSL function: a tensor or a number, with the place of the call, caught by the implicit conversion.
/// This is how operators such as `a + b`, which cannot take a default argument, know their line.
struct Operand {
  Operand(Tensor tensor, std::source_location where = std::source_location::current()) : tensor(tensor), where(where) {}
  Operand(double number, std::source_location where = std::source_location::current())
      : number(number), is_number(true), where(where) {}
  Operand(int number, std::source_location where = std::source_location::current()) : Operand(double(number), where) {}
  Tensor tensor;
  double number = 0;
  bool is_number = false;
  std::source_location where;
};

/// Names the tensor after the user's variable; placed around initialisers by the front end. Returns the tensor.
Tensor named(Tensor tensor, const char* name, const char* file, int line, int column);

}  // namespace hetsynth
