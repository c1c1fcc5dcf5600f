#include "dsl/spmd/migration.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "dsl/base/error.h"

namespace hetsynth {
namespace {

using Box = std::vector<Range>;

/// What is left of a box without a part of it: at most two boxes for each dimension.
std::vector<Box> without(Box box, const Box& part) {
  std::vector<Box> out;
  for (size_t d = 0; d < box.size(); ++d) {
    for (const Range side : {Range{box[d].lo, part[d].lo}, Range{part[d].hi, box[d].hi}}) {
      if (side.lo >= side.hi) continue;
      out.push_back(box);
      out.back()[d] = side;
    }
    box[d] = part[d];
  }
  return out;
}

/// A rank of the old program with what it holds of a tensor.
struct Owner {
  int rank;
  Box box;
};

/// Deals out one tensor after the other.
class Dealer {
 public:
  Dealer(const Program& reference, const SpmdProgram& old_program, const SpmdProgram& new_program,
         const std::vector<int>& old_hosts, const std::vector<int>& new_hosts, Migration& out)
      : reference_(reference),
        old_(old_program),
        new_(new_program),
        old_hosts_(old_hosts),
        new_hosts_(new_hosts),
        sent_(size_t(old_program.mesh.device_count()), 0),
        out_(out) {}

  void deal(NodeId node) {
    const ValueId before = leaf_of(old_, node), after = leaf_of(new_, node);
    if (after < 0) return;
    const Node& tensor = reference_[node];
    if (before < 0 && is_constant_data(tensor)) return;  // the new program brings it along
    HETSYNTH_CHECK(before >= 0, "both programs hold " + tensor.name);
    std::vector<Owner> owners;
    for (int rank = 0; rank < old_.mesh.device_count(); ++rank)
      if (const Placements& at = old_.values[size_t(before)].placements; holds(old_.mesh, at, rank))
        owners.push_back({rank, local_ranges(old_, at, tensor.type.shape, rank)});
    for (int rank = 0; rank < new_.mesh.device_count(); ++rank)
      if (const Placements& at = new_.values[size_t(after)].placements; holds(new_.mesh, at, rank))
        fill(node, rank, local_ranges(new_, at, tensor.type.shape, rank), owners);
  }

 private:
  /// The rank's own device first, then its host, then whoever has sent least.
  void fill(NodeId node, int to, const Box& whole, std::vector<Owner> owners) {
    std::ranges::stable_sort(owners, {}, [&](const Owner& owner) {
      const bool own = out_.was[size_t(to)] == owner.rank;
      const bool near = old_hosts_[size_t(owner.rank)] == new_hosts_[size_t(to)];
      return std::pair(own ? 0 : near ? 1 : 2, sent_[size_t(owner.rank)]);
    });
    std::vector<Box> missing;
    if (part_elements(whole) > 0) missing.push_back(whole);
    for (const Owner& owner : owners) {
      std::vector<Box> left;
      for (const Box& box : missing) {
        Box shared;
        for (size_t d = 0; d < box.size(); ++d) shared.push_back(common(box[d], owner.box[d]));
        if (part_elements(shared) == 0) {
          left.push_back(box);
          continue;
        }
        out_.moves.push_back({node, owner.rank, to, shared});
        if (out_.was[size_t(to)] != owner.rank) sent_[size_t(owner.rank)] += part_elements(shared);
        std::ranges::move(without(box, shared), std::back_inserter(left));
      }
      missing = std::move(left);
      if (missing.empty()) return;
    }
    HETSYNTH_CHECK(missing.empty(), "somebody holds each part of " + reference_[node].name);
  }

  const Program& reference_;
  const SpmdProgram &old_, &new_;
  const std::vector<int>&old_hosts_, &new_hosts_;
  std::vector<int64_t> sent_;  ///< elements, by rank of the old program
  Migration& out_;
};

}  // namespace

bool is_kept(const Node& node) { return node.kind == NodeKind::parameter || node.kind == NodeKind::state; }

ValueId leaf_of(const SpmdProgram& program, NodeId node) {
  const auto found =
      std::ranges::find_if(program.leaves, [&](ValueId leaf) { return program.values[size_t(leaf)].node == node; });
  return found == program.leaves.end() ? -1 : *found;
}

Migration migration_between(const Program& reference, const SpmdProgram& old_program, const SpmdProgram& new_program,
                            std::vector<int> was, const std::vector<int>& old_hosts,
                            const std::vector<int>& new_hosts) {
  Migration out{std::move(was), {}};
  Dealer dealer(reference, old_program, new_program, old_hosts, new_hosts, out);
  for (const Node& node : reference.nodes)
    if (is_kept(node)) dealer.deal(node.id);
  return out;
}

std::vector<int> ranks_that_were(const std::vector<std::string>& old_devices,
                                 const std::vector<std::string>& new_devices) {
  std::vector<int> out;
  for (const std::string& device : new_devices) {
    const auto at = std::ranges::find(old_devices, device);
    out.push_back(at == old_devices.end() ? -1 : int(at - old_devices.begin()));
  }
  return out;
}

std::vector<NodeId> renumbering(const Program& from, const Program& to) {
  std::map<std::string, NodeId> by_name;
  for (const Node& node : to.nodes)
    if (is_kept(node) && !is_constant_data(node)) by_name[node.name] = node.id;
  std::vector<NodeId> out(from.nodes.size(), -1);
  for (const Node& node : from.nodes) {
    const auto found = is_kept(node) && !is_constant_data(node) ? by_name.find(node.name) : by_name.end();
    if (found == by_name.end()) continue;
    const Node& other = to[found->second];
    if (!(other.type == node.type))
      throw UserError({.where = other.where,
                       .tag = std::string(other.tag()),
                       .message = fmt::format("{} has another shape than in training", node.name),
                       .expected = text(node.type),
                       .found = text(other.type),
                       .mend = "let shapes of parameters depend neither on the batch nor on what is evaluated"});
    out[size_t(node.id)] = found->second;
  }
  return out;
}

SpmdProgram renumbered(const SpmdProgram& program, const Program& from, const Program& to) {
  const std::vector<NodeId> numbers = renumbering(from, to);
  SpmdProgram out;
  out.mesh = program.mesh;
  out.tables = program.tables;
  for (const ValueId leaf : program.leaves) {
    out.leaves.push_back(ValueId(out.values.size()));
    out.values.push_back(program.values[size_t(leaf)]);
    out.values.back().node = numbers[size_t(out.values.back().node)];
  }
  return out;
}

int64_t moved_bytes(const Program& reference, const Migration& migration) {
  int64_t out = 0;
  for (const TensorMove& move : migration.moves)
    if (migration.was[size_t(move.to)] != move.from)
      out += part_elements(move.ranges) * size_bytes(reference[move.node].type.dtype);
  return out;
}

std::string text(const Program& reference, NodeId node, const std::vector<Range>& ranges) {
  std::vector<std::string> parts;
  for (const Range& range : ranges) parts.push_back(fmt::format("{}:{}", range.lo, range.hi));
  return fmt::format("{}[{}]", reference[node].name, fmt::join(parts, ", "));
}

}  // namespace hetsynth
