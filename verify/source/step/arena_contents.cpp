#include "verify/source/step/arena_contents.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "dsl/ir/attention.h"
#include "verify/source/execute/arithmetic.h"
#include "verify/source/text/library.h"

namespace hetsynth::source {
namespace {

std::string words(const std::string& text) {
  std::string out;
  for (char c : text)
    if (!std::isspace(static_cast<unsigned char>(c))) out += c;
  return out;
}

}  // namespace

bool is_collective(const std::string& name) {
  static const std::set<std::string> names = {"hetsynth_all_gather",
                                              "hetsynth_all_reduce",
                                              "hetsynth_reduce_scatter",
                                              "hetsynth_hierarchical_all_gather",
                                              "hetsynth_hierarchical_all_reduce",
                                              "hetsynth_hierarchical_reduce_scatter",
                                              "hetsynth_hierarchical_all_to_all",
                                              "hetsynth_hierarchical_broadcast",
                                              "hetsynth_all_to_all",
                                              "hetsynth_halo_exchange",
                                              "hetsynth_broadcast",
                                              "hetsynth_send",
                                              "hetsynth_receive"};
  return names.count(name) > 0;
}

ContentsWalk::ContentsWalk(const Program& reference, const SpmdProgram& program, const RankSource& source,
                           const SourceOptions& options, Unit& unit, std::vector<int> numbers)
    : StepWalk(reference, program, source),
      options_(options),
      unit_(unit),
      numbers_(std::move(numbers)),
      meaning_(reference, program, source.rank),
      memory_(meaning_),
      done_(program.instructions.size(), false) {
  for (const Attention& attention : find_attention(reference))
    for (NodeId node : attention.after)
      if (is_rounding(reference[node].body)) weighed_.insert({{attention.mixed, true}, {attention.dot, false}});
  list_candidates();
}

void ContentsWalk::begin() {
  function_ = &entry_of(unit_);
  check_file();
  for (const Node& node : reference_.nodes)
    if (node.type.shape.size() > Index::most) throw NotFollowed("a tensor of very many dimensions", 0);
  for (auto& [name, function] : unit_.functions)
    if (function.defined) spell_out(function);
  frame_.resize(function_->slots.size());
  place_leaves();
}

/// Helper functions mean what the trusted prelude says, and the context is laid out as the runtime lays it out.
void ContentsWalk::check_file() const {
  if (!unit_.surprises.empty()) throw NotFollowed(unit_.surprises.front(), 0);
  static const std::vector<std::string> fields = {"char * arena",         "long step",
                                                  "unsigned long seed",   "void * communicator",
                                                  "void * stream",        "void * communication_stream",
                                                  "void * device",        "const void * clock",
                                                  "void * trace",         "void * rising_stream",
                                                  "void * falling_stream"};
  bool fits = unit_.context.size() >= 6 && unit_.context.size() <= fields.size() &&
              std::equal(unit_.context.begin(), unit_.context.end(), fields.begin());
  if (!fits) throw Differs("HetsynthContext is not the runtime's", 0);
  std::string trusted = words(options_.prelude);
  for (const auto& [name, text] : unit_.records)
    if (trusted.find(words(text)) == std::string::npos)
      throw Differs(fmt::format("the type {} is not the generator's", name), 0);
  for (const auto& [name, function] : unit_.functions) {
    if (!function.defined) continue;
    bool helps = options_.prelude.find(" " + name + "(") != std::string::npos || helper(name).builtin != Builtin::none;
    if (helps && trusted.find(words(function.text)) == std::string::npos)
      throw Differs(fmt::format("the helper function {} is not the generator's", name), function.line);
    if (name.rfind("hetsynth_", 0) == 0 && name != "hetsynth_step")
      throw Differs(fmt::format("{} is the runtime's, but is defined in the text", name), function.line);
  }
}

void ContentsWalk::place_leaves() {
  std::set<ValueId> placed;
  for (const ArenaSlot& slot : source_.leaves) {
    const std::vector<Range>& ranges = meaning_.ranges(slot.value);
    int64_t end = slot.offset_bytes + meaning_.bytes(slot.value);
    inside_arena(slot.offset_bytes, end, meaning_.dtype(slot.value), 0);
    for (int64_t byte : {slot.offset_bytes, end - 1})
      if (end > slot.offset_bytes && memory_.at(byte))
        throw Differs(fmt::format("{} and {} share memory at the start of the step", reference_[slot.node].name,
                                  node_of(memory_.at(byte)->value).name),
                      0, slot.node);
    memory_.put({slot.value, slot.offset_bytes, end, dense_strides(ranges, row_major(ranges.size()))});
    placed.insert(slot.value);
  }
  for (ValueId leaf : program_.leaves)
    if (on_rank(leaf) && !placed.count(leaf))
      throw Differs(fmt::format("{} has no place in memory", node_of(leaf).name), 0);
}

void ContentsWalk::inside_arena(int64_t begin, int64_t end, DType dtype, int line) const {
  if (begin % size_bytes(dtype) != 0)
    throw Differs(fmt::format("byte {} is no place for a number of {} bytes", begin, size_bytes(dtype)), line);
  if (begin < 0 || end > source_.arena_bytes)
    throw Differs(fmt::format("bytes {} to {} lie outside of the arena of {} bytes", begin, end, source_.arena_bytes),
                  line);
}

std::string ContentsWalk::part_text(ValueId value) const {
  if (value < 0) return "a partial result";
  std::vector<std::string> parts;
  for (const Range& r : meaning_.ranges(value)) parts.push_back(fmt::format("{}..{}", r.lo, r.hi));
  return fmt::format("{}[{}]", node_of(value).name, fmt::join(parts, ", "));
}

int64_t ContentsWalk::constant(const Expression& e) const {
  switch (e.kind) {
    case Kind::integer:
      return within_memory(e.integer_value, e.line);
    case Kind::negative:
      return -constant(e.args[0]);
    case Kind::variable:
      if (e.type == Type::integer && !frame_[size_t(e.slot)].step) return frame_[size_t(e.slot)].integer;
      break;
    case Kind::member:
      if (auto seed = seed_of_context(e)) return *seed;
      break;
    case Kind::add:
    case Kind::sub:
    case Kind::mul:
      return within_memory(computed(e, constant(e.args[0]), constant(e.args[1])), e.line);
    default:
      break;
  }
  throw NotFollowed("a number that is not constant", e.line);
}

Cell ContentsWalk::number(const Expression& e) const {
  const bool of_context = e.kind == Kind::member && e.name == "step";
  const bool of_variable = e.kind == Kind::variable && frame_[size_t(e.slot)].step;
  Cell out;
  out.step = of_context || of_variable;
  if (!out.step) out.integer = constant(e);
  return out;
}

Pointer ContentsWalk::pointer(const Expression& e) const {
  if (e.kind == Kind::variable && e.type != Type::integer && e.type != Type::real)
    return frame_[size_t(e.slot)].pointer;
  if (e.kind == Kind::add) {
    Pointer out = pointer(e.args[0]);
    out.at = within_memory(place_of(out, constant(e.args[1]), e.args[0].type, e.line), e.line);
    return out;
  }
  throw NotFollowed("a pointer that does not come from the arena", e.line);
}

/// What a region leaves in memory: each block it writes must be a value of the program.
void ContentsWalk::understand(const std::shared_ptr<Region>& region, const std::vector<std::string>& names,
                              const std::set<int>& scratch) {
  region->limit = options_.work_per_kernel;
  meaning_.work = 0;
  meaning_.limit = options_.work_per_kernel;
  meaning_.most_in_all = options_.work_in_all;
  places_read_.clear();
  std::vector<std::pair<const Written*, Guess>> guesses;
  std::vector<std::pair<const Written*, std::exception_ptr>> unrecognised;
  for (const Written& block : region->written()) inside_arena(block.begin, block.end, block.dtype, block.line);
  const std::optional<std::vector<Guess>> known = made_again(*region, names);
  read_through_.clear();
  opened_for_match_.clear();
  for (size_t k = 0; known && k < known->size(); ++k) guesses.push_back({&region->written()[k], (*known)[k]});
  bool all = !known;
  for (const Written& block : region->written()) {
    if (known) break;
    const std::string& name = names[size_t(block.pointer)];
    if (block.count() == 0) {
      add_nothing(*region, block);
      all = false;
      continue;
    }
    try {
      guesses.push_back({&block, recognise(*region, block, name, scratch.count(block.pointer) > 0)});
    } catch (const TooLong&) {
      throw TooLong("what is written through " + name, block.line);
    } catch (const Differs&) {
      if (!scratch.count(block.pointer)) throw;
      unrecognised.push_back({&block, std::current_exception()});
    }
    places_read_.insert(memory_.read_places().begin(), memory_.read_places().end());
    read_through_.insert(memory_.read_through().begin(), memory_.read_through().end());
  }
  if (!known && !region->written().empty()) expect_pieces(*region);
  if (all && unrecognised.empty() && scratch.empty()) {
    std::vector<Guess> made;
    for (const auto& [block, guess] : guesses) made.push_back(guess);
    remember(*region, made);
  }
  for (const auto& [block, guess] : guesses) {
    memory_.put({guess.value, block->begin, block->end, guess.strides});
    int maker = meaning_.maker(guess.value);
    if (maker >= 0) done_[size_t(maker)] = true, frontier_ = maker;
  }
  std::set<ValueId> beside;
  for (const auto& [block, guess] : guesses) beside.insert(guess.value);
  for (const auto& [block, error] : unrecognised) keep_unrecognised(region, *block, beside, error);
}

std::vector<ContentsWalk::Touched> ContentsWalk::understood(const std::shared_ptr<Region>& region,
                                                            const std::vector<std::string>& names,
                                                            const std::vector<int64_t>& points_to,
                                                            const std::set<int>& scratch) {
  std::set<std::pair<int64_t, int64_t>> read;
  for (const int64_t at : points_to)  // before what is written takes its place
    if (const Resident* there = memory_.at(at)) read.insert({there->begin, there->end});
  understand(region, names, scratch);
  read.insert(places_read_.begin(), places_read_.end());
  std::vector<Touched> out;
  for (const auto& [begin, end] : read) out.push_back({begin, end, false});
  for (const Written& block : region->written()) out.push_back({block.begin, block.end, true});
  return out;
}

std::optional<ContentsWalk::Conflict> ContentsWalk::conflict(const std::vector<Touched>& ours,
                                                             const std::vector<Touched>& theirs) {
  for (const Touched& b : theirs)
    for (const Touched& a : ours)
      if ((a.writes || b.writes) && a.begin < b.end && b.begin < a.end)
        return Conflict{std::max(a.begin, b.begin), std::min(a.end, b.end), a.writes, b.writes};
  return std::nullopt;
}

/// It is computed again whenever it is read: from what it was computed from now.
void ContentsWalk::keep_unrecognised(const std::shared_ptr<Region>& region, const Written& block,
                                     const std::set<ValueId>& beside, std::exception_ptr error) {
  auto kept = std::make_shared<Unrecognised>();
  kept->dtype = block.dtype;
  kept->line = block.line;
  kept->error = std::move(error);
  kept->beside = beside;
  kept->needs.assign(places_read_.begin(), places_read_.end());
  for (const Written& other : region->written())
    for (auto [from, to] : kept->needs)
      if (from < other.end && other.begin < to)
        throw NotFollowed("a partial result of a kernel that overwrites what it reads", block.line);
  kept->value = [this, region, &block](int64_t byte) {
    region->work = 0;
    const double value = region->values(block, {(byte - block.begin) / block.element_bytes()}).front();
    work_of_others_ += region->work;
    return value;
  };
  Resident resident{-1, block.begin, block.end, {}};
  resident.unrecognised = std::move(kept);
  memory_.put(resident);
}

// ---- the end ----

void ContentsWalk::finish() {
  memory_.expect_understood();
  if (const Instruction* i = next_exchange()) missing(*i);
  std::map<NodeId, ValueId> finals(program_.finals.begin(), program_.finals.end());
  for (const ArenaSlot& slot : source_.leaves) {
    if (reference_[slot.node].kind == NodeKind::input) continue;
    auto made = finals.find(slot.node);
    if (made == finals.end())
      result_lies_there(slot, slot.value, reference_[slot.node].name);
    else
      result_lies_there(slot, made->second, "the new contents of " + reference_[slot.node].name);
  }
  for (const ArenaSlot& slot : source_.outputs)
    result_lies_there(slot, slot.value, "the output " + reference_[slot.node].name);
  if (source_.loss.node >= 0) result_lies_there(source_.loss, program_.loss, "the loss");
}

void ContentsWalk::result_lies_there(const ArenaSlot& slot, ValueId value, const std::string& what) {
  if (meaning_.count(value) == 0 || memory_.lies_at(value, slot.offset_bytes)) return;
  expect_contents(value, slot.offset_bytes, what + " at the end of the step", 0);
}

}  // namespace hetsynth::source
