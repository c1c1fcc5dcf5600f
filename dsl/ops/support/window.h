// Windows that slide over an image: what convolution and pooling have in common. An image position is read (or written)
// as result * stride + tap * dilation - padding, the tap being the position inside of the window.
#pragma once
#include <array>
#include <string>

#include "dsl/include/hetsynth/extent2d.h"
#include "dsl/ir/space.h"
#include "dsl/ops/support/pointwise.h"

namespace hetsynth {

/// One dimension: extents of image, window and result, and how they meet.
struct Slide {
  int64_t image = 1, window = 1, result = 1;
  int64_t stride = 1, dilation = 1, padding = 0;
  /// Whether some window reaches beyond the image.
  bool overlaps_edge() const;
};
/// Height, width.
using Slides = std::array<Slide, 2>;

/// "3x3 stride 2x2 padding 1x1 dilation 1x1 112x112->56x56".
std::string text(const Slides& slides);

/// What a call asks for; NCHW.
struct WindowCall {
  std::string tag;
  Extent2d window, stride, padding, dilation;
};
/// The slides of a call over an image [N, C, H, W]; result extents are rounded down. For composite functions: a
/// UserError with the place of the call if the image is no image, a number is out of range or the window is larger than
/// the padded image.
Slides slides_over(const WindowCall& call, Tensor image, const std::vector<Tensor>& arguments);

/// Throws like slides_over unless the argument is f32 of that rank.
void require_rank(const std::string& tag, size_t position, const std::vector<Tensor>& arguments, size_t rank,
                  const std::string& layout);

/// How one spatial dimension indexes each of the three tensors, and which of them it can leave (reading 0 there).
struct SlideIndex {
  DimIndex image, result, window;
  bool leaves_image = false, leaves_result = false, leaves_window = false;
  Expr tap = 0.0;  ///< position in the window
  Expr at = 0.0;   ///< position in the image, perhaps outside of it
};

/// Loops over results and taps, reading the image: factors `name` and "k" + `name`.
SlideIndex gather(Space& space, const Slide& slide, const std::string& name, FactorKind results, FactorKind taps);

/// Loops over the image and, for each position, over the taps that meet it; exactly those, up to rounding the window up
/// to whole strides. Needs stride 1, or dilation 1, an image of whole strides and a padding of whole strides, or any at
/// stride 2 (see `whole_strides`).
SlideIndex spread(Space& space, const Slide& slide, const std::string& name);

/// The slide as `spread` can take it: where it is strided, the image's end is rounded up to whole strides, and padding
/// that it cannot take becomes part of the image.
Slide whole_strides(const Slide& slide);
/// Cuts what whole_strides added off again.
Tensor without_added(Tensor image, const Slides& slides);

/// An operator of one window per channel: [N, C, H, W] against [N, C, Y, X].
struct PoolRule {
  std::string tag;
  Slides slides;
  enum class Computes : uint8_t { result, image } computes = Computes::result;
  FactorKind reduce = FactorKind::sum;
  std::vector<bool> reads_image = {};  ///< per input: an image, or a result
  std::function<Expr(const SlideIndex& y, const SlideIndex& x)> body = {};
  CustomVjp vjp = {};
};
std::shared_ptr<const Operator> pool_operator(PoolRule rule);

}  // namespace hetsynth
