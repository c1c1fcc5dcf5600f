#include "synth/baselines/baselines.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "dsl/base/error.h"
#include "synth/mesh/device_subsets.h"
#include "synth/schedule/lower.h"
#include "synth/schedule/memory_budget.h"
#include "synth/schedule/plan_buckets.h"
#include "synth/shares/start_shares.h"

namespace hetsynth::synth {
namespace {

/// In messages.
constexpr const char *data_parallelism = "data parallelism", *one_device = "the plan of one device";

/// Greedy choice for one operator given the forms its operands exist in: a split of the batch where the batch reaches
/// it, as few conversions as possible.
int greedy_option(const Problem& problem, const Node& node, int batch, const std::vector<FormMask>& available) {
  const auto& options = problem.rules.options[node.id];
  bool only_whole = !node.inputs.empty();
  for (NodeId input : node.inputs) only_whole = only_whole && available[input] == 1;
  auto rank = [&](int index) {
    const Option& option = options[index];
    // Along the first axis; other axes may split something else.
    bool splits_batch = option.factor[0] >= 0 && problem.classes.factors[node.id][size_t(option.factor[0])] == batch;
    int conversions = 0;
    for (size_t j = 0; j < node.inputs.size(); ++j) conversions += (available[node.inputs[j]] & option.needs[j]) == 0;
    bool unwanted = option.splits() && (!splits_batch || only_whole);
    return std::tuple(unwanted, conversions, splits_batch ? 0 : 1, index);
  };
  int best = 0;
  for (int i = 1; i < int(options.size()); ++i)
    if (rank(i) < rank(best)) best = i;
  return best;
}

/// The first option whose result has this form; `otherwise` if none has.
int option_for(const Problem& problem, NodeId node, const Form& form, int otherwise) {
  const auto& options = problem.rules.options[node];
  for (int i = 0; i < int(options.size()); ++i)
    if (problem.rules.forms[node][options[i].form] == form) return i;
  return otherwise;
}

}  // namespace

std::vector<std::vector<double>> fractions_of(const Problem& problem, RatioRule rule) {
  if (rule == RatioRule::proportional) return axis_fractions(problem, device_speeds(problem));
  return axis_fractions(problem, std::vector<double>(problem.cost.device_count(), 1.0));
}

int batch_class(const Problem& problem) { return samples_class(problem.program, problem.classes); }

namespace {

/// `kept`: by carry, the form it must take. Others can still take any.
Choices greedy_choices(const Problem& problem, const std::map<NodeId, Form>& kept) {
  int batch = batch_class(problem);
  const auto& nodes = problem.program.nodes;
  Choices choices{std::vector<int>(nodes.size(), 0), {}};
  std::vector<FormMask> available(nodes.size(), 1);
  for (const Node& node : nodes) {
    if (node.kind == NodeKind::input) {
      // Read from its source in any cut; the batch is the only one of interest.
      for (size_t d = 0; d < node.type.shape.size(); ++d)
        if (batch >= 0 && problem.classes.dims[node.id][d] == batch)
          available[node.id] |= FormMask(1)
                                << problem.rules.form_index(node.id, {{AxisForm{AxisForm::Kind::sharded, int(d)}}});
    }
    if (node.leaf()) continue;
    int choice = greedy_option(problem, node, batch, available);
    if (auto form = kept.find(node.id); form != kept.end()) choice = option_for(problem, node.id, form->second, choice);
    const Option& option = problem.rules.options[node.id][choice];
    choices.of[node.id] = choice;
    available[node.id] = FormMask(1) << option.form;
    if (problem.program.next_of(node.id) >= 0 && !kept.contains(node.id)) available[node.id] = ~FormMask(0);
    for (size_t j = 0; j < node.inputs.size(); ++j)
      if ((available[node.inputs[j]] & option.needs[j]) == 0)
        available[node.inputs[j]] |= option.needs[j] & -option.needs[j];
  }
  return choices;
}

}  // namespace

Choices data_parallel_choices(const Problem& problem) {
  // What a loop hands on keeps the form it is made in: sums over its turns stay partial until they are complete.
  std::map<NodeId, Form> kept;
  for (size_t rounds = 0; rounds <= problem.program.nodes.size(); ++rounds) {
    Choices choices = greedy_choices(problem, kept);
    bool changed = false;
    for (const TurnLoop& loop : problem.program.loops)
      for (const TurnLoop::Carry& c : loop.carries) {
        const Form& made = kept_form(problem, choices, c.next);
        if (kept_form(problem, choices, c.carry) == made || kept.count(c.carry)) continue;
        kept[c.carry] = made;
        changed = true;
      }
    if (!changed) return choices;
  }
  return replicated_choices(problem);
}

Choices replicated_choices(const Problem& problem) { return {std::vector<int>(problem.program.nodes.size(), 0), {}}; }

Pins tensor_parallel_pins(const Problem& problem) {
  int batch = batch_class(problem);
  Pins pins;
  for (const Node& node : problem.program.nodes) {
    if (node.leaf()) continue;
    bool has_parameter = std::any_of(node.inputs.begin(), node.inputs.end(),
                                     [&](NodeId input) { return problem.program[input].kind == NodeKind::parameter; });
    bool product = has_parameter && node.inputs.size() > 1 && node.space.reduction() == FactorKind::sum;
    std::vector<int> allowed, split;
    const auto& options = problem.rules.options[node.id];
    for (int i = 0; i < int(options.size()); ++i) {
      int factor = options[i].factor[0];
      if (factor >= 0 && problem.classes.factors[node.id][factor] == batch) continue;
      allowed.push_back(i);
      if (factor >= 0) split.push_back(i);
    }
    pins[node.id] = product && !split.empty() ? split : allowed;
  }
  return pins;
}

Plan assemble(const Problem& problem, const Conversions& conversions, const Shares& shares, const Choices& choices,
              const std::vector<std::vector<double>>& fractions) {
  return assemble(problem, shares, lower(problem, conversions, shares, choices), fractions);
}

Plan assemble(const Problem& problem, const Shares& shares, SpmdProgram program,
              const std::vector<std::vector<double>>& fractions) {
  Plan plan = identify_plan(problem.program, problem.analysis->program_hash(), problem.cluster);
  plan.ratios = fractions;
  plan.program = in_buckets_if_they_fit(problem, shares, std::move(program));
  plan.prediction = predict(problem, shares, plan.program);
  plan.prediction.lower_bound_seconds = 0;
  return plan;
}

std::vector<BaselinePrediction> baselines(const Problem& problem) {
  std::vector<BaselinePrediction> out;
  auto record = [&](const std::string& name, auto seconds) {
    BaselinePrediction baseline;
    baseline.name = name;
    try {
      baseline.step_seconds = seconds();
    } catch (const UserError& error) {
      baseline.feasible = false;
      baseline.note = error.diagnostic().message;
    }
    out.push_back(baseline);
  };
  const Choices by_batch = data_parallel_choices(problem);
  const auto data_parallel = [&](RatioRule rule) {
    return AtShares(problem, rule).step_seconds(by_batch, data_parallelism);
  };
  record("even data parallel", [&] { return data_parallel(RatioRule::even); });
  if (device_types(problem.cluster).devices.size() > 1) {
    record("speed-proportional data parallel", [&] { return data_parallel(RatioRule::proportional); });
  } else {  // the same
    out.push_back(out.back());
    out.back().name = "speed-proportional data parallel";
  }
  record("fastest device alone", [&] {
    const Cluster fastest = restricted(problem.cluster, {fastest_device(problem)});
    const Problem alone(Analysis::of_one_device(*problem.analysis), fastest, flat_mesh(fastest));
    return AtShares(alone, {{1.0}}, {}).step_seconds(replicated_choices(alone), one_device);
  });
  return out;
}

Plan single_device_plan(const Problem& all) {
  const Cluster fastest = restricted(all.cluster, {fastest_device(all)});
  const Problem problem(Analysis::of_one_device(*all.analysis), fastest, flat_mesh(fastest));
  Plan plan = AtShares(problem, {{1.0}}, {}).plan(replicated_choices(problem), one_device);
  plan.cluster_hash = hash_text(all.cluster);
  plan.prediction.lower_bound_seconds = plan.prediction.objective_seconds;
  plan.prediction.optimal = true;
  return plan;
}

AtShares::AtShares(const Problem& problem, RatioRule rule)
    : AtShares(problem, fractions_of(problem, rule), common_shares(problem.classes, fractions_of(problem, rule))) {}

AtShares::AtShares(const Problem& given, std::vector<std::vector<double>> fractions, Shares shares)
    : problem(given),
      fractions(std::move(fractions)),
      shares(std::move(shares)),
      conversions(*problem.analysis, problem.cost, this->shares) {}

Choices AtShares::cheapest(const Pins& pins) const {
  SearchInput input;
  input.pins = &pins;
  return search(problem, conversions, shares, input, {}).choices;
}

SpmdProgram AtShares::program(const Choices& choices, Wording wording) const {
  return in_buckets_if_they_fit(problem, shares, lower(problem, conversions, shares, choices, wording));
}

Plan AtShares::plan(const Choices& choices, const std::string& name) const {
  Plan plan = assemble(problem, conversions, shares, choices, fractions);
  check_memory(problem, plan.prediction, name);
  return plan;
}

double AtShares::step_seconds(const Choices& choices, const std::string& name) const {
  const Prediction prediction = predict(problem, shares, program(choices, Wording::none));
  check_memory(problem, prediction, name);
  return prediction.step_seconds;
}

Plan data_parallel_plan(const Problem& problem, RatioRule rule) {
  return AtShares(problem, rule).plan(data_parallel_choices(problem), data_parallelism);
}

Plan tensor_parallel_plan(const Problem& problem, RatioRule rule) {
  const AtShares at(problem, rule);
  const Choices choices = at.cheapest(tensor_parallel_pins(problem));
  HETSYNTH_CHECK(!choices.empty(), "tensor parallelism is always possible: every form can be converted");
  return at.plan(choices, "tensor parallelism");
}

}  // namespace hetsynth::synth

namespace hetsynth {

Plan single_device_plan(const Program& reference, const Cluster& cluster) {
  HETSYNTH_CHECK(!cluster.devices.empty(), "a cluster has a device");
  return synth::single_device_plan(synth::Problem(reference, cluster));
}

Plan data_parallel_plan(const Program& reference, const Cluster& cluster, RatioRule rule) {
  return synth::data_parallel_plan(synth::Problem(reference, cluster, "dp"), rule);
}

Plan tensor_parallel_plan(const Program& reference, const Cluster& cluster, RatioRule rule) {
  return synth::tensor_parallel_plan(synth::Problem(reference, cluster, "tp"), rule);
}

}  // namespace hetsynth
