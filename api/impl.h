// What the handles of hetsynth/api.h stand for.
#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "hetsynth/api.h"
#include "pipeline/failure.h"
#include "pipeline/pipeline.h"
#include "runtime/rank/run_state.h"

namespace hetsynth::api {

/// A model that is traced and differentiated: mistakes in it are found where it is made.
struct Model::Impl {
  ModelOptions options;
  std::shared_ptr<LoadedModel> model;
  Program reference;
  TurnCount turns;
  std::optional<Program> whole_step;
};

struct Cluster::Impl {
  hetsynth::Cluster cluster;
};

/// Stages are done when they are asked for.
struct Plan::Impl {
  std::mutex mutex;  ///< handles of one plan may lie with several threads
  Compilation compilation;
  bool proved() const { return compilation.verification.verdict == Verdict::proved; }
};

/// Runs `work`, whose errors leave as those of the interface. What a model of the program throws leaves as it is.
template <class Work>
auto with_own_errors(const Work& work) {
  const auto refuse = [](const std::exception& error) {
    const Failure failure = failure_of(error);
    throw Error(failure.text, static_cast<int>(failure.code));
  };
  try {
    return work();
  } catch (const UserError& error) {
    refuse(error);
    throw;
  } catch (const RunFailed& error) {
    refuse(error);
    throw;
  } catch (const InternalError& error) {
    refuse(error);
    throw;
  }
}

/// An input as the program hands it over: all samples of a step one behind the other.
struct StepInput {
  Node node;  ///< of the first micro-batch, with the shape of the whole step
  int64_t samples = 0;
  int64_t elements = 0;  ///< of all samples
};
std::vector<StepInput> step_inputs(const Program& reference);

TensorInfo info_of(const std::string& name, const TensorType& type);

}  // namespace hetsynth::api
