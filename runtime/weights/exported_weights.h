// Tensors of a checkpoint under the names, and in the layouts, of another program.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runtime/training/safetensors.h"
#include "runtime/weights/weight_map.h"

namespace hetsynth {

/// What is written: the reverse of what initial_weights reads by the same rules.
struct ExportedWeights {
  struct Part {
    std::string parameter;    ///< tensor of the checkpoint
    Layout::Walk walk;        ///< of it
    std::vector<int64_t> at;  ///< index of its separate dimensions
  };
  struct Exported {
    TensorEntry entry;
    std::vector<Part> parts;  ///< several where the layout joins them
  };
  std::vector<Exported> tensors;  ///< by name
  std::vector<std::string> left;  ///< tensors of the checkpoint that no rule names: states of optimizers, say
};

/// Names are as the rules write them. Throws UserError if no rule names a tensor of the checkpoint, or if
/// only some of the tensors are there that a layout joins.
ExportedWeights exported_weights(const SafetensorsFile& checkpoint, const WeightMap& map);

/// Puts together what is exported. A tensor of the checkpoint is read once, and held until all of its parts are used.
class ExportedValues {
 public:
  using Read = std::function<HostTensor(const std::string& name)>;
  /// `read` gives a tensor of the checkpoint. `weights` outlives it.
  ExportedValues(const ExportedWeights& weights, Read read);
  /// Throws what `read` throws. Once for each tensor.
  HostTensor value(const ExportedWeights::Exported& exported);

 private:
  Read read_;
  std::map<std::string, int> uses_;  ///< to come, by tensor of the checkpoint
  std::map<std::string, HostTensor> held_;
};

}  // namespace hetsynth
