#include "dsl/ir/interpreter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "dsl/base/error.h"
#include "dsl/ir/arithmetic.h"
#include "dsl/ir/loops.h"
#include "dsl/ir/product_sum.h"

namespace hetsynth {

Array::Array(Shape shape, double fill) : shape(std::move(shape)), values(size_t(element_count(this->shape)), fill) {}

std::vector<Range> full_ranges(const Space& space) {
  std::vector<Range> ranges;
  for (const Factor& factor : space.factors) ranges.push_back({0, factor.size});
  return ranges;
}

namespace {

/// An access to an operand's part, laid out flat: the innermost loops of every evaluation read through it.
class Reader {
 public:
  Reader(int operand, const Access& access, const LocalArray& in)
      : operand_(operand), zero_outside_(access.zero_outside), in_(in) {
    for (size_t d = 0; d < access.dims.size(); ++d) {
      const DimIndex& index = access.dims[d];
      terms_.insert(terms_.end(), index.terms.begin(), index.terms.end());
      dims_.push_back({terms_.size(), index.offset - in.offset[d], in.array.shape[d]});
    }
  }

  double read(const std::vector<int64_t>& factors) const {
    int64_t position = 0;
    size_t term = 0;
    for (size_t d = 0; d < dims_.size(); ++d) {
      const Dim& dim = dims_[d];
      int64_t at = dim.start;
      for (; term < dim.last_term; ++term) at += part(terms_[term], factors);
      if (at < 0 || at >= dim.extent) {
        if (zero_outside_) return 0;
        throw InternalError(fmt::format("operand {} is read at {} of dimension {}, but holds [{}, {})", operand_,
                                        at + in_.offset[d], d, in_.offset[d], in_.offset[d] + dim.extent));
      }
      position = position * dim.extent + at;
    }
    return in_.array.values[size_t(position)];
  }

 private:
  static int64_t part(const IndexTerm& t, const std::vector<int64_t>& factors) {
    int64_t i = factors[size_t(t.factor)];
    if (t.divide != 1) i /= t.divide;
    if (t.modulo != 0) i %= t.modulo;
    return i * t.stride;
  }

  struct Dim {
    size_t last_term;  ///< one behind its terms, which begin where those of the dimension before end
    int64_t start, extent;
  };
  int operand_;
  bool zero_outside_;
  const LocalArray& in_;
  std::vector<IndexTerm> terms_;
  std::vector<Dim> dims_;
};

/// One evaluation of an operator: nested loops over the factors, output factors outside, reduced ones inside.
class Evaluator {
 public:
  Evaluator(const Space& space, const Expr& body, const std::vector<LocalArray>& inputs,
            const std::vector<Range>& ranges, const Shape& output_shape, const EvaluationContext& context)
      : space_(space),
        body_(body),
        ranges_(ranges),
        context_(context),
        output_strides_(row_major_strides(output_shape)),
        index_(space.factors.size(), 0) {
    is_max_ = space.reduction() == FactorKind::max;
    for (size_t j = 0; j < inputs.size(); ++j) readers_.emplace_back(int(j), space.inputs[j], inputs[j]);
    // A one-hot body is non-zero at one value of its factor: look there instead of looping (embedding tables).
    lookup_ = match_one_hot(body, &one_hot_) && space.factors[one_hot_.factor].kind == FactorKind::sum &&
              !mentions_factor(space.inputs[one_hot_.operand], one_hot_.factor);
    for (int f = 0; f < int(space.factors.size()); ++f) {
      if (!space.factors[f].reduced()) outer_.push_back(f);
      if (space.factors[f].reduced() && !(lookup_ && f == one_hot_.factor)) inner_.push_back(f);
    }
    if (!inner_.empty() && !lookup_) product_sum_.emplace(space, body, inputs, ranges, inner_);
  }

  LocalArray run() {
    LocalArray out;
    for (const DimIndex& dim : space_.output.dims) {
      Range range = output_range(dim);
      out.offset.push_back(range.lo);
      out.array.shape.push_back(range.hi - range.lo);
    }
    out.array.values.assign(size_t(element_count(out.array.shape)),
                            is_max_ ? -std::numeric_limits<double>::infinity() : 0.0);
    local_strides_ = row_major_strides(out.array.shape);
    loop(outer_, 0, [&] { out.array.values[local_position(out)] = reduce(); });
    return out;
  }

 private:
  Range output_range(const DimIndex& dim) const {
    int64_t lo = dim.offset, hi = dim.offset;
    for (const IndexTerm& t : dim.terms) {
      if (ranges_[t.factor].lo >= ranges_[t.factor].hi) return {0, 0};
      int64_t last = (ranges_[t.factor].hi - 1) / t.divide;
      if (t.modulo) last = std::min(last, t.modulo - 1);
      if (t.plain()) lo += ranges_[t.factor].lo * t.stride;  // otherwise the factor is whole and starts at 0
      hi += last * t.stride;
    }
    return {lo, hi + 1};
  }

  template <class Visit>
  void loop(const std::vector<int>& factors, size_t depth, const Visit& visit) {
    if (depth == factors.size()) return visit();
    int f = factors[depth];
    for (index_[f] = ranges_[f].lo; index_[f] < ranges_[f].hi; ++index_[f]) loop(factors, depth + 1, visit);
  }

  int64_t value(const DimIndex& dim) const {
    int64_t at = dim.offset;
    for (const IndexTerm& t : dim.terms) {
      int64_t i = index_[t.factor] / t.divide;
      at += (t.modulo ? i % t.modulo : i) * t.stride;
    }
    return at;
  }

  size_t local_position(const LocalArray& out) const {
    int64_t position = 0;
    for (size_t d = 0; d < space_.output.dims.size(); ++d)
      position += (value(space_.output.dims[d]) - out.offset[d]) * local_strides_[d];
    return size_t(position);
  }

  double element(int operand) const { return readers_[size_t(operand)].read(index_); }

  double reduce() {
    if (product_sum_ && product_sum_->applies())
      if (std::optional<double> sum = product_sum_->at(index_)) return *sum;
    double total = is_max_ ? -std::numeric_limits<double>::infinity() : 0.0;
    loop(inner_, 0, [&] {
      if (lookup_) {
        double at = element(one_hot_.operand);
        index_[one_hot_.factor] = int64_t(at);
        const Range& range = ranges_[one_hot_.factor];
        if (at >= double(range.lo) && at < double(range.hi)) total += evaluate_expr(one_hot_.rest);
      } else {
        double v = evaluate_expr(body_);
        total = is_max_ ? std::max(total, v) : total + v;
      }
    });
    return total;
  }

  double random(int stream) const {
    int64_t position = space_.first_draw;
    for (size_t d = 0; d < space_.output.dims.size(); ++d)
      position += value(space_.output.dims[d]) * output_strides_[d];
    return philox_uniform(context_.seed, stream, uint64_t(position), uint64_t(context_.step));
  }

  double evaluate_expr(const Expr& e) const {
    const auto arg = [&](int i) { return evaluate_expr(e.arg(i)); };
    switch (e.kind()) {
      case ExprKind::input:
        return element(e.index());
      case ExprKind::factor:
        return double(index_[e.index()]);
      case ExprKind::constant:
        return e.value();
      case ExprKind::step:
        return double(context_.step);
      case ExprKind::random:
        return random(e.index());
      case ExprKind::select:
        return arg(0) != 0 ? arg(1) : arg(2);
      case ExprKind::round_bf16:
      case ExprKind::round_fp16:
        if (!context_.rounds) return arg(0);
        break;
      default:
        break;
    }
    return *arithmetic(e.kind(), arg(0), e.args().size() > 1 ? arg(1) : 0);
  }

  const Space& space_;
  const Expr& body_;
  const std::vector<Range>& ranges_;
  const EvaluationContext& context_;
  std::vector<Reader> readers_;  ///< by operand
  std::vector<int64_t> output_strides_, local_strides_;
  std::vector<int64_t> index_;
  std::vector<int> outer_, inner_;
  bool is_max_ = false, lookup_ = false;
  OneHot one_hot_{0, 0, 0.0};
  std::optional<ProductSum> product_sum_;
};

struct PhiloxWords {
  uint32_t word[4];
};

PhiloxWords philox(PhiloxWords counter, uint32_t key0, uint32_t key1) {
  // Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3", Philox 4x32 with 10 rounds.
  for (int round = 0; round < 10; ++round) {
    uint64_t p0 = uint64_t(0xD2511F53u) * counter.word[0];
    uint64_t p1 = uint64_t(0xCD9E8D57u) * counter.word[2];
    counter = {{uint32_t(p1 >> 32) ^ counter.word[1] ^ key0, uint32_t(p1), uint32_t(p0 >> 32) ^ counter.word[3] ^ key1,
                uint32_t(p0)}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

/// Streams of initial values: a 31-bit FNV-1a hash of the leaf's name, at a step no training reaches.
constexpr uint64_t initial_step = ~uint64_t(0);

int stream_of(const std::string& name) {
  uint32_t hash = 2166136261u;
  for (unsigned char c : name) hash = (hash ^ c) * 16777619u;
  return int(hash >> 1);
}

}  // namespace

double philox_uniform(uint64_t seed, int stream, uint64_t index, uint64_t step) {
  // Counter: 64 bits of index, 32 bits of step and the stream; key: the seed. Steps wrap at 2^32.
  PhiloxWords words = philox({{uint32_t(index), uint32_t(index >> 32), uint32_t(step), uint32_t(stream)}},
                             uint32_t(seed), uint32_t(seed >> 32));
  return double(words.word[0] >> 8) * (1.0 / 16777216.0);
}

double initial_value(const Node& leaf, uint64_t seed, int64_t index) {
  const Initializer& init = leaf.initializer;
  int stream = stream_of(init.drawn_as.empty() ? leaf.name : init.drawn_as);
  switch (init.kind) {
    case Initializer::Kind::constant:
      return float(init.value);
    case Initializer::Kind::uniform:
      return float((2 * philox_uniform(seed, stream, uint64_t(index), initial_step) - 1) * init.value);
    case Initializer::Kind::normal: {  // Box and Muller 1958; 1 - u keeps the logarithm finite
      double u = 1 - philox_uniform(seed, stream, uint64_t(2 * index), initial_step);
      double v = philox_uniform(seed, stream, uint64_t(2 * index + 1), initial_step);
      return float(init.value * std::sqrt(-2 * std::log(u)) * std::cos(2 * M_PI * v));
    }
    case Initializer::Kind::values:
      return (*init.values)[size_t(index)];
  }
  return 0;
}

Bindings initial_values(const Program& program, uint64_t seed) {
  Bindings out;
  for (const Node& node : program.nodes) {
    if (node.kind != NodeKind::parameter && node.kind != NodeKind::state) continue;
    Array array(node.type.shape);
    for (size_t i = 0; i < array.values.size(); ++i) array.values[i] = initial_value(node, seed, int64_t(i));
    out[node.id] = std::move(array);
  }
  return out;
}

LocalArray evaluate(const Space& space, const Expr& body, const std::vector<LocalArray>& inputs,
                    const std::vector<Range>& ranges, const Shape& output_shape, const EvaluationContext& context) {
  HETSYNTH_CHECK(inputs.size() == space.inputs.size() && ranges.size() == space.factors.size(),
                 "operands and ranges fit the space");
  return Evaluator(space, body, inputs, ranges, output_shape, context).run();
}

namespace {

class Interpretation {
 public:
  Interpretation(const Program& program, const EvaluationContext& context)
      : program_(program), context_(context), values_(program.nodes.size()) {}

  std::vector<Array> run(const Bindings& leaves) {
    const std::vector<NodeId> order = execution_order(program_);
    for (size_t i = 0; i < order.size();) {
      const int loop = program_[order[i]].loop;
      size_t end = i + 1;
      while (loop >= 0 && end < order.size() && program_[order[end]].loop == loop) ++end;
      if (program_[order[i]].leaf())
        take(program_[order[i]], leaves);
      else if (loop < 0)
        compute(program_[order[i]], 0);
      else
        turns(loop, {order.begin() + long(i), order.begin() + long(end)});
      i = end;
    }
    return std::move(values_);
  }

 private:
  void take(const Node& node, const Bindings& leaves) {
    auto found = leaves.find(node.id);
    HETSYNTH_CHECK(found != leaves.end(), "no value given for leaf " + node.name);
    HETSYNTH_CHECK(found->second.shape == node.type.shape, "value of leaf " + node.name + " has another shape");
    values_[node.id] = found->second;
  }

  void turns(int number, const std::vector<NodeId>& nodes) {
    const TurnLoop& loop = program_.loops[size_t(number)];
    for (int64_t turn = 0; turn < loop.turns; ++turn) {
      for (NodeId id : nodes)
        if (turn == 0 || program_.next_of(id) < 0) compute(program_[id], turn);
      if (turn + 1 < loop.turns)
        for (const TurnLoop::Carry& c : loop.carries) values_[c.carry] = values_[c.next];
    }
  }

  void compute(const Node& node, int64_t turn) {
    std::vector<LocalArray> inputs;
    for (NodeId input : node.inputs)
      inputs.push_back({values_[input], std::vector<int64_t>(values_[input].shape.size(), 0)});
    const Space space = in_turn(node.space, turn);
    LocalArray result = evaluate(space, node.body, inputs, full_ranges(space), node.type.shape, context_);
    if (stacked_dim(node.space) < 0) {
      values_[node.id] = std::move(result.array);
      return;
    }
    if (turn == 0) values_[node.id] = Array(node.type.shape);
    put_part(result, values_[node.id]);
  }

  const Program& program_;
  const EvaluationContext& context_;
  std::vector<Array> values_;
};

}  // namespace

void put_part(const LocalArray& part, Array& whole) {
  const std::vector<int64_t> inner = row_major_strides(part.array.shape), outer = row_major_strides(whole.shape);
  for (size_t e = 0; e < part.array.values.size(); ++e) {
    int64_t at = 0;
    for (size_t d = 0; d < inner.size(); ++d)
      at += (int64_t(e) / inner[d] % part.array.shape[d] + part.offset[d]) * outer[d];
    whole.values[size_t(at)] = part.array.values[e];
  }
}

std::vector<Array> interpret(const Program& program, const Bindings& leaves, const EvaluationContext& context) {
  return Interpretation(program, context).run(leaves);
}

}  // namespace hetsynth
