#include "verify/source/threads/threads.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "verify/source/execute/arithmetic.h"

namespace hetsynth::source {
namespace {

/// Local and shared arrays: what a block has room for.
constexpr int64_t longest_array_of_thread = int64_t(1) << 20;
constexpr size_t page_numbers = size_t(1) << 16;

bool multiplies_fragments(const std::string& function) { return function == "mma_bf16" || function == "mma_fp16"; }

bool loads_fragment(const std::string& function) {
  return function == "load_left" || function == "load_right" || function == "load_right_by_rows";
}

Meets meets(const Expression& e) {
  Meets out = Meets::nobody;
  if (e.kind == Kind::call) {
    if (e.name == "__syncthreads" || e.name == "collect_hits" || e.name.rfind("block_", 0) == 0 ||
        e.name.rfind("stacked_", 0) == 0)
      out = Meets::block;
    else if (e.name.rfind("warp_", 0) == 0 || e.name.rfind("lanes", 0) == 0 || multiplies_fragments(e.name) ||
             loads_fragment(e.name))
      out = Meets::warp;
  }
  for (const Expression& arg : e.args) out = std::max(out, meets(arg));
  return out;
}

}  // namespace

Meets meets(const Statement& s) {
  Meets out = s.shared ? Meets::block : Meets::nobody;
  for (const Expression* e : {&s.target, &s.value, &s.limit}) out = std::max(out, meets(*e));
  for (const Statement& inner : s.body) out = std::max(out, meets(inner));
  return out;
}

ThreadBlock::ThreadBlock(const Launch& launch, int64_t block, const Slice* slice, Outside& outside, int64_t& work,
                         int64_t limit)
    : launch_(launch),
      kernel_(*launch.kernel),
      block_(block),
      slice_(slice),
      outside_(outside),
      work_(work),
      limit_(limit),
      threads_(int(launch.threads)),
      integers_(kernel_.slots.size()),
      reals_(kernel_.slots.size()),
      arrays_(kernel_.slots.size()),
      stopped_(size_t(launch.threads), 0) {}

void ThreadBlock::run(const std::vector<int>& threads) {
  executing_ = int(threads.size());
  execute(kernel_.body, {threads.data(), executing_});
}

double* ThreadBlock::reals(int count) {
  if (pages_.empty() || used_ + size_t(count) > page_numbers) {
    page_ = pages_.empty() ? 0 : page_ + 1;
    used_ = 0;
    if (page_ == pages_.size()) pages_.push_back(std::make_unique<double[]>(page_numbers));
  }
  double* out = pages_[page_].get() + used_;
  used_ += size_t(count);
  return out;
}

int64_t* ThreadBlock::integers(int count) {
  static_assert(sizeof(int64_t) == sizeof(double));
  return reinterpret_cast<int64_t*>(reals(count));
}

void ThreadBlock::count(int64_t lanes, int line) {
  if ((work_ += lanes) > limit_ && limit_ > 0) throw TooLong("a kernel", line);
}

// ---- statements ----

void ThreadBlock::execute(const Statement& s, Lanes lanes) {
  if (lanes.count == 0 || !kept(s)) return;
  Numbers here(*this);
  switch (s.kind) {
    case Statement::Kind::block:
      return block(s, lanes);
    case Statement::Kind::declare:
      return declare(s, lanes);
    case Statement::Kind::assign:
      return assign(s, lanes);
    case Statement::Kind::loop:
      return loop(s, lanes);
    case Statement::Kind::branch:
      return branch(s, lanes);
    case Statement::Kind::call:
      return call(s.value, lanes);
    case Statement::Kind::stop:
      for (int i = 0; i < lanes.count; ++i) stopped_[size_t(lanes.thread[i])] = 1;
      any_stopped_ = true;
      return;
    case Statement::Kind::leave:
      throw NotFollowed("an early return", s.line);
    case Statement::Kind::other:
      throw NotFollowed(s.value.name, s.line);
  }
}

void ThreadBlock::block(const Statement& s, Lanes lanes) {
  std::vector<int> still;
  for (const Statement& inner : s.body) {
    execute(inner, lanes);
    if (!any_stopped_) continue;
    std::vector<int> rest;
    for (int i = 0; i < lanes.count; ++i)
      if (!stopped_[size_t(lanes.thread[i])]) rest.push_back(lanes.thread[i]);
    still.swap(rest);
    lanes = {still.data(), int(still.size())};
  }
}

void ThreadBlock::declare(const Statement& s, Lanes lanes) {
  const size_t slot = size_t(s.slot);
  if (s.elements > 0) {
    if (!is_pointer(s.type) || s.type == Type::bytes) throw NotFollowed("an array of another type", s.line);
    if (s.elements > longest_array_of_thread) throw NotFollowed("a very long array in a kernel", s.line);
    if (!s.list.empty()) throw NotFollowed("an array with given elements", s.line);
    Array& array = arrays_[slot];
    if (s.shared && array.shared) return;  // one for the whole kernel
    array.elements = s.elements;
    array.shared = s.shared;
    const double value = s.zeroed ? 0.0 : std::nan("");
    if (s.shared) {
      array.values.assign(size_t(s.elements), std::nan(""));
      array.writer.assign(size_t(s.elements), -1);
      array.reader.assign(size_t(s.elements), -1);
      array.written.assign(size_t(s.elements), 0);
      array.read.assign(size_t(s.elements), 0);
      return;
    }
    array.values.resize(size_t(s.elements * threads_), std::nan(""));
    for (int64_t e = 0; e < s.elements; ++e)
      for (int i = 0; i < lanes.count; ++i) array.values[size_t(e * threads_ + lanes.thread[i])] = value;
    return;
  }
  if (s.type == Type::integer) {
    integers_[slot].resize(size_t(threads_));
    if (!s.has_value) return;
    int64_t* value = integers(lanes.count);
    integer(s.value, lanes, value);
    for (int i = 0; i < lanes.count; ++i) integers_[slot][size_t(lanes.thread[i])] = value[i];
  } else if (s.type == Type::real) {
    reals_[slot].resize(size_t(threads_));
    double* value = reals(lanes.count);
    if (s.has_value)
      real(s.value, lanes, value);
    else
      std::fill(value, value + lanes.count, std::nan(""));
    for (int i = 0; i < lanes.count; ++i) reals_[slot][size_t(lanes.thread[i])] = value[i];
  } else {
    throw NotFollowed("in a kernel, a variable of another type", s.line);
  }
}

void ThreadBlock::assign(const Statement& s, Lanes lanes) {
  if (s.target.kind == Kind::element) return assign_element(s, lanes);
  if (s.target.kind != Kind::variable) throw NotFollowed("an assignment to something else", s.line);
  if (s.target.type == Type::integer)
    assign_variable(s, lanes, integers_[size_t(s.target.slot)]);
  else
    assign_variable(s, lanes, reals_[size_t(s.target.slot)]);
}

/// `variable`: by thread.
template <class T>
void ThreadBlock::assign_variable(const Statement& s, Lanes lanes, std::vector<T>& variable) {
  T* value = numbers<T>(lanes.count);
  evaluate(s.value, lanes, value);
  if (variable.empty()) throw NotFollowed("an assignment to " + s.target.name, s.line);
  for (int i = 0; i < lanes.count; ++i) {
    T& at = variable[size_t(lanes.thread[i])];
    at = s.accumulates ? at + value[i] : value[i];
  }
}

void ThreadBlock::assign_element(const Statement& s, Lanes lanes) {
  const Type pointer = s.target.args[0].type;
  const Place to = element_place(s.target, lanes);
  if (slice_ && to.parameter >= 0) return store_at(to, pointer, 0, lanes, nullptr, s.line);
  double* value = reals(lanes.count);
  if (s.target.type == Type::integer) {
    int64_t* whole = integers(lanes.count);
    integer(s.value, lanes, whole);
    std::copy(whole, whole + lanes.count, value);
  } else {
    real(s.value, lanes, value);
  }
  if (s.accumulates) {
    double* before = reals(lanes.count);
    load_at(to, pointer, 0, lanes, before, s.line);
    for (int i = 0; i < lanes.count; ++i) value[i] += before[i];
  }
  store_at(to, pointer, 0, lanes, value, s.line);
}

void ThreadBlock::branch(const Statement& s, Lanes lanes) {
  int64_t* condition = integers(lanes.count);
  decide(s.value, lanes, condition);
  std::vector<int> yes, no;
  for (int i = 0; i < lanes.count; ++i) (condition[i] ? yes : no).push_back(lanes.thread[i]);
  execute(s.body[0], {yes.data(), int(yes.size())});
  if (s.body.size() > 1) execute(s.body[1], {no.data(), int(no.size())});
}

void ThreadBlock::loop(const Statement& s, Lanes lanes) {
  std::vector<int64_t>& counter = integers_[size_t(s.slot)];
  counter.resize(size_t(threads_));
  std::vector<int> active(lanes.thread, lanes.thread + lanes.count);
  int64_t* number = integers(lanes.count);
  integer(s.value, lanes, number);
  for (int i = 0; i < lanes.count; ++i) counter[size_t(lanes.thread[i])] = number[i];
  for (;;) {
    Numbers turn(*this);
    const Lanes now{active.data(), int(active.size())};
    integer(s.limit, now, number);
    count(now.count, s.line);
    size_t on = 0;
    for (size_t i = 0; i < active.size(); ++i)
      if (counter[size_t(active[i])] < number[i]) active[on++] = active[i];
    active.resize(on);
    if (active.empty()) return;
    const Lanes inside{active.data(), int(on)};
    Decisions* const decisions = outside_.decisions();
    const size_t begun = decisions ? decisions->turn() : 0;
    for (const Statement& inner : s.body) execute(inner, inside);
    if (decisions) decisions->end_turn(begun);
    if (any_stopped_) {
      std::erase_if(active, [&](int thread) { return stopped_[size_t(thread)] != 0; });
      for (int i = 0; i < lanes.count; ++i) stopped_[size_t(lanes.thread[i])] = 0;
      any_stopped_ = false;
    }
    const Lanes next{active.data(), int(active.size())};
    if (s.step > 0)
      std::fill(number, number + next.count, s.step);
    else
      integer(s.increment, next, number);
    for (int i = 0; i < next.count; ++i) {
      if (number[i] <= 0) throw NotFollowed("a loop that does not count up", s.line);
      counter[size_t(active[size_t(i)])] += number[i];
    }
  }
}

void ThreadBlock::barrier(Lanes lanes, int line) {
  if (slice_) return;
  if (lanes.count != threads_) throw Misstep("threads of the block do not all come to where they meet", line);
  ++moment_;
}

void ThreadBlock::call(const Expression& e, Lanes lanes) {
  if (e.name == "__syncthreads" && e.args.empty()) return barrier(lanes, e.line);
  if (moved_by(e) > 0) return move(e, lanes);
  if (e.args.size() == 3 && loads_fragment(e.name)) return load_fragment(e, lanes);
  if (e.args.size() == 3 && multiplies_fragments(e.name)) return multiply_fragments(e, lanes);
  throw NotFollowed("a call of " + e.name, e.line);
}

// ---- places ----

Type ThreadBlock::pointed(const Place& at, Type pointer) const {
  return at.parameter >= 0 ? kernel_.parameters[size_t(at.parameter)].type : pointer;
}

ThreadBlock::Place ThreadBlock::place(const Expression& e, Lanes lanes) {
  Place out;
  if (e.kind == Kind::variable) {
    out.offset = integers(lanes.count);
    std::fill(out.offset, out.offset + lanes.count, 0);
    if (size_t(e.slot) < kernel_.parameters.size())
      out.parameter = e.slot;
    else if (arrays_[size_t(e.slot)].elements > 0)
      out.array = e.slot;
    else
      throw NotFollowed("a pointer to something else", e.line);
    return out;
  }
  if (e.kind != Kind::add && !(e.kind == Kind::element && e.integer_value > 0))
    throw NotFollowed("a pointer to something else", e.line);
  const bool first = e.kind == Kind::element || is_pointer(e.args[0].type);
  out = place(e.args[first ? 0 : 1], lanes);
  int64_t* by = integers(lanes.count);
  integer(e.args[first ? 1 : 0], lanes, by);
  const int64_t each = e.kind == Kind::element ? e.integer_value : 1;
  for (int i = 0; i < lanes.count; ++i) out.offset[i] = sum(out.offset[i], product(by[i], each, e.line), e.line);
  return out;
}

ThreadBlock::Place ThreadBlock::element_place(const Expression& e, Lanes lanes) {
  Place out = place(e.args[0], lanes);
  int64_t* at = integers(lanes.count);
  integer(e.args[1], lanes, at);
  for (int i = 0; i < lanes.count; ++i) out.offset[i] = sum(out.offset[i], at[i], e.line);
  return out;
}

void ThreadBlock::expect_aligned(const Place& at, Type pointer, int elements, Lanes lanes, int line) const {
  if (at.parameter < 0) {
    for (int i = 0; i < lanes.count && elements == 8; ++i)
      if (at.offset[i] % elements != 0) throw Misstep("a row of a tile begins at no multiple of 16 bytes", line);
    return;
  }
  const int64_t each = stride_of(pointed(at, pointer)), size = elements * each,
                begin = launch_.arguments[size_t(at.parameter)];
  for (int i = 0; i < lanes.count; ++i)
    if (const int64_t byte = sum(begin, product(at.offset[i], each, line), line); byte % size != 0)
      throw Misstep(fmt::format("{} numbers are accessed at byte {}, which is no multiple of {}",
                                elements == 4 ? "four" : "eight", byte, size),
                    line);
}

/// An element of an array. Of shared ones, nothing may be read or written that another thread writes, or written that
/// another reads, without a barrier in between.
double& ThreadBlock::cell(Array& array, int64_t at, int thread, bool writes, int line) {
  if (at < 0 || at >= array.elements) throw Misstep("an array of the kernel is accessed outside of its bounds", line);
  if (!array.shared) return array.values[size_t(at * threads_ + thread)];
  const size_t a = size_t(at);
  const bool written = array.written[a] == moment_ && array.writer[a] != thread;
  const bool read = array.read[a] == moment_ && array.reader[a] != thread;
  if (!slice_ && (written || (writes && read)))
    throw Misstep("threads access the same element of a shared array, and nothing says which one is first", line);
  if (writes) {
    array.writer[a] = thread, array.written[a] = moment_;
  } else {
    array.reader[a] = array.read[a] == moment_ && array.reader[a] != thread ? -2 : thread;
    array.read[a] = moment_;
  }
  return array.values[a];
}

void ThreadBlock::load_at(const Place& from, Type pointer, int64_t further, Lanes lanes, double* out, int line) {
  count(lanes.count, line);
  if (from.array >= 0) {
    Array& array = arrays_[size_t(from.array)];
    for (int i = 0; i < lanes.count; ++i)
      out[i] = cell(array, sum(from.offset[i], further, line), lanes.thread[i], false, line);
    return;
  }
  const Type type = pointed(from, pointer);
  if (slice_) throw NotFollowed("an address that depends on what is in memory", line);
  if (!is_pointer(type)) {  // the clock: the step, and the seed of the run
    for (int i = 0; i < lanes.count; ++i) {
      const int64_t at = sum(from.offset[i], further, line);
      if (at < 0 || at > 1) throw Misstep("the clock is read outside of its bounds", line);
      out[i] = at == 0 ? double(outside_.step()) : double(Sample::run_seed);
    }
    return;
  }
  int64_t* bytes = integers(lanes.count);
  const Pointer begin{-1, launch_.arguments[size_t(from.parameter)]};
  for (int i = 0; i < lanes.count; ++i) bytes[i] = place_of(begin, sum(from.offset[i], further, line), type, line);
  outside_.load(element_type(type), bytes, lanes, out, line);
}

void ThreadBlock::store_at(const Place& to, Type pointer, int64_t further, Lanes lanes, const double* values,
                           int line) {
  count(lanes.count, line);
  if (to.array >= 0) {
    Array& array = arrays_[size_t(to.array)];
    for (int i = 0; i < lanes.count; ++i)
      cell(array, sum(to.offset[i], further, line), lanes.thread[i], true, line) = values[i];
    return;
  }
  const Type type = pointed(to, pointer);
  if (!is_pointer(type) || !kernel_.parameters[size_t(to.parameter)].writable)
    throw Misstep("something is written that may only be read", line);
  int64_t* bytes = integers(lanes.count);
  const Pointer begin{-1, launch_.arguments[size_t(to.parameter)]};
  for (int i = 0; i < lanes.count; ++i) bytes[i] = place_of(begin, sum(to.offset[i], further, line), type, line);
  outside_.store(to.parameter, element_type(type), bytes, lanes, values, line);
}

}  // namespace hetsynth::source
