// Plans of other systems against this planner's, in the same cost model: every model of examples/ at its published size
// on five clusters. Prints a markdown table; the last lines sum it up.
//   bench_peers [--tiny] [--plan-seconds=S] [NAME...]
// Names as in docs/models.md; none: all models. Seconds: for planning one model on one cluster.
#include "synth/baselines/peers/peers.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "dsl/base/error.h"
#include "hetsynth/build_paths.h"
#include "runtime/rank/median.h"
#include "synth/planner/synthesize.h"
#include "tests/support/zoo/walk.h"

namespace {

using namespace hetsynth;
using namespace hetsynth::testing;

/// Predictions are sums of whole picoseconds; a plan may be slower by no more than their last digit.
constexpr double rounding = 1e-9;

/// The clusters: four equal devices, eight unequal ones, 29 (8 fast and 21 slow), HAP's 64, five of three kinds. A name
/// for the table and a description each.
std::vector<std::pair<std::string, Cluster>> clusters() {
  const auto loaded = [](const std::string& name, const std::string& file) {
    return std::pair{name, load_cluster(HETSYNTH_SOURCE_DIR "/" + file)};
  };
  return {loaded("4 equal", "bench/clusters/four-equal.toml"), loaded("8 unequal", "bench/clusters/eight-unequal.toml"),
          loaded("29", "bench/clusters/twenty-nine.toml"), loaded("64", "examples/clusters/v100-p100.toml"),
          loaded("5 of 3 kinds", "bench/clusters/five-of-three-kinds.toml")};
}

struct Options {
  bool tiny = false;
  double plan_seconds = 60;
  std::vector<std::string> names;
};

/// Step of a peer by that of the planner, over all rows where both have a plan.
struct Summary {
  std::map<std::string, std::vector<double>> ratios;
  std::vector<double> of_best;  ///< of the fastest peer, by row
  int rows = 0, worse = 0, only_ours = 0, none = 0, cut_short = 0;
};

/// Near 1 with more digits, and in bold where the peer is faster.
std::string ratio_text(double ratio) {
  if (ratio < 1 - rounding) return fmt::format("**{:.4f}**", ratio);
  if (ratio < 1.005) return fmt::format("{:.4f}", ratio);
  return ratio < 100 ? fmt::format("{:.2f}", ratio) : fmt::format("{:.0f}", ratio);
}

void compare(const std::string& model, const Program& program, const std::string& name, const Cluster& cluster,
             const Options& options, Summary* summary) {
  std::optional<Plan> own;
  try {
    own = synthesize(program, cluster, {.time_limit_seconds = options.plan_seconds, .progress = {}});
  } catch (const UserError& error) {
    if (error.code() != ExitCode::infeasible) throw;
  }
  ++summary->rows;
  std::string row = fmt::format("| {} | {} | {}{} |", model, name,
                                own ? fmt::format("{:.2f} ms", own->prediction.step_seconds * 1e3) : "does not fit",
                                own && own->prediction.cut_short ? ", cut short" : "");
  double best = HUGE_VAL;
  for (const PeerPlan& peer : peer_plans(program, cluster)) {
    if (!peer.plan) {
      row += " - |";
      continue;
    }
    const double seconds = peer.plan->prediction.step_seconds;
    const double ratio = own ? seconds / own->prediction.step_seconds : 0;
    row += fmt::format(" {} |", ratio_text(ratio));
    best = std::min(best, ratio);
    if (own) summary->ratios[peer.name].push_back(ratio);
  }
  if (best < 1 - rounding) ++summary->worse;
  if (own && own->prediction.cut_short) ++summary->cut_short;
  if (own && best == HUGE_VAL) ++summary->only_ours;
  if (!own && best == HUGE_VAL) ++summary->none;
  if (own && best < HUGE_VAL) summary->of_best.push_back(best);
  fmt::print("{}\n", row);
  std::fflush(stdout);
}

void sum_up(const Summary& summary) {
  fmt::print("\n| peer | plans | median of its step / ours | least | greatest |\n|---|---|---|---|---|\n");
  auto line = [](const std::string& name, const std::vector<double>& ratios) {
    auto [least, greatest] = std::minmax_element(ratios.begin(), ratios.end());
    fmt::print("| {} | {} | {} | {:.4f} | {} |\n", name, ratios.size(), ratio_text(median(ratios)), *least,
               ratio_text(*greatest));
  };
  for (const auto& [name, ratios] : summary.ratios) line(name, ratios);
  if (!summary.of_best.empty()) line("the fastest of them, row by row", summary.of_best);
  fmt::print(
      "\n{} rows; a peer is faster in {}; only our plan fits in {}; none fits in {}; the search was cut short in {}.\n",
      summary.rows, summary.worse, summary.only_ours, summary.none, summary.cut_short);
}

int run(const Options& options) {
  Summary summary;
  const auto all = clusters();
  bool header = false;
  for (const ListedModel& model : listed_models({options.names.begin(), options.names.end()})) {
    if (options.tiny && !model.first_of_file) continue;
    const TracedModel traced = trace_model(model, options.tiny ? model.tiny : model.published);
    for (const auto& [name, cluster] : all) {
      if (!header) {
        std::string columns = "| model | cluster | ours |", rule = "|---|---|---|";
        for (const PeerPlan& peer : peer_plans(traced.program, cluster))
          columns += " " + peer.name + " |", rule += "---|";
        fmt::print("{}\n{}\n", columns, rule);
        header = true;
      }
      compare(model.name, traced.program, name, cluster, options, &summary);
    }
  }
  sum_up(summary);
  return summary.worse == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Plans of other systems against this planner's, in the same cost model");
  app.add_option("NAME", options.names, "models, as in docs/models.md; none: all");
  app.add_flag("--tiny", options.tiny, "one model of each file, at its tiny size");
  app.add_option("--plan-seconds", options.plan_seconds, "for planning one model on one cluster")
      ->check(CLI::NonNegativeNumber);
  CLI11_PARSE(app, argc, argv);
  try {
    return run(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
