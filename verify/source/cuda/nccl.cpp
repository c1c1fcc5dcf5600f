// The NCCL calls of a cuda rank: which collective of the program they carry out, on what, and what they leave behind.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>
#include <tuple>

#include "verify/source/cuda/device.h"

namespace hetsynth::source {
namespace {

/// The numbers of NCCL's enumerations, as in nccl.h.
int64_t nccl_type(DType dtype) {
  return dtype == DType::i32 ? 2 : dtype == DType::bf16 ? 9 : dtype == DType::fp16 ? 6 : 7;
}
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

const char* ranks_text(int over) {
  constexpr const char* texts[] = {"all ranks of the axis", "the ranks on its host", "the leaders of the hosts",
                                   "what is sent to higher coordinates", "what is sent to lower coordinates"};
  return texts[over];
}

}  // namespace

void DeviceWalk::nccl(const Expression& e) {
  if (e.name == "ncclGroupStart" && e.args.empty() && !grouped_) {
    grouped_ = true;
    return;
  }
  if (e.name == "ncclGroupEnd" && e.args.empty() && grouped_) {
    grouped_ = false;
    return end_group(e.line);
  }
  if (!form_of(e.name)) throw NotFollowed("a call of " + e.name, e.line);
  const Form& form = *form_of(e.name);
  const std::vector<Expression>& x = e.args;
  if (x.size() != form.arguments) throw Differs(e.name + " is called with other arguments", e.line);
  Call call{e.name, std::vector<int64_t>(Call::how_many, -1), -1, e.line};
  size_t next = 0;
  if (form.from) call.numbers[Call::from_at] = integer(x[next++]);
  if (form.to) call.numbers[Call::to_at] = integer(x[next++]);
  call.numbers[Call::count] = integer(x[next++]);
  call.numbers[Call::type] = integer(x[next++]);
  if (form.reduction) call.numbers[Call::reduction] = integer(x[next++]);
  if (form.peer) call.numbers[Call::peer] = integer(x[next++]);
  const Expression& ranks = x[next];
  if (ranks.kind != Kind::variable || !communicators_.count(ranks.slot))
    throw Differs("a call of NCCL over no communicator of the program", e.line);
  std::tie(call.axis, call.over) = communicators_.at(ranks.slot);
  constexpr std::array<const char*, streams> members{"stream", "communication_stream", "rising_stream",
                                                     "falling_stream"};
  const char* const stream = members[stream_of(call.over)];
  if (x[next + 1].kind != Kind::member || x[next + 1].name != stream)
    throw Differs(fmt::format("a call of NCCL over {} that is not on the {}", ranks_text(int(call.over)), stream),
                  e.line);
  group_.push_back(std::move(call));
  if (!grouped_) end_group(e.line);
}

std::string DeviceWalk::description(const Instruction& i) const {
  return fmt::format("{} of {}", name(i.opcode), node_of(i.result).name);
}

/// The next one that calls NCCL: on axes where nothing lies in this part nothing is called, nor where nothing is needed
/// of others.
const Instruction* DeviceWalk::next_move() {
  for (const Instruction* i = next_exchange(); i; i = next_exchange()) {
    if ((elements(i->operands[0]) + elements(i->result) > 0 && !is_quiet(*i)) || passes_on(*i)) return i;
    ++next_collective_;
  }
  return nullptr;
}

/// The next collective, or those of the bucket that it begins.
std::vector<const Instruction*> DeviceWalk::next_members() {
  std::vector<const Instruction*> members;
  const size_t begin = next_collective_;
  const int bucket = next_move() ? bucket_of_[next_collective_] : -1;
  while (const Instruction* next = next_move()) {
    if (!members.empty() && (bucket < 0 || bucket_of_[next_collective_] != bucket)) break;
    members.push_back(next);
    ++next_collective_;
  }
  next_collective_ = begin;
  return members;
}

/// What a group does happens at once: of one collective or, for a bucket of gradients, of several; of hierarchical
/// ones, a phase.
void DeviceWalk::end_group(int line) {
  const std::vector<const Instruction*> members = next_members();
  if (members.empty()) throw Differs("NCCL is called, but the program has no further collective", line);
  const bool levels = members.front()->realisation == Realisation::hierarchical;
  if (levels && !end_phase(members)) return;
  std::vector<Exchange> exchanges;
  size_t done = 0;
  for (const Instruction* i : members) {
    const bool last = i == members.back();
    exchanges.push_back(levels ? exchange_by_host(*i, phases_, last) : exchange(*i, done, last));
    done += exchanges.back().calls.size();
  }
  for (size_t i = 0; i < members.size(); ++i) {
    next_move();
    pass_collective();
  }
  carry_out(exchanges, line);
  group_.clear();
  phases_.clear();
}

void DeviceWalk::carry_out(const std::vector<Exchange>& exchanges, int line) {
  std::map<int, std::vector<std::vector<Touched>>> by_phase;
  Issued out{{}, "the " + description(*exchanges.front().instruction), line};
  for (const Exchange& e : exchanges)
    for (const Call& call : e.calls) {
      by_phase[call.phase].push_back(accesses(call, *e.instruction));
      expect_in_place(by_phase[call.phase].back(), call, *e.instruction);
    }
  for (const auto& [phase, by_call] : by_phase) expect_apart(by_call, line);
  for (const Exchange& e : exchanges) expect_operand(e);
  for (const Exchange& e : exchanges) put_result(e);
  for (const auto& [phase, by_call] : by_phase)
    for (const std::vector<Touched>& call : by_call) out.accesses.insert(out.accesses.end(), call.begin(), call.end());
  if (!exchanges.front().calls.empty()) out.line = exchanges.front().calls.front().line;
  const Exchange& first = exchanges.front();
  issue(first.calls.empty() ? communication : stream_of(first.calls.front().over), std::move(out));
}

void DeviceWalk::expect_apart(const std::vector<std::vector<Touched>>& by_call, int line) const {
  for (size_t a = 0; a < by_call.size(); ++a)
    for (size_t b = 0; b < by_call.size(); ++b)
      for (const Touched& writes : by_call[a])
        for (const Touched& other : by_call[b])
          if (a != b && writes.writes && writes.begin < other.end && other.begin < writes.end)
            throw Differs(fmt::format("calls of a group access the same bytes {} to {}",
                                      std::max(writes.begin, other.begin), std::min(writes.end, other.end)),
                          line);
}

/// One call per rank with a share, for its share: where it begins in the whole, and how many elements.
std::vector<DeviceWalk::Call> DeviceWalk::pieces(const Instruction& i, const std::vector<int64_t>& cut,
                                                 int64_t each) const {
  std::vector<Call> out;
  bool gathers = i.opcode == Opcode::all_gather;
  for (size_t p = 0; p + 1 < cut.size(); ++p) {
    if (cut[p + 1] == cut[p]) continue;
    Call call{gathers ? "ncclBroadcast" : "ncclReduce", std::vector<int64_t>(Call::how_many, -1), i.axis, 0};
    call.numbers[gathers ? Call::to_at : Call::from_at] = cut[p] * each;
    call.numbers[Call::count] = (cut[p + 1] - cut[p]) * each;
    call.numbers[Call::peer] = int64_t(p);
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
      Call call{sends ? "ncclSend" : "ncclRecv", std::vector<int64_t>(Call::how_many, -1), i.axis, 0};
      call.numbers[sends ? Call::from_at : Call::to_at] = sends ? mine * to[p] : ours * cut[p];
      call.numbers[Call::count] = elements;
      call.numbers[Call::peer] = int64_t(p);
      out.push_back(call);
    }
  return out;
}

/// Of an all-to-all: what goes to each rank, and what comes from it.
void DeviceWalk::move_pieces(const Instruction& i, Exchange& out) const {
  const Shape& shape = node_of(i.result).type.shape;
  out.from.dim = i.to_dim;
  out.from.cut = bounds(i.to_table, shape[size_t(i.to_dim)]);
  out.to.dim = i.dim;
  out.to.cut = bounds(i.table, shape[size_t(i.dim)]);
}

/// The calls from `first` of the group on that belong to the collective. What is too much counts as the last one's.
DeviceWalk::Exchange DeviceWalk::exchange(const Instruction& i, size_t first, bool last) const {
  const Shape& shape = node_of(i.result).type.shape;
  Exchange out;
  out.instruction = &i;
  out.from.value = i.operands[0];
  out.to.value = i.result;
  std::vector<Call> wanted;
  auto one = [&](const char* name, int64_t elements) {
    Call call{name, std::vector<int64_t>(Call::how_many, -1), i.axis, 0};
    call.numbers[Call::count] = elements;
    return std::vector<Call>{call};
  };
  if (i.opcode == Opcode::all_reduce) {
    wanted = one("ncclAllReduce", elements(i.operands[0]));
  } else if (i.opcode == Opcode::broadcast) {
    wanted = one("ncclBroadcast", elements(i.result));
    wanted[0].numbers[Call::peer] = i.root;
  } else if (i.opcode == Opcode::send) {
    const bool sends = program_.mesh.coordinate(source_.rank, i.axis) == i.root;
    wanted = one(sends ? "ncclSend" : "ncclRecv", elements(sends ? i.operands[0] : i.result));
    wanted[0].numbers[Call::peer] = sends ? i.to : i.root;
    wanted[0].over = i.to > i.root ? Over::rising : Over::falling;
  } else if (i.opcode == Opcode::all_to_all) {
    wanted = exchanged(i);
    move_pieces(i, out);
  } else if (i.opcode == Opcode::halo_exchange) {
    wanted = halo(i, out.from, out.to);
  } else {
    const bool gathers = i.opcode == Opcode::all_gather;
    const std::vector<Range> whole = part_of(gathers ? i.result : i.operands[0]);
    const int64_t each = part_elements(whole, 0, size_t(i.dim)) * part_elements(whole, size_t(i.dim) + 1, whole.size());
    const std::vector<int64_t> cut = bounds(i.table, shape[size_t(i.dim)]);
    int64_t longest = 0;
    for (size_t p = 0; p + 1 < cut.size(); ++p) longest = std::max(longest, cut[p + 1] - cut[p]);
    // In equal shares, padded or by nature, or share by share.
    const char* together = gathers ? "ncclAllGather" : "ncclReduceScatter";
    const bool padded = first < group_.size() && group_[first].name == together;
    wanted = padded ? one(together, longest * each) : pieces(i, cut, each);
    Shares& shares = gathers ? out.to : out.from;
    shares.dim = i.dim;
    shares.cut = cut;
    shares.stride = padded ? longest * each : 0;
  }
  const size_t end = last ? group_.size() : std::min(group_.size(), first + wanted.size());
  out.calls.assign(group_.begin() + long(first), group_.begin() + long(end));
  expect_calls(out, wanted, description(i));
  return out;
}

/// NCCL reads where it writes only in place: a rank's own share where it lies in the whole.
void DeviceWalk::expect_in_place(const std::vector<Touched>& both, const Call& call, const Instruction& i) const {
  if (both.size() < 2 || both[0].begin >= both[1].end || both[1].begin >= both[0].end) return;
  const int64_t shares =
      me_among(call.over, i.axis) * call.numbers[Call::count] * size_bytes(node_of(i.result).type.dtype);
  const int64_t into_result = call.name == "ncclAllGather" ? shares : call.name == "ncclReduceScatter" ? -shares : 0;
  if (both[0].begin == both[1].begin + into_result) return;
  throw Differs(
      fmt::format("the {} reads bytes {} to {} and writes bytes {} to {}: these overlap elsewhere than in place",
                  description(i), both[0].begin, both[0].end, both[1].begin, both[1].end),
      call.line, program_.values[size_t(i.result)].node);
}

/// The bytes that a call touches on this rank.
std::vector<DeviceWalk::Touched> DeviceWalk::accesses(const Call& call, const Instruction& i) const {
  const int64_t ranks = count_of(call.over, i.axis), me = me_among(call.over, i.axis);
  const int64_t bytes = call.numbers[Call::count] * size_bytes(node_of(i.result).type.dtype);
  const bool roots = call.name != "ncclBroadcast" && call.name != "ncclReduce";
  const bool reads =
      call.numbers[Call::from_at] >= 0 && (call.name != "ncclBroadcast" || call.numbers[Call::peer] == me);
  const bool writes =
      call.numbers[Call::to_at] >= 0 && (roots || call.name == "ncclBroadcast" || call.numbers[Call::peer] == me);
  const int64_t from_bytes = call.name == "ncclReduceScatter" ? bytes * ranks : bytes;
  const int64_t to_bytes = call.name == "ncclAllGather" ? bytes * ranks : bytes;
  std::vector<Touched> out;
  if (reads) out.push_back({call.numbers[Call::from_at], call.numbers[Call::from_at] + from_bytes, false});
  if (writes) out.push_back({call.numbers[Call::to_at], call.numbers[Call::to_at] + to_bytes, true});
  for (const Touched& access : out)
    if (access.end > source_.arena_bytes)
      throw Differs(fmt::format("the {} goes beyond the arena of {} bytes", description(i), source_.arena_bytes),
                    call.line, program_.values[size_t(i.result)].node);
  return out;
}

/// The calls must be these, in this order; addresses as far as they depend on the piece.
void DeviceWalk::expect_calls(Exchange& e, const std::vector<Call>& wanted, const std::string& what) const {
  const Instruction& i = *e.instruction;
  const std::vector<Call>& found = e.calls;
  const int64_t element_bytes = size_bytes(node_of(i.result).type.dtype);
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
    if (is.over != should.over)
      throw Differs(fmt::format("the {} of the {} is over {}, but takes {}", is.name, what, ranks_text(int(is.over)),
                                ranks_text(int(should.over))),
                    is.line, node);
    const int me = me_among(should.over, i.axis);
    expect("count", is.numbers[Call::count], should.numbers[Call::count]);
    expect("type", is.numbers[Call::type], nccl_type(node_of(i.result).type.dtype));
    if (form.reduction) expect("reduction", is.numbers[Call::reduction], nccl_reduction(i.reduce));
    if (form.peer)
      expect(i.opcode == Opcode::broadcast ? "root" : "peer", is.numbers[Call::peer], should.numbers[Call::peer]);
    // Where the whole begins, by where the piece is. Who only receives a piece names anything as what it would send.
    const bool read = is.name != "ncclBroadcast" || is.numbers[Call::peer] == me;
    const bool written = is.name != "ncclReduce" || is.numbers[Call::peer] == me;
    for (int at : {int(Call::from_at), int(Call::to_at)}) {
      if (is.numbers[size_t(at)] < 0 || !(at == Call::from_at ? read : written)) continue;
      const int64_t base = is.numbers[size_t(at)] - std::max<int64_t>(should.numbers[size_t(at)], 0) * element_bytes;
      const Base base_of = should.in[size_t(at)];
      int64_t& known = base_of == Base::operand ? e.source : base_of == Base::result ? e.target : e.middle;
      if (known >= 0) expect("place of a piece", base, known);
      known = base;
    }
  }
}

}  // namespace hetsynth::source
