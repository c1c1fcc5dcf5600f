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
/// the right those of the file's, where "(h d)" is one dimension that numbers h and d row by row. Three more things may
/// be said:
///  - Parentheses on the left, as in "c h (2 d) -> (h d 2) c", split a dimension of the model's tensor into a number of
///    equal parts; on the right that number and the name of the rest stand where the file has them.
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
  /// layout says, or an extent that cannot be split as it says.
  Shape file_shape(const Shape& ours) const;

  /// Where an element of the model's tensor lies. The file's tensor at `index` of the separate dimensions has it at
  /// `start` + the sum of index * stride over the others; separate dimensions have stride 0.
  struct Walk {
    Shape shape;  ///< of the model's tensor, with a dimension for each part of those that are split
    int64_t start = 0;
    std::vector<int64_t> strides;  ///< by dimension of `shape`, in elements of the file's
    std::vector<int> separate;     ///< dimensions of `shape`
  };
  Walk walk(const Shape& ours) const;

 private:
  struct Factor {
    int dim = -1;        ///< of the split model's tensor; -1: the number of the part
    int64_t extent = 0;  ///< of the number of the part
  };
  Shape split(const Shape& ours) const;
  void read_ours(const std::string& text, const std::string& side);
  void read_theirs(const std::string& text, const std::string& side);

  std::vector<std::string> ours_;  ///< names of the dimensions, each part of a split one by itself; a number as written
  std::vector<int> parts_;         ///< by dimension of the model's tensor: how many of these it is
  std::vector<std::vector<Factor>> theirs_;
  int64_t joined_ = 1, part_ = 0;
};

/// Moves an index of the separate dimensions on, in row-major order; false after the last one.
bool next_index(const Layout::Walk& walk, std::vector<int64_t>& at);

/// Elements of the model's tensor that lie one behind the other, and where the file has them.
struct ElementRun {
  int64_t ours = 0, theirs = 0;  ///< flat indices of the first
  int64_t count = 1;
  int64_t stride = 1;  ///< from one to the next in the file's tensor
};

/// Calls `visit` for all elements of the model's tensor whose indices along the separate dimensions are `at`, in the
/// order of the model's tensor.
void for_each_run(const Layout::Walk& walk, const std::vector<int64_t>& at,
                  const std::function<void(const ElementRun&)>& visit);

}  // namespace hetsynth
