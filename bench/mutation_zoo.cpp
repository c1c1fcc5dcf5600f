// Mutants of every plan of every model in examples/ at its tiny size, on several clusters: what the verifier says of
// them, held against evaluation.
// Inception-v3 is run if it is named.
//   bench_mutation_zoo [mutants per kind and plan = 1] [seed = 1] [part of a model's name]
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>

#include "dsl/ir/product_sum.h"
#include "synth/synthesize.h"
#include "tests/mutation/survey.h"
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

/// Networks of windows, which no smaller instance replaces, take minutes per mutant beyond this.
bool contains_too_much(const Program& program) {
  double cost = 0;
  bool windows = false;
  for (const Node& node : program.nodes) {
    if (node.leaf()) continue;
    cost += evaluation_cost(node.space, node.body);
    windows = windows || node.tag() == "conv2d";
  }
  return windows && cost > 1e7;
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
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  mutation::Places places;
  places.per_kind = argc > 1 ? std::atoi(argv[1]) : 1;
  uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  const char* wanted = argc > 3 ? argv[3] : "";
  fmt::print("{} mutants per kind and plan, seed {}\n", places.per_kind, seed);
  mutation::Survey all;
  int plans = 0, models = 0;
  for (const testing::ListedModel& model : testing::listed_models()) {
    if (!model.first_of_file || !std::strstr(model.name.c_str(), wanted)) continue;
    Program program = testing::trace_model(model, model.tiny).program;
    if (!*wanted && contains_too_much(program)) {
      fmt::print("{:<24} left out: executing it takes too long\n", model.name);
      continue;
    }
    mutation::Survey survey;
    ++models;
    for (const NamedPlan& plan : plans_of(program)) {
      ++plans;
      places.seed = seed * 1000 + uint64_t(plans);
      if (verify(program, plan.plan).verdict != Verdict::proved)
        fmt::print("NOT PROVED {}, {}\n", model.name, plan.name);
      mutation::each_mutant(
          program, plan.plan,
          [&](const mutation::Mutant& mutant) {
            survey.take(model.name + ", " + plan.name, program, mutant);
            return true;
          },
          places);
    }
    all.add(survey);
    mutation::Tally t = survey.total();
    fmt::print(
        "{:<24} {:>4} mutants, {:>4} refuted, {:>3} proved, {:>2} unknown, {} wrongly accepted, {} wrongly refused, "
        "{:.0f} s\n",
        model.name, t.mutants, t.refuted(), t.proved, t.unknown(), t.wrongly_accepted, t.wrongly_refused,
        survey.seconds);
    std::fflush(stdout);
  }
  fmt::print("{} plans of {} models\n{}", plans, models, all.text());
  for (const std::string& line : all.disagreements()) fmt::print("DISAGREEMENT {}\n", line);
  for (const std::string& line : all.undecided()) fmt::print("undecided {}\n", line);
  return all.disagreements().empty() ? 0 : 1;
}
