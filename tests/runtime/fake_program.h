// A hand-written "generated" program of two collectives, for tests of the executor and the training loop:
//   loss = mean of |x| over the batch (x cut over ranks); w[f, k] -= 0.1 * loss, m += 1 (both cut over ranks in
//   dimension 0, or whole).
#pragma once
#include <cmath>
#include <string>
#include <vector>

#include "runtime/executor.h"

namespace hetsynth::testing {

inline Node fake_leaf(NodeId id, NodeKind kind, std::string name, Shape shape, Initializer initializer) {
  Node node;
  node.id = id;
  node.kind = kind;
  node.name = std::move(name);
  node.type = {std::move(shape), DType::f32};
  node.initializer = initializer;
  return node;
}

constexpr int64_t fake_batch = 12, fake_features = 3, fake_rows = 7, fake_columns = 2;

/// Nodes: 0 x, 1 w, 2 m.
inline Program fake_reference() {
  Program program;
  Node x = fake_leaf(0, NodeKind::input, "x", {fake_batch, fake_features}, {});
  x.data.kind = DataSource::Kind::synthetic_normal;
  program.nodes = {x,
                   fake_leaf(1, NodeKind::parameter, "w", {fake_rows, fake_columns}, {Initializer::Kind::normal, 0.5}),
                   fake_leaf(2, NodeKind::state, "m", {fake_rows, fake_columns}, {})};
  return program;
}

struct FakeOptions {
  std::vector<int64_t> batch_bounds, row_bounds;  ///< one more entry than ranks
  bool cut_parameters = true;
  int64_t not_finite_at = -1;  ///< step whose loss is NaN
  int failing_rank = -1;       ///< throws in step 2
};

inline RankProgram fake_rank(const FakeOptions& options, int rank) {
  const auto r = static_cast<size_t>(rank);
  const Range batch{options.batch_bounds[r], options.batch_bounds[r + 1]};
  const Range rows =
      options.cut_parameters ? Range{options.row_bounds[r], options.row_bounds[r + 1]} : Range{0, fake_rows};
  const Range features{0, fake_features}, columns{0, fake_columns};
  const int64_t xs = (batch.hi - batch.lo) * fake_features, ws = (rows.hi - rows.lo) * fake_columns;
  RankProgram out;
  out.device.name = "dev" + std::to_string(rank);
  // Arena: x, w, m, own sum, loss; each on a cache line of its own.
  const auto aligned = [](int64_t elements) { return (elements * 4 + 63) / 64 * 64; };
  const int64_t w_at = aligned(xs), m_at = w_at + aligned(ws), sum_at = m_at + aligned(ws), loss_at = sum_at + 64;
  out.layout.rank = rank;
  out.layout.arena_bytes = loss_at + 64;
  out.layout.leaves = {{0, 0, 0, {batch, features}, DType::f32},
                       {1, 1, w_at, {rows, columns}, DType::f32},
                       {2, 2, m_at, {rows, columns}, DType::f32}};
  out.layout.loss = {0, 3, loss_at, {{0, 1}, {0, 1}}, DType::f32};
  out.step = [=](HetsynthContext* context) {
    const auto at = [&](int64_t offset) { return reinterpret_cast<float*>(context->arena + offset); };
    if (context->step == 2 && rank == options.failing_rank) throw std::runtime_error("disk on fire");
    float sum = context->step == options.not_finite_at ? NAN : 0.0f;
    for (int64_t i = 0; i < xs; ++i) sum += std::fabs(at(0)[i]);
    *at(sum_at) = sum / (fake_batch * fake_features);
    if (hetsynth_all_reduce(context, 1, 0, at(sum_at), at(loss_at), 1, 0, 0)) return 1;
    for (int64_t i = 0; i < ws; ++i) at(w_at)[i] -= 0.1f * *at(loss_at), at(m_at)[i] += 1;
    return 0;
  };
  return out;
}

inline Mesh fake_mesh(int ranks) { return Mesh{{{"dp", ranks}}}; }

inline std::unique_ptr<Executor> fake_executor(const FakeOptions& options, uint64_t seed = 5) {
  std::vector<RankProgram> programs;
  const int ranks = static_cast<int>(options.batch_bounds.size()) - 1;
  for (int rank = 0; rank < ranks; ++rank) programs.push_back(fake_rank(options, rank));
  ExecutorOptions executor_options;
  executor_options.seed = seed;
  auto executor = std::make_unique<Executor>(fake_reference(), fake_mesh(ranks), std::move(programs), executor_options);
  executor->initialise();
  return executor;
}

inline FakeOptions three_uneven_ranks() { return {{0, 5, 5, 12}, {0, 1, 4, 7}, true, -1, -1}; }

}  // namespace hetsynth::testing
