// Adapters that are added to the weights they adapt: W + scale A B, as the table [merge] of rules says.
#pragma once
#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "runtime/training/safetensors.h"
#include "runtime/weights/named_product.h"
#include "runtime/weights/weight_map.h"

namespace hetsynth {

/// What is added to parameters whose names are alike: a product of two tensors times a number.
struct MergeRule {
  std::string parameter;    ///< "h{i}.attention.query.weight"
  std::string left, right;  ///< the factors; all names are those of the model
  NamedProduct product;
  std::variant<double, std::string> scale;  ///< a number, or the tensor of one element that has it
  int line = 0;                             ///< of the rules' file
};

class MergeRules {
 public:
  /// Reads the table of a file of rules (docs/weights.md):
  ///
  ///     [merge]
  ///     "h{i}.query" = { left = "h{i}.lora_a", right = "h{i}.query.lora_b", product = "c r, r h d -> c h d", scale = 2
  ///     }
  ///
  /// A list of these adds several products. Throws UserError naming file and line for what is no such rule, and if
  /// the file has no such table.
  static MergeRules load(const std::string& path);

  const std::vector<MergeRule>& rules() const { return rules_; }
  const std::string& file() const { return file_; }

 private:
  std::string file_;
  std::vector<MergeRule> rules_;
};

/// The tensors of a checkpoint with what the rules add to them.
class MergedWeights {
 public:
  /// Throws UserError if a parameter has one factor and not the other, if shapes do not multiply, if an adapter is
  /// added to nothing, if the rules fit no tensor, or if one of them names a parameter that is not there. A parameter
  /// without any of its factors stays as it is. `rules` outlives it.
  MergedWeights(const MergeRules& rules, const SafetensorsFile& checkpoint);
  /// Throws UserError if a parameter that something is added to is none that the map names: it would be lost. And if a
  /// rule has no factors anywhere, while the checkpoint has two tensors that neither the map nor a rule nor the
  /// optimizer has a use for and that multiply to its parameter.
  void check_named(const WeightMap& map, const SafetensorsFile& checkpoint) const;

  /// How many parameters have something added.
  int64_t parameters() const { return int64_t(terms_.size()); }
  /// Whether a tensor is part of others now.
  bool uses(const std::string& tensor) const { return used_.contains(tensor); }
  /// A tensor of the checkpoint. Products and sums are taken in double precision and rounded to float32 once. Throws
  /// UserError as SafetensorsFile::read, and if a sum is not finite.
  HostTensor read(SafetensorsFile& checkpoint, const std::string& name) const;

 private:
  struct Term {
    const MergeRule* rule;
    std::string left, right, scale;  ///< scale: empty if the rule has the number
  };
  void add_rule(const MergeRule& rule, const SafetensorsFile& checkpoint);
  void check_all_used(const SafetensorsFile& checkpoint) const;
  void check_weights_are_there(const SafetensorsFile& checkpoint) const;
  void check_factors(const WeightMap& map, const SafetensorsFile& checkpoint) const;

  const MergeRules& rules_;
  std::map<std::string, std::vector<Term>> terms_;  ///< by parameter
  std::set<std::string> used_;                      ///< tensors that are part of others
};

}  // namespace hetsynth
