// What expressions of an executed piece of code are worth: numbers, addresses, and the contents of memory.
#include <algorithm>
#include <cmath>

#include "dsl/ir/interpreter.h"
#include "verify/source/execute/arithmetic.h"
#include "verify/source/execute/execution.h"
#include "verify/source/text/library.h"

namespace hetsynth::source {

void Execution::count() {
  if (++work_ > limit_ && limit_ > 0) throw TooLong();
}

/// What turns of this loop left behind is read. If more is going to run anyway, that may have been all that was
/// missing.
double Execution::lost(int loop) {
  if (loop >= first_waiting) {
    if (selection_.wanted.insert(loop - first_waiting).second) widened_ = true;
  } else if (!widened_) {
    run_in_full(loop);
  }
  return std::nan("");
}

double Execution::variable(int slot) {
  if (!forgotten_.empty())
    if (auto by = forgotten_.find(slot); by != forgotten_.end()) return lost(by->second);
  return frame_[size_t(slot)].real;
}

int64_t Execution::integer_variable(int slot) const {
  const Cell& cell = frame_[size_t(slot)];
  return cell.step ? c_.memory.step() : cell.integer;
}

int64_t Execution::integer(const Expression& e) {
  count();
  switch (e.kind) {
    case Kind::integer:
      return e.integer_value;
    case Kind::variable:
      if (e.type == Type::integer) return integer_variable(e.slot);
      break;
    case Kind::member:
      if (e.name == "step") return c_.memory.step();
      if (auto seed = seed_of_context(e)) return *seed;
      break;
    case Kind::element:
      return element_integer(e);
    case Kind::negative:
      return difference(0, integer(e.args[0]), e.line);
    case Kind::not_:
      return !integer(e.args[0]);
    case Kind::add:
    case Kind::sub:
    case Kind::mul:
    case Kind::div:
    case Kind::modulo: {
      const int64_t a = integer(e.args[0]), b = integer(e.args[1]);
      return computed(e, a, b);
    }
    case Kind::less:
    case Kind::less_equal:
    case Kind::equal:
      return compare(e);
    case Kind::and_:
      return integer(e.args[0]) && integer(e.args[1]);
    case Kind::or_:
      return integer(e.args[0]) || integer(e.args[1]);
    case Kind::choose:
      return decide(e.args[0]) ? integer(e.args[1]) : integer(e.args[2]);
    case Kind::to_unsigned:
      return integer(e.args[0]);
    case Kind::to_integer: {
      double value = real(e.args[0]);
      if (!(std::abs(value) < 9e18)) throw Misstep("a conversion to an integer of what is none", e.line);
      return int64_t(value);
    }
    default:
      break;
  }
  throw NotFollowed(e.name.empty() ? "an expression of another kind" : e.name, e.line);
}

int64_t Execution::compare(const Expression& e) {
  const Expression &a = e.args[0], &b = e.args[1];
  if (a.type == Type::real || b.type == Type::real) {
    double x = real(a), y = real(b);
    if (std::isnan(x) || std::isnan(y)) {
      if (widened_) return 0;
      throw Undefined();
    }
    return holds(e.kind, x, y);
  }
  const int64_t x = integer(a), y = integer(b);
  const bool out = holds(e, x, y);
  if (decisions_) decisions_->note(e, x, y, out);
  return out;
}

bool Execution::decide(const Expression& condition) {
  const int64_t value = integer(condition);
  if (decisions_) decisions_->note(condition, value, 0, value != 0);
  return value != 0;
}

double Execution::real(const Expression& e) {
  count();
  switch (e.kind) {
    case Kind::real:
      return e.real_value;
    case Kind::integer:
      return double(e.integer_value);
    case Kind::variable:
      return e.type == Type::integer ? double(integer_variable(e.slot)) : variable(e.slot);
    case Kind::element:
      return e.type == Type::integer ? double(element_integer(e)) : element(e);
    case Kind::negative:
      return -real(e.args[0]);
    case Kind::add:
      return real(e.args[0]) + real(e.args[1]);
    case Kind::sub:
      return real(e.args[0]) - real(e.args[1]);
    case Kind::mul:
      return real(e.args[0]) * real(e.args[1]);
    case Kind::div:
      return real(e.args[0]) / real(e.args[1]);
    case Kind::choose:
      return decide(e.args[0]) ? real(e.args[1]) : real(e.args[2]);
    case Kind::to_real:
      return double(integer(e.args[0]));
    case Kind::call:
      return call(e);
    default:
      throw NotFollowed(e.name.empty() ? "an expression of another kind" : e.name, e.line);
  }
}

double Execution::call(const Expression& e) {
  const Helper& function = helper(e.slot);  // by spell_out
  if (e.slot <= 0 || e.args.size() != function.arguments) throw NotFollowed("a call of " + e.name, e.line);
  switch (function.builtin) {
    case Builtin::row_sum:
      return row(e, false);
    case Builtin::row_max:
      return row(e, true);
    case Builtin::none:
    case Builtin::combined:
      throw NotFollowed("a call of " + e.name, e.line);
    case Builtin::infinity:
      return std::numeric_limits<double>::infinity();
    case Builtin::not_a_number:
      return std::nan("");
    case Builtin::uniform:
      return philox_uniform(uint64_t(integer(e.args[0])), int(integer(e.args[1])), uint64_t(integer(e.args[2])),
                            uint64_t(integer(e.args[3])));
    default:
      if (rounds_to(function.kind) && !c_.memory.rounds()) return real(e.args[0]);
      return number(function.kind, real(e.args[0]), e.args.size() > 1 ? real(e.args[1]) : 0);
  }
}

double Execution::row(const Expression& e, bool is_max) {
  Pointer from = pointer(e.args[0]);
  int64_t count = integer(e.args[1]);
  double total = is_max ? -std::numeric_limits<double>::infinity() : 0.0;
  for (int64_t i = 0; i < count; ++i) {
    double v = from.array >= 0
                   ? array_element(from, i, e.line)
                   : load(place_of(from, i, e.args[0].type, e.line), element_type(e.args[0].type), from.through);
    total = is_max ? larger(total, v) : total + v;
  }
  return total;
}

Pointer Execution::pointer(const Expression& e) {
  if (e.kind == Kind::variable) {
    if (is_pointer(e.type) || !arrays_[size_t(e.slot)].values.empty()) return frame_[size_t(e.slot)].pointer;
  } else if (e.kind == Kind::add) {
    bool first = is_pointer(e.args[0].type);
    Pointer out = pointer(e.args[first ? 0 : 1]);
    int64_t by = integer(e.args[first ? 1 : 0]);
    out.at = out.array >= 0 ? sum(out.at, by, e.line) : place_of(out, by, e.args[first ? 0 : 1].type, e.line);
    return out;
  }
  throw NotFollowed(e.name.empty() ? "an expression of another kind" : e.name, e.line);
}

int64_t Execution::element_integer(const Expression& e) {
  if (e.args[0].kind == Kind::global) {
    auto table = c_.unit.tables.find(e.args[0].name);
    int64_t at = integer(e.args[1]);
    if (table == c_.unit.tables.end() || at < 0 || at >= int64_t(table->second.size()))
      throw NotFollowed("an element of " + e.args[0].name, e.line);
    return table->second[size_t(at)];
  }
  double value = element(e);
  if (std::isnan(value)) throw Misstep("an integer is read where memory holds none", e.line);
  return int64_t(value);
}

double Execution::element(const Expression& e) {
  Pointer from = pointer(e.args[0]);
  int64_t at = integer(e.args[1]);
  line_ = e.line;
  Type type = e.args[0].type;
  return from.array >= 0 ? array_element(from, at, e.line)
                         : load(place_of(from, at, type, e.line), element_type(type), from.through);
}

double Execution::array_element(const Pointer& from, int64_t at, int line) {
  count();
  LocalArray& array = arrays_[size_t(from.array)];
  at = sum(at, from.at, line);
  if (at < 0 || at >= int64_t(array.values.size())) throw Misstep("a local array is read outside of its bounds", line);
  if (array.restricted && array.checked[size_t(at)] != moment_) {
    array.checked[size_t(at)] = moment_;
    need_element(from.array, at);
  }
  if (array.set[size_t(at)] < std::max(array.declared, array.forgotten))
    return array.forgotten > array.declared ? lost(array.forgotten_by) : std::nan("");
  if (decisions_) decisions_->read(from.array, at);
  return array.values[size_t(at)];
}

double Execution::load(int64_t byte, DType dtype, int through) {
  count();
  if (!in_blocks(byte)) return c_.memory.read(byte, dtype, through);
  if (!lost_.empty())
    if (auto by = lost_.find(byte); by != lost_.end()) {
      if (by->second >= 0) return lost(by->second);
      selection_.read_back.insert(-1 - by->second);
      widened_ = true;
      return std::nan("");
    }
  auto own = overlay_.find(byte);
  if (own != overlay_.end()) {
    if ((adding_ ? added_to_ : seen_).insert(byte).second) need_byte(byte, true);
    if (decisions_) decisions_->read(Decisions::arena, byte);
    return own->second;
  }
  need_byte(byte, false);
  return c_.memory.read(byte, dtype, through);
}

}  // namespace hetsynth::source
