// The gate that every change of planning passes: steps and planning times of all models of examples/ at their published
// sizes, on all clusters of examples/ and bench/, against those of another build.
//   bench_plan_gate [--mesh-axes=N] [--fewer-devices] [--clusters=NAME...] [--only=NAME...] [--out=FILE]
//                   [--against=FILE] [--beside=PROGRAM] [--repeats=N] [--keep]
// Writes the table of steps to FILE: one row per model and cluster, by tabulators. A FILE that is there already goes on
// where it ends. --against prints both tables side by side and the geometric means, marks what is beyond the
// tolerances below, and exits with 1 if anything is. --beside makes the other table: PROGRAM is this benchmark of
// another build, which plans every model right after this one, so that both see the same machine. --keep writes the
// tables of tests/golden/steps_*.txt anew, if the gate holds.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "bench/processor_time.h"
#include "dsl/base/error.h"
#include "hetsynth/build_paths.h"
#include "synth/planner/synthesize.h"
#include "tests/support/zoo/clusters.h"
#include "tests/support/zoo/walk.h"

namespace {

using namespace hetsynth;
using namespace hetsynth::testing;

/// How many times the other build's figures these may be.
constexpr double mean_of_steps = 1.002, any_step = 1.01, any_step_where_memory_is_short = 1.03, mean_of_times = 1.15;
/// Memory is short where either build's plan fills so much of some device.
constexpr double fullness_where_short = 0.8;
/// Seconds that no model may take on one axis unless it did before.
constexpr double most_seconds_on_one_axis = 1;

struct Row {
  std::string model, cluster;
  int axes = 1;
  bool fits = false;
  int64_t step_picoseconds = 0;
  double seconds = 0;   ///< of processor time, for the planning
  double fullness = 0;  ///< of the fullest device's memory
  double gap = 0;       ///< to the bound at the plan's shares
  double far_gap = 0;   ///< to that over all shares
  std::string key() const { return fmt::format("{}\t{}\t{}", model, cluster, axes); }
};

constexpr const char* header =
    "model\tcluster\taxes\tfits\tstep_picoseconds\tplanning_seconds\tfullness\tgap\tgap_over_shares";

std::string text_of(const Row& row) {
  return fmt::format("{}\t{}\t{}\t{:.4f}\t{:.4f}\t{:.6f}\t{:.6f}", row.key(), int(row.fits), row.step_picoseconds,
                     row.seconds, row.fullness, row.gap, row.far_gap);
}

/// Reads the rows of a table by their keys; there are none if there is no such file.
std::map<std::string, Row> read_rows(const std::string& path) {
  std::map<std::string, Row> rows;
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    Row row;
    std::getline(fields, row.model, '\t');
    std::getline(fields, row.cluster, '\t');
    if (fields >> row.axes >> row.fits >> row.step_picoseconds >> row.seconds >> row.fullness >> row.gap >> row.far_gap)
      rows[row.key()] = row;
  }
  return rows;
}

/// Plans a model on a cluster so many times; the least time counts.
Row row_of(const ListedModel& model, const Program& program, const std::string& cluster,
           const SynthesisOptions& options, int repeats) {
  Row row{.model = model.name, .cluster = cluster, .axes = options.most_axes};
  row.seconds = HUGE_VAL;
  const Cluster devices = load_cluster(cluster_file(cluster));
  for (int i = 0; i < repeats; ++i) {
    const double start = processor_seconds();
    try {
      const Plan plan = synthesize(program, devices, options);
      row.fits = true;
      const Prediction& p = plan.prediction;
      row.step_picoseconds = std::llround(p.objective_seconds * 1e12);
      row.gap = 1 - p.lower_bound_seconds / p.objective_seconds;
      row.far_gap = 1 - p.shares_bound_seconds / p.objective_seconds;
      for (const DevicePrediction& device : p.devices) row.fullness = std::max(row.fullness, device.fullness());
    } catch (const UserError& error) {
      if (error.code() != ExitCode::infeasible) throw;
    }
    row.seconds = std::min(row.seconds, processor_seconds() - start);
  }
  return row;
}

std::string step_text(const Row& row) {
  return row.fits ? fmt::format("{:.3f}", double(row.step_picoseconds) * 1e-9) : "does not fit";
}

double quotient(const Row& now, const Row& then) {
  return double(now.step_picoseconds) / double(then.step_picoseconds);
}

/// What is beyond a tolerance; empty: nothing.
std::string fault(const Row& now, const Row* then) {
  const bool longer = then == nullptr || now.seconds > mean_of_times * then->seconds;
  if (now.axes == 1 && now.seconds > most_seconds_on_one_axis && longer) return "takes too long to plan";
  if (then == nullptr || !then->fits) return "";
  if (!now.fits) return "fits no more";
  const bool is_short = std::max(now.fullness, then->fullness) > fullness_where_short;
  return quotient(now, *then) > (is_short ? any_step_where_memory_is_short : any_step) ? "slower" : "";
}

/// Prints the rows that both have, side by side. False if a tolerance is broken.
bool compare(const std::vector<Row>& rows, const std::map<std::string, Row>& others) {
  fmt::print("{:<18} {:<20} {:>4} {:>14} {:>14} {:>9} {:>8} {:>8} {:>6} {:>7} {:>7}\n", "model", "cluster", "axes",
             "step, ms", "before", "quotient", "plan, s", "before", "full", "gap, %", "shares");
  double steps = 0, times = 0, worst = 0, gaps[2] = {0, 0}, far_gaps[2] = {0, 0};
  int both_fit = 0, both = 0, faults = 0;
  for (const Row& row : rows) {
    const auto it = others.find(row.key());
    const Row* other = it == others.end() ? nullptr : &it->second;
    const bool fit = other != nullptr && row.fits && other->fits;
    if (other != nullptr) times += std::log(row.seconds / other->seconds), ++both;
    if (fit) steps += std::log(quotient(row, *other)), worst = std::max(worst, quotient(row, *other)), ++both_fit;
    if (fit) gaps[0] += row.gap, gaps[1] += other->gap, far_gaps[0] += row.far_gap, far_gaps[1] += other->far_gap;
    const std::string wrong = fault(row, other);
    faults += !wrong.empty();
    fmt::print("{:<18} {:<20} {:>4} {:>14} {:>14} {:>9} {:>8.3f} {:>8} {:>6.2f} {:>7.2g} {:>7.2g} {}\n", row.model,
               row.cluster, row.axes, step_text(row), other == nullptr ? "-" : step_text(*other),
               fit ? fmt::format("{:.5f}", quotient(row, *other)) : "-", row.seconds,
               other == nullptr ? "-" : fmt::format("{:.3f}", other->seconds), row.fullness, 100 * row.gap,
               100 * row.far_gap, wrong);
  }
  if (both == 0) {
    fmt::print("{} rows, {} beyond a tolerance\n", rows.size(), faults);
    return faults == 0;
  }
  const double step_mean = both_fit == 0 ? 1 : std::exp(steps / both_fit), time_mean = std::exp(times / both);
  const bool holds = faults == 0 && step_mean <= mean_of_steps && time_mean <= mean_of_times;
  fmt::print(
      "{} rows, {} compared: steps {:.5f} in geometric mean, {:.5f} at most; planning time {:.3f} in geometric mean; "
      "gap {:.4f} % on average, before {:.4f} %, over all shares {:.4f} % and {:.4f} %; {} rows beyond a tolerance: "
      "{}\n",
      rows.size(), both, step_mean, worst, time_mean, 100 * gaps[0] / both_fit, 100 * gaps[1] / both_fit,
      100 * far_gaps[0] / both_fit, 100 * far_gaps[1] / both_fit, faults,
      holds ? "the gate holds" : "THE GATE DOES NOT HOLD");
  return holds;
}

/// Writes the kept tables anew of those clusters whose rows are all there.
void keep_tables(const std::vector<Row>& rows) {
  std::map<std::string, std::pair<std::string, size_t>> tables;  // text, and how many models
  for (const Row& row : rows) {
    auto& [text, count] = tables[row.cluster];
    text += fmt::format("{:<18} {}\n", row.model,
                        row.fits ? fmt::format("{:.2f} ms", double(row.step_picoseconds) * 1e-9) : "does not fit");
    ++count;
  }
  for (const auto& [cluster, table] : tables)
    if (table.second == listed_models().size())
      std::ofstream(HETSYNTH_SOURCE_DIR "/tests/golden/steps_" + cluster + ".txt") << table.first;
}

struct Arguments {
  std::vector<std::string> models, clusters;
  std::string out, against, beside;
  int repeats = 1;
  bool keep = false;
  SynthesisOptions options;
};

/// Lets the benchmark of another build make the same rows of one model. Throws std::runtime_error if it makes none.
std::map<std::string, Row> rows_beside(const Arguments& arguments, const std::string& model) {
  const std::string file = (std::filesystem::temp_directory_path() / fmt::format("gate-{}.tsv", getpid())).string();
  std::filesystem::remove(file);
  std::string command = fmt::format("'{}' --mesh-axes={} --repeats={} --only='{}' --out='{}'", arguments.beside,
                                    arguments.options.most_axes, arguments.repeats, model, file);
  if (arguments.options.drop_devices) command += " --fewer-devices";
  for (const std::string& cluster : arguments.clusters) command += fmt::format(" --clusters='{}'", cluster);
  const int status = std::system((command + " > /dev/null").c_str());
  std::map<std::string, Row> rows = read_rows(file);
  std::filesystem::remove(file);
  if (rows.empty()) throw std::runtime_error(fmt::format("{} made no table (status {})", arguments.beside, status));
  return rows;
}

/// A table that is there goes on, and nothing else is written to. Throws std::runtime_error.
std::ofstream open_table(const std::string& path) {
  if (std::ifstream there(path); there && there.peek() != std::ifstream::traits_type::eof()) {
    std::string first;
    std::getline(there, first);
    if (first != header) throw std::runtime_error(path + " is no table of this benchmark; it was left as it is");
  }
  std::ofstream out(path, std::ios::app);
  if (!out) throw std::runtime_error(path + " cannot be written");
  return out;
}

/// A gate that compares nothing would hold whatever happens. Throws std::runtime_error.
void require_compared(const Arguments& arguments, const std::vector<Row>& rows,
                      const std::map<std::string, Row>& others) {
  if (arguments.against.empty() && arguments.beside.empty()) return;
  if (std::ranges::any_of(rows, [&](const Row& row) { return others.count(row.key()) > 0; })) return;
  throw std::runtime_error(fmt::format("{} has no row for any of these models, clusters and axes",
                                       arguments.against.empty() ? arguments.beside : arguments.against));
}

bool run(const Arguments& arguments) {
  if (arguments.keep && arguments.against.empty() && arguments.beside.empty())
    throw std::runtime_error("--keep needs a gate that can hold: --against or --beside");
  const std::map<std::string, Row> known =
      arguments.out.empty() ? std::map<std::string, Row>{} : read_rows(arguments.out);
  std::map<std::string, Row> others =
      arguments.against.empty() ? std::map<std::string, Row>{} : read_rows(arguments.against);
  std::ofstream out;
  if (!arguments.out.empty()) out = open_table(arguments.out);
  if (known.empty()) out << header << std::endl;
  std::vector<Row> rows;
  for (const ListedModel& model : listed_models({arguments.models.begin(), arguments.models.end()})) {
    TracedModel traced;
    for (const std::string& cluster : arguments.clusters) {
      Row row{.model = model.name, .cluster = cluster, .axes = arguments.options.most_axes};
      if (const auto it = known.find(row.key()); it != known.end()) {
        rows.push_back(it->second);
        continue;
      }
      if (!traced.code) traced = trace_model(model, model.published);
      rows.push_back(row_of(model, traced.program, cluster, arguments.options, arguments.repeats));
      out << text_of(rows.back()) << std::endl;
    }
    if (!arguments.beside.empty()) others.merge(rows_beside(arguments, model.name));
  }
  require_compared(arguments, rows, others);
  const bool holds = compare(rows, others);
  if (holds && arguments.keep) keep_tables(rows);
  return holds;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("Steps and planning times of all models on all clusters, against those of another build");
  app.add_option("--only", arguments.models, "models, as in docs/models.md; none: all");
  app.add_option("--clusters", arguments.clusters,
                 "names in examples/clusters and bench/clusters, or files; none: all");
  app.add_option("--mesh-axes", arguments.options.most_axes, "mesh axes at most")->check(CLI::Range(1, 3));
  app.add_flag("--fewer-devices", arguments.options.drop_devices, "plans of fewer devices are tried as well");
  app.add_option("--out", arguments.out, "file for the table; goes on where it ends");
  app.add_option("--against", arguments.against, "table of another build");
  app.add_option("--beside", arguments.beside, "this benchmark of another build, run beside this one");
  app.add_option("--repeats", arguments.repeats, "the least time of so many runs")->check(CLI::Range(1, 100));
  app.add_flag("--keep", arguments.keep, "write the kept tables of steps anew if the gate holds");
  CLI11_PARSE(app, argc, argv);
  if (arguments.clusters.empty()) arguments.clusters = listed_clusters();
  try {
    return run(arguments) ? 0 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
