#include "codegen/passes/convolution.h"

#include <algorithm>
#include <map>

#include "codegen/passes/contraction.h"

namespace hetsynth::codegen {
namespace {

constexpr int image = 0, kernel = 1, result = 2;

class Matcher {
 public:
  Matcher(const LocalOp& op, const LocalProgram& program, const Layouts& layouts, std::array<int, 3> operand)
      : op_(op), program_(program) {
    out_.operand = operand;
    for (int part = 0; part < 3; ++part) {
      int j = operand[part];
      access_[part] = j < 0 ? &op.output : &op.inputs[j].access;
      value_[part] = j < 0 ? op.result : op.inputs[j].value;
      layout_[part] = &layouts.of[value_[part]];
      if (j < 0) out_.computes = ConvolutionPart(part);
    }
  }

  std::optional<LocalConvolution> run() {
    for (const Access* access : access_) {
      if (access->dims.size() != 4) return std::nullopt;
      for (const DimIndex& dim : access->dims)
        for (const IndexTerm& term : dim.terms)
          if (!term.plain()) return std::nullopt;
    }
    if (!match_batch() || !match_channels() || !match_slide(0) || !match_slide(1)) return std::nullopt;
    size_t loops = 0;
    for (int f = 0; f < int(op_.factors.size()); ++f) loops += op_.extent(f) != 1;
    if (used_ != loops) return std::nullopt;
    bool slides = false;
    for (const LocalSlide& s : out_.slides)
      slides = slides || s.window != 1 || s.stride != 1 || s.padding != 0 || s.image != s.result;
    if (!slides) return std::nullopt;
    for (int part = 0; part < 3; ++part)
      for (size_t d = 0; d < 4; ++d) out_.strides[part][d] = layout_[part]->strides[d];
    return out_;
  }

 private:
  const DimIndex& index(int part, size_t dim) const { return access_[part]->dims[dim]; }
  bool is_result(int part) const { return out_.operand[part] < 0; }

  /// Begins the part's window at this index of a dimension.
  void begin_at(int part, size_t dim, int64_t first) {
    out_.offset[part] += (first - layout_[part]->origin[dim]) * layout_[part]->strides[dim];
  }
  int64_t first(const DimIndex& dim) const {
    int64_t at = dim.offset;
    for (const IndexTerm& t : dim.terms) at += op_.ranges[t.factor].lo * t.stride;
    return at;
  }

  bool match_batch() {
    const DimIndex &a = index(image, 0), &b = index(result, 0);
    if (a.terms != b.terms || a.terms.size() > 1 || (!a.terms.empty() && a.terms[0].stride != 1)) return false;
    if (!a.terms.empty()) {
      out_.batch = count(a.terms[0].factor);
    }
    begin_at(image, 0, first(a));
    begin_at(result, 0, first(b));
    return true;
  }

  /// Image channels are (group, channel), results and the kernel's outputs (group, output).
  bool match_channels() {
    const DimIndex &all_channels = index(image, 1), &outputs = index(result, 1), &channels = index(kernel, 1);
    if (outputs.terms != index(kernel, 0).terms || channels.terms.size() > 1) return false;
    int group = -1, inside = -1;
    int64_t channel_block = 1, output_block = 1;
    for (const IndexTerm& t : all_channels.terms) {
      auto meets = std::find_if(outputs.terms.begin(), outputs.terms.end(),
                                [&](const IndexTerm& o) { return o.factor == t.factor; });
      if (meets != outputs.terms.end()) {
        if (group >= 0) return false;
        group = t.factor, channel_block = t.stride, output_block = meets->stride;
      } else {
        if (channels.terms.empty() || t != channels.terms[0] || t.stride != 1) return false;
        inside = t.factor;
      }
    }
    if (channels.terms.size() != size_t(inside >= 0)) return false;
    int output = -1;
    for (const IndexTerm& t : outputs.terms) {
      if (t.factor == group) continue;
      if (output >= 0 || t.stride != 1) return false;
      output = t.factor;
    }
    out_.groups = count(group);
    out_.channels = count(inside);
    out_.outputs = count(output);
    if (group >= 0 && (channel_block != out_.channels || output_block != out_.outputs)) return false;
    begin_at(image, 1, first(all_channels));
    begin_at(result, 1, first(outputs));
    begin_at(kernel, 0, first(index(kernel, 0)));
    begin_at(kernel, 1, first(channels));
    return true;
  }

  int64_t count(int factor) {
    if (factor < 0) return 1;
    ++used_;
    return op_.extent(factor);
  }

  /// Coefficients of a factor in image, kernel and result index.
  using Coefficients = std::array<int64_t, 3>;

  bool match_slide(size_t s) {
    LocalSlide& slide = out_.slides[s];
    size_t d = 2 + s;
    std::map<int, Coefficients> factors;
    for (int part = 0; part < 3; ++part)
      for (const IndexTerm& t : index(part, d).terms) factors[t.factor][part] += t.stride;
    used_ += factors.size();
    bool all_taps = false;
    if (!relate(slide, factors, all_taps)) return false;
    Range windows[3];
    for (int part = 0; part < 3; ++part) {
      windows[part] = window(part, d);
      if (windows[part].hi <= windows[part].lo) return false;
      begin_at(part, d, windows[part].lo);
    }
    if (all_taps && !(windows[kernel] == Range{0, program_.values[value_[kernel]].type.shape[d]})) return false;
    slide.image = windows[image].hi - windows[image].lo;
    slide.window = windows[kernel].hi - windows[kernel].lo;
    slide.result = windows[result].hi - windows[result].lo;
    slide.padding = slide.stride * (index(result, d).offset - windows[result].lo) +
                    slide.dilation * (index(kernel, d).offset - windows[kernel].lo) -
                    (index(image, d).offset - windows[image].lo);
    return true;
  }

  /// What is looped over; where reading outside gives 0, what there is to read of that. Ranks may hold more: a halo
  /// that other windows need.
  Range window(int part, size_t d) const {
    const Range held = program_.values[value_[part]].ranges[d];
    const Bounds reach = bounds(index(part, d), op_.ranges);
    if (is_result(part) || !access_[part]->zero_outside) return {reach.lo, reach.hi + 1};
    return {std::max(held.lo, reach.lo), std::min(held.hi, reach.hi + 1)};
  }

  /// Finds stride and dilation from how factors move the three indices, as gather and spread write them (window.h):
  ///   image * (s,0,1) and (d,1,0): results and taps;   (1,0,1) and (0,1,-d): image and taps of stride 1;
  ///   (s,0,1), (1,1,0) and (0,s,-1): quotient, remainder and steps of an image written in whole strides;
  ///   (2,0,1), (1,-1,1) and (0,2,-1): the same where an odd padding turns the remainder over.
  bool relate(LocalSlide& slide, const std::map<int, Coefficients>& factors, bool& all_taps) const {
    int moves_result = 0, remainder = -1, taps = 0, steps = 0;
    for (const auto& [f, c] : factors) {
      if (c[kernel] == 0 && c[result] == 1) {
        ++moves_result;
        slide.stride = c[image];
      } else if (c[kernel] == 1 && c[result] == 0) {
        ++taps;
        remainder = f;
        slide.dilation = c[image];
      } else if (c[image] == 1 && c[kernel] == -1 && c[result] == 1) {
        ++taps;
        remainder = f;
        slide.stride = 2;
      } else if (c[image] == 0 && c[kernel] == 1) {
        ++steps;
        slide.dilation = -c[result];
      } else if (c[image] == 0 && c[result] == -1) {
        ++steps;
        slide.stride = c[kernel];
      } else {
        return false;
      }
    }
    if (slide.stride < 1 || slide.dilation < 1 || moves_result > 1 || taps > 1 || steps > 1) return false;
    for (const auto& [f, c] : factors)
      if (c[image] != slide.stride * c[result] + slide.dilation * c[kernel]) return false;
    if (!is_result(image)) return steps == 0;
    if (taps == 0) return slide.stride == 1;
    all_taps = true;
    return moves_result + steps > 0 && slide.dilation == 1 && op_.ranges[remainder] == Range{0, slide.stride};
  }

  const LocalOp& op_;
  const LocalProgram& program_;
  LocalConvolution out_;
  std::array<const Access*, 3> access_{};
  std::array<ValueId, 3> value_{};
  std::array<const Layout*, 3> layout_{};
  size_t used_ = 0;  ///< factors that have found their place
};

}  // namespace

std::optional<LocalConvolution> match_convolution(const LocalOp& op, const LocalProgram& program,
                                                  const Layouts& layouts) {
  if (!is_product(op) || follows_turn(op.output)) return std::nullopt;
  for (const Operand& operand : op.inputs)
    if (follows_turn(operand.access)) return std::nullopt;
  for (int f = 0; f < int(op.factors.size()); ++f)
    if (op.extent(f) == 0) return std::nullopt;  // nothing to compute, or zeros
  for (int part : {result, image, kernel})
    for (int first : {0, 1}) {
      std::array<int, 3> operand{first, first, first};
      operand[part == image ? kernel : part == kernel ? result : kernel] = 1 - first;
      operand[part] = -1;
      if (auto found = Matcher(op, program, layouts, operand).run()) return found;
    }
  return std::nullopt;
}

}  // namespace hetsynth::codegen
