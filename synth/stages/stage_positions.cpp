#include "synth/stages/stage_positions.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <set>

namespace hetsynth::synth {
namespace {

constexpr int unknown = -2;

class Placing {
 public:
  explicit Placing(const Program& program) : p_(program), consumers_(program.consumers()) {
    out_.of.assign(p_.nodes.size(), unknown);
    out_.again.assign(p_.nodes.size(), 0);
    for (size_t loop = 0; loop < p_.loops.size(); ++loop)
      if (p_.loops[loop].of_samples) out_.loop = int(loop);  // those before it compute what its samples read
  }

  StagePositions run() {
    if (out_.loop < 0) return std::move(out_);
    for (const TurnLoop& loop : p_.loops)
      for (const TurnLoop::Carry& c : loop.carries) carries_[c.carry] = c.next;
    mark_any_position();
    forward();
    find_homes();
    backward();
    rest();
    out_.home = home_;
    return std::move(out_);
  }

 private:
  bool in_loop(const Node& node) const { return node.loop == out_.loop; }
  bool returns(const Node& node) const { return node.phase != Phase::forward || node.recomputation > 0; }
  int& of(NodeId node) { return out_.of[size_t(node)]; }

  void mark_any_position() {
    for (const Node& node : p_.nodes) {
      const bool free_leaf =
          node.kind == NodeKind::input || (node.kind == NodeKind::state && element_count(node.type.shape) == 1);
      const bool follows = !node.leaf() && !carries_.contains(node.id) &&
                           std::ranges::all_of(node.inputs, [&](NodeId n) { return of(n) == any_position; });
      if (free_leaf || follows) of(node.id) = any_position;
    }
  }

  void forward() {
    for (const Node& node : p_.nodes)
      if (in_loop(node) && !returns(node) && of(node.id) == unknown && !carries_.contains(node.id))
        of(node.id) = out_.count++;
    for (const Node& node : p_.nodes)
      if (node.loop >= 0 && !in_loop(node) && of(node.id) == unknown) of(node.id) = std::max(0, out_.count - 1);
    // What runs once before the loop, and parameters: with what reads them first; `last`: the last one that does.
    out_.last = out_.of;
    for (size_t n = p_.nodes.size(); n-- > 0;) {
      const Node& node = p_.nodes[n];
      if (node.loop >= 0 || node.phase == Phase::update || of(node.id) != unknown) continue;
      for (const NodeId reader : consumers_[n]) {
        if (p_[reader].phase != Phase::forward || p_[reader].recomputation > 0 || of(reader) < 0) continue;
        of(node.id) = of(node.id) < 0 ? of(reader) : std::min(of(node.id), of(reader));
        out_.last[n] = std::max(out_.last[n], out_.last[size_t(reader)]);
      }
    }
  }

  /// The parameter that each sum over turns is for: the nearest one whose new contents follow from it without passing
  /// through a scalar.
  void find_homes() {
    std::map<NodeId, NodeId> updated;  // by new contents
    for (const Update& u : p_.updates)
      if (p_[u.target].kind == NodeKind::parameter) updated[u.value] = u.target;
    home_.assign(p_.nodes.size(), unknown);
    find_homes_of_updates(updated);
    for (const TurnLoop::Carry& c : p_.loops[size_t(out_.loop)].carries) {
      std::vector<NodeId> reached{c.next};
      std::set<NodeId> seen{c.next};
      NodeId home = unknown;
      for (size_t at = 0; at < reached.size() && home == unknown; ++at) {
        if (const auto it = updated.find(reached[at]); it != updated.end()) home = it->second;
        for (const NodeId reader : consumers_[size_t(reached[at])])
          if (p_[reader].loop < 0 && element_count(p_[reader].type.shape) > 1 && seen.insert(reader).second)
            reached.push_back(reader);
      }
      home_[size_t(c.next)] = home;
    }
    for (size_t n = p_.nodes.size(); n-- > 0;) {
      const Node& node = p_.nodes[n];
      if (!in_loop(node) || !returns(node) || home_[n] != unknown) continue;
      std::set<NodeId> homes;
      for (const NodeId reader : consumers_[n])
        if (!carries_.contains(reader)) homes.insert(in_loop(p_[reader]) ? home_[size_t(reader)] : unknown);
      if (homes.size() == 1) home_[n] = *homes.begin();
    }
  }

  /// What an update computes for one parameter alone, and the states that it reads.
  void find_homes_of_updates(const std::map<NodeId, NodeId>& updated) {
    for (size_t n = p_.nodes.size(); n-- > 0;) {
      const Node& node = p_.nodes[n];
      const bool state = node.kind == NodeKind::state && of(node.id) == unknown;
      if (node.loop >= 0 || (node.phase != Phase::update && !state) || of(node.id) == any_position) continue;
      const bool of_loop = std::ranges::any_of(node.inputs, [&](NodeId input) { return p_[input].loop >= 0; });
      std::set<NodeId> homes;
      if (const auto it = updated.find(node.id); it != updated.end()) homes.insert(it->second);
      for (const NodeId reader : consumers_[n]) homes.insert(home_[size_t(reader)]);
      if (homes.size() == 1 && !of_loop) home_[n] = *homes.begin();
    }
  }

  /// Checkpointed parts of the model: all that is made again of one stands where the last parameter of it is read.
  void made_again() {
    out_.whole.assign(size_t(out_.count) + 1, 0);
    std::map<int, std::pair<int, int>> ranges;  // of positions, by part
    for (const Node& node : p_.nodes) {
      if (!in_loop(node) || node.recomputation == 0) continue;
      for (const NodeId input : node.inputs) {
        if (of(input) < 0 || p_[input].recomputation > 0) continue;
        const bool outside = in_loop(p_[input]);  // before the part
        const int at = outside ? of(input) : out_.last[size_t(input)];
        const auto [it, fresh] = ranges.try_emplace(node.recomputation, outside ? out_.count : at, at);
        if (!outside) it->second.first = std::min(it->second.first, at);
        it->second.second = std::max(it->second.second, at);
      }
    }
    for (const Node& node : p_.nodes)
      if (in_loop(node) && node.recomputation > 0 && of(node.id) == unknown)
        if (const auto it = ranges.find(node.recomputation); it != ranges.end()) of(node.id) = it->second.second;
    for (const auto& [part, range] : ranges)
      for (int at = range.first + 1; at <= range.second; ++at) out_.whole[size_t(at)] = 1;
  }

  void backward() {
    made_again();
    for (const Node& node : p_.nodes) {
      if (!in_loop(node) || !returns(node)) continue;
      out_.again[size_t(node.id)] = 1;
      if (of(node.id) != unknown || carries_.contains(node.id)) continue;
      int made = -1, least = out_.count - 1;  // of what it reads of the forward pass, and of the backward pass
      bool reads_back = false;
      for (const NodeId input : node.inputs) {
        if (of(input) < 0) continue;
        const bool back = in_loop(p_[input]) && out_.again[size_t(input)] && p_[input].recomputation == 0;
        reads_back |= back;
        if (back)
          least = std::min(least, of(input));
        else
          made = std::max(made, in_loop(p_[input]) ? of(input) : out_.last[size_t(input)]);
      }
      const NodeId home = home_[size_t(node.id)];
      if (home >= 0 && reads_back && of(home) >= 0)
        of(node.id) = nearest_to(home, std::min(made, least), least);
      else
        of(node.id) = made < 0 ? least : reads_back ? std::min(made, least) : made;
    }
    for (const auto& [carry, next] : carries_)
      if (of(carry) == unknown) of(carry) = std::max(0, of(next));
    keep_with_what_is_made_again();
  }

  /// What is made again is there when the backward pass comes to it: gradients behind it that read it are no other
  /// segment's.
  void keep_with_what_is_made_again() {
    for (const Node& node : p_.nodes) {
      if (!in_loop(node) || !returns(node) || node.recomputation > 0) continue;
      for (const NodeId input : node.inputs)
        if (in_loop(p_[input]) && p_[input].recomputation > 0)
          for (int at = of(input) + 1; at <= of(node.id); ++at) out_.whole[size_t(at)] = 1;
    }
  }

  /// The position from `first` to `last` that is nearest to where a parameter is read. An embedding that is the last
  /// layer as well is read at both ends, and its gradient there stands at that end, where the gradient of the result
  /// is.
  int nearest_to(NodeId parameter, int first, int last) {
    int out = -1, least = std::numeric_limits<int>::max();
    for (const int reader : {of(parameter), out_.last[size_t(parameter)]}) {
      if (reader < 0) continue;
      const int at = std::max(first, std::min(reader, last)), distance = std::abs(reader - at);
      if (distance < least) out = at, least = distance;
    }
    return out;
  }

  /// What runs once, states and what nobody has placed: with its parameter, with the largest tensor that it reads (of
  /// several the last, so that a sum over parameters goes from stage to stage), or else with what reads it.
  void rest() {
    for (const Node& node : p_.nodes)
      if (const NodeId home = home_[size_t(node.id)];
          node.loop < 0 && of(node.id) == unknown && home >= 0 && of(home) >= 0)
        of(node.id) = of(home);
    for (bool changed = true; changed;) {
      changed = false;
      for (const Node& node : p_.nodes) changed |= of(node.id) == unknown && place_by(node, node.inputs);
      for (size_t n = p_.nodes.size(); n-- > 0;)
        changed |= of(NodeId(n)) == unknown && place_by(p_.nodes[n], consumers_[n]);
    }
    for (const Update& u : p_.updates)
      if (of(u.target) == unknown) of(u.target) = std::max(0, of(u.value));
    for (int& position : out_.of)
      if (position == unknown) position = 0;
  }

  bool place_by(const Node& node, const std::vector<NodeId>& others) {
    NodeId largest = -1;
    for (const NodeId other : others) {
      if (of(other) < 0) continue;
      if (largest < 0 || element_count(p_[other].type.shape) >= element_count(p_[largest].type.shape)) largest = other;
      // What is read of a loop is read where it lies.
      if (node.loop < 0 && p_[other].loop == out_.loop) {
        largest = other;
        break;
      }
    }
    if (largest < 0) return false;
    of(node.id) = of(largest);
    return true;
  }

  const Program& p_;
  const std::vector<std::vector<NodeId>> consumers_;
  StagePositions out_;
  std::map<NodeId, NodeId> carries_;  ///< what they take over
  std::vector<NodeId> home_;          ///< by node: the one parameter that it is for
};

}  // namespace

StagePositions stage_positions(const Program& in_turns) { return Placing(in_turns).run(); }

}  // namespace hetsynth::synth
