#include "tests/attack/traced_models.h"

#include <functional>

#include "dsl/transform/differentiate.h"
#include "hetsynth/hetsynth.h"
#include "tests/support/plan_builder.h"

namespace hetsynth::attack {
namespace {

using States = std::vector<Tensor>;

Model model_of(const OperatorInfo& info, const OperatorSample& sample) {
  test::ProgramBuilder p;
  std::vector<std::string> names;
  for (const TensorType& type : sample.inputs) {
    names.push_back("in" + std::to_string(names.size()));
    p.leaf(names.back(), NodeKind::input, type.shape, type.dtype);
  }
  const TensorType type = sample.op->infer(sample.inputs);
  p.leaf("kept", NodeKind::state, type.shape, type.dtype);
  const NodeId out =
      p.custom("out", names, sample.op->space(sample.inputs, type), sample.op->body(sample.inputs, type), type.shape);
  p.program.nodes[size_t(out)].type = type;
  p.update("kept", "out");
  return {"operator " + info.name, p.program};
}

/// Small enough that hundreds of plans of it are executed in a second.
bool small(const Program& program) {
  double work = 0;
  for (const Node& node : program.nodes) work += node.leaf() ? 0 : node.space.iterations();
  return work <= 4000;
}

Model training(const std::string& kind, const std::function<void()>& builder) {
  Trace trace("model.cpp");
  run_builder(trace, builder);
  return {kind, differentiate(trace)};
}

/// A forward pass: each of `results` is what the leaf before it holds after the step; the loss weighs the last result.
Model forward(const std::string& kind, const std::function<std::vector<std::pair<Tensor, Tensor>>()>& builder) {
  Trace trace("model.cpp");
  for (const auto& [leaf, result] : builder()) {
    trace.program.updates.push_back({leaf.node(), result.node()});
    trace.program.loss = sum(tanh(result) * 0.5).node();
  }
  return {kind, simplify(trace.program)};
}

Tensor state(const char* name, const Dims& shape) { return parameter(name, shape, uniform(0.5)); }

/// Each state takes over the one before it; the first one something new.
template <int64_t turns>
std::vector<std::pair<Tensor, Tensor>> shift_register() {
  Tensor x = state("x", {2, turns, 4}), one = state("one", {2, 4}), two = state("two", {2, 4});
  ScanResult r = scan(x, {one, two}, [&](const States& s, Tensor now) {
    return ScanStep{{tanh(s[0] + now), s[0]}, s[1] * now};
  });
  return {{two, r.state[1]}, {one, r.state[0]}, {x, r.outputs}};
}

/// Two states of which each takes over the other, and one that nothing changes.
std::vector<std::pair<Tensor, Tensor>> exchange() {
  Tensor x = state("x", {3, 2, 4}), one = state("one", {3, 4}), two = state("two", {3, 4}),
         kept = state("kept", {3, 4});
  ScanResult r = scan(x, {one, two, kept}, [&](const States& s, Tensor now) {
    return ScanStep{{s[1], s[0] * 0.5 + now, s[2]}, s[0] * s[2]};
  });
  return {{one, r.state[0]}, {kept, r.state[2]}, {two, r.state[1] + r.state[0]}};
}

/// A state multiplied by a matrix in every turn; what it was before the last one is read as well.
std::vector<std::pair<Tensor, Tensor>> powers() {
  Tensor h = state("h", {3, 4}), before = state("before", {3, 4}), w = state("w", {4, 4});
  ScanResult r = scan_steps(3, {h, before}, [&](const States& s, const States&) {
    return ScanStep{{matmul(s[0], w) + s[1], s[0]}, {}};
  });
  return {{before, r.state[0] - r.state[1]}, {h, r.state[1]}};
}

/// What every turn makes, and nothing that is carried along but a sum.
std::vector<std::pair<Tensor, Tensor>> running_sum() {
  Tensor x = state("x", {4, 3, 2}), total = state("total", {4, 2});
  ScanResult r = scan(x, {total}, [&](const States& s, Tensor now) { return ScanStep{{s[0] + now}, s[0]}; });
  return {{total, r.state[0]}, {x, r.outputs * 2.0}};
}

void train_mlp() {
  auto [x, labels] = synthetic_batch(6, 4, 3);
  Tensor h = relu(matmul(x, parameter("w1", {4, 5}, normal(0.5))) + parameter("b", {5}, zeros()));
  minimize(cross_entropy(matmul(h, parameter("w2", {5, 3}, normal(0.5))), labels),
           SGD{.learning_rate = 0.1, .momentum = 0.9});
}

void train_matrix() {
  auto [x, labels] = synthetic_batch(8, 6, 4);
  minimize(cross_entropy(matmul(x, parameter("w", {6, 4}, normal(0.5))), labels), SGD{.learning_rate = 0.1});
}

void train_norm() {
  auto [x, labels] = synthetic_batch(4, 6, 3);
  Tensor h = layernorm(matmul(x, parameter("w", {6, 4}, normal(0.5))), parameter("g", {4}, ones()),
                       parameter("b", {4}, zeros()));
  minimize(cross_entropy(matmul(h, parameter("v", {4, 3}, normal(0.5))), labels), AdamW{.learning_rate = 0.01});
}

void train_embedding() {
  auto [tokens, targets] = token_batch(3, 2, 5);
  Tensor x = embedding(parameter("table", {5, 4}, uniform(0.5)), tokens);
  minimize(cross_entropy(matmul(x, parameter("out", {4, 5}, uniform(0.5))), targets),
           SGD{.learning_rate = 0.1, .clip_norm = 0.5});
}

void train_scan() {
  auto [tokens, targets] = token_batch(4, 3, 5);
  Tensor x = embedding(parameter("table", {5, 3}, uniform(0.5)), tokens), w = parameter("w", {3, 3}, uniform(0.5));
  ScanResult r = scan(x, {full({4, 3}, 0)}, [&](const States& s, Tensor now) {
    Tensor h = tanh(now + matmul(s[0], w));
    return ScanStep{{h}, h};
  });
  minimize(cross_entropy(matmul(r.outputs, parameter("out", {3, 5}, uniform(0.5))), targets),
           SGD{.learning_rate = 0.1});
}

std::vector<std::pair<Tensor, Tensor>> lstm_layer() {
  Tensor x = state("x", {3, 2, 4}), h = state("h", {3, 4}), c = state("c", {3, 4});
  LstmStates r = lstm_states(x, lstm_weights("lstm", 4, 4), {h, c});
  return {{h, r.last.h}, {c, r.last.c}, {x, r.sequence}};
}

std::vector<std::pair<Tensor, Tensor>> gru_layer() {
  Tensor x = state("x", {3, 2, 4});
  return {{x, gru(x, gru_weights("gru", 4, 4))}};
}

}  // namespace

const std::vector<Model>& operator_models() {
  static const std::vector<Model> models = [] {
    std::vector<Model> out;
    for (const OperatorInfo& info : operator_list())
      for (const OperatorSample& sample : info.samples)
        if (Model model = model_of(info, sample); small(model.program)) out.push_back(std::move(model));
    return out;
  }();
  return models;
}

const std::vector<Model>& training_models() {
  static const std::vector<Model> models = {
      training("train matrix", train_matrix), training("train mlp", train_mlp), training("train norm", train_norm),
      training("train embedding", train_embedding), training("train scan", train_scan)};
  return models;
}

const std::vector<Model>& loop_models() {
  static const std::vector<Model> models = {forward("loop shift register", shift_register<3>),
                                            forward("loop of one turn", shift_register<1>),
                                            forward("loop exchange", exchange),
                                            forward("loop powers", powers),
                                            forward("loop running sum", running_sum),
                                            forward("loop lstm", lstm_layer),
                                            forward("loop gru", gru_layer)};
  return models;
}

}  // namespace hetsynth::attack
