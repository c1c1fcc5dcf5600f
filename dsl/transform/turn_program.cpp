#include "dsl/transform/turn_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "dsl/base/error.h"
#include "dsl/base/unique_name.h"
#include "dsl/ir/loops.h"
#include "dsl/ops/support/pointwise.h"
#include "dsl/ops/support/turn_operators.h"
#include "dsl/transform/set_operator.h"

namespace hetsynth {
namespace {

using Kind = TurnPlacement::Kind;

/// An operator's part of one turn: the same loops, one of them shorter.
class PartOfTurn final : public Operator {
 public:
  PartOfTurn(const Node& whole, TensorType type, Space space, std::string cut)
      : op_(whole.op), body_(whole.body), type_(std::move(type)), space_(std::move(space)), cut_(std::move(cut)) {}
  std::string_view tag() const override { return op_->tag(); }
  std::string attributes() const override {
    return fmt::format("{}{}{}", op_->attributes(), op_->attributes().empty() ? "" : " ", cut_);
  }
  TensorType infer(std::span<const TensorType>) const override { return type_; }
  Space space(std::span<const TensorType>, const TensorType&) const override { return space_; }
  Expr body(std::span<const TensorType>, const TensorType&) const override { return body_; }
  std::vector<Tensor> vjp(const VjpArguments&) const override {
    throw InternalError("a step is taken in turns after it was differentiated");
  }

 private:
  std::shared_ptr<const Operator> op_;
  Expr body_;
  TensorType type_;
  Space space_;
  std::string cut_;
};

/// Writes the step with a loop over the turns. What is computed of samples is written once for the loop and, if the
/// last turn stands apart, once behind it.
class Writing {
 public:
  Writing(const Program& whole, const PlacedInTurns& placed, TurnCount count)
      : in_(whole), placed_(placed), count_(count), once_(whole.nodes.size(), -1) {
    for (const Node& node : whole.nodes) names_.insert(node.name);
  }

  Program run() {
    out_.model_file = in_.model_file;
    out_.options = in_.options;
    out_.options.push_back({"turns", text(count_), "turns in which a step is taken, each with its part of the batch"});
    find_readers();
    // In the order in which they run: what samples read, the loop, the last turn, what follows from complete sums.
    if (std::ranges::count(placed_.early, true) > 0) write_early();
    out_.loops.push_back({count_.turns - (count_.last_apart ? 1 : 0), {}, true});
    Turn loop{.loop = int(out_.loops.size()) - 1, .position = {.dim = 0}, .suffix = ""};
    for (const Node& node : in_.nodes) write_before(node, loop);
    if (count_.last_apart) {
      Turn last{.loop = -1, .position = {.dim = 0, .offset = count_.turns - 1, .per_turn = 0}, .suffix = ".last"};
      for (const Node& node : in_.nodes) write_in(node, last);
    }
    for (const Node& node : in_.nodes)
      if (is_whole(node.id) && placed_.after[node.id]) write_whole(node);
    if (in_.loss >= 0) out_.loss = complete(in_.loss);
    for (const Update& u : in_.updates) out_.updates.push_back({once_[u.target], complete(u.value)});
    for (const NamedOutput& o : in_.outputs)
      if (placement(o.node).kind != Kind::sharded) out_.outputs.push_back({o.name, complete(o.node), o.metric});
    // Nodes stand behind their operands, so a chain of them is taken out from its beginning on.
    for (int number = 0; number < int(out_.loops.size()); ++number) hoist_invariants(out_, number);
    return simplify(out_);
  }

 private:
  /// What is written of a turn: that of the loop, or the last one.
  struct Turn {
    int loop;  ///< of the program; -1: none
    TurnPosition position;
    std::string suffix;
    std::map<NodeId, NodeId> parts = {};                           ///< by node
    std::map<std::pair<NodeId, int>, NodeId> parts_of_whole = {};  ///< of what all turns have, by dimension
  };

  const TurnPlacement& placement(NodeId id) const { return placed_.placements[size_t(id)]; }
  bool is_whole(NodeId id) const { return placement(id).kind == Kind::replicated; }
  bool is_sum(NodeId id) const { return placement(id).kind == Kind::partial; }

  /// Which sums are read complete: by what is no summand itself, and by the end of the step.
  void find_readers() {
    completed_.assign(in_.nodes.size(), false);
    for (const Node& node : in_.nodes) {
      const bool adds = is_sum(node.id) && placement(node.id).factor < 0;
      for (NodeId input : node.inputs)
        if (is_sum(input) && !adds) completed_[input] = true;
    }
    if (in_.loss >= 0 && is_sum(in_.loss)) completed_[in_.loss] = true;
    for (const Update& u : in_.updates)
      if (is_sum(u.value)) completed_[u.value] = true;
    for (const NamedOutput& o : in_.outputs)
      if (is_sum(o.node)) completed_[o.node] = true;
  }

  /// Sums that are read beside samples, in a loop over all turns before the others.
  void write_early() {
    out_.loops.push_back({count_.turns, {}, true});
    Turn turn{.loop = 0, .position = {.dim = 0}, .suffix = ".early"};
    for (const Node& node : in_.nodes)
      if (placed_.early[node.id]) write_before(node, turn);
  }

  void write_before(const Node& node, Turn& turn) {
    if (is_whole(node.id)) {
      if (placed_.after[node.id]) return;
      if (once_[node.id] < 0) write_whole(node);
    } else if (node.leaf() && !inputs_.contains(node.id)) {
      write_input(node);
    }
    write_in(node, turn);
  }

  void write_whole(const Node& node) {
    Node copy = node;
    for (NodeId& input : copy.inputs) input = complete(input);
    once_[node.id] = append(std::move(copy));
  }

  /// [samples, ...] becomes [turns, samples of a turn, ...].
  void write_input(const Node& node) {
    Node leaf = node;
    leaf.type.shape[0] /= count_.turns;
    leaf.type.shape.insert(leaf.type.shape.begin(), count_.turns);
    leaf.micro_batch.turns = count_.turns;
    inputs_[node.id] = append(std::move(leaf));
  }

  /// What a turn has of a tensor.
  void write_in(const Node& node, Turn& turn) {
    const TurnPlacement& placed = placement(node.id);
    if (is_whole(node.id)) {
      for (int dim = 0; dim < int(node.type.shape.size()); ++dim)
        if (const auto part = placed_.parts.find({node.id, dim}); part != placed_.parts.end())
          turn.parts_of_whole[{node.id, dim}] = write_part(node, part->second, ".turn", turn);
      return;
    }
    if (node.leaf()) {
      turn.parts[node.id] = append_op(node, node.name + ".turn" + turn.suffix, at_turn_operator(turn.position),
                                      {inputs_.at(node.id)}, turn.loop);
      return;
    }
    turn.parts[node.id] = write_part(node, placed.factor, "", turn);
    if (!completed_[node.id] || (once_[node.id] >= 0 && placed_.early[node.id])) return;
    if (turn.loop >= 0)
      sum_up(node, turn);
    else
      once_[node.id] =
          append_op(node, node.name + ".complete", sum_of_two(), {once_[node.id], turn.parts[node.id]}, -1);
  }

  /// The operator's part of a turn; factor -1: all of it, over the turn's summands.
  NodeId write_part(const Node& node, int factor, const std::string& suffix, const Turn& turn) {
    std::vector<NodeId> inputs;
    for (size_t j = 0; j < node.inputs.size(); ++j) inputs.push_back(operand(node, j, factor, turn));
    TensorType type = node.type;
    Space space = node.space;
    std::string cut = fmt::format("of {} turns", count_.turns);
    if (factor >= 0) {
      const std::optional<FactorCut> shown = cut_of(node.space, node.space.output, node.type.shape, factor);
      space.factors[size_t(factor)].size /= count_.turns;
      if (shown) type.shape[size_t(shown->dim)] /= count_.turns;
      cut = fmt::format("{} {}", space.factors[size_t(factor)].name, cut);
    }
    if (mentions(node.body, ExprKind::random)) {
      const int64_t draws = element_count(type.shape);
      space.first_draw = draws * turn.position.offset;
      space.draws_per_turn = draws * turn.position.per_turn;
      if (turn.loop < 0) cut += ", the last";
    }
    return append_op(node, node.name + suffix + turn.suffix, std::make_shared<PartOfTurn>(node, type, space, cut),
                     inputs, turn.loop);
  }

  NodeId operand(const Node& node, size_t j, int factor, const Turn& turn) const {
    const NodeId input = node.inputs[j];
    if (placement(input).kind == Kind::sharded || (is_sum(input) && factor < 0)) return turn.parts.at(input);
    if (is_sum(input)) return complete(input);
    if (factor < 0 || !mentions_factor(node.space.inputs[j], factor)) return once_[input];
    const auto cut = cut_of(node.space, node.space.inputs[j], in_[input].type.shape, factor);
    return turn.parts_of_whole.at({input, cut->dim});
  }

  static std::shared_ptr<const Operator> sum_of_two() {
    return pointwise_operator({.tag = "add", .body = Expr::input(0) + Expr::input(1)});
  }

  /// Zeros, then in every turn what there is so far and the turn's summand; what the loop's last turn leaves is its
  /// sum.
  void sum_up(const Node& node, const Turn& turn) {
    Node zero = node;
    zero.phase = Phase::forward;
    const auto zeros = pointwise_operator({.tag = "constant", .body = 0.0, .shape = node.type.shape});
    const NodeId none = append_op(zero, node.name + ".none", zeros, {}, -1);
    const NodeId carry = append_op(node, node.name + ".so_far", carry_operator(), {none}, turn.loop);
    const NodeId next = append_op(node, node.name + ".sum", sum_of_two(), {carry, turn.parts.at(node.id)}, turn.loop);
    out_.loops[size_t(turn.loop)].carries.push_back({carry, next});
    once_[node.id] = append_op(node, node.name + ".total", last_operator(), {next}, -1);
  }

  NodeId complete(NodeId id) const {
    HETSYNTH_CHECK(once_[id] >= 0, "what is read once is known once");
    return once_[id];
  }

  NodeId append(Node node) {
    node.id = NodeId(out_.nodes.size());
    out_.nodes.push_back(std::move(node));
    return out_.nodes.back().id;
  }

  NodeId append_op(const Node& like, const std::string& name, std::shared_ptr<const Operator> op,
                   const std::vector<NodeId>& inputs, int loop) {
    Node made = like;
    made.kind = NodeKind::operation;
    made.data = {};
    made.micro_batch = {};
    made.loop = loop;
    made.inputs = inputs;
    made.name = name == like.name ? name : unique_name(names_, name);
    set_operator(made, std::move(op), out_);
    return append(std::move(made));
  }

  const Program& in_;
  const PlacedInTurns& placed_;
  const TurnCount count_;
  Program out_;
  std::vector<NodeId> once_;         ///< by node: itself, or its complete sum; -1: none
  std::map<NodeId, NodeId> inputs_;  ///< by input: the leaf of all turns
  std::vector<bool> completed_;
  std::set<std::string> names_;
};

}  // namespace

Program program_in_turns(const Program& whole, const PlacedInTurns& placed, TurnCount count) {
  return Writing(whole, placed, count).run();
}

}  // namespace hetsynth
