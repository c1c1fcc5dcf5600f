#include "verify/source/execute/outline.h"

#include <fmt/format.h>

#include <algorithm>

#include "verify/source/execute/arithmetic.h"
#include "verify/source/text/each.h"

namespace hetsynth::source {
namespace {

/// Turns of enclosing loops that are looked at to see how a loop divides the work of chunks.
constexpr int64_t most_turns_of_chunks = int64_t(1) << 20;

}  // namespace

bool has_conditions(const Statement& s) {
  bool out = false;
  each_statement(s, [&](const Statement& inner) {
    out = out || inner.kind == Statement::Kind::branch;
    each_expression_of(inner, [&](const Expression& e) {
      const bool compares = e.kind == Kind::less || e.kind == Kind::less_equal || e.kind == Kind::equal;
      out = out || e.kind == Kind::choose || (compares && e.args[0].type != Type::real && e.args[1].type != Type::real);
    });
  });
  return out;
}

std::set<int64_t> integers_of(const Statement& s) {
  std::set<int64_t> out;
  each_statement(s, [&](const Statement& inner) {
    each_expression_of(inner, [&](const Expression& e) {
      if (e.kind == Kind::integer) out.insert(e.integer_value);
    });
  });
  return out;
}

bool is_pointer(Type type) {
  return type == Type::bytes || type == Type::reals || type == Type::integers || type == Type::bf16s ||
         type == Type::fp16s;
}
int64_t stride_of(Type pointer) { return pointer == Type::bytes ? 1 : size_bytes(element_type(pointer)); }
DType element_type(Type pointer) {
  for (const DType dtype : {DType::i32, DType::bf16, DType::fp16})
    if (pointer == pointer_to(dtype)) return dtype;
  return DType::f32;
}

Outline::Outline(const Function& function, const Statement& body, Frame& frame)
    : function_(function), body_(body), frame_(frame) {
  declare(body);
  std::vector<int> around;
  analyse(body, around, false);
  find_blocks();
}

/// Local arrays and pointers, before anything asks what is reached through them.
void Outline::declare(const Statement& s) {
  declared_.insert(s.slot);
  if (s.kind == Statement::Kind::declare && s.elements > 0) frame_[size_t(s.slot)].pointer = {s.slot, 0};
  if (s.kind == Statement::Kind::declare && s.elements == 0 && is_pointer(s.type)) {
    if (!s.has_value) throw NotFollowed("a pointer without a value", s.line);
    pointers_[s.slot] = &s.value;
  }
  for (const Statement& inner : s.body) declare(inner);
}

void Outline::analyse(const Statement& s, std::vector<int>& around, bool conditional) {
  switch (s.kind) {
    case Statement::Kind::block:
      for (const Statement& inner : s.body) analyse(inner, around, conditional);
      return;
    case Statement::Kind::declare: {
      if (s.type != Type::integer || !s.has_value) return;
      Affine value;
      if (affine(s.value, value)) affine_[s.slot] = value;
      definitions_[s.slot] = &s.value;
      return;
    }
    case Statement::Kind::assign:
      if (s.target.kind == Kind::element) add_store(s, around, conditional);
      return;
    case Statement::Kind::loop:
      return enter_loop(s, around, conditional);
    case Statement::Kind::branch:
      for (size_t i = 0; i < s.body.size(); ++i) {
        const std::map<int, int64_t> outside = guards_;
        if (i == 0) note_guards(s.value, guards_);
        analyse(s.body[i], around, true);
        guards_ = outside;
      }
      return;
    case Statement::Kind::leave:
      if (!s.has_value) throw NotFollowed("an early return", s.line);
      return;
    case Statement::Kind::call:
      throw NotFollowed(fmt::format("a call of {}", s.value.name), s.line);
    case Statement::Kind::stop:
      throw NotFollowed("a break", s.line);
    case Statement::Kind::other:
      throw NotFollowed(s.value.name, s.line);
  }
}

// ---- loops ----

void Outline::enter_loop(const Statement& s, std::vector<int>& around, bool conditional) {
  if (s.step < 1) throw NotFollowed("a loop whose step is not constant", s.line);
  // The parser gives each declaration its own; this finds spelled-out calls of the library that do not.
  if (loops.count(s.slot)) throw NotFollowed("two loops that count in one variable", s.line);
  Loop loop;
  loop.statement = &s;
  loop.enclosing = around;
  std::set<int> depends;
  note_counters(s.value, depends);
  note_counters(s.limit, depends);
  if (!depends.empty()) {
    bounds_from_chunks(loop, depends);
  } else {
    std::optional<int64_t> begin = fixed(s.value, {}), end = fixed(s.limit, {});
    if (!begin || !end) throw NotFollowed("a loop whose bounds are not constant", s.line);
    loop.begin = *begin;
    loop.end = *end;
    difference(*end, *begin, s.line), sum(*end, s.step, s.line);  // how many turns, and the counter after the last
  }
  std::set<int> declared{s.slot};
  for (const Statement& inner : s.body) note_assigned(inner, declared, loop);
  loops[s.slot] = loop;
  around.push_back(s.slot);
  for (const Statement& inner : s.body) analyse(inner, around, conditional);
  around.pop_back();
}

/// Counters of loops that the expression depends on, also by way of variables.
void Outline::note_counters(const Expression& e, std::set<int>& out) const {
  if (e.kind == Kind::variable) {
    if (loops.count(e.slot)) out.insert(e.slot);
    if (auto found = definitions_.find(e.slot); found != definitions_.end()) note_counters(*found->second, out);
  }
  for (const Expression& arg : e.args) note_counters(arg, out);
}

/// The value of an expression at these counters; nullopt if it depends on more.
std::optional<int64_t> Outline::fixed(const Expression& e, const Counters& counters) const {
  auto arg = [&](size_t i) { return fixed(e.args[i], counters); };
  auto both = [&](auto&& combine) -> std::optional<int64_t> {
    std::optional<int64_t> a = arg(0), b = arg(1);
    if (!a || !b) return std::nullopt;
    return combine(*a, *b);
  };
  switch (e.kind) {
    case Kind::integer:
      return e.integer_value;
    case Kind::variable: {
      if (auto at = counters.find(e.slot); at != counters.end()) return at->second;
      if (e.type != Type::integer || loops.count(e.slot)) return std::nullopt;
      if (frame_[size_t(e.slot)].step) return std::nullopt;
      auto defined = definitions_.find(e.slot);
      return defined == definitions_.end() ? frame_[size_t(e.slot)].integer : fixed(*defined->second, counters);
    }
    case Kind::negative:
      if (std::optional<int64_t> a = arg(0)) return difference(0, *a, e.line);
      return std::nullopt;
    case Kind::add:
    case Kind::sub:
    case Kind::mul:
      return both([&](int64_t a, int64_t b) { return computed(e, a, b); });
    case Kind::less:
      return both([](int64_t a, int64_t b) { return int64_t(a < b); });
    case Kind::less_equal:
      return both([](int64_t a, int64_t b) { return int64_t(a <= b); });
    case Kind::choose: {
      std::optional<int64_t> condition = arg(0);
      return condition ? arg(*condition ? 1 : 2) : std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

/// for (i = i_begin; i < i_end; ++i), or for (i = 0; i < i_end - i_begin; ++i), inside of for (i_begin = 0; i_begin <
/// n; i_begin += chunk): whether the pieces put end to end give what the loop over chunks runs over is seen by going
/// through all of them. Other bounds that depend on loops around give the loop no more than limits.
void Outline::bounds_from_chunks(Loop& loop, const std::set<int>& depends) {
  const Statement& s = *loop.statement;
  // The loops around in their order, with those that their own bounds depend on.
  std::set<int> needed = depends;
  for (size_t i = loop.enclosing.size(); i-- > 0;)
    if (needed.count(loop.enclosing[i])) {
      note_counters(loops.at(loop.enclosing[i]).statement->value, needed);
      note_counters(loops.at(loop.enclosing[i]).statement->limit, needed);
    }
  std::vector<int> order;
  int chunks = -1;
  for (int slot : loop.enclosing) {
    if (!needed.count(slot)) continue;
    order.push_back(slot);
    if (loops.at(slot).statement->step > 1) chunks = slot;
  }
  if (chunks < 0 || order.back() != chunks) throw NotFollowed("a loop whose bounds are not constant", s.line);
  bool pieces[2] = {true, true};  // from the chunk's first on; from 0 on
  int64_t turns = 0;
  std::optional<std::pair<int64_t, int64_t>> limits;
  bool alike = true;  // the same bounds in all turns of the loops around
  Counters counters;
  auto visit = [&](auto&& self, size_t level) -> void {
    const Statement& around = *loops.at(order[level]).statement;
    std::optional<int64_t> begin = fixed(around.value, counters), end = fixed(around.limit, counters);
    if (!begin || !end) throw NotFollowed("a loop whose bounds are not constant", s.line);
    sum(*end, around.step, around.line);  // where the counter may arrive
    int64_t reached[2] = {*begin, *begin};
    for (int64_t at = *begin; at < *end; at += around.step) {
      if (++turns > most_turns_of_chunks) throw NotFollowed("a loop inside of very many chunks", s.line);
      counters[order[level]] = at;
      if (level + 1 < order.size()) {
        self(self, level + 1);
        continue;
      }
      std::optional<int64_t> first = fixed(s.value, counters), last = fixed(s.limit, counters);
      if (!first || !last) throw NotFollowed("a loop whose bounds are not constant", s.line);
      if (!limits) limits = {*first, *last};
      if (s.step > 1 && *first != limits->first)
        throw NotFollowed("a loop over chunks with several beginnings", s.line);
      alike = alike && *limits == std::make_pair(*first, *last);
      limits = {std::min(limits->first, *first), std::max(limits->second, *last)};
      for (int relative : {0, 1}) {
        int64_t shift = relative ? at : 0;
        pieces[relative] = pieces[relative] && sum(*first, shift, s.line) == reached[relative];
        reached[relative] = sum(std::max(*first, *last), shift, s.line);
      }
    }
    if (level + 1 < order.size()) counters.erase(order[level]);
    if (level + 1 == order.size())
      for (int relative : {0, 1}) pieces[relative] = pieces[relative] && reached[relative] == std::max(*begin, *end);
  };
  visit(visit, 0);
  if (!limits) limits = {0, 0};
  loop.begin = limits->first;
  loop.end = limits->second;
  difference(loop.end, loop.begin, s.line);
  loop.exact = alike && std::all_of(order.begin(), order.end(), [&](int slot) { return loops.at(slot).exact; });
  if (s.step > 1) return;
  if (!pieces[0] && !pieces[1])
    throw Misstep("the pieces of a loop over chunks do not give the whole when put end to end", s.line);
  const Loop& over = loops.at(chunks);
  if (over.once()) return;
  loop.chunks_of = chunks;
  loop.relative = !pieces[0];
  loop.begin = over.begin;
  loop.end = over.end;
  loop.exact = over.exact;
}

void Outline::note_assigned(const Statement& s, std::set<int>& declared, Loop& loop) const {
  auto note = [](std::vector<int>& list, int slot) {
    if (!std::count(list.begin(), list.end(), slot)) list.push_back(slot);
  };
  if (s.kind == Statement::Kind::declare || s.kind == Statement::Kind::loop) declared.insert(s.slot);
  if (s.kind == Statement::Kind::assign) {
    if (s.target.kind == Kind::variable) {
      if (s.target.type != Type::real) throw NotFollowed("an integer variable that changes", s.line);
      if (!declared.count(s.target.slot)) note(loop.carried, s.target.slot);
    } else if (s.target.kind == Kind::element) {
      const Expression* base = base_of(s.target.args[0]);
      bool local = base && frame_[size_t(base->slot)].pointer.array >= 0;
      if (local && !declared.count(base->slot)) note(loop.arrays, base->slot);
    } else {
      throw NotFollowed("an assignment to something else than a variable or an element", s.line);
    }
  }
  for (const Statement& inner : s.body) note_assigned(inner, declared, loop);
}

}  // namespace hetsynth::source
