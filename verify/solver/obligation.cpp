#include "verify/solver/obligation.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "verify/solver/body_terms.h"

namespace hetsynth {

using smt::Answer;
using smt::Solver;
using smt::Term;

namespace {

/// Visits every cut of an obligation in a fixed order.
template <typename Visit>
void each_cut(Obligation& o, Visit&& visit) {
  for (FactorRun& f : o.factors) visit(f.executed), visit(f.claimed);
  for (OperandRead& operand : o.operands)
    for (DimRead& dim : operand.dims) visit(dim.held);
}

void append_index(std::string& out, const DimIndex& index, bool digits) {
  for (const IndexTerm& t : index.terms) {
    out += fmt::format("{}", t.factor);
    if (!digits) out += fmt::format("*{}/{}%{}", t.stride, t.divide, t.modulo);
    out += ' ';
  }
  if (!digits) out += fmt::format("+{}", index.offset);
  if (!digits && index.per_turn != 0) out += fmt::format("{:+}@", index.per_turn);
}

}  // namespace

void number_cuts(Obligation& o) {
  std::map<Cut, Cut> numbers;
  each_cut(o, [&](Cut& cut) {
    if (cut != whole) cut = numbers.try_emplace(cut, int(numbers.size())).first->second;
  });
  // Of a cut that nothing is held or executed by, nothing needs to be known.
  std::erase_if(o.nested, [&](const auto& pair) { return !numbers.count(pair.first) || !numbers.count(pair.second); });
  for (auto& [inner, outer] : o.nested) inner = numbers[inner], outer = numbers[outer];
  std::ranges::sort(o.nested);
  const auto again = std::ranges::unique(o.nested);
  o.nested.erase(again.begin(), again.end());
}

std::string key(const Obligation& o) {
  std::string out;
  out.reserve(256);
  for (const FactorRun& f : o.factors) out += fmt::format("f{}:{}:{}:{};", int(f.kind), f.size, f.executed, f.claimed);
  for (const OperandRead& operand : o.operands) {
    out += fmt::format("in{}{}", operand.input, operand.zero_outside ? "?" : "");
    for (const DimRead& dim : operand.dims) {
      out += dim.digits ? "[" : fmt::format("({}:", dim.extent);
      append_index(out, dim.index, dim.digits);
      out += fmt::format("|{}*{}", dim.held, dim.scale);
      if (dim.before != 0 || dim.after != 0) out += fmt::format("~{}~{}", dim.before, dim.after);
    }
    out += ';';
  }
  for (const DimIndex& dim : o.output) {
    out += '>';
    append_index(out, dim, true);
  }
  for (const auto& [inner, outer] : o.nested) out += fmt::format(";{} in {}", inner, outer);
  for (const PartialInputs& p : o.partial) {
    out += fmt::format(";P{}", int(p.reduce));
    for (int input : p.inputs) out += fmt::format(" {}", input);
  }
  if (o.turns > 0) out += fmt::format(";turns {}", o.turns);
  return out + ";" + text(o.body);
}

namespace {

/// From so many operands on they are looked at one by one: 1,000 take 6 s then, and a single query for all of them was
/// given up after 51 s. Hardly an operator but a join has as many.
constexpr size_t many_operands = 16;

/// The proof of one obligation: its symbols, premises and goals.
class Proof {
 public:
  Proof(Solver& solver, const Obligation& obligation) : s_(solver), o_(obligation) {
    zero_ = s_.integer(0);
    if (o_.turns > 0) {
      turn_ = s_.integer_symbol("turn");
      facts_.push_back(within(turn_, {zero_, s_.integer(o_.turns)}));
    }
    for (size_t f = 0; f < o_.factors.size(); ++f) declare_factor(int(f));
    for (const auto& [inner, outer] : o_.nested) {
      const Bounds in = of_cut(inner), out = of_cut(outer);
      facts_.push_back(s_.all({s_.less_equal(out.lo, in.lo), s_.less_equal(in.hi, out.hi)}));
    }
    for (size_t p = 0; p < o_.operands.size(); ++p) {
      operand_facts_.push_back(facts_.size());
      declare_operand(int(p));
    }
    operand_facts_.push_back(facts_.size());
  }

  ObligationResult run() {
    ObligationResult result = is_by_operand() ? by_operand() : local(true);
    if (result.answer == Answer::disproved && result.failed == ObligationPart::value && !products_.empty()) {
      int proofs = result.proofs;
      result = local(false);
      result.proofs += proofs;
    }
    if (result.answer != Answer::proved) return result;
    for (size_t i = 0; i < o_.partial.size(); ++i) {
      ++result.proofs;
      result.answer = additive(o_.partial[i]);
      if (result.answer == Answer::proved) continue;
      result.failed = ObligationPart::additive;
      result.operand = int(i);
      return result;
    }
    return result;
  }

 private:
  struct Bounds {
    Term lo, hi;
  };

  Bounds of_cut(Cut cut) {
    return {s_.integer_symbol(fmt::format("lo{}", cut)), s_.integer_symbol(fmt::format("hi{}", cut))};
  }

  /// The range of a cut, or [0, size) if there is none; that the cut lies inside of the size becomes a premise.
  Bounds bounds(Cut cut, Term size) {
    if (cut == whole) return {zero_, size};
    Bounds b = of_cut(cut);
    facts_.push_back(s_.all({s_.less_equal(zero_, b.lo), s_.less_equal(b.lo, b.hi), s_.less_equal(b.hi, size)}));
    return b;
  }

  /// The range of indices that a device holds of a dimension counted in numbers.
  Bounds scaled_bounds(const DimRead& dim, Term extent) {
    if (dim.held == whole || dim.scale == 1) return bounds(dim.held, extent);
    Bounds b = bounds(dim.held, s_.integer(dim.extent / dim.scale));
    Term scale = s_.integer(dim.scale);
    return {s_.mul(scale, b.lo), s_.mul(scale, b.hi)};
  }

  /// The same with what a device holds around its part.
  Bounds with_halo(const DimRead& dim, Bounds part, Term extent) {
    const Term lo = s_.sub(part.lo, s_.integer(dim.before)), hi = s_.add(part.hi, s_.integer(dim.after));
    return {s_.choose(s_.less(lo, zero_), zero_, lo), s_.choose(s_.less(extent, hi), extent, hi)};
  }

  Term within(Term index, Bounds b) { return s_.all({s_.less_equal(b.lo, index), s_.less(index, b.hi)}); }

  struct FactorTerms {
    Term size;
    Bounds executed, claimed;
    Term device;   ///< global index on the device
    Term logical;  ///< index in the reference
  };

  void declare_factor(int f) {
    const FactorRun& run = o_.factors[f];
    FactorTerms t;
    t.size = run.size ? s_.integer(run.size) : s_.integer_symbol(fmt::format("size{}", f));
    facts_.push_back(s_.less_equal(zero_, t.size));
    t.executed = bounds(run.executed, t.size);
    t.claimed = bounds(run.claimed, t.size);
    if (run.kind == FactorKind::sum || run.kind == FactorKind::max) {
      // One arbitrary point of the reduction; by sum_congruence a loop over local indices is one over global indices.
      t.device = t.logical = s_.integer_symbol(fmt::format("k{}", f));
      executed_point_.push_back(within(t.device, t.executed));
      claimed_point_.push_back(within(t.device, t.claimed));
    } else {
      // One arbitrary element of the result, counted from the start of what the device holds of it.
      Term local = s_.integer_symbol(fmt::format("x{}", f));
      Term extent = s_.sub(t.claimed.hi, t.claimed.lo);
      facts_.push_back(within(local, {zero_, extent}));
      extents_equal_.push_back(s_.equal(s_.sub(t.executed.hi, t.executed.lo), extent));
      t.device = s_.add(local, t.executed.lo);
      t.logical = s_.add(local, t.claimed.lo);
    }
    factors_.push_back(t);
  }

  Term index(const DimIndex& dim, bool device) {
    Term total = s_.integer(dim.offset);
    if (dim.per_turn != 0) total = s_.add(total, s_.mul(s_.integer(dim.per_turn), turn_));
    for (const IndexTerm& t : dim.terms) {
      Term value = device ? factors_[t.factor].device : factors_[t.factor].logical;
      if (t.divide != 1) value = s_.quotient(value, t.divide);
      if (t.modulo != 0) value = s_.remainder(value, t.modulo);
      total = s_.add(total, t.stride == 1 ? value : s_.mul(s_.integer(t.stride), value));
    }
    return total;
  }

  struct Place {
    std::vector<Term> local;    ///< where a device looks
    std::vector<Term> logical;  ///< the element that is
    Term held;                  ///< whether the device holds it
    Term inside;                ///< whether the logical tensor has it
  };

  /// The element that an operand's access names, for the device's indices or the reference's.
  Place place(const OperandRead& operand, bool device) {
    Place p;
    std::vector<Term> held, inside;
    for (const DimRead& dim : operand.dims) {
      if (!dim.digits) {
        Term at = index(dim.index, device), extent = s_.integer(dim.extent);
        Bounds b = scaled_bounds(dim, extent);
        if (dim.before != 0 || dim.after != 0) {
          held.push_back(s_.less(b.lo, b.hi));
          b = with_halo(dim, b, extent);
        }
        p.local.push_back(s_.sub(at, b.lo));
        p.logical.push_back(at);
        held.push_back(within(at, b));
        inside.push_back(within(at, {zero_, extent}));
        continue;
      }
      for (size_t d = 0; d < dim.index.terms.size(); ++d) {
        const FactorTerms& f = factors_[dim.index.terms[d].factor];
        Term at = device ? f.device : f.logical;
        Bounds b = bounds(d == 0 ? dim.held : whole, f.size);
        p.local.push_back(s_.sub(at, b.lo));
        p.logical.push_back(at);
        held.push_back(within(at, b));
      }
    }
    p.held = s_.all(held);
    p.inside = s_.all(inside);
    return p;
  }

  /// What a device reads, and the premise that what it holds is the logical tensor's part (of a partial operand: of the
  /// device's summand).
  void declare_operand(int position) {
    const OperandRead& operand = o_.operands[position];
    Place p = place(operand, true);
    Term local = s_.apply(fmt::format("local{}", position), p.local);
    Term logical = s_.apply(fmt::format("in{}", operand.input), p.logical);
    facts_.push_back(s_.implies(p.held, s_.equal(local, logical)));
    reads_.push_back(operand.zero_outside ? s_.choose(p.held, local, s_.real(0)) : local);
    in_bounds_.push_back(operand.zero_outside ? s_.implies(p.inside, p.held) : p.held);
  }

  Term logical_read(int input) {
    const OperandRead& operand = o_.operands[input];
    Place p = place(operand, false);
    Term logical = s_.apply(fmt::format("in{}", input), p.logical);
    return operand.zero_outside ? s_.choose(p.inside, logical, s_.real(0)) : logical;
  }

  Term body(bool device, bool opaque) {
    BodyTerms terms;
    terms.input = [&](int i) { return device ? reads_.at(i) : logical_read(i); };
    terms.factor = [&](int f) {
      return s_.apply("position", {device ? factors_.at(f).device : factors_.at(f).logical});
    };
    terms.random = [&](int stream) {
      std::vector<Term> at;
      for (const DimIndex& dim : o_.output)
        for (const IndexTerm& t : dim.terms)
          at.push_back(device ? factors_[t.factor].device : factors_[t.factor].logical);
      return s_.apply(fmt::format("random{}", stream), at);
    };
    terms.opaque_products = opaque;
    terms.products = &products_;
    return translate(s_, o_.body, terms);
  }

  /// Whether equal operands make equal results: nothing is reduced, and the body asks for nothing but its operands.
  bool is_by_operand() const {
    return o_.operands.size() >= many_operands && executed_point_.empty() && !mentions(o_.body, ExprKind::factor) &&
           !mentions(o_.body, ExprKind::random);
  }

  /// One small query for each operand of many: that what a device reads of it is what the reference does. One query for
  /// all of them tries which are inside together. What cannot be shown in this way is left to that one.
  ObligationResult by_operand() {
    ObligationResult result;
    const std::vector<Term> all_facts = facts_;
    const std::vector<Term> common(facts_.begin(), facts_.begin() + long(operand_facts_.front()));
    // Premises that contradict each other would prove anything; each query sees its own alone.
    result.proofs = 1;
    bool shown = s_.prove(all_facts, s_.boolean(false)) == Answer::disproved;
    for (size_t j = 0; shown && j < o_.operands.size(); ++j) {
      facts_ = common;
      facts_.insert(facts_.end(), all_facts.begin() + long(operand_facts_[j]),
                    all_facts.begin() + long(operand_facts_[j + 1]));
      const Term same = s_.equal(reads_[j], logical_read(int(j)));
      shown = s_.prove(facts_, s_.all({s_.all(extents_equal_), in_bounds_[j], same})) == Answer::proved;
      ++result.proofs;
    }
    facts_ = all_facts;
    if (shown) {
      result.answer = Answer::proved;
      return result;
    }
    const int proofs = result.proofs;
    result = local(true);
    result.proofs += proofs;
    return result;
  }

  /// Extents, bounds and value in one query; separately only to name what failed.
  ObligationResult local(bool opaque) {
    products_.clear();
    Term executed = s_.all(executed_point_), claimed = s_.all(claimed_point_);
    Term mine = body(true, opaque), theirs = body(false, opaque);
    std::vector<Term> premises = facts_;
    Term value = s_.equal(mine, theirs);
    if (!executed_point_.empty()) {
      // Two reductions are equal unless some point is in one range only or the bodies differ at a point of both.
      value = s_.equal(s_.real_symbol("reduced locally"), s_.real_symbol("reduced logically"));
      Term same_range = s_.equal(executed, claimed);
      Term same_body = s_.any({s_.negation(executed), s_.equal(mine, theirs)});
      premises.push_back(s_.any({value, s_.negation(s_.all({same_range, same_body}))}));
    }
    if (opaque)
      for (auto [a, b] : products_) premises.push_back(s_.equal(opaque_product(s_, a, b), opaque_product(s_, b, a)));
    Term extents = s_.all(extents_equal_);
    std::vector<Term> goals{extents};
    for (Term bound : in_bounds_) goals.push_back(s_.implies(executed, bound));
    goals.push_back(value);
    ObligationResult result;
    result.answer = s_.prove(premises, s_.all(goals));
    result.proofs = 1;
    for (size_t i = 0; result.answer == Answer::disproved && i < goals.size(); ++i) {
      if (s_.prove(premises, goals[i]) == Answer::proved) continue;
      result.failed = i == 0                  ? ObligationPart::extent
                      : i + 1 == goals.size() ? ObligationPart::value
                                              : ObligationPart::bounds;
      result.operand = result.failed == ObligationPart::bounds ? int(i) - 1 : -1;
      break;
    }
    return result;
  }

  bool reduces(FactorKind kind) const {
    return std::any_of(o_.factors.begin(), o_.factors.end(), [&](const FactorRun& f) { return f.kind == kind; });
  }

  /// Only inputs of the set and maxima of them: such a body keeps minus infinity, what an empty part of a maximum
  /// holds.
  static bool of_maxima(const Expr& e, const std::set<int>& inputs) {
    if (e.kind() == ExprKind::input) return inputs.count(e.index()) > 0;
    return e.kind() == ExprKind::maximum && of_maxima(e.arg(0), inputs) && of_maxima(e.arg(1), inputs);
  }

  /// body(a + b, r) = body(a, r) + body(b, r), a and b being the partial inputs and r the others; the same with the
  /// maximum.
  Answer additive(const PartialInputs& partial) {
    bool sum = partial.reduce == ReduceOp::sum;
    if (reduces(sum ? FactorKind::max : FactorKind::sum)) return Answer::disproved;
    if (!sum && !(partial.reduce == ReduceOp::max && of_maxima(o_.body, partial.inputs))) return Answer::disproved;
    auto combine = [&](Term a, Term b) { return sum ? s_.add(a, b) : s_.choose(s_.less(a, b), b, a); };
    auto at = [&](bool first, bool second) {
      BodyTerms terms;
      terms.input = [&, first, second](int i) {
        if (!partial.inputs.count(i)) return s_.real_symbol(fmt::format("r{}", i));
        Term a = s_.real_symbol(fmt::format("a{}", i)), b = s_.real_symbol(fmt::format("b{}", i));
        return first && second ? combine(a, b) : first ? a : b;
      };
      terms.factor = [&](int f) { return s_.real_symbol(fmt::format("at{}", f)); };
      terms.random = [&](int stream) { return s_.real_symbol(fmt::format("draw{}", stream)); };
      terms.opaque_products = false;
      return translate(s_, o_.body, terms);
    };
    return s_.prove({}, s_.expanded(s_.equal(at(true, true), combine(at(true, false), at(false, true)))));
  }

  Solver& s_;
  const Obligation& o_;
  Term zero_, turn_;
  std::vector<FactorTerms> factors_;
  std::vector<size_t> operand_facts_;  ///< where the facts of each operand begin, and behind the last one's
  std::vector<Term> facts_, extents_equal_, executed_point_, claimed_point_;
  std::vector<Term> reads_, in_bounds_;  ///< by operand
  std::vector<std::pair<Term, Term>> products_;
};

}  // namespace

ObligationResult prove(Solver& solver, const Obligation& obligation) { return Proof(solver, obligation).run(); }

}  // namespace hetsynth
