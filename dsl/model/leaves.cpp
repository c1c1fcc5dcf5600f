// Parameters and states of a model, and their starting values. The inputs that data fills are in data.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "dsl/include/hetsynth/model.h"
#include "dsl/ir/trace.h"
#include "dsl/ops/support/pointwise.h"

namespace hetsynth {

Init constant_init(double value) { return {Init::Kind::constant, value}; }
Init zeros() { return constant_init(0); }
Init ones() { return constant_init(1); }
Init normal(double standard_deviation) { return {Init::Kind::normal, standard_deviation}; }
Init uniform(double half_width) { return {Init::Kind::uniform, half_width}; }

namespace {

Tensor kept_leaf(NodeKind kind, const std::string& name, const Dims& shape, const Initializer& initializer,
                 const std::source_location& where) {
  if (name.empty())
    throw UserError({.where = location(where),
                     .tag = std::string(hetsynth::name(kind)),
                     .message = fmt::format("a {} needs a name", hetsynth::name(kind)),
                     .found = "an empty one",
                     .mend = "plans and checkpoints find it by that name"});
  Trace& trace = Trace::current();
  // States that operators make may get a number behind their name; these are found by the one that they are given.
  if (kind == NodeKind::state && trace.micro_batch == 0 && trace.leaf_names.contains("kept " + name))
    throw UserError({.where = location(where),
                     .tag = "state",
                     .message = fmt::format("a second parameter or state is called {}", name),
                     .expected = "a name of its own for each: plans and checkpoints find it by that name",
                     .found = fmt::format("\"{}\" again", name),
                     .mend = "give it another name; a state that is used twice is one call: call state() once"});
  Tensor t = trace.add_leaf(kind, name, {shape, DType::f32}, where);
  // In a further micro-batch it is what the one before made of it.
  if (Node& node = trace.program.nodes[size_t(t.node())]; node.leaf()) node.initializer = initializer;
  return t;
}

Initializer start_of(const Init& init) { return {Initializer::Kind(int(init.kind)), init.value}; }

void require_setting(bool holds, const char* setting, const char* expected, double found, const char* mend,
                     const std::source_location& where) {
  if (holds && std::isfinite(found)) return;
  throw UserError({.where = location(where),
                   .tag = "parameter",
                   .message = fmt::format("{} is out of range", setting),
                   .expected = expected,
                   .found = fmt::format("{}", found),
                   .mend = mend});
}

}  // namespace

Tensor parameter(const std::string& name, const Dims& shape, Init init, std::source_location where) {
  return kept_leaf(NodeKind::parameter, name, shape, start_of(init), where);
}

Tensor parameter(const std::string& name, const Dims& shape, Init init, const ParameterOptions& options,
                 std::source_location where) {
  require_setting(options.learning_rate_scale > 0, "learning_rate_scale", "a finite number above 0",
                  options.learning_rate_scale, "a parameter that does not move is {.trainable = false}", where);
  const double decay = options.weight_decay.value_or(0);
  require_setting(decay >= 0, "weight_decay", "a finite number, 0 (none) or more", decay,
                  "leave it out to have the optimizer's", where);
  Tensor t = parameter(name, shape, init, where);
  Trace::current().parameter_options[t.node()] = options;
  return t;
}

Tensor state(const std::string& name, const Dims& shape, Init init, std::source_location where) {
  Tensor t = kept_leaf(NodeKind::state, name, shape, start_of(init), where);
  Trace::current().own_states.insert(t.node());
  return t;
}

Tensor state(const std::string& name, Tensor parameter, std::source_location where) {
  Trace& trace = Trace::current();
  const auto is_parameter = [&] {
    return parameter.defined() && parameter.node() < int(trace.program.nodes.size()) &&
           trace.program[parameter.node()].kind == NodeKind::parameter;
  };
  if (!is_parameter())
    throw UserError({.where = location(where),
                     .tag = "state",
                     .message = fmt::format("there is nothing that {} could start as", name),
                     .expected = "a parameter, whose starting values a state may share",
                     .found = parameter.defined() ? "a computed tensor, or an input" : "a default-constructed Tensor",
                     .mend = "give a shape and starting values: state(\"" + name + "\", x.shape(), zeros())"});
  const Node& of = trace.program[parameter.node()];
  Initializer start = of.initializer;
  if (start.drawn_as.empty() && start.kind != Initializer::Kind::constant) start.drawn_as = of.name;
  const Dims shape = of.type.shape;
  Tensor t = kept_leaf(NodeKind::state, name, shape, start, where);
  trace.own_states.insert(t.node());
  return t;
}

void update(Tensor state, Tensor value, std::source_location where) {
  Trace& trace = Trace::current();
  const Program& program = trace.program;
  const auto fail = [&](const std::string& message, const std::string& expected, const std::string& found,
                        const std::string& mend) {
    throw UserError({.where = location(where),
                     .tag = "update",
                     .message = message,
                     .expected = expected,
                     .found = found,
                     .mend = mend});
  };
  for (Tensor t : {state, value})
    if (!t.defined() || t.node() >= int(program.nodes.size()))
      fail("an argument is no tensor of this model", "a state and its next value", "a default-constructed Tensor",
           "give the variable a value before it is used");
  if (trace.loop >= 0)
    fail("a state cannot change from one step of a scan to the next", "update() outside of the scan's body",
         "a call in the body", "let the scan carry a state of its own, and update this one with what it gives");
  const std::string name = program[state.node()].name;
  const auto becomes = [&](NodeId node) {
    return std::ranges::any_of(program.updates, [&](const Update& u) { return u.target == node; });
  };
  if (!trace.own_states.contains(state.node()))
    fail(fmt::format("{} is no state of the model's own", name.empty() ? "the first argument" : name),
         "what state(name, ...) gave", std::string(program[state.node()].tag()),
         program[state.node()].kind == NodeKind::parameter ? "minimize() changes parameters; make a state beside it"
                                                           : "keep what state() gives in a variable, and update that");
  if (becomes(state.node()))
    fail(fmt::format("{} is updated a second time", name), "one update of a state", "two calls of update",
         "compute the value in which the step ends, and update once");
  const TensorType &type = program[state.node()].type, &of_value = program[value.node()].type;
  if (!(type == of_value))
    fail(fmt::format("the new value of {} has another {}", name, type.shape == of_value.shape ? "type" : "shape"),
         text(type), text(of_value), "a state keeps its shape and type from step to step");
  // A node of its own: what is updated with a leaf, or with the value of another state, is a copy.
  CallScope scope(where);
  Tensor next = pointwise({.tag = "next_state", .body = Expr::input(0)}, {value}, where);
  trace.set_name(next, name + ".next", {});
  trace.program.updates.push_back({state.node(), next.node()});
}

}  // namespace hetsynth
