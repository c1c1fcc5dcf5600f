// Samples that files hold.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dsl/ir/program.h"
#include "runtime/token_files/token_origin.h"

namespace hetsynth {

/// A sample of a data set in an epoch. The order in which the samples of an epoch come is not the data set's matter.
struct SampleId {
  int64_t index = 0;
  uint64_t epoch_key = 0;  ///< random, one per epoch and run
};

/// Something in which all parts of a data set have to agree: {"type of input x", "float32"}. Without a value it is not
/// known, and agrees with any.
struct DataTrait {
  std::string what, value;
  std::string shown = {};  ///< in messages; empty: the value
};

/// The trait of tokens that one tokenizer made.
inline DataTrait tokenizer_trait(const TokenOrigin& origin) {
  return {"tokenizer that made the tokens", origin.fingerprint, text(origin)};
}

/// Data of one format, opened and found to fit the inputs that it is asked for. Const members may be called by several
/// threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;
  /// How many samples an epoch has for the input: at least 1, but for a part of a data set.
  virtual int64_t samples(const Node& input) const = 0;
  /// Elements [inside, inside + count) of the input's part of a sample, 4 bytes each. Throws UserError naming file and
  /// place for values that the model cannot take: not finite, or outside of [0, classes).
  virtual void read(const Node& input, SampleId sample, int64_t inside, int64_t count,
                    std::span<std::byte> out) const = 0;
  /// "IDX images, 60000 samples".
  virtual std::string description() const = 0;
  /// Which tokenizer made the tokens, if they are tokens and that is known.
  virtual TokenOrigin origin() const { return {}; }
  /// What other parts of the same data set have, too: the same traits in the same order.
  virtual std::vector<DataTrait> traits() const { return {}; }
};

/// Elements that an input has of each of its samples.
inline int64_t elements_of_sample(const Node& input) { return element_count(input.type.shape) / sample_count(input); }

/// Inputs of a program that are read from files, in program order.
std::vector<const Node*> file_inputs(const Program& program);

/// Opens what the user named: a file, a folder, or a pattern of the shell ("train-*.csv") whose files are the parts of
/// one set, in the order of their names. `path` may begin with the name of a format ("cifar10:folder"); otherwise the
/// format is found from the files. Throws UserError if the data do not exist, their format is not known or does not
/// hold what the inputs ask for, or the files are damaged.
std::unique_ptr<Dataset> open_dataset(const Program& program, const std::string& path);

/// Opens data for inputs that read text whatever else the model asks for (text_batch, text_next_byte). No name of a
/// format but `text` may stand before the path. Throws as open_dataset does.
std::unique_ptr<Dataset> open_text_data(const std::vector<const Node*>& inputs, const std::string& path);

}  // namespace hetsynth
