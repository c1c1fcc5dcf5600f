#include "dsl/ops/support/turn_operators.h"

#include <fmt/format.h>

#include <algorithm>

#include "dsl/base/error.h"
#include "dsl/ir/loops.h"
#include "dsl/ops/support/spaces.h"

namespace hetsynth {
namespace {

std::string position_text(const TurnPosition& p) {
  return fmt::format("dim {} at {}{:+}@", p.dim, p.offset, p.per_turn);
}

/// An operator that moves elements and computes nothing.
class Move : public Operator {
 public:
  Expr body(std::span<const TensorType>, const TensorType&) const override { return Expr::input(0); }
  std::vector<Tensor> vjp(const VjpArguments&) const override {
    throw InternalError(fmt::format("{} is differentiated with its loop", tag()));
  }
};

/// The same elements: a carry, a copy of what is carried, or what is left behind a loop.
class Same final : public Move {
 public:
  explicit Same(std::string_view tag) : tag_(tag) {}
  std::string_view tag() const override { return tag_; }
  TensorType infer(std::span<const TensorType> inputs) const override { return inputs[0]; }
  Space space(std::span<const TensorType>, const TensorType& output) const override {
    Space space = space_of_result(output);
    space.inputs = {space.output};
    return space;
  }
  std::vector<Tensor> vjp(const VjpArguments& v) const override {
    return tag_ == "carry" ? Move::vjp(v) : std::vector<Tensor>{v.output_gradient};
  }

 private:
  std::string_view tag_;
};

class AtTurn final : public Move {
 public:
  explicit AtTurn(const TurnPosition& position) : position(position) {}
  std::string_view tag() const override { return "at_turn"; }
  std::string attributes() const override { return position_text(position); }
  TensorType infer(std::span<const TensorType> inputs) const override {
    TensorType out = inputs[0];
    out.shape.erase(out.shape.begin() + position.dim);
    return out;
  }
  Space space(std::span<const TensorType>, const TensorType& output) const override {
    Space space = space_of_result(output);
    space.inputs = {space.output};
    space.inputs[0].dims.insert(space.inputs[0].dims.begin() + position.dim,
                                DimIndex{.offset = position.offset, .per_turn = position.per_turn});
    return space;
  }

  const TurnPosition position;
};

class Stack final : public Move {
 public:
  Stack(const TurnPosition& position, int64_t turns) : position(position), turns_(turns) {}
  std::string_view tag() const override { return "stack"; }
  std::string attributes() const override { return fmt::format("{} of {}", position_text(position), turns_); }
  TensorType infer(std::span<const TensorType> inputs) const override {
    TensorType out = inputs[0];
    out.shape.insert(out.shape.begin() + position.dim, turns_);
    return out;
  }
  Space space(std::span<const TensorType> inputs, const TensorType&) const override {
    Space space = space_of_result(inputs[0]);
    space.inputs = {space.output};
    space.output.dims.insert(space.output.dims.begin() + position.dim,
                             DimIndex{.offset = position.offset, .per_turn = position.per_turn});
    return space;
  }

  const TurnPosition position;

 private:
  int64_t turns_;
};

class InsertDimension final : public Move {
 public:
  explicit InsertDimension(int dim) : dim_(dim) {}
  std::string_view tag() const override { return "insert_dimension"; }
  std::string attributes() const override { return fmt::format("dim {}", dim_); }
  TensorType infer(std::span<const TensorType> inputs) const override {
    TensorType out = inputs[0];
    out.shape.insert(out.shape.begin() + dim_, 1);
    return out;
  }
  Space space(std::span<const TensorType> inputs, const TensorType&) const override {
    Space space = space_of_result(inputs[0]);
    space.inputs = {space.output};
    space.output.dims.insert(space.output.dims.begin() + dim_, DimIndex{});
    return space;
  }

 private:
  int dim_;
};

class JoinTurns final : public Move {
 public:
  explicit JoinTurns(int dim) : dim_(dim) {}
  std::string_view tag() const override { return "join_turns"; }
  std::string attributes() const override { return fmt::format("dim {}", dim_); }
  TensorType infer(std::span<const TensorType> inputs) const override {
    TensorType out = inputs[0];
    out.shape[size_t(dim_)] = int64_t(inputs.size());
    return out;
  }
  Space space(std::span<const TensorType> inputs, const TensorType& output) const override {
    Space space = space_of_result(output);
    for (size_t turn = 0; turn < inputs.size(); ++turn) {
      space.inputs.push_back(space.output);
      space.inputs.back().zero_outside = true;
      space.inputs.back().dims[size_t(dim_)].offset = -int64_t(turn);
    }
    return space;
  }
  /// Every element lies in one of the tensors; the others read 0 there.
  Expr body(std::span<const TensorType> inputs, const TensorType&) const override {
    Expr total = Expr::input(0);
    for (size_t j = 1; j < inputs.size(); ++j) total = total + Expr::input(int(j));
    return total;
  }

 private:
  int dim_;
};

const std::source_location nowhere;

}  // namespace

LoopScope::LoopScope(int64_t turns) : loop_(int(Trace::current().program.loops.size())) {
  Trace& trace = Trace::current();
  HETSYNTH_CHECK(trace.loop < 0 && turns > 0, "loops do not nest, and have a turn");
  trace.program.loops.push_back({turns, {}});
  trace.loop = loop_;
}

LoopScope::LoopScope(Reopened which) : loop_(which.loop) {
  HETSYNTH_CHECK(Trace::current().loop < 0, "loops do not nest");
  Trace::current().loop = loop_;
}

void LoopScope::close() {
  if (!open_) return;
  open_ = false;
  Trace& trace = Trace::current();
  trace.loop = -1;
  hoist_invariants(trace.program, loop_);
}

Tensor LoopScope::carry(Tensor initial) {
  Tensor carry = emit(std::make_shared<Same>("carry"), {initial}, nowhere);
  Trace::current().program.loops[size_t(loop_)].carries.push_back({carry.node(), -1});
  return carry;
}

Tensor LoopScope::next(Tensor carry, Tensor value) {
  Trace& trace = Trace::current();
  auto& carries = trace.program.loops[size_t(loop_)].carries;
  bool taken = trace.program[value.node()].loop != loop_ || stacked_dim(trace.program[value.node()].space) >= 0;
  for (const TurnLoop::Carry& c : carries) taken = taken || c.carry == value.node() || c.next == value.node();
  if (taken) value = emit(std::make_shared<Same>("copy"), {value}, nowhere);
  auto own = std::find_if(carries.begin(), carries.end(), [&](const auto& c) { return c.carry == carry.node(); });
  HETSYNTH_CHECK(own != carries.end() && own->next < 0, "a carry of this loop, once");
  own->next = value.node();
  return value;
}

Tensor at_turn(Tensor x, const TurnPosition& position) {
  return emit(std::make_shared<AtTurn>(position), {x}, nowhere);
}

Tensor stack_turns(Tensor value, const TurnPosition& position, int64_t turns) {
  return emit(std::make_shared<Stack>(position, turns), {value}, nowhere);
}

Tensor after_last_turn(Tensor value) { return emit(std::make_shared<Same>("last"), {value}, nowhere); }

const TurnPosition* slice_position(const Node& node) {
  auto op = dynamic_cast<const AtTurn*>(node.op.get());
  return op ? &op->position : nullptr;
}

const TurnPosition* stack_position(const Node& node) {
  auto op = dynamic_cast<const Stack*>(node.op.get());
  return op ? &op->position : nullptr;
}

std::shared_ptr<const Operator> at_turn_operator(const TurnPosition& position) {
  return std::make_shared<AtTurn>(position);
}
std::shared_ptr<const Operator> carry_operator() { return std::make_shared<Same>("carry"); }
std::shared_ptr<const Operator> last_operator() { return std::make_shared<Same>("last"); }
std::shared_ptr<const Operator> insert_dimension(int dim) { return std::make_shared<InsertDimension>(dim); }
std::shared_ptr<const Operator> join_turns(int dim) { return std::make_shared<JoinTurns>(dim); }

}  // namespace hetsynth
