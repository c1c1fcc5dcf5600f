// Which tensors of a file are which parameters of a model: rules, as a file has them.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/weights/layout.h"

namespace hetsynth {

/// A rule for parameters whose names are alike. In both names {x} stands for any number, the same in both; those of the
/// layout's separate dimensions stand in the name of the file's tensor alone.
struct WeightRule {
  std::string parameter;  ///< "h{i}.attention.query.weight"
  std::string tensor;     ///< "h.{i}.attn.c_attn.weight"
  Layout layout;
  int line = 0;  ///< of the rules' file
};

/// A parameter's place in a file.
struct WeightPlace {
  std::string tensor;  ///< as the rules name it; where the layout has separate dimensions, a {x} is left for each
  const WeightRule* rule = nullptr;
};

class WeightMap {
 public:
  /// Names and layouts are the same in both.
  WeightMap() = default;
  /// Reads rules:
  ///
  ///     may_lack = ["transformer."]                                # beginnings that some files leave out
  ///     ignore = ["transformer.h.{i}.attn.bias", "lm_head.weight"] # tensors that the model does not want
  ///     copies = ["reference."]                                    # beginnings of parameters that start as others do
  ///     [tensors]
  ///     "wte" = "transformer.wte.weight"
  ///     "h{i}.attention.query.weight" = { from = "transformer.h.{i}.attn.c_attn.weight",
  ///                                       layout = "c h d -> c (3 h d)", part = 0 }
  ///
  /// Throws UserError naming file and line for what is no such rule.
  static WeightMap load(const std::string& path);

  /// The rule for a parameter; none if there is none. Of several the first counts.
  std::optional<WeightPlace> place_of(const std::string& parameter) const;
  /// Returns the parameter that this one is a copy of: what is left of its name behind one of the beginnings `copies`.
  /// Empty for a parameter that has a rule of its own or begins with none of them.
  std::string original_of(const std::string& parameter) const;
  /// The place of what a parameter starts as: its original's, or its own.
  std::optional<WeightPlace> start_of(const std::string& parameter) const;
  /// The names that a file may have a tensor under, as the rules write it first.
  std::vector<std::string> names_of(const std::string& tensor) const;
  /// Whether a tensor of the file is one that the model does not want.
  bool ignores(const std::string& tensor) const;
  bool is_identity() const { return rules_.empty(); }
  const std::vector<WeightRule>& rules() const { return rules_; }
  const std::string& file() const { return file_; }

 private:
  std::string file_;
  std::vector<std::string> may_lack_;
  std::vector<std::string> ignored_;
  std::vector<std::string> copies_;
  std::vector<WeightRule> rules_;
};

/// One of the tensors of a file that make a parameter.
struct PlacedTensor {
  std::string name;         ///< as the rules name it
  std::vector<int64_t> at;  ///< its index along the separate dimensions of the parameter
};

/// All of these, in row-major order of their indices: a single one where the layout has no separate dimensions.
std::vector<PlacedTensor> tensors_of(const WeightPlace& place, const Layout::Walk& walk);

/// The numbers that {x} stand for if `name` is as the pattern says; none if it is not. A name in braces that stands
/// twice stands for the same number.
std::optional<std::map<std::string, std::string>> match(const std::string& pattern, const std::string& name);
/// The pattern with numbers in place of the {x} that are known.
std::string filled_in(const std::string& pattern, const std::map<std::string, std::string>& numbers);

}  // namespace hetsynth
