// The attacker of tests/attack for as long as one likes.
//   bench_attack [--plans=100000] [--seed=1]
//   bench_attack --one=SEED
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "tests/attack/campaign.h"

int main(int argc, char** argv) {
  using namespace hetsynth;
  attack::CampaignOptions options{.plans = 100'000};
  uint64_t one = 0;
  CLI::App app("Plans that no planner makes, verified and executed");
  app.add_option("--plans", options.plans, "how many")->check(CLI::Range(1, 100'000'000));
  app.add_option("--seed", options.seed, "of the campaign");
  app.add_option("--seconds", options.seconds, "after which it ends early");
  app.add_option("--reported", options.reported, "failures of one kind that are told in full");
  app.add_option("--one", one, "a plan's own seed, as failures name it: this plan in full");
  CLI11_PARSE(app, argc, argv);
  if (one != 0) {
    fmt::print("{}", attack::attack_one(one));
    return 0;
  }
  fmt::print("seed {}\n", options.seed);
  const attack::Tally tally = attack::run_campaign(options);
  fmt::print("{}", attack::text(tally));
  return tally.wrongly_accepted.empty() && tally.wrongly_refused.empty() ? 0 : 1;
}
