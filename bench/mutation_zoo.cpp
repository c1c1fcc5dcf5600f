// Mutants of every plan of every model in examples/ at a tiny size, on several clusters: what the verifier says of
// them, held against evaluation.
//   bench_mutation_zoo [mutants per kind and plan = 1] [seed = 1] [part of a model's name] [minutes per model]
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <random>

#include "dsl/ir/product_sum.h"
#include "synth/planner/synthesize.h"
#include "tests/mutation/survey.h"
#include "tests/support/pipelined_plan.h"
#include "tests/support/propagated_plan.h"
#include "tests/support/zoo/walk.h"

namespace {

using namespace hetsynth;

/// Devices of the given speeds, on hosts of `per_host`; links so fast that plans cut more than the batch.
Cluster devices(const std::vector<double>& speeds, int per_host) {
  Cluster cluster = local_cluster(int(speeds.size()));
  const Host host = cluster.hosts[0];
  cluster.between = {1e12, 1e-7};
  cluster.hosts.clear();
  for (size_t i = 0; i < speeds.size(); ++i) {
    if (int(i) % per_host == 0) {
      cluster.hosts.push_back(host);
      cluster.hosts.back().name = fmt::format("host{}", cluster.hosts.size());
      cluster.hosts.back().inside = {1e12, 1e-7};
    }
    cluster.devices[i].host = int(cluster.hosts.size()) - 1;
    cluster.devices[i].declared = {speeds[i], 1e10};
    cluster.devices[i].measured = {};
    cluster.devices[i].memory_bytes = int64_t(8) << 30;
  }
  return cluster;
}

/// Body evaluations of one step on one device.
double cost_of(const Program& program) {
  double cost = 0;
  for (const Node& node : program.nodes)
    if (!node.leaf()) cost += double(program.turns(node.id)) * evaluation_cost(node.space, node.body);
  return cost;
}

/// Sizes at which a step takes little: files without a tiny size have their options for that.
testing::Settings small_settings(const testing::ListedModel& model) {
  if (model.file == "gpt.cpp") return {{"layers", "1"}, {"heads", "2"}, {"width", "8"}, {"batch", "6"}, {"seq", "4"}};
  if (model.file == "mlp.cpp") return {{"context", "3"}, {"width", "4"}, {"hidden", "12"}, {"batch", "6"}};
  return model.tiny;
}

/// What evaluation may cost where a step is dear: then its answers come from fewer instances.
mutation::SurveyLimits limits_for(const Program& program) {
  const bool dear = cost_of(program) > 3e6;
  return {.seconds = dear ? 4.0 : 20.0, .looks = dear ? 3 : 20};
}

struct NamedPlan {
  std::string name;
  SpmdProgram plan;
};

/// Every way of planning that finds a plan: a model may have no batch to cut.
std::vector<NamedPlan> plans_of(const Program& program) {
  const Cluster two = devices({1e9, 3e9}, 2), three = devices({2e9, 1e9, 4e9}, 3),
                hosts = devices({4e9, 3e9, 1e9, 2e9}, 2);
  std::vector<NamedPlan> out;
  auto add = [&](const char* name, auto make) {
    try {
      out.push_back({name, make().program});
    } catch (const std::exception& error) {
      fmt::print("  no plan {}: {}\n", name, error.what());
    }
  };
  SynthesisOptions one_axis, two_axes;
  one_axis.time_limit_seconds = two_axes.time_limit_seconds = 3;
  two_axes.most_axes = 2;
  add("data parallel over 3", [&] { return data_parallel_plan(program, three, RatioRule::proportional); });
  add("tensor parallel over 2", [&] { return tensor_parallel_plan(program, two, RatioRule::proportional); });
  add("synthesized for 3", [&] { return synthesize(program, three, one_axis); });
  add("synthesized for 2 x 2", [&] { return synthesize(program, hosts, two_axes); });
  const test::CutAxis rows{"dp", 2, {0, 1, 3}}, columns{"tp", 2, {0, 3, 4}};
  out.push_back({"propagated over 2 x 2", test::propagated_plan(program, {rows, columns}, test::batch_and_columns)});
  out.push_back({"data parallel on 2 stages",
                 test::pipelined_plan(program, test::propagated_plan(program, {rows}, test::batch_and_columns), 2)});
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  mutation::Places places;
  places.per_kind = 1;
  uint64_t seed = 1;
  std::string wanted;
  double most_minutes = 1e7;
  CLI::App app("Mutants of plans of the models of examples/");
  app.add_option("PER_KIND", places.per_kind, "mutants of each kind and plan")->check(CLI::Range(1, 100'000'000));
  app.add_option("SEED", seed, "of what is random");
  app.add_option("NAME", wanted, "part of a model's name; none: all");
  app.add_option("MINUTES", most_minutes, "for each model")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  const double most_seconds = 60 * most_minutes;
  fmt::print("{} mutants per kind and plan, seed {}\n", places.per_kind, seed);
  mutation::Survey all;
  int plans = 0, models = 0;
  for (const testing::ListedModel& model : testing::listed_models()) {
    if (!model.first_of_file || model.name.find(wanted) == std::string::npos) continue;
    Program program = testing::trace_model(model, small_settings(model)).program;
    mutation::Survey survey(limits_for(program));
    ++models;
    const std::vector<NamedPlan> found = plans_of(program);
    for (const NamedPlan& plan : found) {
      ++plans;
      places.seed = seed * 1000 + uint64_t(plans);
      if (verify(program, plan.plan).verdict != Verdict::proved)
        fmt::print("NOT PROVED {}, {}\n", model.name, plan.name);
      std::vector<mutation::Mutant> mutants;
      mutation::each_mutant(
          program, plan.plan,
          [&](mutation::Mutant mutant) {
            mutants.push_back(std::move(mutant));
            return true;
          },
          places);
      // Each plan has its share of the time; what is cut off is of any kind.
      std::shuffle(mutants.begin(), mutants.end(), std::mt19937_64(places.seed));
      const double until = most_seconds * double(&plan - found.data() + 1) / double(found.size());
      for (size_t m = 0; m < mutants.size() && survey.seconds < until; ++m)
        survey.take(model.name + ", " + plan.name, program, mutants[m]);
    }
    all.add(survey);
    mutation::Tally t = survey.total();
    fmt::print(
        "{:<24} {:.1e} evaluations, {} plans, {:>4} mutants, {:>4} refuted, {:>3} proved, {:>2} unknown, {} wrongly "
        "accepted, {} wrongly refused, {:.0f} s\n",
        model.name, cost_of(program), found.size(), t.mutants, t.refuted(), t.proved, t.unknown(), t.wrongly_accepted,
        t.wrongly_refused, survey.seconds);
    std::fflush(stdout);
  }
  if (models == 0) {
    fmt::print(stderr, "no model's name holds \"{}\"; docs/models.md lists them\n", wanted);
    return 2;
  }
  fmt::print("{} plans of {} models\n{}", plans, models, all.text());
  for (const std::string& line : all.disagreements()) fmt::print("DISAGREEMENT {}\n", line);
  for (const std::string& line : all.undecided()) fmt::print("undecided {}\n", line);
  return all.disagreements().empty() ? 0 : 1;
}
