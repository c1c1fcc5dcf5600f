#include "tests/dsl/operator_testing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace hetsynth {
namespace {

LocalArray whole(const Array& array) { return {array, std::vector<int64_t>(array.shape.size(), 0)}; }

/// Elements [range.lo, range.hi) of one dimension.
LocalArray cut(const LocalArray& in, int dim, Range range) {
  LocalArray out;
  out.offset = in.offset;
  out.offset[dim] = range.lo;
  out.array.shape = in.array.shape;
  out.array.shape[dim] = range.hi - range.lo;
  int64_t inner = 1, outer = 1, extent = in.array.shape[dim], skip = range.lo - in.offset[dim];
  for (size_t d = 0; d < in.array.shape.size(); ++d)
    (int(d) < dim ? outer : inner) *= int(d) == dim ? 1 : in.array.shape[d];
  for (int64_t o = 0; o < outer; ++o) {
    auto first = in.array.values.begin() + (o * extent + skip) * inner;
    out.array.values.insert(out.array.values.end(), first, first + (range.hi - range.lo) * inner);
  }
  return out;
}

/// The parts of [0, size), 1 to 4 of them, empty ones and ones of a single element among them.
std::vector<Range> random_cuts(int64_t size, std::mt19937& random) {
  int parts = std::uniform_int_distribution<int>(1, 4)(random);
  std::vector<int64_t> bounds = {0, size};
  for (int i = 1; i < parts; ++i) bounds.push_back(std::uniform_int_distribution<int64_t>(0, size)(random));
  std::sort(bounds.begin(), bounds.end());
  std::vector<Range> out;
  for (size_t i = 1; i < bounds.size(); ++i) out.push_back({bounds[i - 1], bounds[i]});
  return out;
}

std::vector<LocalArray> wholes(const Node& node, const std::vector<Array>& values) {
  std::vector<LocalArray> out;
  for (NodeId input : node.inputs) out.push_back(whole(values[input]));
  return out;
}

/// Adds (or takes the maximum of) a part at its place in the whole.
void combine(Array& total, const LocalArray& part, bool maximum, bool reduced) {
  std::vector<int64_t> strides = row_major_strides(total.shape), index(total.shape.size(), 0);
  for (double value : part.array.values) {
    int64_t at = 0;
    for (size_t d = 0; d < index.size(); ++d) at += (part.offset[d] + index[d]) * strides[d];
    double& sum = total.values[size_t(at)];
    sum = maximum ? std::max(sum, value) : reduced ? sum + value : value;
    for (size_t d = index.size(); d-- > 0;) {
      if (++index[d] < part.array.shape[d]) break;
      index[d] = 0;
    }
  }
}

std::string difference(const Array& expected, const Array& found, const std::string& what) {
  if (expected.shape != found.shape)
    return fmt::format("{}: shape {} instead of {}", what, text(found.shape), text(expected.shape));
  for (size_t i = 0; i < expected.values.size(); ++i) {
    double a = expected.values[i], b = found.values[i];
    // Sums in another order: a few hundred terms at most, each rounded to 1e-16 of the largest.
    if (!(a == b || std::abs(a - b) <= 1e-11 * std::max(1.0, std::abs(a))))
      return fmt::format("{}: element {} is {} instead of {}", what, i, b, a);
  }
  return "";
}

}  // namespace

TracedSample trace_sample(const OperatorSample& sample) {
  TracedSample out;
  Trace trace("sample.cpp");
  std::vector<Tensor> inputs;
  auto here = std::source_location::current();
  for (const TensorType& type : sample.inputs) {
    NodeKind kind = type.dtype == DType::i32 ? NodeKind::input : NodeKind::parameter;
    inputs.push_back(trace.add_leaf(kind, fmt::format("in{}", inputs.size()), type, here));
    out.inputs.push_back(inputs.back().node());
  }
  Tensor output = emit(sample.op, inputs);
  Tensor weight = trace.add_leaf(NodeKind::parameter, "weight", {output.shape(), output.dtype()}, here);
  trace.phase = Phase::backward;
  for (Tensor gradient : sample.op->vjp({inputs, output, weight})) out.gradients.push_back(gradient.node());
  out.weight = weight.node();
  out.output = output.node();
  out.program = trace.program;
  return out;
}

Array spread_values(const Shape& shape, const OperatorSample::Domain& domain, bool integers, std::mt19937& random) {
  Array out(shape);
  if (integers) {
    std::uniform_int_distribution<int64_t> draw{int64_t(domain.low), int64_t(domain.high)};
    for (double& value : out.values) value = double(draw(random));
    return out;
  }
  double count = double(out.values.size());
  double offset = std::uniform_real_distribution<double>(0.2, 0.45)(random);
  for (size_t i = 0; i < out.values.size(); ++i)
    out.values[i] = domain.low + (double(i) + offset) * (domain.high - domain.low) / count;
  std::shuffle(out.values.begin(), out.values.end(), random);
  return out;
}

Bindings spread_leaves(const Program& program, std::mt19937& random) {
  Bindings out;
  for (const Node& node : program.nodes) {
    if (!node.leaf()) continue;
    bool integers = node.type.dtype == DType::i32;
    OperatorSample::Domain domain;
    if (integers) domain = {0, double(node.data.classes - 1)};
    if (node.kind == NodeKind::state) domain = {0, 2};  // second moments are never negative
    out[node.id] = spread_values(node.type.shape, domain, integers, random);
  }
  return out;
}

Bindings spread_leaves(const TracedSample& traced, const OperatorSample& sample, std::mt19937& random) {
  Bindings out;
  for (size_t j = 0; j < traced.inputs.size(); ++j) {
    OperatorSample::Domain domain = j < sample.domains.size() ? sample.domains[j] : OperatorSample::Domain{};
    const TensorType& type = sample.inputs[j];
    out[traced.inputs[j]] = spread_values(type.shape, domain, type.dtype == DType::i32, random);
  }
  out[traced.weight] = spread_values(traced.program[traced.weight].type.shape, {}, false, random);
  return out;
}

std::string check_splits(const Node& node, const std::vector<Array>& values, const EvaluationContext& context,
                         std::mt19937& random) {
  const Space& space = node.space;
  std::vector<LocalArray> inputs = wholes(node, values);
  Array expected = evaluate(space, node.body, inputs, full_ranges(space), node.type.shape, context).array;
  std::vector<int> splittable;
  for (int f = 0; f < int(space.factors.size()); ++f) {
    bool cuts_output = cut_of(space, space.output, node.type.shape, f).has_value();
    if (space.factors[f].reduced() || (space.factors[f].kind == FactorKind::parallel && cuts_output))
      splittable.push_back(f);
  }
  std::shuffle(splittable.begin(), splittable.end(), random);
  if (splittable.size() > 2) splittable.resize(2);

  std::vector<std::vector<Range>> parts = {full_ranges(space)};
  std::string what = text(space) + " cut along";
  for (int f : splittable) {
    std::vector<std::vector<Range>> finer;
    what += " " + space.factors[f].name;
    for (Range range : random_cuts(space.factors[f].size, random)) {
      what += fmt::format(" [{},{})", range.lo, range.hi);
      for (std::vector<Range> part : parts) {
        part[f] = range;
        finer.push_back(std::move(part));
      }
    }
    parts = std::move(finer);
  }

  bool maximum = space.reduction() == FactorKind::max;
  Array total(node.type.shape, maximum ? -std::numeric_limits<double>::infinity() : 0.0);
  for (const std::vector<Range>& part : parts) {
    std::vector<LocalArray> held = inputs;
    for (int f : splittable)
      for (size_t j = 0; j < held.size(); ++j)
        if (auto at = cut_of(space, space.inputs[j], values[node.inputs[j]].shape, f))
          held[j] = cut(held[j], at->dim, {part[f].lo * at->unit, part[f].hi * at->unit});
    LocalArray result = evaluate(space, node.body, held, part, node.type.shape, context);
    for (int f : splittable) {
      auto at = cut_of(space, space.output, node.type.shape, f);
      if (at && result.array.shape[at->dim] != (part[f].hi - part[f].lo) * at->unit)
        return what + ": a part of the output has another extent than cut_of says";
    }
    combine(total, result, maximum, space.reduction().has_value());
  }
  return difference(expected, total, what);
}

std::string check_linearity(const Node& node, const std::vector<Array>& values, const EvaluationContext& context,
                            std::mt19937& random) {
  if (node.space.reduction() == FactorKind::max) return "";
  for (unsigned set = 1; set < (1u << std::min<size_t>(node.inputs.size(), 8)); ++set) {
    std::set<int> operands;
    for (int j = 0; j < int(node.inputs.size()); ++j)
      if (set >> j & 1) operands.insert(j);
    if (linearity(node.body, operands) != Linearity::linear) continue;
    std::vector<LocalArray> sum = wholes(node, values), first = sum, second = sum;
    for (int j : operands) {
      second[j].array = spread_values(sum[j].array.shape, {}, false, random);
      for (size_t i = 0; i < sum[j].array.values.size(); ++i) sum[j].array.values[i] += second[j].array.values[i];
    }
    auto run = [&](const std::vector<LocalArray>& inputs) {
      return evaluate(node.space, node.body, inputs, full_ranges(node.space), node.type.shape, context).array;
    };
    Array parts = run(first), other = run(second);
    for (size_t i = 0; i < parts.values.size(); ++i) parts.values[i] += other.values[i];
    std::string found = difference(run(sum), parts, text(node.body) + " of a sum of inputs");
    if (!found.empty()) return found;
  }
  return "";
}

std::string check_type(const Node& node, const std::vector<Array>& values) {
  const Space& space = node.space;
  if (space.inputs.size() != node.inputs.size()) return "an access for every input is needed";
  for (size_t j = 0; j < node.inputs.size(); ++j)
    if (space.inputs[j].dims.size() != values[node.inputs[j]].shape.size())
      return fmt::format("access of input {} has another rank than the input", j);
  std::set<FactorKind> reductions;
  for (int f = 0; f < int(space.factors.size()); ++f) {
    if (space.factors[f].reduced()) reductions.insert(space.factors[f].kind);
    if (space.factors[f].reduced() == mentions_factor(space.output, f))
      return "factor " + space.factors[f].name + " must either be reduced or index the output";
    for (int g = 0; g < f; ++g)
      if (space.factors[g].name == space.factors[f].name) return "two factors are named " + space.factors[f].name;
  }
  if (reductions.size() > 1) return "sum and maximum in one operator";
  LocalArray result = evaluate(space, node.body, wholes(node, values), full_ranges(space), node.type.shape, {});
  if (result.array.shape != node.type.shape)
    return fmt::format("the space computes {}, the type says {}", text(result.array.shape), text(node.type.shape));
  return "";
}

}  // namespace hetsynth
