// What is asked of a model beside its file.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace hetsynth {

/// Options that decide which program a model file stands for.
struct ModelOptions {
  std::string file;
  std::vector<std::string> set;          ///< "name=value"
  std::optional<int64_t> batch;          ///< --batch N is --set batch=N
  std::optional<int64_t> accumulate;     ///< --accumulate N is --set micro_batches=N
  std::optional<std::string> turns;      ///< --turns N is --set turns=N
  std::optional<std::string> freeze;     ///< --freeze PATTERN is --set freeze=PATTERN
  bool gradient_norm = false;            ///< --gradient-norm is --set gradient_norm=1
  std::optional<std::string> precision;  ///< --precision TYPE is --set precision=TYPE

  /// The settings as a map. Throws UserError (usage) for an entry without "=".
  std::map<std::string, std::string> settings() const;
};

}  // namespace hetsynth
