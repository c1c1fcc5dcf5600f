#include "synth/network/memory_penalties.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "synth/wcsp/network.h"

namespace hetsynth::synth {
namespace {

/// At all points, and in between.
constexpr int always = -1;

}  // namespace

MemoryPenalties::MemoryPenalties(const Problem& problem, const Conversions& conversions, const Shares& shares,
                                 const MemoryPrice& memory)
    : problem_(problem), conversions_(conversions), shares_(shares), memory_(memory) {
  if (any()) find_boundary(), find_loops();
  const auto kept = [&](const Node& node) {
    const std::vector<double>& prices = prices_of_forms(node, always);
    return Picoseconds(std::min(double(forbidden), *std::min_element(prices.begin(), prices.end())));
  };
  if (memory.again) remakes_.emplace(problem, shares, boundary_, kept);
}

void MemoryPenalties::find_boundary() {
  for (const Node& node : problem_.program.nodes)
    if (!node.leaf() && node.phase == Phase::forward) boundary_ = node.id;
}

void MemoryPenalties::find_loops() {
  loops_.assign(problem_.program.loops.size(), {int(problem_.program.nodes.size()), -1});
  for (const Node& node : problem_.program.nodes)
    if (node.loop >= 0) {
      auto& [first, last] = loops_[size_t(node.loop)];
      first = std::min(first, node.id);
      last = std::max(last, node.id);
    }
}

/// A carry reads what it begins with in the first turn alone.
bool MemoryPenalties::reads_in_all_turns(NodeId consumer, const Node& node) const {
  const int loop = problem_.program[consumer].loop;
  return loop >= 0 && loop != node.loop && problem_.program.next_of(consumer) < 0;
}

bool MemoryPenalties::stays_through_a_loop(const Node& node) const {
  return std::ranges::any_of(problem_.consumers[node.id],
                             [&](NodeId consumer) { return reads_in_all_turns(consumer, node); });
}

/// The nodes from whose computation on a tensor is there, and until which. In a loop that is said of one turn: what is
/// made before the loop is there in all turns, converted or not, and so is what turns hand on to each other.
std::pair<NodeId, NodeId> MemoryPenalties::lifetime(const Node& node) const {
  const Program& p = problem_.program;
  std::pair<NodeId, NodeId> out{node.id, node.id};
  for (const NodeId consumer : problem_.consumers[node.id]) {
    const NodeId until = reads_in_all_turns(consumer, node) ? loops_[size_t(p[consumer].loop)].second : consumer;
    out.second = std::max(out.second, until);
  }
  if (node.loop < 0) return out;
  const auto& [first, last] = loops_[size_t(node.loop)];
  if (p.next_of(node.id) >= 0) return {first, last};
  // What a carry takes over lies in its place until the loop ends.
  if (std::ranges::count(p.loops[size_t(node.loop)].carries, node.id, &TurnLoop::Carry::next) > 0)
    return {last + 1, std::max(last, out.second)};
  return out;
}

/// Bits for the points at which a tensor must be there in some form: it is computed then, read, or waits.
int MemoryPenalties::presence(const Node& node) const {
  if (node.id != asked_) asked_ = node.id, presence_ = find_presence(node), of_forms_ = nullptr;
  return presence_;
}

int MemoryPenalties::find_presence(const Node& node) const {
  if (node.leaf()) return always;
  // New contents of leaves are written over the old ones where that can be.
  if (problem_.cost.fused(node.id) || !problem_.update_targets[node.id].empty()) return 0;
  const auto [first, last] = lifetime(node);
  if (memory_.least) return node.id <= boundary_ && last > boundary_ ? always : 0;
  const bool outlives = problem_.is_output[node.id] || node.id == problem_.program.loss;
  int bits = 0;
  for (size_t p = 0; p < memory_.points.size(); ++p)
    if (first <= memory_.points[p].node && (outlives || last >= memory_.points[p].node)) bits |= 1 << p;
  return bits;
}

/// Of keeping a tensor in a form on all devices.
Picoseconds MemoryPenalties::price(const Node& node, int form) const {
  const int points = presence(node);
  if (!of_forms_) of_forms_ = &prices_of_forms(node, points);
  const double sum = (*of_forms_)[size_t(form)];
  return sum >= double(forbidden) ? forbidden : Picoseconds(std::llround(sum));
}

/// By device, of a byte that is there at these points.
std::vector<double> MemoryPenalties::prices_at(int points) const {
  if (points == always) return memory_.by_device;
  std::vector<double> out(memory_.by_device.size(), 0);
  for (size_t p = 0; p < memory_.points.size(); ++p)
    for (size_t d = 0; (points >> p & 1) && d < out.size(); ++d) out[d] += memory_.points[p].by_device[d];
  return out;
}

/// Of tensors of one kind that are there at these points, by form.
const std::vector<double>& MemoryPenalties::prices_of_forms(const Node& node, int points) const {
  std::vector<double>& prices = prices_[{conversions_.kind_of(node.id), points}];
  if (!prices.empty()) return prices;
  const std::vector<double> by_device = prices_at(points);
  for (const Form& form : problem_.rules.forms[node.id]) {
    double sum = 0;
    for (size_t d = 0; d < by_device.size(); ++d)
      if (by_device[d] > 0) sum += by_device[d] * problem_.cost.local_bytes(node.id, form, shares_, int(d));
    prices.push_back(sum);
  }
  return prices;
}

Picoseconds MemoryPenalties::of_leaf(const Node& node, int form) const {
  if (!any()) return 0;
  if (node.kind != NodeKind::input) return price(node, form);
  Picoseconds least = forbidden;
  for (int f = 0; f < int(problem_.rules.forms[node.id].size()); ++f)
    if (!problem_.rules.forms[node.id][f].partial()) least = std::min(least, price(node, f));
  return least;
}

Picoseconds MemoryPenalties::of_kept(const Node& node, int source, const FormSets& sets) const {
  if (!any() || node.kind == NodeKind::input || presence(node) == 0) return 0;
  if (memory_.again) return least_with_copies(node, source, sets);
  if (memory_.least) return least_of_kept(node, source, sets);
  FormMask kept = sets.apart ? 0 : sets.early;
  if (!problem_.rules.forms[node.id][size_t(source)].partial()) kept |= FormMask(1) << source;
  Picoseconds sum = 0;
  for (int form = 0; kept >> form; ++form)
    if ((kept >> form & 1) && !(node.leaf() && form == source)) sum = std::min(forbidden, sum + price(node, form));
  return sum;
}

/// Price of what there is for certain after the forward phase. One set for both phases: if a form is used in only one
/// of them, two sets do as well; so what both sets of consumers need is there, or else, where the set has several
/// forms, the smallest of them.
Picoseconds MemoryPenalties::least_of_kept(const Node& node, int source, const FormSets& sets) const {
  bool partial = problem_.rules.forms[node.id][source].partial(), early = false, late = false;
  for (NodeId consumer : problem_.consumers[node.id]) (is_late(problem_.program, consumer) ? late : early) = true;
  FormMask made = sets.early & ~(FormMask(1) << source);
  if (node.leaf() && (sets.apart || !early || !late || made == 0)) return 0;
  bool only_source = sets.apart || made == 0 || !early;
  if (only_source && !partial) return price(node, source);
  if (std::popcount(made) > 1 && !node.leaf() && !partial) made |= FormMask(1) << source;
  Picoseconds least = made ? forbidden : 0;
  for (int form = 0; made >> form; ++form)
    if (made >> form & 1) least = std::min(least, price(node, form));
  return least;
}

/// The same where anything that the forward phase makes may be made again after it. What conversions make is made again
/// by one of them, from what is there of the tensor; without any of it the operation runs once more.
Picoseconds MemoryPenalties::least_with_copies(const Node& node, int source, const FormSets& sets) const {
  const Picoseconds kept = least_of_kept(node, source, sets);
  if (kept == 0) return 0;
  FormMask converted = sets.apart ? 0 : sets.early & ~(FormMask(1) << source);
  Picoseconds again = forbidden;
  for (int form = 0; converted >> form; ++form)
    if (converted >> form & 1) again = std::min(again, conversions_.of(node.id).tree_cost(source, FormMask(1) << form));
  const Picoseconds from_source = std::min(forbidden, again + (node.leaf() ? 0 : price(node, source)));
  return std::min({kept, from_source, node.leaf() ? forbidden : remakes_->of(node.id, source)});
}

Picoseconds paid_for_memory(const Problem& problem, const Conversions& conversions, const Shares& shares,
                            const MemoryPrice& memory, const Choices& choices) {
  const MemoryPenalties prices(problem, conversions, shares, memory);
  Materialiser materialiser(problem, conversions);
  const std::vector<const Materialisation*> all = materialiser.all(choices);
  Picoseconds sum = 0;
  for (const Node& node : problem.program.nodes) {
    const Materialisation& m = *all[size_t(node.id)];
    const std::vector<NodeId>& updates = problem.update_targets[node.id];
    const bool read = !problem.consumers[node.id].empty() || std::ranges::count(updates, node.id) < ssize(updates);
    if (read) sum = add(sum, prices.of_kept(node, m.source, m.sets));
    if (node.leaf()) sum = add(sum, prices.of_leaf(node, m.source));
  }
  return sum;
}

}  // namespace hetsynth::synth
