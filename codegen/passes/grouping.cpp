#include "codegen/passes/grouping.h"

#include <algorithm>
#include <map>
#include <queue>
#include <set>
#include <tuple>

#include "codegen/passes/roles.h"
#include "codegen/passes/sections.h"
#include "dsl/base/error.h"

namespace hetsynth::codegen {
namespace {

class Grouper {
 public:
  Grouper(const LocalProgram& program, const Layouts& layouts, const GroupingOptions& options)
      : program_(program),
        layouts_(layouts),
        options_(options),
        group_of_(program.ops.size(), -1),
        section_(sections(program)) {
    producer_.assign(program.values.size(), -1);
    readers_.resize(program.ops.size());
    for (int i = 0; i < int(program.ops.size()); ++i) producer_[program.ops[i].result] = i;
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
    if (producer == consumer || section(producer) != section(consumer) || reads_window(producer, consumer)) return;
    std::optional<Group> joined = join(groups_[producer], groups_[consumer], program_, options_);
    if (!joined || (made_again(groups_[producer]) && keeps_longer(groups_[producer], *joined)) ||
        reaches_through_others(producer, consumer))
      return;
    for (const Member& member : joined->members) group_of_[member.op] = consumer;
    groups_[consumer] = std::move(*joined);
    groups_[producer].members.clear();
  }

  /// Whether a member of the consumer reads what the producer makes through a window: elsewhere in it than where the
  /// nest would be just then, so perhaps before it is made.
  bool reads_window(int producer, int consumer) const {
    return std::ranges::any_of(groups_[consumer].members, [&](const Member& member) {
      return std::ranges::any_of(program_.ops[member.op].inputs, [&](const Operand& operand) {
        const int made = producer_op(operand.value);
        return made >= 0 && group_of_[made] == producer && layouts_.of[operand.value].buffer != operand.value;
      });
    });
  }

  /// Whether it is there because memory is short.
  bool made_again(const Group& group) const {
    return std::ranges::any_of(group.members, [&](const Member& m) { return program_.ops[m.op].again; });
  }

  /// Whether running the producer with its consumer keeps more than it spares: what only the producer reads is still
  /// there while the consumer's results are made, and of the producer's own results only those go that nothing else
  /// reads.
  bool keeps_longer(const Group& producer, const Group& joined) const {
    const std::set<int> alone = members_of(producer), together = members_of(joined);
    int64_t kept = 0, spared = 0;
    std::set<int> read;
    for (int op : alone) {
      if (wanted_outside(op, alone) && !wanted_outside(op, together)) spared += bytes_of(op);
      for (const Operand& operand : program_.ops[op].inputs)
        if (int made = producer_op(operand.value); made >= 0 && !alone.count(made)) read.insert(made);
    }
    for (int made : read)
      if (!wanted_outside(made, alone)) kept += bytes_of(made);
    return kept > spared;
  }

  static std::set<int> members_of(const Group& group) {
    std::set<int> ops;
    for (const Member& member : group.members) ops.insert(member.op);
    return ops;
  }

  /// Whether something but these operators reads the result.
  bool wanted_outside(int op, const std::set<int>& ops) const {
    return program_.pinned[program_.ops[op].result] ||
           std::ranges::any_of(readers_[op], [&](int reader) { return !ops.count(reader); });
  }

  /// Of the whole tensor: the same on all ranks.
  int64_t bytes_of(int op) const {
    const TensorType& type = program_.values[program_.ops[op].result].type;
    return element_count(type.shape) * size_bytes(type.dtype);
  }

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
    const std::set<int> inside = members_of(group);
    for (Member& member : group.members)
      member.stored = member.role == Role::accumulate || wanted_outside(member.op, inside);
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
