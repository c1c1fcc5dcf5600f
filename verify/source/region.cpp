#include "verify/source/region.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "dsl/ir/interpreter.h"
#include "verify/source/library.h"

namespace hetsynth::source {
namespace {

constexpr int64_t element_bytes = 4;

int64_t stride_of(Type pointer) { return pointer == Type::bytes ? 1 : element_bytes; }
bool is_pointer(Type type) { return type == Type::bytes || type == Type::reals || type == Type::integers; }

/// The variable an element expression's pointer comes from.
const Expression* base_of(const Expression& e) {
  const Expression* at = &e;
  while (at->kind == Kind::add && !at->args.empty()) at = is_pointer(at->args[0].type) ? &at->args[0] : &at->args[1];
  return at->kind == Kind::variable ? at : nullptr;
}

}  // namespace

Region::Region(const Function& function, const Statement& body, Frame frame, const Unit& unit, const Memory& memory)
    : function_(function), body_(body), frame_(std::move(frame)), unit_(unit), memory_(memory) {
  frame_.resize(function.slots.size());
  std::vector<int> loops;
  analyse(body_, loops, false);
  find_blocks();
}

// ---- what is written ----

void Region::analyse(const Statement& s, std::vector<int>& loops, bool conditional) {
  switch (s.kind) {
    case Statement::Kind::block:
      for (const Statement& inner : s.body) analyse(inner, loops, conditional);
      return;
    case Statement::Kind::declare: {
      Affine value;
      if (s.type == Type::integer && s.has_value && affine(s.value, value)) constants_[s.slot] = value;
      // Marks local arrays, so that stores to them are told from stores to the arena.
      if (s.elements > 0)
        frame_[size_t(s.slot)].pointer = {s.slot, 0};
      else if (is_pointer(s.type))
        throw NotFollowed("a pointer made inside of a kernel", s.line);
      return;
    }
    case Statement::Kind::assign:
      if (s.target.kind == Kind::element) add_store(s, loops, conditional);
      return;
    case Statement::Kind::loop:
      return enter_loop(s, loops, conditional);
    case Statement::Kind::branch:
      for (const Statement& inner : s.body) analyse(inner, loops, true);
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

void Region::enter_loop(const Statement& s, std::vector<int>& loops, bool conditional) {
  Loop loop;
  loop.statement = &s;
  loop.enclosing = loops;
  Affine begin, end;
  bool known = affine(s.value, begin) && begin.coefficients.empty() && affine(s.limit, end) && end.coefficients.empty();
  if (known) {
    loop.begin = begin.constant;
    loop.end = end.constant;
  } else if (s.value.kind == Kind::variable && loops_.count(s.value.slot) &&
             loops_.at(s.value.slot).statement->step > 1) {
    // for (c = c_begin; c < c_end; ++c) inside of for (c_begin = 0; c_begin < n; c_begin += chunk).
    const Loop& chunks = loops_.at(s.value.slot);
    loop.begin = chunks.begin;
    loop.end = chunks.end;
    loop.chunks_of = s.value.slot;
  } else {
    throw NotFollowed("a loop whose bounds are not constant", s.line);
  }
  std::set<int> declared{s.slot}, assigned;
  for (const Statement& inner : s.body) note_assigned(inner, declared, assigned, loop.fills_arrays);
  for (int slot : assigned)
    if (!declared.count(slot)) loop.carried.push_back(slot);
  loops_[s.slot] = loop;
  loops.push_back(s.slot);
  for (const Statement& inner : s.body) analyse(inner, loops, conditional);
  loops.pop_back();
}

void Region::note_assigned(const Statement& s, std::set<int>& declared, std::set<int>& assigned, bool& arrays) const {
  if (s.kind == Statement::Kind::declare || s.kind == Statement::Kind::loop) declared.insert(s.slot);
  if (s.kind == Statement::Kind::assign) {
    if (s.target.kind == Kind::variable) {
      if (s.target.type != Type::real) throw NotFollowed("an integer variable that changes", s.line);
      assigned.insert(s.target.slot);
    } else if (s.target.kind == Kind::element) {
      const Expression* base = base_of(s.target.args[0]);
      bool local = base && frame_[size_t(base->slot)].pointer.array >= 0;
      if (local && !declared.count(base->slot)) arrays = true;
    } else {
      throw NotFollowed("an assignment to something else than a variable or an element", s.line);
    }
  }
  for (const Statement& inner : s.body) note_assigned(inner, declared, assigned, arrays);
}

bool Region::affine(const Expression& e, Affine& out) const {
  switch (e.kind) {
    case Kind::integer:
      out = {e.integer_value, {}};
      return true;
    case Kind::variable: {
      if (e.type != Type::integer) return false;
      if (loops_.count(e.slot)) {
        out = {0, {{e.slot, 1}}};
        return true;
      }
      auto found = constants_.find(e.slot);
      if (found == constants_.end()) return false;
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

/// Bytes in the arena; false if it is not affine in the counters.
bool Region::affine_address(const Expression& target, Affine& out) const {
  auto add = [&](const Expression& index, int64_t scale) {
    Affine a;
    if (!affine(index, a)) return false;
    out.constant += a.constant * scale;
    for (auto [slot, c] : a.coefficients) out.coefficients[slot] += c * scale;
    return true;
  };
  out = {};
  if (!add(target.args[1], element_bytes)) return false;
  const Expression* at = &target.args[0];
  while (at->kind == Kind::add) {
    size_t pointer = is_pointer(at->args[0].type) ? 0 : 1;
    if (!add(at->args[1 - pointer], stride_of(at->args[pointer].type))) return false;
    at = &at->args[pointer];
  }
  if (at->kind != Kind::variable) return false;
  out.constant += frame_[size_t(at->slot)].pointer.at;
  std::erase_if(out.coefficients, [](const auto& entry) { return entry.second == 0; });
  return true;
}

bool Region::always_empty(const std::vector<int>& loops) const {
  return std::any_of(loops.begin(), loops.end(), [&](int slot) { return loops_.at(slot).extent() == 0; });
}

void Region::add_store(const Statement& s, const std::vector<int>& loops, bool conditional) {
  const Expression* base = base_of(s.target.args[0]);
  if (!base) throw NotFollowed("an assignment through an unknown pointer", s.line);
  if (frame_[size_t(base->slot)].pointer.array >= 0) return;  // a local array
  if (always_empty(loops)) return;
  if (s.target.args[0].type != Type::reals && s.target.args[0].type != Type::integers)
    throw NotFollowed("an assignment of another type of element", s.line);
  Store store;
  store.statement = &s;
  store.loops = loops;
  store.conditional = conditional;
  store.affine = affine_address(s.target, store.address);
  store.low = store.high = frame_[size_t(base->slot)].pointer.at;
  if (store.affine) {
    store.low = store.high = store.address.constant;
    for (auto [slot, c] : store.address.coefficients) {
      const Loop& loop = loops_.at(slot);
      int64_t first = loop.begin * c, last = (loop.end - 1) * c;
      store.low += std::min(first, last);
      store.high += std::max(first, last);
    }
    store.high += element_bytes;
  }
  stores_.push_back(store);
}

/// Every element of [low, high) once: the strides are those of a mixed radix.
void Region::check_dense(const Store& store) const {
  std::vector<std::pair<int64_t, int64_t>> digits;
  for (auto [slot, c] : store.address.coefficients)
    if (loops_.at(slot).extent() > 1) digits.push_back({c, loops_.at(slot).extent()});
  std::sort(digits.begin(), digits.end());
  int64_t stride = element_bytes;
  for (auto [c, extent] : digits) {
    if (c != stride)
      throw Misstep(fmt::format("the loops do not write each element of a block once (stride {} bytes where {} are "
                                "expected)",
                                c, stride),
                    store.statement->line);
    stride *= extent;
  }
}

void Region::find_blocks() {
  // Blocks come from the stores with known addresses; the others (scatters) must lie inside of one.
  for (Store& store : stores_) {
    if (!store.affine) continue;
    check_dense(store);
    int block = -1;
    for (size_t b = 0; b < written_.size(); ++b) {
      if (store.low >= written_[b].end || store.high <= written_[b].begin) continue;
      if (store.low != written_[b].begin || store.high != written_[b].end)
        throw Misstep("two statements write overlapping blocks", store.statement->line);
      block = int(b);
    }
    if (block < 0) {
      block = int(written_.size());
      Written w{store.low,
                store.high,
                store.statement->target.args[0].type == Type::integers,
                {},
                store.statement->line,
                base_of(store.statement->target.args[0])->slot};
      written_.push_back(w);
    }
    store.block = block;
    std::set<int64_t> corners(written_[size_t(block)].corners.begin(), written_[size_t(block)].corners.end());
    corners.insert(0);
    corners.insert((store.high - store.low) / element_bytes - 1);
    for (auto [slot, c] : store.address.coefficients) {
      const Loop& loop = loops_.at(slot);
      int64_t stride = std::abs(c) / element_bytes;
      if (loop.extent() > 1) corners.insert(stride);
      if (loop.chunks_of >= 0) {
        int64_t chunk = loops_.at(loop.chunks_of).statement->step;
        if (chunk < loop.extent()) corners.insert({(chunk - 1) * stride, chunk * stride});
      }
    }
    written_[size_t(block)].corners.assign(corners.begin(), corners.end());
  }
  for (Store& store : stores_) {
    if (store.affine) continue;
    for (size_t b = 0; b < written_.size(); ++b)
      if (store.low >= written_[b].begin && store.low < written_[b].end) store.block = int(b);
    if (store.block < 0)
      throw NotFollowed("an assignment to elements that are looked up, without a fill before it",
                        store.statement->line);
    written_[size_t(store.block)].scattered = true;
    store.low = written_[size_t(store.block)].begin;
    store.high = written_[size_t(store.block)].end;
  }
}

/// The counters with which the store writes the element at this byte.
bool Region::decode(const Store& store, int64_t byte, std::map<int, int64_t>& counters) const {
  if (!store.affine || byte < store.low || byte >= store.high) return false;
  std::vector<std::pair<int64_t, int>> digits;
  int64_t rest = byte - store.address.constant;
  for (auto [slot, c] : store.address.coefficients) {
    rest -= loops_.at(slot).begin * c;
    digits.push_back({c, slot});
  }
  std::sort(digits.rbegin(), digits.rend());
  for (auto [c, slot] : digits) {
    const Loop& loop = loops_.at(slot);
    int64_t digit = loop.extent() <= 1 ? 0 : rest / c;
    counters[slot] = loop.begin + digit;
    rest -= digit * c;
  }
  return rest == 0;
}

// ---- execution ----

/// One execution for some elements of a block.
class Region::Run {
 public:
  Run(Region& region, const Written& block, int block_number, const std::vector<int64_t>& bytes)
      : r_(region), block_(block), number_(block_number), frame_(region.frame_) {
    std::set<int> full = r_.in_full_;
    for (int64_t byte : bytes) restrict_loops(byte, full);
    for (const auto& [slot, loop] : r_.loops_)
      if (loop.fills_arrays) full.insert(slot);
    for (int slot : full) only_.erase(slot);
  }

  /// A comparison with what is not a number: a root of a negative unknown, or the result of another iteration.
  struct Undefined {};

  /// The restart asked for by a read of what restricted loops left out.
  struct Again {};

  std::vector<double> values(const std::vector<int64_t>& bytes) {
    execute(r_.body_);
    std::vector<double> out;
    for (int64_t byte : bytes) {
      auto found = overlay_.find(byte);
      if (found == overlay_.end()) throw Misstep("an element of the block is never written", block_.line);
      out.push_back(found->second);
    }
    return out;
  }

  /// Bytes that statements add to at looked-up places, in the order of execution.
  std::vector<int64_t> hits() {
    execute(r_.body_);
    return hits_;
  }

 private:
  /// Loops that only spread the block's elements run where this element is written; all others run in full.
  void restrict_loops(int64_t byte, std::set<int>& full) {
    for (const Store& store : r_.stores_) {
      if (store.block != number_) continue;
      std::map<int, int64_t> counters;
      bool decoded = r_.decode(store, byte, counters);
      for (int slot : store.loops) {
        auto at = counters.find(slot);
        bool chunks = r_.loops_.at(slot).statement->step > 1;
        if (chunks && decoded) continue;
        if (!decoded || at == counters.end())
          full.insert(slot);
        else
          only_[slot].insert(at->second);
      }
    }
  }

  void execute(const Statement& s) {
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
        if (integer(s.value))
          execute(s.body[0]);
        else if (s.body.size() > 1)
          execute(s.body[1]);
        return;
      default:
        throw NotFollowed("a statement of another kind", s.line);
    }
  }

  void declare(const Statement& s) {
    Cell& cell = frame_[size_t(s.slot)];
    if (s.elements > 0) {
      std::vector<double>& array = arrays_[s.slot];
      array.assign(size_t(std::min<int64_t>(s.elements, 1 << 24)), std::nan(""));
      for (size_t i = 0; i < s.list.size() && i < array.size(); ++i)
        array[i] = s.list[i].type == Type::integer ? double(integer(s.list[i])) : real(s.list[i]);
      if (s.list.size() == 1)
        for (size_t i = 1; i < array.size(); ++i) array[i] = 0;
      cell.pointer = {s.slot, 0};
      return;
    }
    if (s.type == Type::integer) {
      if (s.has_value) cell.integer = integer(s.value);
    } else if (s.type == Type::real) {
      cell.real = s.has_value ? real(s.value) : std::nan("");
    } else if (is_pointer(s.type) && s.has_value) {
      cell.pointer = pointer(s.value);
    } else {
      throw NotFollowed("a variable of another type", s.line);
    }
  }

  void assign(const Statement& s) {
    bool is_integer = s.target.type == Type::integer;
    double value = is_integer ? double(integer(s.value)) : real(s.value);
    line_ = s.line;
    now_ = s.number;
    if (s.target.kind == Kind::variable) {
      double& cell = frame_[size_t(s.target.slot)].real;
      cell = s.accumulates ? cell + value : value;
      return;
    }
    Pointer to = pointer(s.target.args[0]);
    int64_t at = integer(s.target.args[1]);
    if (to.array >= 0) {
      std::vector<double>& array = arrays_[to.array];
      if (to.at + at < 0 || to.at + at >= int64_t(array.size()))
        throw Misstep("a local array is written outside of its bounds", s.line);
      double& cell = array[size_t(to.at + at)];
      cell = s.accumulates ? cell + value : value;
      return;
    }
    int64_t byte = to.at + at * element_bytes;
    if (!covered(byte))
      throw Misstep(fmt::format("byte {} of the arena is written outside of every block", byte), s.line);
    if (s.accumulates) value += load(byte, is_integer);
    overlay_[byte] = value;
    bool looked_up = std::any_of(r_.stores_.begin(), r_.stores_.end(), [&](const Store& store) {
      return store.statement == &s && !store.affine && store.block == number_;
    });
    if (looked_up) hits_.push_back(byte);
  }

  bool covered(int64_t byte) const {
    return std::any_of(r_.written_.begin(), r_.written_.end(),
                       [&](const Written& w) { return byte >= w.begin && byte < w.end; });
  }

  void loop(const Statement& s) {
    const Loop& loop = r_.loops_.at(s.slot);
    int64_t begin = integer(s.value), end = integer(s.limit);
    int64_t& counter = frame_[size_t(s.slot)].integer;
    active_.push_back(s.slot);
    auto only = only_.find(s.slot);
    const std::set<int64_t>* within = only == only_.end() ? within_chunks(s) : nullptr;
    if (only != only_.end()) {
      for (int64_t at : only->second) {
        if (at < begin || at >= end) continue;
        counter = at;
        if (loop.extent() > 1) forget(loop);
        body(s);
      }
    } else if (within) {
      for (int64_t at = begin; at < end; at += s.step) {
        auto next = within->lower_bound(at);
        if (next == within->end() || *next >= at + s.step) continue;
        counter = at;
        forget(loop);
        body(s);
      }
    } else {
      for (int64_t at = begin; at < end; at += s.step) {
        counter = at;
        body(s);
      }
    }
    active_.pop_back();
  }

  /// Counters of the loop inside of this loop over chunks, if they are restricted.
  const std::set<int64_t>* within_chunks(const Statement& s) const {
    if (s.step == 1 || r_.in_full_.count(s.slot)) return nullptr;
    const std::set<int64_t>* found = nullptr;
    for (const auto& [slot, loop] : r_.loops_) {
      if (loop.chunks_of != s.slot) continue;
      auto only = only_.find(slot);
      if (only == only_.end()) return nullptr;
      found = &only->second;
    }
    return found;
  }

  /// What iterations that are left out would have left in variables is unknown.
  void forget(const Loop& loop) {
    for (int slot : loop.carried) frame_[size_t(slot)].real = std::nan("");
  }

  void body(const Statement& s) {
    for (const Statement& inner : s.body) execute(inner);
  }

  // ---- expressions ----

  void count() {
    if (++r_.work > r_.limit && r_.limit > 0) throw TooLong();
  }

  int64_t integer(const Expression& e) {
    count();
    switch (e.kind) {
      case Kind::integer:
        return e.integer_value;
      case Kind::variable:
        if (e.type == Type::integer) return frame_[size_t(e.slot)].integer;
        break;
      case Kind::member:
        if (e.name == "step") return Sample::step;
        if (e.name == "seed") return int64_t(Sample::run_seed);
        break;
      case Kind::element:
        return element_integer(e);
      case Kind::negative:
        return -integer(e.args[0]);
      case Kind::not_:
        return !integer(e.args[0]);
      case Kind::add:
        return int64_t(uint64_t(integer(e.args[0])) + uint64_t(integer(e.args[1])));
      case Kind::sub:
        return int64_t(uint64_t(integer(e.args[0])) - uint64_t(integer(e.args[1])));
      case Kind::mul:
        return int64_t(uint64_t(integer(e.args[0])) * uint64_t(integer(e.args[1])));
      case Kind::div:
      case Kind::modulo: {
        int64_t a = integer(e.args[0]), b = integer(e.args[1]);
        if (b == 0 || (a == std::numeric_limits<int64_t>::min() && b == -1))
          throw Misstep("a division by zero", e.line);
        return e.kind == Kind::div ? a / b : a % b;
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
        return integer(e.args[0]) ? integer(e.args[1]) : integer(e.args[2]);
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
    throw unknown(e);
  }

  static NotFollowed unknown(const Expression& e) {
    return NotFollowed(e.name.empty() ? "an expression of another kind" : e.name, e.line);
  }

  int64_t compare(const Expression& e) {
    const Expression &a = e.args[0], &b = e.args[1];
    if (a.type == Type::real || b.type == Type::real) {
      double x = real(a), y = real(b);
      if (std::isnan(x) || std::isnan(y)) throw Undefined();
      return e.kind == Kind::less ? x < y : e.kind == Kind::less_equal ? x <= y : x == y;
    }
    int64_t x = integer(a), y = integer(b);
    if (a.kind == Kind::to_unsigned || b.kind == Kind::to_unsigned) {
      uint64_t ux = uint64_t(x), uy = uint64_t(y);
      return e.kind == Kind::less ? ux < uy : e.kind == Kind::less_equal ? ux <= uy : ux == uy;
    }
    return e.kind == Kind::less ? x < y : e.kind == Kind::less_equal ? x <= y : x == y;
  }

  double real(const Expression& e) {
    count();
    switch (e.kind) {
      case Kind::real:
        return e.real_value;
      case Kind::integer:
        return double(e.integer_value);
      case Kind::variable:
        return e.type == Type::integer ? double(frame_[size_t(e.slot)].integer) : frame_[size_t(e.slot)].real;
      case Kind::element:
        return e.type == Type::integer ? double(element_integer(e)) : element(e, false);
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
        return integer(e.args[0]) ? real(e.args[1]) : real(e.args[2]);
      case Kind::to_real:
        return double(integer(e.args[0]));
      case Kind::call:
        return call(e);
      default:
        throw unknown(e);
    }
  }

  double call(const Expression& e) {
    auto arg = [&](size_t i) { return real(e.args.at(i)); };
    Builtin function = Builtin(e.slot);  // by spell_out
    size_t wanted = function == Builtin::uniform ? 4
                    : function == Builtin::power || function == Builtin::maximum || function == Builtin::minimum ||
                            function == Builtin::row_sum || function == Builtin::row_max
                        ? 2
                    : function == Builtin::infinity ? 0
                                                    : 1;
    if (function == Builtin::none || e.args.size() != wanted) throw NotFollowed("a call of " + e.name, e.line);
    switch (function) {
      case Builtin::exp:
        return std::exp(arg(0));
      case Builtin::log:
        return std::log(arg(0));
      case Builtin::sqrt:
        return std::sqrt(arg(0));
      case Builtin::tanh:
        return std::tanh(arg(0));
      case Builtin::erf:
        return std::erf(arg(0));
      case Builtin::sin:
        return std::sin(arg(0));
      case Builtin::cos:
        return std::cos(arg(0));
      case Builtin::floor:
        return std::floor(arg(0));
      case Builtin::power:
        return std::pow(arg(0), arg(1));
      case Builtin::maximum:
        return larger(arg(0), arg(1));
      case Builtin::minimum:
        return -larger(-arg(0), -arg(1));
      case Builtin::infinity:
        return std::numeric_limits<double>::infinity();
      case Builtin::not_a_number:
        return std::nan("");
      case Builtin::uniform:
        return philox_uniform(uint64_t(integer(e.args[0])), int(integer(e.args[1])), uint64_t(integer(e.args[2])),
                              uint64_t(integer(e.args[3])));
      default:
        return row(e, function == Builtin::row_max);
    }
  }

  double row(const Expression& e, bool is_max) {
    Pointer from = pointer(e.args[0]);
    int64_t count = integer(e.args[1]);
    double total = is_max ? -std::numeric_limits<double>::infinity() : 0.0;
    for (int64_t i = 0; i < count; ++i) {
      double v = from.array >= 0 ? array_element(from, i, e.line) : load(from.at + i * element_bytes, false);
      total = is_max ? larger(total, v) : total + v;
    }
    return total;
  }

  Pointer pointer(const Expression& e) {
    if (e.kind == Kind::variable) {
      if (is_pointer(e.type) || arrays_.count(e.slot)) return frame_[size_t(e.slot)].pointer;
    } else if (e.kind == Kind::add) {
      bool first = is_pointer(e.args[0].type);
      Pointer out = pointer(e.args[first ? 0 : 1]);
      int64_t by = integer(e.args[first ? 1 : 0]);
      out.at += out.array >= 0 ? by : by * stride_of(e.args[first ? 0 : 1].type);
      return out;
    }
    throw unknown(e);
  }

  int64_t element_integer(const Expression& e) {
    if (e.args[0].kind == Kind::global) {
      auto table = r_.unit_.tables.find(e.args[0].name);
      int64_t at = integer(e.args[1]);
      if (table == r_.unit_.tables.end() || at < 0 || at >= int64_t(table->second.size()))
        throw NotFollowed("an element of " + e.args[0].name, e.line);
      return table->second[size_t(at)];
    }
    double value = element(e, true);
    if (std::isnan(value)) throw Misstep("an integer is read where memory holds none", e.line);
    return int64_t(value);
  }

  double element(const Expression& e, bool integer_elements) {
    Pointer from = pointer(e.args[0]);
    int64_t at = integer(e.args[1]);
    line_ = e.line;
    return from.array >= 0 ? array_element(from, at, e.line) : load(from.at + at * element_bytes, integer_elements);
  }

  double array_element(const Pointer& from, int64_t at, int line) {
    count();
    const std::vector<double>& array = arrays_[from.array];
    if (from.at + at < 0 || from.at + at >= int64_t(array.size()))
      throw Misstep("a local array is read outside of its bounds", line);
    return array[size_t(from.at + at)];
  }

  double load(int64_t byte, bool integer_elements) {
    count();
    auto own = overlay_.find(byte);
    if (own != overlay_.end()) return own->second;
    for (const Store& store : r_.stores_)
      if (byte >= store.low && byte < store.high) check_order(store, byte);
    return r_.memory_.read(byte, integer_elements);
  }

  /// An element that the region itself overwrites is read. In place that is right if it is this very iteration that
  /// overwrites it, afterwards.
  void check_order(const Store& store, int64_t byte) {
    std::map<int, int64_t> counters;
    if (!r_.decode(store, byte, counters)) return;  // scatters were executed in full up to here
    std::vector<int> elsewhere;
    for (int slot : store.loops) {
      bool active = std::count(active_.begin(), active_.end(), slot) > 0;
      auto wanted = counters.find(slot);
      if (!active) {
        elsewhere.push_back(slot);
      } else if (wanted != counters.end() && wanted->second != frame_[size_t(slot)].integer) {
        throw Misstep(fmt::format("byte {} of the arena is read here and overwritten by another iteration", byte),
                      line_);
      }
    }
    if (store.conditional || store.statement->number >= now_) return;
    // Written before in this iteration, by loops that were left out.
    bool more = false;
    for (int slot : elsewhere) more = r_.in_full_.insert(slot).second || more;
    if (more) throw Again();
  }

  Region& r_;
  const Written& block_;
  int number_;
  Frame frame_;
  std::map<int, std::set<int64_t>> only_;  ///< counters at which a loop runs; absent: all
  std::vector<int> active_;
  std::unordered_map<int64_t, double> overlay_;  ///< bytes written by this run
  std::unordered_map<int, std::vector<double>> arrays_;
  std::vector<int64_t> hits_;
  int line_ = 0, now_ = 0;
};

std::vector<double> Region::values(const Written& block, const std::vector<int64_t>& elements) {
  int number = int(&block - written_.data());
  std::vector<int64_t> bytes;
  for (int64_t element : elements) bytes.push_back(block.begin + element * element_bytes);
  for (;;) {
    try {
      return Run(*this, block, number, bytes).values(bytes);
    } catch (const Run::Again&) {
    } catch (const Run::Undefined&) {
      return std::vector<double>(elements.size(), std::nan(""));
    }
  }
}

std::vector<int64_t> Region::hits(const Written& block, size_t most) {
  int number = int(&block - written_.data());
  for (;;) {
    try {
      std::set<int64_t> found;
      for (int64_t byte : Run(*this, block, number, {block.begin}).hits()) {
        found.insert((byte - block.begin) / element_bytes);
        if (found.size() >= most * 8) break;
      }
      std::vector<int64_t> all(found.begin(), found.end()), out;
      size_t step = std::max<size_t>(1, all.size() / most);
      for (size_t i = 0; i < all.size(); i += step) out.push_back(all[i]);
      return out;
    } catch (const Run::Again&) {
    } catch (const Run::Undefined&) {
      return {};
    }
  }
}

}  // namespace hetsynth::source
