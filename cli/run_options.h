// What hetsynth run was asked for.
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/next_division.h"
#include "pipeline/pipeline.h"
#include "runtime/data/batch_source.h"
#include "runtime/training/train.h"

namespace hetsynth::cli {

/// What the loss is measured on beside the training data.
struct ValidationDataOptions {
  std::string data;     ///< file or folder, as --data takes them; empty: nothing is measured
  int64_t batches = 0;  ///< most for a measurement; 0: all of the data
  bool every_given = false;
};

struct RunOptions {
  const CLI::App* command = nullptr;  ///< whose options these are
  Compilation compilation;
  PipelineOutput pipeline;
  TrainOptions train;
  DataOptions data;
  ValidationDataOptions validation;
  std::string resume;                  ///< checkpoint to continue; empty: start anew
  std::vector<std::string> init_from;  ///< files or folders whose weights parameters start with
  std::vector<std::string> map;        ///< rules for their names and layouts; empty: those of the model
  bool new_data = false;               ///< continue it with other data, from their first sample
  bool other_tokenizer = false;        ///< take tokens of another tokenizer than the checkpoint's, or the validation's
  bool seed_given = false;
  bool unverified = false;
  std::string job;      ///< these options as a job file
  std::string program;  ///< hash of the traced model, before it is planned in turns
  BalanceMode balance = BalanceMode::off;
  std::vector<std::string> leave_out;  ///< "DEVICE=PART": what devices leave out by hand; empty: as speeds ask for
  bool profile = false;
  bool json = false;
  std::string trace;    ///< file for the measured timeline of a step; empty: none is measured
  double patience = 6;  ///< seconds after which a silent process counts as dead
  int64_t sample_bytes = 160;
  std::string prompt = "The ";
  double temperature = 0.8;
};

}  // namespace hetsynth::cli
