#include "dsl/ops/gating.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "dsl/ops/add.h"
#include "dsl/ops/cumsum.h"
#include "dsl/ops/div.h"
#include "dsl/ops/max.h"
#include "dsl/ops/mean.h"
#include "dsl/ops/mul.h"
#include "dsl/ops/neg.h"
#include "dsl/ops/pick.h"
#include "dsl/ops/reshape.h"
#include "dsl/ops/softmax.h"
#include "dsl/ops/sum.h"
#include "dsl/ops/support/pointwise.h"
#include "dsl/ops/support/shape_rules.h"
#include "dsl/ops/to_int.h"

namespace hetsynth {
namespace {

/// No logit is as low: stands for "not to be chosen".
constexpr double never = -1e30;

/// Inputs: logits [..., E], first choices [...]. The logits without those of the first choices.
PointwiseRule others_rule(int expert_dim) {
  return {.tag = "gate_others",
          .body = select(equal(Expr::input(1), Expr::factor(expert_dim)), Expr(never), Expr::input(0)),
          .lift = {0, 1},
          .integers = {1}};
}

/// Inputs: logits [..., E], the largest [...]. The lowest number among the experts with the largest logit, negated: a
/// maximum like any other, so the experts may be cut.
PointwiseRule expert_rule(int expert_dim, int64_t experts) {
  PointwiseRule rule{
      .tag = "gate_expert",
      .body = select(equal(Expr::input(0), Expr::input(1)), -Expr::factor(expert_dim), Expr(-double(experts - 1))),
      .lift = {0, 1},
      .reduce = FactorKind::max,
      .dims = {-1}};
  rule.vjp = [](const VjpArguments& v) { return std::vector<Tensor>(v.inputs.size()); };  // constant in pieces
  return rule;
}

/// The expert of every token, int32 [..., S].
Tensor choose(Tensor logits) {
  return to_int(-pointwise(expert_rule(logits.rank() - 1, logits.size(-1)), {logits, max(logits, -1)}));
}

/// The logits without those of the experts chosen.
Tensor others(Tensor logits, Tensor chosen) { return pointwise(others_rule(logits.rank() - 1), {logits, chosen}); }

/// Inputs: experts [..., 1, S'] and [..., S]. How many tokens before each one chose the same expert.
PointwiseRule earlier_rule(int token_dim) {
  const Expr earlier = select(less(Expr::factor(token_dim + 1), Expr::factor(token_dim)), Expr(1.0), Expr(0.0));
  return {.tag = "queue_place",
          .body = select(equal(Expr::input(0), Expr::input(1)), earlier, Expr(0.0)),
          .lift = {0, 1},
          .integers = {0, 1},
          .reduce = FactorKind::sum,
          .dims = {-1}};
}

/// Input: experts [..., S]. `share` for every token that chose an expert, [..., E].
PointwiseRule load_rule(const char* tag, Shape shape, int64_t experts, double share) {
  const int dim = int(shape.size());
  shape.push_back(experts);
  return {.tag = tag,
          .body = select(equal(Expr::input(0), Expr::factor(dim)), Expr(share), Expr(0.0)),
          .lift = {1},
          .integers = {0},
          .reduce = FactorKind::sum,
          .dims = {-2},
          .shape = shape};
}

/// Tokens by expert: of experts [..., S], [..., E].
Tensor queue_lengths(Tensor expert, int64_t experts) {
  return pointwise(load_rule("queue_length", expert.shape(), experts, 1), {expert});
}

/// Inputs: a number for each expert, [..., 1, E], and experts [..., S]. That of every token's expert, [..., S].
PointwiseRule of_expert_rule(int expert_dim) {
  return {.tag = "of_expert",
          .body = select(equal(Expr::input(1), Expr::factor(expert_dim)), Expr::input(0), Expr(0.0)),
          .lift = {0, 1},
          .integers = {1},
          .reduce = FactorKind::sum,
          .dims = {-1}};
}

/// How many tokens stand before each one in its expert's queue: those before it in the group with the same expert, and
/// all of which this expert is an `earlier` choice. Tokens are compared pair by pair within a block; what stands
/// in the blocks before is a running sum of the queues' lengths.
Tensor place(Tensor expert, const std::vector<Tensor>& earlier, int64_t experts) {
  const int64_t tokens = expert.size(-1), blocks = scan_blocks(tokens);
  Shape blocked = expert.shape(), pairs, lengths;
  blocked.back() = blocks;
  pairs = lengths = blocked;
  blocked.push_back(tokens / blocks);
  pairs.insert(pairs.end(), {1, tokens / blocks});
  lengths.insert(lengths.end(), {1, experts});
  Tensor parts = reshape(expert, blocked);
  Tensor out = pointwise(earlier_rule(parts.rank() - 1), {reshape(expert, pairs), parts});
  Tensor before;
  if (blocks > 1) before = cumsum(queue_lengths(parts, experts), -2, true);
  for (Tensor choice : earlier) {
    Shape one = expert.shape();
    one.back() = 1;
    one.push_back(experts);
    Tensor chosen = reshape(queue_lengths(choice, experts), one);
    before = before.defined() ? before + chosen : chosen;
  }
  if (before.defined()) out = out + pointwise(of_expert_rule(parts.rank()), {reshape(before, lengths), parts});
  return reshape(out, expert.shape());
}

/// Inputs: expert, place.
PointwiseRule slot_rule(int64_t capacity) {
  const Expr expert = Expr::input(0), place = Expr::input(1), limit = double(capacity);
  return {.tag = "queue_slot",
          .body = select(less(place, limit), expert * limit + place, Expr(-1.0)),
          .integers = {0, 1},
          .result = DType::i32};
}

Tensor balance_loss(Tensor probabilities, Tensor first) {
  const int64_t experts = probabilities.size(-1);
  Tensor load = pointwise(load_rule("expert_load", first.shape(), experts, 1 / double(first.size(-1))), {first});
  Tensor balance = load * mean(probabilities, -2);
  const double groups = double(element_count(load.shape())) / double(experts);
  return sum(balance) * (double(experts) / groups);
}

/// Places in a queue. Throws UserError if there is none.
int64_t capacity_of(const char* tag, Tensor logits, int64_t choices, double factor) {
  checked_call({logits}, [&] {
    require_dtype(tag, 0, {logits.shape(), logits.dtype()}, DType::f32);
    require_rank_at_least(tag, 0, {logits.shape(), logits.dtype()}, 2);
  });
  const int64_t tokens = logits.size(-2), experts = logits.size(-1);
  if (experts < choices)
    fail_call({.tag = tag,
               .message = "there are fewer experts than a token chooses",
               .expected = fmt::format("{} experts or more", choices),
               .found = text(logits.shape())},
              {logits});
  if (!(factor > 0 && factor < 1e9))
    fail_call({.tag = tag,
               .message = "the capacity factor is out of range",
               .expected = "more than 0",
               .found = fmt::format("{}", factor)},
              {logits});
  const auto places = int64_t(std::floor(double(choices) * factor * double(tokens) / double(experts)));
  if (places < 1)
    fail_call(
        {.tag = tag,
         .message = fmt::format("{} experts are more than the tokens' capacity allows", experts),
         .expected =
             fmt::format("at most {} experts: {} of them for each of {} tokens, times the capacity factor {}",
                         int64_t(std::floor(double(choices) * factor * double(tokens))), choices, tokens, factor),
         .found = fmt::format("queues of {:.3g} places", double(choices) * factor * double(tokens) / double(experts)),
         .mend = "use fewer experts, longer groups of tokens, or a larger capacity factor"},
        {logits});
  return std::min(places, tokens);
}

Tensor slot(Tensor expert, const std::vector<Tensor>& earlier, const Routing& routing) {
  return pointwise(slot_rule(routing.capacity), {expert, to_int(place(expert, earlier, routing.experts))});
}

/// Each token's experts, the most probable first.
std::vector<Tensor> choices_of(Tensor logits, int64_t choices) {
  std::vector<Tensor> out = {choose(logits)};
  while (int64_t(out.size()) < choices) out.push_back(choose(logits = others(logits, out.back())));
  return out;
}

}  // namespace

Routing top1_gating(Operand logits, double capacity_factor) {
  CallScope scope(logits.where);
  Tensor in = as_tensor(logits);
  Routing out;
  out.capacity = capacity_of("top1_gating", in, 1, capacity_factor);
  out.experts = in.size(-1);
  Tensor probabilities = softmax(in, -1), expert = choose(in);
  out.slots = {slot(expert, {}, out)};
  out.weights = {pick(probabilities, expert)};
  out.balance_loss = balance_loss(probabilities, expert);
  return out;
}

namespace {

/// k experts, whose probabilities are scaled to add up to 1.
Routing shared_gating(const char* tag, Tensor in, int64_t k, double capacity_factor) {
  Routing out;
  out.capacity = capacity_of(tag, in, k, capacity_factor);
  out.experts = in.size(-1);
  Tensor probabilities = softmax(in, -1), total;
  const std::vector<Tensor> experts = choices_of(in, k);
  for (size_t i = 0; i < experts.size(); ++i)
    out.slots.push_back(slot(experts[i], {experts.begin(), experts.begin() + long(i)}, out));
  for (Tensor expert : experts) {
    out.weights.push_back(pick(probabilities, expert));
    total = total.defined() ? total + out.weights.back() : out.weights.back();
  }
  for (Tensor& weight : out.weights) weight = weight / total;
  out.balance_loss = balance_loss(probabilities, experts[0]);
  return out;
}

}  // namespace

Routing top2_gating(Operand logits, double capacity_factor) {
  CallScope scope(logits.where);
  return shared_gating("top2_gating", as_tensor(logits), 2, capacity_factor);
}

Routing top_k_gating(Operand logits, int64_t k, double capacity_factor) {
  CallScope scope(logits.where);
  Tensor in = as_tensor(logits);
  if (k < 1)
    fail_call({.tag = "top_k_gating",
               .message = "a token goes to no expert",
               .expected = "1 expert or more",
               .found = std::to_string(k),
               .mend = "give the number of experts as the second argument: top_k_gating(logits, 4)"},
              {in});
  return shared_gating("top_k_gating", in, k, capacity_factor);
}

void require_routing(const char* tag, const Routing& routing, Tensor argument) {
  if (!routing.slots.empty() && routing.slots.size() == routing.weights.size()) return;
  fail_call({.tag = tag,
             .message = "the routing was not made by a gate",
             .expected = "what top1_gating, top2_gating or top_k_gating gave",
             .found = "a default-constructed Routing"},
            {argument});
}

OperatorInfo gating_info() {
  const OperatorSample::Domain any{}, numbers{0, 3};
  auto ints = [](const Shape& shape) { return TensorType{shape, DType::i32}; };
  auto f32 = [](const Shape& shape) { return TensorType{shape, DType::f32}; };
  return {"gating",
          "Choice of experts, and places in their queues.",
          {{pointwise_operator(others_rule(2)), {f32({2, 3, 4}), ints({2, 3})}, {any, numbers}},
           {pointwise_operator(expert_rule(1, 4)), floats({{3, 4}, {3}}), {}},
           {pointwise_operator(earlier_rule(1)), {ints({2, 1, 5}), ints({2, 5})}, {numbers, numbers}},
           {pointwise_operator(of_expert_rule(2)), {f32({2, 1, 4}), ints({2, 5})}, {any, numbers}},
           {pointwise_operator(slot_rule(3)), {ints({2, 5}), ints({2, 5})}, {numbers, {0, 6}}},
           {pointwise_operator(load_rule("expert_load", {2, 5}, 4, 0.25)), {ints({2, 5})}, {numbers}}}};
}

}  // namespace hetsynth
