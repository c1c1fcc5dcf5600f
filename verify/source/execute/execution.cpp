#include "verify/source/execute/execution.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "dsl/ir/interpreter.h"
#include "verify/source/execute/arithmetic.h"
#include "verify/source/text/library.h"

namespace hetsynth::source {
namespace {

/// Largest local array: what generated text keeps on the stack.
constexpr int64_t longest_array = int64_t(1) << 24;

bool sums_row(Builtin builtin) { return builtin == Builtin::row_sum || builtin == Builtin::row_max; }

}  // namespace

bool decided_inside(const Outline& outline, int chunks, const Store& store, const std::map<int, int64_t>& counters) {
  return std::any_of(store.loops.begin(), store.loops.end(),
                     [&](int slot) { return outline.loops.at(slot).chunks_of == chunks && counters.count(slot) > 0; });
}

double Execution::value(int64_t byte) const {
  auto found = overlay_.find(byte);
  if (found == overlay_.end())
    throw Misstep("an element of the block is never written", c_.outline.written[size_t(block_)].line);
  return found->second;
}

// ---- statements ----

void Execution::execute(const Statement& s) {
  line_ = s.line;
  if (s.kind != Statement::Kind::block) now_ = s.number;
  switch (s.kind) {
    case Statement::Kind::block:
      for (const Statement& inner : s.body) execute(inner);
      return;
    case Statement::Kind::declare:
      return declare(s);
    case Statement::Kind::assign:
      return assign(s);
    case Statement::Kind::loop:
      return loop(s);
    case Statement::Kind::branch:
      if (decide(s.value))
        execute(s.body[0]);
      else if (s.body.size() > 1)
        execute(s.body[1]);
      return;
    default:
      throw NotFollowed("a statement of another kind", s.line);
  }
}

/// Of an expression that a variable is read in which waits: that variable as `forgotten_` has it; else -1. A sum over a
/// row waits itself.
int Execution::missing_of(const Expression& e) const {
  if (e.kind == Kind::variable && e.type == Type::real) {
    const auto by = forgotten_.find(e.slot);
    return by != forgotten_.end() && by->second >= first_waiting ? by->second : -1;
  }
  for (const Expression& arg : e.args)
    if (const int by = missing_of(arg); by >= 0) return by;
  return -1;
}

/// A sum over a row is dear, and most elements do not depend on it. It waits until something reads what is made of it:
/// then it is wanted, and everything is executed again. The same goes for what it enters. False: it is executed.
bool Execution::waits(const Statement& s) {
  const bool declares = s.kind == Statement::Kind::declare;
  if (declares && s.type == Type::real && s.has_value && !selection_.wanted.count(s.slot)) {
    const bool sums = s.value.kind == Kind::call && s.value.slot > 0 && sums_row(helper(s.value.slot).builtin);
    const int by = sums ? first_waiting + s.slot : any_waits_ ? missing_of(s.value) : -1;
    if (by < 0) return false;
    any_waits_ = true;
    frame_[size_t(s.slot)].real = std::nan("");
    forgotten_[s.slot] = by;
    return true;
  }
  if (declares || !any_waits_ || s.target.kind != Kind::element || s.target.type != Type::real) return false;
  const int by = missing_of(s.value);
  if (by < 0) return false;
  const Pointer to = pointer(s.target.args[0]);
  if (to.array >= 0) return false;
  const int64_t byte = place_of(to, integer(s.target.args[1]), s.target.args[0].type, s.line);
  const Written& wanted = c_.outline.written[size_t(block_)];
  if ((byte >= wanted.begin && byte < wanted.end) || !in_blocks(byte) || s.accumulates) return false;
  lost_[byte] = by;
  overlay_.erase(byte);
  return true;
}

void Execution::declare(const Statement& s) {
  if (waits(s)) return;
  Cell& cell = frame_[size_t(s.slot)];
  if (s.elements > 0) {
    if (s.elements > longest_array) throw NotFollowed("a very long local array", s.line);
    LocalArray& array = arrays_[size_t(s.slot)];
    size_t size = size_t(s.elements);
    if (array.values.size() != size) {
      array.values.assign(size, std::nan(""));
      array.set.assign(size, 0);
      array.checked.assign(size, 0);
    }
    // Elements are what they are set to from now on: going over all of them would cost more than a turn does.
    array.declared = ++clock_;
    ++moment_;
    array.restricted = false;
    if (auto stores = c_.outline.array_stores.find(s.slot); stores != c_.outline.array_stores.end())
      for (const Store& store : stores->second)
        for (int slot : store.loops) array.restricted = array.restricted || restricted(slot);
    for (size_t i = 0; i < s.list.size() && i < size; ++i) {
      array.values[i] = s.list[i].type == Type::integer ? double(integer(s.list[i])) : real(s.list[i]);
      array.set[i] = clock_;
    }
    if (s.zeroed) {
      std::fill(array.values.begin() + long(s.list.size()), array.values.end(), 0.0);
      std::fill(array.set.begin(), array.set.end(), clock_);
    }
    cell.pointer = {s.slot, 0};
  } else if (s.type == Type::integer) {
    if (s.has_value) cell.integer = integer(s.value);
  } else if (s.type == Type::real) {
    cell.real = s.has_value ? real(s.value) : std::nan("");
    forgotten_.erase(s.slot);
  } else if (is_pointer(s.type) && s.has_value) {
    cell.pointer = pointer(s.value);
  } else {
    throw NotFollowed("a variable of another type", s.line);
  }
}

void Execution::assign(const Statement& s) {
  bool is_integer = s.target.type == Type::integer;
  if ((!forgotten_.empty() && (puts_off(s) || waits(s))) || (s.accumulates && adds_elsewhere(s))) return;
  double value = is_integer ? double(integer(s.value)) : real(s.value);
  line_ = s.line;
  now_ = s.number;
  if (s.target.kind == Kind::variable) {
    if (s.accumulates && forgotten_.count(s.target.slot)) return;  // not known, and stays so until it is read
    if (s.accumulates) value += variable(s.target.slot);
    frame_[size_t(s.target.slot)].real = value;
    if (!forgotten_.empty()) forgotten_.erase(s.target.slot);
    return;
  }
  Pointer to = pointer(s.target.args[0]);
  int64_t at = integer(s.target.args[1]);
  if (to.array >= 0) {
    LocalArray& array = arrays_[size_t(to.array)];
    at = sum(at, to.at, s.line);
    if (at < 0 || at >= int64_t(array.values.size()))
      throw Misstep("a local array is written outside of its bounds", s.line);
    if (s.accumulates) value += array_element({to.array, 0}, at, s.line);
    array.values[size_t(at)] = value;
    array.set[size_t(at)] = ++clock_;
    if (decisions_) decisions_->written(to.array, at);
    return;
  }
  Type pointer_type = s.target.args[0].type;
  int64_t byte = place_of(to, at, pointer_type, s.line);
  if (!in_blocks(byte))
    throw Misstep(fmt::format("byte {} of the arena is written outside of every block", byte), s.line);
  if (s.accumulates) {
    adding_ = true;
    value += load(byte, element_type(pointer_type), to.through);
    adding_ = false;
  }
  if (!lost_.empty()) lost_.erase(byte);
  overlay_[byte] = value;
  if (decisions_) decisions_->written(Decisions::arena, byte);
  for (const Store& store : c_.outline.stores)
    if (store.statement == &s && !store.affine && store.block == block_) hits_.push_back(byte);
}

/// What goes to another block, and is not known, is missed when it is read.
bool Execution::puts_off(const Statement& s) {
  if (s.target.kind != Kind::element || s.accumulates || s.value.kind != Kind::variable) return false;
  const auto by = forgotten_.find(s.value.slot);
  if (by == forgotten_.end()) return false;
  const Pointer to = pointer(s.target.args[0]);
  if (to.array >= 0) return false;
  const int64_t byte = place_of(to, integer(s.target.args[1]), s.target.args[0].type, s.line);
  const Written& wanted = c_.outline.written[size_t(block_)];
  if ((byte >= wanted.begin && byte < wanted.end) || !in_blocks(byte)) return false;
  lost_[byte] = by->second;
  overlay_.erase(byte);
  return true;
}

/// What is added to other blocks is left out until these are read.
bool Execution::adds_elsewhere(const Statement& s) {
  if (s.target.kind != Kind::element) return false;
  const Pointer to = pointer(s.target.args[0]);
  if (to.array >= 0) return false;
  const int64_t byte = place_of(to, integer(s.target.args[1]), s.target.args[0].type, s.line);
  for (size_t b = 0; b < c_.outline.written.size(); ++b) {
    const Written& block = c_.outline.written[b];
    if (byte < block.begin || byte >= block.end) continue;
    if (int(b) == block_ || selection_.read_back.count(int(b))) return false;
    lost_[byte] = -1 - int(b);
    return true;
  }
  return false;
}

bool Execution::in_blocks(int64_t byte) const {
  for (const Written& block : c_.outline.written)
    if (byte >= block.begin && byte < block.end) return true;
  return false;
}

// ---- loops ----

void Execution::loop(const Statement& s) {
  const Loop& loop = c_.outline.loops.at(s.slot);
  int64_t begin = integer(s.value), end = integer(s.limit);
  int64_t shift = loop.relative ? frame_[size_t(loop.chunks_of)].integer : 0;
  sum(begin, shift, s.line), sum(sum(end, shift, s.line), s.step, s.line);  // what the counter is compared with
  active_.push_back(s.slot);
  if (selection_.only.count(s.slot)) {
    // The turns may grow in number meanwhile, or become all of them: then what comes of this counts for nothing.
    for (int64_t next = begin + shift; next < end + shift; ++next) {
      auto only = selection_.only.find(s.slot);
      if (only == selection_.only.end()) break;
      auto at = only->second.lower_bound(next);
      if (at == only->second.end() || *at >= end + shift) break;
      next = *at;
      if (loop.extent() > 1 && !selection_.alone.count(s.slot)) forget(s.slot, loop);
      turn(s, next - shift);
    }
  } else if (s.step > 1 && restricted(s.slot)) {
    for (int64_t at : wanted_chunks(s, begin, end)) {
      if (loop.turns() > 1 && !selection_.alone.count(s.slot)) forget(s.slot, loop);
      turn(s, at);
    }
  } else {
    for (int64_t at = begin; at < end; at += s.step) turn(s, at);
  }
  active_.pop_back();
  if (!loop.arrays.empty()) ++moment_;
}

void Execution::turn(const Statement& s, int64_t counter) {
  frame_[size_t(s.slot)].integer = counter;
  if (s.step > 1) ++moment_;
  const size_t begun = decisions_ ? decisions_->turn() : 0;
  for (const Statement& inner : s.body) execute(inner);
  if (decisions_) decisions_->end_turn(begun);
}

/// Whether turns of the loop are left out.
bool Execution::restricted(int slot) const {
  if (selection_.full.count(slot)) return false;
  if (selection_.only.count(slot)) return true;
  bool inside = false;
  for (const auto& [inner, loop] : c_.outline.loops) {
    if (loop.chunks_of != slot) continue;
    if (!selection_.only.count(inner)) return false;
    inside = true;
  }
  return inside;
}

/// Where chunks begin of which loops inside run some turn.
std::set<int64_t> Execution::wanted_chunks(const Statement& s, int64_t begin, int64_t end) const {
  std::set<int64_t> out;
  for (const auto& [inner, loop] : c_.outline.loops) {
    if (loop.chunks_of != s.slot) continue;
    auto only = selection_.only.find(inner);
    if (only == selection_.only.end()) continue;
    for (int64_t turn : only->second)
      if (turn >= begin && turn < end) out.insert(begin + (turn - begin) / s.step * s.step);
  }
  return out;
}

/// What turns that are left out would have left in variables is unknown.
void Execution::forget(int slot, const Loop& loop) {
  for (int variable : loop.carried) forgotten_[variable] = slot;
  for (int array : loop.arrays) {
    auto stores = c_.outline.array_stores.find(array);
    if (stores == c_.outline.array_stores.end()) continue;
    // Elements that depend on this very counter are looked after when they are read.
    bool apart = std::all_of(stores->second.begin(), stores->second.end(), [&](const Store& store) {
      bool here = in(store.loops, slot);
      return !here || (store.affine && store.injective && loop.statement->step == 1 &&
                       store.address.coefficients.count(slot) > 0);
    });
    if (apart) continue;
    arrays_[size_t(array)].forgotten = ++clock_;
    arrays_[size_t(array)].forgotten_by = slot;
  }
}

bool Execution::is_active(int slot) const { return in(active_, slot); }

void Execution::run_in_full(int slot) {
  if (!selection_.full.insert(slot).second) return;
  selection_.only.erase(slot);
  widened_ = true;
}

/// The turns in which the store writes the element that these counters belong to.
void Execution::need(const Store& store, const std::map<int, int64_t>& counters) {
  for (int slot : store.loops) {
    if (selection_.full.count(slot)) continue;
    auto only = selection_.only.find(slot);
    if (auto at = counters.find(slot); at != counters.end()) {
      if (only != selection_.only.end() && only->second.insert(at->second).second) widened_ = true;
    } else if (!is_active(slot) && restricted(slot) && !decided_inside(c_.outline, slot, store, counters)) {
      run_in_full(slot);
    }
  }
}

void Execution::need_all(const Store& store) {
  for (int slot : store.loops)
    if (restricted(slot)) run_in_full(slot);
}

void Execution::need_element(int array, int64_t at) {
  auto stores = c_.outline.array_stores.find(array);
  if (stores == c_.outline.array_stores.end()) return;
  for (const Store& store : stores->second) {
    bool placed = store.affine && store.injective;
    for (int slot : store.loops) {
      int chunks = c_.outline.loops.at(slot).chunks_of;
      if (chunks >= 0 && store.address.coefficients.count(slot) && !is_active(chunks)) placed = false;
    }
    std::map<int, int64_t> counters;
    if (!placed)
      need_all(store);
    else if (c_.outline.decode(store, at, counters, frame_))
      need(store, counters);
  }
}

/// An element that the code itself writes is read. In place that is right if it is this very turn that overwrites it,
/// afterwards. `own`: it was written here before.
void Execution::need_byte(int64_t byte, bool own) {
  for (const Store& store : c_.outline.stores) {
    if (byte < store.low || byte >= store.high) continue;
    std::map<int, int64_t> counters;
    if (!c_.outline.decode(store, byte, counters, {})) {
      // Of its own block, what is added to an element in the turns that run is all that comes to it; what is read of
      // others there, other turns may have made.
      if (!store.affine && (store.block != block_ || !adding_)) need_all(store);
      continue;
    }
    bool before = store.statement->number < now_;
    for (int slot : store.loops) {
      if (!is_active(slot)) continue;
      auto wanted = counters.find(slot);
      if (wanted == counters.end()) {
        before = before || c_.outline.loops.at(slot).turns() > 1;
        continue;
      }
      const Loop& loop = c_.outline.loops.at(slot);
      int64_t now = frame_[size_t(slot)].integer + (loop.relative ? frame_[size_t(loop.chunks_of)].integer : 0);
      if (wanted->second != now && !own)
        throw Misstep(fmt::format("byte {} of the arena is read here and overwritten by another iteration", byte),
                      line_);
    }
    if (before) need(store, counters);
  }
}

}  // namespace hetsynth::source
