#include "codegen/cuda/plan/attention_call.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "codegen/cuda/plan/attention_tiles.h"
#include "dsl/ir/arithmetic.h"
#include "dsl/ir/attention.h"

namespace hetsynth::codegen::cuda {
namespace {

using attention::Nest;

constexpr int64_t most_features = 128;
/// Elements of bf16 in 16 bytes.
constexpr int64_t multiple = 8;
/// Two ways of writing the same function differ by roundings to bf16 within.
constexpr double alike = 0.02;

bool contains(const std::vector<ValueId>& list, ValueId value) { return std::ranges::count(list, value) > 0; }

/// A function of one element of the scores: what operators of a nest make of numbers.
class Element {
 public:
  Element(const Nest& nest, int64_t row, int64_t column) : nest_(nest), row_(row), column_(column) {}
  void set(ValueId value, double number) { known_[value] = number; }
  /// nullopt: it depends on something else.
  std::optional<double> after(const std::vector<ValueId>& operators) {
    std::optional<double> last;
    for (ValueId value : operators) {
      const LocalOp& op = nest_.op(value);
      last = evaluate(op.body, op);
      if (!last) return std::nullopt;
      known_[value] = *last;
    }
    return last;
  }
  double at(ValueId value) const { return known_.at(value); }

 private:
  std::optional<double> evaluate(const Expr& e, const LocalOp& op) const {
    switch (e.kind()) {
      case ExprKind::constant:
        return e.value();
      case ExprKind::input: {
        const auto found = known_.find(op.inputs[size_t(e.index())].value);
        if (found == known_.end()) return std::nullopt;
        return found->second;
      }
      case ExprKind::factor: {
        const int dim = nest_.dims(op)[size_t(e.index())];
        if (dim == nest_.a.row) return double(row_);
        if (dim == nest_.a.column) return double(column_);
        return std::nullopt;
      }
      case ExprKind::select: {
        const auto condition = evaluate(e.arg(0), op);
        if (!condition) return std::nullopt;
        return evaluate(e.arg(*condition != 0 ? 1 : 2), op);
      }
      default:
        break;
    }
    std::optional<double> a, b = 0.0;
    if (!e.args().empty()) a = evaluate(e.arg(0), op);
    if (e.args().size() > 1) b = evaluate(e.arg(1), op);
    if (!a || !b) return std::nullopt;
    return arithmetic(e.kind(), *a, *b);
  }

  const Nest& nest_;
  int64_t row_, column_;
  std::map<ValueId, double> known_;
};

bool close(double a, double b) { return std::abs(a - b) <= alike * std::max(std::abs(a), std::abs(b)) + 1e-12; }

class Describer {
 public:
  Describer(const FusedAttention& nest, const LocalProgram& program, const Layouts& layouts, const Program& reference)
      : a_(nest), program_(program), layouts_(layouts), nest_(nest, program, layouts, reference) {}

  std::optional<AttentionCall> forward() {
    if (a_.backward || !a_.sums.empty() || !only_rounds(a_.after) || !scaled_and_masked()) return std::nullopt;
    const LocalOp &scores = nest_.op(a_.scores[0]), &mixed = nest_.op(a_.products[0]);
    const int q = nest_.row_input(scores), v = 1 - nest_.block_input(mixed);
    const bool fits = take_dims(scores, 1 - q) && take(scores, q, call_.q) && take(scores, 1 - q, call_.k) &&
                      take(mixed, v, call_.v) && take_result(mixed, call_.o);
    if (!fits || !sizes(scores, mixed)) return std::nullopt;
    call_.maximum = a_.maximum;
    return call_;
  }

  /// With the scores' scale and mask those of the forward pass.
  std::optional<AttentionCall> backward(const AttentionCall& forward) {
    if (!a_.backward || !a_.sums.empty() || a_.scores.size() != 2 || a_.products.size() != 3) return std::nullopt;
    const LocalOp &scores = nest_.op(a_.scores[0]), &gradient = nest_.op(a_.scores[1]);
    const int q = nest_.row_input(scores), dy = nest_.row_input(gradient);
    call_.backward = true;
    call_.scale = forward.scale, call_.causal = forward.causal, call_.o = forward.o;
    bool fits = take_dims(scores, 1 - q) && take(scores, q, call_.q) && take(scores, 1 - q, call_.k) &&
                take(gradient, dy, call_.o_gradient) && take(gradient, 1 - dy, call_.v);
    for (ValueId value : a_.products) fits = fits && take_product(nest_.op(value));
    if (!fits || call_.by_q.value < 0 || call_.by_k.value < 0 || call_.by_v.value < 0) return std::nullopt;
    for (const auto& [here, there] : {std::pair(&call_.q, &forward.q), {&call_.k, &forward.k}, {&call_.v, &forward.v}})
      if (program_.first_made(here->value) != program_.first_made(there->value)) return std::nullopt;
    call_.sizes = forward.sizes;
    note_not_needed();
    if (!is_gradient()) return std::nullopt;
    return call_;
  }

 private:
  bool only_rounds(const std::vector<ValueId>& operators) const {
    return std::ranges::all_of(operators, [&](ValueId value) {
      const LocalOp& op = nest_.op(value);
      return is_rounding(op.body) || (op.converts && op.body == Expr::input(0));
    });
  }

  /// What softmax is taken of is the scores times a number, and nothing for columns after the row.
  bool scaled_and_masked() {
    const auto of = [&](double score, int64_t row, int64_t column) -> std::optional<double> {
      if (a_.elements.empty()) return score;
      Element element(nest_, row, column);
      element.set(a_.scores[0], score);
      return element.after(a_.elements);
    };
    const int64_t last = std::min(a_.ranges[size_t(a_.row)].hi, a_.ranges[size_t(a_.column)].hi) - 1;
    const std::optional<double> scale = of(1, last, 0);
    if (!scale || !(*scale > 0)) return false;
    for (const double score : {-3.0, 0.0, 0.5, 7.0})
      for (const auto& [row, column] : {std::pair(last, int64_t(0)), {int64_t(0), int64_t(0)}, {last, last}})
        if (const auto found = of(score, row, column);
            !found || std::abs(*found - *scale * score) > 1e-6 * std::abs(*found))
          return false;
    const std::optional<double> hidden = of(1, 0, last);
    if (!hidden) return false;
    call_.scale = *scale;
    call_.causal = a_.causal && last > 0;
    if (!call_.causal) return last == 0 || std::abs(*hidden - *scale) <= 1e-6 * *scale;
    return *hidden <= vanishing_score && a_.ranges[size_t(a_.row)].lo == 0 && a_.ranges[size_t(a_.column)].lo == 0;
  }

  /// The other dimensions of the scores: those that the keys have not are heads that share a key head.
  bool take_dims(const LocalOp& scores, int keys) {
    const Address k = nest_.read(scores, keys);
    for (int d = 0; d < int(a_.shape.size()); ++d) {
      if (d == a_.row || d == a_.column || a_.extent(d) == 1) continue;
      (nest_.coefficient(k, d) == 0 ? shared_ : own_).push_back(d);
    }
    return own_.size() <= 2 && shared_.size() <= 1;
  }
  int64_t extent_of(const std::vector<int>& dims, size_t at) const {
    return at < dims.size() ? a_.extent(dims[at]) : 1;
  }

  /// An operand of bf16, or what becomes of one. Heads of a group lie evenly, so that all heads have one stride.
  bool take(const Address& address, int64_t offset, bool by_queries, AttentionTensor& out) const {
    const auto stride = [&](const std::vector<int>& dims, size_t at) {
      return at < dims.size() ? nest_.coefficient(address, dims[at]) : 0;
    };
    const size_t head = own_.size() == 2 ? 1 : 0;
    out.offset = offset;
    out.stride = {own_.size() == 2 ? stride(own_, 0) : 0, stride(own_, head),
                  nest_.coefficient(address, by_queries ? a_.row : a_.column)};
    if (by_queries && !shared_.empty()) {
      const int64_t in_group = stride(shared_, 0);
      if (!own_.empty() && out.stride[1] != in_group * extent_of(shared_, 0)) return false;
      out.stride[1] = in_group;
    }
    const bool others = by_queries || shared_.empty() || stride(shared_, 0) == 0;
    return others && address.coefficients.back() == 1 && address.constant % multiple == 0 &&
           std::ranges::all_of(out.stride, [](int64_t s) { return s >= 0 && s % multiple == 0; });
  }
  bool take(const LocalOp& op, int input, AttentionTensor& out) const {
    const ValueId value = op.inputs[size_t(input)].value;
    if (program_.values[size_t(value)].type.dtype != DType::bf16) return false;
    Address address = nest_.read(op, input);
    out.value = value;
    // Pointers of the host program are to the value's own first element.
    return address.per_turn == 0 &&
           take(address, address.constant - layouts_.of[size_t(value)].offset, varies(address), out);
  }
  bool varies(const Address& address) const { return nest_.coefficient(address, a_.row) != 0; }

  /// A result lies without gaps, so that what cuDNN leaves in bf16 is widened number by number.
  bool take_result(const LocalOp& op, AttentionTensor& out) const {
    const Address address = nest_.written(op);
    out.value = op.result;
    const LocalValue& value = program_.values[size_t(op.result)];
    const bool by_queries = varies(address);
    if (value.type.dtype != DType::f32 || address.constant != 0 || layouts_.of[size_t(op.result)].buffer != op.result ||
        !take(address, 0, by_queries, out))
      return false;
    int64_t last = nest_.features(op) - 1, count = nest_.features(op);
    for (int d = 0; d < int(a_.shape.size()); ++d) {
      if (nest_.coefficient(address, d) == 0) continue;
      last += (a_.extent(d) - 1) * nest_.coefficient(address, d);
      count *= a_.extent(d);
    }
    return last + 1 == value.count() && count == value.count();
  }

  bool sizes(const LocalOp& scores, const LocalOp& mixed) {
    AttentionSizes& s = call_.sizes;
    s.batch = own_.size() == 2 ? extent_of(own_, 0) : 1;
    s.key_heads = own_.empty() ? 1 : extent_of(own_, own_.size() - 1);
    s.heads = s.key_heads * extent_of(shared_, 0);
    s.queries = a_.extent(a_.row), s.keys = a_.extent(a_.column);
    s.features = nest_.features(scores), s.value_features = nest_.features(mixed);
    const auto fits = [](int64_t features) { return features % multiple == 0 && features <= most_features; };
    return fits(s.features) && fits(s.value_features) && s.queries > 1 && s.keys > 0 && s.heads > 0 && s.batch > 0;
  }

  /// One of the gradients: which, follows from what is multiplied with what is made of the scores.
  bool take_product(const LocalOp& op) {
    const ValueId with = op.inputs[size_t(1 - nest_.block_input(op))].value;
    AttentionTensor* const out = nest_.sums_columns(op)           ? &call_.by_q
                                 : with == call_.o_gradient.value ? &call_.by_v
                                                                  : &call_.by_k;
    const ValueId expected = out == &call_.by_q   ? call_.k.value
                             : out == &call_.by_v ? call_.o_gradient.value
                                                  : call_.q.value;
    if (out->value >= 0 || with != expected) return false;
    block_of_[out] = op.inputs[size_t(nest_.block_input(op))].value;
    return take_result(op, *out);
  }

  void note_not_needed() {
    const std::vector<ValueId> own = a_.values(), needed = call_.reads();
    std::set<ValueId> others;
    for (ValueId value : own)
      for (const Operand& operand : nest_.op(value).inputs)
        if (!contains(own, operand.value) && !contains(needed, operand.value)) others.insert(operand.value);
    call_.not_needed.assign(others.begin(), others.end());
  }

  /// Of one element: the weights' gradients are weights (dp - dot) scale, and nothing of what is hidden. Maximum, total
  /// and dot are what the nest reads besides.
  bool is_gradient() const {
    if (call_.not_needed.size() != 3) return false;
    std::vector<ValueId> others = call_.not_needed;
    std::ranges::sort(others);
    do {
      if (is_gradient(others[0], others[1], others[2])) return true;
    } while (std::ranges::next_permutation(others).found);
    return false;
  }
  bool is_gradient(ValueId maximum, ValueId total, ValueId dot) const {
    const int64_t last = std::min(a_.extent(a_.row), a_.extent(a_.column)) - 1;
    for (const bool hidden : {false, true}) {
      if (hidden && !call_.causal) continue;
      for (const double score : {-1.5, 2.0}) {
        Element element(nest_, hidden ? 0 : last, hidden ? last : 0);
        element.set(a_.scores[0], score), element.set(a_.scores[1], 0.7);
        element.set(maximum, 2.5), element.set(total, 1.75), element.set(dot, -0.4);
        if (!element.after(a_.elements)) return false;
        const double weight = hidden ? 0 : std::exp(call_.scale * score - 2.5) / 1.75;
        const double by_score = weight * (0.7 + 0.4) * call_.scale;
        for (const AttentionTensor* gradient : {&call_.by_q, &call_.by_k})
          if (!close(element.at(block_of_.at(gradient)), by_score)) return false;
        if (!close(element.at(block_of_.at(&call_.by_v)), weight)) return false;
      }
    }
    return true;
  }

  const FusedAttention& a_;
  const LocalProgram& program_;
  const Layouts& layouts_;
  Nest nest_;
  AttentionCall call_;
  std::vector<int> own_, shared_;  ///< dimensions of batch and key heads; of query heads within a key head
  std::map<const AttentionTensor*, ValueId> block_of_;
};

}  // namespace

std::vector<ValueId> AttentionCall::reads() const {
  std::vector<ValueId> out{q.value, k.value, v.value};
  if (backward) out.push_back(o_gradient.value);
  return out;
}

std::vector<ValueId> AttentionCall::writes() const {
  if (!backward) return {o.value};
  return {by_q.value, by_k.value, by_v.value};
}

std::vector<std::optional<AttentionCall>> attention_calls(const std::vector<FusedAttention>& nests,
                                                          const LocalProgram& program, const Layouts& layouts,
                                                          const Program& reference) {
  std::vector<std::optional<AttentionCall>> out(nests.size());
  const auto reads = [&](const FusedAttention& nest, ValueId value) {
    const std::vector<ValueId> own = nest.values();
    return std::ranges::any_of(program.ops, [&](const LocalOp& op) {
      return contains(own, op.result) &&
             std::ranges::any_of(op.inputs, [&](const Operand& operand) { return operand.value == value; });
    });
  };
  for (size_t i = 0; i < nests.size(); ++i) {
    if (nests[i].backward) continue;
    out[i] = Describer(nests[i], program, layouts, reference).forward();
    if (!out[i]) continue;
    // Whoever else reads the rows' maxima or totals needs them as they are.
    std::vector<size_t> readers;
    for (size_t j = 0; j < nests.size(); ++j)
      if (j != i && (reads(nests[j], nests[i].maximum) || reads(nests[j], nests[i].total))) readers.push_back(j);
    const std::vector<ValueId> own = nests[i].values();
    const bool elsewhere = std::ranges::any_of(program.ops, [&](const LocalOp& op) {
      const bool in_nest =
          std::ranges::any_of(nests, [&](const FusedAttention& n) { return contains(n.values(), op.result); });
      return !in_nest && std::ranges::any_of(op.inputs, [&](const Operand& operand) {
        return operand.value == nests[i].maximum || operand.value == nests[i].total;
      });
    });
    if (readers.empty() && !elsewhere) continue;
    if (readers.size() == 1 && !elsewhere && nests[readers[0]].backward)
      out[readers[0]] = Describer(nests[readers[0]], program, layouts, reference).backward(*out[i]);
    if (readers.size() != 1 || elsewhere || !out[readers[0]]) out[i].reset();
  }
  return out;
}

}  // namespace hetsynth::codegen::cuda
