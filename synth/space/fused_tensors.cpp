#include "synth/space/fused_tensors.h"

#include <algorithm>
#include <map>

namespace hetsynth::synth {
namespace {

/// Whether every dimension is indexed by a factor as it is, or by nothing.
bool in_order(const Access& access) {
  return std::ranges::all_of(access.dims, [](const DimIndex& index) {
    return index.offset == 0 && index.per_turn == 0 && index.terms.size() <= 1 &&
           (index.terms.empty() || index.terms[0].plain());
  });
}

/// Whether the access walks over all elements of an operand exactly once while the operator runs.
bool reads_once(const Node& node, size_t operand, int64_t elements) {
  const Access& read = node.space.inputs[operand];
  return in_order(read) && node.space.iterations() == double(elements) && !read.zero_outside;
}

/// Whether the operator only says where the elements of its operand are to be found.
bool is_view(const Program& program, const Node& node) {
  return node.inputs.size() == 1 && node.body.kind() == ExprKind::input && !node.space.inputs[0].zero_outside &&
         program[node.inputs[0]].type.dtype == node.type.dtype;
}

/// Whether a view has all elements of its operand, in the same row-major order.
bool keeps_layout(const Program& program, const Node& view) {
  const Access& read = view.space.inputs[0];
  if (!in_order(read) || element_count(view.type.shape) != element_count(program[view.inputs[0]].type.shape))
    return false;
  std::map<int, int> dim_of;  // by factor, of the operand
  for (size_t d = 0; d < read.dims.size(); ++d)
    for (const IndexTerm& term : read.dims[d].terms) dim_of.emplace(term.factor, int(d));
  std::vector<int> order;
  for (const DimIndex& index : view.space.output.dims)
    for (const IndexTerm& term : index.terms) order.push_back(dim_of[term.factor]);
  return std::ranges::is_sorted(order);
}

/// By node: nodes come in the order of micro-batches, each with its forward and its backward phase. Sums of their
/// gradients are stored from one to the next.
std::vector<int> micro_batches(const Program& program) {
  std::vector<int> out;
  int number = 0;
  Phase before = Phase::forward;
  for (const Node& node : program.nodes) {
    if (!node.leaf()) {
      number += before == Phase::backward && node.phase == Phase::forward;
      before = node.phase;
    }
    out.push_back(number);
  }
  return out;
}

}  // namespace

std::vector<char> fused_tensors(const Program& program, const std::vector<int>& kinds) {
  std::vector<char> fused(program.nodes.size(), 0);
  auto consumers = program.consumers();
  const std::vector<int> micro_batch = micro_batches(program);
  std::vector<char> kept(program.nodes.size(), 0);
  for (const Update& update : program.updates) kept[update.value] = 1;
  for (const NamedOutput& output : program.outputs) kept[output.node] = 1;
  for (const TurnLoop& loop : program.loops)
    for (const TurnLoop::Carry& c : loop.carries) kept[c.carry] = kept[c.next] = 1;
  std::map<std::pair<int, size_t>, bool> read_once;
  // Views are looked through: what made the elements runs in the loop behind them only if all of these keep its order,
  // and what a view looks at is stored where the view is. A view that joins dimensions which do not lie side by side in
  // storage, as those of Swin's windows, is a copy.
  const size_t count = program.nodes.size();
  std::vector<char> made_here(count, 0), made_in_order(count, 0), row_major(count, 1);
  for (const Node& node : program.nodes) {
    if (node.leaf() || node.space.reduction()) continue;
    made_here[node.id] = 1;
    made_in_order[node.id] = in_order(node.space.output);
    if (is_view(program, node)) {
      const NodeId source = node.inputs[0];
      row_major[node.id] = row_major[source] && keeps_layout(program, node);
      const bool copies = !made_in_order[node.id] && !row_major[node.id];
      made_here[node.id] = copies || (fused[source] && made_here[source]);
      made_in_order[node.id] = made_in_order[node.id] && made_in_order[source];
    }
    // A number is written where it is read.
    if (node.inputs.empty() && node.body.kind() == ExprKind::constant) {
      fused[node.id] = !kept[node.id];
      continue;
    }
    if (kept[node.id] || consumers[node.id].size() != 1) continue;
    const Node& consumer = program[consumers[node.id][0]];
    bool once = consumer.phase == node.phase && consumer.loop == node.loop &&
                micro_batch[consumer.id] == micro_batch[node.id] && stacked_dim(node.space) < 0 &&
                (is_view(program, consumer) || !made_here[node.id] || made_in_order[node.id]);
    for (size_t j = 0; j < consumer.inputs.size(); ++j) {
      if (consumer.inputs[j] != node.id) continue;
      auto [it, fresh] = read_once.try_emplace({kinds[consumer.id], j}, false);
      if (fresh) it->second = reads_once(consumer, j, element_count(node.type.shape));
      once = once && it->second;
    }
    fused[node.id] = once;
  }
  return fused;
}

}  // namespace hetsynth::synth
