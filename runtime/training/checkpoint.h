// Checkpoints: parameters and optimizer states as whole tensors, so that they load under any plan, on any cluster.
#pragma once
#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "dsl/base/output_file.h"
#include "runtime/executor.h"

namespace hetsynth {

/// What a training left out of its products (runtime/rank/left_out.h), in all of its steps so far.
struct LeftOutSteps {
  int64_t steps = 0;  ///< in which some device left something out
  double work = 0;    ///< the sum over these of the part of the products' work that was left out
  bool operator==(const LeftOutSteps&) const = default;
};
/// "120 steps, in all the work of 15.3"; only where there are some.
std::string text(const LeftOutSteps& left_out);

/// Where a training stands.
struct CheckpointInfo {
  int64_t next_step = 0;
  uint64_t seed = 0;
  /// Samples of the model's first input that the run has seen; none: a checkpoint of a version that did not count them.
  std::optional<int64_t> samples = {};
  std::string data = {};                       ///< what they were, in words
  std::string data_fingerprint = {};           ///< BatchSource::fingerprint; empty: not known
  std::string plan = {};                       ///< that the last step was taken under, in words; empty: not known
  std::optional<double> validation_loss = {};  ///< of these parameters, if it was measured
  TokenOrigin tokenizer = {};                  ///< that made the tokens it was trained on, if that is known
  LeftOutSteps left_out = {};                  ///< training was lossy if there are any
  bool operator==(const CheckpointInfo&) const = default;
};

/// Steps and samples of a run are counted up to here.
constexpr int64_t largest_step = int64_t{1} << 48;

extern const OutputKind checkpoint_kind;
/// The name under which the checkpoint before is kept.
std::string previous_checkpoint(const std::string& path);

/// Throws UserError unless a checkpoint of the program can be written at `path`, as far as that can be known: the
/// folder is there and can be written, what stands there (if anything) is a checkpoint, the disk has room for as many
/// files as there are at once where `saves` of them are written (the newest, the one before, and the one that is being
/// written), and every name can be stored. Changes nothing.
void check_checkpoint_target(const std::string& path, const Program& program, int64_t saves = 1);

/// Writes all parameters and states, and where the training stands (with the executor's seed), as one safetensors file.
/// It takes the place of the one before when it is whole, which is kept as previous_checkpoint. Throws UserError
/// (ExitCode::failure) if the system refuses, or if a tensor holds a number that is not finite; then what was there is
/// as it was.
void save_checkpoint(const std::string& path, const Executor& executor, const CheckpointInfo& info);

/// Where a checkpoint continues. Throws UserError naming the file if it is missing, damaged (as far as its header
/// shows) or no checkpoint.
CheckpointInfo read_checkpoint_info(const std::string& path);

/// The same, for a program: throws UserError too if it lacks a tensor of the program, has one of another shape, or one
/// that the program has not.
CheckpointInfo check_checkpoint(const std::string& path, const Program& program);

/// Throws UserError if these are not the data that the checkpoint at `path` was trained on, as far as it says which.
void check_data_of(const std::string& path, const CheckpointInfo& info, const BatchSource& data);

/// Throws UserError if tokens of `found` are not those that the checkpoint at `path` was trained on, as far as both are
/// known. `what`: which tokens these are, "the data".
void check_tokenizer_of(const std::string& path, const TokenOrigin& trained_on, const TokenOrigin& found,
                        const std::string& what);
/// What the metadata of a checkpoint say of it.
TokenOrigin tokenizer_in(const std::map<std::string, std::string>& metadata);

/// Reads everything and checks it: checksums, and that all numbers are finite. Throws as load_checkpoint.
CheckpointInfo check_checkpoint(const std::string& path);

/// What tells a checkpoint from others: a hash of its header, which has a checksum of every tensor.
std::string checkpoint_fingerprint(const std::string& path);

/// Sets the parameters and states of a program that is evaluated: what else the file has, as the state of an optimizer,
/// is passed over, and so are states of the program that no training has (`own`). Throws UserError as load_checkpoint,
/// and if the file lacks a tensor of the program.
CheckpointInfo load_for_evaluation(const std::string& path, Executor& executor, const std::set<NodeId>& own = {});

/// Throws UserError if load_for_evaluation would for what the file's header says.
CheckpointInfo check_for_evaluation(const std::string& path, const Program& program, const std::set<NodeId>& own = {});

/// Sets all parameters and states. What check_checkpoint looks at is checked before the first is set, checksums and
/// numbers that are not finite as each is read; a UserError leaves the executor good for nothing.
CheckpointInfo load_checkpoint(const std::string& path, Executor& executor);

}  // namespace hetsynth
