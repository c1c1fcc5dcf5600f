// Collective calls of a step, number by number (codegen/interface/abi.h says what the arguments are).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "dsl/spmd/hosts.h"
#include "verify/source/meaning/pseudo_random.h"
#include "verify/source/step/arena_contents.h"

namespace hetsynth::source {
namespace {

/// At which a value is held against what lies where it should be.
constexpr int random_elements_of_collective = 16;
/// Evaluations of the program's side after which there are no further ones of these.
constexpr int64_t most_work_of_random = 2'000'000;

size_t arguments_of(Opcode opcode) {
  if (opcode == Opcode::all_gather) return 9;
  if (opcode == Opcode::halo_exchange) return 11;
  return opcode == Opcode::reduce_scatter || opcode == Opcode::all_to_all ? 10 : 8;
}

}  // namespace

void ContentsWalk::expect_number(const Expression& found, int64_t expected, const std::string& what,
                                 NodeId node) const {
  int64_t value = constant(found);
  if (value != expected)
    throw Differs(fmt::format("{} is {}, but the program says {}", what, value, expected), found.line, node);
}

void ContentsWalk::expect_table(const Expression& found, const std::vector<int64_t>& expected, const std::string& what,
                                NodeId node) const {
  const std::vector<int64_t>* values = nullptr;
  if (found.kind == Kind::global && unit_.tables.count(found.name)) values = &unit_.tables.at(found.name);
  if (found.kind == Kind::variable && arrays_.count(found.slot)) values = &arrays_.at(found.slot);
  if (!values) throw NotFollowed("a table that is not constant", found.line);
  if (*values != expected)
    throw Differs(
        fmt::format("{} are [{}], but the program says [{}]", what, fmt::join(*values, ","), fmt::join(expected, ",")),
        found.line, node);
}

/// The value must lie row-major from this byte on: at corners, one step along each dimension, and at random, as
/// what decides may do so at few elements.
void ContentsWalk::expect_contents(ValueId value, int64_t byte, const std::string& what, int line) {
  int64_t count = meaning_.count(value);
  if (count == 0 || memory_.lies_at(value, byte)) return;
  const std::vector<Range>& ranges = meaning_.ranges(value);
  std::vector<int64_t> strides = dense_strides(ranges, row_major(ranges.size()));
  std::set<int64_t> elements{0, count - 1, count / 2, count / 3, std::min<int64_t>(1, count - 1)};
  for (int64_t stride : strides) elements.insert(std::min(stride, count - 1));
  PseudoRandom random(byte, count);
  // What a loop filled turn by turn lies in pieces: each of them is looked at.
  const int64_t size = size_bytes(meaning_.dtype(value));
  for (const Resident* piece : memory_.within(byte, byte + count * size))
    for (const int64_t at :
         {piece->begin - byte, (piece->begin + piece->end) / 2 - byte, piece->end - byte - 1, piece->end - byte})
      if (at >= 0 && at < count * size) elements.insert(at / size);
  std::vector<int64_t> looked_at(elements.begin(), elements.end());
  for (int i = 0; i < random_elements_of_collective; ++i) looked_at.push_back(random.below(count));
  for (bool edge : {false, true}) {
    Sample sample = Sample::number(edge ? 1002 : 1001);
    sample.edge = edge;
    int64_t work = 0;
    for (size_t i = 0; i < looked_at.size() && (i < elements.size() || work < most_work_of_random); ++i) {
      const int64_t element = looked_at[i], place = byte + element * size;
      expect_element(value, index_at(ranges, strides, element), byte, place, what, line, sample);
      work += meaning_.work;
    }
  }
}

void ContentsWalk::expect_element(ValueId value, const Index& index, int64_t byte, int64_t place,
                                  const std::string& what, int line) {
  for (bool edge : {false, true}) {
    Sample sample = Sample::number(1001 + uint64_t(index.size() ? index[0] : 0) % 4);
    sample.edge = edge;
    expect_element(value, index, byte, place, what, line, sample);
  }
}

void ContentsWalk::expect_element(ValueId value, const Index& index, int64_t byte, int64_t place,
                                  const std::string& what, int line, const Sample& sample) {
  const NodeId node = program_.values[size_t(value)].node;
  meaning_.work = 0;
  meaning_.limit = options_.work_per_kernel;
  meaning_.choose(sample);
  double expected = 0;
  try {
    expected = meaning_.at(value, index);
  } catch (const NotHeld& e) {
    throw Differs(fmt::format("{} should be at byte {}, but {}", what, byte, e.what()), line, node);
  }
  const double found = memory_.read(place, meaning_.dtype(value));
  const Resident* there = memory_.at(place);
  if (close(expected, found) || (std::isnan(expected) && std::isnan(found) && there)) return;
  if (there && close_at_edge(expected, found, sample)) return;
  throw Differs(fmt::format("{} should be at byte {}, but {} is there", what, byte,
                            there ? part_text(there->value) : "nothing the program computes"),
                line, node);
}

const Instruction* ContentsWalk::next_exchange() {
  while (next_collective_ < program_.instructions.size() && !exchanges(program_.instructions[next_collective_]))
    ++next_collective_;
  return next_collective_ < program_.instructions.size() ? &program_.instructions[next_collective_] : nullptr;
}

void ContentsWalk::collective(const Expression& call) {
  const Instruction* next = next_exchange();
  if (!next)
    throw Differs(fmt::format("{} is called, but the program has no further collective", call.name), call.line);
  const Instruction& i = *next;
  ValueId from = i.operands[0];
  NodeId node = program_.values[size_t(i.result)].node;
  if (i.opcode == Opcode::send) return sent(call, i);
  const bool levels = i.realisation == Realisation::hierarchical;
  std::string wanted = fmt::format("hetsynth_{}{}", levels ? "hierarchical_" : "", name(i.opcode));
  std::string what = fmt::format("{} of {}", name(i.opcode), reference_[node].name);
  if (call.name != wanted || call.args.size() != arguments_of(i.opcode) + (levels ? 1 : 0))
    throw Differs(fmt::format("{} is called where the program has the {}", call.name, what), call.line, node);
  const std::vector<Expression>& x = call.args;
  expect_number(x[1], numbers_.empty() ? int64_t(next_collective_) : numbers_[next_collective_],
                fmt::format("the number of the {}", what), node);
  expect_number(x[2], i.axis, fmt::format("the axis of the {}", what), node);
  int64_t destination = pointer(x[4]).at, end = destination + meaning_.bytes(i.result);
  inside_arena(destination, end, meaning_.dtype(i.result), call.line);
  if (on_rank(from)) {  // else it lies on the root's stage alone, and the source is not looked at
    int64_t source = pointer(x[3]).at, source_end = source + meaning_.bytes(from);
    inside_arena(source, source_end, meaning_.dtype(from), call.line);
    if (source < end && destination < source_end)
      throw Differs(fmt::format("source and destination of the {} overlap", what), call.line, node);
    expect_contents(from, source, fmt::format("the operand of the {}", what), call.line);
  }
  const std::vector<Range>& result = meaning_.ranges(i.result);
  const Shape& shape = reference_[node].type.shape;
  int64_t type = int64_t(meaning_.dtype(i.result));  // numbered as in codegen/interface/abi.h
  auto number = [&](size_t at, int64_t expected, const char* which) {
    expect_number(x[at], expected, fmt::format("the {} of the {}", which, what), node);
  };
  switch (i.opcode) {
    case Opcode::all_gather:
    case Opcode::reduce_scatter:
    case Opcode::halo_exchange:
      number(5, part_elements(result, 0, size_t(i.dim)), "outer extent");
      number(6, part_elements(result, size_t(i.dim) + 1, result.size()), "inner extent");
      expect_table(x[7], bounds(i.table, shape[size_t(i.dim)]), fmt::format("the boundaries of the {}", what), node);
      if (i.opcode == Opcode::reduce_scatter) number(8, int64_t(i.reduce), "reduction");
      if (i.opcode == Opcode::halo_exchange) number(8, i.before, "elements before");
      if (i.opcode == Opcode::halo_exchange) number(9, i.after, "elements after");
      number(arguments_of(i.opcode) - 1, type, "type");
      break;
    case Opcode::all_reduce:
    case Opcode::broadcast:
      number(5, meaning_.count(i.result), "count");
      number(6, i.opcode == Opcode::broadcast ? int64_t(i.root) : int64_t(i.reduce),
             i.opcode == Opcode::broadcast ? "root" : "reduction");
      number(7, type, "type");
      break;
    default: {
      std::vector<Range> whole = meaning_.ranges(from);
      whole[size_t(i.dim)] = {0, bounds(i.table, shape[size_t(i.dim)]).back()};
      size_t first = size_t(std::min(i.dim, i.to_dim)), second = size_t(std::max(i.dim, i.to_dim));
      expect_table(x[5],
                   {part_elements(whole, 0, first), part_elements(whole, first, first + 1),
                    part_elements(whole, first + 1, second), part_elements(whole, second, second + 1),
                    part_elements(whole, second + 1, whole.size())},
                   fmt::format("the extents of the {}", what), node);
      number(6, i.dim < i.to_dim ? 1 : 0, "direction");
      // The two tables in the order of the call: where from, where to.
      expect_table(x[7], bounds(i.table, shape[size_t(i.dim)]), fmt::format("the boundaries before the {}", what),
                   node);
      expect_table(x[8], bounds(i.to_table, shape[size_t(i.to_dim)]), fmt::format("the boundaries after the {}", what),
                   node);
      number(9, type, "type");
      break;
    }
  }
  if (levels)
    expect_table(x.back(), hosts_of_group(program_, i.axis, source_.rank).by_coordinate(),
                 fmt::format("the hosts of the {}", what), node);
  memory_.put({i.result, destination, end, dense_strides(result, row_major(result.size()))});
  pass_collective();
}

void ContentsWalk::pass_collective() {
  done_[next_collective_] = true;
  ++next_collective_;
  ++collectives;
}

/// One side of a send: hetsynth_send where the value is, hetsynth_receive where it goes.
void ContentsWalk::sent(const Expression& call, const Instruction& i) {
  const ValueId from = i.operands[0];
  const NodeId node = program_.values[size_t(i.result)].node;
  const bool sends = program_.mesh.coordinate(source_.rank, i.axis) == i.root;
  const std::string wanted = sends ? "hetsynth_send" : "hetsynth_receive";
  const std::string what = fmt::format("{} of {}", sends ? "send" : "receive", reference_[node].name);
  const std::vector<Expression>& x = call.args;
  if (call.name != wanted || x.size() != 7)
    throw Differs(fmt::format("{} is called where the program has the {}", call.name, what), call.line, node);
  auto number = [&](size_t at, int64_t expected, const char* which) {
    expect_number(x[at], expected, fmt::format("the {} of the {}", which, what), node);
  };
  number(1, numbers_.empty() ? int64_t(next_collective_) : numbers_[next_collective_], "number");
  number(2, i.axis, "axis");
  const ValueId moved = sends ? from : i.result;
  number(4, meaning_.count(moved), "count");
  number(5, sends ? i.to : i.root, sends ? "receiver" : "sender");
  number(6, int64_t(meaning_.dtype(moved)), "type");
  const int64_t place = pointer(x[3]).at, end = place + meaning_.bytes(moved);
  inside_arena(place, end, meaning_.dtype(moved), call.line);
  if (sends) {
    expect_contents(from, place, fmt::format("the operand of the {}", what), call.line);
  } else {
    const std::vector<Range>& part = meaning_.ranges(i.result);
    memory_.put({i.result, place, end, dense_strides(part, row_major(part.size()))});
  }
  pass_collective();
}

}  // namespace hetsynth::source
