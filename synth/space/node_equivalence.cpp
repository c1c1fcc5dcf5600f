#include "synth/space/node_equivalence.h"

#include <bit>
#include <unordered_map>

namespace hetsynth::synth {
namespace {

void mix(uint64_t* hash, uint64_t value) {
  *hash = (*hash ^ value) * 0xff51afd7ed558ccdull;
  *hash ^= *hash >> 32;
}

/// Which random numbers are drawn makes no difference to a plan.
int index_of(const Expr& expr) { return expr.kind() == ExprKind::random ? 0 : expr.index(); }

void mix(uint64_t* hash, const Expr& expr) {
  mix(hash, uint64_t(expr.kind()) * 64 + uint64_t(index_of(expr)));
  mix(hash, std::bit_cast<uint64_t>(expr.value()));
  for (const Expr& arg : expr.args()) mix(hash, arg);
}

void mix(uint64_t* hash, const TensorType& type) {
  mix(hash, uint64_t(type.dtype));
  for (int64_t extent : type.shape) mix(hash, uint64_t(extent));
}

uint64_t hash_of(const Program& program, const Node& node) {
  uint64_t hash = uint64_t(node.kind) + 1;
  mix(&hash, node.type);
  for (NodeId input : node.inputs) mix(&hash, program[input].type);
  for (const Factor& factor : node.space.factors) mix(&hash, uint64_t(factor.size) * 4 + uint64_t(factor.kind));
  if (!node.leaf()) mix(&hash, node.body);
  return hash;
}

bool alike(const Expr& a, const Expr& b) {
  if (a.kind() != b.kind() || index_of(a) != index_of(b) || a.value() != b.value() ||
      a.args().size() != b.args().size())
    return false;
  for (size_t i = 0; i < a.args().size(); ++i)
    if (!alike(a.args()[i], b.args()[i])) return false;
  return true;
}

bool same(const TensorType& a, const TensorType& b) { return a.dtype == b.dtype && a.shape == b.shape; }

bool alike(const Program& program, const Node& a, const Node& b) {
  if (a.kind != b.kind || !same(a.type, b.type) || a.inputs.size() != b.inputs.size()) return false;
  for (size_t j = 0; j < a.inputs.size(); ++j)
    if (!same(program[a.inputs[j]].type, program[b.inputs[j]].type)) return false;
  return a.leaf() || (a.space == b.space && alike(a.body, b.body));
}

}  // namespace

std::vector<int> node_kinds(const Program& program) {
  std::vector<int> kinds;
  std::unordered_map<uint64_t, std::vector<NodeId>> examples;  // by hash: one node of every kind
  int count = 0;
  for (const Node& node : program.nodes) {
    std::vector<NodeId>& candidates = examples[hash_of(program, node)];
    int kind = -1;
    for (NodeId candidate : candidates)
      if (alike(program, program[candidate], node)) kind = kinds[candidate];
    if (kind < 0) {
      kind = count++;
      candidates.push_back(node.id);
    }
    kinds.push_back(kind);
  }
  return kinds;
}

}  // namespace hetsynth::synth
