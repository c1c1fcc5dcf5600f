#include "verify/source/region.h"

#include <algorithm>
#include <cmath>

namespace hetsynth::source {
namespace {

/// Executions that add to what is executed before everything is.
constexpr int most_executions = 40;

Frame sized(Frame frame, size_t slots) {
  frame.resize(std::max(frame.size(), slots));
  return frame;
}

}  // namespace

Region::Region(const Function& function, const Statement& body, Frame frame, const Unit& unit, const Memory& memory)
    : function_(function),
      frame_(sized(std::move(frame), function.slots.size())),
      outline_(function, body, frame_),
      code_{outline_, body, unit, memory} {}

template <class Look>
bool Region::execute(const Written& block, const std::vector<int64_t>& bytes, const Look& look) {
  int number = int(&block - outline_.written.data());
  Selection selection(outline_, number, bytes);
  for (int executions = 1;; ++executions) {
    if (executions == most_executions)
      for (const auto& [slot, loop] : outline_.loops) selection.full.insert(slot), selection.only.erase(slot);
    Execution execution(code_, frame_, number, selection, work, limit);
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

std::vector<double> Region::values(const Written& block, const std::vector<int64_t>& elements) {
  std::vector<int64_t> bytes;
  for (int64_t element : elements) bytes.push_back(block.begin + element * block.element_bytes());
  std::vector<double> out;
  bool defined = execute(block, bytes, [&](const Execution& execution) {
    for (int64_t byte : bytes) out.push_back(execution.value(byte));
  });
  return defined ? out : std::vector<double>(elements.size(), std::nan(""));
}

std::vector<int64_t> Region::hits(const Written& block, size_t most) {
  std::set<int64_t> found;
  execute(block, {block.begin}, [&](const Execution& execution) {
    for (int64_t byte : execution.hits()) {
      found.insert((byte - block.begin) / block.element_bytes());
      if (found.size() >= most * 8) break;
    }
  });
  std::vector<int64_t> all(found.begin(), found.end()), out;
  size_t step = std::max<size_t>(1, all.size() / most);
  for (size_t i = 0; i < all.size(); i += step) out.push_back(all[i]);
  return out;
}

}  // namespace hetsynth::source
