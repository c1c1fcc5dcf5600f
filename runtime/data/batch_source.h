// Where a step's inputs come from: every rank asks for its own part of them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "dsl/ir/interpreter.h"
#include "dsl/ir/program.h"
#include "runtime/token_files/token_origin.h"

namespace hetsynth {

/// Values of a program's inputs, a pure function of (input, element, step): the same whatever the plan, the rank, or
/// the order of asking.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  /// Writes the part `ranges` of `input` as it is in `step`, dense and row-major, of the input's element type. Called
  /// by several threads at once. Throws UserError if the data cannot be read any more.
  virtual void fill(const Node& input, std::span<const Range> ranges, int64_t step, std::span<std::byte> out) const = 0;
  /// "text of 3 files, 74.2 KiB".
  virtual std::string description() const = 0;
  /// The run's number of the input's first sample in a step.
  virtual int64_t first_sample(const Node& input, int64_t step) const { return global_sample(input, step, 0); }
  /// How many samples of the input are there, of which every epoch uses each once; 0: they are made up, without an end.
  virtual int64_t samples_of_epoch(const Node& /*input*/) const { return 0; }
  /// What tells these data from others: the same wherever they lie. Of large data some samples are looked at.
  virtual std::string fingerprint() const { return ""; }
  /// Which tokenizer made the tokens, if they are tokens and that is known.
  virtual TokenOrigin origin() const { return {}; }
};

struct DataOptions {
  /// File, folder or pattern of files, perhaps after the name of a format and a colon (docs/data.md). Empty or
  /// "synthetic": inputs that can be made up are.
  std::string path;
  uint64_t seed = 0;
  /// A run that goes on: its first step, and how many samples of the first input it has seen. Steps of another size
  /// before (of another batch) then leave out no sample and repeat none.
  int64_t first_step = 0;
  int64_t seen_samples = 0;
};

/// How many steps use no sample twice: whole batches of the data's samples; none if all inputs are made up.
std::optional<int64_t> steps_of_epoch(const Program& program, const BatchSource& data);

/// How many samples of the program's first input come before a step; 0 if it has no input.
int64_t samples_before(const Program& program, const BatchSource& data, int64_t step);

/// The source that the program's inputs declare: text, the files that were named (runtime/data/dataset.h), or samples
/// made up (runtime/data/synthetic.h). Throws UserError if the data are missing, damaged, shorter than one sample, or
/// of another kind than the model asks for. Every epoch uses each sample of the files once. Which one is sample s of
/// the run is a keyed permutation of (seed, epoch), so the order depends on nothing else.
std::unique_ptr<BatchSource> open_data(const Program& program, const DataOptions& options);

/// All inputs of one step as the reference interpreter takes them.
Bindings whole_batch(const Program& program, const BatchSource& data, int64_t step);

}  // namespace hetsynth
