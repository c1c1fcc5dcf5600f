// Loops whose turns are alike: an element of a block is the sum of what they add to it, each the same function of the
// counters, which only enter addresses and positions as they are. A few turns then tell of all.
#include <algorithm>

#include "verify/source/execute/arithmetic.h"
#include "verify/source/text/each.h"
#include "verify/source/text/library.h"

namespace hetsynth::source {
namespace {

/// The expressions that a statement itself reads; of a variable that it adds to, not the variable. Goes through each by
/// `through`, each_expression or one that leaves something out.
template <class Through, class Visit>
void each_read_by(const Statement& s, const Through& through, const Visit& visit) {
  if (s.target.kind == Kind::element)
    for (const Expression& arg : s.target.args) through(arg, visit);
  for (const Expression* e : {&s.value, &s.limit, &s.increment}) through(*e, visit);
  for (const Expression& e : s.list) through(e, visit);
}

template <class Visit>
void each_read(const Statement& s, const Visit& visit) {
  each_read_by(
      s, [](const Expression& e, const auto& look) { each_expression(e, look); }, visit);
}

/// What does not do the same with every number.
bool tells_numbers_apart(const Expression& e) {
  switch (e.kind) {
    case Kind::div:
      return e.type == Type::integer;
    case Kind::modulo:
    case Kind::not_:
    case Kind::less:
    case Kind::less_equal:
    case Kind::equal:
    case Kind::and_:
    case Kind::or_:
    case Kind::choose:
    case Kind::to_integer:
      return true;
    case Kind::element:
      return e.args[0].kind == Kind::global;
    default:
      return false;
  }
}

/// A number that is computed with as a real.
bool is_counted_with(const Expression& e, const Expression& arg) {
  if (arg.type != Type::integer) return false;
  switch (e.kind) {
    case Kind::to_real:
      return true;
    case Kind::add:
    case Kind::sub:
    case Kind::mul:
    case Kind::div:
    case Kind::negative:
      return e.type == Type::real;
    case Kind::call:  // of one that draws random numbers, it is a position
      return helper(e.name).builtin != Builtin::uniform && helper(e.name).builtin != Builtin::row_sum &&
             helper(e.name).builtin != Builtin::row_max;
    default:
      return false;
  }
}

}  // namespace

/// Whether the number depends on a counter: not by what lies in memory at a place that does.
bool Outline::counts_with(const Expression& e, int slot) const {
  if (e.kind == Kind::variable) {
    if (e.slot == slot) return true;
    auto defined = definitions_.find(e.slot);
    return defined != definitions_.end() && counts_with(*defined->second, slot);
  }
  if (is_pointer(e.type)) return false;
  if (e.kind == Kind::element) return e.args[0].kind == Kind::global && counts_with(e.args[1], slot);
  if (e.kind == Kind::call && helper(e.name).builtin == Builtin::uniform) return false;
  return std::any_of(e.args.begin(), e.args.end(), [&](const Expression& arg) { return counts_with(arg, slot); });
}

/// Bounds of a box within which the expression is something and 0 outside of it, as a padded image is where a window
/// looks beyond it: numbers that are linear in counters, each of which is at least 0 inside. Empty: it is none.
std::vector<Affine> Outline::bounds_of_box(const Expression& e) const {
  std::vector<Affine> out;
  const auto note = [&](auto&& self, const Expression& condition) -> bool {
    if (condition.kind == Kind::integer) return condition.integer_value != 0;
    if (condition.kind == Kind::and_) return self(self, condition.args[0]) && self(self, condition.args[1]);
    if (condition.kind != Kind::less && condition.kind != Kind::less_equal) return false;
    Affine low, high;
    if (!affine(condition.args[0], low) || !affine(condition.args[1], high)) return false;
    high.constant = difference(high.constant, low.constant, e.line);
    if (condition.kind == Kind::less) high.constant = difference(high.constant, 1, e.line);
    for (auto [slot, c] : low.coefficients) high.coefficients[slot] = difference(high.coefficients[slot], c, e.line);
    out.push_back(std::move(high));
    return true;
  };
  const bool box = e.kind == Kind::choose && e.type == Type::real && e.args[2].kind == Kind::real &&
                   e.args[2].real_value == 0 && note(note, e.args[0]);
  return box ? out : std::vector<Affine>{};
}

/// Whether a counter enters the bounds together with counters of loops around it only, which are known where it is
/// looked for where it leaves the box.
bool Outline::bounded_from_outside(const std::vector<Affine>& bounds, int slot) const {
  return std::ranges::all_of(bounds, [&](const Affine& bound) {
    return !bound.coefficients.count(slot) || std::ranges::all_of(bound.coefficients, [&](const auto& entry) {
      return entry.first == slot || entry.second == 0 || in(loops.at(slot).enclosing, entry.first);
    });
  });
}

/// As each_expression, without the conditions of boxes that may bound the counter.
template <class Visit>
void Outline::each_but_bounds(const Expression& e, int slot, const Visit& visit) const {
  const std::vector<Affine> bounds = bounds_of_box(e);
  if (!bounds.empty() && bounded_from_outside(bounds, slot)) return each_but_bounds(e.args[1], slot, visit);
  visit(e);
  for (const Expression& arg : e.args) each_but_bounds(arg, slot, visit);
}

std::vector<Affine> Outline::bounds_inside(int block) const {
  std::vector<Affine> out;
  for (int slot : summed_over(block))
    each_statement(*loops.at(slot).statement, [&](const Statement& s) {
      each_read(s, [&](const Expression& e) {
        for (Affine& bound : bounds_of_box(e)) out.push_back(std::move(bound));
      });
    });
  return out;
}

/// Whether what the loop does with a number of its counter is the same for all of them, but for where it reads and
/// writes. Of a loop over chunks: for all chunks; where one ends decides nothing but how far the loops over it go,
/// whose pieces make the whole (bounds_from_chunks). `boxes`: bounds on the counter may decide whether it does
/// anything.
bool Outline::does_alike(int slot, bool boxes) const {
  const Statement& s = *loops.at(slot).statement;
  const bool chunks = s.step > 1;
  const auto mentions = [&](const Expression& e) { return counts_with(e, slot); };
  std::set<int> ends;
  bool out = true;
  const auto look = [&](const Expression& e) {
    if (tells_numbers_apart(e) && mentions(e)) out = false;
    for (const Expression& arg : e.args)
      if (is_counted_with(e, arg) && mentions(arg)) out = false;
    if (e.kind == Kind::variable && ends.count(e.slot)) out = false;
  };
  each_statement(s, [&](const Statement& inner) {
    if (inner.kind == Statement::Kind::stop || inner.kind == Statement::Kind::call) out = false;
    if (inner.kind == Statement::Kind::branch && mentions(inner.value)) out = false;
    if (&inner != &s && inner.kind == Statement::Kind::loop && (mentions(inner.value) || mentions(inner.limit))) {
      if (!chunks || loops.at(inner.slot).chunks_of != slot) out = false;
    } else if (chunks && inner.kind == Statement::Kind::declare && inner.type == Type::integer &&
               mentions(inner.value)) {
      ends.insert(inner.slot);
    } else {
      each_read_by(
          inner,
          [&](const Expression& e, const auto& visit) {
            boxes ? each_but_bounds(e, slot, visit) : each_expression(e, visit);
          },
          look);
    }
  });
  return out;
}

/// Whether what the loop hands on to its next turn is only added to.
bool Outline::only_adds(int slot) const {
  const Loop& loop = loops.at(slot);
  bool out = loop.arrays.empty();
  each_statement(*loop.statement, [&](const Statement& inner) {
    each_read(inner, [&](const Expression& e) {
      if (e.kind == Kind::variable && in(loop.carried, e.slot)) out = false;
    });
    if (inner.kind == Statement::Kind::assign && inner.target.kind == Kind::variable &&
        in(loop.carried, inner.target.slot) && !inner.accumulates)
      out = false;
  });
  return out;
}

/// Whether elements of local arrays that the loop reads are each set once, by loops that do the same for all of them.
/// Arrays that a turn of the loop makes for itself may be filled in any way: whoever executes the turn fills them.
bool Outline::fed_alike(int slot, std::set<int>& seen) const {
  bool out = true;
  each_statement(*loops.at(slot).statement, [&](const Statement& inner) {
    each_read(inner, [&](const Expression& e) {
      if (!out || e.kind != Kind::element) return;
      const Expression* base = base_of(e.args[0]);
      const int array = base ? frame_[size_t(base->slot)].pointer.array : -1;
      const auto found = array_stores.find(array);
      if (array < 0 || found == array_stores.end()) return;
      if (in(loops.at(slot).arrays, array)) {  // one turn reads what another left
        out = false;
        return;
      }
      const auto in_turn = [&](const Store& store) { return in(store.loops, slot); };
      if (std::ranges::all_of(found->second, in_turn) || !seen.insert(array).second) return;
      for (const Store& store : found->second) {
        out = out && found->second.size() == 1 && store.affine && store.injective && !store.conditional;
        for (int around : store.loops) {
          if (!out || around == slot || in(loops.at(slot).enclosing, around)) continue;
          out = loops.at(around).carried.empty() && store.address.coefficients.count(around) > 0 &&
                does_alike(around) && fed_alike(around, seen);
        }
      }
    });
  });
  return out;
}

/// Whether the loop takes every number of a fixed range once, and does the same with each but for its counter. The
/// range may be taken in chunks.
bool Outline::alike(int slot) const {
  const Loop& loop = loops.at(slot);
  const Statement& s = *loop.statement;
  std::set<int> depends, arrays;
  note_counters(s.value, depends);
  note_counters(s.limit, depends);
  if (!loop.exact || s.step != 1 || !does_alike(slot, true) || !only_adds(slot)) return false;
  if (loop.chunks_of < 0) return depends.empty() && fed_alike(slot, arrays);
  return does_alike(loop.chunks_of) && only_adds(loop.chunks_of) && fed_alike(slot, arrays);
}

/// The loops around the one place where the variable is added to and inside of its declaration.
std::vector<int> Outline::loops_of_sum(int variable) const {
  std::vector<int> around, out;
  int additions = 0;
  bool declared = false, plain = true;
  auto visit = [&](auto&& self, const Statement& s) -> void {
    const bool loop = s.kind == Statement::Kind::loop;
    if (loop) around.push_back(s.slot);
    if (s.kind == Statement::Kind::declare && s.slot == variable) {
      plain = plain && !declared;
      declared = true;
      out = around;
    }
    if (s.kind == Statement::Kind::assign && s.target.kind == Kind::variable && s.target.slot == variable) {
      plain = plain && s.accumulates && declared && ++additions == 1 && around.size() >= out.size() &&
              std::equal(out.begin(), out.end(), around.begin());
      if (plain) out = {around.begin() + long(out.size()), around.end()};
    }
    for (const Statement& inner : s.body) self(self, inner);
    if (loop) around.pop_back();
  };
  visit(visit, body_);
  return plain && additions == 1 ? out : std::vector<int>{};
}

std::vector<int> Outline::summed_over(int block) const {
  std::vector<const Store*> adding, setting;
  for (const Store& store : stores)
    if (store.block == block) (store.statement->accumulates ? adding : setting).push_back(&store);
  if (setting.size() != 1 || adding.size() > 1 || !setting[0]->affine || setting[0]->conditional) return {};
  std::vector<int> found;
  if (adding.size() == 1) {
    const Store& store = *adding[0];
    // Whether something is added may depend on what is looked up, as where it goes.
    if ((store.affine && store.conditional) || setting[0]->statement->number > store.statement->number) return {};
    const Affine& apart = store.affine ? store.address : store.remainder;
    for (int slot : store.loops)
      if (!apart.coefficients.count(slot) && !in(setting[0]->loops, slot)) found.push_back(slot);
  } else {
    const Expression& value = setting[0]->statement->value;
    if (value.kind != Kind::variable || value.type != Type::real) return {};
    found = loops_of_sum(value.slot);
    for (int slot : found)
      if (in(setting[0]->loops, slot)) return {};
  }
  std::vector<int> out;
  for (int slot : found)
    if (loops.at(slot).extent() > 1 && alike(slot)) out.push_back(slot);
  return out;
}

}  // namespace hetsynth::source
