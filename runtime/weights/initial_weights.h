// Parameters that start with what another program has trained.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "runtime/executor.h"
#include "runtime/weights/weight_file.h"
#include "runtime/weights/weight_map.h"

namespace hetsynth {

/// What is taken from a file for a model.
struct InitialWeights {
  struct Taken {
    NodeId parameter = -1;
    std::vector<PlacedTensor> tensors;  ///< under the names that the file has
    Layout::Walk walk;
  };
  std::vector<Taken> taken;          ///< in the order of the model
  int64_t parameters = 0;            ///< of the model
  std::vector<std::string> missing;  ///< parameters that keep their starting values
  /// The parameters of the model that the rules call copies, each with the one whose start it takes.
  std::map<std::string, std::string> copies;
  std::vector<std::string> left;  ///< tensors of the file that nobody wants, but for those that the rules ignore
};

/// Looks up every parameter of the program. Throws UserError, before anything is read, if a tensor has another shape
/// than its parameter wants (neighbouring dimensions of the file may be one of the model), if a parameter finds some of
/// its tensors and not all, or if no parameter finds any.
InitialWeights find_weights(const Program& program, const WeightFile& file, const WeightMap& map);

/// "weights: 148 of 148 parameters from model.safetensors, 149 tensors; ...": what is taken, and in further lines what
/// keeps its starting value and what of the file is left.
std::string text(const InitialWeights& weights, const WeightFile& file);

/// Sets the parameters that are found; of all other tensors nothing changes. Throws UserError if a tensor cannot be
/// read or holds a number that is not finite. Of several processes all call it alike.
void take_weights(const InitialWeights& weights, WeightFile& file, Executor& executor);

}  // namespace hetsynth
