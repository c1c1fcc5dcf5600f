#include "verify/source/meaning/unknowns.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "dsl/ir/arithmetic.h"
#include "dsl/ir/space.h"

namespace hetsynth::source {
namespace {

/// Of numbers that a tensor is compared with, and of points of the factors at which they are looked at.
constexpr size_t most_bounds = 64;
constexpr int64_t most_points = 4096;
/// Bounds beyond it are no numbers that integers could be; nor numbers that anything could be added to.
constexpr double largest_bound = 1e15;
/// The next number after the largest float32: an overflow is decided there.
constexpr double largest_real = 0x1p128;
/// How far, in parts of it, from a bound that no float32 is: numbers in memory are on one side of it or the other, and
/// constants that it comes from are rounded in one text and not in another.
constexpr double beside = 0x1p-16;
/// Where a function is looked for a bound, and how closely.
constexpr int least_power = -6, most_power = 39, bisections = 40;

void note_inputs(const Expr& e, std::set<int>& out) {
  if (e.kind() == ExprKind::input) out.insert(e.index());
  for (const Expr& arg : e.args()) note_inputs(arg, out);
}

void note_constants(const Expr& e, std::set<double>& out) {
  if (e.kind() == ExprKind::constant) out.insert(e.value());
  for (const Expr& arg : e.args()) note_constants(arg, out);
}

/// Of an expression of factors and constants, and of inputs that are all worth `input`.
std::optional<double> value_at(const Expr& e, const std::vector<int64_t>& factors, std::optional<double> input = {}) {
  switch (e.kind()) {
    case ExprKind::constant:
      return e.value();
    case ExprKind::factor:
      return double(factors[size_t(e.index())]);
    case ExprKind::input:
      return input;
    case ExprKind::step:
    case ExprKind::random:
      return std::nullopt;
    case ExprKind::select: {
      const std::optional<double> condition = value_at(e.arg(0), factors, input);
      return condition ? value_at(e.arg(*condition != 0 ? 1 : 2), factors, input) : std::nullopt;
    }
    default: {
      const std::optional<double> a = value_at(e.arg(0), factors, input);
      const std::optional<double> b = e.args().size() > 1 ? value_at(e.arg(1), factors, input) : 0.0;
      return a && b ? arithmetic(e.kind(), *a, *b) : std::nullopt;
    }
  }
}

/// The numbers that such an expression may be, or some of them.
std::set<double> values_of(const Expr& e, const Space& space) {
  std::set<double> out;
  std::vector<int64_t> factors(space.factors.size(), 0);
  for (int64_t point = 0; point < most_points && out.size() < most_bounds; ++point) {
    if (const std::optional<double> value = value_at(e, factors)) out.insert(*value);
    size_t f = 0;
    for (; f < factors.size(); ++f) {
      if (!mentions_factor(e, int(f))) continue;
      if (++factors[f] < space.factors[f].size) break;
      factors[f] = 0;
    }
    if (f == factors.size()) break;
  }
  return out;
}

/// Numbers at which a function of one input is worth `bound`: between powers of ten.
std::set<double> crossings(const Expr& e, double bound, const Space& space) {
  if (e.kind() == ExprKind::input) return {bound};
  const std::vector<int64_t> factors(space.factors.size(), 0);
  const auto above = [&](double x) -> std::optional<bool> {
    const std::optional<double> value = value_at(e, factors, x);
    if (!value || std::isnan(*value)) return std::nullopt;
    return *value > bound;
  };
  std::set<double> out;
  for (double sign : {-1.0, 1.0})
    for (int power = least_power; power < most_power; ++power) {
      double low = sign * std::pow(10, power), high = 10 * low;
      const std::optional<bool> side = above(low), other = above(high);
      if (!side || !other || *side == *other) continue;
      for (int i = 0; i < bisections; ++i) (above((low + high) / 2) == side ? low : high) = (low + high) / 2;
      const double whole = std::round(high);
      out.insert(std::abs(high - whole) < 1e-6 ? whole : high);
    }
  const std::optional<bool> below_zero = above(-std::pow(10, least_power)), behind = above(std::pow(10, least_power));
  if (below_zero && behind && *below_zero != *behind) out.insert(0);
  return out;
}

/// The number if memory can hold it, else one on either side of it.
std::vector<double> reachable(double at) {
  if (double(float(at)) == at) return {at};
  return {at * (1 - beside), at * (1 + beside)};
}

/// Integers that are compared with a factor name a position of it.
void note_positions(const Expr& e, const Node& node, std::vector<int64_t>& range) {
  if (e.kind() == ExprKind::equal && e.arg(0).kind() == ExprKind::input && e.arg(1).kind() == ExprKind::factor) {
    int64_t& entry = range[size_t(node.inputs[size_t(e.arg(0).index())])];
    entry = std::max(entry, node.space.factors[size_t(e.arg(1).index())].size);
  }
  for (const Expr& arg : e.args()) note_positions(arg, node, range);
}

/// Whatever the step may be compared with, and what is next to it.
void note_steps(const Expr& e, std::set<int64_t>& steps) {
  if (!mentions(e, ExprKind::step)) return;
  if (compares(e.kind()) || e.kind() == ExprKind::floor) {
    std::set<double> constants;
    note_constants(e, constants);
    for (double a : constants)
      for (double b : constants)
        for (double bound : {a, 2 * a, a + b})
          for (double step : {bound - 1, bound, bound + 1})
            if (step >= 0 && step < 1e9) steps.insert(int64_t(step));
  }
  for (const Expr& arg : e.args()) note_steps(arg, steps);
}

/// splitmix64 (Steele et al. 2014).
uint64_t mixed(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

double unit(uint64_t bits) { return double(bits >> 11) * 0x1p-53; }

}  // namespace

Unknowns::Unknowns(const Program& reference, const SpmdProgram& program) : reference_(reference), program_(program) {
  const size_t nodes = reference.nodes.size();
  integer_range_.assign(nodes, 0);
  bounds_.resize(nodes);
  meets_.assign(nodes, false);
  std::set<int64_t> steps;
  for (size_t n = nodes; n-- > 0;) {
    const Node& node = reference.nodes[n];
    std::vector<Bound>& bounds = bounds_[n];
    std::sort(bounds.begin(), bounds.end());
    bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());
    if (node.leaf()) continue;
    note_positions(node.body, node, integer_range_);
    note_comparisons(node.body, node);
    note_steps(node.body, steps);
    if (node.body.kind() != ExprKind::input || node.space.reduction()) continue;
    // What is moved is compared as what it is moved to.
    const size_t from = size_t(node.inputs[size_t(node.body.index())]);
    integer_range_[from] = std::max(integer_range_[from], integer_range_[n]);
    bounds_[from].insert(bounds_[from].end(), bounds.begin(), bounds.end());
    meets_[from] = meets_[from] || meets_[n];
  }
  steps_.assign(steps.begin(), steps.end());
  for (const Value& value : program.values) asks_.push_back(asked_of(value.node));
}

void Unknowns::note_comparisons(const Expr& e, const Node& node) {
  for (const Expr& arg : e.args()) note_comparisons(arg, node);
  if (e.kind() == ExprKind::select && e.arg(0).kind() == ExprKind::input)  // true or not
    for (double truth : {0.0, 1.0}) bounds_[size_t(node.inputs[size_t(e.arg(0).index())])].push_back({truth, true});
  if (!compares(e.kind())) return;
  const bool equal = e.kind() == ExprKind::equal;
  std::set<int> inputs[2];
  for (int side : {0, 1}) note_inputs(e.arg(side), inputs[side]);
  if (!inputs[0].empty() && !inputs[1].empty() && e.kind() != ExprKind::maximum && e.kind() != ExprKind::minimum)
    for (const std::set<int>& of_side : inputs)
      for (int j : of_side) meets_[size_t(node.inputs[size_t(j)])] = true;
  for (int side : {0, 1}) {
    if (inputs[side].size() != 1 || !inputs[1 - side].empty()) continue;
    const NodeId of_input = node.inputs[size_t(*inputs[side].begin())];
    const bool integer = reference_[of_input].type.dtype == DType::i32;
    // What positions integers name is known already.
    if (integer && mentions(e.arg(1 - side), ExprKind::factor)) continue;
    std::vector<Bound>& of = bounds_[size_t(of_input)];
    for (double value : values_of(e.arg(1 - side), node.space))
      for (double at : crossings(e.arg(side), value, node.space))
        for (double reached : reachable(at))
          if (std::abs(at) < (integer ? largest_bound : largest_real)) of.push_back({reached, equal && reached == at});
  }
}

int64_t Unknowns::step(const Sample& sample) const {
  if (!sample.edge || steps_.empty()) return int64_t(sample.seed % 7) + 1;
  return steps_[mixed(sample.seed) % steps_.size()];
}

Unknowns::Asks Unknowns::asked_of(NodeId node) const {
  const std::vector<Bound>& bounds = bounds_[size_t(node)];
  if (meets_[size_t(node)] || std::any_of(bounds.begin(), bounds.end(), [](const Bound& b) { return b.equal; }))
    return Asks::equality;
  return bounds.empty() ? Asks::nothing : Asks::order;
}

int64_t Unknowns::integer(NodeId node, uint64_t bits, const Sample& sample) const {
  // Few different positions, so that lookups meet what they look for: the first and the last among them, and what lies
  // just outside, where lookups give 0.
  if (sample.place && (sample.together || bits >> 63)) return *sample.place;
  int64_t range = integer_range_[size_t(node)];
  if (range <= 0) range = std::max<int64_t>(reference_[node].data.classes, 4);
  if (sample.together) return int64_t(mixed(sample.seed) % uint64_t(range));
  const std::vector<Bound>& bounds = bounds_[size_t(node)];
  if (sample.edge && !bounds.empty() && bits >> 63)
    return int64_t(bounds[(bits >> 8) % bounds.size()].at) + int64_t((bits >> 40) % 3) - 1;
  const int64_t choices[] = {0,     range - 1, range / 2, std::min<int64_t>(1, range - 1), int64_t(bits >> 8) % range,
                             range, -1};
  return choices[bits % 7];
}

double Unknowns::at(ValueId value, int64_t position, const Sample& sample) const {
  const uint64_t bits = mixed(mixed(sample.seed * 1000003 + uint64_t(value)) + uint64_t(position));
  const NodeId node = program_.values[size_t(value)].node;
  const TensorType& type = reference_[node].type;
  if (type.dtype == DType::i32) return double(integer(node, bits, sample));
  const bool small = sample.small && !sample.balanced;  // balancing makes large tensors' elements small already
  const double real = (sample.positive ? 0.25 + 1.5 * unit(bits) : 3 * unit(bits) - 1.5) * (small ? 0.125 : 1);
  if (sample.edge) {
    const uint64_t choice = mixed(bits);
    const std::vector<Bound>& bounds = bounds_[size_t(node)];
    const bool meets = meets_[size_t(node)] && (bounds.empty() || choice >> 63);
    if (!meets && !bounds.empty() && choice % 4 != 0) {
      const auto [at, equal] = bounds[(choice >> 8) % bounds.size()];
      const double near = at * std::pow(4, 2 * unit(mixed(choice)) - 1);
      // Of one sign, as nothing can be added to what is left where such numbers cancel.
      if (std::abs(at) > largest_bound) return near;
      const double choices[] = {at, -at, at + real, at + real, near, near, near, near};
      return equal ? at : choices[(choice >> 32) % 8];
    }
    if (meets && choice % 4 != 0) {
      const double shared = unit(mixed(sample.seed * 31 + (choice >> 8) % 2));
      return sample.positive ? 0.25 + shared : 3 * shared - 1.5;
    }
    return real * std::pow(10, 2 * unit(choice) - 1);
  }
  if (sample.balanced) return std::scalbn(real, -std::ilogb(double(element_count(type.shape))) / 2);
  if (!sample.rising) return real;
  const double along = double(position) / double(element_count(type.shape)), square = along * along;
  return real * (0.2 + 3 * square * square);  // steeply: a last piece that is short has the largest
}

}  // namespace hetsynth::source
