// What the rules of a GGUF file say of the model besides its tensors: the table [gguf].
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/training/safetensors.h"
#include "runtime/weights/gguf.h"
#include "runtime/weights/weight_map.h"

namespace hetsynth {

/// One entry, and where its value comes from.
struct GgufRule {
  enum class Source {
    value,   ///< the rules
    extent,  ///< of dimension `dim` of the checkpoint's tensor `name`
    count,   ///< how many tensors of the checkpoint are called as the pattern `name` says
    given    ///< whoever exports: `name` says what it is
  };
  std::string key;
  Source source = Source::value;
  GgufValue value;  ///< Source::value; of what is given, one of its type
  std::string name;
  int64_t dim = 0;
  int line = 0;  ///< of the rules' file
};

class GgufRules {
 public:
  /// Reads the table of a file of rules (docs/weights.md):
  ///
  ///     [gguf]
  ///     "general.architecture" = "llama"
  ///     "llama.block_count" = { count = "layer{i}.norm1" }
  ///     "llama.embedding_length" = { extent = "tokens", dim = 1 }
  ///     "llama.context_length" = { given = "tokens in a window of its training", type = "integer" }
  ///
  /// None if it has no such table. Throws UserError naming file and line for what is no such rule.
  static std::optional<GgufRules> load(const std::string& path);

  /// The entries for a checkpoint. `given`: values by key, as written ("10000"); they take the place of what the rules
  /// say, and keys of which the rules say nothing are text. Throws UserError for what is given and no number where one
  /// is asked for, for what is not given, and for a checkpoint that lacks a tensor.
  GgufEntries entries(const SafetensorsFile& checkpoint, const std::map<std::string, std::string>& given) const;

  /// That the checkpoint has a tensor for every rule of the map, and of those that are numbered one for each block;
  /// only the `optional` ones may be left out. A reader of the file would find out later. Throws UserError.
  void check_complete(const SafetensorsFile& checkpoint, const WeightMap& map) const;

 private:
  GgufValue value_of(const GgufRule& rule, const SafetensorsFile& checkpoint,
                     const std::map<std::string, std::string>& given) const;
  GgufValue given_value(const GgufRule& rule, const std::string& text) const;

  std::string file_;
  std::vector<GgufRule> rules_;
  std::vector<std::string> optional_;  ///< parameters that a model may not have
};

}  // namespace hetsynth
