#include <algorithm>
#include <thread>
#include <utility>

#include "api/impl.h"
#include "pipeline/report.h"

namespace hetsynth::api {
namespace {

/// The stages of a model that is differentiated already, on a cluster.
std::shared_ptr<Plan::Impl> begun(const Model& model, const Cluster& cluster) {
  auto out = std::make_shared<Plan::Impl>();
  Compilation& c = out->compilation;
  const Model::Impl& from = *model.impl();
  c.embedded = true;
  c.model_options = from.options;
  c.model = from.model;
  c.given_devices = cluster.impl()->cluster;
  c.stages_done = 1;
  return out;
}

Effort effort_of(PlanOptions::Effort effort) {
  switch (effort) {
    case PlanOptions::Effort::quick:
      return Effort::quick;
    case PlanOptions::Effort::full:
      return Effort::full;
    case PlanOptions::Effort::normal:
      break;
  }
  return Effort::normal;
}

}  // namespace

Cluster::Cluster(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

Cluster Cluster::read(const std::string& path) {
  return with_own_errors([&] { return Cluster(std::make_shared<Impl>(load_cluster(path))); });
}

Cluster Cluster::parsed(std::string_view toml, const std::string& name) {
  return with_own_errors([&] { return Cluster(std::make_shared<Impl>(parse_cluster(toml, name))); });
}

Cluster Cluster::local(int devices) {
  const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  return with_own_errors([&] { return Cluster(std::make_shared<Impl>(local_cluster(devices > 0 ? devices : cores))); });
}

std::vector<std::string> Cluster::devices() const {
  std::vector<std::string> out;
  for (const Device& device : impl_->cluster.devices) out.push_back(device.name);
  return out;
}

Plan::Plan(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

Plan plan(const Model& model, const Cluster& cluster, const PlanOptions& options) {
  return with_own_errors([&] {
    std::shared_ptr<Plan::Impl> out = begun(model, cluster);
    Compilation& c = out->compilation;
    const Model::Impl& from = *model.impl();
    c.reference = from.reference;
    c.turns = from.turns;
    c.whole_step = from.whole_step;
    c.stages_done = 3;
    c.effort = effort_of(options.effort);
    c.plan_seconds = options.time_limit_seconds;
    c.without = options.without;
    c.mesh_axes = options.mesh_axes;
    c.stages = options.stages;
    if (!options.pins_file.empty()) c.pins = load_pins(options.pins_file);
    if (options.progress)
      c.progress = [&](const SynthesisProgress& p) {
        return options.progress({p.elapsed_seconds, p.best_seconds, p.bound_seconds});
      };
    run_pipeline(c, "synthesize", {});
    c.progress = {};
    return Plan(std::move(out));
  });
}

Plan Plan::load(const std::string& path, const Model& model, const Cluster& cluster) {
  return with_own_errors([&] {
    std::shared_ptr<Impl> out = begun(model, cluster);
    out->compilation.plan_file = path;
    run_pipeline(out->compilation, "synthesize", {});
    return Plan(std::move(out));
  });
}

void Plan::save(const std::string& path) const {
  with_own_errors([&] { save_plan(path, impl_->compilation.plan, impl_->compilation.reference); });
}

double Plan::step_seconds() const { return impl_->compilation.plan.prediction.step_seconds; }

double Plan::bound_seconds() const { return impl_->compilation.plan.prediction.shares_bound_seconds; }

std::vector<DeviceShare> Plan::devices() const {
  std::vector<DeviceShare> out;
  for (const DevicePrediction& d : impl_->compilation.plan.prediction.devices)
    out.push_back({d.device, d.share, d.compute_seconds, d.communication_seconds, d.idle_seconds, d.memory_bytes,
                   d.memory_limit_bytes});
  return out;
}

std::string Plan::text() const {
  const Compilation& c = impl_->compilation;
  return plan_text(c.plan, c.reference, c.left_out);
}

std::string Plan::json() const {
  const Compilation& c = impl_->compilation;
  return plan_json(c.plan, c.reference, c.left_out);
}

std::string Plan::document() const { return plan_to_json(impl_->compilation.plan, impl_->compilation.reference); }

Proof Plan::prove(double time_limit_seconds) const {
  return with_own_errors([&] {
    const std::lock_guard lock(impl_->mutex);
    Compilation& c = impl_->compilation;
    c.verify_seconds = time_limit_seconds;
    run_pipeline(c, "verify", {});
    Proof out;
    out.verdict = c.verification.verdict == Verdict::proved    ? Proof::Verdict::proved
                  : c.verification.verdict == Verdict::refuted ? Proof::Verdict::refuted
                                                               : Proof::Verdict::unknown;
    out.reason = c.verification.summary;
    out.text = verify_text(c);
    out.json = verification_json(c.verification);
    return out;
  });
}

}  // namespace hetsynth::api
