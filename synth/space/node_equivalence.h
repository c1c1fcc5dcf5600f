// Operations that compute the same: whatever is derived of one holds for all of its kind, so that deep programs cost
// little more than one of their layers.
#pragma once
#include <deque>
#include <vector>

#include "dsl/ir/program.h"

namespace hetsynth::synth {

/// By node: equal for operations with equal iteration space, body (but for the random streams) and types of
/// operands and result, and for leaves with
/// equal kind and type. Numbered from 0 in program order.
std::vector<int> node_kinds(const Program& program);

/// A value per node, stored once per kind of node.
template <typename T>
class ByKind {
 public:
  const T& operator[](NodeId node) const { return values_[kind_[node]]; }
  int kind(NodeId node) const { return kind_[node]; }
  size_t size() const { return kind_.size(); }
  /// For the next node: the value of an earlier kind, or a new one.
  void add(int kind) { kind_.push_back(kind); }
  int add_kind(T value) {
    values_.push_back(std::move(value));
    return int(values_.size()) - 1;
  }

 private:
  std::vector<int> kind_;
  std::deque<T> values_;
};

}  // namespace hetsynth::synth
