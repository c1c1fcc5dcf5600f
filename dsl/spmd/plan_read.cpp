// A plan from JSON. The file may be hand-made, broken or hostile: every reference is resolved and every number bounded
// before it is used.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "dsl/base/file.h"
#include "dsl/base/json_tree.h"
#include "dsl/base/suggest.h"
#include "dsl/spmd/plan.h"
#include "dsl/spmd/plan_decisions.h"

namespace hetsynth {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

double seconds(const JsonReader& reader) { return reader.is_null() ? infinity : reader.number(0, 1e18); }

std::vector<std::vector<double>> read_ratios(const JsonReader& reader, const Mesh& mesh) {
  std::vector<std::vector<double>> ratios;
  const auto axes = reader.elements();
  if (!axes.empty() && axes.size() != mesh.axes.size())
    reader.fail("wrong number of ratio lists", fmt::format("{}, one per mesh axis, or none", mesh.axes.size()),
                fmt::format("{}", axes.size()));
  for (const JsonReader& axis : axes) {
    const auto shares = axis.elements();
    const int size = mesh.axes[ratios.size()].size;
    if (shares.size() != size_t(size))
      axis.fail("wrong number of shares", fmt::format("{}, the size of the axis", size),
                fmt::format("{}", shares.size()));
    ratios.emplace_back();
    for (const JsonReader& share : shares) ratios.back().push_back(share.number(0, 1));
  }
  return ratios;
}

Trial read_trial(const JsonReader& reader) {
  reader.check_members({"mesh", "devices", "device_count", "bound_seconds", "outcome"},
                       {"step_seconds", "compute_seconds", "communication_seconds", "hideable_seconds",
                        "latency_seconds", "timeline_seconds"});
  Trial trial;
  for (const JsonReader& size : reader.member("mesh").elements())
    trial.mesh.push_back(int(size.integer(1, max_cluster_devices)));
  trial.devices = reader.member("devices").string();
  trial.device_count = int(reader.member("device_count").integer(1, max_cluster_devices));
  trial.bound_seconds = seconds(reader.member("bound_seconds"));
  const auto optional_seconds = [&](const char* key) { return reader.has(key) ? seconds(reader.member(key)) : 0; };
  // Earlier files have the sum there, and the step as it unfolds beside it.
  trial.step_seconds = optional_seconds(reader.has("timeline_seconds") ? "timeline_seconds" : "step_seconds");
  trial.compute_seconds = optional_seconds("compute_seconds");
  trial.communication_seconds = optional_seconds("communication_seconds");
  trial.latency_seconds = optional_seconds("latency_seconds");
  trial.hideable_seconds = optional_seconds("hideable_seconds");
  trial.outcome = reader.member("outcome").string();
  return trial;
}

Prediction read_prediction(const JsonReader& reader, size_t devices) {
  reader.check_members({"step_seconds", "lower_bound_seconds", "optimal", "devices", "baselines"},
                       {"floor_seconds", "objective_seconds", "hidden_weight", "shares_bound_seconds", "cut_short",
                        "turns", "considered"});
  Prediction prediction;
  prediction.step_seconds = seconds(reader.member("step_seconds"));
  prediction.objective_seconds =
      reader.has("objective_seconds") ? seconds(reader.member("objective_seconds")) : prediction.step_seconds;
  if (reader.has("floor_seconds")) prediction.floor_seconds = seconds(reader.member("floor_seconds"));
  if (reader.has("hidden_weight")) prediction.hidden_weight = reader.member("hidden_weight").number(0, 1);
  prediction.lower_bound_seconds = seconds(reader.member("lower_bound_seconds"));
  if (reader.has("shares_bound_seconds"))
    prediction.shares_bound_seconds = seconds(reader.member("shares_bound_seconds"));
  prediction.optimal = reader.member("optimal").boolean();
  if (reader.has("cut_short")) prediction.cut_short = reader.member("cut_short").boolean();
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  for (const JsonReader& entry : reader.member("devices").elements()) {
    entry.check_members({"device", "share", "compute_seconds", "communication_seconds", "idle_seconds", "memory_bytes",
                         "memory_limit_bytes"},
                        {"hidden_seconds"});
    prediction.devices.push_back({entry.member("device").string(), entry.member("share").number(0, 1),
                                  seconds(entry.member("compute_seconds")),
                                  seconds(entry.member("communication_seconds")),
                                  entry.has("hidden_seconds") ? seconds(entry.member("hidden_seconds")) : 0,
                                  seconds(entry.member("idle_seconds")), entry.member("memory_bytes").integer(0, most),
                                  entry.member("memory_limit_bytes").integer(0, most)});
  }
  if (!prediction.devices.empty() && prediction.devices.size() != devices)
    reader.member("devices").fail("wrong number of devices", fmt::format("{}", devices),
                                  fmt::format("{}", prediction.devices.size()));
  for (const JsonReader& entry : reader.member("baselines").elements()) {
    entry.check_members({"name", "step_seconds", "feasible", "note"});
    prediction.baselines.push_back({entry.member("name").string(), seconds(entry.member("step_seconds")),
                                    entry.member("feasible").boolean(), entry.member("note").string()});
  }
  if (reader.has("turns"))
    for (const JsonReader& entry : reader.member("turns").elements()) {
      entry.check_members({"turns", "taken"}, {"step_seconds", "compute_seconds", "communication_seconds",
                                               "short_of_memory", "stages", "stage_devices"});
      TurnTrial trial{.turns = entry.member("turns").string(), .taken = entry.member("taken").boolean()};
      if (entry.has("stages")) trial.stages = int(entry.member("stages").integer(1, max_cluster_devices));
      if (entry.has("stage_devices"))
        trial.stage_devices = int(entry.member("stage_devices").integer(1, max_cluster_devices));
      if (entry.has("step_seconds")) trial.step_seconds = seconds(entry.member("step_seconds"));
      if (entry.has("compute_seconds")) trial.compute_seconds = seconds(entry.member("compute_seconds"));
      if (entry.has("communication_seconds"))
        trial.communication_seconds = seconds(entry.member("communication_seconds"));
      trial.short_of_memory = entry.has("short_of_memory") && entry.member("short_of_memory").boolean();
      prediction.turns.push_back(std::move(trial));
    }
  if (reader.has("considered"))
    for (const JsonReader& entry : reader.member("considered").elements())
      prediction.considered.push_back(read_trial(entry));
  return prediction;
}

/// Before anything else is read: another schema would only cause messages that mislead.
void check_schema(const JsonReader& root) {
  const JsonReader schema = root.member("schema");
  const int64_t version = schema.integer(1, std::numeric_limits<int64_t>::max());
  if (version > plan_schema_version)
    schema.fail("the plan was written by a newer hetsynth", fmt::format("schema {} or older", plan_schema_version),
                fmt::format("schema {}", version), "use that version, or plan again with this one");
  root.check_members({"schema", "tool", "model", "cluster", "devices", "decisions"}, {"prediction"});
  root.member("model").check_members({"file", "hash", "options"});
}

void check_model(const JsonReader& model, const Program& reference) {
  const std::string hash = hash_text(reference);
  if (model.member("hash").string() == hash) return;
  model.fail("the plan was made for another model, or for other options of this one",
             fmt::format("{}, hash {}", quote(model.member("file").string()), quote(model.member("hash").string())),
             fmt::format("{}, hash {}", quote(reference.model_file), quote(hash)),
             "plan again with `hetsynth plan`, or give the model and options that the plan was made with");
}

std::vector<OptionValue> read_options(const JsonReader& model) {
  std::vector<OptionValue> options;
  for (const JsonReader& option : model.member("options").members())
    options.push_back({option.key(), option.string(), ""});
  return options;
}

PlanDevice read_device(const JsonReader& reader) {
  reader.check_members({"name", "kind", "model", "architecture"}, {"epilogues", "attention"});
  PlanDevice device;
  device.name = label(reader.member("name"));
  const std::vector<std::string> kinds{"cpu", "cuda"};
  device.kind = DeviceKind(choice(reader.member("kind"), "kind of device", kinds, reader.member("kind").string()));
  device.model = label(reader.member("model"));
  device.architecture = label(reader.member("architecture"));
  if (reader.has("attention")) {
    const std::vector<std::string> names = attention_by_names();
    const JsonReader word = reader.member("attention");
    device.attention = attention_by[choice(word, "attention", names, word.string())];
  }
  if (!reader.has("epilogues")) return device;
  device.epilogues.emplace();
  const std::vector<std::string> names = fused_product_names();
  for (const JsonReader& word : reader.member("epilogues").elements())
    device.epilogues->insert(
        *fused_product(names[size_t(choice(word, "epilogue of a product", names, word.string()))]));
  return device;
}

void read_devices(const JsonReader& reader, Plan& plan) {
  std::set<std::string> names;
  for (const JsonReader& entry : reader.elements()) {
    plan.devices.push_back(read_device(entry));
    if (!names.insert(plan.devices.back().name).second)
      entry.fail(fmt::format("the device {} stands twice", quote(plan.devices.back().name)));
  }
}

}  // namespace

Plan plan_from_json(std::string_view json, const std::string& file, const Program& reference) {
  const JsonNode document = parse_json(json, file, "plan");
  const JsonReader root(document, file, "plan");
  check_schema(root);
  const JsonReader model = root.member("model");
  check_model(model, reference);
  Plan plan;
  plan.tool_version = root.member("tool").string();
  plan.model_file = model.member("file").string();
  plan.model_hash = model.member("hash").string();
  plan.model_options = read_options(model);
  const JsonReader cluster = root.member("cluster");
  cluster.check_members({"name", "hash"});
  plan.cluster_name = cluster.member("name").string();
  plan.cluster_hash = cluster.member("hash").string();
  read_devices(root.member("devices"), plan);
  const JsonReader decisions = root.member("decisions");
  decisions.check_members({"mesh", "ratios", "tables", "leaves", "instructions", "finals", "loss"},
                          {"hosts", "carried", "schedules"});
  plan.program = read_decisions(decisions, reference, plan.devices.size());
  plan.ratios = read_ratios(decisions.member("ratios"), plan.program.mesh);
  const auto is_cuda = [](const PlanDevice& device) { return device.kind == DeviceKind::cuda; };
  const auto in_bucket = [](const Instruction& instruction) { return instruction.bucket >= 0; };
  if (std::ranges::any_of(plan.devices, is_cuda) && std::ranges::any_of(plan.program.instructions, in_bucket))
    decisions.member("instructions")
        .fail("a collective has a bucket, but some devices are GPUs", "buckets among cpu devices alone", "",
              "leave \"bucket\" out; GPUs make buckets of their own");
  if (root.has("prediction")) plan.prediction = read_prediction(root.member("prediction"), plan.devices.size());
  return plan;
}

std::vector<OptionValue> plan_options(std::string_view json, const std::string& file) {
  const JsonNode document = parse_json(json, file, "plan");
  const JsonReader root(document, file, "plan");
  check_schema(root);
  return read_options(root.member("model"));
}

std::vector<OptionValue> read_plan_options(const std::string& path) {
  return plan_options(read_file(path, "plan file", JsonLimits{}.bytes), path);
}

}  // namespace hetsynth
