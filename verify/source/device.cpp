#include "verify/source/device.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace hetsynth::source {
namespace {

constexpr int64_t element_bytes = 4;

/// Whether each parameter of a kernel is one that it writes through, as its declaration says; empty: there is no such
/// kernel in the text.
std::vector<bool> writable_parameters(const std::string& kernels, const std::string& kernel) {
  std::vector<bool> out;
  size_t at = kernels.find(" " + kernel + "(");
  if (at == std::string::npos) return out;
  size_t begin = at + kernel.size() + 2, end = kernels.find(')', begin);
  while (begin < end) {
    size_t comma = std::min(kernels.find(',', begin), end);
    std::string parameter = kernels.substr(begin, comma - begin);
    parameter.erase(0, parameter.find_first_not_of(" \n"));
    out.push_back(parameter.rfind("const ", 0) != 0 && parameter.find('*') != std::string::npos);
    begin = comma + 1;
  }
  return out;
}

/// The numbers of NCCL's enumerations, as in nccl.h.
int64_t nccl_type(DType dtype) { return dtype == DType::i32 ? 2 : dtype == DType::bf16 ? 9 : 7; }
int64_t nccl_reduction(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return 0;
    case ReduceOp::product:
      return 1;
    case ReduceOp::max:
      return 2;
    case ReduceOp::min:
      return 3;
    case ReduceOp::average:
      return 4;
  }
  return -1;
}

struct Form {
  const char* name;
  size_t arguments;
  bool from, to;  ///< addresses come first, in this order
  bool reduction, peer;
};
constexpr Form forms[] = {
    {"ncclAllGather", 6, true, true, false, false},    {"ncclAllReduce", 7, true, true, true, false},
    {"ncclReduceScatter", 7, true, true, true, false}, {"ncclBroadcast", 7, true, true, false, true},
    {"ncclReduce", 8, true, true, true, true},         {"ncclSend", 6, true, false, false, true},
    {"ncclRecv", 6, false, true, false, true},
};
const Form* form_of(const std::string& name) {
  for (const Form& form : forms)
    if (name == form.name) return &form;
  return nullptr;
}

/// What a call says besides where its data lie: count, type, reduction, peer.
enum Number { from_at, to_at, count, type, reduction, peer, numbers };

}  // namespace

bool is_device_host(const Unit& unit) { return unit.functions.count("hetsynth_launch") > 0; }

DeviceWalk::DeviceWalk(const Program& reference, const BucketedProgram& program, const RankSource& source,
                       const Unit& unit)
    : StepWalk(reference, program.program, source), bucket_of_(program.bucket_of), unit_(unit) {}

void DeviceWalk::run() {
  const Function& entry = entry_of(unit_);
  if (!unit_.surprises.empty()) throw NotFollowed(unit_.surprises.front(), 0);
  follow(entry);
  finish();
}

void DeviceWalk::loop(const Statement& s) {
  // A product in pieces: all of them lie between the first and the last.
  if (integer(s.value) != 0 || s.step != 1) throw NotFollowed("a loop that does not count from 0", s.line);
  integers_[s.slot] = 0;
  last_[s.slot] = integer(s.limit) - 1;
  for (const Statement& inner : s.body) step(inner);
  last_.erase(s.slot);
}

void DeviceWalk::call(const Statement& s) {
  throw Differs(fmt::format("the result of {} is not looked at", s.value.name), s.line);
}

void DeviceWalk::declare(const Statement& s) {
  if (!s.has_value) throw NotFollowed("a variable without a value", s.line);
  if (s.value.kind == Kind::member) {  // the arena, which begins at 0; step and seed, which only kernels get
    integers_[s.slot] = 0;
  } else if (s.value.kind == Kind::call && s.value.name == "hetsynth_nccl_communicator" && s.value.args.size() == 2) {
    communicators_[s.slot] = int(integer(s.value.args[1]));
  } else if (s.type == Type::other) {
    throw NotFollowed("a pointer to something else than float and int", s.line);
  } else {
    integers_[s.slot] = integer(s.value);
  }
}

/// A number, or an address in the arena in bytes. Counters of loops are 0 here: addresses are where pieces begin.
int64_t DeviceWalk::integer(const Expression& e, const std::map<int, int64_t>& counters) const {
  switch (e.kind) {
    case Kind::integer:
      return e.integer_value;
    case Kind::negative:
      return -integer(e.args[0], counters);
    case Kind::variable:
      if (auto found = counters.find(e.slot); found != counters.end()) return found->second;
      if (auto found = integers_.find(e.slot); found != integers_.end()) return found->second;
      break;
    case Kind::add: {
      for (size_t p : {size_t(0), size_t(1)})
        if (is_pointer(e.args[p].type))
          return integer(e.args[p], counters) + integer(e.args[1 - p], counters) * stride_of(e.args[p].type);
      return integer(e.args[0], counters) + integer(e.args[1], counters);
    }
    case Kind::mul:
      return integer(e.args[0], counters) * integer(e.args[1], counters);
    case Kind::sub:
      return integer(e.args[0], counters) - integer(e.args[1], counters);
    default:
      break;
  }
  throw NotFollowed("a number that is not constant", e.line);
}

DeviceWalk::Stream DeviceWalk::stream(const Expression& e) const {
  int64_t number = integer(e);
  if (number != compute && number != communication) throw Differs(fmt::format("there is no stream {}", number), e.line);
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
  if (e.name == "launch" && x.size() >= 5) return launch(e);
  if (e.name == "hetsynth_device_matmul" && x.size() == 18) return product(e);
  if (e.name == "hetsynth_record" && x.size() == 3) {
    Stream s = stream(x[2]);
    Clock clock = clocks_[s];
    clock[s] = issued_[s].size();
    events_[integer(x[1])] = clock;
  } else if (e.name == "hetsynth_wait" && x.size() == 3) {
    auto event = events_.find(integer(x[1]));
    if (event == events_.end())
      throw Differs(fmt::format("event {} is waited for before it is recorded", integer(x[1])), e.line);
    Clock& clock = clocks_[stream(x[2])];
    for (int s : {compute, communication}) clock[size_t(s)] = std::max(clock[size_t(s)], event->second[size_t(s)]);
  } else if (e.name == "hetsynth_device_copy" && x.size() == 5) {
    int64_t to = integer(x[2]), from = integer(x[3]), bytes = integer(x[4]);
    issue(stream(x[1]), {{{from, from + bytes, false}, {to, to + bytes, true}}, "a copy", e.line});
  } else if (e.name == "ncclGroupStart" && x.empty() && !grouped_) {
    grouped_ = true;
  } else if (e.name == "ncclGroupEnd" && x.empty() && grouped_) {
    grouped_ = false;
    end_group(e.line);
  } else if (form_of(e.name)) {
    nccl(e);
    if (!grouped_) end_group(e.line);
  } else {
    throw NotFollowed("a call of " + e.name, e.line);
  }
}

void DeviceWalk::launch(const Expression& e) {
  const Expression& kernel = e.args[2];
  std::string name = kernel.name.rfind("kernel_", 0) == 0 ? kernel.name.substr(7) : "";
  if (kernel.kind != Kind::integer || name.empty()) throw NotFollowed("a launch of something without a name", e.line);
  std::vector<bool> writable = writable_parameters(source_.kernels, name);
  if (writable.size() != e.args.size() - 5)
    throw Differs(fmt::format("the kernel {} is launched with {} arguments, but has {} parameters", name,
                              e.args.size() - 5, writable.size()),
                  e.line);
  Issued out{{}, "kernel " + name, e.line};
  for (size_t i = 5; i < e.args.size(); ++i) {
    if (!is_pointer(e.args[i].type)) continue;
    int64_t at = integer(e.args[i]);
    out.accesses.push_back({at, at + element_bytes, writable[i - 5]});
  }
  issue(stream(e.args[1]), std::move(out));
}

void DeviceWalk::product(const Expression& e) {
  const std::vector<Expression>& x = e.args;
  Issued out{{}, "a product", e.line};
  for (size_t operand : {size_t(5), size_t(9), size_t(13)}) {
    static constexpr size_t extents[3][3] = {{1, 2, 4}, {1, 4, 3}, {1, 2, 3}};
    int64_t begin = integer(x[operand]), last = begin;
    for (size_t d = 0; d < 3; ++d)
      last += (integer(x[extents[(operand - 5) / 4][d]]) - 1) * integer(x[operand + 1 + d]) * element_bytes;
    last += integer(x[operand], last_) - begin;  // the last piece of a product in pieces
    out.accesses.push_back({begin, last + element_bytes, operand == 13});
  }
  issue(compute, std::move(out));
}

void DeviceWalk::nccl(const Expression& e) {
  const Form& form = *form_of(e.name);
  const std::vector<Expression>& x = e.args;
  if (x.size() != form.arguments) throw Differs(e.name + " is called with other arguments", e.line);
  Call call{e.name, std::vector<int64_t>(numbers, -1), -1, e.line};
  size_t next = 0;
  if (form.from) call.numbers[from_at] = integer(x[next++]);
  if (form.to) call.numbers[to_at] = integer(x[next++]);
  call.numbers[count] = integer(x[next++]);
  call.numbers[type] = integer(x[next++]);
  if (form.reduction) call.numbers[reduction] = integer(x[next++]);
  if (form.peer) call.numbers[peer] = integer(x[next++]);
  const Expression& ranks = x[next];
  if (ranks.kind != Kind::variable || !communicators_.count(ranks.slot))
    throw Differs("a call of NCCL over no communicator of the program", e.line);
  call.axis = communicators_.at(ranks.slot);
  if (x[next + 1].kind != Kind::member || x[next + 1].name != "communication_stream")
    throw Differs("a call of NCCL that is not on the communication stream", e.line);
  group_.push_back(std::move(call));
}

void DeviceWalk::end_group(int line) {
  auto& i = next_collective_;
  auto moves = [&](const Instruction& instruction) {
    // On axes where nothing lies in this part nothing is called.
    return exchanges(instruction) && elements(instruction.operands[0]) + elements(instruction.result) > 0;
  };
  while (i < program_.instructions.size() && !moves(program_.instructions[i])) ++i;
  if (i == program_.instructions.size())
    throw Differs("NCCL is called, but the program has no further collective", line);
  std::vector<Instruction> members;
  const int bucket = bucket_of_[i];
  do {
    if (moves(program_.instructions[i])) members.push_back(program_.instructions[i]);
    ++i;
  } while (bucket >= 0 && i < program_.instructions.size() && bucket_of_[i] == bucket);
  Issued out{{}, "the " + what_is(members.front()), group_.empty() ? line : group_.front().line};
  auto next = group_.begin();
  for (size_t m = 0; m < members.size(); ++m) {
    const std::vector<Call> rest(next, group_.end()), wanted = wanted_calls(members[m], rest);
    // What is too much counts as the last one's.
    const size_t taken = m + 1 == members.size() ? rest.size() : std::min(rest.size(), wanted.size());
    collective(members[m], {next, next + long(taken)}, wanted, out);
    next += long(taken);
  }
  issue(communication, std::move(out));
  collectives += int(members.size());
  group_.clear();
}

std::string DeviceWalk::what_is(const Instruction& i) const {
  return fmt::format("{} of {}", name(i.opcode), node_of(i.result).name);
}

/// One call per rank with a share, for its share: where it begins in the whole, and how many elements.
std::vector<DeviceWalk::Call> DeviceWalk::pieces(const Instruction& i, const std::vector<int64_t>& cut,
                                                 int64_t each) const {
  std::vector<Call> out;
  bool gathers = i.opcode == Opcode::all_gather;
  for (size_t p = 0; p + 1 < cut.size(); ++p) {
    if (cut[p + 1] == cut[p]) continue;
    Call call{gathers ? "ncclBroadcast" : "ncclReduce", std::vector<int64_t>(numbers, -1), i.axis, 0};
    call.numbers[gathers ? to_at : from_at] = cut[p] * each;
    call.numbers[count] = (cut[p + 1] - cut[p]) * each;
    call.numbers[peer] = int64_t(p);
    out.push_back(call);
  }
  return out;
}

/// All-to-all as sends and receives.
std::vector<DeviceWalk::Call> DeviceWalk::exchanged(const Instruction& i) const {
  const Shape& shape = node_of(i.result).type.shape;
  std::vector<Range> result = part_of(i.result);
  std::vector<int64_t> cut = bounds(i.table, shape[size_t(i.dim)]), to = bounds(i.to_table, shape[size_t(i.to_dim)]);
  size_t me = size_t(program_.mesh.coordinate(source_.rank, i.axis));
  int64_t others = 1;
  for (size_t d = 0; d < result.size(); ++d)
    if (int(d) != i.dim && int(d) != i.to_dim) others *= result[d].hi - result[d].lo;
  int64_t mine = (cut[me + 1] - cut[me]) * others, ours = (to[me + 1] - to[me]) * others;
  std::vector<Call> out;
  for (size_t p = 0; p + 1 < cut.size(); ++p)
    for (bool sends : {true, false}) {
      int64_t elements = sends ? mine * (to[p + 1] - to[p]) : ours * (cut[p + 1] - cut[p]);
      if (elements == 0) continue;
      Call call{sends ? "ncclSend" : "ncclRecv", std::vector<int64_t>(numbers, -1), i.axis, 0};
      call.numbers[sends ? from_at : to_at] = sends ? mine * to[p] : ours * cut[p];
      call.numbers[count] = elements;
      call.numbers[peer] = int64_t(p);
      out.push_back(call);
    }
  return out;
}

/// What a collective calls. `found`: what the text calls from there on, which tells whether uneven shares are padded.
std::vector<DeviceWalk::Call> DeviceWalk::wanted_calls(const Instruction& i, const std::vector<Call>& found) const {
  const Shape& shape = node_of(i.result).type.shape;
  std::vector<Range> from = part_of(i.operands[0]), to = part_of(i.result);
  auto one = [&](const char* name, int64_t elements) {
    Call call{name, std::vector<int64_t>(numbers, -1), i.axis, 0};
    call.numbers[count] = elements;
    return std::vector<Call>{call};
  };
  if (i.opcode == Opcode::all_reduce) return one("ncclAllReduce", part_elements(from));
  if (i.opcode == Opcode::all_to_all) return exchanged(i);
  if (i.opcode == Opcode::broadcast) {
    std::vector<Call> wanted = one("ncclBroadcast", part_elements(to));
    wanted[0].numbers[peer] = i.root;
    return wanted;
  }
  if (i.opcode == Opcode::send) {
    const bool sends = program_.mesh.coordinate(source_.rank, i.axis) == i.root;
    std::vector<Call> wanted = one(sends ? "ncclSend" : "ncclRecv", elements(sends ? i.operands[0] : i.result));
    wanted[0].numbers[peer] = sends ? i.to : i.root;
    return wanted;
  }
  const bool gathers = i.opcode == Opcode::all_gather;
  std::vector<int64_t> cut = bounds(i.table, shape[size_t(i.dim)]);
  const std::vector<Range>& whole = gathers ? to : from;
  int64_t each = part_elements(whole, 0, size_t(i.dim)) * part_elements(whole, size_t(i.dim) + 1, whole.size()),
          longest = 0;
  for (size_t p = 0; p + 1 < cut.size(); ++p) longest = std::max(longest, cut[p + 1] - cut[p]);
  // In equal shares, padded or by nature, or share by share.
  const char* together = gathers ? "ncclAllGather" : "ncclReduceScatter";
  const bool padded = !found.empty() && found[0].name == together;
  return padded ? one(together, longest * each) : pieces(i, cut, each);
}

void DeviceWalk::collective(const Instruction& i, const std::vector<Call>& calls, const std::vector<Call>& wanted,
                            Issued& out) const {
  expect_calls(i, calls, wanted, what_is(i));
  size_t ranks = size_t(program_.mesh.axes[size_t(i.axis)].size);
  int me = program_.mesh.coordinate(source_.rank, i.axis);
  for (const Call& call : calls) {
    int64_t bytes = call.numbers[count] * element_bytes;
    bool roots = call.name != "ncclBroadcast" && call.name != "ncclReduce";
    bool reads = call.numbers[from_at] >= 0 && (call.name != "ncclBroadcast" || call.numbers[peer] == me);
    bool writes = call.numbers[to_at] >= 0 && (roots || call.name == "ncclBroadcast" || call.numbers[peer] == me);
    int64_t from_bytes = call.name == "ncclReduceScatter" ? bytes * int64_t(ranks) : bytes;
    int64_t to_bytes = call.name == "ncclAllGather" ? bytes * int64_t(ranks) : bytes;
    if (reads) out.accesses.push_back({call.numbers[from_at], call.numbers[from_at] + from_bytes, false});
    if (writes) out.accesses.push_back({call.numbers[to_at], call.numbers[to_at] + to_bytes, true});
  }
}

/// The calls must be these, in this order; addresses as far as they depend on the piece.
void DeviceWalk::expect_calls(const Instruction& i, const std::vector<Call>& found, const std::vector<Call>& wanted,
                              const std::string& what) const {
  NodeId node = program_.values[size_t(i.result)].node;
  auto list = [](const std::vector<Call>& calls) {
    std::vector<std::string> names;
    for (const Call& call : calls) names.push_back(call.name);
    return fmt::format("{}", fmt::join(names, ", "));
  };
  int line = found.empty() ? 0 : found[0].line;
  if (list(found) != list(wanted))
    throw Differs(fmt::format("the {} calls {}, but takes {}", what, list(found), list(wanted)), line, node);
  std::map<std::pair<std::string, int>, int64_t> bases;
  for (size_t c = 0; c < found.size(); ++c) {
    const Call &is = found[c], &should = wanted[c];
    auto expect = [&](const char* which, int64_t a, int64_t b) {
      if (a != b)
        throw Differs(fmt::format("the {} of the {} is {}, but the program says {}", which, what, a, b), is.line, node);
    };
    const Form& form = *form_of(is.name);
    expect("axis", is.axis, should.axis);
    expect("count", is.numbers[count], should.numbers[count]);
    expect("type", is.numbers[type], nccl_type(node_of(i.result).type.dtype));
    if (form.reduction) expect("reduction", is.numbers[reduction], nccl_reduction(i.reduce));
    if (form.peer) expect(i.opcode == Opcode::broadcast ? "root" : "peer", is.numbers[peer], should.numbers[peer]);
    for (int at : {from_at, to_at}) {
      if (should.numbers[size_t(at)] < 0) continue;
      int64_t base = is.numbers[size_t(at)] - should.numbers[size_t(at)] * element_bytes;
      auto [known, fresh] = bases.insert({{is.name, at}, base});
      if (!fresh) expect("place of a piece", base, known->second);
    }
    for (int at : {from_at, to_at}) {
      if (is.numbers[size_t(at)] < 0) continue;
      int64_t end = is.numbers[size_t(at)] + is.numbers[count] * element_bytes;
      if (end > source_.arena_bytes)
        throw Differs(fmt::format("the {} goes beyond the arena of {} bytes", what, source_.arena_bytes), is.line,
                      node);
    }
  }
}

/// What was issued to the other stream and is not surely done must not touch the same bytes, unless both only read.
void DeviceWalk::issue(Stream stream, Issued issued) {
  Stream other = stream == compute ? communication : compute;
  for (size_t n = clocks_[stream][other]; n < issued_[other].size(); ++n)
    for (const Access& theirs : issued_[other][n].accesses)
      for (const Access& ours : issued.accesses)
        if ((ours.writes || theirs.writes) && ours.begin < theirs.end && theirs.begin < ours.end)
          throw Differs(fmt::format("{} {} bytes {} to {} while {} (line {}) may still {} them: no event orders them",
                                    issued.what, ours.writes ? "writes" : "reads", std::max(ours.begin, theirs.begin),
                                    std::min(ours.end, theirs.end), issued_[other][n].what, issued_[other][n].line,
                                    theirs.writes ? "write" : "read"),
                        issued.line);
  issued_[stream].push_back(std::move(issued));
}

void DeviceWalk::finish() {
  for (; next_collective_ < program_.instructions.size(); ++next_collective_) {
    const Instruction& i = program_.instructions[next_collective_];
    if (!exchanges(i)) continue;
    if (elements(i.operands[0]) + elements(i.result) == 0) continue;
    missing(i);
  }
  if (clocks_[compute][communication] < issued_[communication].size())
    throw Differs(fmt::format("the step ends without having waited for {}", issued_[communication].back().what),
                  issued_[communication].back().line);
}

}  // namespace hetsynth::source
