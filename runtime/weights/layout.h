// How a tensor of a model lies in a file of another program: "c h d -> (h d) c".
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "dsl/ir/program.h"

namespace hetsynth {

/// An expression in the style of einops (Rogozhnikov 2022). On the left stand the dimensions of the model's tensor; on
/// the right those of the file's, where "(h d)" is one dimension that numbers h and d row by row. Two more things may
/// be said:
///  - A number on the right, as in "c (3 h d)", is an extent that the model's tensor has not: the file joins so many
///    tensors there, of which this is number `part`.
///  - A name on the left that is missing on the right, as e in "e c f -> f c", is a dimension that the file has not: it
///    has a tensor for each index instead, whose name contains the number.
class Layout {
 public:
  /// Throws UserError (tag "weights") for a text that is none.
  explicit Layout(const std::string& text, int64_t part = 0);
  /// Both tensors are the same.
  Layout() = default;

  bool is_same() const { return ours_.empty(); }
  /// Names of the dimensions that the file has not, in order.
  std::vector<std::string> separate() const;
  /// How many tensors the file joins in one; 1: none.
  int64_t joined() const { return joined_; }
  /// The shape of the file's tensor for a tensor of the model. Throws UserError if that has another rank than the
  /// layout says.
  Shape file_shape(const Shape& ours) const;

  /// Where an element of the model's tensor lies. The file's tensor at `index` of the separate dimensions has it at
  /// `start` + the sum of index * stride over the others; separate dimensions have stride 0.
  struct Walk {
    int64_t start = 0;
    std::vector<int64_t> strides;  ///< by dimension of the model's tensor, in elements of the file's
    std::vector<int> separate;     ///< dimensions of the model's tensor
  };
  Walk walk(const Shape& ours) const;

 private:
  struct Factor {
    int dim = -1;        ///< of the model's tensor; -1: the number of the part
    int64_t extent = 0;  ///< of the number of the part
  };
  std::vector<std::string> ours_;
  std::vector<std::vector<Factor>> theirs_;
  int64_t joined_ = 1, part_ = 0;
};

/// Moves an index of the separate dimensions on, in row-major order; false after the last one.
bool next_index(const Layout::Walk& walk, const Shape& ours, std::vector<int64_t>& at);

/// Elements of the model's tensor that lie one behind the other, and where the file has them.
struct ElementRun {
  int64_t ours = 0, theirs = 0;  ///< flat indices of the first
  int64_t count = 1;
  int64_t stride = 1;  ///< from one to the next in the file's tensor
};

/// Calls `visit` for all elements of the model's tensor whose indices along the separate dimensions are `at`, in the
/// order of the model's tensor.
void for_each_run(const Layout::Walk& walk, const Shape& ours, const std::vector<int64_t>& at,
                  const std::function<void(const ElementRun&)>& visit);

}  // namespace hetsynth
