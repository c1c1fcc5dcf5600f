#include "synth/schedule/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>

#include "dsl/base/error.h"
#include "dsl/spmd/hosts.h"
#include "synth/support/program_pool.h"

namespace hetsynth::synth {
namespace {

class Lowering {
 public:
  Lowering(const Problem& problem, const Conversions& conversions, const Shares& shares, const Choices& choices,
           Wording wording, SpmdProgram scrap)
      : problem_(problem),
        program_(problem.program),
        conversions_(conversions),
        shares_(shares),
        choices_(choices),
        wording_(wording),
        materialiser_(problem, conversions),
        plans_(materialiser_.all(choices)) {
    out_.mesh = problem.mesh;
    out_.instructions = std::move(scrap.instructions);
    out_.values = std::move(scrap.values);
    out_.instructions.reserve(2 * program_.nodes.size());
    out_.values.reserve(2 * program_.nodes.size());
    size_t values = 0;
    for (const Node& node : program_.nodes) {
      begins_.push_back(values);
      values += 2 * problem.rules.forms[node.id].size();
      HETSYNTH_CHECK(plans_[node.id]->cost < forbidden, "choices ask for a form that no conversion makes");
    }
    value_of_.assign(values, -1);
  }

  SpmdProgram run() {
    for (const Node& node : program_.nodes)
      if (node.leaf()) out_.leaves.push_back(define_source(node.id, plans_[node.id]->source));
    for (const Node& node : program_.nodes) {
      if (node.leaf()) continue;
      if (node.loop >= 0 && program_[node.id - 1].loop != node.loop) enter(node.loop);
      compute(node);
      if (node.loop >= 0 && (node.id + 1 == int(program_.nodes.size()) || program_[node.id + 1].loop != node.loop))
        leave(node.loop);
    }
    for (const Update& update : program_.updates) {
      Form kept = problem_.rules.forms[update.target][choices_[update.target]];
      out_.finals.push_back(
          {update.target, obtain(update.value, problem_.rules.form_index(update.value, kept), update.target)});
    }
    if (program_.loss >= 0) out_.loss = obtain(program_.loss, 0, -1);
    instructions_.finish();
    values_.finish();
    tell_hosts(problem_.cluster, &out_);
    return std::move(out_);
  }

 private:
  /// What a loop reads of outside is there before its first turn.
  void enter(int loop) {
    for (const Node& node : program_.nodes) {
      if (node.loop != loop) continue;
      const Option& option = problem_.rules.options[node.id][choices_[node.id]];
      for (size_t j = 0; j < node.inputs.size(); ++j)
        if (program_[node.inputs[j]].loop != loop)
          obtain(node.inputs[j], pick(node.inputs[j], option.needs[j], node.id), node.id);
    }
  }

  /// What it fills turn by turn is complete behind its last turn. Carries take over at the end of each.
  void leave(int loop) {
    for (const TurnLoop::Carry& c : program_.loops[loop].carries)
      out_.carried.push_back({c.carry, obtain(c.next, pick(c.next, only_form(c.next, c.carry), c.carry), c.carry)});
    for (const Node& node : program_.nodes)
      if (node.loop == loop && stacked_dim(node.space) >= 0) convert_early(node);
  }

  void compute(const Node& node) {
    compute(node, problem_.rules.option(node.id, choices_[node.id]));
    if (node.loop < 0)
      convert_early(node);
    else if (stacked_dim(node.space) < 0)
      for (const TensorNeed& need : needs_of(problem_, choices_, node.id))  // in the same turn, whoever needs it
        obtain(node.id, pick(node.id, need.forms, need.consumer), need.consumer);
  }

  void compute(const Node& node, const Option& option) {
    operands_.clear();
    for (size_t j = 0; j < node.inputs.size(); ++j)
      operands_.push_back(obtain(node.inputs[j], pick(node.inputs[j], option.needs[j], node.id), node.id));
    Instruction& instruction = next_instruction();
    instruction.node = node.id;
    instruction.operands = operands_;
    instruction.splits.reserve(size_t(axis_count()));
    for (int axis = 0; axis < axis_count(); ++axis) {
      int factor = option.factor[axis];
      if (factor < 0) {
        instruction.splits.emplace_back();
        continue;
      }
      const int class_id = problem_.classes.factors[node.id][factor];
      const bool again = axis > 0 && factor == option.factor[0];
      instruction.splits.push_back({factor, table(axis, again ? parts_of(class_id) : class_id)});
    }
    instruction.result = define_source(node.id, option.form);
    if (wording_ == Wording::full) check(instruction);
  }

  void check(const Instruction& instruction) {
    std::string reason;
    auto placements = infer_placements(out_, program_, instruction, &reason);
    if (!placements || *placements != out_.values[instruction.result].placements)
      throw InternalError(
          fmt::format("a derived rule is not legal at {}: {}", program_[instruction.node].name, reason));
  }

  /// Partial results are reduced at once; a new value of a leaf takes the leaf's form at once, so that the larger one
  /// can be freed.
  void convert_early(const Node& node) {
    if (problem_.rules.forms[node.id][size_t(plans_[node.id]->source)].partial()) {
      for (const TensorNeed& need : needs_of(problem_, choices_, node.id))
        obtain(node.id, pick(node.id, need.forms, need.consumer), need.consumer);
      return;
    }
    for (NodeId leaf : problem_.update_targets[node.id])
      obtain(node.id, pick(node.id, only_form(node.id, leaf), leaf), leaf);
  }

  FormMask only_form(NodeId node, NodeId leaf) const {
    return problem_.rules.mask_of(node, kept_form(problem_, choices_, leaf));
  }

  /// Which of a tensor's two sets of values a consumer reads.
  int stage_of(NodeId node, NodeId consumer) const {
    return plans_[node]->sets.apart && is_late(program_, consumer) ? 1 : 0;
  }

  /// The form a consumer is given: a shard rather than the whole where both exist.
  int pick(NodeId node, FormMask acceptable, NodeId consumer) const {
    FormMask exist = stage_of(node, consumer) ? plans_[node]->sets.late : plans_[node]->sets.early;
    FormMask both = (exist | (FormMask(1) << plans_[node]->source)) & acceptable;
    HETSYNTH_CHECK(both != 0, "no form for a consumer of a tensor");
    return std::bit_width(both) - 1;
  }

  /// -1: there is none yet. Stages: early, late.
  ValueId& value_of(NodeId node, int stage, int form) {
    const size_t forms = problem_.rules.forms[node].size();
    return value_of_[begins_[size_t(node)] + size_t(stage) * forms + size_t(form)];
  }

  /// The value of a node in a form, converting as the plan says.
  ValueId obtain(NodeId node, int form, NodeId consumer) {
    int stage = stage_of(node, consumer);
    if (const ValueId known = value_of(node, stage, form); known >= 0) return known;
    const auto& steps = stage ? plans_[node]->late_steps : plans_[node]->steps;
    auto step = std::find_if(steps.begin(), steps.end(), [&](auto& s) { return s.second == form; });
    HETSYNTH_CHECK(step != steps.end(), "no conversion to a planned form of a tensor");
    ValueId source = obtain(node, step->first, consumer);
    emit(node, step->first, form, source, consumer);
    return value_of(node, stage, form);
  }

  void emit(NodeId node, int from, int to, ValueId source, NodeId consumer) {
    const Conversion& conversion = conversions_.of(node).edge(from, to);
    const int axis = conversion.axis;
    const Form &form_before = problem_.rules.forms[node][from], &form_after = problem_.rules.forms[node][to];
    const AxisForm &before = form_before.on[axis], &after = form_after.on[axis];
    Instruction& instruction = next_instruction();
    instruction.opcode = conversion.opcode;
    instruction.realisation = conversion.realisation;
    instruction.axis = axis;
    instruction.operands = {source};
    if (before.partial()) instruction.reduce = out_.values[source].placements[axis].reduce;
    const Form& cut = before.sharded() ? form_before : form_after;
    if (cut.on[axis].sharded()) {
      instruction.dim = cut.on[axis].dim;
      instruction.table = table(axis, cut.cut(axis, problem_.classes.dims[node]));
    }
    if (instruction.opcode == Opcode::all_to_all) {
      instruction.to_dim = after.dim;
      instruction.to_table = table(axis, form_after.cut(axis, problem_.classes.dims[node]));
    }
    instruction.before = after.before, instruction.after = after.after;
    if (wording_ == Wording::full) instruction.cause = cause(node, axis, before, after, consumer);
    instruction.result = define(node, to, stage_of(node, consumer));
  }

  Instruction& next_instruction() {
    Instruction& out = instructions_.next();
    clear(&out);
    return out;
  }

  std::string cause(NodeId node, int axis, const AxisForm& before, const AxisForm& after, NodeId consumer) const {
    const std::string& name = out_.mesh.axes[axis].name;
    auto described = [&](const AxisForm& form) {
      switch (form.kind) {
        case AxisForm::Kind::replicated:
          return std::string("whole");
        case AxisForm::Kind::sharded:
          return fmt::format("cut in dimension {}{}", form.dim,
                             form.overlaps() ? " with what lies around each part" : "");
        case AxisForm::Kind::partial_sum:
          return std::string("as partial sums");
        case AxisForm::Kind::partial_max:
          return std::string("as partial maxima");
      }
      return std::string();
    };
    std::string needed = consumer < 0                ? "the result of the step is needed"
                         : program_[consumer].leaf() ? program_[consumer].name + " is kept"
                                                     : program_[consumer].name + " needs it";
    std::string state = before.partial() ? fmt::format("partial over {}{}", name, origin(node, axis))
                                         : fmt::format("{} over {}", described(before), name);
    return fmt::format("{} is {}; {} {}", program_[node].name, state, needed, described(after));
  }

  /// Why a node's value is partial.
  std::string origin(NodeId node, int axis) const {
    if (program_[node].leaf()) return "";
    const Option& option = problem_.rules.option(node, choices_[node]);
    const int factor = option.factor[size_t(axis)];
    if (factor < 0 || !problem_.rules.forms[node][size_t(option.form)].on[size_t(axis)].partial()) return "";
    return fmt::format(" (each device has its share of {})", program_[node].space.factors[size_t(factor)].name);
  }

  /// The form a tensor is first made in: there for all its consumers.
  ValueId define_source(NodeId node, int form) {
    ValueId value = define(node, form, 0);
    return value_of(node, 1, form) = value;
  }

  ValueId define(NodeId node, int form, int stage) {
    Value& value = values_.next();
    clear(&value);
    value.node = node;
    value.placements.reserve(size_t(axis_count()));
    for (int axis = 0; axis < axis_count(); ++axis)
      value.placements.push_back(placement(node, axis, problem_.rules.forms[node][form]));
    if (wording_ == Wording::full) value.name = program_[node].name + "@" + text(out_.mesh, value.placements);
    // The same tensor and placement may have been made for the forward phase.
    if (wording_ == Wording::full && stage == 1) value.name += "#2";
    return value_of(node, stage, form) = values_.count() - 1;
  }

  Placement placement(NodeId node, int axis, const Form& form) {
    switch (form.on[axis].kind) {
      case AxisForm::Kind::sharded:
        return Placement::overlapping(form.on[axis].dim, table(axis, form.cut(axis, problem_.classes.dims[node])),
                                      form.on[axis].before, form.on[axis].after);
      case AxisForm::Kind::partial_sum:
        return Placement::partial(ReduceOp::sum);
      case AxisForm::Kind::partial_max:
        return Placement::partial(ReduceOp::max);
      default:
        return Placement::replicated();
    }
  }

  int axis_count() const { return int(out_.mesh.axes.size()); }

  int table(int axis, CutClass cut) {
    if (const auto known = table_of_.find({axis, cut}); known != table_of_.end()) return known->second;
    const DimensionClass& c = problem_.classes.classes[class_of(cut)];
    const auto axis_name = [&](int a) { return "/" + out_.mesh.axes[size_t(a)].name; };
    const std::string name = c.name + (cuts_parts(cut) ? axis_name(0) : "") + (axis_count() > 1 ? axis_name(axis) : "");
    BoundaryTable table{name, axis, c.granules};
    set_bounds(shares_, cut, &table);
    out_.tables.push_back(std::move(table));
    return table_of_[{axis, cut}] = int(out_.tables.size()) - 1;
  }

  const Problem& problem_;
  const Program& program_;
  const Conversions& conversions_;
  const Shares& shares_;
  const Choices& choices_;
  const Wording wording_;
  Materialiser materialiser_;
  const std::vector<const Materialisation*> plans_;
  SpmdProgram out_;
  Refill<Instruction> instructions_{&out_.instructions};
  Refill<Value> values_{&out_.values};
  std::vector<ValueId> operands_;                     ///< of the operation at hand
  std::vector<size_t> begins_;                        ///< by node: where its values begin
  std::vector<ValueId> value_of_;                     ///< by node, stage and form
  std::map<std::pair<int, CutClass>, int> table_of_;  ///< by axis and what it cuts
};

}  // namespace

void set_bounds(const Shares& shares, CutClass cut, BoundaryTable* table) {
  const std::vector<int64_t>& along = shares[size_t(table->axis)][size_t(class_of(cut))];
  table->rows.clear();
  table->bounds.clear();
  table->by = cuts_parts(cut) ? 0 : -1;
  if (!cuts_parts(cut)) {
    table->bounds = {0};
    for (int64_t count : along) table->bounds.push_back(table->bounds.back() + count);
    return;
  }
  int64_t begin = 0;
  for (int64_t part : shares[0][size_t(class_of(cut))]) {
    table->rows.emplace_back();
    for (size_t at = 0; at <= along.size(); ++at) table->rows.back().push_back(begin + bound_in_part(part, along, at));
    begin += part;
  }
}

SpmdProgram lower(const Problem& problem, const Conversions& conversions, const Shares& shares, const Choices& choices,
                  Wording wording, SpmdProgram scrap) {
  return Lowering(problem, conversions, shares, choices, wording, std::move(scrap)).run();
}

void tell_hosts(const Cluster& cluster, SpmdProgram* program) {
  program->hosts.clear();
  if (hierarchical_axes(*program).empty()) return;
  int before = -1;
  for (const Device& device : cluster.devices) {
    const int last = program->hosts.empty() ? -1 : program->hosts.back();
    program->hosts.push_back(last < 0 ? 0 : last + (device.host != before ? 1 : 0));
    before = device.host;
  }
}

}  // namespace hetsynth::synth
