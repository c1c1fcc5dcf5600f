#include "verify/rules/same_tensor.h"

#include <algorithm>
#include <unordered_map>

namespace hetsynth {
namespace {

/// Names of factors are for people.
bool same_space(const Space& a, const Space& b) {
  auto alike = [](const Factor& f, const Factor& g) { return f.size == g.size && f.kind == g.kind; };
  return std::equal(a.factors.begin(), a.factors.end(), b.factors.begin(), b.factors.end(), alike) &&
         a.inputs == b.inputs && a.output == b.output;
}

/// Every element is that of the input at the same place.
bool hands_on(const Program& program, const Node& node) {
  return node.inputs.size() == 1 && node.space.inputs.size() == 1 && node.body == Expr::input(0) &&
         !node.space.reduction() && node.space.inputs[0] == node.space.output &&
         program[node.inputs[0]].type == node.type;
}

uint64_t mixed(uint64_t hash, uint64_t value) { return (hash ^ value) * 0x9E3779B97F4A7C15u + (hash >> 29); }

}  // namespace

std::vector<NodeId> same_tensors(const Program& program) {
  std::vector<NodeId> first(program.nodes.size());
  std::unordered_multimap<uint64_t, NodeId> met;  // by what is cheap to hash; few nodes share their inputs
  for (const Node& node : program.nodes) {
    first[node.id] = node.id;
    // A carry is its input in the first turn only.
    if (node.leaf() || program.next_of(node.id) >= 0) continue;
    if (hands_on(program, node)) {
      first[node.id] = first[node.inputs[0]];
      continue;
    }
    uint64_t hash = mixed(uint64_t(node.body.kind()), node.space.factors.size());
    for (NodeId input : node.inputs) hash = mixed(hash, uint64_t(first[input]));
    for (int64_t extent : node.type.shape) hash = mixed(hash, uint64_t(extent));
    auto same_inputs = [&](const Node& other) {
      return std::equal(node.inputs.begin(), node.inputs.end(), other.inputs.begin(), other.inputs.end(),
                        [&](NodeId a, NodeId b) { return first[a] == first[b]; });
    };
    auto [candidate, end] = met.equal_range(hash);
    for (; candidate != end && first[node.id] == node.id; ++candidate) {
      const Node& other = program[candidate->second];
      if (same_inputs(other) && other.loop == node.loop && other.type == node.type &&
          same_space(other.space, node.space) && other.body == node.body)
        first[node.id] = other.id;
    }
    if (first[node.id] == node.id) met.emplace(hash, node.id);
  }
  return first;
}

}  // namespace hetsynth
