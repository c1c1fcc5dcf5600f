// The files whose weights a model starts with: a base, and adapters beside it.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "runtime/weights/initial_weights.h"

namespace hetsynth {

class WeightSources {
 public:
  /// `files`: as WeightFile takes them. `maps`: files of rules, one for each file, one for all of them, or none. Throws
  /// UserError as find_weights for each file, and (usage) for another number of rules.
  WeightSources(const Program& program, const std::vector<std::string>& files, const std::vector<std::string>& maps);

  /// What is taken of each file, and what keeps its starting value: "weights: 148 of 172 parameters from ...".
  std::string text() const;
  /// Throws UserError if one of the files was trained on tokens of another tokenizer than `found`, that of `what`, as
  /// far as both are known.
  void check_tokenizer(const TokenOrigin& found, const std::string& what) const;
  /// The fingerprints of all files, in their order.
  std::string fingerprint() const;
  /// Sets what is found, file by file: of two that have one parameter the later one counts. As take_weights.
  void take(Executor& executor);

 private:
  std::vector<std::unique_ptr<WeightFile>> files_;
  std::vector<InitialWeights> found_;
};

}  // namespace hetsynth
