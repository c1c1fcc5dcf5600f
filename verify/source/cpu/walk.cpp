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

/// Whether it is the runtime's note of the time, which neither reads nor writes what a step computes: the function of
/// the runtime, called with the context and two numbers.
bool is_mark(const Expression& call, const Function& function) {
  const auto is_plain = [](const Expression& e) { return e.kind == Kind::integer || e.kind == Kind::variable; };
  return call.name == "hetsynth_mark" && !function.defined && call.args.size() == 3 &&
         call.args[0].kind == Kind::variable && std::all_of(call.args.begin(), call.args.end(), is_plain);
}

}  // namespace

void Walk::run() {
  begin();
  follow(*function_);
  if (!under_way_.empty())
    throw Differs(fmt::format("collective {} is begun, but not waited for", under_way_.front().number),
                  under_way_.front().line);
  finish();
}

void Walk::loop(const Statement& s) {
  if (calls_anything(s)) return turns(s);
  ++statements;
  auto found = loops_.find(&s);  // it may be met in every turn of a loop around it
  if (found == loops_.end())
    found = loops_.emplace(&s, function_of(s, *function_, fmt::format("loop {} of {}", loops_.size(), function_->name)))
                .first;
  const FunctionOf& own = found->second;
  Frame frame(own.function.slots.size());
  for (size_t i = 0; i < own.arguments.size(); ++i) {
    frame[i] = frame_[size_t(own.arguments[i])];
    frame[i].pointer.through = int(i);
  }
  follow_region(std::make_shared<LoopRegion>(own.function, own.function.body, std::move(frame), unit_, memory_),
                own.function.slots, {}, s.line);
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
  if (value.kind != Kind::call) throw NotFollowed("a condition", line);
  ++statements;
  if (value.name == "hetsynth_begin") return begin_collectives(value);
  if (value.name == "hetsynth_end") return end_collectives(value);
  if (!is_collective(value.name)) throw NotFollowed("a condition", line);
  called(value);
}

/// Returns how many members of the next collective's bucket this rank calls.
size_t Walk::members_of_next_bucket() const {
  const int bucket = bucket_of_[next_collective_];
  size_t count = 1;
  for (size_t i = next_collective_ + 1; bucket >= 0 && i < bucket_of_.size() && bucket_of_[i] == bucket; ++i)
    count += exchanges(program_.instructions[i]);
  return count;
}

void Walk::expect_all_called(int line) const {
  if (!under_way_.empty() && under_way_.back().to_come > 0)
    throw Differs(fmt::format("{} of the collectives that began with {} are not called", under_way_.back().to_come,
                              under_way_.back().number),
                  line);
}

void Walk::begin_collectives(const Expression& call) {
  expect_all_called(call.line);
  if (call.args.size() != 3) throw NotFollowed("a call with other arguments", call.line);
  const Instruction* next = next_exchange();
  if (!next) throw Differs("collectives are begun, but the program has no further one", call.line);
  const NodeId node = program_.values[size_t(next->result)].node;
  expect_number(call.args[1], numbers_.empty() ? int64_t(next_collective_) : numbers_[next_collective_],
                "the number of the collective that is begun", node);
  const size_t members = members_of_next_bucket();
  expect_number(call.args[2], int64_t(members), "the number of collectives that are begun", node);
  under_way_.push_back({constant(call.args[1]), members, {}, call.line});
}

void Walk::end_collectives(const Expression& call) {
  expect_all_called(call.line);
  if (call.args.size() != 2) throw NotFollowed("a call with other arguments", call.line);
  const auto found = std::ranges::find(under_way_, constant(call.args[1]), &UnderWay::number);
  if (found == under_way_.end())
    throw Differs(fmt::format("collective {} is waited for, but is not under way", constant(call.args[1])), call.line);
  under_way_.erase(found);
}

/// A collective, in its place or as a member of those that were begun last.
void Walk::called(const Expression& call) {
  const bool member = !under_way_.empty() && under_way_.back().to_come > 0;
  const Instruction* next = next_exchange();
  if (next && !member && members_of_next_bucket() > 1)
    throw Differs(fmt::format("{} is called alone, but the program has it with others in a bucket", call.name),
                  call.line, program_.values[size_t(next->result)].node);
  collective(call);
  const std::vector<Touched> accesses = accesses_of(call, *next);
  expect_free(accesses, call.name, call.line);
  if (!member) return;
  UnderWay& own = under_way_.back();
  own.accesses.insert(own.accesses.end(), accesses.begin(), accesses.end());
  --own.to_come;
}

std::vector<Walk::Touched> Walk::accesses_of(const Expression& call, const Instruction& i) const {
  const auto bytes = [&](size_t argument, ValueId value, bool writes) {
    const int64_t at = pointer(call.args[argument]).at;
    return Touched{at, at + meaning_.bytes(value), writes};
  };
  const bool sends = i.opcode == Opcode::send;
  if (sends && program_.mesh.coordinate(source_.rank, i.axis) == i.root) return {bytes(3, i.operands[0], false)};
  if (sends) return {bytes(3, i.result, true)};
  std::vector<Touched> out{bytes(4, i.result, true)};
  if (on_rank(i.operands[0])) out.push_back(bytes(3, i.operands[0], false));
  return out;
}

void Walk::follow_region(const std::shared_ptr<Region>& region, const std::vector<std::string>& names,
                         const std::vector<int64_t>& points_to, int line) {
  expect_all_called(line);
  expect_free(understood(region, names, points_to), region->function_name(), line);
}

void Walk::expect_free(const std::vector<Touched>& accesses, const std::string& what, int line) const {
  for (const UnderWay& running : under_way_)
    if (const std::optional<Conflict> found = conflict(accesses, running.accesses))
      throw Differs(fmt::format("{} {} bytes {} to {}, which collective {} (line {}), not waited for yet, may still {}",
                                what, found->ours_writes ? "writes" : "reads", found->begin, found->end, running.number,
                                running.line, found->theirs_writes ? "write" : "read"),
                    line);
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
  if (found != unit_.functions.end() && is_mark(e, found->second)) return;
  if (found == unit_.functions.end() || !found->second.defined || helper(e.name).builtin != Builtin::none ||
      e.name == "fill" || e.name == "copy")
    throw NotFollowed(fmt::format("a call of {}", e.name), s.line);
  const Function& kernel = found->second;
  if (kernel.parameters.size() != e.args.size()) throw NotFollowed("a call with other arguments", s.line);
  Frame frame(kernel.slots.size());
  std::vector<std::string> names = kernel.slots;
  std::vector<int64_t> points_to;
  for (size_t i = 0; i < e.args.size(); ++i) {
    Type type = kernel.parameters[i].type;
    if (type == Type::integer)
      frame[i] = number(e.args[i]);
    else if (is_pointer(type) && type != Type::bytes)
      frame[i].pointer = pointer(e.args[i]), frame[i].pointer.through = int(i);
    else
      throw NotFollowed("an argument of another type", s.line);
    if (is_pointer(type) && !kernel.parameters[i].writable) points_to.push_back(frame[i].pointer.at);
    if (e.args[i].kind == Kind::variable) names[i] = function_->slots[size_t(e.args[i].slot)];
  }
  ++statements;
  follow_region(std::make_shared<LoopRegion>(kernel, kernel.body, std::move(frame), unit_, memory_), names, points_to,
                s.line);
}

}  // namespace hetsynth::source
