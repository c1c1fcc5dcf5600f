#include "codegen/fit.h"

#include <fmt/format.h>

#include <optional>

#include "codegen/passes/access.h"

namespace hetsynth::codegen {
namespace {

using Ranges = std::vector<Range>;

std::string text(const Range& range) { return fmt::format("{} to {}", range.lo, range.hi); }

/// The checks of one rank's instructions. Each returns why something does not fit; empty if it does.
class Fit {
 public:
  Fit(const Program& reference, const SpmdProgram& program, int rank)
      : reference_(reference), program_(program), rank_(rank) {}

  std::string run() const {
    for (const Instruction& i : program_.instructions) {
      if (!takes_part(program_, i, rank_)) continue;
      if (std::string why = i.opcode == Opcode::compute ? computes(i) : moves(i); !why.empty())
        return fmt::format("{} of {}: {}", name(i.opcode), name_of(i.result), why);
    }
    return results();
  }

 private:
  const Node& node(ValueId value) const { return reference_[program_.values[size_t(value)].node]; }
  const std::string& name_of(ValueId value) const { return program_.values[size_t(value)].name; }
  bool held(ValueId value) const { return holds(program_.mesh, program_.values[size_t(value)].placements, rank_); }
  Ranges ranges(ValueId value) const {
    return local_ranges(program_, program_.values[size_t(value)].placements, node(value).type.shape, rank_);
  }

  std::string same_type(ValueId value, NodeId wanted) const {
    if (node(value).type == reference_[wanted].type) return "";
    return fmt::format("{} is a {}, {} a {}", name_of(value), hetsynth::text(node(value).type), reference_[wanted].name,
                       hetsynth::text(reference_[wanted].type));
  }

  std::string computes(const Instruction& i) const {
    const Node& node = reference_[i.node];
    const Ranges factors = factor_ranges(program_, node.space, i.splits, rank_);
    const int64_t turns = node.loop >= 0 ? reference_.loops[size_t(node.loop)].turns : 1;
    if (std::string why = same_type(i.result, i.node); !why.empty()) return why;
    for (size_t j = 0; j < i.operands.size(); ++j) {
      if (std::string why = same_type(i.operands[j], node.inputs[j]); !why.empty()) return why;
      if (!mentions_input(node.body, int(j))) continue;
      if (std::string why = reaches(i.operands[j], node.space.inputs[j], factors, turns); !why.empty()) return why;
    }
    return reaches(i.result, node.space.output, factors, turns);
  }

  /// All elements that factors within these ranges name must be held, as far as the tensor has them.
  std::string reaches(ValueId value, const Access& access, const Ranges& factors, int64_t turns) const {
    if (part_elements(factors) == 0) return "";
    if (!held(value)) return fmt::format("{} lies on another stage", name_of(value));
    const Ranges part = ranges(value);
    const Access here = normalise(access, factors);
    for (size_t d = 0; d < part.size(); ++d) {
      Bounds named = bounds(here.dims[d], factors);
      named.lo += std::min<int64_t>(0, here.dims[d].per_turn * (turns - 1));
      named.hi += std::max<int64_t>(0, here.dims[d].per_turn * (turns - 1));
      Range wanted{named.lo, named.hi + 1};
      if (access.zero_outside) wanted = common(wanted, {0, node(value).type.shape[d]});
      if (wanted.lo < wanted.hi && (wanted.lo < part[d].lo || wanted.hi > part[d].hi))
        return fmt::format("elements {} of dimension {} of {} are asked for, of which rank {} holds {}", text(wanted),
                           d, name_of(value), rank_, text(part[d]));
    }
    return "";
  }

  /// What the rank holds of the operand, and of the result, must be what the instruction takes and gives.
  std::string moves(const Instruction& i) const {
    const ValueId from = i.operands[0];
    if (std::string why = same_type(i.result, program_.values[size_t(from)].node); !why.empty()) return why;
    if (!held(from) || !held(i.result)) return "";
    const Ranges source = ranges(from), target = ranges(i.result);
    for (size_t d = 0; d < source.size(); ++d) {
      const bool local = i.opcode == Opcode::slice || i.opcode == Opcode::to_partial;
      const bool fits = local ? common(target[d], source[d]) == target[d] || target[d].lo >= target[d].hi
                              : length(target[d]) == moved(i, d, length(source[d]), source[d], target[d]);
      if (!fits)
        return fmt::format("of dimension {} rank {} holds {} before and {} after it", d, rank_, text(source[d]),
                           text(target[d]));
    }
    return "";
  }

  static int64_t length(const Range& range) { return range.hi - range.lo; }

  /// So many elements a dimension has behind the instruction; -1: it cannot begin with what the rank holds.
  int64_t moved(const Instruction& i, size_t d, int64_t before, const Range& source, const Range& target) const {
    const size_t at = size_t(program_.mesh.coordinate(rank_, i.axis));
    const int64_t extent = node(i.result).type.shape[d];
    const auto cut = [&](int table) { return bounds_in_elements(program_, table, extent, rank_); };
    const auto share = [&](const std::vector<int64_t>& bounds) { return bounds[at + 1] - bounds[at]; };
    const bool along = i.dim == int(d);
    switch (i.opcode) {
      case Opcode::all_gather:
        if (!along) break;
        return before == share(cut(i.table)) ? cut(i.table).back() : -1;
      case Opcode::reduce_scatter:
        if (!along) break;
        return before == cut(i.table).back() ? share(cut(i.table)) : -1;
      case Opcode::all_to_all:
        if (along) return before == share(cut(i.table)) ? cut(i.table).back() : -1;
        if (i.to_dim != int(d)) break;
        return before == cut(i.to_table).back() ? share(cut(i.to_table)) : -1;
      case Opcode::halo_exchange:
        if (!along) break;
        return before == share(cut(i.table)) && target == with_halo(source, i.before, i.after, extent) ? length(target)
                                                                                                       : -1;
      default:
        break;
    }
    return before;
  }

  std::string replaces(ValueId old, ValueId value) const {
    if (std::string why = same_type(value, program_.values[size_t(old)].node); !why.empty()) return why;
    if (ranges(old) == ranges(value) && held(old) == held(value)) return "";
    return fmt::format("{} takes the place of {}, of which rank {} holds another part", name_of(value), name_of(old),
                       rank_);
  }

  std::string results() const {
    for (const auto& [target, value] : program_.finals)
      for (ValueId leaf : program_.leaves)
        if (program_.values[size_t(leaf)].node == target)
          if (std::string why = replaces(leaf, value); !why.empty()) return why;
    for (const auto& [carry, value] : program_.carried)
      for (const Instruction& i : program_.instructions)
        if (i.opcode == Opcode::compute && i.node == carry)
          if (std::string why = replaces(i.result, value); !why.empty()) return why;
    return program_.loss >= 0 ? same_type(program_.loss, reference_.loss) : "";
  }

  const Program& reference_;
  const SpmdProgram& program_;
  int rank_;
};

}  // namespace

std::string why_not_generated(const Program& reference, const SpmdProgram& program, int rank) {
  return Fit(reference, program, rank).run();
}

}  // namespace hetsynth::codegen
