#include "cli/prompt_filling.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>
#include <vector>

#include "cli/prepare_plan.h"
#include "dsl/base/error.h"
#include "runtime/training/checkpoint.h"
#include "verify/migration.h"

namespace hetsynth::cli {
namespace {

/// A second program is planned, proved, generated, compiled and given the parameters in about this time. Measured for a
/// GPT of 6 layers and 10.7 million parameters: 0.17 s if the cache has its code, 0.8 s if it is compiled
/// (docs/generate.md). A wrong guess costs at most what is measured here.
constexpr double seconds_to_make_another_program = 0.5;

std::set<NodeId> as_set(const std::vector<NodeId>& nodes) { return {nodes.begin(), nodes.end()}; }

/// The program with these leaves alone.
SpmdProgram with_leaves(SpmdProgram program, const std::set<NodeId>& nodes) {
  std::erase_if(program.leaves, [&](ValueId leaf) { return !nodes.contains(program.values[size_t(leaf)].node); });
  return program;
}

}  // namespace

int64_t fastest_prompt_block(const GenerationProgram& program, int64_t ahead, double seconds) {
  const bool pays = !program.remembered.empty() && double(ahead) * seconds > seconds_to_make_another_program;
  return pays ? filling_block(program.model.length) : 1;
}

void check_prompt_block(const GenerationProgram& program, int64_t asked) {
  const int64_t length = program.model.length;
  const auto refuse = [&](const std::string& message, const std::string& expected, const std::string& mend) {
    throw UserError({.tag = "--prompt-block",
                     .message = message,
                     .expected = expected,
                     .found = fmt::format("{}", asked),
                     .mend = mend},
                    ExitCode::usage);
  };
  if (program.remembered.empty())
    refuse(program.reads_window ? "whole windows are read for every token, and no prompt apart from them"
                                : "nothing is remembered of the tokens before the last one",
           "no --prompt-block", "leave --prompt-block out");
  if (length % asked != 0) {
    std::vector<int64_t> divisors;
    for (int64_t n = 1; n <= length; ++n)
      if (length % n == 0) divisors.push_back(n);
    refuse(fmt::format("blocks of a prompt have to divide the model's window of {} tokens evenly", length),
           fmt::format("one of {}", fmt::join(divisors, ", ")),
           "take one of these, or leave --prompt-block out: then what is faster is done");
  }
}

PromptFilling::PromptFilling(const Compilation& generation, const GenerationProgram& program, int64_t block,
                             bool always)
    : generation_(generation), program_(program), asked_block_(block), always_(always), compilation_(begun()) {}

/// What the second program is compiled from: the same model, settings and cluster. Pins of tensors are those of the
/// first program. The model is not loaded again.
Compilation PromptFilling::begun() {
  Compilation out;
  static_cast<CompilationInput&>(out) = generation_;
  out.plan_json.clear();
  out.pins.placements.clear();
  out.model = generation_.model;
  out.stages_done = 1;
  out.reference_of = [this](Trace& trace) {
    blocks_ = filling_program(logits_program(trace), asked_block_);
    return blocks_.program;
  };
  return out;
}

bool PromptFilling::has_plan(Job* job) {
  if (!job || job->leads()) {
    try {
      run_pipeline(compilation_, "synthesize", {});
    } catch (const UserError& error) {
      reason_ = error.diagnostic().message;
    }
  }
  if (job) reason_ = job->exchange(reason_).front();
  return reason_.empty();
}

/// Plans the second program for the memory of the first one, which no token is read in meanwhile. False: it keeps other
/// parts of the tensors than the first.
bool PromptFilling::lies_in_memory_of(const Executor& reader) {
  compilation_.memory_of = &generation_;
  compilation_.keep_devices = reader.ranks() > 1;
  try {
    run_pipeline(compilation_, "generate", {});
  } catch (const UserError&) {  // told where it is planned for itself
  }
  return compilation_.in_its_memory;
}

std::optional<ExitCode> PromptFilling::prepare(const std::string& checkpoint, Executor& reader, bool unverified,
                                               Job* job) {
  reader_ = &reader;
  if (!job && !lies_in_memory_of(reader)) compilation_ = begun();
  if (!compilation_.in_its_memory) plan_beside(compilation_, generation_, reader, job);
  if (!has_plan(job)) return std::nullopt;
  if (const auto ended =
          prepare_plan(compilation_, {}, {.unverified = unverified, .brief = "prompt", .silent = true}, job))
    return ended;
  LaunchOptions launching = launch_options(compilation_, reader.seed(), job);
  launching.parameters_follow = true;
  if (compilation_.in_its_memory) launching.executor.in_memory_of = &reader;
  executor_ = launch(compilation_.reference, compilation_.plan.program, compilation_.cluster, launching);
  if (!compilation_.in_its_memory) load_for_evaluation(checkpoint, *executor_, as_set(blocks_.remembered));
  return std::nullopt;
}

TextFilling PromptFilling::filling() {
  if (!executor_) return {};
  return {.executor = executor_.get(),
          .program = &blocks_,
          .hand_over =
              [this] {
                if (!compilation_.in_its_memory) reader_->take_from(*executor_, hand_over());
              },
          .seconds_of_block = always_ ? 0 : compilation_.plan.prediction.step_seconds,
          .seconds_of_token = generation_.plan.prediction.step_seconds};
}

Migration PromptFilling::hand_over() const {
  const std::set<NodeId> remembered = as_set(program_.remembered);
  const SpmdProgram from =
      with_leaves(renumbered(compilation_.plan.program, compilation_.reference, generation_.reference), remembered);
  const SpmdProgram to = with_leaves(generation_.plan.program, remembered);
  Migration out = migration_between(generation_.reference, from, to,
                                    ranks_that_were(executor_->device_names(), reader_->device_names()),
                                    hosts_of(compilation_.cluster), hosts_of(generation_.cluster));
  const std::string flaw = flaw_of_migration(generation_.reference, from, to, out);
  HETSYNTH_CHECK(flaw.empty(), "keys and values get from one program to the other: " + flaw);
  return out;
}

}  // namespace hetsynth::cli
