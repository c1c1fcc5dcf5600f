#include "tests/mutation/survey.h"

#include <fmt/format.h>

#include <chrono>

#include "dsl/ir/differentiate.h"
#include "hetsynth/hetsynth.h"
#include "synth/synthesize.h"
#include "verify/refute.h"

namespace surveyed_gpt {
#include "examples/gpt.cpp"
}
namespace surveyed_mlp {
#include "examples/mlp.cpp"
}

namespace hetsynth::mutation {

void Survey::take(const std::string& subject, const Program& reference, const Mutant& mutant) {
  auto start = std::chrono::steady_clock::now();
  Verification v = verify(reference, mutant.plan, {.time_limit_seconds = 20, .known = nullptr});
  Tally& tally = by_kind_[mutant.kind];
  ++tally.mutants;
  std::string what = fmt::format("{}: {} of {}", subject, mutant.kind, mutant.place);
  if (v.verdict == Verdict::proved) {
    Refutation judged = find_counterexample(reference, mutant.plan, smt::Clock::now() + std::chrono::seconds(20));
    if (judged.counterexample) {
      ++tally.wrongly_accepted;
      disagreements_.push_back(what + ": proved, but " + judged.counterexample->text);
    } else {
      ++tally.proved;
    }
  } else if (v.verdict == Verdict::refuted) {
    ++tally.refuted;
    if (mutant.equal) {
      ++tally.wrongly_refused;
      disagreements_.push_back(what + ": right, but refuted: " + v.summary + "; " + v.counterexample.text);
    }
  } else {
    ++tally.unknown;
    tally.right_unknown += mutant.equal;
    undecided_.push_back(what + ": " + v.summary);
  }
  seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Tally Survey::total() const {
  Tally out;
  for (const auto& [kind, t] : by_kind_) {
    out.mutants += t.mutants;
    out.refuted += t.refuted;
    out.unknown += t.unknown;
    out.proved += t.proved;
    out.wrongly_accepted += t.wrongly_accepted;
    out.wrongly_refused += t.wrongly_refused;
    out.right_unknown += t.right_unknown;
  }
  return out;
}

std::string Survey::text() const {
  std::string out = fmt::format("{:<34}{:>8}{:>9}{:>9}{:>9}{:>10}{:>9}\n", "kind", "mutants", "refuted", "proved",
                                "unknown", "accepted!", "refused!");
  auto line = [&](const std::string& kind, const Tally& t) {
    out += fmt::format("{:<34}{:>8}{:>9}{:>9}{:>9}{:>10}{:>9}\n", kind, t.mutants, t.refuted, t.proved, t.unknown,
                       t.wrongly_accepted, t.wrongly_refused);
  };
  for (const auto& [kind, t] : by_kind_) line(kind, t);
  line("all", total());
  Tally t = total();
  return out + fmt::format("unknown rate {:.2f} %, {:.1f} s, {:.0f} ms each\n",
                           t.mutants ? 100.0 * t.unknown / t.mutants : 0.0, seconds,
                           t.mutants ? 1e3 * seconds / t.mutants : 0.0);
}

namespace {

Program traced(const std::string& file, void (*builder)(), const std::map<std::string, std::string>& settings) {
  Trace trace(file, settings);
  run_builder(trace, builder);
  return differentiate(trace);
}

Cluster cluster_of_speeds(const std::vector<double>& speeds, double bandwidth) {
  Cluster cluster = local_cluster(int(speeds.size()));
  for (size_t i = 0; i < speeds.size(); ++i) {
    cluster.devices[i].memory_bytes = int64_t(8) << 30;
    cluster.devices[i].declared = {speeds[i], 1e10};
  }
  cluster.hosts[0].inside = {bandwidth, 1e-6};
  return cluster;
}

}  // namespace

std::vector<Subject> subjects(bool large) {
  std::vector<std::pair<std::string, Program>> models = {
      {"mlp",
       traced("mlp.cpp", surveyed_mlp::model, {{"context", "3"}, {"width", "4"}, {"hidden", "10"}, {"batch", "7"}})}};
  if (large)
    models.push_back({"gpt", traced("gpt.cpp", surveyed_gpt::model,
                                    {{"layers", "1"}, {"heads", "2"}, {"width", "8"}, {"batch", "5"}, {"seq", "4"}})});
  std::vector<Subject> out;
  for (const auto& [name, program] : models) {
    for (const std::vector<double>& speeds : {std::vector<double>{1e9, 3e9}, {2e9, 1e9, 4e9}}) {
      Cluster cluster = cluster_of_speeds(speeds, 1e10);
      out.push_back({fmt::format("{}, data parallel over {}", name, speeds.size()), program,
                     data_parallel_plan(program, cluster, RatioRule::proportional).program});
      // Fast links and slow devices make plans that cut more than the batch.
      Cluster fast = cluster_of_speeds(speeds, 1e13);
      SynthesisOptions options;
      options.time_limit_seconds = 3;
      out.push_back({fmt::format("{}, synthesized for {}", name, speeds.size()), program,
                     synthesize(program, fast, options).program});
    }
    SpmdProgram empty = out[out.size() - 4].plan;
    for (BoundaryTable& table : empty.tables) table.bounds = {0, 0, table.extent};
    out.push_back({name + ", an empty share", program, empty});
  }
  return out;
}

}  // namespace hetsynth::mutation
