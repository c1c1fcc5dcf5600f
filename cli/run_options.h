// What hetsynth run was asked for.
#pragma once
#include <string>

#include "cli/next_division.h"
#include "cli/pipeline.h"
#include "runtime/data/batch_source.h"
#include "runtime/training/train.h"

namespace hetsynth::cli {

struct RunOptions {
  Compilation compilation;
  PipelineOptions pipeline;
  TrainOptions train;
  DataOptions data;
  std::string resume;     ///< checkpoint to continue; empty: start anew
  bool new_data = false;  ///< continue it with other data, from their first sample
  bool seed_given = false;
  bool unverified = false;
  BalanceMode balance = BalanceMode::off;
  bool profile = false;
  double patience = 6;  ///< seconds after which a silent process counts as dead
  int64_t sample_bytes = 160;
  std::string prompt = "The ";
  double temperature = 0.8;
};

}  // namespace hetsynth::cli
