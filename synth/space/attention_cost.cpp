#include "synth/space/attention_cost.h"

#include <algorithm>
#include <map>

namespace hetsynth::synth {
namespace {

/// Rows of a block (codegen/cpu/attention_text.cpp): a causal block row sees all keys up to its last query.
constexpr double block_rows = 64;

double plain_flops(const Node& node) {
  return node.space.iterations() * (flops(node.body) + (node.space.reduction() ? 1 : 0));
}

/// The factor that indexes the given dimension of a scores-shaped tensor, through the result or an operand.
int factor_of_dim(const Program& program, const Attention& a, NodeId id, int dim) {
  const Node& node = program[id];
  const Shape& shape = program[a.scores].type.shape;
  std::vector<NodeId> blocks = a.hidden();
  std::vector<int> dims;
  if (std::count(blocks.begin(), blocks.end(), id)) dims = dims_of_factors(node.space, node.space.output, shape);
  for (size_t j = 0; j < node.inputs.size() && dims.empty(); ++j)
    if (std::count(blocks.begin(), blocks.end(), node.inputs[j]))
      dims = dims_of_factors(node.space, node.space.inputs[j], shape);
  auto found = std::find(dims.begin(), dims.end(), dim);
  return found == dims.end() ? -1 : int(found - dims.begin());
}

/// A bit for each factor of an operator, of the first 64, that indexes no dimension of the scores.
uint64_t factors_beside(const Program& program, const Attention& a, NodeId node) {
  uint64_t out = ~uint64_t{0};
  for (size_t dim = 0; dim < program[a.scores].type.shape.size(); ++dim)
    if (const int factor = factor_of_dim(program, a, node, int(dim)); factor >= 0 && factor < 64)
      out &= ~(uint64_t{1} << factor);
  return out;
}

/// Features that a kernel keeps of a row (codegen/cuda/attention/attention_kernels.h).
constexpr double most_features = 128;

bool has_kernels(const Program& program, const Attention& a) {
  const double elements = double(element_count(program[a.scores].type.shape));
  return program[a.scores].space.iterations() <= most_features * elements &&
         program[a.mixed].space.iterations() <= most_features * elements;
}

}  // namespace

AttentionCost::AttentionCost(const Program& program)
    : found_(find_attention(program)),
      part_(program.nodes.size(), AttentionPart::none),
      attention_(program.nodes.size(), -1),
      in_kernels_(program.nodes.size(), 0),
      stored_for_gradient_(program.nodes.size(), 0),
      own_factors_(program.nodes.size(), 0),
      roles_(1),
      role_(program.nodes.size(), 0) {
  for (const Attention& a : found_) {
    const auto are = [&](const std::vector<NodeId>& nodes, AttentionPart part) {
      for (NodeId node : nodes) {
        part_[size_t(node)] = part;
        attention_[size_t(node)] = int(&a - found_.data());
      }
    };
    are(a.hidden(), AttentionPart::gradient_block);
    are(a.hidden_forward(), AttentionPart::forward_block);
    are({a.maximum, a.total}, AttentionPart::statistic);
    are({a.mixed}, AttentionPart::mixed);
    for (const auto* list : {&a.products, &a.sums}) {
      are(*list, AttentionPart::product);
      for (NodeId node : *list) own_factors_[size_t(node)] = factors_beside(program, a, node);
    }
    if (!has_kernels(program, a)) continue;
    // That of a bias is added up over blocks that no kernel keeps.
    for (NodeId node : a.sums.empty() ? a.hidden() : a.hidden_forward()) in_kernels_[size_t(node)] = 1;
    if (a.sums.empty()) continue;
    stored_for_gradient_[size_t(a.scores)] = 1;
    for (NodeId node = a.weights_gradient; node < NodeId(program.nodes.size()); ++node)
      if (attention_[size_t(node)] == int(&a - found_.data()))
        for (NodeId input : program[node].inputs)
          if (part(input) == AttentionPart::forward_block) stored_for_gradient_[size_t(input)] = 1;
  }
  std::map<Role, int> number;
  for (const Attention& a : found_) {
    const Shape& shape = program[a.scores].type.shape;
    double keys = double(shape[size_t(a.column)]);
    double share = a.causal ? std::min(1.0, (keys + block_rows) / (2 * keys)) : 1;
    auto set = [&](NodeId node, Role role) {
      role.column_factor = factor_of_dim(program, a, node, a.column);
      auto [entry, fresh] = number.try_emplace(role, int(roles_.size()));
      if (fresh) roles_.push_back(role);
      role_[size_t(node)] = entry->second;
    };
    for (NodeId node : a.hidden()) set(node, {true, share, 0, -1});
    for (const auto* list : {&a.products, &a.sums})
      for (NodeId node : *list) set(node, {false, share, 0, -1});
    for (NodeId node : {a.mixed, a.maximum, a.total}) set(node, {false, share, 0, -1});
    if (!a.has_gradient()) continue;
    double again = plain_flops(program[a.scores]) + plain_flops(program[a.weights]);
    for (const auto* list : {&a.before, &a.exponential, &a.after})
      for (NodeId node : *list) again += plain_flops(program[node]);
    set(a.weights_gradient, {true, share, again * share, -1});
    // sum(weights * their gradient) is taken as sum(result * its gradient), over features instead of keys.
    double features = program[a.scores].space.iterations() / double(element_count(shape));
    set(a.dot, {false, std::min(1.0, features / keys), 0, -1});
  }
}

}  // namespace hetsynth::synth
