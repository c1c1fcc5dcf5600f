// Many plans: what the verifier says of each, held against what it computes.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/attack/grow.h"
#include "tests/attack/judge.h"
#include "tests/attack/suspects.h"

namespace hetsynth::attack {

struct CampaignOptions {
  int plans = 2000;
  uint64_t seed = 1;
  int elsewhere = 2;           ///< other sizes at which a plan that was proved is executed
  int proofs_from_cache = 50;  ///< of so many proved plans one is proved anew
  int reported = 3;            ///< failures of one kind that are made small and told
  double seconds = 1e9;        ///< of a core, after which the campaign ends early
};

struct Failure {
  uint64_t seed = 0;  ///< of the plan: `attack_one`
  int number = 0;     ///< plans before it
  std::set<Suspect> suspects;
  std::string text;  ///< model, plan, tables, numbers; empty if enough of its kind were told
};

struct Tally {
  int plans = 0;
  int abandoned = 0;  ///< drafts that came to no end, not counted
  int proved = 0;
  int refuted_by_form = 0, refuted = 0;
  int unknown = 0;            ///< in all
  int unknown_right = 0;      ///< no difference was found
  int unknown_elsewhere = 0;  ///< right at its own sizes and tables, wrong at others
  int wild = 0;               ///< plans with an instruction that a rule refused
  int instructions = 0;
  std::map<std::string, int> opcodes;  ///< instructions
  std::map<std::string, int> models;   ///< plans
  std::vector<Failure> wrongly_accepted, wrongly_refused;
  std::map<std::string, int> forms;            ///< flaws of form, names taken out
  std::map<std::string, int> unknown_because;  ///< summaries, names taken out
  std::vector<uint64_t> unknown_seeds;         ///< of those where no difference was found, the first ones
  double growing = 0, solving = 0, verifying = 0, judging = 0;  ///< seconds of a core; solving: part of growing
};

Tally run_campaign(const CampaignOptions& options);
/// The plan that comes of a seed, if one does.
std::optional<Case> case_of(uint64_t seed, ProofCache& cache);
/// The plan of one seed, for a look at it: grown, verified, judged, told in full.
std::string attack_one(uint64_t seed);
/// A table for people.
std::string text(const Tally& tally);

}  // namespace hetsynth::attack
