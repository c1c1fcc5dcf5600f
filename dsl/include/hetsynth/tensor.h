// Handle of a tensor in the program being traced. Light: user models include it through hetsynth.h.
#pragma once
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <source_location>
#include <utility>
#include <vector>

namespace hetsynth {

enum class DType : uint8_t;
/// Element types, as models name them.
inline constexpr DType f32 = DType(0);
inline constexpr DType i32 = DType(1);
inline constexpr DType bf16 = DType(2);
inline constexpr DType fp16 = DType(3);

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
  int64_t size(int dim, std::source_location where = std::source_location::current()) const;
  DType dtype() const;

 private:
  int node_ = -1;
};

/// An argument of a DSL function: a tensor or a number, with the place of the call, caught by the implicit conversion.
/// This is how operators such as `a + b`, which cannot take a default argument, know their line.
struct Operand {
  Operand(Tensor tensor, std::source_location where = std::source_location::current()) : tensor(tensor), where(where) {}
  template <class Number>
  requires std::integral<Number> || std::floating_point<Number> Operand(
      Number number, std::source_location where = std::source_location::current())
      : number(double(number)), is_number(true), where(where) {}
  Tensor tensor;
  double number = 0;
  bool is_number = false;
  std::source_location where;
};

/// Dimensions of a tensor, negative ones counted from the end: `-1` or `{0, 2}`. Empty: all of them.
struct DimList {
  DimList() = default;
  DimList(int dim) : dims{dim} {}
  DimList(std::initializer_list<int> dims) : dims(dims) {}
  DimList(std::vector<int> dims) : dims(std::move(dims)) {}
  std::vector<int> dims;
};

/// Names the tensor after the user's variable; placed around initialisers by the front end. Returns the tensor.
Tensor named(Tensor tensor, const char* name, const char* file, int line, int column);

}  // namespace hetsynth
