// What hetsynth run --json tells: one object on standard output, when the run is over. What people are told meanwhile
// goes to standard error.
#pragma once
#include <string>

#include "cli/run_options.h"
#include "runtime/launch.h"

namespace hetsynth::cli {

/// While it lives, what is written to standard output goes to standard error.
class TextAside {
 public:
  /// `wanted`: false: nothing is changed.
  explicit TextAside(bool wanted);
  ~TextAside() { end(); }
  TextAside(const TextAside&) = delete;
  TextAside& operator=(const TextAside&) = delete;
  /// From now on standard output is what it was.
  void end();

 private:
  int output_ = -1;  ///< standard output as it was; -1: it is in its place
};

/// What else there is to tell of a run that is over.
struct RunFacts {
  LaunchReport launched;
  std::string data;    ///< which they were, in words
  std::string sample;  ///< text that was sampled, with its prompt; empty: none was
};

/// An object with what was planned and proved as `plan --json` and `verify --json` tell it, the losses and times of the
/// steps, devices, memory, validations as `--log-json` tells them, and the files that were written. Numbers that are
/// not finite are null.
std::string run_json(const RunOptions& options, const TrainReport& report, const RunFacts& facts);

}  // namespace hetsynth::cli
