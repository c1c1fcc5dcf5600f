#include "synth/planner/new_shares.h"

#include <algorithm>
#include <map>
#include <utility>

#include "dsl/spmd/nested_cut.h"
#include "synth/schedule/lower.h"
#include "synth/schedule/price.h"
#include "synth/schedule/schedule.h"
#include "synth/shares/ratios.h"

namespace hetsynth {
namespace {

using namespace synth;  // NOLINT: the planner's inner functions

/// A program read back as what the linear program of shares is about.
class SharesOfProgram {
 public:
  SharesOfProgram(const Problem& problem, const SpmdProgram& program)
      : problem_(problem), program_(program), cut_of_(program.tables.size(), -1) {}

  /// False if the program is none of those whose shares are free.
  bool read() {
    if (has_stages(program_)) return false;
    for (const Instruction& instruction : program_.instructions)
      if (!(instruction.opcode == Opcode::compute ? add_operator(instruction) : add_conversion(instruction)))
        return false;
    for (size_t t = 0; t < cut_of_.size(); ++t) {
      const BoundaryTable& table = program_.tables[t];
      // Groups that cut differently have shares of their own, which the linear program does not know.
      if (table.by >= 0 && !(cuts_parts(cut_of_[t]) && table.by == 0 && nests(table))) return false;
      if (cut_of_[t] != -1 && table.extent != problem_.classes.classes[size_t(class_of(cut_of_[t]))].granules)
        return false;
    }
    return true;
  }

  /// Those that the tables say; even ones of what nothing is cut by.
  Shares shares() const {
    Shares out;
    for (const Mesh::Axis& axis : problem_.mesh.axes) {
      out.emplace_back();
      for (const DimensionClass& c : problem_.classes.classes)
        out.back().push_back(round_shares(c.granules, std::vector<double>(size_t(axis.size), 1.0)));
    }
    for (size_t t = 0; t < cut_of_.size(); ++t) {
      if (cut_of_[t] == -1) continue;
      const BoundaryTable& table = program_.tables[t];
      std::vector<int64_t>& of_class = out[size_t(table.axis)][size_t(class_of(cut_of_[t]))];
      std::vector<double> parts(of_class.size(), 0);
      for (const std::vector<int64_t>& bounds :
           table.by < 0 ? std::vector<std::vector<int64_t>>{table.bounds} : table.rows)
        for (size_t i = 0; i < parts.size(); ++i) parts[i] += double(bounds[i + 1] - bounds[i]);
      of_class = round_shares(table.extent, parts);
    }
    return out;
  }

  SpmdProgram at(const Shares& shares) const {
    SpmdProgram out = program_;
    for (size_t t = 0; t < cut_of_.size(); ++t)
      if (cut_of_[t] != -1) set_bounds(shares, cut_of_[t], &out.tables[t]);
    return out;
  }

  std::vector<CostTerm> terms() const {
    std::vector<CostTerm> out = conversions_;
    for (const auto& [work, count] : operators_) {
      out.emplace_back();
      out.back().work = work;
      out.back().count = count;
    }
    return out;
  }

 private:
  /// One table divides one class, or its parts; a table of several is an edit by hand.
  bool is_of(int table, CutClass cut) {
    CutClass& known = cut_of_.at(size_t(table));
    if (cut == -1 || (known != -1 && known != cut)) return false;
    known = cut;
    return true;
  }

  bool add_operator(const Instruction& instruction) {
    Option option;
    for (size_t axis = 0; axis < instruction.splits.size(); ++axis) {
      const Split& split = instruction.splits[axis];
      option.factor[axis] = split.factor;
      if (split.factor < 0) continue;
      const int class_id = problem_.classes.factors[instruction.node][size_t(split.factor)];
      const bool again = axis > 0 && split.factor == option.factor[0];
      if (class_id < 0 || !is_of(split.table, again ? parts_of(class_id) : class_id)) return false;
    }
    const Work work = problem_.cost.work(instruction.node, option);
    if (std::ranges::any_of(work.class_id, [](CutClass cut) { return cut != -1; })) ++operators_[work];
    return true;
  }

  bool add_conversion(const Instruction& instruction) {
    const Value &from = program_.values[size_t(instruction.operands[0])],
                &to = program_.values[size_t(instruction.result)];
    const Form *before = form_of(from), *after = form_of(to);
    if (!before || !after) return false;
    for (const auto& [value, form] : {std::pair(&from, before), std::pair(&to, after)})
      for (size_t axis = 0; axis < value->placements.size(); ++axis)
        if (const Placement& placement = value->placements[axis];
            placement.kind == Placement::Kind::sharded &&
            !is_of(placement.table, form->cut(int(axis), problem_.classes.dims[value->node])))
          return false;
    if (!before->sharded() && !after->sharded()) return true;
    const auto known = std::ranges::find_if(conversions_, [&](const CostTerm& term) {
      return term.from == *before && term.to == *after && term.opcode == instruction.opcode &&
             term.realisation == instruction.realisation &&
             problem_.program[term.node].type == problem_.program[from.node].type &&
             problem_.classes.dims[term.node] == problem_.classes.dims[from.node];
    });
    if (known != conversions_.end()) {
      ++known->count;
      return true;
    }
    conversions_.push_back({1, false, {}, from.node, *before, *after, instruction.opcode, instruction.realisation});
    return true;
  }

  /// The form in which the planner knows what a value's placements say; null: it knows none.
  const Form* form_of(const Value& value) const {
    using Kind = AxisForm::Kind;
    const auto alike = [](const Placement& at, const AxisForm& form) {
      switch (at.kind) {
        case Placement::Kind::replicated:
          return form.kind == Kind::replicated;
        case Placement::Kind::sharded:
          return form.sharded() && form.dim == at.dim && form.before == at.before && form.after == at.after;
        case Placement::Kind::partial:
          return (form.kind == Kind::partial_sum && at.reduce == ReduceOp::sum) ||
                 (form.kind == Kind::partial_max && at.reduce == ReduceOp::max);
        default:
          return false;
      }
    };
    for (const Form& form : problem_.rules.forms[value.node]) {
      bool same = true;
      for (size_t axis = 0; axis < value.placements.size(); ++axis)
        same = same && alike(value.placements[axis], form.on[axis]);
      if (same) return &form;
    }
    return nullptr;
  }

  const Problem& problem_;
  const SpmdProgram& program_;
  std::vector<CutClass> cut_of_;  ///< by table; -1: nothing that costs time is cut by it
  std::map<Work, double> operators_;
  std::vector<CostTerm> conversions_;
};

std::vector<int> axes_of(const Problem& problem) {
  std::vector<int> out;
  for (int axis = 0; axis < int(problem.mesh.axes.size()); ++axis)
    if (problem.mesh.axes[size_t(axis)].size > 1) out.push_back(axis);
  return out;
}

}  // namespace

Prediction predicted_on(const Program& reference, const Plan& plan, const Cluster& cluster) {
  const Problem problem = problem_of(reference, plan.program, cluster);
  // What devices hold does not depend on their speeds; a plan file may say nothing of it.
  std::vector<DevicePrediction> memory = plan.prediction.devices;
  if (memory.empty()) memory = predicted_memory(cluster, std::vector<int64_t>(cluster.devices.size(), 0));
  return predict(problem, std::move(memory), plan.program);
}

bool same_but_for_bounds(const SpmdProgram& a, const SpmdProgram& b) {
  SpmdProgram other = b;
  if (a.tables.size() != b.tables.size()) return false;
  for (size_t t = 0; t < a.tables.size(); ++t) {
    other.tables[t].bounds = a.tables[t].bounds;
    // Only rows that lie one behind the other: whether rows do is part of the program's form.
    if (nests(a.tables[t]) && nests(b.tables[t])) other.tables[t].rows = a.tables[t].rows;
  }
  return a == other;
}

std::optional<Plan> with_new_shares(const Program& reference, const Plan& plan, const Cluster& cluster) {
  const Problem problem = problem_of(reference, plan.program, cluster);
  SharesOfProgram read(problem, plan.program);
  if (!read.read()) return std::nullopt;
  const std::vector<CostTerm> terms = read.terms();
  const std::vector<int> axes = axes_of(problem);
  Shares shares = read.shares();
  // Of several axes each is refined at the shares along the others, so that a second round may find better ones.
  for (size_t round = 0; round < std::min<size_t>(axes.size(), 2); ++round)
    if (!refine_shares(problem, terms, plan.program, axes, &shares)) return std::nullopt;
  Plan out = plan;
  out.program = read.at(shares);
  out.prediction = predict(problem, shares, out.program);
  const Prediction own = predicted_on(reference, plan, cluster);
  if (own.step_seconds <= out.prediction.step_seconds) {
    out.program = plan.program;
    out.prediction = own;
  }
  for (size_t axis = 0; axis < out.ratios.size(); ++axis) {
    // By the work that each device does, summed over the devices of a coordinate.
    std::ranges::fill(out.ratios[axis], 0);
    for (int device = 0; device < problem.cost.device_count(); ++device)
      out.ratios[axis][size_t(problem.mesh.coordinate(device, int(axis)))] +=
          out.prediction.devices[size_t(device)].share;
  }
  return out;
}

}  // namespace hetsynth
