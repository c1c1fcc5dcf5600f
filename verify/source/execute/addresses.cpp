// Where the assignments of a piece of code go: addresses that are linear in loop counters, and the blocks of the arena
// that they fill.
#include <fmt/format.h>

#include <algorithm>

#include "verify/source/execute/arithmetic.h"

namespace hetsynth::source {

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
      if (found != affine_.end()) {
        out = found->second;
        return true;
      }
      if (declared_.count(e.slot) || frame_[size_t(e.slot)].step) return false;
      out = {frame_[size_t(e.slot)].integer, {}};  // set before the code is entered
      return true;
    }
    case Kind::add:
    case Kind::sub: {
      Affine a, b;
      if (!affine(e.args[0], a) || !affine(e.args[1], b)) return false;
      a.constant = computed(e, a.constant, b.constant);
      for (auto [slot, c] : b.coefficients) a.coefficients[slot] = computed(e, a.coefficients[slot], c);
      out = a;
      return true;
    }
    case Kind::negative: {
      if (!affine(e.args[0], out)) return false;
      out.constant = difference(0, out.constant, e.line);
      for (auto& [slot, c] : out.coefficients) c = difference(0, c, e.line);
      return true;
    }
    case Kind::div:
    case Kind::modulo: {  // of numbers that are set before the code is entered, as that of a turn
      Affine a, b;
      if (!affine(e.args[0], a) || !affine(e.args[1], b) || !a.coefficients.empty() || !b.coefficients.empty())
        return false;
      out = {computed(e, a.constant, b.constant), {}};
      return true;
    }
    case Kind::mul: {
      Affine a, b;
      if (!affine(e.args[0], a) || !affine(e.args[1], b)) return false;
      if (!a.coefficients.empty()) std::swap(a, b);
      if (!a.coefficients.empty()) return false;
      for (auto& [slot, c] : b.coefficients) c = computed(e, c, a.constant);
      b.constant = computed(e, b.constant, a.constant);
      out = b;
      return true;
    }
    default:
      return false;
  }
}

const Expression* Outline::base_of(const Expression& pointer, const OffsetVisitor& visit) const {
  const Expression* at = &pointer;
  for (;;) {
    if (at->kind == Kind::add && !at->args.empty()) {
      const size_t inner = is_pointer(at->args[0].type) ? 0 : 1;
      if (visit) visit(at->args[1 - inner], at->args[inner].type);
      at = &at->args[inner];
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
  bool is_affine = true;
  const auto add = [&](const Expression& index, int64_t scale) {
    Affine a;
    is_affine = is_affine && affine(index, a);
    if (!is_affine) return;
    const auto add_scaled = [&](int64_t& to, int64_t c) { to = sum(to, product(c, scale, index.line), index.line); };
    add_scaled(out.constant, a.constant);
    for (auto [slot, c] : a.coefficients) add_scaled(out.coefficients[slot], c);
  };
  add(target.args[1], element_bytes ? element_bytes : 1);
  const Expression* base = base_of(target.args[0], [&](const Expression& index, Type counted_in) {
    add(index, element_bytes ? stride_of(counted_in) : 1);
  });
  if (!is_affine || !base) return false;
  out.constant = sum(out.constant, frame_[size_t(base->slot)].pointer.at, target.line);
  std::erase_if(out.coefficients, [](const auto& entry) { return entry.second == 0; });
  return true;
}

bool Outline::always_empty(const std::vector<int>& around) const {
  return std::any_of(around.begin(), around.end(), [&](int slot) { return loops.at(slot).extent() == 0; });
}

void Outline::add_store(const Statement& s, const std::vector<int>& around, bool conditional) {
  const Expression* base = base_of(s.target.args[0]);
  if (!base) throw NotFollowed("an assignment through an unknown pointer", s.line);
  if (always_empty(around)) {
    if (const Pointer& to = frame_[size_t(base->slot)].pointer; to.array < 0) filled_with_nothing_.insert(to.at);
    return;
  }
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
  if (store.affine)
    set_limits(store);
  else
    find_remainder(store);
  stores.push_back(store);
}

void Outline::set_limits(Store& store) const {
  const int line = store.statement->line;
  store.low = store.high = store.address.constant;
  for (auto [slot, c] : store.address.coefficients) {
    const Loop& loop = loops.at(slot);
    const int64_t final_value = loop.begin + (loop.turns() - 1) * loop.statement->step;
    const int64_t first = product(loop.begin, c, line), last = product(final_value, c, line);
    store.low = sum(store.low, std::min(first, last), line);
    store.high = sum(store.high, std::max(first, last), line);
  }
  store.high = sum(store.high, stride_of(store.statement->target.args[0].type), line);
}

/// Strides of the counters that an address depends on, smallest first. Chunks move the origin of an array only.
std::vector<std::pair<int64_t, int>> Outline::digits(const Store& store) const {
  std::vector<std::pair<int64_t, int>> out;
  for (auto [slot, c] : store.address.coefficients) {
    const Loop& loop = loops.at(slot);
    bool origin = store.array >= 0 && loop.statement->step > 1;
    if (!origin) out.push_back({product(c, loop.statement->step, store.statement->line), slot});
  }
  std::sort(out.begin(), out.end());
  return out;
}

void Outline::find_injective(Store& store, int64_t unit) const {
  const int line = store.statement->line;
  int64_t span = unit;
  store.injective = true;
  std::map<int, int64_t> origins;  // by loop over chunks: what its inner loops' strides add up to
  for (auto [stride, slot] : digits(store)) {
    const Loop& loop = loops.at(slot);
    bool in_chunk = store.array >= 0 && loop.chunks_of >= 0;
    int64_t turns = in_chunk ? loops.at(loop.chunks_of).statement->step : loop.turns();
    if (in_chunk) origins[loop.chunks_of] = difference(origins[loop.chunks_of], stride, line);
    if (turns <= 1) continue;
    if (stride < span) store.injective = false;
    span = sum(span, product(stride, turns - 1, line), line);
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
    stride = product(stride, turns, store.statement->line);
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
    // A rank that holds nothing of what is added to: no number may ever lead there, which shows when it is executed.
    if (store.block < 0 && !store.affine && filled_with_nothing_.count(store.low)) {
      store.block = int(written.size());
      const Expression& to = store.statement->target.args[0];
      written.push_back({store.low, store.low, element_type(to.type), {}, store.statement->line, base_of(to)->slot});
    }
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
  bool part = false;  // of what was written before, as the keys that causal queries see of all that were zeroed
  for (size_t b = 0; b < written.size(); ++b) {
    if (store.low >= written[b].end || store.high <= written[b].begin) continue;
    if (store.low < written[b].begin || store.high > written[b].end || written[b].dtype != element_type(type))
      throw Misstep("two statements write overlapping blocks", store.statement->line);
    store.block = int(b);
    part = store.low > written[b].begin || store.high < written[b].end;
  }
  if (!part) check_dense(store, stride_of(type));
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
  const int64_t unit = block.element_bytes();
  const int line = store.statement->line;
  corners.insert({0, (store.high - store.low) / unit - 1});
  for (auto [slot, c] : store.address.coefficients) {
    const Loop& loop = loops.at(slot);
    const int64_t stride = std::max(c, difference(0, c, line)) / unit;
    if (loop.extent() > 1) corners.insert(stride);
    if (loop.chunks_of < 0) continue;
    int64_t chunk = loops.at(loop.chunks_of).statement->step;
    int64_t last = (loop.extent() - 1) / chunk * chunk;  // where the last chunk begins
    for (int64_t turn : {chunk - 1, chunk, last - 1, last})
      if (last > 0) corners.insert(product(turn, stride, line));
  }
  block.corners.assign(corners.begin(), corners.end());
}

bool Outline::decode(const Store& store, int64_t at, std::map<int, int64_t>& counters, const Frame& chunks) const {
  if (!store.affine || (store.array < 0 && (at < store.low || at >= store.high))) return false;
  const int line = store.statement->line;
  int64_t rest = difference(at, store.address.constant, line);
  std::vector<std::pair<int64_t, int>> by_stride = digits(store);
  auto begin_of = [&](const Loop& loop) {
    return store.array >= 0 && loop.chunks_of >= 0 ? chunks[size_t(loop.chunks_of)].integer : loop.begin;
  };
  for (auto [slot, c] : store.address.coefficients) {
    const Loop& loop = loops.at(slot);
    bool origin = store.array >= 0 && loop.statement->step > 1;
    rest = difference(rest, product(c, origin ? chunks[size_t(slot)].integer : begin_of(loop), line), line);
  }
  for (size_t i = by_stride.size(); i-- > 0;) {
    auto [stride, slot] = by_stride[i];
    const Loop& loop = loops.at(slot);
    int64_t digit = loop.turns() <= 1 || stride <= 0 ? 0 : rest / stride;
    if (digit < 0 || digit >= loop.turns()) return false;
    counters[slot] = begin_of(loop) + digit * loop.statement->step;
    rest -= digit * stride;
  }
  return rest == 0;
}

}  // namespace hetsynth::source
