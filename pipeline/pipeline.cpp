#include "pipeline/pipeline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ranges>
#include <thread>
#include <utility>

#include "codegen/fit.h"
#include "dsl/base/counted.h"
#include "dsl/base/error.h"
#include "dsl/base/file.h"
#include "dsl/base/json_tree.h"
#include "dsl/ir/trace_limit.h"
#include "dsl/spmd/turns_plan.h"
#include "dsl/transform/differentiate.h"
#include "dsl/transform/turns.h"
#include "pipeline/report.h"
#include "runtime/launch.h"
#include "runtime/rank/interrupt.h"
#include "runtime/rank/notice.h"
#include "synth/planner/planned_step.h"
#include "synth/planner/synthesize.h"
#include "synth/space/rules.h"
#include "verify/certificate.h"
#include "verify/isolated.h"
#include "verify/rules/form.h"

namespace hetsynth {
namespace {

/// Planning that ends sooner shows no progress line.
constexpr double seconds_without_progress = 0.5;

/// The least that a cluster file may give a device.
constexpr int64_t least_memory_bytes = int64_t(64) << 10;

void load(Compilation& c) {
  c.model = load_model(c.model_options.file, {.color = !c.embedded && ::isatty(STDERR_FILENO) == 1});
  if (!c.embedded) notice("{}", c.model->warnings());
}

/// A plan of another model is found out by its options first: the message is about the plan, not about a setting that
/// nobody typed.
[[noreturn]] void throw_foreign_plan(const Compilation& c, const UserError& error) {
  const auto typed = c.model_options.settings();
  const auto own = c.model->trace(typed);
  for (const OptionValue& option : read_plan_options(c.plan_file)) {
    bool known = false;
    for (const OptionValue& other : own->program.options) known = known || other.name == option.name;
    if (known || typed.count(option.name)) continue;
    throw UserError(
        {.where = {c.plan_file},
         .tag = "plan",
         .message = "the plan was made for another model",
         .expected = fmt::format("a plan of {}", c.model_options.file),
         .found = fmt::format("the option {}={}, which that model does not have", option.name, option.value),
         .mend = "name the model the plan was made for, or plan anew"},
        ExitCode::invalid_input);
  }
  throw error;
}

/// Every tensor of a plan's model stands on a line of the plan of its own; a few more are left out of the program.
size_t most_tensors_of(const std::string& plan_file) {
  const std::string text = read_file(plan_file, "plan file", JsonLimits{}.bytes);
  return 10'000 + 8 * size_t(std::ranges::count(text, '\n'));
}

void trace(Compilation& c) {
  // The options of a plan are believed before its hash can be compared: they may ask for a model of any size.
  std::optional<TraceLimit> limit;
  if (!c.plan_file.empty()) limit.emplace(most_tensors_of(c.plan_file));
  try {
    c.trace = c.model->trace(model_settings(c));
  } catch (const UserError& error) {
    if (c.plan_file.empty()) throw;
    throw_foreign_plan(c, error);
  }
}

void differentiate_model(Compilation& c) {
  c.reference = c.reference_of ? c.reference_of(*c.trace) : differentiate(*c.trace);
  c.whole_step = std::move(c.trace->whole_step);
  c.turns = asked_turns(*c.trace);
  c.trace.reset();  // another model, or the same in another way, may be traced from here on
}

/// Leaves out the devices of these names, and those of hosts of these names.
Cluster without(Cluster cluster, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const size_t before = cluster.devices.size();
    std::erase_if(cluster.devices, [&](const Device& device) {
      return device.name == name || cluster.hosts[size_t(device.host)].name == name;
    });
    if (cluster.devices.size() == before)
      throw UserError({.where = {cluster.file},
                       .tag = "cluster",
                       .message = "there is no such host or device to leave out",
                       .expected = fmt::format("a host ({}) or a device ({})",
                                               fmt::join(cluster.hosts | std::views::transform(&Host::name), ", "),
                                               fmt::join(cluster.devices | std::views::transform(&Device::name), ", ")),
                       .found = name},
                      ExitCode::usage);
    if (cluster.devices.empty())
      throw UserError({.where = {cluster.file}, .tag = "cluster", .message = "all devices are left out"},
                      ExitCode::usage);
  }
  return cluster;
}

Cluster all_of_cluster(const CompilationInput& c) {
  if (c.given_devices) return without(*c.given_devices, c.without);
  if (!c.cluster_file.empty()) return without(load_cluster(c.cluster_file), c.without);
  const int devices =
      c.default_devices > 0 ? c.default_devices : int(std::max(1u, std::thread::hardware_concurrency()));
  return without(local_cluster(devices), c.without);
}

std::string progress_text(const SynthesisProgress& p) {
  const std::string so_far = fmt::format("planning: {}, {} searches, {} expansions", seconds_text(p.elapsed_seconds),
                                         p.searches, p.expansions);
  if (!p.best_seconds) return so_far + ", no plan yet";
  double gap = *p.best_seconds > 0 ? 1 - p.bound_seconds / *p.best_seconds : 0;
  return fmt::format("{}, best step {}, bound {}, gap {:.2g} %", so_far, seconds_text(*p.best_seconds),
                     seconds_text(p.bound_seconds), 100 * gap);
}

constexpr const char* sent_plan = "the plan of the first process";

void take_turns_of(Compilation& c, Program in_turns, TurnCount count) {
  c.whole_step = std::exchange(c.reference, std::move(in_turns));
  c.turns = count;
}

/// Stages that are asked for are there, or a message says why not.
void refuse_what_stages_exclude(const Compilation& c) {
  if (c.stages.value_or(1) < 2) return;
  const auto& settings = c.model_options.settings();
  const auto turns = settings.find("turns");
  Diagnostic diagnostic{.tag = "stages"};
  if (c.pins.any()) {
    diagnostic.message = "what a plan has to keep to is not known of pipelines";
    diagnostic.expected = "no pins beside --stages";
    diagnostic.found = fmt::format("--stages {} with pins, a ratio, a mesh or forbidden instructions", *c.stages);
    diagnostic.mend = "leave --stages out, or --pin, --pins, --ratio, --mesh and --forbid";
  } else if (turns != settings.end() && (c.turns.last_apart || c.turns.turns < 2)) {
    diagnostic.message = "stages compute at the same time where turns overlap";
    diagnostic.expected = "two turns or more, none of them apart";
    diagnostic.found = fmt::format("--stages {} with --turns {}", *c.stages, turns->second);
    diagnostic.mend = "give another number of turns, or leave --turns out";
  } else {
    return;
  }
  throw UserError(std::move(diagnostic), ExitCode::usage);
}

/// The plan of the step as it was asked for, or in the turns that are faster.
Plan searched_in_turns(Compilation& c, SynthesisOptions options) {
  refuse_what_stages_exclude(c);
  options.runners_up = 2;
  options.strategies = &c.strategies;
  const bool pinned = c.model_options.settings().contains("turns");
  PlannedStep step = pinned && c.whole_step
                         ? synthesize_at_turns(*c.whole_step, c.reference, c.turns, c.cluster, options)
                     : pinned ? PlannedStep{synthesize(c.reference, c.cluster, options), {}, {}}
                              : synthesize_in_turns(c.reference, c.cluster, options);
  if (step.program && !pinned) take_turns_of(c, std::move(*step.program), step.turns);
  return std::move(step.plan);
}

/// With a progress line on a terminal; Ctrl-C ends the search and keeps the best plan so far.
Plan searched_plan(Compilation& c) {
  SynthesisOptions options = planning_options(c);
  if (c.embedded) {
    options.progress = c.progress;
    return searched_in_turns(c, std::move(options));
  }
  InterruptGuard interrupt;
  const bool terminal = ::isatty(STDERR_FILENO) == 1;
  bool shown = false;
  options.progress = [&](const SynthesisProgress& progress) {
    if (terminal && progress.elapsed_seconds >= seconds_without_progress) {
      notice("\r\033[K{}", progress_text(progress));
      std::fflush(stderr);
      shown = true;
    }
    return !interrupt.requested();
  };
  Plan plan = searched_in_turns(c, options);
  if (shown) notice("\r\033[K");
  if (interrupt.requested()) notice("hetsynth: planning was interrupted; the best plan so far is taken\n");
  return plan;
}

/// What another process planned may be of the step in turns.
void follow_turns(Compilation& c) {
  for (const OptionValue& option : plan_options(c.plan_json, sent_plan))
    if (option.name == "turns" && !c.whole_step)
      if (const std::optional<TurnCount> count = turn_count(option.value); count && count->turns > 1)
        take_turns_of(c, in_turns(c.reference, *count), *count);
}

void synthesize_plan(Compilation& c) {
  if (!c.plan_json.empty()) {
    follow_turns(c);
    c.plan = plan_from_json(c.plan_json, sent_plan, c.reference);
    c.cluster = given_cluster(c);
  } else if (!c.plan_file.empty()) {
    c.plan = load_plan(c.plan_file, c.reference);
    c.cluster = c.devices_of_plan ? cluster_of(c.plan) : given_cluster(c);
  } else {
    c.cluster = given_cluster(c);
    c.plan = searched_plan(c);
  }
  c.all_devices = c.cluster;
  if (c.devices_of_plan) return;
  c.left_out = left_out_devices(c.plan, c.cluster);
  check_plan_cluster(c.plan, c.cluster);
  c.cluster = ranks_of(c.plan, c.cluster);
}

/// A proof that an execution contradicts is a fault of ours, whatever the plan is worth.
void expect_no_contradiction(const Verification& verification) {
  HETSYNTH_CHECK(verification.contradiction.empty(),
                 verification.summary + "; nothing is proved\n" + verification.contradiction);
}

/// A step in turns is the model's own step: turns are a mesh axis, and the rules of any axis show it.
void verify_turns(Compilation& c) {
  if (!c.whole_step) return;
  const Program& whole = *c.whole_step;
  const int64_t turns = c.turns.turns;
  const SpmdProgram plan = plan_of_turns(whole, place_in_turns(whole, turns), int(turns));
  c.turns_verification = verify_isolated(whole, plan, {.time_limit_seconds = c.verify_seconds},
                                         {.grace_seconds = 5, .memory_bytes = c.verify_bytes});
  expect_no_contradiction(*c.turns_verification);
  HETSYNTH_CHECK(c.turns_verification->verdict != Verdict::refuted,
                 "a step in turns is the step: " + c.turns_verification->summary);
  if (c.turns_verification->verdict == Verdict::proved || c.verification.verdict != Verdict::proved) return;
  c.verification.verdict = Verdict::unknown;
  c.verification.summary =
      fmt::format("that {} turns make the model's step: {}", text(c.turns), c.turns_verification->summary);
}

void verify_devices(Compilation& c) {
  VerifyOptions options{.time_limit_seconds = c.verify_seconds};
  if (!c.certificate_file.empty()) {
    Certificate certificate =
        certificate_from_json(read_file(c.certificate_file, "certificate", int64_t(16) << 20), c.certificate_file);
    c.verification = recheck(certificate, c.certificate_file, c.reference, c.plan.program, options);
    return expect_no_contradiction(c.verification);
  }
  c.verification =
      verify_isolated(c.reference, c.plan.program, options, {.grace_seconds = 5, .memory_bytes = c.verify_bytes});
  expect_no_contradiction(c.verification);
}

void verify_plan(Compilation& c) {
  verify_devices(c);
  verify_turns(c);
}

/// A plan that is not proved is generated as well, if every instruction reads and makes what is there.
void require_generable(const Compilation& c) {
  const auto refuse = [&](const std::string& why) {
    if (why.empty()) return;
    throw UserError({.where = {c.plan_file},
                     .tag = "plan",
                     .message = "no program can be generated of the plan: " + why,
                     .mend = "ask `hetsynth verify` what is wrong with the plan"});
  };
  if (const std::optional<Flaw> flaw = flaw_of(c.reference, c.plan.program)) refuse(flaw->text);
  for (int rank = 0; rank < c.plan.program.mesh.device_count(); ++rank)
    refuse(codegen::why_not_generated(c.reference, c.plan.program, rank));
}

/// The programs as they lie in the memory of other programs; none: they cannot, as these keep other tensors.
std::optional<std::vector<DeviceProgram>> generated_beside(const Compilation& c, const Compilation& other) {
  const auto is_cpu = [](const Device& device) { return device.kind == DeviceKind::cpu; };
  if (!c.reference.loops.empty() || other.programs.size() != c.programs.size() ||
      !std::ranges::equal(c.cluster.devices, other.cluster.devices, {}, &Device::name, &Device::name) ||
      !std::ranges::all_of(c.cluster.devices, is_cpu))
    return std::nullopt;
  std::vector<DeviceProgram> out;
  for (size_t rank = 0; rank < c.programs.size(); ++rank) {
    const auto places = places_beside(c.reference, c.programs[rank], other.reference, other.programs[rank]);
    if (!places) return std::nullopt;
    out.push_back(generate(c.reference, c.plan.program, c.cluster, int(rank), c.marked, &*places));
  }
  return out;
}

void generate_programs(Compilation& c) {
  if (c.verification.verdict != Verdict::proved) require_generable(c);
  for (int rank = 0; rank < c.plan.program.mesh.device_count(); ++rank)
    c.programs.push_back(generate(c.reference, c.plan.program, c.cluster, rank, c.marked));
  if (!c.memory_of) return;
  if (auto programs = generated_beside(c, *c.memory_of)) {
    c.programs = *std::move(programs);
    c.in_its_memory = true;
  }
}

void check_programs(Compilation& c) {
  c.source_check = check_generated(c.reference, c.plan.program, c.programs, c.check_work);
}

std::string dump_source(const Compilation& c) {
  std::string out;
  for (const DeviceProgram& program : c.programs)
    for (const SourceFile& file : program.files) out += fmt::format("// ---- {}\n{}", file.name, file.text);
  return out;
}

}  // namespace

std::vector<int> hosts_of(const Cluster& cluster) {
  std::vector<int> out;
  for (const Device& device : cluster.devices) out.push_back(device.host);
  return out;
}

/// A device that another program fills is left with next to nothing: planning then says what does not fit.
Cluster given_cluster(const CompilationInput& c) {
  Cluster out = all_of_cluster(c);
  for (Device& device : out.devices)
    if (const auto taken = c.memory_taken.find(device.name); taken != c.memory_taken.end())
      device.memory_bytes = std::max(least_memory_bytes, device.memory_bytes - taken->second);
  return out;
}

double quiet_seconds(const Plan& plan) { return std::max(60.0, 10 * plan.prediction.step_seconds); }

SynthesisOptions planning_options(const CompilationInput& given) {
  SynthesisOptions out;
  out.effort = given.effort;
  out.time_limit_seconds = given.plan_seconds;
  out.drop_devices = !given.keep_devices;
  out.most_axes = given.mesh_axes;
  out.stages = given.stages;
  out.pins = given.pins;
  return out;
}

std::string verify_text(const Compilation& c) {
  std::string out = verification_text(c.verification, c.reference, c.plan.program);
  if (c.turns_verification) out += turns_verification_text(*c.turns_verification, text(c.turns));
  return out;
}

std::map<std::string, std::string> model_settings(const Compilation& c) {
  auto settings = c.model_options.settings();
  if (!c.plan_file.empty())
    for (const OptionValue& option : read_plan_options(c.plan_file)) settings.emplace(option.name, option.value);
  return settings;
}

const std::vector<Stage>& pipeline() {
  static const std::vector<Stage> stages = {
      {"load", "model file to code in memory", load, [](const Compilation& c) { return c.model_options.file + "\n"; }},
      {"trace", "the model's forward pass", trace, [](const Compilation& c) { return text(c.trace->program); }},
      {"differentiate", "the whole training step for one device", differentiate_model,
       [](const Compilation& c) { return text(c.reference); }},
      {"synthesize", "the SPMD program and the shares", synthesize_plan,
       [](const Compilation& c) { return text(c.plan.program, c.reference); }},
      {"verify", "proof that both compute the same", verify_plan, verify_text},
      {"generate", "source of every device", generate_programs, dump_source},
      {"check", "source held against the SPMD program", check_programs,
       [](const Compilation& c) { return source_check_text(c.source_check, c.reference); }},
  };
  return stages;
}

namespace {

/// What planning's strategies took, below the stage they belong to.
void print_strategies(const std::vector<StrategyRecord>& strategies) {
  for (const StrategyRecord& s : strategies) {
    std::string gain;
    if (s.improved > 0) gain = ", a better plan " + counted(s.improved, "time");
    if (s.gained > 0) gain += fmt::format(" (steps {} shorter)", seconds_text(s.gained));
    notice("  {:>10}  {}: {}, {}, {:.3g} million entries of cost tables{}\n", seconds_text(s.seconds), s.name,
           counted(s.runs, "run"), counted(s.searches, "search", "searches"), double(s.work) / 1e6, gain);
  }
}

}  // namespace

std::vector<StageTime> run_pipeline(Compilation& compilation, std::string_view last, const PipelineOutput& options) {
  std::vector<StageTime> times;
  const auto place = [](std::string_view name) { return std::ranges::find(pipeline(), name, &Stage::name); };
  HETSYNTH_CHECK(place(last) != pipeline().end(), "the stage is one of the list");
  for (const size_t end = size_t(place(last) - pipeline().begin()) + 1; compilation.stages_done < end;
       ++compilation.stages_done) {
    const Stage& stage = pipeline()[compilation.stages_done];
    auto start = std::chrono::steady_clock::now();
    stage.run(compilation);
    times.push_back({stage.name, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()});
    if (options.show_times)
      notice("{:<14} {:>10}  {}\n", stage.name, seconds_text(times.back().seconds), stage.purpose);
    if (options.show_times && stage.name == "synthesize") print_strategies(compilation.strategies);
    if (options.dump_after == stage.name) fmt::print("{}", stage.dump(compilation));
  }
  return times;
}

}  // namespace hetsynth
