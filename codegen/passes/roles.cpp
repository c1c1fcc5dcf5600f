#include "codegen/passes/roles.h"

#include <algorithm>
#include <set>
#include <unordered_map>

namespace hetsynth::codegen {
namespace {

/// Loops a member runs over, split by whether they index its result.
struct LoopSets {
  std::set<int> kept, reduced;
  std::set<int> all() const {
    std::set<int> out = kept;
    out.insert(reduced.begin(), reduced.end());
    return out;
  }
};

LoopSets loop_sets(const Member& member, const LocalOp& op) {
  LoopSets sets;
  for (size_t f = 0; f < member.loop.size(); ++f)
    if (member.loop[f] >= 0) (op.factors[f].reduced() ? sets.reduced : sets.kept).insert(member.loop[f]);
  return sets;
}

/// Terms of an index over group loops, or nullopt where it mentions a factor that no loop runs over.
std::optional<std::vector<IndexTerm>> over_loops(const DimIndex& index, const Member& member) {
  std::vector<IndexTerm> out;
  for (IndexTerm term : index.terms) {
    term.factor = member.loop[term.factor];
    if (term.factor < 0) return std::nullopt;
    out.push_back(term);
  }
  return out;
}

/// Whether the consumer reads, at each point of the nest, exactly the element the producer computes there; or, with a
/// looked-up factor, an element of the row that the producer computes.
enum class Reading { same_point, looked_up, other };

Reading reading(const Member& consumer, const LocalOp& reader, int input, const Member& producer, const LocalOp& writer,
                int inner) {
  const Access& read = reader.inputs[input].access;
  const Access& written = writer.output;
  if (read.zero_outside) return Reading::other;
  Reading result = Reading::same_point;
  for (size_t d = 0; d < read.dims.size(); ++d) {
    auto wanted = over_loops(written.dims[d], producer);
    bool same_start =
        read.dims[d].offset == written.dims[d].offset && read.dims[d].per_turn == written.dims[d].per_turn;
    if (!wanted || !same_start) return Reading::other;
    auto found = over_loops(read.dims[d], consumer);
    if (found) {
      if (*found != *wanted) return Reading::other;
      continue;
    }
    const std::vector<IndexTerm>& terms = read.dims[d].terms;
    bool plain =
        terms.size() == 1 && terms[0] == IndexTerm{reader.looked_up()} && *wanted == std::vector{IndexTerm{inner}};
    if (!plain || result == Reading::looked_up) return Reading::other;
    result = Reading::looked_up;
  }
  return result;
}

bool find_sources(Group& group, const LocalProgram& program) {
  int inner = int(group.loops.size()) - 1;
  std::unordered_map<ValueId, int> made_by;  // of the members so far
  for (size_t m = 0; m < group.members.size(); ++m) {
    Member& member = group.members[m];
    const LocalOp& op = program.ops[member.op];
    member.source.assign(op.inputs.size(), -1);
    for (size_t j = 0; j < op.inputs.size(); ++j) {
      const auto made = made_by.find(op.inputs[j].value);
      if (made == made_by.end()) continue;
      const Member& producer = group.members[size_t(made->second)];
      const LocalOp& writer = program.ops[producer.op];
      Reading how = reading(member, op, int(j), producer, writer, inner);
      bool picks = how == Reading::looked_up && op.one_hot->operand != int(j) && writer.extent(op.looked_up()) >= 0;
      if (how != Reading::same_point && !picks) return false;
      member.source[j] = made->second;
    }
    made_by[op.result] = int(m);
  }
  return true;
}

bool looks_up(const LocalOp& op, int input) {
  return op.one_hot && mentions_factor(op.inputs[input].access, op.one_hot->factor);
}

std::optional<Role> role_of(const Member& member, const LocalOp& op, const std::set<int>& rows,
                            const std::set<int>& all) {
  LoopSets sets = loop_sets(member, op);
  bool reduces = !sets.reduced.empty() || (op.reduction() && op.one_hot && !op.factors[op.looked_up()].reduced());
  if (!reduces) {
    if (sets.kept == all) return Role::element;
    if (sets.kept == rows) return Role::row;
    return std::nullopt;
  }
  bool scatters = op.one_hot && !op.factors[op.looked_up()].reduced();
  bool over_inner_only =
      sets.reduced.size() == 1 && all.size() == rows.size() + 1 && *sets.reduced.begin() == int(rows.size());
  if (!scatters && sets.kept == rows && over_inner_only) return Role::row_reduce;
  if (sets.all() == all || sets.all() == rows) return Role::accumulate;
  return std::nullopt;
}

}  // namespace

bool needs_own_row(const Member& member, const LocalOp& op, int inner) {
  bool reduces_row =
      member.role == Role::row_reduce || (member.over_inner && loop_sets(member, op).reduced.count(inner) > 0);
  return reduces_row && op.body.kind() != ExprKind::input;
}

bool assign_roles(Group& group, const LocalProgram& program, const GroupingOptions& options) {
  if (!find_sources(group, program)) return false;
  std::set<int> all, rows;
  for (int l = 0; l < int(group.loops.size()); ++l) {
    all.insert(l);
    if (l + 1 < int(group.loops.size())) rows.insert(l);
  }
  group.passes = 0;
  std::set<int> buffered;  // members whose row outlives a pass
  for (Member& member : group.members) {
    const LocalOp& op = program.ops[member.op];
    std::optional<Role> role = role_of(member, op, rows, all);
    if (!role) return false;
    if (all.empty() && *role == Role::element) role = Role::row;
    member.role = *role;
    member.over_inner = member.role == Role::accumulate && !all.empty() && loop_sets(member, op).all() == all;
    bool in_row = member.role == Role::element || member.role == Role::row_reduce || member.over_inner;
    member.level = in_row ? 0 : -1;
    for (size_t j = 0; j < member.source.size(); ++j) {
      if (member.source[j] < 0) continue;
      const Member& producer = group.members[member.source[j]];
      if (producer.role == Role::accumulate) return false;
      bool picks = looks_up(op, int(j));
      if (picks && (producer.role != Role::element || in_row)) return false;
      if (!picks && !in_row && producer.role == Role::element) return false;
      int after_row_value = producer.role == Role::element ? producer.level : producer.level + 1;
      member.level = std::max(member.level, in_row ? after_row_value : producer.level);
      if (picks) buffered.insert(member.source[j]);
    }
    if (in_row) group.passes = std::max(group.passes, member.level + 1);
  }
  for (int m = 0; m < int(group.members.size()); ++m)
    if (needs_own_row(group.members[m], program.ops[group.members[m].op], int(group.loops.size()) - 1))
      buffered.insert(m);
  for (const Member& member : group.members)
    for (int p : member.source)
      if (p >= 0 && group.members[p].role == Role::element &&
          (group.members[p].level < member.level || member.role == Role::row_reduce))
        buffered.insert(p);
  if (group.loops.empty()) return true;
  int64_t row = group.loops.back().extent();
  bool several = group.passes > 1 || std::any_of(group.members.begin(), group.members.end(),
                                                 [](const Member& m) { return m.role == Role::row && m.level >= 0; });
  return !several || (row <= options.longest_row && row * 4 * int64_t(buffered.size()) <= options.row_bytes);
}

namespace {

/// Reads and writes that would jump through memory if this factor were the innermost loop.
int64_t jumps(const LocalOp& op, const Layouts& layouts, int factor) {
  auto jump = [&](const Address& a) { return std::abs(a.coefficients[factor]) > 1; };
  int64_t count = jump(layouts.written(op));
  for (size_t j = 0; j < op.inputs.size(); ++j) count += jump(layouts.read(op, int(j)));
  return count;
}

/// Whether results and a reduced factor move along one dimension of an operand together, as windows do in pooling.
bool slides_window(const LocalOp& op) {
  for (const Operand& operand : op.inputs)
    for (const DimIndex& dim : operand.access.dims) {
      bool kept = false, reduced = false;
      for (const IndexTerm& t : dim.terms) (op.factors[t.factor].reduced() ? reduced : kept) = true;
      if (kept && reduced) return true;
    }
  return false;
}

/// Factors in loop order: as they index the result, then the reduced ones; these go outside where that makes the inner
/// loop run over neighbouring elements. Windows are short: their loops run outside of a row of results.
std::vector<int> loop_order(const LocalOp& op, const Layouts& layouts) {
  std::vector<int> kept, reduced;
  auto looped = [&](int f) { return op.extent(f) != 1 && f != op.looked_up(); };
  for (const DimIndex& index : op.output.dims)
    for (const IndexTerm& term : index.terms)
      if (looped(term.factor) && !std::count(kept.begin(), kept.end(), term.factor)) kept.push_back(term.factor);
  for (int f = 0; f < int(op.factors.size()); ++f) {
    if (!looped(f) || std::count(kept.begin(), kept.end(), f)) continue;
    (op.factors[f].reduced() ? reduced : kept).push_back(f);
  }
  bool rows_inside =
      !kept.empty() && !reduced.empty() && slides_window(op) && op.extent(reduced.back()) < op.extent(kept.back());
  if (rows_inside) {
    kept.insert(kept.end() - 1, reduced.begin(), reduced.end());
    return kept;
  }
  bool reduced_outside = false;
  if (!kept.empty() && !reduced.empty()) {
    bool scatters = op.one_hot && !op.factors[op.looked_up()].reduced();
    reduced_outside = scatters || jumps(op, layouts, kept.back()) < jumps(op, layouts, reduced.back());
  }
  std::vector<int>& first = reduced_outside ? reduced : kept;
  const std::vector<int>& second = reduced_outside ? kept : reduced;
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

}  // namespace

Group single(const LocalProgram& program, const Layouts& layouts, int index) {
  const LocalOp& op = program.ops[index];
  Group group;
  Member member;
  member.op = index;
  if (op.collective) {
    group.kind = Group::Kind::collective;
  } else if (auto convolution = match_convolution(op, program, layouts)) {
    group.kind = Group::Kind::convolution;
    group.convolution = *convolution;
  } else if (auto product = match_contraction(op, layouts)) {
    group.kind = Group::Kind::product;
    group.product = *product;
  } else {
    member.loop.assign(op.factors.size(), -1);
    for (int f : loop_order(op, layouts)) {
      member.loop[f] = int(group.loops.size());
      group.loops.push_back({op.factors[f].name, op.ranges[f]});
    }
  }
  group.members.push_back(member);
  return group;
}

namespace {

/// Which producer loop each consumer loop is; -1 where nothing tells yet.
class LoopMatch {
 public:
  LoopMatch(const Group& producer, const Group& consumer, const LocalProgram& program)
      : producer_(producer), consumer_(consumer), to_(consumer.loops.size(), -1) {
    std::unordered_map<ValueId, const Member*> writers;
    for (const Member& writer : producer.members) writers[program.ops[writer.op].result] = &writer;
    for (const Member& reader : consumer.members)
      for (const Operand& operand : program.ops[reader.op].inputs)
        if (const auto writer = writers.find(operand.value); writer != writers.end())
          fits = fits && match(operand.access, reader, program.ops[writer->second->op].output, *writer->second);
    if (fits) match_rest();
  }

  bool fits = true;
  const std::vector<int>& map() const { return to_; }

 private:
  bool match(const Access& read, const Member& reader, const Access& written, const Member& writer) {
    for (size_t d = 0; d < read.dims.size(); ++d) {
      const std::vector<IndexTerm>& r = read.dims[d].terms;
      const std::vector<IndexTerm>& w = written.dims[d].terms;
      if (r.size() != w.size()) return false;
      for (size_t t = 0; t < r.size(); ++t) {
        int from = reader.loop[r[t].factor], to = writer.loop[w[t].factor];
        if (from < 0 || to < 0) continue;  // a looked-up factor; the roles decide
        if (!identify(from, to)) return false;
      }
    }
    return true;
  }

  bool identify(int from, int to) {
    if (to_[from] == to) return true;
    bool taken = std::count(to_.begin(), to_.end(), to) > 0;
    if (to_[from] >= 0 || taken || !(consumer_.loops[from].range == producer_.loops[to].range)) return false;
    to_[from] = to;
    return true;
  }

  /// Loops that no read ties together run side by side if they have the same range.
  void match_rest() {
    for (size_t from = 0; from < to_.size(); ++from)
      for (size_t to = 0; to < producer_.loops.size() && to_[from] < 0; ++to) identify(int(from), int(to));
  }

  const Group& producer_;
  const Group& consumer_;
  std::vector<int> to_;
};

Group merged(const Group& producer, const Group& consumer, const std::vector<int>& to) {
  Group out;
  bool all_known = std::count(to.begin(), to.end(), -1) == 0;
  // The side with more loops gives their order.
  std::vector<int> producer_loop(producer.loops.size()), consumer_loop = to;
  if (all_known) {
    out.loops = producer.loops;
    for (size_t l = 0; l < producer_loop.size(); ++l) producer_loop[l] = int(l);
  } else {
    out.loops = consumer.loops;
    for (size_t l = 0; l < to.size(); ++l) {
      consumer_loop[l] = int(l);
      if (to[l] >= 0) producer_loop[to[l]] = int(l);
    }
  }
  auto take = [&](const Group& from, const std::vector<int>& loops) {
    for (Member member : from.members) {
      for (int& loop : member.loop)
        if (loop >= 0) loop = loops[loop];
      out.members.push_back(member);
    }
  };
  take(producer, producer_loop);
  take(consumer, consumer_loop);
  std::sort(out.members.begin(), out.members.end(), [](const Member& a, const Member& b) { return a.op < b.op; });
  return out;
}

}  // namespace

std::optional<Group> join(const Group& producer, const Group& consumer, const LocalProgram& program,
                          const GroupingOptions& options) {
  bool loops = producer.kind == Group::Kind::loops && consumer.kind == Group::Kind::loops;
  if (!loops || producer.loops.empty() != consumer.loops.empty()) return std::nullopt;
  if (producer.members.size() + consumer.members.size() > options.most_members) return std::nullopt;
  LoopMatch match(producer, consumer, program);
  if (!match.fits) return std::nullopt;
  size_t known = match.map().size() - size_t(std::count(match.map().begin(), match.map().end(), -1));
  if (known != match.map().size() && known != producer.loops.size()) return std::nullopt;
  Group out = merged(producer, consumer, match.map());
  // Elements of both sides must follow the same innermost loop, or one of them would walk through memory crosswise.
  bool crosswise = known > 0 && known == match.map().size() && known == producer.loops.size() &&
                   match.map().back() != int(known) - 1;
  bool elements = std::any_of(consumer.members.begin(), consumer.members.end(),
                              [](const Member& m) { return m.role == Role::element; });
  if (crosswise && elements) return std::nullopt;
  if (!assign_roles(out, program, options)) return std::nullopt;
  return out;
}

}  // namespace hetsynth::codegen
