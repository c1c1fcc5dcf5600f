#include "verify/source/execute/loop_region.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "verify/source/execute/arithmetic.h"
#include "verify/source/text/structure.h"

namespace hetsynth::source {
namespace {

/// Executions that add to what is executed before everything is.
constexpr int most_executions = 40;

Frame sized(Frame frame, size_t slots) {
  frame.resize(std::max(frame.size(), slots));
  return frame;
}

}  // namespace

LoopRegion::LoopRegion(const Function& function, const Statement& body, Frame frame, const Unit& unit,
                       const Memory& memory)
    : function_(function),
      frame_(sized(std::move(frame), function.slots.size())),
      outline_(function, body, frame_),
      code_{outline_, body, unit, memory} {}

/// Of a function's body, what it does and numbers that it is given make its key.
std::optional<Call> LoopRegion::call() const {
  if (&code_.body != &function_.body) return std::nullopt;
  Call out;
  out.key = structure_of(function_, out.streams);
  for (size_t i = 0; i < function_.parameters.size(); ++i) {
    if (is_pointer(function_.parameters[i].type))
      out.places[int(i)] = frame_[i].pointer.at;
    else
      out.key += fmt::format(" {}{}", frame_[i].step ? "step" : "", frame_[i].integer);
  }
  return out;
}

template <class Look>
bool LoopRegion::execute(const Written& block, Selection selection, const Look& look, int64_t byte) {
  int number = number_of(block);
  for (int executions = 1;; ++executions) {
    if (executions == most_executions)
      for (const auto& [slot, loop] : outline_.loops) selection.full.insert(slot), selection.only.erase(slot);
    if (decisions) decisions->begin(byte);
    Execution execution(code_, frame_, number, selection, work, limit, decisions);
    try {
      execution.run();
      if (execution.widened()) continue;
      look(execution);
      return true;
    } catch (const Misstep&) {
      if (!execution.widened()) throw;
    } catch (const Execution::Undefined&) {
      if (!execution.widened()) return false;
    }
  }
}

std::vector<double> LoopRegion::values(const Written& block, const std::vector<int64_t>& elements) {
  std::vector<int64_t> bytes;
  for (int64_t element : elements) bytes.push_back(block.begin + element * block.element_bytes());
  std::vector<double> out;
  bool defined = execute(
      block, Selection(outline_, number_of(block), bytes),
      [&](const Execution& execution) {
        for (int64_t byte : bytes) out.push_back(execution.value(byte));
      },
      bytes.front());
  return defined ? out : std::vector<double>(elements.size(), std::nan(""));
}

const std::vector<int>& LoopRegion::summed_over(const Written& block) {
  auto [found, fresh] = summed_over_.try_emplace(number_of(block));
  if (fresh) found->second = outline_.summed_over(number_of(block));
  return found->second;
}

std::vector<int64_t> LoopRegion::turns(const Written& block) {
  std::vector<int64_t> out;
  for (int slot : summed_over(block)) out.push_back(outline_.loops.at(slot).extent());
  return out;
}

std::vector<std::set<int64_t>> LoopRegion::marks(const Written& block) {
  std::vector<std::set<int64_t>> out;
  for (int slot : summed_over(block)) {
    const Loop& loop = outline_.loops.at(slot);
    out.emplace_back();
    if (loop.chunks_of < 0) continue;
    const int64_t chunk = outline_.loops.at(loop.chunks_of).statement->step, extent = loop.extent();
    const int64_t last = (extent - 1) / chunk * chunk;
    for (int64_t turn : {chunk - 1, chunk, last - 1, last})
      if (turn >= 0 && turn < extent) out.back().insert(turn);
  }
  return out;
}

const std::vector<Affine>& LoopRegion::bounds(const Written& block) {
  auto [found, fresh] = bounds_.try_emplace(number_of(block));
  if (fresh) found->second = outline_.bounds_inside(number_of(block));
  return found->second;
}

std::vector<std::vector<int64_t>> LoopRegion::turns_at_bounds(const Written& block, int64_t element) {
  const int64_t byte = block.begin + element * block.element_bytes();
  std::map<int, int64_t> counters;
  for (const Store& store : outline_.stores)
    if (store.block == number_of(block) && store.affine && !store.statement->accumulates)
      outline_.decode(store, byte, counters, frame_);
  std::vector<int64_t> middle;
  for (int slot : summed_over(block)) {
    const Loop& loop = outline_.loops.at(slot);
    middle.push_back(loop.extent() / 2);
    counters[slot] = loop.begin + middle.back();
  }
  std::set<std::vector<int64_t>> out{middle};
  for (size_t l = 0; l < middle.size(); ++l) {
    const int slot = summed_over(block)[l];
    const Loop& loop = outline_.loops.at(slot);
    const auto add = [&](int64_t turn) {
      std::vector<int64_t> turns = middle;
      turns[l] = turn;
      if (turn >= 0 && turn < loop.extent()) out.insert(turns);
    };
    add(0), add(loop.extent() - 1);
    for (const Affine& bound : bounds(block)) {
      const auto own = bound.coefficients.find(slot);
      if (own == bound.coefficients.end() || own->second == 0) continue;
      int64_t rest = sum(bound.constant, product(own->second, loop.begin, block.line), block.line);
      for (auto [other, c] : bound.coefficients) {
        if (other == slot || c == 0) continue;
        if (!counters.count(other)) return {};
        rest = sum(rest, product(c, counters.at(other), block.line), block.line);
      }
      const int64_t flips = difference(0, rest, block.line) / own->second;  // rounded towards zero
      for (int64_t turn : {flips - 1, flips, flips + 1}) add(turn);
    }
  }
  return {out.begin(), out.end()};
}

template <class Look>
std::optional<bool> LoopRegion::execute_turn(const Written& block, Selection selection,
                                             const std::vector<int64_t>& turn, const Look& look, int64_t byte) {
  const std::vector<int>& loops = summed_over(block);
  std::map<int, std::set<int64_t>> only;
  for (size_t l = 0; l < loops.size(); ++l) {
    only[loops[l]];
    if (!turn.empty()) only[loops[l]] = {outline_.loops.at(loops[l]).begin + turn[l]};
    selection.single(loops[l], only[loops[l]]);
    if (const int chunks = outline_.loops.at(loops[l]).chunks_of; chunks >= 0) selection.single_chunks(chunks);
  }
  const auto apart = [&] {
    return std::all_of(loops.begin(), loops.end(), [&](int slot) {
      auto now = selection.only.find(slot);
      return now != selection.only.end() && now->second == only[slot];
    });
  };
  for (int executions = 0; executions < most_executions; ++executions) {
    if (decisions) decisions->begin(byte);
    Execution execution(code_, frame_, number_of(block), selection, work, limit, decisions);
    try {
      execution.run();
      if (!apart()) return std::nullopt;
      if (execution.widened()) continue;
      look(execution);
      return true;
    } catch (const Misstep&) {
      if (!apart()) return std::nullopt;
      if (execution.widened()) continue;
      // What numbers in memory lead to beyond the block may be seen with those that are there now alone.
      if (block.scattered) throw;
      return std::nullopt;
    } catch (const Execution::Undefined&) {
      if (!apart()) return std::nullopt;
      if (!execution.widened()) return false;
    }
  }
  return std::nullopt;
}

std::optional<double> LoopRegion::term(const Written& block, int64_t element, const std::vector<int64_t>& turn,
                                       bool none) {
  const int64_t byte = block.begin + element * block.element_bytes();
  double out = std::nan("");
  const std::optional<bool> known = execute_turn(
      block, Selection(outline_, number_of(block), std::vector<int64_t>{byte}), none ? std::vector<int64_t>{} : turn,
      [&](const Execution& execution) { out = execution.value(byte); }, byte);
  return known ? std::optional(out) : std::nullopt;
}

std::optional<std::vector<std::pair<int64_t, double>>> LoopRegion::hits_of_turn(const Written& block,
                                                                                const std::vector<int64_t>& turn,
                                                                                size_t most) {
  std::vector<std::pair<int64_t, double>> out;
  const auto note = [&](const Execution& execution) {
    std::set<int64_t> seen;
    for (int64_t byte : execution.hits())
      if (out.size() < most && seen.insert(byte).second)
        out.push_back({(byte - block.begin) / block.element_bytes(), execution.value(byte)});
  };
  if (!execute_turn(block, Selection(outline_, number_of(block)), turn, note)) return std::nullopt;
  return out;
}

std::vector<std::pair<int64_t, double>> LoopRegion::hits(const Written& block, size_t most) {
  std::vector<int64_t> elements;
  execute(block, Selection(outline_, number_of(block)), [&](const Execution& execution) {
    std::set<int64_t> found;
    for (int64_t byte : execution.hits()) {
      found.insert(byte);
      if (found.size() >= most * 8) break;
    }
    size_t step = std::max<size_t>(1, found.size() / most), number = 0;
    for (int64_t byte : found)
      if (number++ % step == 0) elements.push_back((byte - block.begin) / block.element_bytes());
  });
  std::vector<std::pair<int64_t, double>> out;
  const std::vector<double> worth = elements.empty() ? std::vector<double>{} : values(block, elements);
  for (size_t i = 0; i < elements.size(); ++i) out.push_back({elements[i], worth[i]});
  return out;
}

}  // namespace hetsynth::source
