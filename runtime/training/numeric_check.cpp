#include "runtime/training/numeric_check.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <random>

#include "dsl/ir/interpreter.h"
#include "dsl/ir/product_sum.h"
#include "dsl/transform/unroll.h"

namespace hetsynth {
namespace {

/// Executions with noise. Few, as the largest movement of a whole tensor is looked at.
constexpr int noisy_executions = 3;
constexpr double margin = 8;
/// Of exp, log and the like in generated code, in units of the last place.
constexpr double function_ulps = 4;
constexpr double roundoff_f32 = 0x1p-24;
/// Evaluations of bodies per second, cautiously.
constexpr double evaluations_per_second = 5e6;

Expr absolute(const Expr& e) { return maximum(e, -e); }

/// The body with every difference as the sum of its parts' magnitudes: cancellation does not make errors smaller.
Expr magnitude_of(const Expr& e) {
  switch (e.kind()) {
    case ExprKind::add:
    case ExprKind::sub:
      return magnitude_of(e.arg(0)) + magnitude_of(e.arg(1));
    case ExprKind::mul:
      return magnitude_of(e.arg(0)) * magnitude_of(e.arg(1));
    case ExprKind::div:
      return magnitude_of(e.arg(0)) / absolute(e.arg(1));
    case ExprKind::neg:
      return magnitude_of(e.arg(0));
    case ExprKind::select:
      return select(e.arg(0), magnitude_of(e.arg(1)), magnitude_of(e.arg(2)));
    case ExprKind::constant:
      return std::abs(e.value());
    default:
      return absolute(e);
  }
}

/// Whether the value is an integer (an index, a count, a choice), which is computed without rounding.
bool is_integer(const Expr& e) {
  switch (e.kind()) {
    case ExprKind::factor:
    case ExprKind::step:
    case ExprKind::floor:
    case ExprKind::less:
    case ExprKind::less_equal:
    case ExprKind::equal:
      return true;
    case ExprKind::constant:
      return std::floor(e.value()) == e.value();
    case ExprKind::neg:
    case ExprKind::add:
    case ExprKind::sub:
    case ExprKind::mul:
    case ExprKind::maximum:
    case ExprKind::minimum:
      return std::all_of(e.args().begin(), e.args().end(), is_integer);
    case ExprKind::select:
      return is_integer(e.arg(1)) && is_integer(e.arg(2));
    default:
      return false;
  }
}

/// Units of roundoff that computing the expression costs, and that of the coarsest of its formats.
struct Cost {
  double units = 0;
  double roundoff = roundoff_f32, absolute = 0;

  void add_format(DType dtype) {
    const HalfFormat* half = half_format(dtype);
    if (!half) return;
    roundoff = std::max(roundoff, std::ldexp(1, -half->fraction_bits - 1));
    absolute = std::max(absolute, std::ldexp(1, half->least_exponent - half->fraction_bits - 1));
  }
};

void add_cost(const Expr& e, Cost& cost) {
  if (is_integer(e) && e.kind() != ExprKind::constant) return;
  switch (e.kind()) {
    case ExprKind::add:
    case ExprKind::sub:
    case ExprKind::mul:
    case ExprKind::div:
      cost.units += 1;
      break;
    case ExprKind::constant:
      if (double(float(e.value())) != e.value()) cost.units += 1;
      break;
    case ExprKind::exp:
    case ExprKind::log:
    case ExprKind::sqrt:
    case ExprKind::tanh:
    case ExprKind::erf:
    case ExprKind::sin:
    case ExprKind::cos:
    case ExprKind::power:
      cost.units += function_ulps;
      break;
    case ExprKind::round_bf16:
    case ExprKind::round_fp16:
      cost.add_format(*rounds_to(e.kind()));
      break;
    case ExprKind::select:
      add_cost(e.arg(1), cost);
      add_cost(e.arg(2), cost);
      return;
    default:
      break;
  }
  for (const Expr& arg : e.args()) add_cost(arg, cost);
}

/// Terms of the sum that one element of the result is; 1 if it is none.
int64_t sum_length(const Space& space) {
  int64_t terms = 1;
  for (const Factor& f : space.factors)
    if (f.kind == FactorKind::sum) terms *= std::max<int64_t>(f.size, 1);
  return terms;
}

/// How an element of a node's result errs in itself: as a part of the sum of its terms' magnitudes, and whatever that
/// is, by half of the least subnormal number.
struct Error {
  double relative = 0, absolute = 0;
};

Error error_of(const Node& node) {
  if (node.type.dtype == DType::i32 || is_integer(node.body)) return {};
  Cost cost;
  add_cost(node.body, cost);
  cost.add_format(node.type.dtype);
  int64_t terms = sum_length(node.space);
  if (terms > 1) cost.units += 2 * std::sqrt(double(terms));
  if (cost.roundoff > roundoff_f32) cost.units += 1;
  return {cost.units * cost.roundoff, cost.absolute};
}

std::vector<LocalArray> inputs_of(const Node& node, const std::vector<Array>& values) {
  std::vector<LocalArray> inputs;
  for (NodeId input : node.inputs)
    inputs.push_back({values[size_t(input)], std::vector<int64_t>(values[size_t(input)].shape.size(), 0)});
  return inputs;
}

Array evaluated(const Node& node, const Expr& body, const std::vector<LocalArray>& inputs,
                const EvaluationContext& context) {
  return evaluate(node.space, body, inputs, full_ranges(node.space), node.type.shape, context).array;
}

bool is_product_of_inputs(const Expr& e) {
  return e.kind() == ExprKind::input ||
         (e.kind() == ExprKind::mul && is_product_of_inputs(e.arg(0)) && is_product_of_inputs(e.arg(1)));
}

/// The sum of magnitudes of the terms of each element of `result`.
Array magnitudes(const Node& node, std::vector<LocalArray> inputs, const Array& result,
                 const EvaluationContext& context) {
  if (node.space.reduction() == FactorKind::max) {  // one of the terms, as it is
    Array out = result;
    for (double& v : out.values) v = std::abs(v);
    return out;
  }
  if (!is_product_of_inputs(node.body)) return evaluated(node, magnitude_of(node.body), inputs, context);
  // The form of matrix products, which the interpreter is quick at.
  for (LocalArray& input : inputs)
    for (double& v : input.array.values) v = std::abs(v);
  return evaluated(node, node.body, inputs, context);
}

/// The program's values where every result is moved at random by what rounding may do to it.
std::vector<Array> interpret_with_noise(const Program& program, const Bindings& leaves,
                                        const EvaluationContext& context, std::mt19937_64& random) {
  std::vector<Array> values(program.nodes.size());
  for (const Node& node : program.nodes) {
    Array& out = values[size_t(node.id)];
    if (node.leaf()) {
      out = leaves.at(node.id);
      continue;
    }
    const std::vector<LocalArray> inputs = inputs_of(node, values);
    out = evaluated(node, node.body, inputs, context);
    const Error error = error_of(node);
    if (error.relative == 0) continue;
    const Array magnitude = magnitudes(node, inputs, out, context);
    for (size_t e = 0; e < out.values.size(); ++e) {
      double direction = 2 * double(random() >> 11) * 0x1p-53 - 1;
      if (std::isfinite(magnitude.values[e]))
        out.values[e] += direction * (error.relative * magnitude.values[e] + error.absolute);
    }
  }
  return values;
}

/// By node: terms of the longest sum among the nodes that lead to it.
std::vector<int64_t> longest_sums(const Program& program) {
  std::vector<int64_t> longest(program.nodes.size(), 0);
  for (const Node& node : program.nodes) {
    if (node.leaf()) continue;
    int64_t& mine = longest[size_t(node.id)];
    mine = sum_length(node.space);
    for (NodeId input : node.inputs) mine = std::max(mine, longest[size_t(input)]);
  }
  return longest;
}

double largest_difference(const Array& a, const Array& b) {
  double largest = 0;
  for (size_t e = 0; e < a.values.size(); ++e) {
    if (a.values[e] == b.values[e]) continue;  // infinities
    if (std::isnan(a.values[e]) && std::isnan(b.values[e])) continue;
    double difference = std::abs(a.values[e] - b.values[e]);
    if (!(difference <= largest)) largest = difference;
    if (std::isnan(largest)) return largest;
  }
  return largest;
}

/// A tensor that can be read after the step, and the node that it should be.
struct Readable {
  std::string name;
  NodeId node = -1;
  Array found;
};

std::vector<Readable> readable_after(Executor& executor, double loss) {
  const Program& program = executor.reference();
  std::vector<Readable> out;
  if (program.loss >= 0) out.push_back({"loss", program.loss, Array({}, loss)});
  for (const Update& update : program.updates)
    out.push_back({program[update.target].name, update.value, to_array(executor.read(update.target))});
  for (const NamedOutput& output : program.outputs)
    out.push_back({output.name, output.node, to_array(executor.read_output(output.node))});
  return out;
}

}  // namespace

bool NumericCheck::agrees() const {
  return std::all_of(tensors.begin(), tensors.end(), [](const TensorError& t) { return t.agrees(); });
}

const TensorError* NumericCheck::worst() const {
  auto part = [](const TensorError& t) {
    if (std::isnan(t.error)) return std::numeric_limits<double>::infinity();
    return t.error == 0 ? 0 : t.error / t.bound;
  };
  auto found = std::max_element(tensors.begin(), tensors.end(),
                                [&](const TensorError& a, const TensorError& b) { return part(a) < part(b); });
  return found == tensors.end() ? nullptr : &*found;
}

double numeric_check_seconds(const Program& reference) {
  double evaluations = 0;
  for (const Node& node : reference.nodes)
    if (!node.leaf()) evaluations += double(reference.turns(node.id)) * evaluation_cost(node.space, node.body);
  return evaluations * (1 + 2 * noisy_executions) / evaluations_per_second;
}

NumericCheck check_numerically(Executor& executor, const BatchSource& data, int64_t step) {
  auto start = std::chrono::steady_clock::now();
  // Every turn of a loop rounds anew.
  const Unrolling flat = unroll(executor.reference());
  const Program& program = flat.program;
  Bindings given = initial_values(executor.reference(), executor.seed()), leaves;
  given.merge(whole_batch(executor.reference(), data, step));
  for (auto& [leaf, value] : given) leaves[flat.copies[size_t(leaf)].back()] = std::move(value);
  const EvaluationContext context{executor.seed(), step};
  const StepReport report = executor.step(step, data);
  const std::vector<Array> expected = interpret(program, leaves, context);
  const std::vector<int64_t> longest = longest_sums(program);
  NumericCheck check;
  std::vector<Readable> readable = readable_after(executor, report.loss);
  for (Readable& r : readable) r.node = flat.copies[size_t(r.node)].back();
  for (const Readable& r : readable) {
    TensorError t{r.name, 0, largest_difference(expected[size_t(r.node)], r.found), 0, longest[size_t(r.node)]};
    for (double v : expected[size_t(r.node)].values)
      if (std::isfinite(v))
        t.largest = std::max(t.largest, std::abs(v));
      else
        t.finite = false;
    // What is stored is rounded once in any case.
    t.bound = t.largest * roundoff_f32;
    check.tensors.push_back(std::move(t));
  }
  std::mt19937_64 random(executor.seed());
  for (int i = 0; i < noisy_executions; ++i) {
    const std::vector<Array> moved = interpret_with_noise(program, leaves, context, random);
    for (size_t r = 0; r < readable.size(); ++r) {
      const size_t node = size_t(readable[r].node);
      check.tensors[r].bound =
          std::max(check.tensors[r].bound, margin * largest_difference(expected[node], moved[node]));
    }
  }
  check.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return check;
}

}  // namespace hetsynth
