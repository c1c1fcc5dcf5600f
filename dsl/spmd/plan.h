// The plan file: one JSON document with decisions (the SPMD program) apart from predictions.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dsl/cluster/cluster.h"
#include "dsl/spmd/spmd.h"

namespace hetsynth {

struct OutputKind;  // dsl/base/output_file.h

constexpr int plan_schema_version = 1;

struct DevicePrediction {
  std::string device;
  double share = 0;  ///< of the whole step's floating-point work
  double compute_seconds = 0;
  double communication_seconds = 0;
  double hidden_seconds = 0;  ///< of communication: beside computing
  double idle_seconds = 0;    ///< the rest of the step
  /// What the device computes, and what it communicates beside no computing.
  double busy_seconds() const { return compute_seconds + communication_seconds - hidden_seconds; }
  int64_t memory_bytes = 0;
  int64_t memory_limit_bytes = 0;
  /// Memory as a multiple of its limit; 0 without one.
  double fullness() const { return memory_limit_bytes > 0 ? double(memory_bytes) / double(memory_limit_bytes) : 0; }
};

struct BaselinePrediction {
  std::string name;         ///< "even data parallel"
  double step_seconds = 0;  ///< as it unfolds
  bool feasible = true;
  std::string note;
};

/// A mesh over some or all of the cluster's devices that planning considered, and what became of it: what a plan is to
/// be held against, and why devices were left out.
struct Trial {
  std::vector<int> mesh;     ///< sizes of its axes
  std::string devices;       ///< their names: "fast, slow", "gpu[0] .. gpu[15] (16 devices)"
  int device_count = 0;      ///< how many they are
  double bound_seconds = 0;  ///< what instructions of no plan on it add up to less than, at any shares; 0: not known
  double step_seconds = 0;   ///< of the plan found on it, as it unfolds; 0: none was
  // Sums over that plan's instructions, each as long as on its slowest device.
  double compute_seconds = 0, communication_seconds = 0;
  double hideable_seconds = 0;  ///< of communication: what may run beside computing
  double latency_seconds = 0;   ///< what would remain of communication if links had no limit to bandwidth
  std::string outcome;          ///< in words: "taken", "given up: its bound shows that it cannot win"
  double added_seconds() const { return compute_seconds + communication_seconds; }
  bool operator==(const Trial&) const = default;
};

/// A number of turns, and of stages, in which planning looked for a step (dsl/transform/turns.h). Of pipelines that
/// were not simulated the step is that of their schedule, part by part.
struct TurnTrial {
  std::string turns = "1";
  int stages = 1;           ///< of a pipeline
  int stage_devices = 0;    ///< of each of several stages
  double step_seconds = 0;  ///< of the plan found; 0: nothing fits
  // Of its busiest device: what it computes, and what it communicates beside no computing. The rest it waits.
  double compute_seconds = 0, communication_seconds = 0;
  /// Memory makes it slower: values are made twice, or fewer turns are under way than would be fastest.
  bool short_of_memory = false;
  bool taken = false;
  bool operator==(const TurnTrial&) const = default;
};

struct Prediction {
  /// As it unfolds (synth/schedule/timeline.h): the word of record.
  double step_seconds = 0;
  /// No step on the devices of the cluster is below: they compute all the time, each what suits it. 0: not known.
  double floor_seconds = 0;
  /// What the search minimised: all instructions one after the other, each as long as on its slowest device, where
  /// communication that may hide beside computing counts as this part of itself.
  double objective_seconds = 0;
  double hidden_weight = 1;
  /// Proven: no plan of the searched space has less of that at the plan's shares.
  double lower_bound_seconds = 0;
  /// Proven: nor has any on the same devices and mesh at any other shares. 0: not known.
  double shares_bound_seconds = 0;
  bool optimal = false;  ///< the search ended with the objective equal to the bound
  bool cut_short =
      false;  ///< a time limit or an interruption ended the search: other devices, meshes and shares are open
  std::vector<DevicePrediction> devices;
  std::vector<BaselinePrediction> baselines;
  std::vector<TurnTrial> turns;   ///< in the order of planning; empty: their number was no choice
  std::vector<Trial> considered;  ///< in the order of planning, the plan's own among them; empty: not searched for

  /// The plan's own; none if the plan was not searched for.
  const Trial* taken() const;
};

/// What generation needs to know of a device, kept in the plan so that a plan can be inspected without its cluster
/// file.
struct PlanDevice {
  std::string name;
  DeviceKind kind = DeviceKind::cpu;
  std::string model;
  std::string architecture;                     ///< cuda: "sm_70"
  std::optional<FusedProducts> epilogues = {};  ///< cuda: where the cluster file said which products may have them
  std::optional<AttentionBy> attention = {};    ///< cuda: where the cluster file said who computes attention
  bool operator==(const PlanDevice&) const = default;
};

struct Plan {
  std::string tool_version;
  std::string model_file, model_hash;
  std::vector<OptionValue>
      model_options;  ///< the options the model was traced with: the same ones are needed to trace it again
  std::string cluster_name, cluster_hash;
  std::vector<PlanDevice> devices;          ///< in rank order
  std::vector<std::vector<double>> ratios;  ///< per mesh axis: share per coordinate the tables were rounded from
  SpmdProgram program;
  Prediction prediction;
};

/// A plan with everything filled in that says what it is for: tool, model, options, cluster, devices. Decisions and
/// predictions are still empty.
Plan identify_plan(const Program& reference, const Cluster& cluster);
/// With the reference's hash_text, where it is known.
Plan identify_plan(const Program& reference, std::string model_hash, const Cluster& cluster);

/// The devices of a plan as a cluster without speeds and links: enough to generate source. Memory as predicted for; 0
/// if the plan predicts nothing.
Cluster cluster_of(const Plan& plan);

/// The program as a plan file stores it: values numbered in the order of their definition (leaves, then results),
/// fields that an opcode does not use at their defaults. Means the same.
SpmdProgram canonical(const SpmdProgram& program);

/// Pretty JSON with stable key order, one instruction per line (docs/plan.md). Values, nodes, tables and axes are
/// referred to by name. plan_from_json gives the same plan back, its program canonical.
std::string plan_to_json(const Plan& plan, const Program& reference);

/// Parses and checks everything that can be checked without proof: schema, types, names, hashes against `reference`,
/// references in range, tables monotone and covering, sizes bounded. Throws UserError with file, line and JSON path.
/// Never trusts counts. What the program computes is not checked here: that is the verifier's work, and a well-formed
/// wrong plan loads.
Plan plan_from_json(std::string_view json, const std::string& file, const Program& reference);

/// The options the plan's model was traced with, read without the model. Throws UserError as plan_from_json for what is
/// no plan.
std::vector<OptionValue> read_plan_options(const std::string& path);
/// Gives the options of a plan that another process sent, likewise; `file`: what messages call it.
std::vector<OptionValue> plan_options(std::string_view json, const std::string& file);

Plan load_plan(const std::string& path, const Program& reference);
/// Writes atomically (temporary file, then rename).
void save_plan(const std::string& path, const Plan& plan, const Program& reference);
extern const OutputKind plan_file_kind;

/// Throws UserError if the plan was made for another cluster.
void check_plan_cluster(const Plan& plan, const Cluster& cluster);

/// Names of the cluster's devices that the plan does not use, because they do not pay.
std::vector<std::string> left_out_devices(const Plan& plan, const Cluster& cluster);

}  // namespace hetsynth
