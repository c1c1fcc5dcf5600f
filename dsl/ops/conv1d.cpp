#include "dsl/ops/conv1d.h"

#include <fmt/format.h>

#include "dsl/ops/reshape.h"
#include "dsl/ops/support/convolution.h"
#include "dsl/ops/support/shape_rules.h"

namespace hetsynth {
namespace {

/// [A, B, L] as [A, B, 1, L].
Tensor one_row(Tensor t) { return reshape(t, {t.size(0), t.size(1), 1, t.size(2)}); }

}  // namespace

Tensor conv1d(Operand x, Operand weight, Conv1d o) {
  CallScope scope(x.where);
  const std::vector<Tensor> arguments = {as_tensor(x), as_tensor(weight)};
  require_rank("conv1d", 0, arguments, 3, "a sequence [batch,channels,length]");
  require_rank("conv1d", 1, arguments, 3, "a kernel [outputs,channels,length]");
  const int64_t channels = arguments[0].size(1), outputs = arguments[1].size(0);
  require_groups("conv1d", o.groups, {{channels, "channels"}, {outputs, "outputs"}}, arguments);
  if (arguments[1].size(1) != channels / o.groups)
    fail_call({.tag = "conv1d",
               .message = "channels disagree: " + joined({arguments[0].shape(), arguments[1].shape()}, " with kernel "),
               .expected = fmt::format("a kernel [outputs,{},length]", channels / o.groups),
               .found = fmt::format("{} channels", arguments[1].size(1)),
               .mend = "channels are dimension 1 of both; transpose(x, {0, 2, 1}) exchanges them with the positions"},
              arguments);
  Tensor image = one_row(arguments[0]), kernel = one_row(arguments[1]);
  const WindowCall call{"conv1d", {1, kernel.size(3)}, {1, o.stride}, {0, o.padding}, {1, o.dilation}};
  ConvolutionShape shape{slides_over(call, image, arguments), o.groups};
  Tensor out = convolution_result(image, without_dilation(kernel, shape.slides), shape);
  return reshape(out, {out.size(0), out.size(1), out.size(3)});
}

OperatorInfo conv1d_info() { return {"conv1d", "One-dimensional convolution.", {}}; }

}  // namespace hetsynth
