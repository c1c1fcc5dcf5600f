#include "dsl/transform/unroll.h"

#include <fmt/format.h>

#include "dsl/ir/loops.h"
#include "dsl/ops/support/turn_operators.h"
#include "dsl/transform/set_operator.h"

namespace hetsynth {
namespace {

/// An operator as it is in one turn.
class InTurn final : public Operator {
 public:
  InTurn(std::shared_ptr<const Operator> op, int64_t turn) : op_(std::move(op)), turn_(turn) {}
  std::string_view tag() const override { return op_->tag(); }
  std::string attributes() const override { return fmt::format("{} turn {}", op_->attributes(), turn_); }
  TensorType infer(std::span<const TensorType> inputs) const override { return op_->infer(inputs); }
  Space space(std::span<const TensorType> inputs, const TensorType& output) const override {
    return in_turn(op_->space(inputs, output), turn_);
  }
  Expr body(std::span<const TensorType> inputs, const TensorType& output) const override {
    return op_->body(inputs, output);
  }
  std::vector<Tensor> vjp(const VjpArguments& v) const override { return op_->vjp(v); }

 private:
  std::shared_ptr<const Operator> op_;
  int64_t turn_;
};

class Unroller {
 public:
  explicit Unroller(const Program& program)
      : in_(program), now_(program.nodes.size(), -1), copies_(program.nodes.size()), parts_(program.nodes.size()) {}

  Unrolling run() {
    out_.model_file = in_.model_file;
    out_.options = in_.options;
    const std::vector<NodeId> order = execution_order(in_);
    for (size_t i = 0; i < order.size();) {
      const int loop = in_[order[i]].loop;
      size_t end = i + 1;
      while (loop >= 0 && end < order.size() && in_[order[end]].loop == loop) ++end;
      if (loop < 0)
        copies_[order[i]] = {copy(in_[order[i]], "").id};
      else
        turns(loop, {order.begin() + long(i), order.begin() + long(end)});
      i = end;
    }
    if (in_.loss >= 0) out_.loss = now_[in_.loss];
    for (const Update& u : in_.updates) out_.updates.push_back({now_[u.target], now_[u.value]});
    for (const NamedOutput& o : in_.outputs) out_.outputs.push_back({o.name, now_[o.node], o.metric});
    return {std::move(out_), std::move(copies_), std::move(parts_)};
  }

 private:
  Node& copy(const Node& node, const std::string& suffix) {
    Node made = node;
    made.id = now_[node.id] = int(out_.nodes.size());
    made.loop = -1;
    made.name += suffix;
    for (NodeId& input : made.inputs) input = now_[input];
    out_.nodes.push_back(std::move(made));
    return out_.nodes.back();
  }

  void turns(int number, const std::vector<NodeId>& nodes) {
    const TurnLoop& loop = in_.loops[size_t(number)];
    std::vector<std::vector<NodeId>> parts(in_.nodes.size());  // by stack: its part of each turn
    for (int64_t turn = 0; turn < loop.turns; ++turn) {
      for (NodeId id : nodes) {
        const Node& node = in_[id];
        if (stacked_dim(node.space) >= 0) {
          parts[id].push_back(now_[node.inputs[0]]);
        } else if (in_.next_of(id) < 0 || turn == 0) {
          Node& made = copy(node, fmt::format("[{}]", turn));
          if (!follows_turn(node.space)) continue;
          made.op = std::make_shared<InTurn>(node.op, turn);
          made.space = in_turn(node.space, turn);
        }
      }
      for (NodeId id : nodes) copies_[id].push_back(now_[id]);
      std::vector<NodeId> carried;  // all at once: one carry may take over another
      for (const TurnLoop::Carry& c : loop.carries) carried.push_back(now_[c.next]);
      for (size_t c = 0; c < carried.size(); ++c)
        if (turn + 1 < loop.turns) now_[loop.carries[c].carry] = carried[c];
    }
    for (NodeId id : nodes)
      if (stacked_dim(in_[id].space) >= 0) join(in_[id], parts[id]);
  }

  void join(const Node& stack, const std::vector<NodeId>& parts) {
    const DimIndex& index = stack.space.output.dims[size_t(stacked_dim(stack.space))];
    std::vector<NodeId> by_position(parts.size());
    for (size_t turn = 0; turn < parts.size(); ++turn)
      by_position[size_t(index.offset + index.per_turn * int64_t(turn))] = parts[turn];
    const int dim = stacked_dim(stack.space);
    for (size_t position = 0; position < by_position.size(); ++position)
      by_position[position] =
          append(stack, fmt::format("{}[{}]", stack.name, position), insert_dimension(dim), {by_position[position]});
    for (size_t turn = 0; turn < parts.size(); ++turn)
      parts_[stack.id].push_back(by_position[size_t(index.offset + index.per_turn * int64_t(turn))]);
    now_[stack.id] = append(stack, stack.name, join_turns(dim), by_position);
    copies_[stack.id] = {now_[stack.id]};
  }

  NodeId append(const Node& like, const std::string& name, std::shared_ptr<const Operator> op,
                const std::vector<NodeId>& inputs) {
    Node made = like;
    made.id = int(out_.nodes.size());
    made.loop = -1;
    made.name = name;
    made.inputs = inputs;
    set_operator(made, std::move(op), out_);
    out_.nodes.push_back(std::move(made));
    return out_.nodes.back().id;
  }

  const Program& in_;
  Program out_;
  std::vector<NodeId> now_;  ///< by node: its copy of the current turn
  std::vector<std::vector<NodeId>> copies_, parts_;
};

}  // namespace

Program unrolled(const Program& program) { return program.loops.empty() ? program : Unroller(program).run().program; }

Unrolling unroll(const Program& program) { return Unroller(program).run(); }

}  // namespace hetsynth
