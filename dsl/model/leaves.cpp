// Parameters of a model and their starting values. The inputs that data fills are in data.cpp.
#include <fmt/format.h>

#include "dsl/include/hetsynth/model.h"
#include "dsl/ir/trace.h"

namespace hetsynth {

Init constant_init(double value) { return {Init::Kind::constant, value}; }
Init zeros() { return constant_init(0); }
Init ones() { return constant_init(1); }
Init normal(double standard_deviation) { return {Init::Kind::normal, standard_deviation}; }
Init uniform(double half_width) { return {Init::Kind::uniform, half_width}; }

Tensor parameter(const std::string& name, const Dims& shape, Init init, std::source_location where) {
  if (name.empty())
    throw UserError({.where = location(where),
                     .tag = "parameter",
                     .message = "a parameter needs a name",
                     .found = "an empty one",
                     .mend = "plans and checkpoints find it by that name"});
  Trace& trace = Trace::current();
  Tensor t = trace.add_leaf(NodeKind::parameter, name, {shape, DType::f32}, where);
  trace.program.nodes[t.node()].initializer = {Initializer::Kind(int(init.kind)), init.value};
  return t;
}

}  // namespace hetsynth
