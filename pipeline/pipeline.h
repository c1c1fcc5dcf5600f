// The pipeline on one page: a list of named stages, each timed, each dumpable with --dump-after=STAGE.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/interface/device_program.h"
#include "dsl/frontend/model.h"
#include "dsl/spmd/plan.h"
#include "dsl/transform/turns.h"
#include "pipeline/model_options.h"
#include "runtime/training/generated_check.h"
#include "synth/model/pins.h"
#include "synth/planner/synthesize.h"
#include "verify/verify.h"

namespace hetsynth {

struct Compilation;

/// What an invocation was given to work on.
struct CompilationInput {
  ModelOptions model_options;
  std::string cluster_file;              ///< empty: one device per core of this machine
  std::optional<Cluster> given_devices;  ///< instead of a file: a cluster that another program has at hand
  std::vector<std::string> without;      ///< hosts and devices of the cluster that are left out
  std::string plan_file;                 ///< empty: synthesize
  std::string plan_json;                 ///< the plan that another process of the run made; empty: none did
  bool keep_devices = false;             ///< plan for all devices, though fewer may be faster
  /// Bytes of a device's memory, by its name, that another program of the run takes.
  std::map<std::string, int64_t> memory_taken;
  int default_devices = 0;  ///< where no cluster is given; 0: one per core
  bool devices_of_plan =
      false;  ///< take the devices from the plan file instead of a cluster: enough to verify and to generate
  double verify_seconds = 60;
  /// A part of another program, to which standard error and signals belong: nothing is told but by results, and what
  /// `progress` says alone ends planning early.
  bool embedded = false;
  std::function<bool(const SynthesisProgress&)> progress;  ///< where embedded, as SynthesisOptions::progress
  std::optional<double> plan_seconds;  ///< none: until the effort is spent or the best plan is proven
  Effort effort = Effort::normal;      ///< how much work planning may do
  std::optional<int> stages;           ///< of a pipeline: 1 for none; not given: the planner chooses
  int mesh_axes = 2;                   ///< most axes of the meshes that are tried
  PlanPins pins;                       ///< what the user fixed of the plan
  int64_t verify_bytes = int64_t(4) << 30;
  bool marked = false;           ///< programs are generated with marks: steps are traced, or leave columns out
  int64_t check_work = 0;        ///< most evaluations of the check of source for a rank; 0: any number
  std::string certificate_file;  ///< check this certificate instead of searching for a proof
  /// Another program of the model, which runs in turn with this one on the same cpu devices and outlives it: where it
  /// keeps the same parts of the same tensors, this one is generated to lie in its memory. Null: there is none.
  const Compilation* memory_of = nullptr;
  /// What is planned of a traced model; none: its step of training, or its evaluation (dsl/transform/differentiate.h).
  std::function<Program(Trace&)> reference_of;
};

/// Everything that one invocation works on; stages fill it from top to bottom.
struct Compilation : CompilationInput {
  size_t stages_done = 0;
  std::shared_ptr<LoadedModel> model;
  std::unique_ptr<Trace> trace;  ///< until it is differentiated
  Program reference;
  TurnCount turns;                    ///< in which the reference takes the step
  std::optional<Program> whole_step;  ///< if these are several: the step in one
  Cluster cluster;                    ///< the devices the plan uses
  Cluster all_devices;                ///< those that it could use
  std::vector<std::string> left_out;  ///< devices of the given cluster that it does not
  Plan plan;
  std::vector<StrategyRecord> strategies;  ///< of planning, if it was searched
  Verification verification;
  std::optional<Verification> turns_verification;  ///< that the turns of a step are the step, if it has several
  std::vector<DeviceProgram> programs;             ///< one per rank
  bool in_its_memory = false;                      ///< they lie in the memory of the programs of `memory_of`
  GeneratedCheck source_check;
};

/// The number of each device's host.
std::vector<int> hosts_of(const Cluster& cluster);

/// The devices that a plan may use: those of the cluster file, or of this machine, that are not left out.
Cluster given_cluster(const CompilationInput& given);

/// Seconds of silence of a rank that are worth a word: a minute, or ten steps as planned. A busy machine is silent for
/// less.
double quiet_seconds(const Plan& plan);

/// What planning was asked for, on the devices that pay.
SynthesisOptions planning_options(const CompilationInput& given);

/// What the stage `verify` found.
std::string verify_text(const Compilation& compilation);

/// Settings of the model: the command line's, then those the plan file remembers.
std::map<std::string, std::string> model_settings(const Compilation& compilation);

struct Stage {
  std::string_view name;
  std::string_view purpose;
  void (*run)(Compilation&);
  std::string (*dump)(const Compilation&);  ///< the stage's result as text
};

/// load, trace, differentiate, synthesize, verify, generate, check. Compiling and executing follow in the runtime,
/// which owns the ranks.
const std::vector<Stage>& pipeline();

struct StageTime {
  std::string_view name;
  double seconds;
};

struct PipelineOutput {
  std::string dump_after;   ///< print this stage's result on stdout
  bool show_times = false;  ///< print seconds per stage on stderr
};

/// Runs the stages that are still to be done, up to and including `last`.
std::vector<StageTime> run_pipeline(Compilation& compilation, std::string_view last, const PipelineOutput& options);

}  // namespace hetsynth
