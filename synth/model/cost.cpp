#include "synth/model/cost.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "dsl/base/error.h"
#include "synth/model/distinct_devices.h"
#include "synth/space/analysis.h"

namespace hetsynth::synth {
namespace {

bool one_hot_factor(const Node& node, int* factor) {
  OneHot found{0, 0, 0.0};
  if (!match_one_hot(node.body, &found)) return false;
  *factor = found.factor;
  return true;
}

/// Body evaluations, a one-hot loop counting as a single one.
double effective_iterations(const Node& node) {
  double count = node.space.iterations();
  int factor = -1;
  if (one_hot_factor(node, &factor)) count /= double(std::max<int64_t>(1, node.space.factors[factor].size));
  return count;
}

/// A product of two operands that both have factors of their own, summed over what they share, is left to a library.
OperatorClass operator_class(const Program& program, const Node& node) {
  const Expr& body = node.body;
  auto operand = [&](int i) { return body.arg(i).kind() == ExprKind::input; };
  if (node.space.reduction() != FactorKind::sum || body.kind() != ExprKind::mul || !operand(0) || !operand(1))
    return OperatorClass::loop;
  const Access &a = node.space.inputs[size_t(body.arg(0).index())], &b = node.space.inputs[size_t(body.arg(1).index())];
  bool own_a = false, own_b = false, window = false;
  for (size_t f = 0; f < node.space.factors.size(); ++f) {
    bool in_a = mentions_factor(a, int(f)), in_b = mentions_factor(b, int(f));
    own_a = own_a || (in_a && !in_b);
    own_b = own_b || (in_b && !in_a);
  }
  for (const Access* access : {&a, &b})
    for (const DimIndex& index : access->dims) window = window || index.terms.size() > 1;
  if (!own_a || !own_b) return OperatorClass::loop;
  if (window) return OperatorClass::convolution;
  const auto type = [&](int i) { return program[node.inputs[size_t(body.arg(i).index())]].type.dtype; };
  return type(0) == type(1) ? products_of(type(0)) : OperatorClass::matmul;
}

}  // namespace

CostModel::CostModel(const Program& program, const DimensionClasses& classes, const std::vector<int>& kinds,
                     const AttentionCost& attention, const std::vector<char>& fused, const Cluster& cluster,
                     const Mesh& mesh)
    : program_(program),
      classes_(classes),
      attention_(attention),
      cluster_(cluster),
      mesh_(mesh),
      native_(std::all_of(cluster.devices.begin(), cluster.devices.end(),
                          [](const Device& device) { return device.kind == DeviceKind::cpu; })),
      communication_(cluster, mesh, native_),
      types_(device_types(cluster)),
      fused_(fused) {
  HETSYNTH_CHECK(mesh.device_count() == device_count() && mesh.axes.size() <= size_t(max_axes),
                 "a mesh must fit the cluster");
  for (OperatorClass operators : operator_classes)
    for (const Device& device : cluster.devices) speeds_[size_t(operators)].push_back(device.compute_speed(operators));
  for (const Device& device : cluster.devices) memory_speeds_.push_back(device.memory_bytes_per_second());
  bytes_.reserve(program.nodes.size());
  for (const Node& node : program.nodes) bytes_.push_back(element_count(node.type.shape) * size_bytes(node.type.dtype));
  find_works(kinds);
}

void CostModel::find_works(const std::vector<int>& kinds) {
  std::map<std::vector<int>, int> number;
  for (const Node& node : program_.nodes) {
    std::vector<int> key{kinds[node.id], fused_[node.id], int(program_.turns(node.id))};
    for (NodeId input : node.inputs) key.push_back(fused_[input] + (priced_in_blocks(input) ? 2 : 0));
    key.push_back(native_ ? attention_.role(node.id) : 0);
    key.insert(key.end(), classes_.factors[node.id].begin(), classes_.factors[node.id].end());
    auto [it, fresh] = number.try_emplace(std::move(key), -1);
    if (fresh) {
      WholeWork work;
      if (!node.leaf()) {
        double iterations = effective_iterations(node);
        work.flops = iterations * (flops(node.body) + (node.space.reduction() ? 1 : 0));
        work.factor_classes = classes_.factors[node.id];
        work.operators = operator_class(program_, node);
        work.called = !fused_[node.id] && !priced_in_blocks(node.id);
        work.turns = double(program_.turns(node.id));
        if (native_) {
          work.flops = attention_.flops(node.id, work.flops);
          work.column_factor = attention_.column_factor(node.id);
        }
        auto add = [&](const Access& access, const TensorType& type, double elements, bool in_blocks) {
          WholeWork::Operand operand{elements * double(size_bytes(type.dtype)), 0, in_blocks};
          for (size_t f = 0; f < std::min<size_t>(64, node.space.factors.size()); ++f)
            if (mentions_factor(access, int(f))) operand.factors |= uint64_t(1) << f;
          work.operands.push_back(operand);
        };
        for (size_t j = 0; j < node.inputs.size(); ++j) {
          const Node& input = program_[node.inputs[j]];
          if (!fused_[input.id])
            add(node.space.inputs[j], input.type, std::min(iterations, double(element_count(input.type.shape))),
                priced_in_blocks(input.id));
        }
        if (!fused_[node.id])
          add(node.space.output, node.type,
              stacked_dim(node.space) < 0 ? double(element_count(node.type.shape)) : iterations,
              priced_in_blocks(node.id));
      }
      it->second = works_.add_kind(std::move(work));
    }
    works_.add(it->second);
  }
}

Work CostModel::work(NodeId id, const Option& option) const {
  const WholeWork& whole = works_[id];
  Work work;
  work.operators = whole.operators;
  work.called = whole.called;
  work.turns = whole.turns;
  int all = 0;
  for (int a = 0; a < max_axes; ++a)
    if (option.factor[a] >= 0) {
      const int class_id = whole.factor_classes[option.factor[a]];
      work.class_id[a] = a > 0 && option.factor[a] == option.factor[0] ? parts_of(class_id) : class_id;
      all |= 1 << a;
    }
  work.flops[all] = whole.flops;
  bool stored = false;
  for (int a = 0; a < max_axes; ++a)
    stored = stored || (option.factor[a] >= 0 && option.factor[a] == whole.column_factor);
  for (const WholeWork::Operand& operand : whole.operands) {
    if (operand.in_blocks && !stored) continue;
    int cuts = 0;
    for (int a = 0; a < max_axes; ++a)
      if (option.factor[a] >= 0 && operand.factors >> option.factor[a] & 1) cuts |= 1 << a;
    work.bytes[cuts] += operand.bytes;
  }
  return work;
}

double CostModel::part(CutClass cut, int axis, const Shares& shares, int device) const {
  if (cut == -1) return 1;
  const int class_id = class_of(cut);
  const std::vector<int64_t>& along = shares[axis][class_id];
  const auto at = size_t(coordinate(device, axis));
  if (!cuts_parts(cut)) return double(along[at]) / double(classes_.classes[class_id].granules);
  const int64_t granules = shares[0][class_id][coordinate(device, 0)];
  if (granules == 0) return 0;
  return double(bound_in_part(granules, along, at + 1) - bound_in_part(granules, along, at)) / double(granules);
}

Parts CostModel::parts(const Work& work, const Shares& shares, int d) const {
  Parts parts = whole_part;
  for (size_t a = 0; a < axes(); ++a) parts[a] = part(work.class_id[a], int(a), shares, d);
  return parts;
}

namespace {

/// Sum over the parts of some work, each as far as so many axes that cut it leave it.
double weighted(const std::array<double, cut_sets>& by_cut, const Parts& parts, size_t axes) {
  double sum = 0;
  for (size_t cut = 0; cut < size_t(1) << axes; ++cut) {
    double amount = by_cut[cut];
    if (amount == 0) continue;
    for (size_t a = 0; a < axes; ++a)
      if (cut >> a & 1) amount *= parts[a];
    sum += amount;
  }
  return sum;
}

}  // namespace

double CostModel::device_flops(const Work& work, const Parts& parts) const {
  return work.turns * weighted(work.flops, parts, axes());
}

ComputeSpeed CostModel::speed(const Work& work, int d) const {
  ComputeSpeed speed = speeds_[size_t(work.operators)][size_t(d)];
  if (!work.called) speed.call_seconds = 0;
  return speed;
}

double CostModel::device_seconds(const Work& work, const Parts& parts, int d) const {
  if (std::find(parts.begin(), parts.end(), 0.0) != parts.end()) return 0;
  const ComputeSpeed own = speed(work, d);
  return work.turns * (own.call_seconds + std::max(weighted(work.flops, parts, axes()) / own.flops_per_second,
                                                   weighted(work.bytes, parts, axes()) / memory_speeds_[size_t(d)]));
}

PartWithin CostModel::part_within(const Work& work, Parts parts, int axis, int d) const {
  const ComputeSpeed own = speed(work, d);
  PartWithin out;
  out.turns_ = work.turns;
  out.call_seconds_ = own.call_seconds;
  const auto sum = [&](const auto& amounts, double per_second) {
    PartWithin::Sum made{0, 0, per_second};
    parts[size_t(axis)] = 0;
    made.fixed = weighted(amounts, parts, axes());
    parts[size_t(axis)] = 1;
    made.whole = weighted(amounts, parts, axes());
    return made;
  };
  out.sums_ = {sum(work.flops, own.flops_per_second), sum(work.bytes, memory_speeds_[size_t(d)])};
  return out;
}

Picoseconds CostModel::operator_cost(NodeId node, const Option& option, const Shares& shares) const {
  const Work w = work(node, option);
  double slowest = 0;
  for (int d = 0; d < int(speeds_[0].size()); ++d) slowest = std::max(slowest, device_seconds(w, shares, d));
  return to_picoseconds(slowest);
}

Picoseconds CostModel::operator_cost(NodeId node, const Option& option, const Shares& shares,
                                     const DistinctDevices& devices) const {
  const Work w = work(node, option);
  double slowest = 0;
  for (int d : devices.of(w)) slowest = std::max(slowest, device_seconds(w, shares, d));
  return to_picoseconds(slowest);
}

int64_t CostModel::bytes(NodeId node) const { return bytes_[size_t(node)]; }

double CostModel::local_bytes(NodeId node, const Form& form, const Shares& shares, int device) const {
  double local = double(bytes(node));
  for (size_t a = 0; a < axes(); ++a)
    local *= part(form.cut(int(a), classes_.dims[node]), int(a), shares, device) + form.on[a].overlap();
  return local;
}

Conversion CostModel::conversion(NodeId node, const Form& from, const Form& to, const Shares& shares) const {
  Conversion out =
      conversion(from, to, [&](const Form& form, int device) { return local_bytes(node, form, shares, device); });
  return repeated(out, node);
}

Conversion CostModel::repeated(Conversion conversion, NodeId node) const {
  if (conversion.possible)
    conversion.cost =
        Picoseconds(std::min(double(forbidden), std::round(times(node, conversion.opcode) * double(conversion.cost))));
  return conversion;
}

double CostModel::times(NodeId node, Opcode opcode) const {
  const bool hides = may_hide_ && (*may_hide_)[size_t(node)] && communicates(opcode);
  return moved_times(program_, node) * (hides ? hidden_weight_ : 1);
}

CostModel::Step CostModel::step(const Form& from, const Form& to) const {
  using Kind = AxisForm::Kind;
  int axis = -1;
  for (int a = 0; a < max_axes; ++a) {
    if (from.on[a] == to.on[a]) continue;
    if (axis >= 0) return {};
    axis = a;
  }
  if (axis < 0 || to.on[axis].kind == Kind::partial_max) return {};
  // While another axis divides its parts further, axis 0 has to leave them as they are.
  if (axis == 0 && (from.nested() || to.nested())) return {};
  const AxisForm &before = from.on[axis], &after = to.on[axis];
  const bool same_dim = before.sharded() && after.sharded() && before.dim == after.dim;  // and another halo
  if (before.overlaps() || (after.overlaps() && !same_dim)) return {};
  std::optional<Opcode> opcode;
  if (same_dim)
    opcode = Opcode::halo_exchange;
  else if (before.kind == Kind::replicated)
    opcode = after.sharded() ? Opcode::slice : Opcode::to_partial;
  else if (after.kind == Kind::replicated)
    opcode = before.sharded() ? Opcode::all_gather : Opcode::all_reduce;
  else if (after.sharded())
    opcode = before.sharded() ? Opcode::all_to_all : Opcode::reduce_scatter;
  if (opcode && std::find(forbidden_.begin(), forbidden_.end(), *opcode) != forbidden_.end()) opcode.reset();
  return {opcode, axis};
}

Conversion CostModel::conversion(const Form& from, const Form& to, const Held& held) const {
  if (!step(from, to).opcode) return {};
  std::vector<double> before, after;
  before.reserve(size_t(device_count()));
  after.reserve(size_t(device_count()));
  for (int d = 0; d < device_count(); ++d) {
    before.push_back(held(from, d));
    after.push_back(held(to, d));
  }
  return conversion(from, to, before, after);
}

Conversion CostModel::conversion(const Form& from, const Form& to, const std::vector<double>& before,
                                 const std::vector<double>& after) const {
  const Step made = step(from, to);
  if (!made.opcode) return {};
  const Movement movement = communication_.movement(*made.opcode, made.axis, before, after, {}, Detail::seconds);
  return {true, *made.opcode, made.axis, movement.realisation, to_picoseconds(movement.seconds)};
}

}  // namespace hetsynth::synth
