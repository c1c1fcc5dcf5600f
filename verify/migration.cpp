#include "verify/migration.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

namespace hetsynth {
namespace {

using Box = std::vector<Range>;

bool inside(const Box& part, const Box& whole) {
  return part.size() == whole.size() && std::ranges::equal(part, whole, [](const Range& a, const Range& b) {
           return a.lo >= b.lo && a.hi <= b.hi && a.lo < a.hi;
         });
}

bool overlap(const Box& a, const Box& b) {
  return std::ranges::equal(a, b, [](const Range& x, const Range& y) { return x.lo < y.hi && y.lo < x.hi; });
}

/// What a rank of a program holds of a parameter or state; none: nothing.
std::optional<Box> held(const Program& reference, const SpmdProgram& program, NodeId node, int rank) {
  const ValueId leaf = leaf_of(program, node);
  if (leaf < 0) return std::nullopt;
  const Placements& placements = program.values[size_t(leaf)].placements;
  if (!holds(program.mesh, placements, rank)) return std::nullopt;
  return local_ranges(program, placements, reference[node].type.shape, rank);
}

/// Whether some axis holds summands of the tensor, of which no part is the tensor's.
bool is_partial(const SpmdProgram& program, NodeId node) {
  return std::ranges::any_of(program.values[size_t(leaf_of(program, node))].placements,
                             [](const Placement& at) { return at.kind == Placement::Kind::partial; });
}

std::string flaw_of_move(const Program& reference, const SpmdProgram& old_program, const SpmdProgram& new_program,
                         const TensorMove& move) {
  if (move.node < 0 || size_t(move.node) >= reference.nodes.size() || !is_kept(reference[move.node]))
    return fmt::format("node {} is no parameter or state, and nothing of it is kept from step to step", move.node);
  const std::string what = text(reference, move.node, move.ranges);
  if (move.from < 0 || move.from >= old_program.mesh.device_count())
    return fmt::format("{} comes from rank {}, which the old program has not", what, move.from);
  if (move.to < 0 || move.to >= new_program.mesh.device_count())
    return fmt::format("{} goes to rank {}, which the new program has not", what, move.to);
  const std::optional<Box> source = held(reference, old_program, move.node, move.from);
  if (!source || !inside(move.ranges, *source))
    return fmt::format("{} comes from rank {}, which holds {}", what, move.from,
                       source ? text(reference, move.node, *source) : "nothing of it");
  const std::optional<Box> target = held(reference, new_program, move.node, move.to);
  if (!target || !inside(move.ranges, *target))
    return fmt::format("{} goes to rank {}, which will hold {}", what, move.to,
                       target ? text(reference, move.node, *target) : "nothing of it");
  return "";
}

/// Of the moves of one tensor to one rank. They lie inside of `whole`.
std::string flaw_of_coverage(const Program& reference, NodeId node, int to, const Box& whole,
                             const std::vector<const TensorMove*>& moves) {
  int64_t elements = 0;
  for (const TensorMove* move : moves) elements += part_elements(move->ranges);
  for (size_t i = 0; i < moves.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (overlap(moves[i]->ranges, moves[j]->ranges))
        return fmt::format("rank {} gets a part of {} twice: {} from rank {} and {} from rank {}", to,
                           reference[node].name, text(reference, node, moves[j]->ranges), moves[j]->from,
                           text(reference, node, moves[i]->ranges), moves[i]->from);
  if (elements == part_elements(whole)) return "";
  return fmt::format("rank {} will hold {}, {} elements, and gets {} of them", to, text(reference, node, whole),
                     part_elements(whole), elements);
}

}  // namespace

std::string flaw_of_migration(const Program& reference, const SpmdProgram& old_program, const SpmdProgram& new_program,
                              const Migration& migration) {
  std::map<std::pair<NodeId, int>, std::vector<const TensorMove*>> by_target;
  for (const TensorMove& move : migration.moves) {
    if (std::string flaw = flaw_of_move(reference, old_program, new_program, move); !flaw.empty()) return flaw;
    by_target[{move.node, move.to}].push_back(&move);
  }
  for (const Node& node : reference.nodes) {
    if (!is_kept(node) || leaf_of(new_program, node.id) < 0) continue;
    if (is_constant_data(node) && leaf_of(old_program, node.id) < 0) continue;  // the new program brings it along
    for (const SpmdProgram* program : {&old_program, &new_program})
      if (leaf_of(*program, node.id) >= 0 && is_partial(*program, node.id))
        return fmt::format("{} is held as summands, which are no parts of it", node.name);
    for (int rank = 0; rank < new_program.mesh.device_count(); ++rank) {
      const std::optional<Box> whole = held(reference, new_program, node.id, rank);
      if (!whole) continue;
      if (std::string flaw = flaw_of_coverage(reference, node.id, rank, *whole, by_target[{node.id, rank}]);
          !flaw.empty())
        return flaw;
    }
  }
  return "";
}

}  // namespace hetsynth
