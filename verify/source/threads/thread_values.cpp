// What expressions of a kernel are worth, for every thread that evaluates them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "dsl/ir/interpreter.h"
#include "verify/source/execute/arithmetic.h"
#include "verify/source/threads/threads.h"

namespace hetsynth::source {
namespace {

/// A comparison with what is not a number: neither true nor false.
constexpr int64_t undefined = std::numeric_limits<int64_t>::min();
/// What is chosen by such a comparison.
template <class T>
constexpr T unknown = std::is_same_v<T, double> ? std::numeric_limits<T>::quiet_NaN() : T(undefined);

int64_t computed_if_defined(const Expression& e, int64_t a, int64_t b) {
  if (a == undefined || b == undefined) return undefined;
  return computed(e, a, b);
}

}  // namespace

void ThreadBlock::integer(const Expression& e, Lanes lanes, int64_t* out) {
  count(lanes.count, e.line);
  Numbers here(*this);
  const int n = lanes.count;
  switch (e.kind) {
    case Kind::integer:
      std::fill(out, out + n, e.integer_value);
      return;
    case Kind::variable: {
      if (e.type != Type::integer) break;
      const std::vector<int64_t>& variable = integers_[size_t(e.slot)];
      if (variable.empty()) break;
      for (int i = 0; i < n; ++i) out[i] = variable[size_t(lanes.thread[i])];
      return;
    }
    case Kind::member:
      if (e.name == "threadIdx.x")
        std::copy(lanes.thread, lanes.thread + n, out);
      else if (e.name == "blockIdx.x")
        std::fill(out, out + n, block_);
      else if (e.name == "blockDim.x")
        std::fill(out, out + n, launch_.threads);
      else if (e.name == "gridDim.x")
        std::fill(out, out + n, launch_.blocks);
      else
        break;
      return;
    case Kind::element: {
      double* value = reals(n);
      load(e, lanes, value);
      for (int i = 0; i < n; ++i) {
        if (std::isnan(value[i])) throw Misstep("an integer is read where memory holds none", e.line);
        out[i] = int64_t(value[i]);
      }
      return;
    }
    case Kind::negative:
    case Kind::not_:
      integer(e.args[0], lanes, out);
      for (int i = 0; i < n; ++i)
        if (out[i] != undefined) out[i] = e.kind == Kind::negative ? difference(0, out[i], e.line) : !out[i];
      return;
    case Kind::add:
    case Kind::sub:
    case Kind::mul:
    case Kind::div:
    case Kind::modulo:
      return combine(e, lanes, out, [&](int64_t a, int64_t b) { return computed_if_defined(e, a, b); });
    case Kind::less:
    case Kind::less_equal:
    case Kind::equal:
      return compare(e, lanes, out);
    case Kind::and_:
    case Kind::or_:
      return logical(e, lanes, out);
    case Kind::choose:
      return choose(e, lanes, out);
    case Kind::to_unsigned:
      return integer(e.args[0], lanes, out);
    case Kind::to_integer: {
      double* value = reals(n);
      real(e.args[0], lanes, value);
      for (int i = 0; i < n; ++i) {
        if (!(std::abs(value[i]) < 9e18)) throw Misstep("a conversion to an integer of what is none", e.line);
        out[i] = int64_t(value[i]);
      }
      return;
    }
    case Kind::call:
      if (e.name == "collect_hits" && e.args.size() == 2) return collect_hits(e, lanes, out);
      break;
    default:
      break;
  }
  throw NotFollowed(e.name.empty() ? "in a kernel, an expression of another kind" : e.name, e.line);
}

void ThreadBlock::compare(const Expression& e, Lanes lanes, int64_t* out) {
  const Expression &a = e.args[0], &b = e.args[1];
  if (a.type == Type::real || b.type == Type::real) {
    double *x = reals(lanes.count), *y = reals(lanes.count);
    real(a, lanes, x);
    real(b, lanes, y);
    for (int i = 0; i < lanes.count; ++i)
      out[i] = std::isnan(x[i]) || std::isnan(y[i]) ? undefined : holds(e.kind, x[i], y[i]);
    return;
  }
  int64_t *x = integers(lanes.count), *y = integers(lanes.count);
  integer(a, lanes, x);
  integer(b, lanes, y);
  for (int i = 0; i < lanes.count; ++i) out[i] = holds(e, x[i], y[i]);
  if (Decisions* decisions = outside_.decisions())
    for (int i = 0; i < lanes.count; ++i) decisions->note(e, x[i], y[i], out[i] != 0, lanes.thread[i]);
}

void ThreadBlock::decide(const Expression& condition, Lanes lanes, int64_t* out) {
  integer(condition, lanes, out);
  if (Decisions* decisions = outside_.decisions())
    for (int i = 0; i < lanes.count; ++i) decisions->note(condition, out[i], 0, out[i] != 0, lanes.thread[i]);
}

/// The second condition is looked at only where the first leaves it open.
void ThreadBlock::logical(const Expression& e, Lanes lanes, int64_t* out) {
  integer(e.args[0], lanes, out);
  std::vector<int> open, at;
  for (int i = 0; i < lanes.count; ++i)
    if (out[i] != undefined && (out[i] != 0) == (e.kind == Kind::and_))
      open.push_back(lanes.thread[i]), at.push_back(i);
  if (open.empty()) return;
  int64_t* second = integers(int(open.size()));
  integer(e.args[1], {open.data(), int(open.size())}, second);
  for (size_t i = 0; i < open.size(); ++i) out[at[i]] = second[i] == undefined ? undefined : second[i] != 0;
}

template <class T, class Operator>
void ThreadBlock::combine(const Expression& e, Lanes lanes, T* out, Operator operation) {
  T* by = numbers<T>(lanes.count);
  evaluate(e.args[0], lanes, out);
  evaluate(e.args[1], lanes, by);
  for (int i = 0; i < lanes.count; ++i) out[i] = operation(out[i], by[i]);
}

template <class T>
void ThreadBlock::choose(const Expression& e, Lanes lanes, T* out) {
  int64_t* condition = integers(lanes.count);
  decide(e.args[0], lanes, condition);
  for (bool yes : {true, false}) {
    std::vector<int> threads, at;
    for (int i = 0; i < lanes.count; ++i)
      if (condition[i] != undefined && (condition[i] != 0) == yes) threads.push_back(lanes.thread[i]), at.push_back(i);
    if (threads.empty()) continue;
    const Lanes part{threads.data(), int(threads.size())};
    T* value = numbers<T>(part.count);
    evaluate(e.args[yes ? 1 : 2], part, value);
    for (int i = 0; i < part.count; ++i) out[at[size_t(i)]] = value[i];
  }
  for (int i = 0; i < lanes.count; ++i)
    if (condition[i] == undefined) out[i] = unknown<T>;
}

/// The threads for which the condition holds, in their order, to a shared array; their number to all.
void ThreadBlock::collect_hits(const Expression& e, Lanes lanes, int64_t* out) {
  integer(e.args[0], lanes, out);
  const Place list = place(e.args[1], lanes);
  if (list.array < 0 || !arrays_[size_t(list.array)].shared) throw NotFollowed("a list of hits elsewhere", e.line);
  barrier(lanes, e.line);
  int64_t hits = 0;
  for (int i = 0; i < lanes.count; ++i) {
    if (out[i] == undefined) throw NotFollowed("a hit that depends on what is no number", e.line);
    if (out[i])
      cell(arrays_[size_t(list.array)], sum(list.offset[i], hits++, e.line), lanes.thread[i], true, e.line) =
          lanes.thread[i];
  }
  barrier(lanes, e.line);
  std::fill(out, out + lanes.count, hits);
}

void ThreadBlock::real(const Expression& e, Lanes lanes, double* out) {
  count(lanes.count, e.line);
  if (slice_) throw NotFollowed("an address that depends on numbers of the model", e.line);
  Numbers here(*this);
  const int n = lanes.count;
  auto as_integer = [&](const Expression& inner) {
    int64_t* whole = integers(n);
    integer(inner, lanes, whole);
    for (int i = 0; i < n; ++i) out[i] = whole[i] == undefined ? std::nan("") : double(whole[i]);
  };
  switch (e.kind) {
    case Kind::real:
      std::fill(out, out + n, e.real_value);
      return;
    case Kind::integer:
      std::fill(out, out + n, double(e.integer_value));
      return;
    case Kind::variable: {
      if (e.type == Type::integer) return as_integer(e);
      const std::vector<double>& variable = reals_[size_t(e.slot)];
      if (variable.empty()) break;
      for (int i = 0; i < n; ++i) out[i] = variable[size_t(lanes.thread[i])];
      return;
    }
    case Kind::element:
      return load(e, lanes, out);
    case Kind::negative:
      real(e.args[0], lanes, out);
      for (int i = 0; i < n; ++i) out[i] = -out[i];
      return;
    case Kind::add:
    case Kind::sub:
    case Kind::mul:
    case Kind::div:
      return combine(e, lanes, out, [&](double a, double b) { return computed(e, a, b); });
    case Kind::choose:
      return choose(e, lanes, out);
    case Kind::to_real:
      return as_integer(e.args[0]);
    case Kind::call:
      return real_call(e, lanes, out);
    default:
      break;
  }
  throw NotFollowed(e.name.empty() ? "in a kernel, an expression of another kind" : e.name, e.line);
}

void ThreadBlock::real_call(const Expression& e, Lanes lanes, double* out) {
  const Helper& function = helper(e.slot);  // by spell_out
  if (e.slot <= 0 || e.args.size() != function.arguments) throw NotFollowed("in a kernel, a call of " + e.name, e.line);
  const int n = lanes.count;
  switch (function.builtin) {
    case Builtin::infinity:
      std::fill(out, out + n, std::numeric_limits<double>::infinity());
      return;
    case Builtin::not_a_number:
      std::fill(out, out + n, std::nan(""));
      return;
    case Builtin::uniform: {
      int64_t* argument[4];
      for (size_t a = 0; a < 4; ++a) integer(e.args[a], lanes, argument[a] = integers(n));
      for (int i = 0; i < n; ++i)
        out[i] = philox_uniform(uint64_t(argument[0][i]), int(argument[1][i]), uint64_t(argument[2][i]),
                                uint64_t(argument[3][i]));
      return;
    }
    case Builtin::combined:
      real(e.args[0], lanes, out);
      return combined(function, lanes, out, e.line);
    case Builtin::arithmetic: {
      double* second = reals(n);
      real(e.args[0], lanes, out);
      if (rounds_to(function.kind) && !outside_.rounds()) return;
      if (e.args.size() > 1) real(e.args[1], lanes, second);
      for (int i = 0; i < n; ++i) out[i] = number(function.kind, out[i], e.args.size() > 1 ? second[i] : 0);
      return;
    }
    default:
      throw NotFollowed("in a kernel, a call of " + e.name, e.line);
  }
}

/// The sum or the maximum over threads that meet: every `spread`-th of each `group` threads.
void ThreadBlock::combined(const Helper& function, Lanes lanes, double* values, int line) {
  const int group = function.group > 0 ? function.group : threads_, spread = function.spread;
  if (function.group <= 0) barrier(lanes, line);
  std::vector<double> totals(size_t(threads_ / group * spread));
  std::vector<int> met(totals.size(), 0);
  auto total_of = [&](int thread) { return size_t(thread / group * spread + thread % spread); };
  for (int i = 0; i < lanes.count; ++i) {
    const size_t t = total_of(lanes.thread[i]);
    if (met[t]++ == 0)
      totals[t] = values[i];
    else
      totals[t] = function.kind == ExprKind::maximum ? larger(totals[t], values[i]) : totals[t] + values[i];
  }
  for (int i = 0; i < lanes.count; ++i) {
    const size_t t = total_of(lanes.thread[i]);
    if (met[t] != group / spread) throw Misstep("threads of the warp do not all come to where they meet", line);
    values[i] = totals[t];
  }
  if (function.group <= 0) barrier(lanes, line);
}

void ThreadBlock::load(const Expression& e, Lanes lanes, double* out) {
  load_at(element_place(e, lanes), e.args[0].type, 0, lanes, out, e.line);
}

}  // namespace hetsynth::source
