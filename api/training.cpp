#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "api/caller_data.h"
#include "api/evaluating.h"
#include "api/source_ahead.h"
#include "dsl/base/suggest.h"
#include "pipeline/report.h"
#include "runtime/data/data_ahead.h"
#include "runtime/launch.h"
#include "runtime/training/checkpoint.h"

namespace hetsynth::api {
namespace {

/// Handles of one plan may lie with several threads.
void require_right_plan(Plan::Impl& plan, bool unverified) {
  const std::lock_guard lock(plan.mutex);
  require_right(plan.compilation, unverified);
}

}  // namespace

struct Training::Impl {
  Impl(const Plan& of, TrainingOptions given) : plan(of.impl()), options(std::move(given)), seed(options.seed) {
    if (options.source && !options.data.empty())
      throw UserError({.tag = "data",
                       .message = "steps that are given no data would have them from two places",
                       .expected = "TrainingOptions::data or TrainingOptions::source",
                       .found = "both"},
                      ExitCode::usage);
    // Data that cannot be used are told of before the proof, which takes time.
    if (!options.data.empty()) open();
    require_right_plan(*plan, options.unverified);
    inputs = step_inputs(c().reference);
    start();
  }

  const Compilation& c() const { return plan->compilation; }

  void start() {
    evaluating.reset();  // it has the parameters of this executor
    executor.reset();
    executor = launch(
        c().reference, c().plan.program, c().cluster,
        {.executor = {.seed = seed, .threads = {.quiet_seconds = quiet_seconds(c().plan)}}, .programs = &c().programs});
  }

  void open() {
    ahead.reset();
    data = open_data(c().reference, {options.data, seed, place.first_step, place.seen_samples});
    ahead.emplace(*data, largest_step);
  }

  CallerData& own_data() {
    if (!own) own.emplace(inputs, place);
    return *own;
  }

  StepResult step(const BatchSource& source) {
    const StepReport report = executor->step(next_step, source);
    ++next_step;
    return {report.step, report.loss, report.seconds, {report.metrics.begin(), report.metrics.end()}};
  }

  /// Of a step that is given no data.
  const BatchSource& next_data() {
    if (options.source) {
      if (!source_ahead) source_ahead.emplace(options.source, inputs, place);
      return source_ahead->of_step(next_step);
    }
    if (!data) open();
    return *ahead;
  }

  Evaluating& evaluation() {
    if (!evaluating) evaluating.emplace(c(), *executor, options.unverified);
    return *evaluating;
  }

  const BatchSource& last_data() { return data ? static_cast<const BatchSource&>(*data) : own_data(); }

  void save(const std::string& path) {
    const BatchSource& source = last_data();
    save_checkpoint(path, *executor,
                    {.next_step = next_step,
                     .samples = inputs.empty() ? 0 : source.first_sample(inputs.front().node, next_step),
                     .data = source.description(),
                     .data_fingerprint = data ? data->fingerprint() : "",
                     .plan = plan_line(c().plan, c().turns),
                     .tokenizer = source.origin().known() ? source.origin() : tokenizer});
  }

  void load(const std::string& path) {
    const CheckpointInfo info = check_checkpoint(path, c().reference);
    if (data) check_tokenizer_of(path, info.tokenizer, data->origin(), "the data");
    if (data) check_data_of(path, info, *data);
    if (info.seed != executor->seed()) {
      seed = info.seed;
      start();
    }
    load_checkpoint(path, *executor);
    next_step = info.next_step;
    tokenizer = info.tokenizer;
    if (info.samples) place = {info.next_step, *info.samples};
    own.reset();
    source_ahead.reset();
    if (data) open();
  }

  const std::shared_ptr<Plan::Impl> plan;
  const TrainingOptions options;
  uint64_t seed;
  std::vector<StepInput> inputs;
  RunPlace place;
  int64_t next_step = 0;
  TokenOrigin tokenizer;              ///< of the checkpoint that was loaded
  std::unique_ptr<BatchSource> data;  ///< of TrainingOptions::data
  std::optional<DataAhead> ahead;     ///< the same
  std::optional<CallerData> own;
  std::optional<SourceAhead> source_ahead;  ///< of TrainingOptions::source
  std::unique_ptr<Executor> executor;
  std::optional<Evaluating> evaluating;  ///< from the first evaluation on
};

namespace {

/// What a name stands for.
struct NamedTensor {
  NodeId node = -1;
  bool is_output = false;
};

/// The parameters, states and outputs that can be read, by name.
std::map<std::string, NamedTensor> readable(const Program& reference) {
  std::map<std::string, NamedTensor> out;
  for (const Node& node : reference.nodes)
    if (node.kind == NodeKind::parameter || node.kind == NodeKind::state) out.try_emplace(node.name, node.id, false);
  for (const NamedOutput& output : reference.outputs) out.try_emplace(output.name, output.node, true);
  return out;
}

NamedTensor find_tensor(const Program& reference, const std::string& name) {
  const std::map<std::string, NamedTensor> all = readable(reference);
  if (const auto found = all.find(name); found != all.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [other, _] : all) names.push_back(other);
  throw UserError(
      {.where = {reference.model_file},
       .tag = "tensor",
       .message = fmt::format("the model has no parameter, state or output {}", quote(name)),
       .expected = quoted_list(names),
       .mend = did_you_mean(name, names, "a tensor is kept if the model marks it: output(\"name\", tensor)")});
}

}  // namespace

Training::Training(const Plan& plan, const TrainingOptions& options)
    : impl_(with_own_errors([&] { return std::make_unique<Impl>(plan, options); })) {}
Training::~Training() = default;
Training::Training(Training&&) noexcept = default;
Training& Training::operator=(Training&&) noexcept = default;

StepResult Training::step(const Batch& batch) {
  return with_own_errors([&] {
    impl_->own_data().take(batch, impl_->next_step);
    return impl_->step(impl_->own_data());
  });
}

StepResult Training::step(const SampleSource& source) {
  return with_own_errors([&] {
    impl_->own_data().take(source, impl_->next_step);
    return impl_->step(impl_->own_data());
  });
}

StepResult Training::step() {
  return with_own_errors([&] { return impl_->step(impl_->next_data()); });
}

EvaluationResult Training::evaluate(const std::string& data, int64_t batches) {
  return with_own_errors([&] { return impl_->evaluation().over(data, batches); });
}

EvaluationResult Training::evaluate(const SampleSource& source, int64_t batches) {
  return with_own_errors([&] { return impl_->evaluation().over(source, batches); });
}

int64_t Training::next_step() const { return impl_->next_step; }

TensorValues Training::tensor(const std::string& name) const {
  return with_own_errors([&] {
    const NamedTensor found = find_tensor(impl_->c().reference, name);
    const HostTensor whole =
        found.is_output ? impl_->executor->read_output(found.node) : impl_->executor->read(found.node);
    TensorValues out{info_of(name, whole.type), {}, {}};
    if (whole.type.dtype == DType::i32) {
      const auto values = whole.as<int32_t>();
      out.integers.assign(values.begin(), values.end());
    } else {
      const auto values = whole.as<float>();
      out.floats.assign(values.begin(), values.end());
    }
    return out;
  });
}

void Training::set_tensor(const std::string& name, std::span<const float> values) {
  with_own_errors([&] {
    const Program& reference = impl_->c().reference;
    const Node& node = reference[find_tensor(reference, name).node];
    const int64_t count = element_count(node.type.shape);
    const bool kept = node.kind == NodeKind::parameter || node.kind == NodeKind::state;
    if (!kept || node.type.dtype != DType::f32 || static_cast<int64_t>(values.size()) != count)
      throw UserError({.where = node.where,
                       .tag = "tensor",
                       .message = fmt::format("{} cannot take what the program gives for it", name),
                       .expected = kept ? fmt::format("{} values of float32, {}", count, text(node.type))
                                        : "a parameter or a state",
                       .found = kept ? fmt::format("{} values of float32", values.size()) : "an output"});
    HostTensor whole(node.type);
    std::memcpy(whole.bytes.data(), values.data(), values.size_bytes());
    impl_->executor->write(node.id, whole);
  });
}

void Training::save(const std::string& path) const {
  with_own_errors([&] { impl_->save(path); });
}

void Training::load(const std::string& path) {
  with_own_errors([&] { impl_->load(path); });
}

}  // namespace hetsynth::api
