// Which values of the program a written block may hold, in the order in which they are tried.
#include <algorithm>
#include <cctype>

#include "verify/source/step/arena_contents.h"

namespace hetsynth::source {
namespace {

/// Values on either side of where the program was when a block was recognised last that could be what this one holds.
constexpr size_t most_candidates = 96;

std::string identifier(const std::string& name) {
  std::string out;
  for (char c : name) out += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  while (!out.empty() && out.back() == '_') out.pop_back();
  return out;
}

}  // namespace

/// A loop of many turns has as many blocks as values, and each block is held against all values of its form: what is
/// asked of them is written down once. Without that the source of a loop of 50 turns with 36 operators took 6 s instead
/// of 1.
void ContentsWalk::list_candidates() {
  for (size_t v = 0; v < program_.values.size(); ++v) {
    // A node of a loop's turn has the name that it has in the loop: "h" for "h[3]".
    const std::string& own = node_of(ValueId(v)).name;
    names_in_loop_.push_back(own.ends_with(']') ? own.substr(0, own.rfind('[')) : own);
    words_.push_back(identifier(names_in_loop_.back()));
  }
  for (size_t i = 0; i < program_.instructions.size(); ++i) {
    const ValueId v = program_.instructions[i].result;
    makers_of_form_[{meaning_.count(v), meaning_.dtype(v)}].push_back(i);
  }
}

bool ContentsWalk::named_alike(ValueId value, std::string_view name) const {
  constexpr std::string_view tensor = "_tensor";
  const std::string& word = words_[size_t(value)];
  if (!name.starts_with(word)) return false;
  name.remove_prefix(word.size());
  return name.empty() || name == tensor;
}

/// A second value of a node, which is made again, has its name and a number.
bool ContentsWalk::named_again(ValueId value, std::string_view name) const {
  const size_t end = name.find_last_not_of("0123456789");
  return end != std::string_view::npos && end + 1 < name.size() && name[end] == '_' &&
         named_alike(value, name.substr(0, end));
}

/// What the final writes is the new contents of the leaf that is called so.
bool ContentsWalk::replaces_named(const std::pair<NodeId, ValueId>& final, const std::string& name) const {
  return identifier(reference_[final.first].name) == name;
}

/// Names only order the search.
std::vector<ValueId> ContentsWalk::candidates(const Written& block, const std::string& name) const {
  int64_t count = block.count();
  auto fits = [&](ValueId v) { return meaning_.count(v) == count && meaning_.dtype(v) == block.dtype; };
  std::vector<ValueId> out, usual, taken_over, again, passed_again, ahead, passed, before, copies;
  for (const auto& final : program_.finals)
    if (fits(final.second) && replaces_named(final, name)) out.push_back(final.second);
  const auto form = makers_of_form_.find({count, block.dtype});
  const std::vector<size_t> none;
  for (const size_t i : form == makers_of_form_.end() ? none : form->second) {
    ValueId v = program_.instructions[i].result;
    if (!done_[i] && named_alike(v, name))
      out.push_back(v);
    else if (!done_[i] && is_usual(v))
      usual.push_back(v);
    else if (!done_[i] && named_again(v, name))
      (int(i) >= frontier_ ? again : passed_again).push_back(v);
    else if (!done_[i] && meaning_.is_kept_copy(v))
      copies.push_back(v);
    else if (!done_[i] && taken_over_.contains(v))
      taken_over.push_back(v);
    else if (!done_[i])
      (int(i) >= frontier_ ? ahead : passed).push_back(v);
    else
      before.push_back(v);
  }
  for (ValueId leaf : program_.leaves)
    if (fits(leaf)) before.push_back(leaf);
  if (ahead.size() > most_candidates) ahead.resize(most_candidates);
  // Nearest first: of what lies far behind, most exists in kernels only, and never in memory.
  std::reverse(passed.begin(), passed.end());
  if (passed.size() > most_candidates) passed.resize(most_candidates);
  // What is made again is rather what comes next than what was passed over, as it never lay in memory. It comes before
  // what a carry takes over: of one sample a turn, the sum over samples of a gradient is that gradient. And before what
  // the kernel made last: of the first query alone, the sum of attention's weights is 1 in every layer.
  out.insert(out.end(), again.begin(), again.end());
  out.insert(out.end(), usual.begin(), usual.end());
  // What a carry takes over may lie under its name; of what a turn makes beside it, most is never in memory.
  out.insert(out.end(), taken_over.begin(), taken_over.end());
  out.insert(out.end(), passed_again.begin(), passed_again.end());
  out.insert(out.end(), ahead.begin(), ahead.end());
  out.insert(out.end(), passed.begin(), passed.end());
  if (before.size() > most_candidates) before.erase(before.begin(), before.end() - long(most_candidates));
  out.insert(out.end(), before.begin(), before.end());
  // What is only moved is what was read, however long ago that was made.
  for (ValueId value : memory_.reads())
    if (fits(value) && !std::count(out.begin(), out.end(), value)) out.push_back(value);
  if (copies.size() > most_candidates) copies.resize(most_candidates);
  out.insert(out.end(), copies.begin(), copies.end());
  return out;
}

/// Returns the candidates that the name speaks of, which come first among all.
std::vector<ValueId> ContentsWalk::named(const std::vector<ValueId>& values, const std::string& name) const {
  const auto is_named = [&](ValueId value) { return named_alike(value, name) || named_again(value, name); };
  return {values.begin(), std::ranges::find_if_not(values, is_named)};
}

/// What is only moved, as what a turn of a loop begins with, is what was read rather than what is made of it later.
void ContentsWalk::put_what_is_read_first(const Written& block, const std::string& name,
                                          std::vector<ValueId>& values) const {
  const auto is_final = [&](const auto& final) { return replaces_named(final, name); };
  if (memory_.reads().size() != 1 || !named(values, name).empty() || std::ranges::any_of(program_.finals, is_final))
    return;
  const ValueId read = *memory_.reads().begin();
  if (meaning_.count(read) != block.count() || meaning_.dtype(read) != block.dtype) return;
  std::erase(values, read);
  values.insert(values.begin(), read);
}

}  // namespace hetsynth::source
