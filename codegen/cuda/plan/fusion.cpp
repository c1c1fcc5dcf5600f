#include "codegen/cuda/plan/fusion.h"

#include <algorithm>
#include <limits>
#include <set>

#include "codegen/cuda/plan/unit_order.h"
#include "codegen/passes/sections.h"
#include "dsl/base/error.h"

namespace hetsynth::codegen::cuda {
namespace {

constexpr size_t most_ops_in_group = 24;
/// So many steps back a kernel of another phase may still be joined.
constexpr size_t near_steps = 16;
/// Fewer rows than this leave most multiprocessors idle, so long reductions are cut into chunks.
constexpr int64_t few_rows = 256, few_threads = 32768;
constexpr int64_t chunk = 8192, column_chunk = 64, most_splits = 512;

bool walked(const LocalOp& op, int factor, bool lookup) {
  return op.extent(factor) != 1 && !(lookup && factor == op.looked_up());
}

/// Strides of the chosen factors, given some of them, cover 0..count-1 exactly once.
bool is_mixed_radix(const LocalOp& op, std::vector<int> factors, const std::vector<int64_t>& stride, int64_t count) {
  std::sort(factors.begin(), factors.end(), [&](int a, int b) { return stride[a] < stride[b]; });
  int64_t next = 1;
  for (int f : factors) {
    if (stride[f] != next) return false;
    next *= op.extent(f);
  }
  return next == count;
}

/// Strides of the output's factors in the result's storage; nullopt if they do not enumerate it.
std::optional<std::vector<int64_t>> output_strides(const LocalOp& op, const Layouts& layouts, int64_t count,
                                                   bool lookup) {
  Address written = layouts.written(op);
  if (!written.affine() || written.constant != 0) return std::nullopt;
  std::vector<int> factors;
  for (size_t f = 0; f < op.factors.size(); ++f)
    if (!op.factors[f].reduced() && walked(op, int(f), lookup)) factors.push_back(int(f));
  if (!is_mixed_radix(op, factors, written.coefficients, count)) return std::nullopt;
  std::vector<int64_t> stride(op.factors.size(), 0);
  for (int f : factors) stride[f] = written.coefficients[f];
  return stride;
}

struct Geometry {
  int64_t rows, columns;
  bool columns_outside;
};

/// The row (not the position) that a factor of a full or reducing operator moves; nullopt if it moves both or
/// straddles.
std::optional<int64_t> row_stride(const Geometry& g, int64_t stride, int64_t extent) {
  if (g.columns_outside) {
    if (stride >= g.rows) return 0;
    return stride * extent <= g.rows ? std::optional<int64_t>(stride) : std::nullopt;
  }
  if (stride >= g.columns) return stride % g.columns == 0 ? std::optional<int64_t>(stride / g.columns) : std::nullopt;
  return stride * extent <= g.columns ? std::optional<int64_t>(0) : std::nullopt;
}

class Fuser {
 public:
  Fuser(LocalProgram& program, const Layouts& layouts)
      : program_(program),
        layouts_(layouts),
        step_of_(program.values.size(), -1),
        maker_(program.values.size(), -1),
        sections_(sections(program)) {}

  std::vector<LaunchStep> run(const std::vector<FusedAttention>& attention, const std::vector<int>& buckets) {
    std::vector<std::set<int>> nests;
    for (const FusedAttention& nest : attention) nests.push_back(operators_of(nest));
    for (const Unit& unit : order_units(program_, layouts_, nests, buckets))
      if (unit.nest >= 0)
        form(attention[size_t(unit.nest)], nests[size_t(unit.nest)]);
      else if (program_.ops[size_t(unit.ops.front())].collective)
        exchange(unit.ops);
      else
        place(unit.ops.front());
    return std::move(steps_);
  }

 private:
  void place(int index) {
    LocalOp& op = program_.ops[index];
    if (layouts_.window[index]) {
      step_of_[op.result] = ready_step(op);
      return;
    }
    if (program_.values[op.result].count() == 0) return;
    replace_empty_reduction(op);
    if (std::optional<Contraction> product = match_contraction(op, layouts_); product && library_can(*product))
      return append({.kind = LaunchStep::Kind::product, .op = index, .contraction = product});
    if (std::optional<ScatterShape> scatter = scatter_shape(op))
      return append({.kind = LaunchStep::Kind::scatter, .op = index, .scatter = *scatter});
    for (size_t s = size_t(std::max(0, ready_step(op))); s < steps_.size(); ++s)
      if (join(int(s), index)) return;
    open(index);
  }

  void exchange(const std::vector<int>& collectives) {
    for (int op : collectives) step_of_[program_.ops[size_t(op)].result] = int(steps_.size());
    steps_.push_back({.kind = LaunchStep::Kind::collective, .collectives = collectives});
  }

  std::set<int> operators_of(const FusedAttention& nest) const {
    const std::vector<ValueId> values = nest.values();
    std::set<int> out;
    for (size_t i = 0; i < program_.ops.size(); ++i)
      if (std::count(values.begin(), values.end(), program_.ops[i].result)) out.insert(int(i));
    return out;
  }

  void form(const FusedAttention& nest, const std::set<int>& ops) {
    LaunchStep step{.kind = LaunchStep::Kind::attention, .attention = nest};
    step.attention_ops.assign(ops.begin(), ops.end());
    for (int op : ops) step_of_[program_.ops[op].result] = int(steps_.size());
    steps_.push_back(std::move(step));
  }

  void append(LaunchStep step) {
    ValueId result = program_.ops[step.op].result;
    step_of_[result] = int(steps_.size());
    steps_.push_back(std::move(step));
  }

  /// The last step that makes something the operator reads.
  int ready_step(const LocalOp& op) const {
    int ready = -1;
    for (const Operand& operand : op.inputs) ready = std::max(ready, step_of_[operand.value]);
    return ready;
  }

  /// Rows or columns must be contiguous in every operand of the library's product, and follow each other without
  /// overlap: no view that is reversed, repeated or of windows that slide.
  static bool library_can(const Contraction& c) {
    auto fits = [](int64_t row, int64_t column, int64_t rows, int64_t columns, int64_t batch) {
      const bool by_columns = (row == 1 || rows == 1) && (columns == 1 || column >= rows);
      const bool by_rows = (column == 1 || columns == 1) && (rows == 1 || row >= columns);
      return (by_columns || by_rows) && batch >= 0;
    };
    return fits(c.m.a, c.k.a, c.m.extent, c.k.extent, c.batch.a) &&
           fits(c.k.w, c.n.w, c.k.extent, c.n.extent, c.batch.w) &&
           fits(c.m.c, c.n.c, c.m.extent, c.n.extent, c.batch.c);
  }

  static void replace_empty_reduction(LocalOp& op) {
    bool empty = false;
    for (size_t f = 0; f < op.factors.size(); ++f) empty = empty || (op.factors[f].reduced() && op.extent(int(f)) == 0);
    if (!empty) return;
    op.body = Expr(op.reduction() == FactorKind::max ? -std::numeric_limits<double>::infinity() : 0.0);
    op.inputs.clear();
    op.one_hot.reset();
    for (size_t f = 0; f < op.factors.size(); ++f)
      if (op.factors[f].reduced()) op.ranges[f] = {0, 1};
  }

  std::optional<ScatterShape> scatter_shape(const LocalOp& op) const {
    if (!op.one_hot || op.factors[op.one_hot->factor].reduced()) return std::nullopt;
    int rows = op.one_hot->factor;
    int64_t count = program_.values[op.result].count();
    std::optional<std::vector<int64_t>> stride = output_strides(op, layouts_, count, false);
    int64_t columns = count / op.extent(rows);
    if (!stride || (op.extent(rows) > 1 && (*stride)[rows] != columns)) return std::nullopt;
    ScatterShape shape{op.extent(rows), 1, columns, std::vector<int64_t>(op.factors.size(), 0), *stride};
    shape.column_stride[rows] = 0;
    for (size_t f = op.factors.size(); f-- > 0;) {
      if (op.factors[f].reduced()) {
        shape.hit_stride[f] = walked(op, int(f), false) ? shape.hits : 0;
        shape.hits *= op.extent(int(f));
      } else if (mentions_factor(op.inputs[op.one_hot->operand].access, int(f))) {
        return std::nullopt;
      }
    }
    return shape;
  }

  // What an operator reads from a group: the group's operator that makes the storage the operand lies in.
  int made_in(const KernelGroup& group, ValueId value) const {
    int maker = maker_[layouts_.of[value].buffer];
    auto found = std::find(group.ops.begin(), group.ops.end(), maker);
    return maker < 0 || found == group.ops.end() ? -1 : int(found - group.ops.begin());
  }

  /// Every operand made in the group is read exactly where the group has it in a register.
  bool operands_fit(const KernelGroup& group, const Geometry& g, const LocalOp& op, const DomainRole& role) const {
    for (size_t j = 0; j < op.inputs.size(); ++j) {
      const Operand& operand = op.inputs[j];
      int maker = made_in(group, operand.value);
      if (maker < 0) continue;
      Address read = layouts_.read(op, int(j));
      if (!read.affine() || operand.access.zero_outside || read.constant + layouts_.of[operand.value].offset != 0)
        return false;
      bool row_value = group.roles[maker].kind != DomainRole::Kind::full;
      if (!row_value && role.kind == DomainRole::Kind::row) return false;
      for (size_t f = 0; f < op.factors.size(); ++f) {
        if (op.extent(int(f)) == 1) continue;
        std::optional<int64_t> expected = role.stride[f];
        if (row_value && role.kind != DomainRole::Kind::row)
          expected = role.stride[f] == 0 ? 0 : row_stride(g, role.stride[f], op.extent(int(f)));
        if (!expected || read.coefficients[f] != *expected) return false;
      }
    }
    return true;
  }

  /// Whether the operator would read less from memory within the group. Scalars do not count: a learning rate relates
  /// the updates of all parameters, whose common kernel would hold hundreds of registers, be compiled for seconds and
  /// be unlike that of every other layer.
  bool related(const KernelGroup& group, const LocalOp& op) const {
    const auto array = [&](ValueId value) { return program_.values[value].count() > 1; };
    std::set<ValueId> read;
    for (int i : group.ops)
      for (const Operand& operand : program_.ops[i].inputs)
        if (array(operand.value)) read.insert(layouts_.of[operand.value].buffer);
    for (const Operand& operand : op.inputs)
      if (made_in(group, operand.value) >= 0 || (array(operand.value) && read.count(layouts_.of[operand.value].buffer)))
        return true;
    return false;
  }

  /// Whether a step's kernel may make what belongs to the operator's place in the program. In another phase only where
  /// that is near, as the gradient of the loss is to the loss: what is made again for the backward pass, or only reads
  /// what was kept for it, would be kept itself.
  bool in_reach(int step, int index) const {
    const Section theirs = sections_[size_t(steps_[size_t(step)].group.ops.front())], own = sections_[size_t(index)];
    return theirs == own || (theirs.stretch == own.stretch && steps_.size() - size_t(step) <= near_steps);
  }

  bool join(int step, int index) {
    if (steps_[step].kind != LaunchStep::Kind::kernel) return false;
    KernelGroup& group = steps_[step].group;
    const LocalOp& op = program_.ops[index];
    if (group.ops.size() >= most_ops_in_group || !in_reach(step, index) || !related(group, op)) return false;
    for (const auto& [candidate, role] : candidates(op)) {
      if (std::optional<KernelGroup> grown = fit(group, candidate, op, role)) {
        add(*grown, index, role);
        group = *grown;
        step_of_[op.result] = step;
        return true;
      }
    }
    return false;
  }

  /// The group's geometry with the operator in it; nullopt if it does not fit.
  std::optional<KernelGroup> fit(const KernelGroup& group, const KernelGroup& wish, const LocalOp& op,
                                 const DomainRole& role) const {
    KernelGroup grown = group;
    DomainRole as = role;
    bool rowwise = role.kind == DomainRole::Kind::full && group.reduces && wish.rows == group.rows;
    if (rowwise) as.kind = DomainRole::Kind::row;
    if (role.kind == DomainRole::Kind::reduce && !group.reduces) {
      if (group.rows != wish.positions()) return std::nullopt;
      grown.rows = wish.rows, grown.columns = wish.columns, grown.columns_outside = wish.columns_outside;
      grown.splits = wish.splits, grown.reduces = true;
    } else if (role.kind == DomainRole::Kind::reduce) {
      bool same = wish.rows == group.rows && wish.columns == group.columns &&
                  wish.columns_outside == group.columns_outside && wish.splits == group.splits;
      if (!same) return std::nullopt;
    } else if (!rowwise && wish.rows != group.positions()) {
      return std::nullopt;
    }
    if (grown.splits > 1 && reads_row_value(grown, op)) return std::nullopt;
    if (grown.splits > 1 && rowwise) return std::nullopt;
    Geometry g{grown.rows, grown.columns, grown.columns_outside};
    if (!operands_fit(grown, g, op, as)) return std::nullopt;
    return grown;
  }

  bool reads_row_value(const KernelGroup& group, const LocalOp& op) const {
    return std::any_of(op.inputs.begin(), op.inputs.end(), [&](const Operand& operand) {
      int maker = made_in(group, operand.value);
      return maker >= 0 && group.roles[maker].kind != DomainRole::Kind::full;
    });
  }

  void add(KernelGroup& group, int index, DomainRole role) {
    bool rowwise = role.kind == DomainRole::Kind::full && group.reduces &&
                   program_.values[program_.ops[index].result].count() == group.rows && group.columns != 1;
    if (rowwise) role.kind = DomainRole::Kind::row;
    std::vector<int> sources;
    for (const Operand& operand : program_.ops[index].inputs) sources.push_back(made_in(group, operand.value));
    group.sources.push_back(std::move(sources));
    group.ops.push_back(index);
    group.roles.push_back(std::move(role));
    maker_[program_.ops[index].result] = index;
  }

  void open(int index) {
    std::vector<std::pair<KernelGroup, DomainRole>> options = candidates(program_.ops[index]);
    HETSYNTH_CHECK(!options.empty(), "every operator has a kernel");
    LaunchStep step;
    step.group = options.front().first;
    add(step.group, index, options.front().second);
    step_of_[program_.ops[index].result] = int(steps_.size());
    steps_.push_back(std::move(step));
  }

  /// The ways an operator can be walked, the best one on its own first.
  std::vector<std::pair<KernelGroup, DomainRole>> candidates(const LocalOp& op) const {
    std::vector<std::pair<KernelGroup, DomainRole>> out;
    bool lookup = op.one_hot && op.factors[op.one_hot->factor].kind == FactorKind::sum;
    if (lookup) add_candidates(op, true, out);
    add_candidates(op, false, out);
    return out;
  }

  void add_candidates(const LocalOp& op, bool lookup, std::vector<std::pair<KernelGroup, DomainRole>>& out) const {
    int64_t count = program_.values[op.result].count();
    std::optional<std::vector<int64_t>> stride = output_strides(op, layouts_, count, lookup);
    HETSYNTH_CHECK(stride.has_value(), "an operator writes every element of its result once: " +
                                           hetsynth::text(Space{op.factors, {}, op.output}));
    int64_t columns = 1;
    std::vector<int64_t> column_stride(op.factors.size(), 0);
    for (size_t f = op.factors.size(); f-- > 0;)
      if (op.factors[f].reduced() && walked(op, int(f), lookup)) {
        column_stride[f] = columns;
        columns *= op.extent(int(f));
      }
    DomainRole role{DomainRole::Kind::full, *stride, lookup};
    if (columns == 1) {
      out.push_back({KernelGroup{.rows = count}, role});
      return;
    }
    role.kind = DomainRole::Kind::reduce;
    bool outside_first = columns_lie_outside(op, lookup);
    for (bool outside : {outside_first, !outside_first}) {
      DomainRole oriented = role;
      for (size_t f = 0; f < op.factors.size(); ++f)
        oriented.stride[f] =
            outside ? (*stride)[f] + column_stride[f] * count : (*stride)[f] * columns + column_stride[f];
      KernelGroup group{.rows = count, .columns = columns, .columns_outside = outside, .reduces = true};
      group.splits = splits(group);
      out.push_back({group, oriented});
    }
  }

  static int64_t splits(const KernelGroup& g) {
    if (!g.columns_outside)
      return g.rows < few_rows && g.columns > chunk ? std::min(most_splits, (g.columns + chunk - 1) / chunk) : 1;
    if (g.rows >= few_threads || g.columns <= column_chunk) return 1;
    int64_t wanted = std::max<int64_t>(2, few_threads / g.rows);
    return std::min({most_splits, wanted, (g.columns + column_chunk - 1) / column_chunk});
  }

  /// Whether neighbours in the largest operand's storage belong to different results.
  bool columns_lie_outside(const LocalOp& op, bool lookup) const {
    int largest = -1;
    int64_t most = 0;
    for (size_t j = 0; j < op.inputs.size(); ++j) {
      int64_t count = program_.values[op.inputs[j].value].count();
      if (count > most) most = count, largest = int(j);
    }
    if (largest < 0) return false;
    Address read = layouts_.read(op, largest);
    for (size_t f = 0; f < op.factors.size(); ++f)
      if (walked(op, int(f), lookup) && read.coefficients[f] == 1) return !op.factors[f].reduced();
    return false;
  }

  LocalProgram& program_;
  const Layouts& layouts_;
  std::vector<LaunchStep> steps_;
  std::vector<int> step_of_;       ///< by value: the step that makes it, -1 before all
  std::vector<int> maker_;         ///< by value: the operator of a kernel that makes it, -1 if none does
  std::vector<Section> sections_;  ///< by operator
};

}  // namespace

std::vector<LaunchStep> fuse(LocalProgram& program, const Layouts& layouts,
                             const std::vector<FusedAttention>& attention, const std::vector<int>& buckets) {
  return Fuser(program, layouts).run(attention, buckets);
}

}  // namespace hetsynth::codegen::cuda
