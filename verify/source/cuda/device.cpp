#include "verify/source/cuda/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "verify/source/cuda/kernels.h"
#include "verify/source/execute/loop_region.h"
#include "verify/source/text/attention_call.h"

namespace hetsynth::source {
namespace {

/// Of the device, and what it is spelled out as (library.h).
struct ProductCall {
  const char *name, *spelled;
  DType operands;          ///< of calls that do not say it
  size_t arguments, a, w;  ///< with the context
};
constexpr ProductCall product_calls[] = {{"hetsynth_device_matmul", "hetsynth_matmul", DType::f32, 18, 5, 9},
                                         {"hetsynth_device_matmul_bf16", "hetsynth_matmul_bf16", DType::bf16, 18, 5, 9},
                                         {"hetsynth_device_matmul_fp16", "hetsynth_matmul_fp16", DType::fp16, 18, 5, 9},
                                         {"hetsynth_device_matmul_then", "hetsynth_matmul_then", DType::f32, 16, 5, 8}};

const ProductCall* product_call(const Statement& s) {
  if (s.kind != Statement::Kind::branch || s.value.kind != Kind::call) return nullptr;
  for (const ProductCall& call : product_calls)
    if (s.value.name == call.name && s.value.args.size() == call.arguments) return &call;
  return nullptr;
}
bool is_product(const Statement& s) { return product_call(s) != nullptr; }

/// What a call says of its operands' type must be so: they are passed as pointers to anything.
void expect_type_of_operands(const ProductCall& call, const Expression& e) {
  const Expression& says = e.args[1];
  const bool then = call.arguments == 16;
  constexpr DType numbered[] = {DType::f32, DType::bf16, DType::fp16};
  if (then && (says.kind != Kind::integer || says.integer_value < 0 || says.integer_value > 2))
    throw NotFollowed("a type of a product's operands", e.line);
  const DType operands = then ? numbered[says.integer_value] : call.operands;
  for (size_t operand : {call.a, call.w})
    if (e.args[operand].type != pointer_to(operands))
      throw Differs(fmt::format("{} takes an operand of another type for {}", call.name,
                                is_half(operands) ? name(operands) : "float32"),
                    e.line);
}

bool is_attention(const Statement& s) {
  return s.kind == Statement::Kind::branch && s.value.kind == Kind::call &&
         (s.value.name == "hetsynth_device_attention" || s.value.name == "hetsynth_device_attention_gradient");
}

bool only_products(const Statement& s) {
  if (is_product(s)) return true;
  if (s.kind != Statement::Kind::loop && s.kind != Statement::Kind::block) return false;
  return std::all_of(s.body.begin(), s.body.end(), only_products);
}

/// The step ends where the call fails.
void expect_to_leave(const Statement& s) {
  const bool leaves = s.body.size() == 1 && s.body[0].kind == Statement::Kind::leave && s.body[0].has_value &&
                      s.body[0].value.kind == Kind::integer && s.body[0].value.integer_value != 0;
  if (!leaves) throw NotFollowed("a condition", s.line);
}

/// `calls`: by line, as they stand in the text without the context.
void name_attention(Statement& s, std::map<int, Expression>& calls) {
  using A = AttentionArguments;
  if (!is_attention(s)) {
    for (Statement& inner : s.body) name_attention(inner, calls);
    return;
  }
  expect_to_leave(s);
  s.kind = Statement::Kind::call;
  s.body.clear();
  s.value.name.erase(s.value.name.find("device_"), std::string_view("device_").size());
  std::vector<Expression>& x = s.value.args;
  x.erase(x.begin());
  const bool gradient = s.value.name == "hetsynth_attention_gradient";
  if (x.size() != (gradient ? size_t(A::its_count) : size_t(A::count)) || calls.count(s.line))
    throw NotFollowed("a call of attention", s.line);
  std::vector<size_t> halves = {A::q, A::k, A::v, A::o};
  if (gradient) halves.insert(halves.end(), {A::o_gradient, A::q_gradient, A::k_gradient, A::v_gradient});
  for (size_t argument : halves)
    if (x[argument].type != Type::bf16s)
      throw Differs(fmt::format("{} takes an operand of another type for bf16", s.value.name), s.line);
  if (x[A::statistics].type != Type::reals && !(x[A::statistics].kind == Kind::integer && !gradient))
    throw Differs(fmt::format("{} takes statistics of another type", s.value.name), s.line);
  calls[s.line] = s.value;
}

/// A product on the device computes what one of a cpu does (codegen/interface/abi.h), and is spelled out as it is.
void name_products(Statement& s) {
  if (s.kind == Statement::Kind::loop && !only_products(s))
    throw NotFollowed("a loop of anything else than products", s.line);
  if (is_product(s)) {
    expect_to_leave(s);
    const ProductCall& call = *product_call(s);
    expect_type_of_operands(call, s.value);
    s.kind = Statement::Kind::call;
    s.body.clear();
    s.value.name = call.spelled;
    s.value.args.erase(s.value.args.begin());
    return;
  }
  for (Statement& inner : s.body) name_products(inner);
}

}  // namespace

bool is_device_host(const Unit& unit) { return unit.functions.count("hetsynth_launch") > 0; }

void DeviceWalk::run() {
  if (options_.device_declarations.empty() || source_.text.find(options_.device_declarations) == std::string::npos)
    throw Differs("the declarations of what the host program calls are not the generator's", 0);
  if (unit_.functions.count("hetsynth_device_attention") &&
      source_.text.find(options_.attention_declarations) == std::string::npos)
    throw Differs("the declarations of attention are not the generator's", 0);
  for (const char* of_cpu :
       {"hetsynth_attention", "hetsynth_attention_gradient", "hetsynth_matmul", "hetsynth_matmul_bf16",
        "hetsynth_matmul_fp16", "hetsynth_matmul_then", "hetsynth_convolution", "fill", "copy"})
    if (unit_.functions.count(of_cpu)) throw NotFollowed(fmt::format("{} in the text of a GPU", of_cpu), 0);
  kernels_ = read_kernels(source_.kernels, options_.device_prelude, "the kernels of " + source_.file_name);
  for (auto& [name, kernel] : kernels_.functions)
    if (kernel.defined) spell_out(kernel);
  entry_of(unit_);
  name_attention(unit_.functions.at("hetsynth_step").body, attention_);
  name_products(unit_.functions.at("hetsynth_step").body);
  begin();
  follow(*function_);
  next_move();
  finish();
  if (clocks_[compute][communication] < issued_[communication].size())
    throw Differs(fmt::format("the step ends without having waited for {}", issued_[communication].back().what),
                  issued_[communication].back().line);
}

void DeviceWalk::loop(const Statement& s) {
  ++statements;
  if (const auto call = attention_.find(s.line); call != attention_.end()) return attention(s, call->second);
  follow_region(std::make_shared<LoopRegion>(*function_, s, frame_, unit_, memory_), function_->slots, {}, {}, compute,
                "a product", s.line);
}

/// What a forward call leaves in scratch memory is what its gradient reads; the workspace is nobody's.
void DeviceWalk::attention(const Statement& s, const Expression& e) {
  using A = AttentionArguments;
  const std::vector<Expression>& x = e.args;
  const bool gradient = e.name == "hetsynth_attention_gradient";
  const int64_t workspace = pointer(x[gradient ? size_t(A::its_workspace) : size_t(A::workspace)]).at;
  const int64_t end = workspace + constant(x[gradient ? size_t(A::its_bytes) : size_t(A::workspace_bytes)]);
  inside_arena(workspace, end, DType::f32, s.line);
  memory_.clear(workspace, end);
  Issued out{{{workspace, end, true}}, "attention", s.line};
  if (gradient)
    for (const Touched& left : left_by_forward(e, s.line)) out.accesses.push_back(left);
  std::set<int> scratch;
  for (size_t argument :
       {A::o, A::statistics, A::Place(A::q_gradient), A::Place(A::k_gradient), A::Place(A::v_gradient)})
    if (argument < x.size() && x[argument].kind == Kind::variable && (gradient || argument <= A::statistics))
      scratch.insert(x[argument].slot);
  const auto region = std::make_shared<LoopRegion>(*function_, s, frame_, unit_, memory_);
  follow_region(region, function_->slots, scratch, {}, compute, "attention", s.line);
  for (const Written& block : region->written())
    if (block.begin < end && workspace < block.end)
      throw Differs("the workspace of attention lies over its result", s.line);
  issue(compute, std::move(out));
  if (!gradient) forward_calls_.push_back({e, s.line});
}

/// The gradient takes result and statistics of a forward call with the same operands, sizes, strides, scale and mask.
std::vector<DeviceWalk::Touched> DeviceWalk::left_by_forward(const Expression& e, int line) const {
  using A = AttentionArguments;
  const auto table = [&](const Expression& call, size_t argument) {
    const auto found = arrays_.find(call.args[argument].slot);
    return found == arrays_.end() ? std::vector<int64_t>{} : found->second;
  };
  for (const auto& [forward, forward_line] : forward_calls_) {
    const std::vector<Expression>&x = e.args, &y = forward.args;
    if (y[A::statistics].kind == Kind::integer) continue;
    bool same = table(e, A::sizes) == table(forward, A::sizes) && x[A::scale].real_value == y[A::scale].real_value &&
                constant(x[A::causal]) == constant(y[A::causal]);
    const std::vector<int64_t> strides = table(e, A::strides), its = table(forward, A::strides);
    same = same && strides.size() >= its.size() && std::equal(its.begin(), its.end(), strides.begin());
    for (size_t argument : {A::q, A::k, A::v, A::o, A::statistics})
      same = same && pointer(x[argument]).at == pointer(y[argument]).at;
    if (!same) continue;
    std::vector<Touched> out;
    for (size_t argument : {A::o, A::statistics}) {
      const Resident* there = memory_.at(pointer(x[argument]).at);
      const bool left = there && there->unrecognised && there->unrecognised->line == forward_line;
      if (!left) break;
      out.push_back({there->begin, there->end, false});
    }
    if (out.size() == 2) return out;
  }
  throw Differs("the gradient of attention takes what no forward call with the same operands has left there", line);
}

void DeviceWalk::call(const Statement& s) {
  throw Differs(fmt::format("the result of {} is not looked at", s.value.name), s.line);
}

void DeviceWalk::declare(const Statement& s) {
  static const std::map<std::string, Over> communicators{{"hetsynth_nccl_communicator", Over::group},
                                                         {"hetsynth_nccl_host_communicator", Over::host},
                                                         {"hetsynth_nccl_leader_communicator", Over::leaders},
                                                         {"hetsynth_nccl_rising_communicator", Over::rising},
                                                         {"hetsynth_nccl_falling_communicator", Over::falling}};
  if (s.elements > 0) {
    std::vector<int64_t>& values = arrays_[s.slot];  // declared anew in every turn of a loop
    values.clear();
    for (const Expression& e : s.list) values.push_back(constant(e));
  } else if (!s.has_value) {
    throw NotFollowed("a variable without a value", s.line);
  } else if (s.value.kind == Kind::member && s.value.name == "arena") {
    frame_[size_t(s.slot)].pointer = {};  // it begins at byte 0
  } else if (const auto over = communicators.find(s.value.name);
             s.value.kind == Kind::call && over != communicators.end() && s.value.args.size() == 2) {
    communicators_[s.slot] = {int(constant(s.value.args[1])), over->second};
  } else if (s.type == Type::integer) {
    frame_[size_t(s.slot)].integer = constant(s.value);
  } else if (is_pointer(s.type)) {
    frame_[size_t(s.slot)].pointer = pointer(s.value);
  } else {
    throw NotFollowed("a pointer to something else than numbers", s.line);
  }
}

/// A number, or an address in the arena in bytes.
int64_t DeviceWalk::integer(const Expression& e) const { return is_pointer(e.type) ? pointer(e).at : constant(e); }

DeviceWalk::Stream DeviceWalk::stream(const Expression& e) const {
  int64_t number = constant(e);
  if (number < 0 || number >= int64_t(streams)) throw Differs(fmt::format("there is no stream {}", number), e.line);
  return Stream(number);
}

void DeviceWalk::checked(const Expression& e, int line) {
  if (e.kind == Kind::or_) {
    checked(e.args[0], line);
    return checked(e.args[1], line);
  }
  if (e.kind != Kind::call) throw NotFollowed("a condition", e.line);
  ++statements;
  const std::vector<Expression>& x = e.args;
  if (e.name == "launch" && x.size() >= 5)
    launch(e);
  else if ((e.name == "hetsynth_record" || e.name == "hetsynth_wait") && x.size() == 3)
    order(e);
  else if (e.name == "hetsynth_device_copy" && x.size() == 5)
    copy(e);
  else if (is_collective(e.name))
    through_host(e);
  else if (e.name.rfind("nccl", 0) == 0)
    nccl(e);
  else
    throw NotFollowed("a call of " + e.name, e.line);
}

// ---- what is issued ----

/// By the table that the runtime loads kernels by.
const Function& DeviceWalk::launched(const Expression& number) const {
  auto names = unit_.texts.find("hetsynth_kernels");
  const int64_t at = constant(number);
  auto counted = unit_.tables.find("hetsynth_kernel_count");
  const bool known = names != unit_.texts.end() && counted != unit_.tables.end();
  if (!known || at < 0 || at >= std::min(counted->second.front(), int64_t(names->second.size())))
    throw Differs(fmt::format("there is no kernel {}", at), number.line);
  const std::string& name = names->second[size_t(at)];
  auto kernel = kernels_.functions.find(name);
  if (kernel == kernels_.functions.end() || !kernel->second.kernel || !kernel->second.defined)
    throw Differs(fmt::format("there is no kernel {}", name), number.line);
  return kernel->second;
}

void DeviceWalk::launch(const Expression& e) {
  const Function& kernel = launched(e.args[2]);
  Launch what{&kernel, constant(e.args[3]), constant(e.args[4]), {}};
  if (kernel.parameters.size() != e.args.size() - 5)
    throw Differs(fmt::format("the kernel {} is launched with {} arguments, but has {} parameters", kernel.name,
                              e.args.size() - 5, kernel.parameters.size()),
                  e.line);
  std::vector<std::string> names = kernel.slots;
  std::set<int> scratch;
  std::vector<int64_t> places;
  for (size_t i = 0; i < kernel.parameters.size(); ++i) {
    const Expression& argument = e.args[i + 5];
    const bool clock = argument.kind == Kind::member && argument.name == "clock";
    if (clock == is_pointer(kernel.parameters[i].type) || kernel.parameters[i].type == Type::bytes ||
        (!clock && kernel.parameters[i].type == Type::integer))
      throw Differs(
          fmt::format("{} of the kernel {} is given something of another type", kernel.parameters[i].name, kernel.name),
          e.line);
    what.arguments.push_back(clock ? 0 : pointer(argument).at);
    if (clock) continue;
    if (!kernel.parameters[i].writable) places.push_back(what.arguments.back());
    if (argument.kind == Kind::variable)
      names[i] = function_->slots[size_t(argument.slot)];
    else
      scratch.insert(int(i));
  }
  const std::string description = "the kernel " + kernel.name;
  follow_region(std::make_shared<KernelRegion>(std::move(what), known_, memory_, options_.work_per_kernel), names,
                scratch, places, stream(e.args[1]), description, e.line);
}

void DeviceWalk::follow_region(const std::shared_ptr<Region>& region, const std::vector<std::string>& names,
                               const std::set<int>& scratch, const std::vector<int64_t>& arguments, Stream on,
                               const std::string& what, int line) {
  issue(on, {understood(region, names, arguments, scratch), what, line});
}

void DeviceWalk::copy(const Expression& e) {
  const int64_t to = integer(e.args[2]), from = integer(e.args[3]), bytes = constant(e.args[4]);
  const auto [value, strides] = copied(from, bytes, e.line);
  if (to < 0 || to % size_bytes(meaning_.dtype(value)) != 0 || to + bytes > source_.arena_bytes)
    throw Differs(fmt::format("bytes {} to {} are no place for a copy", to, to + bytes), e.line);
  if (to < from + bytes && from < to + bytes) throw Differs("source and destination of a copy overlap", e.line);
  issue(stream(e.args[1]), {{{from, from + bytes, false}, {to, to + bytes, true}}, "a copy", e.line});
  memory_.put({value, to, to + bytes, strides});
}

/// What is copied, and its strides: a value that lies there, or the operand of the next collective, which may be a part
/// of one.
std::pair<ValueId, std::vector<int64_t>> DeviceWalk::copied(int64_t from, int64_t bytes, int line) {
  const Resident* there = memory_.at(from);
  const bool begins = there && there->begin == from;
  if (begins && !there->unrecognised && !there->position && there->end - there->begin == bytes)
    return {there->value, there->strides};
  const std::string error =
      begins ? fmt::format("{} bytes are copied of {}, which has {}", bytes, part_text(there->value),
                           there->end - there->begin)
             : fmt::format("bytes {} to {} are copied, but no value of the program begins there", from, from + bytes);
  for (size_t n = next_collective_; n < program_.instructions.size(); ++n) {
    const Instruction& i = program_.instructions[n];
    if (!exchanges(i)) continue;
    const ValueId operand = i.operands[0];
    if (on_rank(operand) && bytes > 0 && meaning_.bytes(operand) == bytes) {
      expect_contents(operand, from, "the operand of the " + description(i), line);
      const std::vector<Range>& part = meaning_.ranges(operand);
      return {operand, dense_strides(part, row_major(part.size()))};
    }
    if (!is_quiet(i)) break;
  }
  throw Differs(error, line);
}

/// hetsynth_record and hetsynth_wait.
void DeviceWalk::order(const Expression& e) {
  const Stream on = stream(e.args[2]);
  const int64_t number = constant(e.args[1]);
  auto events = unit_.tables.find("hetsynth_event_count");
  if (events == unit_.tables.end() || number < 0 || number >= events->second.front())
    throw Differs(fmt::format("there is no event {}", number), e.line);
  if (e.name == "hetsynth_record") {
    Clock clock = clocks_[on];
    clock[on] = issued_[on].size();
    events_[number] = clock;
    return;
  }
  auto event = events_.find(number);
  if (event == events_.end())
    throw Differs(fmt::format("event {} is waited for before it is recorded", number), e.line);
  for (size_t s = 0; s < streams; ++s) clocks_[on][s] = std::max(clocks_[on][s], event->second[s]);
}

/// The group holds cpu devices: the runtime waits for the communication stream, and copies.
void DeviceWalk::through_host(const Expression& e) {
  const Instruction* i = next_exchange();
  Issued out{{}, i ? "the " + description(*i) : e.name, e.line};
  auto add = [&](size_t argument, int64_t bytes, bool writes) {
    if (argument >= e.args.size() || !is_pointer(e.args[argument].type) || bytes == 0) return;
    const int64_t at = pointer(e.args[argument]).at;
    out.accesses.push_back({at, at + bytes, writes});
  };
  if (i && i->opcode == Opcode::send) {
    const bool sends = program_.mesh.coordinate(source_.rank, i->axis) == i->root;
    add(3, meaning_.bytes(sends ? i->operands[0] : i->result), !sends);
  } else if (i) {
    if (on_rank(i->operands[0])) add(3, meaning_.bytes(i->operands[0]), false);
    add(4, meaning_.bytes(i->result), true);
  }
  collective(e);
  issue(communication, std::move(out));
}

/// What was issued to other streams and is not surely done must not touch the same bytes, unless both only read.
void DeviceWalk::issue(Stream stream, Issued issued) {
  for (size_t other = 0; other < streams; ++other) {
    if (other == size_t(stream)) continue;
    for (size_t n = clocks_[stream][other]; n < issued_[other].size(); ++n) {
      const Issued& theirs = issued_[other][n];
      if (const std::optional<Conflict> found = conflict(issued.accesses, theirs.accesses))
        throw Differs(fmt::format("{} {} bytes {} to {} while {} (line {}) may still {} them: no event orders them",
                                  issued.what, found->ours_writes ? "writes" : "reads", found->begin, found->end,
                                  theirs.what, theirs.line, found->theirs_writes ? "write" : "read"),
                      issued.line);
    }
  }
  issued_[stream].push_back(std::move(issued));
}

}  // namespace hetsynth::source
