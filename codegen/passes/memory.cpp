#include "codegen/passes/memory.h"

#include <algorithm>
#include <map>

#include "codegen/passes/places.h"

namespace hetsynth::codegen {
namespace {

constexpr int64_t alignment = 64;

int64_t aligned(int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

/// Address in terms of the group's loops.
std::optional<std::vector<int64_t>> over_loops(const Address& address, const Member& member, size_t loops) {
  if (!address.affine() || address.per_turn != 0) return std::nullopt;
  std::vector<int64_t> out(loops + 1, 0);
  out[loops] = address.constant;
  for (size_t f = 0; f < address.coefficients.size(); ++f) {
    if (address.coefficients[f] == 0) continue;
    if (member.loop[f] < 0) return std::nullopt;
    out[member.loop[f]] += address.coefficients[f];
  }
  return out;
}

bool runs_in_row(const Member& m) { return m.role == Role::element || m.role == Role::row_reduce || m.over_inner; }

class MemoryPlanner {
 public:
  MemoryPlanner(const LocalProgram& program, const std::vector<Group>& groups, Layouts& layouts,
                const std::vector<int>& bucket_of)
      : program_(program), groups_(groups), layouts_(layouts), bucket_of_(bucket_of) {}

  MemoryPlan run(const std::vector<ValueId>& taken_over, const LeafPlaces* places) {
    index();
    for (const ValueId value : taken_over) follow_in_place(value);
    for (const auto& [target, value] : program_.finals) settle_final(target, value);
    for (const LocalLoop& loop : program_.loops)
      for (const auto& [carry, next] : loop.carried)
        if (can_overwrite(carry, next)) overwrite(carry, next);
    if (!bucket_of_.empty()) plan_.bundles = bundles(program_, groups_, layouts_, bucket_of_);
    find_turns();
    place_leaves(places);
    place_temporaries();
    resolve_windows();
    return std::move(plan_);
  }

 private:
  struct Live {
    ValueId buffer;
    Lifetime time;  ///< in groups
  };

  int64_t bytes_of(ValueId v) const {
    return aligned(program_.values[v].count() * size_bytes(program_.values[v].type.dtype));
  }

  /// What settling asks for by value and by buffer, so that it takes no longer for a parameter of a long program.
  void index() {
    groups_of_.resize(program_.values.size());
    values_in_.resize(program_.values.size());
    is_output_.assign(program_.values.size(), false);
    is_final_.assign(program_.values.size(), false);
    for (int g = 0; g < int(groups_.size()); ++g)
      for (const Member& member : groups_[size_t(g)].members) {
        const LocalOp& op = program_.ops[member.op];
        groups_of_[op.result].push_back(g);
        for (const Operand& operand : op.inputs) groups_of_[operand.value].push_back(g);
      }
    for (ValueId v = 0; v < ValueId(layouts_.of.size()); ++v) values_in_[layouts_.of[v].buffer].push_back(v);
    for (ValueId leaf : program_.leaves) leaf_of_[program_.values[leaf].node] = leaf;
    for (const auto& output : program_.outputs) is_output_[output.second] = true;
    for (const auto& final : program_.finals) is_final_[final.second] = true;
  }

  void settle_final(NodeId target, ValueId value) {
    const ValueId leaf = leaf_of_.at(target);
    if (leaf == value) return;
    if (!can_overwrite(leaf, value)) {
      plan_.copies.push_back({value, leaf});
      return;
    }
    overwrite(leaf, value);
  }

  /// What a turn adds to lies where the sum so far was: what that is follows from the operator, which may read it under
  /// another name.
  void follow_in_place(ValueId after) {
    for (const int g : groups_of_[after])
      for (const Member& member : groups_[size_t(g)].members) {
        const LocalOp& op = program_.ops[member.op];
        if (op.result != after || op.inputs.empty()) continue;
        const ValueId buffer = layouts_.of[op.inputs[0].value].buffer;
        const bool leaf = std::ranges::count(program_.leaves, buffer) > 0;
        const bool own = buffer != after && layouts_.of[after].buffer == after;
        const bool alike = bytes_of(buffer) == bytes_of(after) &&
                           program_.values[buffer].type.dtype == program_.values[after].type.dtype;
        if (leaf || !own || !alike) return;
        if (!groups_of_[buffer].empty() && can_overwrite(buffer, after, -1)) overwrite(buffer, after);
        return;
      }
  }

  /// The value lies where the other one was, which nothing reads any more.
  void overwrite(ValueId old, ValueId value) {
    for (ValueId v : values_in_[value]) {
      layouts_.of[v].buffer = old;
      values_in_[old].push_back(v);
    }
    values_in_[value].clear();
  }

  /// Groups that make the value or read the leaf, in order of execution.
  std::vector<int> groups_concerned(ValueId leaf, ValueId value) const {
    std::vector<int> out = groups_of_[value];
    for (ValueId v : values_in_[leaf]) out.insert(out.end(), groups_of_[v].begin(), groups_of_[v].end());
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
  }

  bool can_overwrite(ValueId leaf, ValueId value) const { return can_overwrite(leaf, value, leaf); }
  /// `held`: the value that the buffer holds before; -1: one or the other, at the same addresses.
  bool can_overwrite(ValueId leaf, ValueId value, ValueId held) const {
    for (ValueId v : values_in_[leaf])
      if (is_output_[v] || (is_final_[v] && v != value)) return false;
    bool written = false;
    for (int g : groups_concerned(leaf, value)) {
      const Group& group = groups_[size_t(g)];
      const Member* writer = nullptr;
      for (const Member& member : group.members)
        if (program_.ops[member.op].result == value) writer = &member;
      if (!writer && travels_with(group, value)) return false;
      bool in_place = writer && group.kind == Group::Kind::loops;
      for (const Member& reader : group.members)
        for (size_t j = 0; j < program_.ops[reader.op].inputs.size(); ++j) {
          if (layouts_.of[program_.ops[reader.op].inputs[j].value].buffer != leaf) continue;
          if (written || (writer && !(in_place && reads_before(group, reader, int(j), *writer, held)))) return false;
        }
      written = written || writer;
    }
    return written;
  }

  /// Whether the group is a collective that goes together with the one that makes the value: neither comes first.
  bool travels_with(const Group& group, ValueId value) const {
    return !bucket_of_.empty() && bucket_of_[value] >= 0 && group.kind == Group::Kind::collective &&
           bucket_of_[program_.ops[group.op()].result] == bucket_of_[value];
  }

  /// Whether the reader takes each element before the writer overwrites it, at the same point of the nest.
  bool reads_before(const Group& group, const Member& reader, int input, const Member& writer, ValueId leaf) const {
    const LocalOp& op = program_.ops[reader.op];
    bool ordered = reader.level <= writer.level && reader.op <= writer.op && runs_in_row(reader) == runs_in_row(writer);
    if (writer.role == Role::accumulate || op.inputs[input].access.zero_outside) return false;
    if (!ordered || (leaf >= 0 && op.inputs[input].value != leaf)) return false;
    auto read = over_loops(layouts_.read(op, input), reader, group.loops.size());
    auto written = over_loops(layouts_.written(program_.ops[writer.op]), writer, group.loops.size());
    return read && written && *read == *written;
  }

  void place_leaves(const LeafPlaces* places) {
    plan_.offset_bytes.assign(program_.values.size(), -1);
    if (places) plan_.arena_bytes = aligned(places->end_bytes);
    for (ValueId leaf : program_.leaves) {
      if (places && places->offset_bytes.contains(program_.values[leaf].node)) {
        plan_.offset_bytes[leaf] = places->offset_bytes.at(program_.values[leaf].node);
        continue;
      }
      plan_.offset_bytes[leaf] = plan_.arena_bytes;
      plan_.arena_bytes += bytes_of(leaf);
    }
  }

  /// Groups [first, last] run in every turn of a loop.
  struct Turns {
    int loop, first, last;
  };

  void find_turns() {
    loop_of_.assign(program_.values.size(), -1);
    lasting_.assign(program_.values.size(), false);
    for (const LocalOp& op : program_.ops) {
      loop_of_[op.result] = op.loop;
      lasting_[op.result] = op.keeps || follows_turn(op.output);
    }
    for (int at = 0; at < int(groups_.size()); ++at) {
      const int loop = program_.ops[groups_[at].op()].loop;
      if (loop < 0) continue;
      if (!turns_.empty() && turns_.back().loop == loop)
        turns_.back().last = at;
      else
        turns_.push_back({loop, at, at});
    }
  }

  const Turns* turns_around(int at) const {
    for (const Turns& turns : turns_)
      if (turns.first <= at && at <= turns.last) return &turns;
    return nullptr;
  }

  /// Whether the contents outlive a turn: what the loop does not make itself, fills turn by turn, or hands on.
  bool crosses_turns(ValueId buffer, int loop) const { return loop_of_[buffer] != loop || lasting_[buffer]; }

  std::vector<Live> lifetimes() const {
    std::map<ValueId, Live> live;
    auto touch = [&](ValueId value, int at) {
      ValueId buffer = layouts_.of[value].buffer;
      if (plan_.offset_bytes[buffer] >= 0) return;
      auto [entry, fresh] = live.insert({buffer, {buffer, {bytes_of(buffer), at, at}}});
      Lifetime& time = entry->second.time;
      time.last = std::max(time.last, at);
      const Turns* turns = turns_around(at);
      if (!turns || !crosses_turns(buffer, turns->loop)) return;
      time.first = std::min(time.first, turns->first);
      time.last = std::max(time.last, turns->last);
    };
    int end = int(groups_.size());
    for (int at = 0; at < end; ++at)
      for (const Member& member : groups_[at].members) {
        const LocalOp& op = program_.ops[member.op];
        bool always = groups_[at].kind != Group::Kind::loops && groups_[at].kind != Group::Kind::attention;
        if (always || member.stored) touch(op.result, at);
        for (size_t j = 0; j < op.inputs.size(); ++j)
          if (member.source.empty() || member.source[j] < 0) touch(op.inputs[j].value, at);
      }
    // Until a bundle is waited for, its operands and results keep their places.
    for (const Bundle& bundle : plan_.bundles)
      for (const int group : bundle.groups) {
        const LocalOp& op = program_.ops[groups_[size_t(group)].op()];
        touch(op.result, bundle.ends_before - 1);
        for (const Operand& operand : op.inputs) touch(operand.value, bundle.ends_before - 1);
      }
    for (const auto& output : program_.outputs) touch(output.second, end);
    if (program_.loss >= 0) touch(program_.loss, end);
    for (const MemoryPlan::Copy& copy : plan_.copies) touch(copy.from, end);
    std::vector<Live> out;
    for (const auto& entry : live) out.push_back(entry.second);
    return out;
  }

  void place_temporaries() {
    const std::vector<Live> lives = lifetimes();
    std::vector<Lifetime> times;
    for (const Live& live : lives) times.push_back(live.time);
    const Places places = place(times);
    for (size_t i = 0; i < lives.size(); ++i)
      plan_.offset_bytes[lives[i].buffer] = plan_.arena_bytes + places.offset_bytes[i];
    plan_.arena_bytes += places.bytes;
  }

  void resolve_windows() {
    for (size_t v = 0; v < program_.values.size(); ++v) {
      const Layout& layout = layouts_.of[v];
      if (layout.buffer == ValueId(v) || plan_.offset_bytes[layout.buffer] < 0) continue;
      plan_.offset_bytes[v] =
          plan_.offset_bytes[layout.buffer] + layout.offset * size_bytes(program_.values[v].type.dtype);
    }
  }

  const LocalProgram& program_;
  const std::vector<Group>& groups_;
  Layouts& layouts_;
  const std::vector<int>& bucket_of_;            ///< by value
  std::vector<std::vector<int>> groups_of_;      ///< by value: those that make or read it
  std::vector<std::vector<ValueId>> values_in_;  ///< by buffer
  std::map<NodeId, ValueId> leaf_of_;
  std::vector<bool> is_output_, is_final_;  ///< by value
  std::vector<Turns> turns_;
  std::vector<int> loop_of_;   ///< by value: in which it is made
  std::vector<bool> lasting_;  ///< by value
  MemoryPlan plan_;
};

}  // namespace

MemoryPlan plan_memory(const LocalProgram& program, const std::vector<Group>& groups, Layouts& layouts,
                       const std::vector<int>& bucket_of, const std::vector<ValueId>& taken_over,
                       const LeafPlaces* places) {
  return MemoryPlanner(program, groups, layouts, bucket_of).run(taken_over, places);
}

}  // namespace hetsynth::codegen
