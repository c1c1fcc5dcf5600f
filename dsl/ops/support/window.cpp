#include "dsl/ops/support/window.h"

#include <fmt/format.h>

#include "dsl/ops/slice.h"
#include "dsl/ops/support/shape_rules.h"

namespace hetsynth {

bool Slide::overlaps_edge() const {
  return padding > 0 || (result - 1) * stride + (window - 1) * dilation - padding >= image;
}

std::string text(const Slides& s) {
  auto both = [&](int64_t Slide::*field) { return fmt::format("{}x{}", s[0].*field, s[1].*field); };
  return fmt::format("{} stride {} padding {} dilation {} {}->{}", both(&Slide::window), both(&Slide::stride),
                     both(&Slide::padding), both(&Slide::dilation), both(&Slide::image), both(&Slide::result));
}

namespace {

constexpr int64_t largest_setting = int64_t(1)
                                    << 20;  ///< of stride, padding, dilation: products stay far from overflow

void require_setting(const WindowCall& call, const char* what, Extent2d found, int64_t least,
                     const std::vector<Tensor>& arguments) {
  auto fits = [&](int64_t n) { return n >= least && n <= largest_setting; };
  if (fits(found.height) && fits(found.width)) return;
  fail_call({.tag = call.tag,
             .message = fmt::format("{} is out of range", what),
             .expected = fmt::format("{} to {}", least, largest_setting),
             .found = fmt::format("{} x {}", found.height, found.width)},
            arguments);
}

}  // namespace

void require_rank(const std::string& tag, size_t position, const std::vector<Tensor>& arguments, size_t rank,
                  const std::string& layout) {
  TensorType type{arguments.at(position).shape(), arguments[position].dtype()};
  checked_call(arguments, [&] { require_dtype(tag, position, type, DType::f32); });
  if (type.shape.size() == rank) return;
  fail_call({.tag = tag,
             .message = fmt::format("argument {} must have {} dimensions", position + 1, rank),
             .expected = layout,
             .found = text(type),
             .mend = type.shape.size() < rank ? "bring it into that form with reshape" : ""},
            arguments);
}

Slides slides_over(const WindowCall& call, Tensor image, const std::vector<Tensor>& arguments) {
  require_setting(call, "the window", call.window, 1, arguments);
  require_setting(call, "stride", call.stride, 1, arguments);
  require_setting(call, "padding", call.padding, 0, arguments);
  require_setting(call, "dilation", call.dilation, 1, arguments);
  Slides out{Slide{image.size(2), call.window.height, 0, call.stride.height, call.dilation.height, call.padding.height},
             Slide{image.size(3), call.window.width, 0, call.stride.width, call.dilation.width, call.padding.width}};
  for (Slide& s : out) {
    int64_t reach = (s.window - 1) * s.dilation + 1, padded = s.image + 2 * s.padding;
    if (reach > padded)
      fail_call({.tag = call.tag,
                 .message = fmt::format("the window is {} than the padded image", &s == &out[0] ? "higher" : "wider"),
                 .expected = fmt::format("at most {} ({} and {} on either side)", padded, s.image, s.padding),
                 .found = s.dilation == 1 ? fmt::format("{}", reach)
                                          : fmt::format("{} ({} taps, {} apart)", reach, s.window, s.dilation),
                 .mend = "give more padding, a smaller window or a larger image"},
                arguments);
    s.result = (padded - reach) / s.stride + 1;
  }
  return out;
}

SlideIndex gather(Space& space, const Slide& s, const std::string& name, FactorKind results, FactorKind taps) {
  SlideIndex out;
  int y = space.add_factor(name, s.result, results);
  out.result = index_by(y);
  out.image = {{IndexTerm{.factor = y, .stride = s.stride}}, -s.padding};
  out.at = Expr::factor(y) * double(s.stride);
  if (s.window > 1) {
    int k = space.add_factor("k" + name, s.window, taps);
    out.window = index_by(k);
    out.image.terms.push_back({.factor = k, .stride = s.dilation});
    out.tap = Expr::factor(k);
    out.at = out.at + Expr::factor(k) * double(s.dilation);
  }
  out.at = out.at - double(s.padding);
  out.leaves_image = s.overlaps_edge();
  return out;
}

namespace {

/// Whether the tap that meets an image position depends on its remainder by the stride alone, and evenly.
bool takes_padding(const Slide& s) { return s.padding % s.stride == 0 || s.stride == 2; }

}  // namespace

SlideIndex spread(Space& space, const Slide& s, const std::string& name) {
  SlideIndex out;
  if (s.stride == 1) {
    int i = space.add_factor("i" + name, s.image, FactorKind::parallel);
    out.image = index_by(i);
    out.result = {{IndexTerm{i}}, s.padding};
    if (s.window > 1) {
      int k = space.add_factor("k" + name, s.window, FactorKind::sum);
      out.result.terms.push_back({.factor = k, .stride = -s.dilation});
      out.window = index_by(k);
      out.tap = Expr::factor(k);
    }
    out.leaves_result = s.padding < (s.window - 1) * s.dilation || s.image - 1 + s.padding >= s.result;
    return out;
  }
  HETSYNTH_CHECK(s.dilation == 1 && takes_padding(s) && s.image % s.stride == 0, "a slide of whole strides");
  // image = stride q + r and window = stride m + r meet in result = q - m + padding / stride. Where a padding of 2 p +
  // 1 turns the parity over, window = 2 m + 1 - r meets in result = q + r - m + p.
  const bool turns = s.padding % s.stride != 0;
  const int64_t steps = (s.window + s.stride - 1) / s.stride, ahead = s.padding / s.stride;
  int q = space.add_factor("q" + name, s.image / s.stride, FactorKind::parallel);
  int r = space.add_factor("r" + name, s.stride, FactorKind::parallel);
  out.image = {{IndexTerm{.factor = q, .stride = s.stride}, IndexTerm{r}}, 0};
  out.result = index_by(q);
  out.result.offset = ahead;
  if (turns) out.result.terms.push_back(IndexTerm{r});
  out.tap = turns ? 1.0 - Expr::factor(r) : Expr::factor(r);
  if (steps > 1) {
    int m = space.add_factor("m" + name, steps, FactorKind::sum);
    out.result.terms.push_back({.factor = m, .stride = -1});
    out.window.terms.push_back({.factor = m, .stride = s.stride});
    out.tap = Expr::factor(m) * double(s.stride) + out.tap;
  }
  out.window.terms.push_back({.factor = r, .stride = turns ? -1 : 1});
  out.window.offset = turns ? 1 : 0;
  out.leaves_result = ahead < steps - 1 || s.image / s.stride - 1 + ahead + (turns ? 1 : 0) >= s.result;
  out.leaves_window = steps * s.stride > s.window;
  return out;
}

Slide whole_strides(const Slide& s) {
  if (s.stride == 1) return s;
  Slide out = s;
  if (!takes_padding(s)) out.image += s.padding, out.padding = 0;
  out.image = (out.image + s.stride - 1) / s.stride * s.stride;
  return out;
}

Tensor without_added(Tensor image, const Slides& slides) {
  for (int d = 0; d < 2; ++d) {
    const Slide& s = slides[size_t(d)];
    Slide whole = whole_strides(s);
    int64_t from = s.padding - whole.padding;
    if (whole.image != s.image) image = slice(image, 2 + d, from, from + s.image);
  }
  return image;
}

namespace {

class Pool final : public Operator {
 public:
  explicit Pool(PoolRule rule) : rule_(std::move(rule)) {}
  std::string_view tag() const override { return rule_.tag; }
  std::string attributes() const override { return text(rule_.slides); }

  TensorType infer(std::span<const TensorType> inputs) const override {
    for (size_t j = 0; j < inputs.size(); ++j) require_dtype(rule_.tag, j, inputs[j], DType::f32);
    bool image = rule_.computes == PoolRule::Computes::image;
    auto extent = [&](size_t d) { return image ? rule_.slides[d].image : rule_.slides[d].result; };
    return {{inputs[0].shape.at(0), inputs[0].shape.at(1), extent(0), extent(1)}, DType::f32};
  }

  Space space(std::span<const TensorType> inputs, const TensorType&) const override {
    SlideIndex y, x;
    return loops(inputs, &y, &x);
  }

  Expr body(std::span<const TensorType> inputs, const TensorType&) const override {
    SlideIndex y, x;
    loops(inputs, &y, &x);
    return rule_.body(y, x);
  }

  std::vector<Tensor> vjp(const VjpArguments& v) const override { return rule_.vjp(v); }

 private:
  Space loops(std::span<const TensorType> inputs, SlideIndex* y, SlideIndex* x) const {
    Space space;
    DimIndex n = index_by(space.add_factor("n", inputs[0].shape[0], FactorKind::parallel));
    DimIndex c = index_by(space.add_factor("c", inputs[0].shape[1], FactorKind::parallel));
    bool image = rule_.computes == PoolRule::Computes::image;
    auto index = [&](size_t d, const char* name) {
      return image ? spread(space, rule_.slides[d], name)
                   : gather(space, rule_.slides[d], name, FactorKind::parallel, rule_.reduce);
    };
    *y = index(0, "y");
    *x = index(1, "x");
    Access images{{n, c, y->image, x->image}, y->leaves_image || x->leaves_image};
    Access results{{n, c, y->result, x->result}, y->leaves_result || x->leaves_result};
    for (bool of_image : rule_.reads_image) space.inputs.push_back(of_image ? images : results);
    space.output = image ? images : results;
    return space;
  }

  PoolRule rule_;
};

}  // namespace

std::shared_ptr<const Operator> pool_operator(PoolRule rule) { return std::make_shared<Pool>(std::move(rule)); }

}  // namespace hetsynth
