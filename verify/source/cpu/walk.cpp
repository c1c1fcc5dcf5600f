#include "verify/source/cpu/walk.h"

#include <fmt/format.h>

#include <algorithm>

#include "verify/source/execute/loop_region.h"
#include "verify/source/text/library.h"

namespace hetsynth::source {
namespace {

/// Of a loop that is followed turn by turn.
constexpr int64_t most_turns = 100'000;

bool calls_anything(const Statement& s) {
  if (s.kind == Statement::Kind::call) return true;
  if (s.kind == Statement::Kind::branch && s.value.kind == Kind::call) return true;
  return std::any_of(s.body.begin(), s.body.end(), calls_anything);
}

}  // namespace

void Walk::run() {
  begin();
  follow(*function_);
  finish();
}

void Walk::loop(const Statement& s) {
  if (calls_anything(s)) return turns(s);
  ++statements;
  understand(std::make_shared<LoopRegion>(*function_, s, frame_, unit_, memory_), function_->slots);
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
    std::vector<int64_t>& values = arrays_[s.slot];  // declared anew in every turn of a loop
    values.clear();
    for (const Expression& e : s.list) values.push_back(constant(e));
    return;
  }
  if (!s.has_value) throw NotFollowed("a variable without a value", s.line);
  if (s.value.kind == Kind::member && s.value.name == "arena") return;  // the arena begins at byte 0
  if (s.type == Type::integer) {
    frame_[size_t(s.slot)] = number(s.value);
    return;
  }
  frame_[size_t(s.slot)].pointer = pointer(s.value);
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
      frame[i] = number(e.args[i]);
    else if (is_pointer(type) && type != Type::bytes)
      frame[i].pointer = pointer(e.args[i]), frame[i].pointer.through = int(i);
    else
      throw NotFollowed("an argument of another type", s.line);
    if (e.args[i].kind == Kind::variable) names[i] = function_->slots[size_t(e.args[i].slot)];
  }
  ++statements;
  understand(std::make_shared<LoopRegion>(kernel, kernel.body, std::move(frame), unit_, memory_), names);
}

}  // namespace hetsynth::source
