#include "dsl/ops/conv_transpose2d.h"

#include <fmt/format.h>

#include "dsl/ops/support/convolution.h"
#include "dsl/ops/support/shape_rules.h"

namespace hetsynth {
namespace {

void check_channels(const std::vector<Tensor>& arguments, int64_t groups) {
  int64_t channels = arguments[0].size(1);
  require_groups("conv_transpose2d", groups, {{channels, "channels"}}, arguments);
  if (arguments[1].size(0) != channels)
    fail_call({.tag = "conv_transpose2d",
               .message = "channels disagree: " + joined({arguments[0].shape(), arguments[1].shape()}, " with kernel "),
               .expected = fmt::format("a kernel [{},outputs,height,width]", channels),
               .found = fmt::format("{} channels", arguments[1].size(0)),
               .mend = "the kernel of a transposed convolution begins with the channels it reads"},
              arguments);
}

/// The slide of the convolution whose gradient this is: its result is our input.
Slide slide_of(int64_t extent, int64_t window, int64_t stride, int64_t padding, int64_t more, int64_t dilation,
               const std::vector<Tensor>& arguments) {
  constexpr int64_t largest = int64_t(1) << 20;
  bool sane =
      stride >= 1 && dilation >= 1 && padding >= 0 && more >= 0 && std::max({stride, dilation, padding}) <= largest;
  if (!sane || more >= std::max(stride, dilation))
    fail_call({.tag = "conv_transpose2d",
               .message = "a setting is out of range",
               .expected = "stride and dilation of at least 1, padding of at least 0, output padding below the stride",
               .found = fmt::format("stride {}, dilation {}, padding {}, output padding {}", stride, dilation, padding,
                                    more)},
              arguments);
  int64_t image = (extent - 1) * stride - 2 * padding + dilation * (window - 1) + more + 1;
  if (image < 1)
    fail_call({.tag = "conv_transpose2d",
               .message = "nothing is left of the result",
               .expected = "less padding",
               .found = fmt::format("{} on either side of {}", padding, image + 2 * padding)},
              arguments);
  return {image, window, extent, stride, dilation, padding};
}

}  // namespace

Tensor conv_transpose2d(Operand x, Operand weight, ConvTranspose2d o) {
  CallScope scope(x.where);
  std::vector<Tensor> arguments = {as_tensor(x), as_tensor(weight)};
  require_rank("conv_transpose2d", 0, arguments, 4, "an image [batch,channels,height,width]");
  require_rank("conv_transpose2d", 1, arguments, 4, "a kernel [channels,outputs,height,width]");
  check_channels(arguments, o.groups);
  Tensor in = arguments[0], kernel = arguments[1];
  ConvolutionShape shape{{slide_of(in.size(2), kernel.size(2), o.stride.height, o.padding.height,
                                   o.output_padding.height, o.dilation.height, arguments),
                          slide_of(in.size(3), kernel.size(3), o.stride.width, o.padding.width, o.output_padding.width,
                                   o.dilation.width, arguments)},
                         o.groups};
  kernel = without_dilation(kernel, shape.slides);
  return convolution_image(in, kernel, shape);
}

OperatorInfo conv_transpose2d_info() {
  auto sample = [](const Shape& in, const Shape& kernel, const Slides& slides, int64_t groups = 1) {
    return OperatorSample{convolution_operator(ConvolutionPart::image, {slides, groups}), floats({in, kernel}), {}};
  };
  Slide plain{.image = 5, .window = 3, .result = 3}, padded{.image = 4, .window = 3, .result = 4, .padding = 1};
  Slide strided{.image = 8, .window = 3, .result = 3, .stride = 2},
      dilated{.image = 7, .window = 3, .result = 3, .dilation = 3};
  Slide one{.image = 6, .window = 1, .result = 3, .stride = 2};
  Slide turned{.image = 8, .window = 3, .result = 4, .stride = 2, .padding = 1},
      ahead{.image = 9, .window = 5, .result = 4, .stride = 3, .padding = 3},
      wide{.image = 8, .window = 7, .result = 4, .stride = 2, .padding = 3};
  return {"conv_transpose2d",
          "Two-dimensional transposed convolution.",
          {sample({2, 3, 3, 4}, {3, 2, 3, 3}, {plain, padded}), sample({2, 2, 3, 3}, {2, 3, 3, 1}, {strided, one}),
           sample({2, 4, 3, 3}, {4, 3, 3, 3}, {dilated, strided}, 2),
           sample({2, 2, 4, 4}, {2, 3, 3, 5}, {turned, ahead}), sample({1, 2, 4, 4}, {2, 2, 7, 3}, {wide, turned})}};
}

}  // namespace hetsynth
