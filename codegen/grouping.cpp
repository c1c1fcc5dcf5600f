#include "codegen/grouping.h"

#include <algorithm>
#include <map>
#include <queue>
#include <set>
#include <tuple>

#include "codegen/roles.h"
#include "dsl/base/error.h"

namespace hetsynth::codegen {
namespace {

class Grouper {
 public:
  Grouper(const LocalProgram& program, const Layouts& layouts, const GroupingOptions& options)
      : program_(program), layouts_(layouts), options_(options), group_of_(program.ops.size(), -1) {
    producer_.assign(program.values.size(), -1);
    readers_.resize(program.ops.size());
    for (int i = 0; i < int(program.ops.size()); ++i) producer_[program.ops[i].result] = i;
    find_sections();
    int last_collective = -1;
    for (int i = 0; i < int(program.ops.size()); ++i) {
      for (const Operand& operand : program.ops[i].inputs)
        if (int p = producer_op(operand.value); p >= 0) readers_[p].push_back(i);
      if (!program.ops[i].collective) continue;
      // All ranks meet in collectives in the same order.
      if (last_collective >= 0) readers_[last_collective].push_back(i);
      last_collective = i;
    }
  }

  /// Phases: forward and backward of every micro-batch, and the update. Nodes come in this order; an operator that
  /// makes a forward value again, or moves it, may come later. Before, in and behind a loop are stretches of their own.
  void find_sections() {
    std::map<NodeId, Phase> phase_of;
    for (const LocalOp& op : program_.ops) {
      auto [entry, fresh] = phase_of.emplace(op.node, op.phase);
      entry->second = std::min(entry->second, op.phase);
    }
    std::map<NodeId, int> micro_batch;
    int number = 0;
    Phase before = Phase::forward;
    for (const auto& [node, phase] : phase_of) {
      if (before == Phase::backward && phase == Phase::forward) ++number;
      micro_batch[node] = number;
      before = phase;
    }
    int loop = -1, stretch = 0;
    for (const LocalOp& op : program_.ops) {
      stretch += op.loop != loop;
      loop = op.loop;
      section_.push_back({stretch, micro_batch[op.node] * 3 + int(op.phase)});
    }
  }

  std::vector<Group> run(const std::vector<FusedAttention>& attention) {
    for (const FusedAttention& nest : attention) form(nest);
    for (int i = 0; i < int(program_.ops.size()); ++i)
      if (!layouts_.window[i] && group_of_[i] < 0) place(i);
    return sorted();
  }

 private:
  /// The operator that fills the storage behind a value; -1 for leaves.
  int producer_op(ValueId value) const { return producer_[layouts_.of[value].buffer]; }

  void form(const FusedAttention& nest) {
    std::set<int> ops;
    for (ValueId value : nest.values()) ops.insert(producer_[value]);
    if (!can_be_written(nest, program_, layouts_) || comes_back(ops)) return;
    Group group;
    group.kind = Group::Kind::attention;
    group.attention = nest;
    std::map<ValueId, int> member_of;
    for (int op : ops) {
      Member member;
      member.op = op;
      for (const Operand& operand : program_.ops[op].inputs) {
        auto inside = member_of.find(operand.value);
        member.source.push_back(inside == member_of.end() ? -1 : inside->second);
      }
      ValueId result = program_.ops[op].result;
      bool product = std::count(nest.products.begin(), nest.products.end(), result) > 0 ||
                     std::count(nest.sums.begin(), nest.sums.end(), result) > 0;
      member.role = product                                          ? Role::accumulate
                    : result == nest.maximum || result == nest.total ? Role::row
                                                                     : Role::element;
      member_of[result] = int(group.members.size());
      group.members.push_back(member);
      group_of_[op] = int(groups_.size());
    }
    groups_.push_back(std::move(group));
  }

  /// Whether a path leads out of a set of operators and back into it: then they cannot run as one.
  bool comes_back(const std::set<int>& ops) const {
    std::vector<int> pending;
    std::set<int> seen;
    auto follow = [&](int op) {
      for (int next : followers(op))
        if (next <= *ops.rbegin() && seen.insert(next).second) pending.push_back(next);
    };
    for (int op : ops)
      for (int next : followers(op))
        if (!ops.count(next) && seen.insert(next).second) pending.push_back(next);
    while (!pending.empty()) {
      int at = pending.back();
      pending.pop_back();
      if (ops.count(at)) return true;
      follow(at);
    }
    return false;
  }

  void place(int op) {
    groups_.push_back(single(program_, layouts_, op));
    group_of_[op] = int(groups_.size()) - 1;
    if (groups_.back().kind != Group::Kind::loops) return;
    HETSYNTH_CHECK(assign_roles(groups_.back(), program_, options_), "an operator alone always has a nest");
    for (const Operand& operand : program_.ops[op].inputs) {
      int producer = producer_[operand.value];
      if (producer >= 0 && !layouts_.window[producer]) try_join(group_of_[producer], group_of_[op]);
    }
  }

  void try_join(int producer, int consumer) {
    if (producer == consumer || section(producer) != section(consumer)) return;
    std::optional<Group> joined = join(groups_[producer], groups_[consumer], program_, options_);
    if (!joined || reaches_through_others(producer, consumer)) return;
    for (const Member& member : joined->members) group_of_[member.op] = consumer;
    groups_[consumer] = std::move(*joined);
    groups_[producer].members.clear();
  }

  struct Section {
    int stretch, phase;
    bool operator==(const Section&) const = default;
  };
  Section section(int group) const { return section_[groups_[group].op()]; }

  /// Whether a path leads from one group to the other through a third: then the two cannot run as one.
  bool reaches_through_others(int from, int to) const {
    int last = groups_[to].members.back().op;
    std::vector<int> pending{from};
    std::set<int> seen{from};
    while (!pending.empty()) {
      int at = pending.back();
      pending.pop_back();
      for (const Member& member : groups_[at].members)
        for (int next_op : followers(member.op)) {
          int next = group_of_[next_op];
          if (next < 0 || next == at) continue;
          if (next == to && at != from) return true;
          if (next != to && groups_[next].members.front().op <= last && seen.insert(next).second)
            pending.push_back(next);
        }
    }
    return false;
  }

  const std::vector<int>& followers(int op) const { return readers_[op]; }

  /// Topological order that stays as close to the program's as the groups allow. Stretches follow each other: nothing
  /// needs what comes in a later one.
  std::vector<Group> sorted() {
    std::vector<std::set<int>> successors(groups_.size());
    std::vector<int> missing(groups_.size(), 0);
    for (int i = 0; i < int(program_.ops.size()); ++i)
      for (int next : followers(i)) {
        int from = group_of_[i], to = group_of_[next];
        if (from >= 0 && to >= 0 && from != to && successors[from].insert(to).second) ++missing[to];
      }
    using Entry = std::tuple<int, int, int>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
    auto offer = [&](int g) { ready.push({section(g).stretch, groups_[g].members.front().op, g}); };
    size_t alive = 0;
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g].members.empty()) continue;
      ++alive;
      if (missing[g] == 0) offer(int(g));
    }
    std::vector<Group> out;
    while (!ready.empty()) {
      int g = std::get<2>(ready.top());
      ready.pop();
      for (int next : successors[g])
        if (--missing[next] == 0) offer(next);
      mark_stored(groups_[g]);
      out.push_back(std::move(groups_[g]));
    }
    HETSYNTH_CHECK(out.size() == alive, "groups form no cycle");
    return out;
  }

  void mark_stored(Group& group) const {
    std::set<int> inside;
    for (const Member& member : group.members) inside.insert(member.op);
    for (Member& member : group.members) {
      ValueId value = program_.ops[member.op].result;
      bool wanted = member.role == Role::accumulate || program_.pinned[value];
      for (int reader : readers_[member.op]) wanted = wanted || !inside.count(reader);
      member.stored = wanted;
    }
  }

  const LocalProgram& program_;
  const Layouts& layouts_;
  const GroupingOptions& options_;
  std::vector<Group> groups_;
  std::vector<int> group_of_;
  std::vector<Section> section_;           ///< by operator
  std::vector<int> producer_;              ///< by value: operator, -1 for leaves
  std::vector<std::vector<int>> readers_;  ///< by operator: those that must come later
};

}  // namespace

std::vector<Group> group(const LocalProgram& program, const Layouts& layouts,
                         const std::vector<FusedAttention>& attention, const GroupingOptions& options) {
  return Grouper(program, layouts, options).run(attention);
}

}  // namespace hetsynth::codegen
