#include "tests/theorems/computations.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "tests/support/plan_builder.h"
#include "tests/theorems/setting.h"

namespace hetsynth::theorems {
namespace {

using smt::Solver;
using smt::Term;
using Kind = Placement::Kind;
using Inputs = std::vector<Polynomial>;

test::ProgramBuilder tensors(const std::string& a, const std::string& b) {
  test::ProgramBuilder p;
  const auto shape = [](const std::string& letters) { return Shape(letters.size(), extent); };
  p.leaf("A", NodeKind::parameter, shape(a));
  p.leaf("B", NodeKind::parameter, shape(b));
  p.leaf("C", NodeKind::parameter, shape(a));
  return p;
}

Operation binary(const std::string& name, const std::string& spec, Expr body,
                 std::function<Polynomial(const Inputs&)> arithmetic, FactorKind reduction = FactorKind::sum) {
  const size_t comma = spec.find(','), arrow = spec.find("->");
  test::ProgramBuilder p = tensors(spec.substr(0, comma), spec.substr(comma + 1, arrow - comma - 1));
  p.general("out", spec, {"A", "B"}, std::move(body), reduction);
  return {name, p.program, std::move(arithmetic)};
}

Operation unary(const std::string& name, const std::string& spec, Expr body,
                std::function<Polynomial(const Inputs&)> arithmetic, FactorKind reduction = FactorKind::sum) {
  const std::string letters = spec.substr(0, spec.find("->"));
  test::ProgramBuilder p = tensors(letters, letters);
  p.general("out", spec, {"A"}, std::move(body), reduction);
  return {name, p.program, std::move(arithmetic)};
}

/// Two dimensions as one.
Operation merged() {
  test::ProgramBuilder p = tensors("ij", "ij");
  Space space;
  space.factors = {{"i", extent, FactorKind::parallel}, {"j", extent, FactorKind::parallel}};
  space.inputs = {Access{{index_by(0), index_by(1)}, false}};
  space.output = Access{{DimIndex{{IndexTerm{0, extent}, IndexTerm{1, 1}}, 0}}, false};
  p.custom("out", {"A"}, space, Expr::input(0), {extent * extent});
  return {"merged", p.program, [](const Inputs& in) { return in[0]; }};
}

}  // namespace

const std::vector<Operation>& operations() {
  const Expr a = Expr::input(0), b = Expr::input(1);
  const auto product = [](const Inputs& in) { return times(in[0], in[1]); };
  const auto same = [](const Inputs& in) { return in[0]; };
  static const std::vector<Operation> list = {
      binary("add", "ij,ij->ij", a + b, [](const Inputs& in) { return plus(in[0], in[1]); }),
      binary("sub", "ij,j->ij", a - b, [](const Inputs& in) { return plus(in[0], in[1], -1); }),
      binary("mul", "ij,ij->ij", a * b, product),
      binary("scale_rows", "ij,i->ij", a * b, product),
      binary("matmul", "ik,kj->ij", a * b, product),
      binary("inner", "kl,kl->", a * b, product),
      binary("maximum", "ij,ij->ij", maximum(a, b), nullptr),
      unary("twice", "ij->ij", a * 2.0, [](const Inputs& in) { return times(constant(2), in[0]); }),
      unary("shifted", "ij->ij", a + 1.0, [](const Inputs& in) { return plus(in[0], constant(1)); }),
      unary("square", "ij->ij", a * a, [](const Inputs& in) { return times(in[0], in[0]); }),
      unary("transposed", "ij->ji", a, same),
      unary("row_sum", "ik->i", a, same),
      unary("row_max", "ik->i", a, nullptr, FactorKind::max),
      unary("max_of_all", "kl->", a, nullptr, FactorKind::max),
      merged(),
  };
  return list;
}

namespace {

/// One instruction at work.
class Execution {
 public:
  Execution(World& world, const Operation& operation, const Computation& c)
      : w_(world), s_(world.solver), op_(operation), c_(c), space_(operation.node().space) {
    for (const Factor& f : space_.factors) factors_.push_back(f.reduced() ? Term{} : s_.integer_symbol("at " + f.name));
    for (size_t f = 0; f < factors_.size(); ++f)
      if (!space_.factors[f].reduced()) premises_.push_back(w_.inside(factors_[f], everything(f)));
    each_point(0, [&] { points_.push_back(factors_); });
    output_ = index(space_.output);
  }

  smt::Answer prove() {
    Family family;
    family.holds = [this](int rank) { return computes(rank); };
    family.extents = [this](int rank) { return extents(rank); };
    family.element = [this](int rank, const Terms&) { return made(rank); };
    for (int rank = 0; rank < w_.ranks(); ++rank)
      if (computes(rank)) expect_readable(rank, family);
    w_.facts.push_back(s_.equal(s_.apply("out", output_), logical()));
    const Terms goals = is_held(w_, family, "out", c_.result, op_.node().type.shape, output_);
    Terms premises = premises_;
    premises.insert(premises.end(), w_.facts.begin(), w_.facts.end());
    premises.insert(premises.end(), w_.tables.facts().begin(), w_.tables.facts().end());
    return s_.prove(premises, s_.all(goals));
  }

 private:
  Interval everything(size_t f) { return {s_.integer(0), s_.integer(space_.factors[f].size)}; }

  /// All points of the reduction; one if nothing is reduced.
  void each_point(size_t f, const std::function<void()>& visit) {
    if (f == factors_.size()) return visit();
    if (!space_.factors[f].reduced()) return each_point(f + 1, visit);
    for (int64_t k = 0; k < space_.factors[f].size; ++k) {
      factors_[f] = number(k);
      each_point(f + 1, visit);
    }
  }

  /// The same term for the same number, as elements are told apart by terms.
  Term number(int64_t k) {
    auto [entry, is_new] = numbers_.try_emplace(k);
    if (is_new) entry->second = s_.integer(k);
    return entry->second;
  }

  Terms index(const Access& access) {
    Terms out;
    for (const DimIndex& dim : access.dims) {
      std::optional<Term> sum;
      for (const IndexTerm& t : dim.terms) {
        const Term at = factors_[size_t(t.factor)];
        const Term term = t.stride == 1 ? at : s_.mul(s_.integer(t.stride), at);
        sum = sum ? s_.add(*sum, term) : term;
      }
      out.push_back(sum ? *sum : s_.integer(0));
    }
    return out;
  }

  bool computes(int rank) const {
    for (size_t a = 0; a < c_.instruction.splits.size(); ++a)
      if (const int stage = c_.instruction.splits[a].stage; stage >= 0 && w_.coordinate(rank, int(a)) != stage)
        return false;
    return true;
  }

  /// What a rank runs over: of two axes that divide a factor the later one divides the other's parts.
  Interval executed(size_t f, int rank) {
    Interval range = everything(f);
    for (const Split& split : c_.instruction.splits)
      if (split.factor == int(f)) range = w_.tables.part(split.table, space_.factors[f].size, rank);
    return range;
  }

  Terms extents(int rank) {
    Terms out;
    for (const DimIndex& dim : space_.output.dims) {
      const int outer = dim.terms[0].factor;
      const Interval range = executed(size_t(outer), rank);
      const Term steps = s_.sub(range.hi, range.lo);
      out.push_back(dim.terms[0].stride == 1 ? steps : s_.mul(s_.integer(dim.terms[0].stride), steps));
    }
    return out;
  }

  Term runs_over(int rank, bool reduced) {
    Terms all;
    for (size_t f = 0; f < factors_.size(); ++f)
      if (space_.factors[f].reduced() == reduced) all.push_back(w_.inside(factors_[f], executed(f, rank)));
    return s_.all(all);
  }

  const std::string& tensor(size_t j) const { return op_.program[c_.operands[j].node].name; }
  const Shape& shape(size_t j) const { return op_.program[c_.operands[j].node].type.shape; }

  /// What the rank is said to have, it makes; and what it reads, it holds.
  void expect_readable(int rank, Family& family) {
    const Term has = w_.inside(output_, box_of(w_, c_.result, op_.node().type.shape, rank));
    factors_ = points_[0];
    family.fits.push_back(s_.implies(has, runs_over(rank, false)));
    for (const Terms& point : points_) {
      factors_ = point;
      for (size_t j = 0; j < c_.operands.size(); ++j) {
        if (!holds(w_, c_.operands[j], rank)) family.fits.push_back(s_.boolean(false));
        const Term there = w_.inside(index(space_.inputs[j]), box_of(w_, c_.operands[j], shape(j), rank));
        family.fits.push_back(s_.implies(s_.all({has, runs_over(rank, true)}), there));
      }
    }
  }

  /// Elements as polynomials. The summand of the last device of all open axes is what the others leave of the tensor.
  Polynomial read(size_t j, std::optional<int> rank) {
    const Terms at = index(space_.inputs[j]);
    const Held& held = c_.operands[j];
    if (!rank || !held.open_reduction()) return element(cached(j, std::nullopt, at));
    if (*held.open_reduction() != ReduceOp::sum) {
      if (known_.insert({j, key(at)}).second) know_sums(w_, tensor(j), held, at);
      return element(cached(j, rank, at));
    }
    if (!last_summand(held, *rank)) return element(cached(j, rank, at));
    Polynomial out = element(cached(j, std::nullopt, at));
    for (int other : others(held, *rank)) out = plus(out, element(cached(j, other, at)), -1);
    return out;
  }

  bool last_summand(const Held& held, int rank) const {
    for (int a = 0; a < w_.subject.axis_count(); ++a)
      if (held.placements[size_t(a)].kind == Kind::partial &&
          w_.coordinate(rank, a) + 1 < w_.subject.program.mesh.axes[size_t(a)].size)
        return false;
    return true;
  }

  /// Ranks that differ from this one along open axes alone.
  std::vector<int> others(const Held& held, int rank) const {
    std::vector<int> out;
    for (int other = 0; other < w_.ranks(); ++other) {
      bool alike = other != rank;
      for (int a = 0; a < w_.subject.axis_count(); ++a)
        alike = alike &&
                (held.placements[size_t(a)].kind == Kind::partial || w_.coordinate(rank, a) == w_.coordinate(other, a));
      if (alike) out.push_back(other);
    }
    return out;
  }

  static std::vector<int> key(const Terms& terms) {
    std::vector<int> out;
    for (Term t : terms) out.push_back(t.id);
    return out;
  }

  /// One term for one element: of the whole tensor, or of a rank's summand.
  Term cached(size_t j, std::optional<int> rank, const Terms& at) {
    std::string name = tensor(j);
    if (rank)
      for (int a = 0; a < w_.subject.axis_count(); ++a)
        if (c_.operands[j].placements[size_t(a)].kind == Kind::partial || c_.operands[j].varying.count(a))
          name += fmt::format(".{}@{}", a, w_.coordinate(*rank, a));
    auto [entry, is_new] = elements_.try_emplace({name, key(at)});
    if (is_new) entry->second = s_.apply(name, at);
    return entry->second;
  }

  /// The body at the point, as a rank computes it or, without one, over the whole tensors.
  Term body(std::optional<int> rank) {
    Inputs in;
    for (size_t j = 0; j < c_.operands.size(); ++j) in.push_back(read_input(j, rank));
    if (op_.body) return as_term(s_, op_.body(in));
    Terms terms;
    for (const Polynomial& p : in) terms.push_back(as_term(s_, p));
    return reduced(w_, ReduceOp::max, terms);
  }

  /// Input j of the node: what the rank is given there, or the tensor that belongs there.
  Polynomial read_input(size_t j, std::optional<int> rank) {
    if (rank) return read(j, rank);
    const Terms at = index(space_.inputs[j]);
    const std::string& name = op_.program[op_.node().inputs[j]].name;
    auto [entry, is_new] = elements_.try_emplace({name, key(at)});
    if (is_new) entry->second = s_.apply(name, at);
    return element(entry->second);
  }

  bool takes_maximum() const { return space_.reduction() == FactorKind::max; }

  /// The reduction of the points that the rank runs over.
  Term made(int rank) {
    const ReduceOp reduce = takes_maximum() ? ReduceOp::max : ReduceOp::sum;
    if (!space_.reduction()) {
      factors_ = points_[0];
      return body(rank);
    }
    Term out = reduced(w_, reduce, {});
    for (const Terms& point : points_) {
      factors_ = point;
      const Term value = body(rank);
      if (takes_maximum()) w_.facts.push_back(s_.less(reduced(w_, reduce, {}), value));
      out = s_.choose(runs_over(rank, true), combined(s_, reduce, out, value), out);
    }
    return out;
  }

  Term logical() {
    Terms all;
    for (const Terms& point : points_) {
      factors_ = point;
      all.push_back(body(std::nullopt));
    }
    return reduced(w_, takes_maximum() ? ReduceOp::max : ReduceOp::sum, all);
  }

  World& w_;
  Solver& s_;
  const Operation& op_;
  const Computation& c_;
  const Space& space_;
  Terms factors_;              ///< where every factor stands
  std::vector<Terms> points_;  ///< of the reduction
  Terms output_, premises_;
  std::map<int64_t, Term> numbers_;
  std::map<std::pair<std::string, std::vector<int>>, Term> elements_;
  std::set<std::pair<size_t, std::vector<int>>> known_;
};

}  // namespace

smt::Answer prove(const Subject& subject, const Operation& operation, const Computation& computation) {
  Solver solver(smt::Clock::now() + std::chrono::seconds(60));
  World world(subject, solver);
  return Execution(world, operation, computation).prove();
}

}  // namespace hetsynth::theorems
