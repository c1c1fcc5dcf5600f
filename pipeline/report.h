// What people and scripts are shown of a plan and of a proof.
#pragma once
#include <string>
#include <vector>

#include "dsl/cluster/cluster.h"
#include "dsl/spmd/plan.h"
#include "dsl/transform/turns.h"
#include "runtime/training/generated_check.h"
#include "runtime/training/numeric_check.h"
#include "verify/verify.h"

namespace hetsynth {

/// Shares, predicted times and memory per device, collectives by kind, and the baselines beside them.
/// `left_out`: devices of the cluster that the plan does not use.
std::string plan_text(const Plan& plan, const Program& reference, const std::vector<std::string>& left_out);
/// Which GPUs' products of bf16 or fp16, as far as the program has such, were priced as those of float32, since the
/// cluster tells no speed of them; empty: none.
std::string assumed_speeds_text(const Cluster& cluster, const Program& reference);
/// In one line: "mesh 2 x 4 on slow: d00 75.0%, d01 25.0%; 4 turns".
std::string plan_line(const Plan& plan, const TurnCount& turns);
std::string plan_json(const Plan& plan, const Program& reference, const std::vector<std::string>& left_out);

/// Says whether the turns of a step are proved to be the step; `turns`: how many, as in "3+1".
std::string turns_verification_text(const Verification& verification, const std::string& turns);
/// Verdict, scope and, if refuted, the counterexample.
std::string verification_text(const Verification& verification, const Program& reference, const SpmdProgram& program);
std::string verification_json(const Verification& verification, const GeneratedCheck* source = nullptr,
                              const NumericCheck* numbers = nullptr);

/// How many ranks' sources do what the plan says; the first that does not, with its line.
std::string source_check_text(const GeneratedCheck& check, const Program& reference);

/// A line per tensor: its error, the bound of rounding, and whether it keeps to it.
std::string numeric_check_text(const NumericCheck& check);

/// "4 turns on 2 stages of 1 device", "all at once".
std::string turns_and_stages(const TurnTrial& trial);
/// "412 us", "1.30 ms", "2.4 s".
std::string seconds_text(double seconds);
/// How many hundredths of the whole a part is; of nothing none.
double percent(double part, double whole);
/// "812 B", "4.1 MiB".
std::string bytes_text(double bytes);

}  // namespace hetsynth
