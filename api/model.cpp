#include <algorithm>
#include <utility>

#include "api/impl.h"

namespace hetsynth::api {
namespace {

ModelOptions with_settings(const std::string& file, const Settings& settings) {
  ModelOptions out;
  out.file = file;
  for (const auto& [name, value] : settings) out.set.push_back(name + "=" + value);
  return out;
}

/// Traces a model that is loaded, and makes its step.
std::shared_ptr<const Model::Impl> prepared(ModelOptions options, std::shared_ptr<LoadedModel> model) {
  Compilation c;
  c.embedded = true;
  c.model_options = options;
  c.model = model;
  c.stages_done = 1;
  run_pipeline(c, "differentiate", {});
  auto out = std::make_shared<Model::Impl>();
  out->options = std::move(options);
  out->model = std::move(model);
  out->reference = std::move(c.reference);
  out->turns = c.turns;
  out->whole_step = std::move(c.whole_step);
  return out;
}

}  // namespace

std::vector<StepInput> step_inputs(const Program& reference) {
  std::vector<StepInput> out;
  for (const Node& node : reference.nodes) {
    if (node.kind != NodeKind::input || node.micro_batch.first_sample != 0) continue;
    StepInput input{as_one_batch(node), global_sample(node, 1, 0) - global_sample(node, 0, 0), 0};
    if (!input.node.type.shape.empty()) input.node.type.shape[0] = input.samples;
    input.elements = element_count(input.node.type.shape);
    out.push_back(std::move(input));
  }
  return out;
}

TensorInfo info_of(const std::string& name, const TensorType& type) {
  return {name, type.shape, type.dtype == DType::i32};
}

Model::Model(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

Model Model::loaded(const std::string& path, const Settings& settings) {
  return with_own_errors([&] { return Model(prepared(with_settings(path, settings), load_model(path))); });
}

Model Model::built(std::function<void()> build, const Settings& settings, const std::string& name) {
  return with_own_errors(
      [&] { return Model(prepared(with_settings(name, settings), model_of_function(std::move(build), name))); });
}

std::vector<TensorInfo> Model::inputs() const {
  std::vector<TensorInfo> out;
  for (const StepInput& input : step_inputs(impl_->reference)) out.push_back(info_of(input.node.name, input.node.type));
  return out;
}

std::vector<TensorInfo> Model::parameters() const {
  std::vector<TensorInfo> out;
  for (const Node& node : impl_->reference.nodes)
    if (node.kind == NodeKind::parameter) out.push_back(info_of(node.name, node.type));
  return out;
}

std::string Model::warnings() const { return impl_->model->warnings(); }

}  // namespace hetsynth::api
