#include "verify/source/step/step_walk.h"

#include <fmt/format.h>

namespace hetsynth::source {

const Function& StepWalk::entry_of(const Unit& unit) {
  auto entry = unit.functions.find("hetsynth_step");
  if (entry == unit.functions.end() || !entry->second.defined) throw Differs("there is no function hetsynth_step", 0);
  return entry->second;
}

void StepWalk::follow(const Function& function) {
  for (const Statement& s : function.body.body) step(s);
  if (!left_) throw Differs("the step does not end with return 0", 0);
}

void StepWalk::step(const Statement& s) {
  if (left_) throw Differs("the step goes on after it has returned", s.line);
  switch (s.kind) {
    case Statement::Kind::block:
      for (const Statement& inner : s.body) step(inner);
      return;
    case Statement::Kind::declare:
      return declare(s);
    case Statement::Kind::loop:
      return loop(s);
    case Statement::Kind::call:
      return call(s);
    case Statement::Kind::branch: {
      const Statement& then = s.body[0];
      bool leaves = s.body.size() == 1 && then.kind == Statement::Kind::leave && then.has_value &&
                    then.value.kind == Kind::integer && then.value.integer_value != 0;
      if (!leaves) throw NotFollowed("a condition", s.line);
      return checked(s.value, s.line);
    }
    case Statement::Kind::leave:
      if (!s.has_value || s.value.kind != Kind::integer || s.value.integer_value != 0)
        throw Differs("the step returns something else than 0", s.line);
      left_ = true;
      return;
    case Statement::Kind::assign:
      throw NotFollowed("an assignment in the step", s.line);
    case Statement::Kind::stop:
      throw NotFollowed("a break", s.line);
    case Statement::Kind::other:
      throw NotFollowed(s.value.name, s.line);
  }
}

void StepWalk::missing(const Instruction& i) const {
  throw Differs(fmt::format("the {} of {} is missing", name(i.opcode), node_of(i.result).name), 0,
                program_.values[size_t(i.result)].node);
}

}  // namespace hetsynth::source
