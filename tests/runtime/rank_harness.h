// Ranks as threads with communicators, for tests of collectives.
#pragma once
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "codegen/interface/abi.h"
#include "runtime/collectives/shared_memory_communicator.h"
#include "runtime/processes/message_communicator.h"
#include "runtime/rank/rank_threads.h"
#include "runtime/rank/run_state.h"
#include "tests/support/process_double.h"

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

/// How the ranks of a harness exchange data.
enum class Transport { shared_memory, messages };

inline void PrintTo(Transport transport, std::ostream* out) {
  *out << (transport == Transport::messages ? "Messages" : "SharedMemory");
}

/// Ranks that are a process each.
class ProcessHarness {
 public:
  explicit ProcessHarness(const Mesh& mesh, const std::vector<std::string>& hosts = {})
      : network_(hosts.empty() ? std::vector<std::string>(size_t(mesh.device_count()), "here") : hosts),
        jobs_(size_t(mesh.device_count())),
        states_(jobs_.size()),
        communicators_(jobs_.size()) {
    std::vector<int> process_of(jobs_.size());
    std::iota(process_of.begin(), process_of.end(), 0);
    each([&](int rank) {
      const auto r = size_t(rank);
      jobs_[r] = std::make_unique<Job>(network_.process(rank));
      states_[r] = std::make_unique<RunState>(names(mesh.device_count()));
      const std::vector<double> duties(jobs_.size(), 1.0);
      communicators_[r] = std::move(message_communicators(mesh, duties, *states_[r], {}, *jobs_[r], process_of)[r]);
    });
  }
  ~ProcessHarness() {
    each([&](int rank) { jobs_[size_t(rank)].reset(); });
  }

  Communicator& communicator(int rank) { return *communicators_[size_t(rank)]; }
  RunState& state(int rank) { return *states_[size_t(rank)]; }
  testing_support::DoubleProcesses& network() { return network_; }
  /// Runs `body(rank)` on all ranks at the same time.
  void each(const std::function<void(int)>& body) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < int(jobs_.size()); ++rank) threads.emplace_back([&body, rank] { body(rank); });
    for (std::thread& thread : threads) thread.join();
  }

 private:
  testing_support::DoubleProcesses network_;
  std::vector<std::unique_ptr<Job>> jobs_;
  std::vector<std::unique_ptr<RunState>> states_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
};

class RankHarness {
 public:
  RankHarness(Mesh mesh, Transport transport) : RankHarness(std::move(mesh)) {
    if (transport == Transport::messages) processes_ = std::make_unique<ProcessHarness>(mesh_);
  }
  explicit RankHarness(Mesh mesh, std::vector<double> duties = {})
      : mesh_(std::move(mesh)), state_(names(mesh_.device_count())), threads_(state_, {1, false}) {
    if (duties.empty()) duties.assign(static_cast<size_t>(state_.ranks()), 1.0);
    communicators_ = shared_memory_communicators(mesh_, duties, state_);
  }

  const Mesh& mesh() const { return mesh_; }
  RunState& state() { return state_; }
  Communicator& communicator(int rank) {
    return processes_ ? processes_->communicator(rank) : *communicators_[static_cast<size_t>(rank)];
  }

  /// Transport::messages: what became of a rank's process.
  RunState& state_of_process(int rank) { return processes_->state(rank); }
  std::string failure_of_process(int rank) {
    const auto failure = state_of_process(rank).failure();
    return failure ? failure->message : "";
  }

  /// Runs `body(rank, context)` on all ranks; throws as RankThreads::run does.
  void run(const std::function<void(int, HetsynthContext*)>& body) {
    const auto work = [&](int rank) {
      HetsynthContext context{};
      context.communicator = &communicator(rank);
      communicator(rank).begin_step();
      body(rank, &context);
      communicator(rank).end_step();
    };
    if (processes_)
      processes_->each(work);
    else
      threads_.run(work);
  }

 private:
  Mesh mesh_;
  RunState state_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
  RankThreads threads_;
  std::unique_ptr<ProcessHarness> processes_;  ///< Transport::messages
};

}  // namespace hetsynth::testing
