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
  std::string path;  ///< a text file, or a folder of them; needed by text inputs only
  uint64_t seed = 0;
};

/// The source that the program's inputs declare. Throws UserError if the data are missing, unreadable, or shorter than
/// one sample.
///  - Text: the bytes of a file, or of all regular files below a folder in the order of their paths, one after the
///  other. An epoch is cut into
///    windows of the inputs' length; which window is sample s of the run is a keyed permutation of (seed, epoch), so
///    the order depends on nothing else.
///  - Synthetic: Philox of (seed, input name, sample, feature).
std::unique_ptr<BatchSource> open_data(const Program& program, const DataOptions& options);

/// All inputs of one step as the reference interpreter takes them.
Bindings whole_batch(const Program& program, const BatchSource& data, int64_t step);

}  // namespace hetsynth
