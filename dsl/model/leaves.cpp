// Leaves of a model: parameters and the inputs that data fills.
#include <fmt/format.h>

#include "dsl/include/hetsynth/model.h"
#include "dsl/ir/trace.h"

namespace hetsynth {
namespace {

struct Source {
  const char* name;
  DataSource data;
  TensorType type;
};

Tensor add_input(const Source& source, const std::source_location& where) {
  Trace& trace = Trace::current();
  Tensor input = trace.add_leaf(NodeKind::input, source.name, source.type, where);
  trace.program.nodes[input.node()].data = source.data;
  return input;
}

void require_positive(const char* tag, const char* what, int64_t value, const std::source_location& where) {
  if (value >= 1) return;
  throw UserError({.where = location(where),
                   .tag = tag,
                   .message = fmt::format("{} must be positive", what),
                   .expected = "1 or more",
                   .found = std::to_string(value)});
}

constexpr int64_t byte_values = 256;

}  // namespace

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

TextBatch text_batch(int64_t batch, int64_t length, std::source_location where) {
  require_positive("text_batch", "batch", batch, where);
  require_positive("text_batch", "length", length, where);
  TensorType type{{batch, length}, DType::i32};
  return {add_input({"tokens", {DataSource::Kind::text_tokens, length, byte_values}, type}, where),
          add_input({"targets", {DataSource::Kind::text_targets, length, byte_values}, type}, where)};
}

TextBatch text_next_byte(int64_t batch, int64_t length, std::source_location where) {
  require_positive("text_next_byte", "batch", batch, where);
  require_positive("text_next_byte", "length", length, where);
  return {
      add_input({"tokens", {DataSource::Kind::text_tokens, length, byte_values}, {{batch, length}, DType::i32}}, where),
      add_input({"targets", {DataSource::Kind::text_next, length, byte_values}, {{batch}, DType::i32}}, where)};
}

LabelledBatch synthetic_batch(int64_t batch, int64_t features, int64_t classes, std::source_location where) {
  require_positive("synthetic_batch", "batch", batch, where);
  require_positive("synthetic_batch", "features", features, where);
  require_positive("synthetic_batch", "classes", classes, where);
  return {
      add_input({"samples", {DataSource::Kind::synthetic_normal, features, 0}, {{batch, features}, DType::f32}}, where),
      add_input({"labels", {DataSource::Kind::synthetic_label, features, classes}, {{batch}, DType::i32}}, where)};
}

}  // namespace hetsynth
