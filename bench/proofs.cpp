// Are all plans that synthesis makes for the models of examples/ proved, and has one of them what proofs before schema
// 2 were wrong about (docs/bugs.md)?
//   bench_proofs [--mesh-axes=N] [--time-limit=S] [--cluster=FILE...] [NAME...]
// One line per cluster and model: the verdict, seconds of the proof without and with the small instances that are
// executed beside it, how many these were, and what of the plan the former rules would have been wrong about. Names as
// in docs/models.md; none: all models. Clusters: those of examples/ and bench/ unless told otherwise.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "dsl/base/error.h"
#include "dsl/spmd/nested_cut.h"
#include "synth/planner/synthesize.h"
#include "tests/support/zoo/clusters.h"
#include "tests/support/zoo/walk.h"
#include "verify/verify.h"

namespace {

using namespace hetsynth;
using namespace hetsynth::testing;

/// Tables that differ between groups without dividing another table's parts, and tables of parts over an axis of one
/// device. (A carry that is read behind its loop is a flaw of form now: such a plan is not proved.)
std::string suspects(const SpmdProgram& program) {
  int by_group = 0, alone = 0;
  for (const BoundaryTable& table : program.tables) {
    by_group += varies_along(table) >= 0 && !nests(table);
    alone += nests(table) && program.mesh.axes[size_t(table.axis)].size == 1;
  }
  return by_group + alone == 0 ? "none" : fmt::format("{} by group, {} of one device", by_group, alone);
}

struct Count {
  int proved = 0, other = 0, infeasible = 0, suspect = 0;
};

void look_at(const std::string& cluster_name, const Cluster& cluster, const std::string& model, const Program& program,
             const SynthesisOptions& options, Count& count) {
  fmt::print("{:<22} {:<18} ", cluster_name, model);
  std::fflush(stdout);
  try {
    const Plan plan = synthesize(program, cluster, options);
    const Verification alone = verify(program, plan.program, {.trial_seconds = 0});
    const Verification v = verify(program, plan.program);
    const std::string suspect = suspects(plan.program);
    ++(v.verdict == Verdict::proved ? count.proved : count.other);
    count.suspect += suspect != "none";
    fmt::print("{:>8} {:>7.2f} {:>7.2f} {:>6} {} {}\n", name(v.verdict), alone.seconds, v.seconds, v.trials, suspect,
               v.verdict == Verdict::proved ? "" : v.summary + " " + v.contradiction);
  } catch (const UserError& error) {
    if (error.code() != ExitCode::infeasible) throw;
    ++count.infeasible;
    fmt::print("does not fit\n");
  }
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  SynthesisOptions options;
  std::vector<std::string> names, clusters;
  CLI::App app("Are all plans that synthesis makes for the models of examples/ proved?");
  app.add_option("NAME", names, "models, as in docs/models.md; none: all");
  app.add_option("--cluster", clusters,
                 "cluster files, or names in examples/ and bench/; none: all of examples/ and bench/");
  app.add_option("--mesh-axes", options.most_axes, "mesh axes at most")->check(CLI::Range(1, 3));
  app.add_option("--time-limit", options.time_limit_seconds, "seconds for each plan")->check(CLI::NonNegativeNumber);
  CLI11_PARSE(app, argc, argv);
  if (clusters.empty()) clusters = listed_clusters();
  try {
    Count count;
    fmt::print("{:<22} {:<18} {:>8} {:>7} {:>7} {:>6} {}\n", "cluster", "model", "", "s", "with", "trials", "suspect");
    for (const ListedModel& model : listed_models({names.begin(), names.end()})) {
      const TracedModel traced = trace_model(model, model.published);
      for (const std::string& file : clusters)
        look_at(std::filesystem::path(file).stem().string(), load_cluster(cluster_file(file)), model.name,
                traced.program, options, count);
    }
    fmt::print("{} proved, {} not proved, {} that do not fit; {} with what former proofs were wrong about\n",
               count.proved, count.other, count.infeasible, count.suspect);
    return count.other == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
