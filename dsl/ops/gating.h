// Which experts a token goes to, and where in their queues.
#pragma once
#include <vector>

#include "hetsynth/tensor.h"

namespace hetsynth {

/// The answer of a gate for tokens [G..., S]: G are groups (one queue per group and expert), S the tokens of a group in
/// their order.
struct Routing {
  int64_t experts = 0;
  int64_t capacity = 0;         ///< places in each queue
  std::vector<Tensor> slots;    ///< per choice, int32 [G..., S]: expert * capacity + place; -1 where the queue was full
  std::vector<Tensor> weights;  ///< per choice, float32 [G..., S]: what the expert's answer counts; gradients flow
  Tensor balance_loss;  ///< scalar, 1 when the load is even: experts * sum over e of (share of tokens whose first
                        ///< choice is e) * (mean probability of e), mean over groups
};

/// Every token goes to its most probable expert and its answer counts by that probability (Switch Transformer, Fedus et
/// al. 2022). Logits are [G..., S, experts]; at equal logits the expert with the lower number is taken. A queue has
/// floor(capacity_factor * S / experts) places, taken in the order of the tokens; whoever finds it full is dropped:
/// combination gives it zeros. Finding places takes S^2 comparisons per group, so groups are best sequences, not
/// batches. Throws UserError if that leaves a queue without a place.
Routing top1_gating(Operand logits, double capacity_factor = 1.25);

/// Every token goes to its two most probable experts, whose probabilities are scaled to add up to 1 (GShard, Lepikhin
/// et al. 2021). A queue has floor(2 * capacity_factor * S / experts) places; second choices queue behind all first
/// ones.
Routing top2_gating(Operand logits, double capacity_factor = 1.25);

/// Every token goes to its k most probable experts, whose probabilities are scaled to add up to 1 (k = 2 is
/// top2_gating; k = 1 counts every answer fully, unlike top1_gating). A queue has floor(k * capacity_factor * S /
/// experts) places; choices queue behind all those of lower number. Experts are chosen one after the other, so the cost
/// of choosing grows with k. Throws UserError unless 1 <= k <= experts.
Routing top_k_gating(Operand logits, int64_t k, double capacity_factor = 1.25);

/// Throws UserError, at the call in progress, unless a gate made the routing.
void require_routing(const char* tag, const Routing& routing, Tensor argument);

}  // namespace hetsynth
