#include "synth/model/pins.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "dsl/base/error.h"
#include "dsl/base/suggest.h"
#include "synth/model/problem.h"

namespace hetsynth {
namespace {

constexpr Opcode communication[] = {Opcode::slice,      Opcode::to_partial,     Opcode::all_gather,
                                    Opcode::all_reduce, Opcode::reduce_scatter, Opcode::all_to_all,
                                    Opcode::broadcast,  Opcode::halo_exchange};

[[noreturn]] void fail(std::string message, std::string expected, std::string found, std::string mend) {
  throw UserError({.tag = "pins",
                   .message = std::move(message),
                   .expected = std::move(expected),
                   .found = std::move(found),
                   .mend = std::move(mend)},
                  ExitCode::usage);
}

}  // namespace

PlanPins::PinnedPlacement parse_pinned_placement(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == 0 || equals == std::string::npos || equals + 1 == text.size())
    fail("a pinned placement needs a tensor and a placement", "NAME=PLACEMENT, as in \"w1=sharded(0)\"", quote(text),
         "write --pin NAME=replicated, NAME=sharded(DIMENSION) or NAME=partial(sum)");
  return {text.substr(0, equals), text.substr(equals + 1)};
}

std::vector<std::string> forbidden_words() {
  std::vector<std::string> words;
  for (Opcode opcode : communication) words.emplace_back(name(opcode));
  words.emplace_back("recompute");
  return words;
}

void add_forbidden(const std::string& text, PlanPins* pins) {
  const std::vector<std::string> words = forbidden_words();
  const size_t at = size_t(std::ranges::find(words, text) - words.begin());
  if (at == words.size())
    fail("there is no such instruction to forbid", "one of " + quoted_list(words), quote(text),
         did_you_mean(text, words, "name an instruction of communication, or \"recompute\""));
  if (at < std::size(communication))
    pins->forbidden.push_back(communication[at]);
  else
    pins->recompute = false;
}

void add_pins(const PlanPins& more, PlanPins* pins) {
  pins->placements.insert(pins->placements.end(), more.placements.begin(), more.placements.end());
  pins->forbidden.insert(pins->forbidden.end(), more.forbidden.begin(), more.forbidden.end());
  pins->recompute = pins->recompute && more.recompute;
  if (!more.ratio.empty()) pins->ratio = more.ratio;
  if (!more.mesh.empty()) pins->mesh = more.mesh;
}

std::vector<int> parse_mesh(const std::string& text) {
  std::vector<int> sizes;
  const char *at = text.data(), *end = at + text.size();
  while (at < end) {
    int size = 0;
    auto [next, error] = std::from_chars(at, end, size);
    if (error != std::errc() || size < 1 || (next < end && *next != 'x') || next + 1 == end) break;
    sizes.push_back(size);
    at = next + 1;
    if (next == end) return sizes;
  }
  fail("a mesh is named by the sizes of its axes", "such as \"8\" or \"2x4\"", quote(text),
       "write --mesh HOSTSxDEVICES");
}

}  // namespace hetsynth

namespace hetsynth::synth {
namespace {

std::string text_of(const AxisForm& form) {
  switch (form.kind) {
    case AxisForm::Kind::sharded:
      return fmt::format("sharded({})", form.dim);
    case AxisForm::Kind::partial_sum:
      return "partial(sum)";
    case AxisForm::Kind::partial_max:
      return "partial(max)";
    default:
      return "replicated";
  }
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts(1);
  for (char c : text) {
    if (c == ',')
      parts.emplace_back();
    else if (c != ' ')
      parts.back() += c;
  }
  return parts;
}

/// Whether the form is what was asked for on every axis that was named.
bool matches(const Form& form, const std::vector<std::string>& wanted) {
  for (size_t axis = 0; axis < wanted.size(); ++axis)
    if (wanted[axis] != "any" && wanted[axis] != text_of(form.on[axis])) return false;
  return true;
}

std::string form_text(const Form& form, size_t axes) {
  std::string out;
  for (size_t axis = 0; axis < axes; ++axis) out += (axis ? "," : "") + text_of(form.on[axis]);
  return out;
}

/// The form a node's tensor is first made in, by value of its variable (as in the planning network).
std::vector<int> forms_by_value(const Problem& problem, const Node& node) {
  if (node.leaf()) return problem.rules.leaf_forms(node);
  std::vector<int> forms;
  for (const Option& option : problem.rules.options[node.id]) forms.push_back(option.form);
  return forms;
}

/// Leaves go first: an operation may be named after the parameter it is made for.
const Node& named_node(const Problem& problem, const std::string& name) {
  std::vector<std::string> names;
  const Node* found = nullptr;
  for (const Node& node : problem.program.nodes) {
    if (node.kind == NodeKind::input) continue;
    names.push_back(node.name);
    if (node.name == name && (!found || (node.leaf() && !found->leaf()))) found = &node;
  }
  if (!found)
    fail("the model has no tensor of this name", "the name of a parameter, a state or an operation", quote(name),
         did_you_mean(name, names, "see the names with --dump-after=differentiate"));
  return *found;
}

}  // namespace

Pins pinned_values(const Problem& problem, const PlanPins& pins) {
  Pins out;
  const size_t axes = problem.mesh.axes.size();
  for (const PlanPins::PinnedPlacement& pin : pins.placements) {
    const Node& node = named_node(problem, pin.node);
    const std::vector<std::string> wanted = split(pin.placement);
    const std::vector<int> forms = forms_by_value(problem, node);
    std::vector<std::string> possible;
    std::vector<int> values;
    for (size_t value = 0; value < forms.size(); ++value) {
      const Form& form = problem.rules.forms[node.id][forms[value]];
      if (wanted.size() <= axes && matches(form, wanted)) values.push_back(int(value));
      std::string text = form_text(form, axes);
      if (std::find(possible.begin(), possible.end(), text) == possible.end()) possible.push_back(std::move(text));
    }
    if (values.empty())
      fail(fmt::format("{} cannot be placed like this on {} ax{}", node.name, axes, axes == 1 ? "is" : "es"),
           "one of " + quoted_list(possible), quote(pin.placement),
           "pin another placement; a dimension is cut only where every operator that meets it can be");
    auto [it, fresh] = out.try_emplace(node.id, values);
    if (!fresh)
      std::erase_if(it->second, [&](int v) { return std::find(values.begin(), values.end(), v) == values.end(); });
  }
  return out;
}

void check_pins(const PlanPins& pins, const Cluster& cluster) {
  const size_t devices = cluster.devices.size();
  double sum = 0;
  for (double share : pins.ratio) {
    if (!(share >= 0) || std::isinf(share))
      fail("a share of the work is not negative", "numbers from 0", fmt::format("{}", share), "mend --ratio");
    sum += share;
  }
  if (!pins.ratio.empty() && (pins.ratio.size() != devices || sum <= 0))
    fail("a ratio has a share for every device of the cluster", fmt::format("{} numbers, not all 0", devices),
         fmt::format("{} numbers, sum {}", pins.ratio.size(), sum),
         "mend --ratio; devices are in the cluster file's order");
  double product = 1;
  for (int size : pins.mesh) product *= size;
  if (pins.mesh.empty()) return;
  if (pins.mesh.size() > size_t(max_axes))
    fail("a mesh of so many axes is not planned", fmt::format("at most {} axes", max_axes),
         fmt::format("{} axes", pins.mesh.size()), "name fewer axes");
  if (product != double(devices))
    fail("a mesh holds every device of the cluster once", fmt::format("sizes whose product is {}", devices),
         fmt::format("a product of {}", product), "mend --mesh");
}

std::vector<std::string> pin_texts(const PlanPins& pins) {
  std::vector<std::string> out;
  for (const auto& pin : pins.placements) out.push_back(pin.node + "=" + pin.placement);
  for (Opcode opcode : pins.forbidden) out.push_back("no " + std::string(name(opcode)));
  if (!pins.ratio.empty()) out.push_back("the ratio");
  if (!pins.mesh.empty()) out.push_back("the mesh");
  return out;
}

PlanPins without_pin(const PlanPins& pins, size_t index) {
  PlanPins out = pins;
  if (index < out.placements.size()) {
    out.placements.erase(out.placements.begin() + ptrdiff_t(index));
    return out;
  }
  index -= out.placements.size();
  if (index < out.forbidden.size()) {
    out.forbidden.erase(out.forbidden.begin() + ptrdiff_t(index));
    return out;
  }
  (index == out.forbidden.size() && !out.ratio.empty() ? static_cast<void>(out.ratio.clear())
                                                       : static_cast<void>(out.mesh.clear()));
  return out;
}

}  // namespace hetsynth::synth
