#include "synth/planner/mesh_candidate.h"

#include <algorithm>
#include <iterator>

#include "dsl/base/error.h"
#include "synth/support/parameters.h"

namespace hetsynth::synth {
const Problem& MeshCandidate::problem() {
  if (!problem_) {
    problem_ = std::make_unique<Problem>(analysis_, *devices_, mesh_);
    problem_->constrain(*pins_);
    problem_->fills_memory = fills_memory_;
    problem_->cost.weigh_hidden(analysis_->may_hide, hidden_weight_);
  }
  return *problem_;
}

void MeshCandidate::learn(Picoseconds enough, const StopToken& stop) {
  HETSYNTH_CHECK(!relaxed(), "there is more to learn of a mesh");
  if (!relaxing_) relaxing_ = std::make_unique<MeshBound>(problem(), stop);
  const Picoseconds before = bound_;
  if (known_ < int(std::size(sweeps_to_know)) && worth_more_sweeps_) {
    bound_ = std::max(bound_, relaxing_->after(sweeps_to_know[known_]));
    worth_more_sweeps_ = double(bound_) > double(before) * (1 + worth_more_sweeps);
  } else {
    relaxation_ = relaxing_->relaxation(enough);
    relaxing_.reset();
    bound_ = std::max(bound_, relaxation_->bound);
    relaxation_->bound = bound_;
  }
  ++known_;
}

void keep_within(int64_t most_values, std::vector<MeshCandidate*> best_first) {
  for (MeshCandidate* candidate : best_first) {
    if (!candidate->relaxing_) continue;
    most_values -= candidate->relaxing_->value_count();
    if (most_values < 0) candidate->relaxing_.reset();
  }
}

}  // namespace hetsynth::synth
