#include "synth/space/rules.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "dsl/base/error.h"
#include "synth/support/parameters.h"

namespace hetsynth::synth {
namespace {

/// By number of axes: dimensions after this many are never cut, so that sets of forms can be enumerated.
constexpr size_t max_cut_dims[] = {0, 6, 5, 3};
/// The same where maxima are computed.
constexpr size_t max_cut_dims_beside_maxima[] = {0, 6, 5, 2};

/// Whether an axis of so many is one of depth.
constexpr bool is_depth(int axis, int axes) { return axes > 2 && axis == 0; }

/// Whether parts along an axis of so many may overlap: those of the inner one.
constexpr bool exchanges_halos(int axis, int axes) {
  return axes <= most_axes_with_halos && axis == std::max(1, axes) - 1;
}

/// What one axis does in an option: per operand the forms it can be given in on this axis, and the result's.
struct AxisOption {
  int factor = -1;
  std::vector<std::vector<AxisForm>> needs;
  AxisForm form;
};

AxisOption replicated_option(const Node& node) {
  return {-1, std::vector<std::vector<AxisForm>>(node.inputs.size(), {AxisForm{}}), {}};
}

/// What a factor slides windows over.
struct WindowRead {
  int factor;
  size_t operand;
  WindowCut cut;
};

/// By kind of operation, all that factors slide over; and by tensor the forms with a halo that its readers ask for: one
/// per dimension, wide enough for all. Of parameters and states none, which are kept in the form they are read in.
struct Windows {
  Windows(const Program& program, const DimensionClasses& classes, const std::vector<int>& kinds)
      : program_(program), classes_(classes), kinds_(kinds), halos_(program.nodes.size()) {
    for (const Node& node : program.nodes)
      for (const WindowRead& read : reads(node)) add(node, read);
  }

  const std::vector<AxisForm>& halos(NodeId tensor) const { return halos_[size_t(tensor)]; }

  const std::vector<WindowRead>& reads(const Node& node) {
    auto [it, fresh] = reads_.try_emplace(node.leaf() ? -1 : kinds_[node.id]);
    if (!fresh || node.leaf()) return it->second;
    for (size_t f = 0; f < node.space.factors.size(); ++f)
      for (size_t j = 0; j < node.inputs.size(); ++j)
        if (auto cut = window_cut_of(node.space, node.space.inputs[j], program_[node.inputs[j]].type.shape, int(f)))
          it->second.push_back({int(f), j, *cut});
    return it->second;
  }

  /// Whether one table cuts the factor and what it slides over.
  bool tied(const Node& node, const WindowRead& read) const {
    const int class_id = classes_.factors[node.id][size_t(read.factor)];
    return class_id >= 0 && class_id == classes_.dims[node.inputs[read.operand]][size_t(read.cut.dim)];
  }

  /// The forms in which the operand can be read where the factor is split.
  std::vector<AxisForm> forms(const Node& node, int factor, size_t operand) {
    std::vector<AxisForm> out;
    for (const WindowRead& read : reads(node)) {
      if (read.factor != factor || read.operand != operand || !tied(node, read)) continue;
      if (read.cut.before + read.cut.after == 0) out.push_back({AxisForm::Kind::sharded, read.cut.dim});
      for (const AxisForm& halo : halos(node.inputs[operand]))
        if (halo.dim == read.cut.dim && halo.before >= read.cut.before && halo.after >= read.cut.after)
          out.push_back(halo);
    }
    return out;
  }

 private:
  void add(const Node& node, const WindowRead& read) {
    const Node& tensor = program_[node.inputs[read.operand]];
    const bool kept = tensor.leaf() && tensor.kind != NodeKind::input;
    if (kept || read.cut.before + read.cut.after == 0 || !tied(node, read)) return;
    std::vector<AxisForm>& halos = halos_[size_t(tensor.id)];
    auto form = std::ranges::find(halos, read.cut.dim, &AxisForm::dim);
    if (form == halos.end())
      form = halos.insert(form, {AxisForm::Kind::sharded, read.cut.dim, 0, 0, tensor.type.shape[size_t(read.cut.dim)]});
    form->before = std::max(form->before, read.cut.before);
    form->after = std::max(form->after, read.cut.after);
  }

  const Program& program_;
  const DimensionClasses& classes_;
  const std::vector<int>& kinds_;
  std::vector<std::vector<AxisForm>> halos_;        ///< by tensor
  std::map<int, std::vector<WindowRead>> reads_{};  ///< by kind; of leaves none
};

AxisOption split_option(const Program& program, Windows* windows, const Node& node, int factor) {
  AxisOption option = replicated_option(node);
  option.factor = factor;
  for (size_t j = 0; j < node.inputs.size(); ++j) {
    std::vector<AxisForm>& needs = option.needs[j];
    if (auto cut = cut_of(node.space, node.space.inputs[j], program[node.inputs[j]].type.shape, factor))
      needs.push_back({AxisForm::Kind::sharded, cut->dim});
    else if (windows)
      for (const AxisForm& form : windows->forms(node, factor, j)) needs.push_back(form);
  }
  switch (node.space.factors[factor].kind) {
    case FactorKind::sum:
      option.form.kind = AxisForm::Kind::partial_sum;
      break;
    case FactorKind::max:
      option.form.kind = AxisForm::Kind::partial_max;
      break;
    default:
      option.form = {AxisForm::Kind::sharded, cut_of(node.space, node.space.output, node.type.shape, factor)->dim};
  }
  return option;
}

std::vector<uint32_t> partial_sets(size_t operands) {
  std::vector<uint32_t> sets;
  if (operands <= most_enumerated_operands) {
    for (uint32_t set = 1; set < (1u << operands); ++set) sets.push_back(set);
  } else if (operands < 32) {
    for (size_t j = 0; j < operands; ++j) sets.push_back(1u << j);
    sets.push_back((1u << operands) - 1);
  }
  return sets;
}

void add_pass_options(const Node& node, std::vector<AxisOption>* options) {
  if (node.space.reduction() == FactorKind::max) return;
  for (uint32_t set : partial_sets(node.inputs.size())) {
    std::set<int> operands;
    for (size_t j = 0; j < node.inputs.size(); ++j)
      if (set >> j & 1) operands.insert(int(j));
    if (linearity(node.body, operands) != Linearity::linear) continue;
    AxisOption option = replicated_option(node);
    for (int j : operands) option.needs[j] = {{AxisForm::Kind::partial_sum}};
    option.form.kind = AxisForm::Kind::partial_sum;
    options->push_back(std::move(option));
  }
}

/// The first dimension with a class; -1: none.
int first_dim(const DimensionClasses& classes, NodeId node) {
  const auto& dims = classes.dims[node];
  for (size_t d = 0; d < dims.size(); ++d)
    if (dims[d] >= 0) return int(d);
  return -1;
}

/// Whether an option cuts nothing but first dimensions.
bool cuts_first_dims(const DimensionClasses& classes, const Node& node, const AxisOption& option) {
  const auto first = [&](NodeId tensor, const AxisForm& form) {
    return form.kind != AxisForm::Kind::partial_max && (!form.sharded() || form.dim == first_dim(classes, tensor));
  };
  bool all = first(node.id, option.form);
  for (size_t j = 0; j < node.inputs.size(); ++j)
    for (const AxisForm& form : option.needs[j]) all = all && first(node.inputs[j], form);
  return all;
}

/// What each axis can do.
std::vector<std::vector<AxisOption>> axis_options(const Program& program, const DimensionClasses& classes,
                                                  Windows* windows, const Node& node, int axes) {
  std::vector<AxisOption> all{replicated_option(node)};
  std::vector<std::vector<AxisOption>> out(max_axes, all);
  for (size_t f = 0; f < node.space.factors.size(); ++f)
    if (classes.factors[node.id][f] >= 0) all.push_back(split_option(program, windows, node, int(f)));
  add_pass_options(node, &all);
  for (int axis = 0; axis < std::max(1, axes); ++axis) {
    out[size_t(axis)] = all;
    if (is_depth(axis, axes))
      std::erase_if(out[size_t(axis)], [&](const AxisOption& o) { return !cuts_first_dims(classes, node, o); });
  }
  return out;
}

using ByAxis = std::array<const AxisOption*, max_axes>;

/// The forms of an operand that every axis finds acceptable.
FormMask accepted(const std::vector<Form>& forms, const ByAxis& by_axis, size_t operand) {
  FormMask mask = 0;
  for (size_t i = 0; i < forms.size(); ++i) {
    bool good = true;
    for (int a = 0; a < max_axes && good; ++a) {
      const std::vector<AxisForm>& needs = by_axis[a]->needs[operand];
      good = std::find(needs.begin(), needs.end(), forms[i].on[a]) != needs.end();
    }
    // Where two axes split one factor, the inner one reads parts of parts: its parts of the whole are others.
    const bool together = by_axis[0]->factor >= 0 && by_axis[0]->factor == by_axis[1]->factor;
    good = good && (together ? !forms[i].on[1].sharded() || forms[i].nested() : !forms[i].nested());
    if (good) mask |= FormMask(1) << i;
  }
  return mask;
}

/// False if the axes cannot do this together.
bool combine(const DimensionClasses& classes, const Rules& rules, const Node& node, const ByAxis& by_axis,
             Option* out) {
  *out = {};
  Form form;
  for (int a = 0; a < max_axes; ++a) {
    const int factor = by_axis[a]->factor;
    const bool again = factor >= 0 && std::find(out->factor.begin(), out->factor.end(), factor) != out->factor.end();
    const bool of_class = again && classes.factors[node.id][size_t(factor)] == rules.nested_class;
    if (again && !(of_class && cuts_first_dims(classes, node, *by_axis[a]))) return false;
    out->factor[a] = factor;
    form.on[a] = by_axis[a]->form;
  }
  out->form = rules.form_index(node.id, form);
  if (out->form < 0) return false;
  for (size_t j = 0; j < node.inputs.size(); ++j) {
    out->needs.push_back(accepted(rules.forms[node.inputs[j]], by_axis, j));
    if (out->needs.back() == 0) return false;
  }
  return true;
}

std::vector<Option> options_of(const Program& program, const DimensionClasses& classes, const Rules& rules,
                               Windows* windows, const Node& node) {
  std::vector<Option> options;
  if (node.leaf()) return options;
  const auto by_axis = axis_options(program, classes, windows, node, rules.axes);
  Option option;
  for (const AxisOption& a : by_axis[0])
    for (const AxisOption& b : by_axis[1])
      for (const AxisOption& c : by_axis[2])
        if (combine(classes, rules, node, {&a, &b, &c}, &option)) options.push_back(option);
  return options;
}

bool any(const Form& form, auto what) { return std::any_of(form.on.begin(), form.on.end(), what); }

}  // namespace

bool Form::partial() const {
  return any(*this, [](const AxisForm& f) { return f.partial(); });
}
bool Form::sharded() const {
  return any(*this, [](const AxisForm& f) { return f.sharded(); });
}
bool Form::overlaps() const {
  return any(*this, [](const AxisForm& f) { return f.overlaps(); });
}
bool Form::whole() const { return !partial() && !sharded(); }
bool Form::nested() const { return on[0].sharded() && on[0] == on[1]; }

CutClass Form::cut(int axis, const std::vector<int>& classes) const {
  const AxisForm& along = on[size_t(axis)];
  if (!along.sharded()) return -1;
  const int class_id = classes[size_t(along.dim)];
  return axis > 0 && along == on[0] ? parts_of(class_id) : class_id;
}

bool Option::splits() const {
  return std::any_of(factor.begin(), factor.end(), [](int f) { return f >= 0; });
}

std::vector<Form> forms_of(const Program& program, const DimensionClasses& classes, NodeId node, int axes,
                           int nested_class, const std::vector<AxisForm>& halos) {
  const bool maxima = program[node].space.reduction() == FactorKind::max;
  const size_t most = (maxima ? max_cut_dims_beside_maxima : max_cut_dims)[axes];
  std::vector<AxisForm> single{{}};
  for (size_t d = 0; d < classes.dims[node].size() && single.size() <= most; ++d)
    if (classes.dims[node][d] >= 0) single.push_back({AxisForm::Kind::sharded, int(d)});
  single.push_back({AxisForm::Kind::partial_sum});
  if (maxima) single.push_back({AxisForm::Kind::partial_max});
  const auto on = [&](int axis) {
    std::vector<AxisForm> out{{}};
    if (axis > 0 && axis >= axes) return out;
    out = single;
    if (exchanges_halos(axis, axes)) out.insert(out.end() - (maxima ? 2 : 1), halos.begin(), halos.end());
    if (is_depth(axis, axes))
      std::erase_if(out, [&](const AxisForm& f) {
        return f.kind == AxisForm::Kind::partial_max || (f.sharded() && f.dim != first_dim(classes, node));
      });
    return out;
  };
  const auto clash = [&](const AxisForm& a, const AxisForm& b) {
    const bool nests = a.sharded() && !b.overlaps() && a.dim == first_dim(classes, node) &&
                       classes.dims[node][size_t(a.dim)] == nested_class;
    return (a.sharded() && b.sharded() && a.dim == b.dim && !nests) || (a.partial() && b.partial() && a.kind != b.kind);
  };
  std::vector<Form> forms;
  for (const AxisForm& a : on(0))
    for (const AxisForm& b : on(1))
      for (const AxisForm& c : on(2))
        if (!clash(a, b) && !clash(a, c) && !clash(b, c)) forms.push_back({{a, b, c}});
  if (forms.size() > size_t(max_forms) && !halos.empty()) return forms_of(program, classes, node, axes, nested_class);
  HETSYNTH_CHECK(forms.size() <= size_t(max_forms), "a tensor has more forms than a mask holds");
  std::stable_partition(forms.begin(), forms.end(), [](const Form& form) { return !form.partial(); });
  return forms;
}

std::vector<int> Rules::leaf_forms(const Node& leaf) const {
  if (leaf.kind == NodeKind::input) return {0};
  std::vector<int> out;
  for (size_t f = 0; f < forms[leaf.id].size(); ++f)
    if (!forms[leaf.id][f].partial()) out.push_back(int(f));
  return out;
}

int Rules::form_index(NodeId node, const Form& form) const {
  auto it = std::find(forms[node].begin(), forms[node].end(), form);
  return it == forms[node].end() ? -1 : int(it - forms[node].begin());
}

Rules derive_rules(const Program& program, const DimensionClasses& classes, const std::vector<int>& kinds, int axes,
                   NestedCuts nested) {
  Rules rules;
  rules.axes = axes;
  rules.nested = nested;
  if (axes == 2 && nested == NestedCuts::of_samples) rules.nested_class = samples_class(program, classes);
  // A dimension or factor with a class may be cut, of one class along both axes.
  std::optional<Windows> windows;
  if (axes <= most_axes_with_halos) windows.emplace(program, classes, kinds);
  const auto may_cut = [&](int c) { return c < 0 ? 0 : c == rules.nested_class ? 2 : 1; };
  std::map<std::vector<int>, int> form_kinds, option_kinds;
  std::map<std::vector<int>, int> seen_forms;  // by content
  for (const Node& node : program.nodes) {
    std::vector<int> key{kinds[node.id]};
    for (int c : classes.dims[node.id]) key.push_back(may_cut(c));
    const std::vector<AxisForm> overlapping = windows ? windows->halos(node.id) : std::vector<AxisForm>();
    for (const AxisForm& on : overlapping) key.insert(key.end(), {on.dim, int(on.before), int(on.after)});
    auto [it, fresh] = form_kinds.try_emplace(std::move(key), -1);
    if (fresh) {
      std::vector<Form> forms = forms_of(program, classes, node.id, axes, rules.nested_class, overlapping);
      std::vector<int> content;
      for (const Form& form : forms)
        for (const AxisForm& on : form.on)
          content.insert(content.end(),
                         {int(on.kind) * 64 + on.dim + 1, int(on.before), int(on.after), int(on.extent)});
      auto [known, first] = seen_forms.try_emplace(std::move(content), -1);
      if (first) known->second = rules.forms.add_kind(std::move(forms));
      it->second = known->second;
    }
    rules.forms.add(it->second);
  }
  for (const Node& node : program.nodes) {
    std::vector<int> key{node.leaf() ? -1 : kinds[node.id], rules.forms.kind(node.id)};
    for (NodeId input : node.inputs) key.push_back(rules.forms.kind(input));
    for (int c : classes.factors[node.id]) key.push_back(may_cut(c));
    if (windows)
      for (const WindowRead& read : windows->reads(node)) key.push_back(windows->tied(node, read));
    auto [it, fresh] = option_kinds.try_emplace(std::move(key), -1);
    if (fresh)
      it->second = rules.options.add_kind(options_of(program, classes, rules, windows ? &*windows : nullptr, node));
    rules.options.add(it->second);
  }
  return rules;
}

}  // namespace hetsynth::synth
