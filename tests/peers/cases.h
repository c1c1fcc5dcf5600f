// Functions of the DSL beside the same in PyTorch.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "dsl/include/hetsynth/tensor.h"
#include "dsl/ir/type.h"

namespace hetsynth::peers {

struct Argument {
  Shape shape;
  int64_t classes = 0;  ///< > 0: int32 in [0, classes); else float32
  double low = -2, high = 2;
};

struct Case {
  std::string name;  ///< of the operator, as in the list; a word behind it tells cases of one operator apart
  std::vector<Argument> arguments;
  std::function<Tensor(const std::vector<Tensor>&)> build;
  std::string torch;  ///< Python: the arguments are x0, x1, ...; F is torch.nn.functional
};

const std::vector<Case>& cases();

/// An optimizer, on the loss of one parameter [3, 4] that compare.py minimises too.
struct OptimizerCase {
  std::string name;
  std::function<void(Tensor loss)> minimize;
  std::string torch;  ///< Python: the optimizer of the parameters `p`, and what is done to their gradients before
  double clip_norm = 0;
  std::string schedule = {};  ///< Python: the factor of the learning rate by the number of the step; "" is always 1
};
const std::vector<OptimizerCase>& optimizer_cases();

}  // namespace hetsynth::peers
