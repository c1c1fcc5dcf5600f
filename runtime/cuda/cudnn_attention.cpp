#include "runtime/cuda/cudnn_attention.h"

#include <fmt/format.h>

#include <limits>
#include <vector>

namespace hetsynth::cuda {
namespace {

/// What the tensors of a graph are called by.
enum Number : int64_t {
  number_q = 1,
  number_k,
  number_v,
  number_o,
  number_statistics,
  number_o_gradient,
  number_q_gradient,
  number_k_gradient,
  number_v_gradient,
  number_scale,
  number_hidden,
  number_one,
  number_sums,
  number_sum_of_queries_gradient,
};

constexpr int64_t alignment = 256;
int64_t aligned(int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

/// cuDNN puts this in place of what a mask hides (since 9.10).
constexpr float hidden_score = -std::numeric_limits<float>::infinity();

class Builder {
 public:
  Builder(const Cudnn& library, const AttentionShape& shape) : s_(shape), out_{CudnnGraph(library)}, g_(out_.graph) {}

  AttentionGraph forward() {
    const Tensor q = by_queries(number_q, s_.q, s_.features), k = keys_transposed(number_k, s_.k, s_.features);
    const Tensor v = by_keys(number_v, s_.v, s_.value_features);
    const Tensor o = by_queries(number_o, s_.o, s_.value_features);
    const Tensor seen = masked(scores(q, k));
    const Tensor largest = g_.between(rows()), difference = g_.between(all()), exponential = g_.between(all());
    g_.reduce(cudnn::maximum, seen, largest);
    g_.pointwise(cudnn::subtract, seen, largest, difference);
    g_.pointwise(cudnn::exponential, difference, exponential);
    const Tensor total = g_.between(rows()), logarithm = g_.between(rows());
    g_.reduce(cudnn::sum, exponential, total);
    g_.pointwise(cudnn::logarithm, total, logarithm);
    g_.pointwise(cudnn::add, largest, logarithm,
                 s_.keeps_statistics ? g_.memory(number_statistics, rows(), rows_strides(), f32) : g_.between(rows()));
    const Tensor weights = g_.between(all(), bf16);
    g_.pointwise(cudnn::divide, exponential, total, weights);
    g_.multiply_matrices(weights, v, o);
    return std::move(out_);
  }

  AttentionGraph backward() {
    const Tensor q = by_queries(number_q, s_.q, s_.features), k = keys_transposed(number_k, s_.k, s_.features);
    const Tensor v = keys_transposed(number_v, s_.v, s_.value_features);
    const Tensor o = by_queries(number_o, s_.o, s_.value_features);
    const Tensor dy = by_queries(number_o_gradient, s_.o_gradient, s_.value_features);
    const Tensor statistics = g_.memory(number_statistics, rows(), rows_strides(), f32);
    const Tensor sums = sums_of_result(o, dy);
    const Tensor differences = g_.between(all());
    g_.pointwise(cudnn::subtract, scores(q, k), statistics, differences);
    const Tensor weights = g_.between(all());
    g_.pointwise(cudnn::exponential, masked(differences), weights);
    add_up(transposed(weights), dy, by_keys(number_v_gradient, s_.v_gradient, s_.value_features), s_.value_features);

    const Tensor dp = g_.between(all()), less = g_.between(all()), by_weight = g_.between(all()),
                 ds = g_.between(all());
    g_.multiply_matrices(dy, v, dp);
    g_.pointwise(cudnn::subtract, dp, sums, less);
    g_.pointwise(cudnn::multiply, less, weights, by_weight);
    g_.pointwise(cudnn::multiply, by_weight, scale_, ds);
    add_up(transposed(ds), q, by_keys(number_k_gradient, s_.k_gradient, s_.features), s_.features);
    gradient_of_queries(ds, k);
    return std::move(out_);
  }

 private:
  using Tensor = CudnnGraph::Tensor;
  static constexpr cudnn::DataType bf16 = cudnn::bfloat16, f32 = cudnn::float32;

  Four all() const { return {s_.batch, s_.heads, s_.queries, s_.keys}; }
  Four rows() const { return {s_.batch, s_.heads, s_.queries, 1}; }
  Four rows_strides() const { return {s_.heads * s_.queries, s_.queries, 1, 1}; }

  Tensor by_queries(int64_t number, const AttentionStrides& at, int64_t features) {
    return g_.memory(number, {s_.batch, s_.heads, s_.queries, features}, {at.batch, at.head, at.position, 1}, bf16);
  }
  Tensor by_keys(int64_t number, const AttentionStrides& at, int64_t features) {
    return g_.memory(number, {s_.batch, s_.key_heads, s_.keys, features}, {at.batch, at.head, at.position, 1}, bf16);
  }
  Tensor keys_transposed(int64_t number, const AttentionStrides& at, int64_t features) {
    return g_.memory(number, {s_.batch, s_.key_heads, features, s_.keys}, {at.batch, at.head, 1, at.position}, bf16);
  }

  Tensor scores(Tensor q, Tensor k) {
    scale_ = g_.value(number_scale);
    const Tensor products = g_.between(all()), scaled = g_.between(all());
    g_.multiply_matrices(q, k, products);
    g_.pointwise(cudnn::multiply, products, scale_, scaled);
    return scaled;
  }

  Tensor masked(Tensor scores) {
    if (!s_.causal) return scores;
    const Tensor row = g_.between(all(), cudnn::int32), column = g_.between(all(), cudnn::int32);
    const Tensor seen = g_.between(all(), cudnn::boolean), out = g_.between(all());
    g_.index_along(2, scores, row);
    g_.index_along(3, scores, column);
    g_.compare(row, column, seen);
    g_.select(scores, g_.value(number_hidden), seen, out);
    return out;
  }

  /// Of the weights times their gradient, which are those of the result times its gradient.
  Tensor sums_of_result(Tensor o, Tensor dy) {
    const Tensor products = g_.between({s_.batch, s_.heads, s_.queries, s_.value_features}), sums = g_.between(rows());
    g_.pointwise(cudnn::multiply, dy, o, products);
    g_.reduce(cudnn::sum, products, sums);
    out_.sums = reserve(s_.batch * s_.heads * s_.queries);
    const Tensor stored = g_.memory(number_sums, rows(), rows_strides(), f32);
    g_.pointwise(cudnn::multiply, sums, g_.value(number_one), stored);
    return stored;
  }

  /// [keys, queries], rounded.
  Tensor transposed(Tensor scores_shaped) {
    const int64_t queries = s_.queries, keys = s_.keys;
    const Tensor out =
        g_.between({s_.batch, s_.heads, keys, queries}, {s_.heads * queries * keys, queries * keys, 1, keys}, bf16);
    g_.reshape(scores_shaped, out);
    return out;
  }

  /// result = a b, over all query heads of a key head.
  void add_up(Tensor a, Tensor b, Tensor result, int64_t features) {
    if (s_.heads == s_.key_heads) return g_.multiply_matrices(a, b, result);
    const Tensor by_head = g_.between({s_.batch, s_.heads, s_.keys, features}, bf16);
    g_.multiply_matrices(a, b, by_head);
    g_.reduce(cudnn::sum, by_head, result);
  }

  /// Blocks of keys add to it, in float32.
  void gradient_of_queries(Tensor ds, Tensor k) {
    const Four extents{s_.batch, s_.heads, s_.queries, s_.features};
    const Tensor keys =
        g_.between({s_.batch, s_.key_heads, s_.keys, s_.features}, {s_.k.batch, s_.k.head, s_.k.position, 1}, bf16);
    g_.reshape(k, keys);
    out_.queries_gradient = reserve(s_.batch * s_.heads * s_.queries * s_.features);
    const Tensor sum = g_.memory(number_sum_of_queries_gradient, extents,
                                 {s_.heads * s_.queries * s_.features, s_.queries * s_.features, s_.features, 1}, f32);
    g_.multiply_matrices(ds, keys, sum);
    g_.pointwise(cudnn::identity, sum, by_queries(number_q_gradient, s_.q_gradient, s_.features));
  }

  int64_t reserve(int64_t floats) {
    const int64_t at = out_.workspace_bytes;
    out_.workspace_bytes += aligned(floats * int64_t(sizeof(float)));
    return at;
  }

  const AttentionShape& s_;
  AttentionGraph out_;
  CudnnGraph& g_;
  Tensor scale_ = 0;
};

/// What cuDNN would read or write beside the mark, or not at all.
std::string unfit(const AttentionOperands& operands) {
  const std::pair<const char*, const void*> places[] = {{"queries", operands.q},
                                                        {"keys", operands.k},
                                                        {"values", operands.v},
                                                        {"the result", operands.o},
                                                        {"statistics", operands.statistics},
                                                        {"the result's gradient", operands.o_gradient},
                                                        {"the queries' gradient", operands.q_gradient},
                                                        {"the keys' gradient", operands.k_gradient},
                                                        {"the values' gradient", operands.v_gradient},
                                                        {"the workspace", operands.workspace}};
  for (const auto& [name, place] : places)
    if (reinterpret_cast<uintptr_t>(place) % 16 != 0)
      return fmt::format("{} do not lie at a multiple of 16 bytes", name);
  return "";
}

}  // namespace

std::string description(const AttentionShape& s) {
  return fmt::format("{}attention of {} x {} heads{}, {} queries x {} keys, {} features{}",
                     s.backward ? "the gradient of " : "", s.batch, s.heads,
                     s.heads == s.key_heads ? "" : fmt::format(" over {}", s.key_heads), s.queries, s.keys,
                     s.features == s.value_features ? fmt::format("{}", s.features)
                                                    : fmt::format("{} and {}", s.features, s.value_features),
                     s.causal ? ", causal" : "");
}

AttentionGraph attention_graph(const Cudnn& library, const AttentionShape& shape) {
  Builder builder(library, shape);
  return shape.backward ? builder.backward() : builder.forward();
}

DeviceAttention::~DeviceAttention() {
  planned_.clear();
  device_ = {};
  if (handle_) library_.destroy(handle_);
}

const DeviceAttention::Planned& DeviceAttention::planned(const AttentionShape& shape, int64_t workspace_bytes) {
  if (const auto found = planned_.find(shape); found != planned_.end()) return found->second;
  if (!handle_) {
    if (const int status = library_.create(&handle_)) throw CudnnError(library_, status, "cudnnCreate");
    device_ = cudnn_device(library_, handle_);
  }
  const AttentionGraph made = attention_graph(library_, shape);
  CudnnPlan plan = made.graph.plan(device_, workspace_bytes - made.workspace_bytes);
  return planned_
      .emplace(shape, Planned{std::move(plan.plan), plan.workspace_bytes, made.sums, made.queries_gradient,
                              made.workspace_bytes})
      .first->second;
}

void DeviceAttention::execute(const Planned& planned, const AttentionShape& shape, const AttentionOperands& x,
                              void* stream) {
  float scale = shape.scale, hidden = hidden_score, one = 1;
  std::vector<int64_t> numbers;
  std::vector<void*> places;
  const auto give = [&](int64_t number, const void* place) {
    numbers.push_back(number);
    places.push_back(const_cast<void*>(place));
  };
  give(number_q, x.q), give(number_k, x.k), give(number_v, x.v), give(number_o, x.o);
  give(number_scale, &scale);
  if (shape.backward || shape.keeps_statistics) give(number_statistics, x.statistics);
  if (shape.causal) give(number_hidden, &hidden);
  if (shape.backward) {
    give(number_o_gradient, x.o_gradient), give(number_q_gradient, x.q_gradient);
    give(number_k_gradient, x.k_gradient), give(number_v_gradient, x.v_gradient);
    give(number_one, &one), give(number_sums, x.workspace + planned.sums);
    give(number_sum_of_queries_gradient, x.workspace + planned.queries_gradient);
  }
  void* const workspace = x.workspace + planned.own_bytes;
  CudnnDescriptor pack(library_, cudnn::variant_pack);
  pack.set(cudnn::pack_ids, numbers);
  pack.set(cudnn::pack_pointers, cudnn::of_pointer, int64_t(places.size()), places.data());
  pack.set(cudnn::pack_workspace, cudnn::of_pointer, workspace);
  pack.finalize("what a plan is executed on");
  if (const int status = library_.set_stream(handle_, stream)) throw CudnnError(library_, status, "cudnnSetStream");
  if (const int status = library_.execute(handle_, planned.plan.handle(), pack.handle()))
    throw CudnnError(library_, status, "cudnnBackendExecute");
}

std::string DeviceAttention::enqueue(const AttentionShape& shape, const AttentionOperands& operands, void* stream) {
  std::string problem = unfit(operands);
  try {
    if (problem.empty()) execute(planned(shape, operands.workspace_bytes), shape, operands, stream);
  } catch (const std::runtime_error& e) {
    problem = e.what();
  }
  if (problem.empty()) return "";
  return fmt::format(
      "{} through cuDNN: {}; to mend: write attention = \"generated\" under `declared` of the device in the cluster "
      "file, or measure with hetsynth probe",
      description(shape), problem);
}

}  // namespace hetsynth::cuda
