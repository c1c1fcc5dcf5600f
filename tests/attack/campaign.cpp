#include "tests/attack/campaign.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ctime>

#include "tests/attack/smaller.h"
#include "verify/rules/form.h"
#include "verify/verify.h"

namespace hetsynth::attack {
namespace {

/// Seconds of a core.
double core_time() { return double(std::clock()) / CLOCKS_PER_SEC; }

uint64_t mixed(uint64_t seed, uint64_t number) {
  uint64_t z = seed * 0x9E3779B97F4A7C15u + number * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 31)) * 0x94D049BB133111EBu;
  return z ^ (z >> 29);
}

/// Other instances and looks where a plan that was not proved seems right.
constexpr int instances_of_refused = 12;
constexpr int trials = 3, further_trials = 30;

bool proved_by_cache(const Case& c, ProofCache& cache) {
  return !flaw_of(c.model.program, c.plan) &&
         verify(c.model.program, c.plan, {.time_limit_seconds = 20, .known = &cache.known()}).verdict ==
             Verdict::proved;
}

Judgement judge_proved(const Case& c, uint64_t seed, int elsewhere) {
  const Judgement found = judge(c.model.program, c.plan, seed, trials);
  return found.difference != Difference::none || elsewhere == 0
             ? found
             : judge_elsewhere(c.model.program, c.plan, seed, elsewhere);
}

std::string told(const Case& c, const std::string& what) {
  std::string tables;
  for (const BoundaryTable& t : c.plan.tables)
    tables += t.by < 0 ? fmt::format("{} over {}: [{}] of {}\n", t.name, c.plan.mesh.axes[size_t(t.axis)].name,
                                     fmt::join(t.bounds, ","), t.extent)
                       : fmt::format("{} over {} by {}: {} of {}\n", t.name, c.plan.mesh.axes[size_t(t.axis)].name,
                                     c.plan.mesh.axes[size_t(t.by)].name, t.rows, t.extent);
  return fmt::format("{}\nmodel {}:\n{}{}\n{}", what, c.model.kind, text(c.model.program),
                     text(c.plan, c.model.program), tables);
}

class Campaign {
 public:
  explicit Campaign(const CampaignOptions& options) : o_(options) {}

  Tally run() {
    const double begin = core_time();
    for (uint64_t number = 0; t_.plans < o_.plans && core_time() - begin < o_.seconds; ++number) {
      const uint64_t seed = mixed(o_.seed, number);
      const double start = core_time();
      const std::optional<Case> grown = case_of(seed, cache_);
      t_.growing += core_time() - start;
      if (grown)
        take(*grown, seed);
      else
        ++t_.abandoned;
    }
    t_.solving = cache_.seconds();
    return std::move(t_);
  }

 private:
  void take(const Case& c, uint64_t seed) {
    ++t_.plans;
    t_.wild += c.wild;
    t_.instructions += int(c.plan.instructions.size());
    ++t_.models[c.model.kind.substr(0, c.model.kind.find(' '))];
    for (const Instruction& i : c.plan.instructions) ++t_.opcodes[std::string(name(i.opcode))];
    double start = core_time();
    bool proved = !c.wild && proved_by_cache(c, cache_);
    Verification v;
    if (!proved || t_.plans % o_.proofs_from_cache == 0) {
      v = verify(c.model.program, c.plan, {.time_limit_seconds = 20});
      proved = v.verdict == Verdict::proved;
    }
    t_.verifying += core_time() - start;
    start = core_time();
    proved ? take_proved(c, seed) : take_refused(c, v, seed);
    t_.judging += core_time() - start;
  }

  void take_proved(const Case& c, uint64_t seed) {
    ++t_.proved;
    const Judgement found = judge_proved(c, seed, o_.elsewhere);
    if (found.difference == Difference::none) return;
    Failure failure{seed, t_.plans, suspects_of(c.model.program, c.plan), ""};
    if (told_[failure.suspects]++ < o_.reported) {
      const Case least = smaller(c, cache_, [&](const Case& tried) {
        return proved_by_cache(tried, cache_) && judge_proved(tried, seed, o_.elsewhere).difference != Difference::none;
      });
      failure.suspects = suspects_of(least.model.program, least.plan);
      failure.text = told(least, judge_proved(least, seed, o_.elsewhere).text);
    }
    t_.wrongly_accepted.push_back(std::move(failure));
  }

  void take_refused(const Case& c, const Verification& v, uint64_t seed) {
    const bool refuted = v.verdict == Verdict::refuted;
    if (refuted && v.counterexample.evidence == Evidence::form) {
      ++t_.refuted_by_form;
      ++t_.forms[without_names(c, v.summary)];
      // What rules alone have grown has a meaning, unless it reads a carry behind its loop: rules look at one
      // instruction and do not know where it stands. Such a plan has none, though a carry that never changes gives
      // right numbers.
      const bool has_meaning = !c.wild && v.summary.find("behind the loop that carries it") == std::string::npos;
      if (has_meaning && judge(c.model.program, c.plan, seed, trials).difference == Difference::none)
        t_.wrongly_refused.push_back({seed, t_.plans, {}, told(c, v.summary)});
      return;
    }
    bool own = judge(c.model.program, c.plan, seed, trials).difference != Difference::none;
    if (!own) own = judge(c.model.program, c.plan, seed + 1, further_trials).difference != Difference::none;
    if (refuted) {
      ++t_.refuted;
      if (!own) t_.wrongly_refused.push_back({seed, t_.plans, {}, told(c, v.summary + "\n" + v.counterexample.text)});
      return;
    }
    const bool other =
        !own && judge_elsewhere(c.model.program, c.plan, seed, instances_of_refused).difference != Difference::none;
    ++t_.unknown;
    t_.unknown_right += !own && !other;
    t_.unknown_elsewhere += other;
    const char* found = own ? "different" : other ? "different elsewhere" : "equal";
    ++t_.unknown_because[fmt::format("{}{}: {}", c.wild ? "" : "grown by rules alone, ", found,
                                     without_names(c, v.summary))];
    if (!own && !other && int(t_.unknown_seeds.size()) < 40) t_.unknown_seeds.push_back(seed);
  }

  /// So that alike reasons are one.
  static std::string without_names(const Case& c, const std::string& summary) {
    std::map<std::string, std::string> names;
    for (const Node& node : c.model.program.nodes) names[node.name] = "X";
    for (const Factor& f : factors_of(c.model.program)) names[f.name] = "F";
    for (const Mesh::Axis& axis : c.plan.mesh.axes) names[axis.name] = "A";
    for (const BoundaryTable& t : c.plan.tables) names[t.name] = "T";
    std::string out;
    for (std::string_view rest = summary; !rest.empty();) {
      std::string_view word = rest.substr(0, rest.find(' '));
      rest.remove_prefix(std::min(word.size() + 1, rest.size()));
      const size_t last = word.find_last_not_of(",:");
      const std::string_view mark = last == word.npos ? "" : word.substr(last + 1);
      word.remove_suffix(mark.size());
      const auto found = names.find(std::string(word));
      const bool number = !word.empty() && word.find_first_not_of("0123456789") == word.npos;
      // "a" is a name only where the word before says so.
      const bool name = found != names.end() && (word != "a" || out.ends_with("axis ") || out.ends_with("factor "));
      out += number ? "N" : word.find('@') != word.npos ? "V" : name ? std::string_view(found->second) : word;
      out += fmt::format("{} ", mark);
    }
    return out;
  }

  static std::vector<Factor> factors_of(const Program& program) {
    std::vector<Factor> out;
    for (const Node& node : program.nodes) out.insert(out.end(), node.space.factors.begin(), node.space.factors.end());
    return out;
  }

  CampaignOptions o_;
  ProofCache cache_;
  Tally t_;
  std::map<std::set<Suspect>, int> told_;
};

std::string text(const std::set<Suspect>& suspects) {
  std::vector<std::string_view> names;
  for (Suspect s : suspects) names.push_back(name(s));
  return names.empty() ? "no known pattern" : fmt::format("{}", fmt::join(names, " + "));
}

std::string text(const char* title, const std::vector<Failure>& failures) {
  std::map<std::string, std::vector<int>> by_cause;
  for (const Failure& f : failures) by_cause[text(f.suspects)].push_back(f.number);
  std::string out;
  for (const auto& [cause, numbers] : by_cause)
    out += fmt::format("{}: {} times, first in plan {}: {}\n", title, numbers.size(), numbers[0], cause);
  for (const Failure& f : failures)
    if (!f.text.empty())
      out += fmt::format("{} (plan {}, seed {}, {}): {}\n", title, f.number, f.seed, text(f.suspects), f.text);
  return out;
}

}  // namespace

std::optional<Case> case_of(uint64_t seed, ProofCache& cache) {
  Random random(seed);
  Model model = random_model(random);
  return grow(random, std::move(model), cache);
}

Tally run_campaign(const CampaignOptions& options) { return Campaign(options).run(); }

std::string attack_one(uint64_t seed) {
  ProofCache cache;
  const std::optional<Case> c = case_of(seed, cache);
  if (!c) return "no plan comes of this seed\n";
  const Verification v = verify(c->model.program, c->plan);
  const bool form = v.counterexample.evidence == Evidence::form && v.verdict == Verdict::refuted;
  return told(*c,
              fmt::format("{}: {}\n{}\nsuspects: {}\nown: {}\nelsewhere: {}", name(v.verdict), v.summary,
                          v.counterexample.text, text(suspects_of(c->model.program, c->plan)),
                          form ? "-" : judge(c->model.program, c->plan, seed, trials).text,
                          form ? "-" : judge_elsewhere(c->model.program, c->plan, seed, instances_of_refused).text));
}

std::string text(const Tally& t) {
  std::string out = fmt::format(
      "{} plans ({} drafts came to no end), {} of them with an instruction against the rules, {} instructions\n"
      "proved {}, refuted {} and by form {}, unknown {} ({:.2f} %): {} equal, {} different elsewhere\n"
      "wrongly accepted {}, wrongly refused {}\n",
      t.plans, t.abandoned, t.wild, t.instructions, t.proved, t.refuted, t.refuted_by_form, t.unknown,
      t.plans ? 100.0 * t.unknown / t.plans : 0.0, t.unknown_right, t.unknown_elsewhere, t.wrongly_accepted.size(),
      t.wrongly_refused.size());
  out += fmt::format("seconds of a core: growing {:.1f} (solver {:.1f}), verifying {:.1f}, judging {:.1f}\n", t.growing,
                     t.solving, t.verifying, t.judging);
  out += fmt::format("plans of models: {}\ninstructions: {}\n", t.models, t.opcodes);
  for (const auto& [reason, count] : t.forms) out += fmt::format("by form {:>5} times, {}\n", count, reason);
  for (const auto& [reason, count] : t.unknown_because) out += fmt::format("unknown {:>5} times, {}\n", count, reason);
  for (uint64_t seed : t.unknown_seeds) out += fmt::format("unknown, though equal: seed {}\n", seed);
  return out + text("WRONG ACCEPTANCE", t.wrongly_accepted) + text("WRONG REFUSAL", t.wrongly_refused);
}

}  // namespace hetsynth::attack
