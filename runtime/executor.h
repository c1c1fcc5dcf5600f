// The stage `execute`: ranks with their memory and code, driven step by step.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "codegen/interface/device_program.h"
#include "dsl/spmd/migration.h"
#include "runtime/collectives/communicator.h"
#include "runtime/collectives/rank_device.h"
#include "runtime/data/batch_source.h"
#include "runtime/measured_step.h"
#include "runtime/processes/job.h"
#include "runtime/processes/message_communicator.h"
#include "runtime/rank/host_tensor.h"
#include "runtime/rank/rank_threads.h"

namespace hetsynth {

/// One rank, ready to run: where its tensors lie, and its compiled step.
struct RankProgram {
  Device device;
  DeviceProgram layout;
  StepFunction step;
  std::unique_ptr<RankDevice> runs_on = {};  ///< null: the cpu
};

struct StepReport {
  int64_t step = 0;
  double loss = 0;  ///< NaN if the program has none
  double seconds = 0;
  std::vector<RankTimes> ranks;  ///< of this step; idle_seconds includes waiting for the slowest rank at the end
  double elapsed_seconds = 0;    ///< since training began, with all that was done between steps; set by train()
  /// Scalars that the model tells beside the loss (`metric`), of the ranks of this process.
  std::vector<std::pair<std::string, double>> metrics = {};
  /// Part of the work of products with columns that all ranks together left out.
  double left_out() const;
};

class Executor;

struct ExecutorOptions {
  uint64_t seed = 0;
  ThreadOptions threads = {};
  /// Several processes: each has some of the ranks, and all of them call the same functions of their executors in the
  /// same order. Null: all ranks are here. Outlives the executor.
  Job* job = nullptr;
  ProcessOfRank process_of = {};  ///< where there is a job
  /// Steps are traced: the programs were generated with marks.
  bool traced = false;
  /// Ranks of cpu devices may leave columns out: the programs were generated with marks.
  bool may_leave_out = false;
  bool has_marks() const { return traced || may_leave_out; }
  /// Another executor of as many ranks, in whose memory these lie: the programs were generated for that
  /// (places_beside), and the executors run in turn. Null: they have memory of their own. Outlives the executor.
  Executor* in_memory_of = nullptr;
};

/// All ranks of a program in this process, or those of its ranks that are. Not thread-safe: one caller drives it.
class Executor {
 public:
  /// `programs`: of all ranks; for those of other processes only the device counts. Allocates every rank's arena.
  /// Throws UserError (exit code 1) if the machine or a device has not enough memory.
  Executor(const Program& reference, const Mesh& mesh, std::vector<RankProgram> programs,
           const ExecutorOptions& options);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// Parameters and states take their starting values: each rank draws its own part by global element index, so they
  /// are the same under any plan. `draws_parameters`: false where parameters are set before the first step, as from a
  /// checkpoint; to draw millions of numbers takes longer than to read them.
  void initialise(bool draws_parameters = true);
  /// Runs one step on all ranks. Where several executors share a job, the one whose step it is hears of the failure of
  /// other processes. Throws RunFailed naming the rank that failed first, or the UserError it met. After a
  /// failure the executor is only good for reading tensors.
  StepReport step(int64_t step, const BatchSource& data);
  /// Where steps are traced, one of the last ones; nothing before the first. All processes call it alike.
  std::optional<MeasuredStep> measured_step() const;
  /// As `step`, and what each rank of this process spent its time on; nothing for cpu devices.
  std::vector<std::vector<TimedWork>> profile(int64_t step, const BatchSource& data);

  /// From the next step on ranks leave out these parts of the columns of their products (runtime/rank/left_out.h), by
  /// rank; where options say that they may. Of several processes all call it alike.
  void leave_out(std::vector<double> parts);
  /// Those of the next step; all 0 for ranks that have just taken over.
  const std::vector<double>& left_out() const;

  /// Other ranks take over between two steps: those of another program of the same reference, with what these hold of
  /// parameters and states, moved as `migration` says. It has no flaw (verify/migration.h). New ranks have memory of
  /// their own, and the ranks that were there before the first of several changes stay as they are, until `stay`. Of
  /// several processes all call it alike. Throws UserError, in all of them, if the memory of some process is too small
  /// for all; then nothing has changed. `options`: with the same job and seed.
  void go_over(const Mesh& mesh, std::vector<RankProgram> programs, const Migration& migration,
               const ExecutorOptions& options);
  /// The ranks that others took over from are given up.
  void stay();
  /// They are the ranks again, with all that they held when the first others took over.
  void go_back();

  /// Parameters and states become what they are in the ranks of `from`, whose reference may be another program of the
  /// same model: tensors go by their names. `migration` is between both programs, in terms of this executor's reference
  /// (renumbered in dsl/spmd/migration.h). Of several processes all call it alike, with the same job.
  void take_from(const Executor& from, const Migration& migration);

  /// The whole of a parameter, state, input or named output, put together from the ranks.
  HostTensor read(NodeId node) const;
  /// The whole of a named output. If it is a parameter or a state, `read` gives what the last step made of it; this is
  /// what it was in the step.
  HostTensor read_output(NodeId node) const;
  /// Hands every rank its part. Throws UserError if shape or element type differ.
  void write(NodeId node, const HostTensor& value);

  const Program& reference() const;
  int ranks() const;
  const std::vector<std::string>& device_names() const;
  /// Whether this process reports and writes files: the only one, or the first.
  bool leads() const;
  /// Whether it is so in any process.
  bool anywhere(bool here) const;
  /// Per rank.
  std::vector<int64_t> arena_bytes() const;
  uint64_t seed() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_, left_;  ///< the ranks, and those to go back to
};

/// Copies parameters and states by name into an executor of another program over the same model.
void copy_parameters(const Executor& from, Executor& to);

}  // namespace hetsynth
