#include "dsl/ir/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <string_view>
#include <utility>

#include "dsl/base/json_tree.h"
#include "dsl/ir/evaluation.h"
#include "dsl/ir/precision_setting.h"
#include "dsl/ir/trace_limit.h"

namespace hetsynth {
namespace {

thread_local Trace* live_trace = nullptr;
thread_local size_t most_tensors = std::numeric_limits<size_t>::max();  // other threads trace other models

void check_limit(const Program& program) {
  if (program.nodes.size() < most_tensors) return;
  throw UserError({.where = {program.model_file},
                   .message = "the model grows beyond what the plan can be of",
                   .expected = fmt::format("at most {} tensors", most_tensors),
                   .mend = "the plan's options are not those of this model: plan anew"});
}

constexpr const char* sane_shape = "extents of at least 1, and at most 2^48 elements in all";

/// "[matmul] ... argument 1 is h, made here" for every argument that came from the user's file.
void add_argument_notes(Diagnostic& diagnostic, const Program& program, const std::vector<Tensor>& inputs) {
  for (size_t j = 0; j < inputs.size(); ++j) {
    const Node& node = program[inputs[j].node()];
    if (!node.where.known()) continue;
    std::string what = node.name.empty() ? std::string(node.tag()) : node.name;
    diagnostic.notes.push_back({node.where, fmt::format("argument {} is {}, {}", j + 1, what, text(node.type))});
  }
}

/// `wish`, or with a number behind it if a leaf has that name; empty stays empty. Inputs do not take names away from
/// parameters and states.
std::string unique_leaf_name(std::set<std::string>& taken, NodeKind kind, const std::string& wish) {
  const std::string space = kind == NodeKind::input ? "input " : "kept ";
  std::string name = wish;
  for (int number = 2; !wish.empty() && !taken.insert(space + name).second; ++number)
    name = fmt::format("{}_{}", wish, number);
  return name;
}

/// A user's parameter is found by its name in plans and checkpoints, so it keeps that name or is refused.
[[noreturn]] void refuse_second(const Program& program, const std::string& name, const SourceLocation& where) {
  Diagnostic diagnostic{.where = where,
                        .tag = "parameter",
                        .message = fmt::format("a second parameter or state is called {}", name),
                        .expected = "a name of its own for each: plans and checkpoints find it by that name",
                        .mend = fmt::format("give it another name; if {} is meant to be one parameter that is used "
                                            "twice, call parameter() once and use its result twice",
                                            name)};
  for (const Node& node : program.nodes)
    if (node.name == name && (node.kind == NodeKind::parameter || node.kind == NodeKind::state) && node.where.known())
      diagnostic.notes.push_back({node.where, fmt::format("the first {} is made here", name)});
  throw UserError(std::move(diagnostic));
}

bool is_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto byte = [&](size_t at) { return at < text.size() ? static_cast<unsigned char>(text[at]) : 0u; };
    const unsigned first = byte(i);
    const size_t length = first < 0x80                    ? 1
                          : first >= 0xC2 && first < 0xE0 ? 2
                          : first >= 0xE0 && first < 0xF0 ? 3
                          : first >= 0xF0 && first < 0xF5 ? 4
                                                          : 0;
    if (length == 0) return false;
    for (size_t k = 1; k < length; ++k)
      if ((byte(i + k) & 0xC0) != 0x80) return false;
    // Longer than needed, a surrogate, or above the last code point.
    const unsigned second = byte(i + 1);
    if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second >= 0xA0) || (first == 0xF0 && second < 0x90) ||
        (first == 0xF4 && second >= 0x90))
      return false;
    i += length;
  }
  return true;
}

void check_name(NodeKind kind, const std::string& name, const SourceLocation& where) {
  std::string found = unfit_name(name);
  if (name == "__metadata__") found = "__metadata__, under which checkpoints keep what is no tensor";
  if (found.empty()) return;
  throw UserError({.where = where,
                   .tag = std::string(hetsynth::name(kind)),
                   .message = "the name cannot stand in plans and checkpoints",
                   .expected = std::string(fit_names),
                   .found = found,
                   .mend = "give it another name"});
}

}  // namespace

std::string unfit_name(const std::string& name) {
  constexpr size_t longest = 200;
  if (name.size() > longest)
    return fmt::format("{} bytes, \"{}...\"", name.size(), is_utf8(name) ? name.substr(0, 20) : "");
  if (!is_utf8(name)) return "bytes that are no UTF-8";
  const bool odd = std::ranges::any_of(
      name, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F || c == '"' || c == '\\'; });
  return odd ? json_quoted(name) : "";
}

TraceLimit::TraceLimit(size_t tensors) : before_(std::exchange(most_tensors, tensors)) {}
TraceLimit::~TraceLimit() { most_tensors = before_; }

SourceLocation location(const std::source_location& where) {
  return {where.file_name(), int(where.line()), int(where.column())};
}

Trace::Trace(std::string model_file, std::map<std::string, std::string> settings) : settings(std::move(settings)) {
  HETSYNTH_CHECK(live_trace == nullptr, "one trace at a time per thread");
  program.model_file = std::move(model_file);
  live_trace = this;
}

Trace::~Trace() { live_trace = nullptr; }

Trace& Trace::current() {
  if (!live_trace)
    throw UserError({.message = "a DSL function was called outside of a model",
                     .mend = "call it from `void model()`, which hetsynth runs when it loads the file"});
  return *live_trace;
}

Tensor Trace::repeated_parameter(const std::string& name, const TensorType& type, const std::source_location& where) {
  bool same = next_parameter < parameters.size();
  if (same) {
    const Node& node = program[parameters[next_parameter].node()];
    // The name of a state that an operator makes may have got a number.
    same = (node.kind == NodeKind::parameter ? node.name == name : node.name.starts_with(name)) && node.type == type;
  }
  if (!same)
    throw UserError({.where = scope.known() ? scope : location(where),
                     .tag = "parameter",
                     .message = fmt::format("{} differs from one micro-batch to the next", name),
                     .expected = "the same parameters in the same order whenever model() runs",
                     .mend = "let model() depend on nothing but its options"});
  Tensor leaf = parameters[next_parameter++];
  // A state that the model keeps itself (a running statistic) goes on from what the last micro-batch made of it.
  for (const Update& update : program.updates)
    if (update.target == leaf.node()) return Tensor(update.value);
  return leaf;
}

void Trace::trace_next_micro_batch() {
  ++micro_batch;
  next_parameter = 0;
  phase = Phase::forward;
  std::vector<NodeId> before;
  for (const Node& node : program.nodes)
    if (node.kind == NodeKind::input && node.micro_batch.first_sample == 0) before.push_back(node.id);
  size_t first = program.nodes.size(), position = 0, updated = program.updates.size();
  builder();
  for (size_t i = updated; i < program.updates.size(); ++i)
    for (size_t earlier = 0; earlier < updated; ++earlier)
      if (program.updates[earlier].value == program.updates[i].target)
        program.updates[earlier].value = program.updates[i].value;
  program.updates.resize(updated);
  for (size_t i = first; i < program.nodes.size(); ++i) {
    Node& node = program.nodes[i];
    if (node.kind != NodeKind::input || node.type.shape.empty()) continue;
    HETSYNTH_CHECK(position < before.size() && program[before[position]].type == node.type,
                   "micro-batches have the same inputs");
    Node& original = program.nodes[before[position++]];
    original.micro_batch.samples_per_step = micro_batches * node.type.shape[0];
    node.micro_batch.samples_per_step = original.micro_batch.samples_per_step;
    node.micro_batch.first_sample = micro_batch * node.type.shape[0];
    node.micro_batch.of = data_name(original);
  }
}

Tensor Trace::add_leaf(NodeKind kind, std::string name, TensorType type, const std::source_location& where) {
  check_limit(program);
  bool of_model = kind == NodeKind::parameter || (kind == NodeKind::state && phase == Phase::forward);
  if (of_model && micro_batch > 0) return repeated_parameter(name, type, where);
  if (!is_sane(type.shape))
    throw UserError({.where = scope.known() ? scope : location(where),
                     .tag = std::string(hetsynth::name(kind)),
                     .message = fmt::format("{} has an impossible shape", name),
                     .expected = sane_shape,
                     .found = text(type.shape)});
  Node node;
  node.id = int(program.nodes.size());
  node.kind = kind;
  node.type = std::move(type);
  if (phase == Phase::forward) check_name(kind, name, scope.known() ? scope : location(where));
  if (kind == NodeKind::parameter && leaf_names.count("kept " + name))
    refuse_second(program, name, scope.known() ? scope : location(where));
  node.name = unique_leaf_name(leaf_names, kind, name);
  node.where = scope.known() ? scope : location(where);
  node.phase = phase;
  program.nodes.push_back(std::move(node));
  if (of_model) parameters.push_back(Tensor(program.nodes.back().id));
  return Tensor(program.nodes.back().id);
}

Tensor Trace::emit(std::shared_ptr<const Operator> op, std::vector<Tensor> inputs, const std::source_location& where) {
  check_limit(program);
  Node node;
  node.where = scope.known() ? scope : location(where);
  std::vector<TensorType> types;
  node.loop = loop;
  for (size_t j = 0; j < inputs.size(); ++j) {
    if (!inputs[j].defined() || inputs[j].node() >= int(program.nodes.size()))
      throw UserError({.where = node.where,
                       .tag = std::string(op->tag()),
                       .message = fmt::format("argument {} is no tensor of this model", j + 1),
                       .expected = "a tensor made by an input, a parameter or an operator",
                       .found = "a default-constructed Tensor",
                       .mend = "give the variable a value before it is used"});
    check_stays_in_loop(*op, inputs[j], node.where);
    types.push_back(program[inputs[j].node()].type);
    node.inputs.push_back(inputs[j].node());
  }
  try {
    node.type = op->infer(types);
    if (!is_sane(node.type.shape))
      throw UserError({.tag = std::string(op->tag()),
                       .message = "the result has an impossible shape",
                       .expected = sane_shape,
                       .found = text(node.type.shape)});
  } catch (const UserError& error) {
    throw at_call(error, inputs, node.where);
  }
  node.space = op->space(types, node.type);
  node.body = op->body(types, node.type);
  node.op = std::move(op);
  node.id = int(program.nodes.size());
  node.phase = phase;
  if (backward_of >= 0) node.name = "d_" + program[backward_of].name;
  program.nodes.push_back(std::move(node));
  return Tensor(program.nodes.back().id);
}

void Trace::check_stays_in_loop(const Operator& reader, Tensor tensor, const SourceLocation& where) const {
  const Node& node = program[tensor.node()];
  // Gradients may: what they read of a loop is stacked for them (dsl/transform/loop_gradient.h).
  const bool leaves = phase == Phase::forward && node.loop >= 0 && node.loop != loop && stacked_dim(node.space) < 0;
  if (!leaves || reader.tag() == "last") return;
  throw UserError({.where = where,
                   .tag = std::string(reader.tag()),
                   .message = fmt::format("{} is read outside of the scan that makes it",
                                          node.name.empty() ? node.tag() : node.name),
                   .expected = "the states and the outputs that the scan gives",
                   .found = "a tensor that was taken out of the scan's body by a variable",
                   .mend = "let the body return it in its ScanStep"});
}

UserError Trace::at_call(const UserError& error, const std::vector<Tensor>& arguments, SourceLocation where) const {
  Diagnostic diagnostic = error.diagnostic();
  if (!diagnostic.where.known()) diagnostic.where = std::move(where);
  add_argument_notes(diagnostic, program, arguments);
  return UserError(std::move(diagnostic), error.code());
}

void Trace::set_name(Tensor tensor, const std::string& name, SourceLocation where) {
  Node& node = program.nodes.at(tensor.node());
  if (!node.name.empty()) return;  // the innermost variable names the tensor; passing it on does not rename it
  node.name = name;
  if (where.known()) node.where = std::move(where);
}

void Trace::set_custom_vjp(Tensor output, std::vector<Tensor> inputs, CustomVjp vjp) {
  custom_gradients[output.node()] = {std::move(inputs), std::move(vjp)};
}

void Trace::stop_gradient(Tensor tensor) { stopped.insert(tensor.node()); }

CallScope::CallScope(const std::source_location& where) {
  Trace& trace = Trace::current();
  outermost_ = !trace.scope.known();
  if (outermost_) trace.scope = location(where);
}

CallScope::~CallScope() {
  if (outermost_ && live_trace) live_trace->scope = {};
}

Tensor emit(std::shared_ptr<const Operator> op, std::vector<Tensor> inputs, const std::source_location& where) {
  return Trace::current().emit(std::move(op), std::move(inputs), where);
}

Tensor named(Tensor tensor, const char* name, const char* file, int line, int column) {
  if (tensor.defined()) Trace::current().set_name(tensor, name, {file, line, column});
  return tensor;
}

namespace {

const TensorType& type_of(const Tensor& tensor) {
  const Program& program = Trace::current().program;
  if (!tensor.defined() || tensor.node() >= int(program.nodes.size()))
    throw UserError({.where = Trace::current().scope,
                     .message = "a default-constructed Tensor has no shape",
                     .mend = "give the variable a value before it is used"});
  return program[tensor.node()].type;
}

}  // namespace

const std::vector<int64_t>& Tensor::shape() const { return type_of(*this).shape; }
int Tensor::rank() const { return int(shape().size()); }
DType Tensor::dtype() const { return type_of(*this).dtype; }

int64_t Tensor::size(int dim, std::source_location where) const {
  int at = dim < 0 ? dim + rank() : dim;
  if (at < 0 || at >= rank())
    throw UserError({.where = location(where),
                     .tag = "size",
                     .message = fmt::format("there is no dimension {}", dim),
                     .expected = fmt::format("a dimension from {} to {}", -rank(), rank() - 1),
                     .found = text(shape())});
  return shape()[at];
}

namespace {

constexpr const char* micro_batches_setting = "micro_batches";
constexpr const char* turns_setting = "turns";
constexpr const char* freeze_setting = "freeze";
constexpr const char* gradient_norm_setting = "gradient_norm";
/// Every micro-batch is traced: more would make programs that take long to plan and prove.
constexpr int most_micro_batches = 256;

void take_micro_batches(Trace& trace) {
  auto setting = trace.settings.find(micro_batches_setting);
  if (setting == trace.settings.end()) return;
  const std::string& text = setting->second;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), trace.micro_batches);
  bool number = error == std::errc() && end == text.data() + text.size();
  if (!number || trace.micro_batches < 1 || trace.micro_batches > most_micro_batches)
    throw UserError({.where = {trace.program.model_file},
                     .tag = micro_batches_setting,
                     .message = "this is no number of micro-batches",
                     .expected = fmt::format("a whole number from 1 to {}", most_micro_batches),
                     .found = fmt::format("\"{}\"", text),
                     .mend = "--accumulate 4 makes a step of four batches"},
                    ExitCode::usage);
  trace.settings_used.insert(micro_batches_setting);
  if (trace.micro_batches > 1)
    trace.program.options.push_back({micro_batches_setting, text, "batches whose gradients make one step"});
}

void take_turns_setting(Trace& trace) {
  if (const auto turns = trace.settings.find(turns_setting); turns != trace.settings.end()) {
    trace.turns = turns->second;
    trace.settings_used.insert(turns_setting);
  }
}

void take_freeze_setting(Trace& trace) {
  const auto freeze = trace.settings.find(freeze_setting);
  if (freeze == trace.settings.end()) return;
  trace.freeze = freeze->second;
  trace.settings_used.insert(freeze_setting);
  trace.program.options.push_back({freeze_setting, freeze->second, "parameters that are not trained"});
}

void take_gradient_norm_setting(Trace& trace) {
  const auto norm = trace.settings.find(gradient_norm_setting);
  if (norm == trace.settings.end()) return;
  if (norm->second != "1")
    throw UserError({.where = {trace.program.model_file},
                     .tag = gradient_norm_setting,
                     .message = "this setting has one value",
                     .expected = "1: the norm of all gradients is told beside the loss",
                     .found = fmt::format("\"{}\"", norm->second),
                     .mend = "--gradient-norm, or leave it out"},
                    ExitCode::usage);
  trace.tells_gradient_norm = true;
  trace.settings_used.insert(gradient_norm_setting);
  trace.program.options.push_back({gradient_norm_setting, "1", "the norm of all gradients is told beside the loss"});
}

}  // namespace

void run_builder(Trace& trace, const std::function<void()>& builder) {
  take_micro_batches(trace);
  take_turns_setting(trace);
  take_evaluation_setting(trace);
  take_freeze_setting(trace);
  take_gradient_norm_setting(trace);
  take_precision_setting(trace);
  trace.builder = builder;
  builder();
  settle_precision_setting(trace);
  for (const auto& [name, value] : trace.settings) {
    if (trace.settings_used.count(name)) continue;
    std::string known;
    for (const OptionValue& option : trace.program.options) known += (known.empty() ? "" : ", ") + option.name;
    throw UserError({.where = {trace.program.model_file},
                     .message = fmt::format("the model has no option named {}", name),
                     .expected = known.empty() ? "no options: the model asks for none" : "one of: " + known,
                     .found = fmt::format("{}={}", name, value),
                     .mend = fmt::format("leave it out, or read it in the model with option(\"{}\", ...)", name)},
                    ExitCode::usage);
  }
}

}  // namespace hetsynth
