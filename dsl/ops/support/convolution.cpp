#include "dsl/ops/support/convolution.h"

#include <fmt/format.h>

#include "dsl/ops/pad.h"
#include "dsl/ops/reshape.h"
#include "dsl/ops/slice.h"
#include "dsl/ops/support/shape_rules.h"

namespace hetsynth {
namespace {

class Convolution final : public Operator {
 public:
  Convolution(ConvolutionPart part, const ConvolutionShape& shape) : part_(part), shape_(shape) {}

  std::string_view tag() const override {
    switch (part_) {
      case ConvolutionPart::result:
        return "conv2d";
      case ConvolutionPart::image:
        return "conv_transpose2d";
      case ConvolutionPart::kernel:
        return "conv2d_weight_gradient";
    }
    return "";
  }
  std::string attributes() const override { return fmt::format("{} groups {}", text(shape_.slides), shape_.groups); }

  TensorType infer(std::span<const TensorType> inputs) const override {
    for (size_t j = 0; j < inputs.size(); ++j) require_dtype(tag(), j, inputs[j], DType::f32);
    Extents e = extents(inputs);
    const auto& [y, x] = shape_.slides;
    switch (part_) {
      case ConvolutionPart::result:
        return {{e.batch, e.outputs * shape_.groups, y.result, x.result}, DType::f32};
      case ConvolutionPart::image:
        return {{e.batch, e.channels * shape_.groups, y.image, x.image}, DType::f32};
      case ConvolutionPart::kernel:
        break;
    }
    return {{e.outputs * shape_.groups, e.channels, y.window, x.window}, DType::f32};
  }

  Space space(std::span<const TensorType> inputs, const TensorType&) const override {
    Extents e = extents(inputs);
    auto kind = [&](ConvolutionPart summed) { return part_ == summed ? FactorKind::sum : FactorKind::parallel; };
    Space space;
    int g = shape_.groups > 1 ? space.add_factor("g", shape_.groups, FactorKind::parallel) : -1;
    // A channel is a group and a number inside of it; of groups with a single channel, the group.
    auto channel = [&](const char* name, int64_t size, FactorKind kind) {
      DimIndex inside;
      if (g < 0 || size > 1) inside = index_by(space.add_factor(name, size, kind));
      DimIndex all = inside;
      if (g >= 0) all.terms.insert(all.terms.begin(), IndexTerm{.factor = g, .stride = size});
      return std::pair(inside, all);
    };
    DimIndex n = index_by(space.add_factor("n", e.batch, kind(ConvolutionPart::kernel)));
    auto [o, outputs] = channel("o", e.outputs, kind(ConvolutionPart::image));
    auto [c, channels] = channel("c", e.channels, kind(ConvolutionPart::result));
    auto slide = [&](const Slide& s, const char* name) {
      if (part_ == ConvolutionPart::image) return spread(space, s, name);
      return gather(space, s, name, kind(ConvolutionPart::kernel), kind(ConvolutionPart::result));
    };
    SlideIndex y = slide(shape_.slides[0], "y"), x = slide(shape_.slides[1], "x");
    Access image{{n, channels, y.image, x.image}, y.leaves_image || x.leaves_image};
    Access result{{n, outputs, y.result, x.result}, y.leaves_result || x.leaves_result};
    Access kernel{{outputs, c, y.window, x.window}, y.leaves_window || x.leaves_window};
    switch (part_) {
      case ConvolutionPart::result:
        space.inputs = {image, kernel}, space.output = result;
        break;
      case ConvolutionPart::image:
        space.inputs = {result, kernel}, space.output = image;
        break;
      case ConvolutionPart::kernel:
        space.inputs = {image, result}, space.output = kernel;
        break;
    }
    return space;
  }

  Expr body(std::span<const TensorType>, const TensorType&) const override { return Expr::input(0) * Expr::input(1); }

  std::vector<Tensor> vjp(const VjpArguments& v) const override {
    Tensor a = v.inputs[0], b = v.inputs[1], d = v.output_gradient;
    switch (part_) {
      case ConvolutionPart::result:
        return {convolution_image(d, b, shape_), convolution_kernel(a, d, shape_)};
      case ConvolutionPart::image:
        return {convolution_result(d, b, shape_), convolution_kernel(d, a, shape_)};
      case ConvolutionPart::kernel:
        break;
    }
    return {convolution_image(b, d, shape_), convolution_result(a, d, shape_)};
  }

 private:
  /// Channels and outputs per group.
  struct Extents {
    int64_t batch, channels, outputs;
  };
  Extents extents(std::span<const TensorType> inputs) const {
    const Shape &a = inputs[0].shape, &b = inputs[1].shape;
    switch (part_) {
      case ConvolutionPart::result:
        return {a.at(0), b.at(1), b.at(0) / shape_.groups};
      case ConvolutionPart::image:
        return {a.at(0), b.at(1), a.at(1) / shape_.groups};
      case ConvolutionPart::kernel:
        break;
    }
    return {a.at(0), a.at(1) / shape_.groups, b.at(1) / shape_.groups};
  }

  ConvolutionPart part_;
  ConvolutionShape shape_;
};

}  // namespace

std::shared_ptr<const Operator> convolution_operator(ConvolutionPart part, const ConvolutionShape& shape) {
  return std::make_shared<Convolution>(part, shape);
}

Tensor convolution_result(Tensor image, Tensor kernel, const ConvolutionShape& shape) {
  return emit(convolution_operator(ConvolutionPart::result, shape), {image, kernel});
}

Tensor convolution_image(Tensor result, Tensor kernel, const ConvolutionShape& shape) {
  ConvolutionShape whole = shape;
  for (Slide& slide : whole.slides) slide = whole_strides(slide);
  Tensor image = emit(convolution_operator(ConvolutionPart::image, whole), {result, kernel});
  return without_added(image, shape.slides);
}

Tensor convolution_kernel(Tensor image, Tensor result, const ConvolutionShape& shape) {
  return emit(convolution_operator(ConvolutionPart::kernel, shape), {image, result});
}

void require_groups(const char* tag, int64_t groups, const std::vector<std::pair<int64_t, const char*>>& extents,
                    const std::vector<Tensor>& arguments) {
  bool divide = groups >= 1;
  std::string what;
  for (const auto& [extent, counts] : extents) {
    divide = divide && extent % groups == 0;
    what += fmt::format("{}{} {}", what.empty() ? "" : " and ", extent, counts);
  }
  if (divide) return;
  fail_call({.tag = tag,
             .message = fmt::format("{} groups do not divide {}", groups, what),
             .expected = extents.size() > 1 ? "a divisor of both" : "a divisor",
             .found = std::to_string(groups),
             .mend = "take another number of groups, or of channels"},
            arguments);
}

Tensor without_dilation(Tensor kernel, Slides& slides) {
  for (int d = 0; d < 2; ++d) {
    Slide& s = slides[size_t(d)];
    if (s.stride == 1 || s.dilation == 1) continue;
    Shape apart = kernel.shape();
    apart.insert(apart.begin() + 3 + d, 1);
    Tensor gaps = pad(reshape(kernel, apart), 3 + d, 0, s.dilation - 1);
    Shape together = kernel.shape();
    together[size_t(2 + d)] *= s.dilation;
    s.window = (s.window - 1) * s.dilation + 1;
    s.dilation = 1;
    kernel = slice(reshape(gaps, together), 2 + d, 0, s.window);
  }
  return kernel;
}

}  // namespace hetsynth
