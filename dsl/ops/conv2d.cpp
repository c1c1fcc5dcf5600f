#include "dsl/ops/conv2d.h"

#include <fmt/format.h>

#include "dsl/ops/support/convolution.h"
#include "dsl/ops/support/row_blocks.h"
#include "dsl/ops/support/shape_rules.h"

namespace hetsynth {
namespace {

void check_channels(const std::vector<Tensor>& arguments, int64_t groups) {
  int64_t channels = arguments[0].size(1), outputs = arguments[1].size(0);
  require_groups("conv2d", groups, {{channels, "channels"}, {outputs, "outputs"}}, arguments);
  if (arguments[1].size(1) != channels / groups)
    fail_call({.tag = "conv2d",
               .message = "channels disagree: " + joined({arguments[0].shape(), arguments[1].shape()}, " with kernel "),
               .expected = groups == 1 ? fmt::format("a kernel [outputs,{},height,width]", channels)
                                       : fmt::format("a kernel [outputs,{},height,width]: {} channels in {} groups",
                                                     channels / groups, channels, groups),
               .found = fmt::format("{} channels", arguments[1].size(1))},
              arguments);
}

}  // namespace

Tensor conv2d(Operand x, Operand weight, Conv2d o) {
  CallScope scope(x.where);
  std::vector<Tensor> arguments = {as_tensor(x), as_tensor(weight)};
  require_rank("conv2d", 0, arguments, 4, "an image [batch,channels,height,width]");
  require_rank("conv2d", 1, arguments, 4, "a kernel [outputs,channels,height,width]");
  check_channels(arguments, o.groups);
  Tensor image = arguments[0], kernel = arguments[1];
  WindowCall call{"conv2d", {kernel.size(2), kernel.size(3)}, o.stride, o.padding, o.dilation};
  return over_row_blocks(call, o.row_blocks, image, arguments, 0, [&](Tensor part, const WindowCall& windows) {
    ConvolutionShape shape{slides_over(windows, part, arguments), o.groups};
    Tensor plain = without_dilation(kernel, shape.slides);
    return convolution_result(part, plain, shape);
  });
}

OperatorInfo conv2d_info() {
  auto sample = [](const Shape& image, const Shape& kernel, const Slides& slides, int64_t groups = 1) {
    return OperatorSample{convolution_operator(ConvolutionPart::result, {slides, groups}), floats({image, kernel}), {}};
  };
  Slide plain{.image = 4, .window = 2, .result = 3}, one{.image = 3, .window = 1, .result = 3};
  Slide same{.image = 4, .window = 3, .result = 4, .padding = 1};
  Slide strided{.image = 5, .window = 3, .result = 3, .stride = 2, .padding = 1};
  Slide rest{.image = 6, .window = 2, .result = 2, .stride = 3},
      wide{.image = 5, .window = 5, .result = 2, .stride = 3, .padding = 2};
  Slide dilated{.image = 6, .window = 3, .result = 4, .dilation = 2, .padding = 1},
      skips{.image = 4, .window = 1, .result = 2, .stride = 2};
  auto of_weight = [](const Shape& image, const Shape& result, const Slides& slides, int64_t groups = 1) {
    return OperatorSample{convolution_operator(ConvolutionPart::kernel, {slides, groups}), floats({image, result}), {}};
  };
  return {
      "conv2d",
      "Two-dimensional convolution.",
      {sample({2, 3, 4, 5}, {4, 3, 2, 3}, {plain, strided}), sample({2, 2, 4, 3}, {3, 2, 3, 1}, {same, one}),
       sample({2, 3, 3, 4}, {2, 3, 1, 1}, {one, skips}), sample({2, 6, 4, 5}, {4, 3, 3, 5}, {same, wide}, 2),
       sample({2, 3, 6, 4}, {3, 1, 2, 3}, {rest, same}, 3), sample({1, 2, 6, 6}, {2, 2, 3, 2}, {dilated, rest}),
       sample({2, 2, 4, 4}, {6, 1, 2, 1}, {plain, skips}, 2), of_weight({2, 3, 4, 5}, {2, 2, 3, 3}, {plain, strided}),
       of_weight({3, 4, 4, 4}, {3, 2, 4, 2}, {same, skips}, 2)}};
}

}  // namespace hetsynth
