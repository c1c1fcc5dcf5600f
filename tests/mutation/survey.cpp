#include "tests/mutation/survey.h"

#include <fmt/format.h>

#include <chrono>
#include <random>

#include "dsl/transform/differentiate.h"
#include "hetsynth/hetsynth.h"
#include "synth/planner/synthesize.h"
#include "tests/mutation/random_plans.h"
#include "verify/refute/refute.h"
#include "verify/rules/form.h"
#include "verify/rules/normalised_plan.h"

namespace surveyed_gpt {
#include "examples/gpt.cpp"
}
namespace surveyed_mlp {
#include "examples/mlp.cpp"
}

namespace hetsynth::mutation {

namespace {

/// Far from the numbers that the verifier tries.
constexpr uint64_t judging_seed = 1000;

Judgement judge(const Program& reference, const SpmdProgram& plan, double seconds, uint64_t seed = judging_seed) {
  if (flaw_of(reference, plan)) return Judgement::form;
  auto deadline =
      smt::Clock::now() + std::chrono::duration_cast<smt::Clock::duration>(std::chrono::duration<double>(seconds));
  Refutation found = find_counterexample(reference, plan, deadline, seed);
  if (!found.counterexample) return Judgement::equal;
  if (!found.conclusive) return Judgement::elsewhere;
  return found.counterexample->evidence == Evidence::word ? Judgement::word : Judgement::results;
}

/// Whether the judgement may change with more numbers: a difference that only few of them show (behind a maximum, or
/// the threshold of gradient clipping) may need more than the first look takes, at the plan's own sizes above all.
bool open_to_doubt(Judgement judged) { return judged == Judgement::equal || judged == Judgement::elsewhere; }

Judgement judge_longer(const Program& reference, const SpmdProgram& plan, const SurveyLimits& limits) {
  Judgement judged = Judgement::equal;
  for (int look = 1; look <= limits.looks && open_to_doubt(judged); ++look)
    judged = judge(reference, plan, limits.seconds, judging_seed * uint64_t(look + 1));
  return judged;
}

}  // namespace

void Survey::take(const std::string& subject, const Program& reference, const Mutant& mutant) {
  auto start = std::chrono::steady_clock::now();
  Judgement judged = judge(reference, mutant.plan, limits_.seconds);
  Verification v = verify(reference, mutant.plan, {.time_limit_seconds = limits_.seconds, .known = nullptr});
  if (v.verdict == Verdict::refuted && open_to_doubt(judged)) judged = judge_longer(reference, mutant.plan, limits_);
  bool right = mutant.equal || judged == Judgement::equal;
  Tally& tally = by_kind_[mutant.kind];
  ++tally.mutants;
  std::string what = fmt::format("{}: {} of {}", subject, mutant.kind, mutant.place);
  if (v.verdict == Verdict::proved) {
    ++(judged == Judgement::equal ? tally.proved : tally.wrongly_accepted);
    if (judged != Judgement::equal) disagreements_.push_back(what + ": proved, but evaluation differs");
  } else if (v.verdict == Verdict::refuted) {
    Evidence by = v.counterexample.evidence;
    ++(by == Evidence::form      ? tally.refuted_by_form
       : by == Evidence::results ? tally.refuted_by_results
                                 : tally.refuted_by_word);
    if (right || judged == Judgement::elsewhere) {
      ++tally.wrongly_refused;
      disagreements_.push_back(what + ": right, but refuted: " + v.summary + "; " + v.counterexample.text);
    }
  } else {
    ++(right                            ? tally.unknown_equal
       : judged == Judgement::elsewhere ? tally.unknown_elsewhere
                                        : tally.unknown_different);
    undecided_.push_back(what + (right ? " (equal): " : " (different): ") + v.summary);
  }
  seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void Tally::add(const Tally& t) {
  mutants += t.mutants;
  refuted_by_form += t.refuted_by_form;
  refuted_by_results += t.refuted_by_results;
  refuted_by_word += t.refuted_by_word;
  proved += t.proved;
  unknown_different += t.unknown_different;
  unknown_elsewhere += t.unknown_elsewhere;
  unknown_equal += t.unknown_equal;
  wrongly_accepted += t.wrongly_accepted;
  wrongly_refused += t.wrongly_refused;
}

void Survey::add(const Survey& other) {
  for (const auto& [kind, tally] : other.by_kind_) by_kind_[kind].add(tally);
  disagreements_.insert(disagreements_.end(), other.disagreements_.begin(), other.disagreements_.end());
  undecided_.insert(undecided_.end(), other.undecided_.begin(), other.undecided_.end());
  seconds += other.seconds;
}

Tally Survey::total() const {
  Tally out;
  for (const auto& [kind, t] : by_kind_) out.add(t);
  return out;
}

std::string Survey::text() const {
  constexpr const char* row = "{:<34}{:>8}{:>8}{:>9}{:>7}{:>8}{:>11}{:>11}{:>7}{:>10}{:>9}\n";
  std::string out = fmt::format("{:<42}{:^24}{:>8}{:^29}\n", "", "refuted by", "", "unknown, evaluation says");
  out += fmt::format(row, "kind", "mutants", "form", "results", "word", "proved", "different", "elsewhere", "equal",
                     "accepted!", "refused!");
  auto line = [&](const std::string& kind, const Tally& t) {
    out +=
        fmt::format(row, kind, t.mutants, t.refuted_by_form, t.refuted_by_results, t.refuted_by_word, t.proved,
                    t.unknown_different, t.unknown_elsewhere, t.unknown_equal, t.wrongly_accepted, t.wrongly_refused);
  };
  for (const auto& [kind, t] : by_kind_) line(kind, t);
  Tally t = total();
  line("all", t);
  return out + fmt::format("unknown {} of {} ({:.2f} %), {:.1f} s, {:.0f} ms each\n", t.unknown(), t.mutants,
                           t.mutants ? 100.0 * t.unknown() / t.mutants : 0.0, seconds,
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

void survey_subjects(Survey& survey, const std::vector<Subject>& subjects, size_t count, uint64_t seed) {
  std::vector<std::pair<const Subject*, Mutant>> all;
  for (const Subject& subject : subjects)
    each_mutant(subject.reference, subject.plan, [&](Mutant m) {
      all.push_back({&subject, std::move(m)});
      return true;
    });
  std::mt19937_64 random(seed);
  std::shuffle(all.begin(), all.end(), random);
  if (all.size() > count) all.resize(count);
  for (const auto& [subject, mutant] : all) survey.take(subject->name, subject->reference, mutant);
}

void survey_random_programs(Survey& survey, int count, uint64_t seed) {
  constexpr size_t mutants_per_plan = 10;
  test::Random random(seed);
  for (int taken = 0; taken < count;) {
    Program reference = test::random_program(random, 3 + int(random() % 10));
    SpmdProgram plan = test::random_plan(random, reference);
    std::vector<Mutant> mutants;
    each_mutant(reference, plan, [&](Mutant m) {
      mutants.push_back(std::move(m));
      return true;
    });
    std::shuffle(mutants.begin(), mutants.end(), random);
    for (size_t i = 0; i < mutants.size() && i < mutants_per_plan && taken < count; ++i, ++taken)
      survey.take(fmt::format("random program of seed {}", seed), reference, mutants[i]);
  }
}

}  // namespace hetsynth::mutation
