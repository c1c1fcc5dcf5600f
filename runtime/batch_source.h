// Where a step's inputs come from: every rank asks for its own part of them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "dsl/ir/interpreter.h"
#include "dsl/ir/program.h"

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
};

struct DataOptions {
  /// File or folder, perhaps after the name of a format and a colon (docs/data.md). Empty or "synthetic": inputs that
  /// can be made up are.
  std::string path;
  uint64_t seed = 0;
};

/// The source that the program's inputs declare: text, the files that were named (runtime/data/dataset.h), or samples
/// made up (runtime/data/synthetic.h). Throws UserError if the data are missing, damaged, shorter than one sample, or
/// of another kind than the model asks for. Every epoch uses each sample of the files once. Which one is sample s of
/// the run is a keyed permutation of (seed, epoch), so the order depends on nothing else.
std::unique_ptr<BatchSource> open_data(const Program& program, const DataOptions& options);

/// All inputs of one step as the reference interpreter takes them.
Bindings whole_batch(const Program& program, const BatchSource& data, int64_t step);

}  // namespace hetsynth
