// Every model of examples/ in one table: size, arithmetic, and what tracing, planning for 64 GPUs, proving and training
// at the tiny size take and give.
//   bench_models [--gallery] [--markdown] [--plan-seconds=S] [--rows=FILE] [--conditions=TEXT] [NAME...]
// Names as in the table; none: all models. --gallery: those of examples/gallery in their place. The text says on what
// the times were taken, and stands under the table. Rows that are ready are kept in the file, so that a table that was
// interrupted goes on where it was; a row belongs to the program that the model's file traces to and to the seconds
// given to planning.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "dsl/base/error.h"
#include "hetsynth/build_paths.h"
#include "synth/planner/synthesize.h"
#include "tests/support/zoo/walk.h"
#include "verify/verify.h"

namespace {

using namespace hetsynth;
using namespace hetsynth::testing;

struct Options {
  bool markdown = false, gallery = false;
  double plan_seconds = 60;
  std::string arguments, conditions, rows;
  std::set<std::string> names;
};

constexpr const char* columns[] = {"model",
                                   "file",
                                   "parameters",
                                   "published",
                                   "flop per sample",
                                   "nodes",
                                   "load",
                                   "trace + differentiate",
                                   "plan for 64 GPUs",
                                   "gap",
                                   "predicted step",
                                   "proof",
                                   "loss, 1 rank",
                                   "loss, 3 ranks",
                                   "difference"};

/// Rows that were made before, by what they were made of; in a file, one a line, cells between tabs.
class ReadyRows {
 public:
  explicit ReadyRows(const std::string& path) : path_(path) {
    std::ifstream in(path);
    for (std::string line; std::getline(in, line);) {
      std::vector<std::string> cells{""};
      for (char c : line) c == '\t' ? void(cells.emplace_back()) : cells.back().push_back(c);
      const std::string key = cells.front();
      cells.erase(cells.begin());
      if (cells.size() == std::size(columns)) rows_[key] = cells;  // the last line may be cut short
    }
  }
  const std::vector<std::string>* find(const std::string& key) const {
    const auto found = rows_.find(key);
    return found == rows_.end() ? nullptr : &found->second;
  }
  void keep(const std::string& key, const std::vector<std::string>& cells) const {
    if (path_.empty()) return;
    std::ofstream out(path_, std::ios::app);
    out << key;
    for (const std::string& cell : cells) out << '\t' << cell;
    out << '\n';
  }

 private:
  std::string path_;
  std::map<std::string, std::vector<std::string>> rows_;
};

double seconds_of(auto&& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// "124.4 M", "3.2 T". The units ascend by thousands from k.
std::string with_unit(double value, const char* units) {
  const char* unit = " ";
  for (; value >= 1000 && *units != 0; value /= 1000) unit = units++;
  return fmt::format("{:.4g} {}", value, *unit == ' ' ? "" : std::string(1, *unit));
}
std::string parameters_text(int64_t count) { return with_unit(double(count), "kMB"); }
std::string flops_text(double flops) { return with_unit(flops, "kMGTP"); }

std::string seconds_text(double seconds) {
  return seconds < 1 ? fmt::format("{:.0f} ms", seconds * 1e3) : fmt::format("{:.1f} s", seconds);
}

std::string published_text(const ListedModel& model) {
  if (model.count_text.empty()) return "-";
  return model.count_rounding > 0 ? model.count_text : parameters_text(model.count);
}

/// Plan, proof and gap of the published size on a cluster of 64 GPUs.
struct Planned {
  std::string plan, proof, step, gap;
  bool fits = true;
};

Planned plan_and_prove(const Program& program, const Cluster& cluster, const Options& options) {
  Planned out;
  Plan plan;
  try {
    const double seconds = seconds_of(
        [&] { plan = synthesize(program, cluster, {.time_limit_seconds = options.plan_seconds, .progress = {}}); });
    out.plan = seconds_text(seconds);
  } catch (const UserError& error) {
    out.fits = error.code() != ExitCode::infeasible;
    out.plan = out.fits ? error.diagnostic().message : "no plan fits";
    return out;
  }
  const Prediction& p = plan.prediction;
  out.step = seconds_text(p.step_seconds);
  out.gap = p.optimal ? "optimal"
            : p.lower_bound_seconds <= 0
                ? "no bound yet"
                : fmt::format("{:.2g} %", 100 * (p.objective_seconds / p.lower_bound_seconds - 1));
  const Verification proof = verify(program, plan.program, {.time_limit_seconds = 300});
  out.proof = fmt::format("{}{}", seconds_text(proof.seconds),
                          proof.verdict == Verdict::proved ? "" : fmt::format(", {}", name(proof.verdict)));
  return out;
}

/// Where 16 GB a device are too little, on devices of 40.
Planned plan_and_prove(const Program& program, const Options& options) {
  const std::string folder = HETSYNTH_SOURCE_DIR "/examples/clusters/";
  static const Cluster small = load_cluster(folder + "v100-p100.toml"), large = load_cluster(folder + "a100-64.toml");
  Planned out = plan_and_prove(program, small, options);
  if (out.fits) return out;
  out = plan_and_prove(program, large, options);
  if (out.fits) out.plan += " on A100";
  return out;
}

/// Losses of the tiny size after 20 steps on one rank and on three.
struct Trained {
  std::string alone, together, difference;
};

Trained train_tiny(const ListedModel& model) {
  constexpr int64_t steps = 20;
  const TracedModel tiny = trace_model(model, model.tiny);
  const Cluster three = three_uneven_devices();
  const Plan plan = synthesize(tiny.program, three, {.time_limit_seconds = 5, .progress = {}});
  const TwoRuns runs = train_on_both(tiny.program, plan, three, steps);
  return {fmt::format("{:.5f}", runs.alone.back()), fmt::format("{:.5f}", runs.together.back()),
          fmt::format("{:.1e}{}", runs.largest_difference(), runs.from_same_state ? " by step" : "")};
}

void print_row(const std::vector<std::string>& cells, const Options& options) {
  std::string line = options.markdown ? "|" : "";
  for (const std::string& cell : cells) line += options.markdown ? fmt::format(" {} |", cell) : cell + "\t";
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

void report(const ListedModel& model, const Options& options, const ReadyRows& ready) {
  trace_model(model, model.published);  // so that the precompiled header and the object code are there
  const TracedModel full = trace_model(model, model.published);
  const std::string key =
      fmt::format("{} {} {} {}", model.name, hash_text(full.program), options.plan_seconds, options.markdown);
  if (const std::vector<std::string>* row = ready.find(key)) return print_row(*row, options);
  const Planned planned = plan_and_prove(full.program, options);
  const Trained trained = model.first_of_file ? train_tiny(model) : Trained{};
  const std::string file = options.markdown ? fmt::format("[{0}](../examples/{0})", model.file) : model.file;
  const std::vector<std::string> row = {model.name,
                                        file,
                                        parameters_text(model.counted_parameters(full.program)),
                                        published_text(model),
                                        flops_text(flops_per_sample(full.program)),
                                        std::to_string(full.program.nodes.size()),
                                        seconds_text(full.load_seconds),
                                        seconds_text(full.trace_seconds),
                                        planned.plan,
                                        planned.gap,
                                        planned.step,
                                        planned.proof,
                                        trained.alone,
                                        trained.together,
                                        trained.difference};
  ready.keep(key, row);
  print_row(row, options);
}

/// Filled in: the arguments that the table was made with.
constexpr const char* introduction =
    R"(# Models

Made by

```
build/bench/bench_models{} > docs/models.md
```

Edit `bench/models.cpp`, or the comments in the examples, not this file.

Each file describes one network on a page, in the sizes it was published in and in a size for trying:

```
build/hetsynth plan examples/bert.cpp --set size=huge-32 --cluster examples/clusters/v100-p100.toml -o plan.json
build/hetsynth run examples/bert.cpp --set size=tiny --cluster examples/clusters/three-unequal.toml --steps 100
```

A `size` that does not exist is refused, with the names of those that do. A new file in `examples/` joins this table, and the
tests that walk it, with a comment at its top: `// Model: NAME | COUNT parameters | size=NAME`, where the published count
may be left out, be exact, or be rounded (`672M`), and a line `// Tiny: name=value` if its tiny size is not `size=tiny`.

[learning.md](learning.md) shows 20 steps of every model at its published layers and widths. [gallery.md](gallery.md) has
networks of other kinds: diffusion, graphs, radiance fields, state spaces, contrastive and preference losses.

)";

constexpr const char* gallery_introduction =
    R"(# Gallery

Made by

```
build/bench/bench_models{} > docs/gallery.md
```

Edit `bench/models.cpp`, or the comments in the files, not this page.

Networks of many kinds, each on a page and in the size it was published in: what a model of one's own may need stands in
one of them.

| for | see |
|---|---|
| a class for every pixel, skips from one side of a network to the other | [unet.cpp](../examples/gallery/unet.cpp) |
| a loss that joins all samples of a batch | [clip.cpp](../examples/gallery/clip.cpp) |
| noise, draws, numbers that are looked up in a table of the model's own | [dit.cpp](../examples/gallery/dit.cpp), [vae.cpp](../examples/gallery/vae.cpp) |
| frozen parts, two networks in one model | [distillation.cpp](../examples/gallery/distillation.cpp), [preference.cpp](../examples/gallery/preference.cpp) |
| small experts beside shared ones | [deepseek_moe.cpp](../examples/gallery/deepseek_moe.cpp) |
| a recurrence of one's own | [mamba.cpp](../examples/gallery/mamba.cpp) |
| graphs | [graph_attention.cpp](../examples/gallery/graph_attention.cpp) |
| sorting, drawing from a distribution that the model makes | [nerf.cpp](../examples/gallery/nerf.cpp) |
| sound and text | [whisper.cpp](../examples/gallery/whisper.cpp) |
| convolutions within channels, samples that skip a block | [convnext.cpp](../examples/gallery/convnext.cpp) |

```
build/hetsynth run examples/gallery/unet.cpp --set size=tiny --cluster examples/clusters/three-unequal.toml --steps 100
```

)";

constexpr const char* gallery_explanation = R"(
The columns are those of [models.md](models.md). Losses are after 20 steps of the tiny size.
`build/tests/test_zoo --gtest_filter='Models/Gallery.*'` holds counts of parameters, proofs, checks of generated source
and losses on one and on three unequal ranks.
)";

constexpr const char* explanation =
    R"(
- **parameters** are counted in the traced program; where the published count leaves out the heads that pre-training
  adds, so does this column. A test holds both equal (`tests/zoo`).
- **flop per sample**: forward and backward pass, by the iteration spaces; a multiplication and an addition count 2,
  an exponential 10, a table lookup 1. The optimizer is left out.
- **nodes**: operators and leaves of the whole training step.
- **load**: from the file to code in memory, its object code found in the cache. **trace + differentiate** makes the
  training step from it.
- **plan for 64 GPUs**: seconds of the search over one mesh axis on `examples/clusters/v100-p100.toml`, stopped after
  the limit of `--plan-seconds` (default 60); **gap** is between the plan's cost and the proven lower bound; **proof**
  is the time until the plan was proved. "On A100": 16 GB a device are too little for this size and its batch; planned
  on `examples/clusters/a100-64.toml` instead.
- **loss** after 20 steps at the tiny size, on one rank and on three uneven ones (shares planned as 3 : 1 : 2), and the
  largest relative difference of any step. Bound: 2e-5, held by a test. Float32 rounds to 6e-8 of a value, sums are
  taken in another order, and an optimizer carries the difference on from step to step; a wrong plan differs in the
  third digit or before.
- **by step**: models with batch normalisation are compared step by step, each step of the three ranks beginning with the
  parameters and states that the one rank had. Run freely they part within some twenty steps, by a few per cent of the loss
  and more, and that is rounding: over the dozen values of a tiny channel batch normalisation multiplies it with every
  layer and step. In float64 the reference and the plan of three ranks agree to 7e-15 of the loss over 20 steps of
  ResNet-101's and ResNeXt-50's tiny sizes, while two runs of the reference whose parameters differ by 2^-24, the last bit
  of float32, part by 6e-2 and 1e-1. Inception-v3 multiplies a difference by about 50 with every step: from 2e-14 of the
  loss in the first step to 3e-7 in the fifth, between plan and reference in float64. `build/bench/bench_rounding
  ResNet-101` shows it; a test holds it on a smaller network (`build/tests/test_zoo --gtest_filter='Rounding.*'`).
)";

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const bool spaces = argument.find(' ') != std::string::npos;
    if (!argument.starts_with("--rows=")) options.arguments += spaces ? fmt::format(" '{}'", argument) : " " + argument;
    if (argument == "--markdown") {
      options.markdown = true;
    } else if (argument == "--gallery") {
      options.gallery = true;
    } else if (argument.starts_with("--plan-seconds=")) {
      options.plan_seconds = std::atof(argument.c_str() + sizeof("--plan-seconds=") - 1);
    } else if (argument.starts_with("--rows=")) {
      options.rows = argument.substr(sizeof("--rows=") - 1);
    } else if (argument.starts_with("--conditions=")) {
      options.conditions = argument.substr(sizeof("--conditions=") - 1);
    } else {
      options.names.insert(argument);
    }
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  try {
    const std::vector<ListedModel> models =
        options.gallery ? gallery_models(options.names) : listed_models(options.names);
    if (options.markdown)
      fmt::print(fmt::runtime(options.gallery ? gallery_introduction : introduction), options.arguments);
    print_row({std::begin(columns), std::end(columns)}, options);
    if (options.markdown) print_row(std::vector<std::string>(std::size(columns), "---"), options);
    const ReadyRows ready(options.rows);
    for (const ListedModel& model : models) report(model, options, ready);
    if (options.markdown && !options.conditions.empty()) fmt::print("\nTimes: {}.\n", options.conditions);
    if (options.markdown) fmt::print("{}", options.gallery ? gallery_explanation : explanation);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
