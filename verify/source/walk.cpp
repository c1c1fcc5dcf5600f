#include "verify/source/walk.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "verify/source/library.h"

namespace hetsynth::source {
namespace {

/// Calls that are the runtime's, not the text's.
bool is_collective(const std::string& name) {
  static const std::set<std::string> names = {"hetsynth_all_gather", "hetsynth_all_reduce", "hetsynth_reduce_scatter",
                                              "hetsynth_all_to_all", "hetsynth_broadcast",  "hetsynth_send",
                                              "hetsynth_receive"};
  return names.count(name) > 0;
}

std::string words(const std::string& text) {
  std::string out;
  for (char c : text)
    if (!std::isspace(static_cast<unsigned char>(c))) out += c;
  return out;
}

/// Of a loop that is followed turn by turn.
constexpr int64_t most_turns = 100'000;

bool calls_anything(const Statement& s) {
  if (s.kind == Statement::Kind::call) return true;
  if (s.kind == Statement::Kind::branch && s.value.kind == Kind::call) return true;
  return std::any_of(s.body.begin(), s.body.end(), calls_anything);
}

}  // namespace

Walk::Walk(const Program& reference, const SpmdProgram& program, const RankSource& source, const SourceOptions& options,
           Unit& unit, std::vector<int> numbers)
    : StepWalk(reference, program, source),
      options_(options),
      unit_(unit),
      numbers_(std::move(numbers)),
      meaning_(reference, program, source.rank),
      memory_(meaning_),
      done_(program.instructions.size(), false) {}

void Walk::run() {
  function_ = &entry_of(unit_);
  check_file();
  for (const Node& node : reference_.nodes)
    if (node.type.shape.size() > Index::most) throw NotFollowed("a tensor of very many dimensions", 0);
  for (auto& [name, function] : unit_.functions)
    if (function.defined) spell_out(function);
  frame_.resize(function_->slots.size());
  place_leaves();
  follow(*function_);
  finish();
}

/// Helper functions mean what the trusted prelude says, and the context is laid out as the runtime lays it out.
void Walk::check_file() const {
  if (!unit_.surprises.empty()) throw NotFollowed(unit_.surprises.front(), 0);
  static const std::vector<std::string> fields = {"char * arena",        "long step",     "unsigned long seed",
                                                  "void * communicator", "void * stream", "void * communication_stream",
                                                  "void * device"};
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

void Walk::place_leaves() {
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

void Walk::inside_arena(int64_t begin, int64_t end, DType dtype, int line) const {
  if (begin % size_bytes(dtype) != 0)
    throw Differs(fmt::format("byte {} is no place for a number of {} bytes", begin, size_bytes(dtype)), line);
  if (begin < 0 || end > source_.arena_bytes)
    throw Differs(fmt::format("bytes {} to {} lie outside of the arena of {} bytes", begin, end, source_.arena_bytes),
                  line);
}

std::string Walk::part_text(ValueId value) const {
  std::vector<std::string> parts;
  for (const Range& r : meaning_.ranges(value)) parts.push_back(fmt::format("{}..{}", r.lo, r.hi));
  return fmt::format("{}[{}]", node_of(value).name, fmt::join(parts, ", "));
}

// ---- the step ----

void Walk::loop(const Statement& s) {
  if (calls_anything(s)) return turns(s);
  ++statements;
  region(*function_, s, frame_, function_->slots);
}

/// The turns of a loop of the program, one after the other.
void Walk::turns(const Statement& s) {
  const int64_t first = constant(s.value), limit = constant(s.limit);
  if (s.step != 1 || limit - first > most_turns) throw NotFollowed("a loop of calls", s.line);
  for (int64_t turn = first; turn < limit; ++turn) {
    frame_[size_t(s.slot)].integer = turn;
    for (const Statement& inner : s.body) step(inner);
  }
}

void Walk::checked(const Expression& value, int line) {
  if (value.kind != Kind::call || !is_collective(value.name)) throw NotFollowed("a condition", line);
  ++statements;
  collective(value);
}

void Walk::declare(const Statement& s) {
  if (s.elements > 0) {
    for (const Expression& e : s.list) arrays_[s.slot].push_back(constant(e));
    return;
  }
  if (!s.has_value) throw NotFollowed("a variable without a value", s.line);
  if (s.value.kind == Kind::member && s.value.name == "arena") return;  // the arena begins at byte 0
  if (s.type == Type::integer) {
    frame_[size_t(s.slot)].integer = constant(s.value);
    return;
  }
  frame_[size_t(s.slot)].pointer = pointer(s.value);
}

int64_t Walk::constant(const Expression& e) const {
  switch (e.kind) {
    case Kind::integer:
      return e.integer_value;
    case Kind::negative:
      return -constant(e.args[0]);
    case Kind::variable:
      if (e.type == Type::integer) return frame_[size_t(e.slot)].integer;
      break;
    case Kind::member:
      if (e.name == "step") return Sample::step;
      if (e.name == "seed") return int64_t(Sample::run_seed);
      break;
    case Kind::add:
      return constant(e.args[0]) + constant(e.args[1]);
    case Kind::sub:
      return constant(e.args[0]) - constant(e.args[1]);
    case Kind::mul:
      return constant(e.args[0]) * constant(e.args[1]);
    default:
      break;
  }
  throw NotFollowed("a number that is not constant", e.line);
}

Pointer Walk::pointer(const Expression& e) const {
  if (e.kind == Kind::variable && e.type != Type::integer && e.type != Type::real)
    return frame_[size_t(e.slot)].pointer;
  if (e.kind == Kind::add) {
    Pointer out = pointer(e.args[0]);
    out.at += constant(e.args[1]) * stride_of(e.args[0].type);
    return out;
  }
  throw NotFollowed("a pointer that does not come from the arena", e.line);
}

void Walk::call(const Statement& s) {
  const Expression& e = s.value;
  if (is_collective(e.name)) throw Differs(fmt::format("the result of {} is not looked at", e.name), s.line);
  auto found = unit_.functions.find(e.name);
  if (found == unit_.functions.end() || !found->second.defined || helper(e.name).builtin != Builtin::none ||
      e.name == "fill" || e.name == "copy")
    throw NotFollowed(fmt::format("a call of {}", e.name), s.line);
  const Function& kernel = found->second;
  if (kernel.parameters.size() != e.args.size()) throw NotFollowed("a call with other arguments", s.line);
  Frame frame(kernel.slots.size());
  std::vector<std::string> names = kernel.slots;
  for (size_t i = 0; i < e.args.size(); ++i) {
    Type type = kernel.parameters[i].type;
    if (type == Type::integer)
      frame[i].integer = constant(e.args[i]);
    else if (is_pointer(type) && type != Type::bytes)
      frame[i].pointer = pointer(e.args[i]);
    else
      throw NotFollowed("an argument of another type", s.line);
    if (e.args[i].kind == Kind::variable) names[i] = function_->slots[size_t(e.args[i].slot)];
  }
  ++statements;
  region(kernel, kernel.body, std::move(frame), names);
}

/// What a piece of code leaves in memory: each block it writes must be a value of the program.
void Walk::region(const Function& function, const Statement& body, Frame frame, const std::vector<std::string>& names) {
  Region region(function, body, std::move(frame), unit_, memory_);
  region.limit = options_.work_per_kernel;
  meaning_.work = 0;
  meaning_.limit = options_.work_per_kernel;
  std::vector<Guess> guesses;
  for (const Written& block : region.written()) {
    inside_arena(block.begin, block.end, block.dtype, block.line);
    const std::string& name = names[size_t(block.pointer)];
    try {
      guesses.push_back(recognise(region, block, name));
    } catch (const TooLong&) {
      throw TooLong("what is written through " + name, block.line);
    }
  }
  for (size_t b = 0; b < guesses.size(); ++b) {
    const Written& block = region.written()[b];
    memory_.put({guesses[b].value, block.begin, block.end, guesses[b].strides});
    int maker = meaning_.maker(guesses[b].value);
    if (maker >= 0) done_[size_t(maker)] = true;
  }
}

// ---- the end ----

void Walk::finish() {
  for (; next_collective_ < program_.instructions.size(); ++next_collective_) {
    const Instruction& i = program_.instructions[next_collective_];
    if (exchanges(i)) missing(i);
  }
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

void Walk::result_lies_there(const ArenaSlot& slot, ValueId value, const std::string& what) {
  if (meaning_.count(value) == 0 || memory_.lies_at(value, slot.offset_bytes)) return;
  expect_contents(value, slot.offset_bytes, what + " at the end of the step", 0);
}

}  // namespace hetsynth::source
