// Ranks as threads with communicators, for tests of collectives.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "codegen/abi.h"
#include "runtime/rank_threads.h"
#include "runtime/run_state.h"
#include "runtime/shared_memory_communicator.h"

namespace hetsynth::testing {

inline Mesh mesh_of(std::vector<int> sizes) {
  Mesh mesh;
  for (size_t i = 0; i < sizes.size(); ++i) mesh.axes.push_back({"axis" + std::to_string(i), sizes[i]});
  return mesh;
}

inline std::vector<std::string> names(int ranks) {
  std::vector<std::string> out;
  for (int i = 0; i < ranks; ++i) out.push_back("dev" + std::to_string(i));
  return out;
}

class RankHarness {
 public:
  explicit RankHarness(Mesh mesh, std::vector<double> duties = {})
      : mesh_(std::move(mesh)), state_(names(mesh_.device_count())), threads_(state_, {1, false}) {
    if (duties.empty()) duties.assign(static_cast<size_t>(state_.ranks()), 1.0);
    communicators_ = shared_memory_communicators(mesh_, duties, state_);
  }

  const Mesh& mesh() const { return mesh_; }
  RunState& state() { return state_; }
  Communicator& communicator(int rank) { return *communicators_[static_cast<size_t>(rank)]; }

  /// Runs `body(rank, context)` on all ranks; throws as RankThreads::run does.
  void run(const std::function<void(int, HetsynthContext*)>& body) {
    threads_.run([&](int rank) {
      HetsynthContext context{};
      context.communicator = &communicator(rank);
      communicator(rank).begin_step();
      body(rank, &context);
      communicator(rank).end_step();
    });
  }

 private:
  Mesh mesh_;
  RunState state_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
  RankThreads threads_;
};

}  // namespace hetsynth::testing
