#include "verify/source/outline.h"

#include <fmt/format.h>

#include <algorithm>

namespace hetsynth::source {
namespace {

/// Turns of enclosing loops that are looked at to see how a loop divides the work of chunks.
constexpr int64_t most_turns = int64_t(1) << 20;

}  // namespace

bool is_pointer(Type type) {
  return type == Type::bytes || type == Type::reals || type == Type::integers || type == Type::halves;
}
int64_t stride_of(Type pointer) { return pointer == Type::bytes ? 1 : size_bytes(element_type(pointer)); }
DType element_type(Type pointer) {
  return pointer == Type::integers ? DType::i32 : pointer == Type::halves ? DType::bf16 : DType::f32;
}

Outline::Outline(const Function& function, const Statement& body, Frame& frame) : function_(function), frame_(frame) {
  declare(body);
  std::vector<int> around;
  analyse(body, around, false);
  find_blocks();
}

/// Local arrays and pointers, before anything asks what is reached through them.
void Outline::declare(const Statement& s) {
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
      for (const Statement& inner : s.body) analyse(inner, around, true);
      return;
    case Statement::Kind::leave:
      if (!s.has_value) throw NotFollowed("an early return", s.line);
      return;
    case Statement::Kind::call:
      throw NotFollowed(fmt::format("a call of {}", s.value.name), s.line);
    case Statement::Kind::other:
      throw NotFollowed(s.value.name, s.line);
  }
}

// ---- loops ----

void Outline::enter_loop(const Statement& s, std::vector<int>& around, bool conditional) {
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
      auto defined = definitions_.find(e.slot);
      return defined == definitions_.end() ? frame_[size_t(e.slot)].integer : fixed(*defined->second, counters);
    }
    case Kind::negative:
      if (std::optional<int64_t> a = arg(0)) return -*a;
      return std::nullopt;
    case Kind::add:
      return both([](int64_t a, int64_t b) { return a + b; });
    case Kind::sub:
      return both([](int64_t a, int64_t b) { return a - b; });
    case Kind::mul:
      return both([](int64_t a, int64_t b) { return a * b; });
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
    int64_t reached[2] = {*begin, *begin};
    for (int64_t at = *begin; at < *end; at += around.step) {
      if (++turns > most_turns) throw NotFollowed("a loop inside of very many chunks", s.line);
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
        pieces[relative] = pieces[relative] && *first + shift == reached[relative];
        reached[relative] = std::max(*first, *last) + shift;
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

// ---- addresses ----

bool Outline::affine(const Expression& e, Affine& out) const {
  switch (e.kind) {
    case Kind::integer:
      out = {e.integer_value, {}};
      return true;
    case Kind::variable: {
      if (e.type != Type::integer) return false;
      if (auto loop = loops.find(e.slot); loop != loops.end()) {
        if (loop->second.once()) {
          out = {loop->second.begin, {}};
          return true;
        }
        out = {0, {{e.slot, 1}}};
        if (loop->second.relative) out.coefficients[loop->second.chunks_of] = -1;
        return true;
      }
      auto found = affine_.find(e.slot);
      if (found == affine_.end()) return false;
      out = found->second;
      return true;
    }
    case Kind::add:
    case Kind::sub: {
      Affine a, b;
      if (!affine(e.args[0], a) || !affine(e.args[1], b)) return false;
      int64_t sign = e.kind == Kind::add ? 1 : -1;
      a.constant += sign * b.constant;
      for (auto [slot, c] : b.coefficients) a.coefficients[slot] += sign * c;
      out = a;
      return true;
    }
    case Kind::mul: {
      Affine a, b;
      if (!affine(e.args[0], a) || !affine(e.args[1], b)) return false;
      if (!a.coefficients.empty()) std::swap(a, b);
      if (!a.coefficients.empty()) return false;
      for (auto& [slot, c] : b.coefficients) c *= a.constant;
      b.constant *= a.constant;
      out = b;
      return true;
    }
    default:
      return false;
  }
}

/// The variable that a pointer comes from: a parameter or a local array.
const Expression* Outline::base_of(const Expression& pointer) const {
  const Expression* at = &pointer;
  for (;;) {
    if (at->kind == Kind::add && !at->args.empty()) {
      at = is_pointer(at->args[0].type) ? &at->args[0] : &at->args[1];
    } else if (at->kind == Kind::variable) {
      auto made = pointers_.find(at->slot);
      if (made == pointers_.end()) return at;
      at = made->second;
    } else {
      return nullptr;
    }
  }
}

/// The address of target[...]: bytes in the arena, or elements of an array (`element_bytes` 0). False if it is not
/// affine in the counters.
bool Outline::affine_address(const Expression& target, int64_t element_bytes, Affine& out) const {
  out = {};
  auto add = [&](const Expression& index, int64_t scale) {
    Affine a;
    if (!affine(index, a)) return false;
    out.constant += a.constant * scale;
    for (auto [slot, c] : a.coefficients) out.coefficients[slot] += c * scale;
    return true;
  };
  if (!add(target.args[1], element_bytes ? element_bytes : 1)) return false;
  const Expression* at = &target.args[0];
  for (;;) {
    if (at->kind == Kind::add) {
      size_t pointer = is_pointer(at->args[0].type) ? 0 : 1;
      if (!add(at->args[1 - pointer], element_bytes ? stride_of(at->args[pointer].type) : 1)) return false;
      at = &at->args[pointer];
    } else if (at->kind == Kind::variable && pointers_.count(at->slot)) {
      at = pointers_.at(at->slot);
    } else {
      break;
    }
  }
  if (at->kind != Kind::variable) return false;
  out.constant += frame_[size_t(at->slot)].pointer.at;
  std::erase_if(out.coefficients, [](const auto& entry) { return entry.second == 0; });
  return true;
}

bool Outline::always_empty(const std::vector<int>& around) const {
  return std::any_of(around.begin(), around.end(), [&](int slot) { return loops.at(slot).extent() == 0; });
}

void Outline::add_store(const Statement& s, const std::vector<int>& around, bool conditional) {
  const Expression* base = base_of(s.target.args[0]);
  if (!base) throw NotFollowed("an assignment through an unknown pointer", s.line);
  if (always_empty(around)) return;
  if (!is_pointer(s.target.args[0].type) || s.target.args[0].type == Type::bytes)
    throw NotFollowed("an assignment of another type of element", s.line);
  Store store;
  store.statement = &s;
  store.loops = around;
  store.conditional = conditional;
  store.array = frame_[size_t(base->slot)].pointer.array;
  int64_t unit = store.array >= 0 ? 0 : stride_of(s.target.args[0].type);
  store.affine = affine_address(s.target, unit, store.address);
  if (store.affine) find_injective(store, std::max<int64_t>(unit, 1));
  if (store.array >= 0) {
    array_stores[store.array].push_back(store);
    return;
  }
  store.low = store.high = frame_[size_t(base->slot)].pointer.at;
  if (store.affine) set_limits(store);
  stores.push_back(store);
}

void Outline::set_limits(Store& store) const {
  store.low = store.high = store.address.constant;
  for (auto [slot, c] : store.address.coefficients) {
    const Loop& loop = loops.at(slot);
    int64_t first = loop.begin * c, last = (loop.begin + (loop.turns() - 1) * loop.statement->step) * c;
    store.low += std::min(first, last);
    store.high += std::max(first, last);
  }
  store.high += stride_of(store.statement->target.args[0].type);
}

/// Strides of the counters that an address depends on, smallest first. Chunks move the origin of an array only.
std::vector<std::pair<int64_t, int>> Outline::digits(const Store& store) const {
  std::vector<std::pair<int64_t, int>> out;
  for (auto [slot, c] : store.address.coefficients) {
    const Loop& loop = loops.at(slot);
    bool origin = store.array >= 0 && loop.statement->step > 1;
    if (!origin) out.push_back({c * loop.statement->step, slot});
  }
  std::sort(out.begin(), out.end());
  return out;
}

void Outline::find_injective(Store& store, int64_t unit) const {
  int64_t span = unit;
  store.injective = true;
  std::map<int, int64_t> origins;  // by loop over chunks: what its inner loops' strides add up to
  for (auto [stride, slot] : digits(store)) {
    const Loop& loop = loops.at(slot);
    bool in_chunk = store.array >= 0 && loop.chunks_of >= 0;
    int64_t turns = in_chunk ? loops.at(loop.chunks_of).statement->step : loop.turns();
    if (in_chunk) origins[loop.chunks_of] -= stride;
    if (turns <= 1) continue;
    if (stride < span) store.injective = false;
    span += stride * (turns - 1);
  }
  if (store.array < 0) return;
  for (auto [slot, c] : store.address.coefficients)
    if (loops.at(slot).statement->step > 1 && origins[slot] != c) store.injective = false;
  for (auto [slot, c] : origins)
    if (!store.address.coefficients.count(slot) && c != 0) store.injective = false;
}

/// Every element of [low, high) once: the strides are those of a mixed radix.
void Outline::check_dense(const Store& store, int64_t unit) const {
  int64_t stride = unit;
  for (auto [c, slot] : digits(store)) {
    int64_t turns = loops.at(slot).turns();
    if (turns <= 1) continue;
    if (c != stride)
      throw Misstep(fmt::format("the loops do not write each element of a block once (stride {} bytes where {} are "
                                "expected)",
                                c, stride),
                    store.statement->line);
    stride *= turns;
  }
}

// ---- blocks ----

void Outline::find_blocks() {
  // Blocks come from the stores that surely write all they can write; the others must lie inside of one.
  auto exact = [&](const Store& store) {
    return store.affine && std::all_of(store.address.coefficients.begin(), store.address.coefficients.end(),
                                       [&](const auto& entry) { return loops.at(entry.first).exact; });
  };
  for (Store& store : stores)
    if (exact(store)) block_of(store);
  for (Store& store : stores) {
    if (store.block >= 0) continue;
    for (size_t b = 0; b < written.size(); ++b)
      if (store.low >= written[b].begin && store.low < written[b].end) store.block = int(b);
    if (store.block < 0)
      throw NotFollowed("an assignment to elements that are not known beforehand, without a fill before it",
                        store.statement->line);
    Written& block = written[size_t(store.block)];
    if (!store.affine) {
      block.scattered = true;
      store.low = block.begin;
      store.high = block.end;
    } else if (store.high > block.end) {
      throw Misstep("an assignment goes beyond the block that it is made for", store.statement->line);
    } else {
      add_corners(store);
    }
  }
}

void Outline::block_of(Store& store) {
  Type type = store.statement->target.args[0].type;
  check_dense(store, stride_of(type));
  for (size_t b = 0; b < written.size(); ++b) {
    if (store.low >= written[b].end || store.high <= written[b].begin) continue;
    if (store.low != written[b].begin || store.high != written[b].end || written[b].dtype != element_type(type))
      throw Misstep("two statements write overlapping blocks", store.statement->line);
    store.block = int(b);
  }
  if (store.block < 0) {
    store.block = int(written.size());
    written.push_back({store.low,
                       store.high,
                       element_type(type),
                       {},
                       store.statement->line,
                       base_of(store.statement->target.args[0])->slot});
  }
  add_corners(store);
}

void Outline::add_corners(const Store& store) {
  Written& block = written[size_t(store.block)];
  std::set<int64_t> corners(block.corners.begin(), block.corners.end());
  int64_t unit = block.element_bytes();
  corners.insert({0, (store.high - store.low) / unit - 1});
  for (auto [slot, c] : store.address.coefficients) {
    const Loop& loop = loops.at(slot);
    int64_t stride = std::abs(c) / unit;
    if (loop.extent() > 1) corners.insert(stride);
    if (loop.chunks_of < 0) continue;
    int64_t chunk = loops.at(loop.chunks_of).statement->step;
    int64_t last = (loop.extent() - 1) / chunk * chunk;  // where the last chunk begins
    if (last > 0) corners.insert({(chunk - 1) * stride, chunk * stride, (last - 1) * stride, last * stride});
  }
  block.corners.assign(corners.begin(), corners.end());
}

bool Outline::decode(const Store& store, int64_t at, std::map<int, int64_t>& counters, const Frame& chunks) const {
  if (!store.affine || (store.array < 0 && (at < store.low || at >= store.high))) return false;
  int64_t rest = at - store.address.constant;
  std::vector<std::pair<int64_t, int>> by_stride = digits(store);
  auto begin_of = [&](const Loop& loop) {
    return store.array >= 0 && loop.chunks_of >= 0 ? chunks[size_t(loop.chunks_of)].integer : loop.begin;
  };
  for (auto [slot, c] : store.address.coefficients) {
    const Loop& loop = loops.at(slot);
    bool origin = store.array >= 0 && loop.statement->step > 1;
    rest -= c * (origin ? chunks[size_t(slot)].integer : begin_of(loop));
  }
  for (size_t i = by_stride.size(); i-- > 0;) {
    auto [stride, slot] = by_stride[i];
    const Loop& loop = loops.at(slot);
    int64_t digit = loop.turns() <= 1 || stride <= 0 ? 0 : rest / stride;
    counters[slot] = begin_of(loop) + digit * loop.statement->step;
    rest -= digit * stride;
    if (digit < 0 || digit >= loop.turns()) return false;
  }
  return rest == 0;
}

}  // namespace hetsynth::source
