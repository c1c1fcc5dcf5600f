#include "codegen/cpu/attention_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "codegen/text/annotate.h"
#include "codegen/text/expression.h"

namespace hetsynth::codegen {
namespace {

/// A block of scores and the rows of queries, keys and values that it needs stay in the second-level cache.
constexpr int64_t block_rows = 64, block_columns = 256;

class AttentionPrinter {
 public:
  AttentionPrinter(const Lowered& lowered, const Group& group, const AttentionCall& call, const AttentionNames& names)
      : l_(lowered), g_(group), a_(*group.attention), call_(call), n_(names) {
    for (size_t m = 0; m < group.members.size(); ++m) member_[op(int(m)).result] = int(m);
    rows_ = std::min(block_rows, std::max<int64_t>(1, a_.extent(a_.row)));
    columns_ = std::min(block_columns, std::max<int64_t>(1, a_.extent(a_.column)));
    t_ = n_.dims[a_.row];
    s_ = n_.dims[a_.column];
    assign_tiles();
  }

  std::string run() {
    line(signature() + " {");
    ++depth_;
    if (a_.backward)
      for (const auto* list : {&a_.products, &a_.sums})
        for (ValueId v : *list) line(fmt::format("fill({}, {}, 0.0f);", parameter(v), count(v)));
    for (const std::string& tile : tiles_) line(fmt::format("float {}[{} * {}];", tile, rows_, columns_));
    for (ValueId v : rounded_) line(fmt::format("{} {}[{} * {}];", memory_type(type(v)), tile_.at(v), rows_, columns_));
    if (!a_.backward) line(fmt::format("float largest_[{0}], sum_[{0}];", rows_));
    int open = 0;
    for (size_t d = 0; d < a_.shape.size(); ++d) {
      if (int(d) == a_.row || int(d) == a_.column || a_.extent(int(d)) == 1) continue;
      begin(fmt::format("for (long {0} = 0; {0} < {1}; ++{0})", n_.dims[d], a_.extent(int(d))));
      ++open;
    }
    begin(fmt::format("for ({0} {1}_begin_ = 0; {1}_begin_ < {2}; {1}_begin_ += {3})", counter(), t_, a_.extent(a_.row),
                      rows_));
    declare_end(t_, rows_, fmt::format("{}", a_.extent(a_.row)));
    declare_stop();
    a_.backward ? backward_row_block() : forward_row_block();
    for (int i = 0; i <= open; ++i) end();
    --depth_;
    line("}");
    return std::move(out_);
  }

 private:
  void line(const std::string& text) { out_ += std::string(size_t(depth_) * 2, ' ') + text + "\n"; }
  void begin(const std::string& head) {
    line(head + " {");
    ++depth_;
  }
  void end() {
    --depth_;
    line("}");
  }

  const LocalOp& op(int member) const { return l_.op(g_.members[size_t(member)]); }
  const LocalOp& op_of(ValueId value) const { return op(member_.at(value)); }
  int64_t count(ValueId value) const { return l_.local.values[value].count(); }
  bool is_block(ValueId value) const {
    std::vector<ValueId> blocks = a_.hidden();
    return std::count(blocks.begin(), blocks.end(), value) > 0;
  }

  std::string parameter(ValueId value) const {
    ValueId storage = l_.storage(value);
    for (size_t p = 0; p < call_.parameters.size(); ++p)
      if (call_.parameters[p].value == storage) return n_.parameters[p];
    throw InternalError("an operand of attention is a parameter of its function");
  }

  std::string signature() const {
    std::vector<std::string> parameters;
    for (size_t p = 0; p < call_.parameters.size(); ++p)
      parameters.push_back(fmt::format("{}{}* __restrict__ {}", call_.parameters[p].written ? "" : "const ",
                                       memory_type(call_.parameters[p].dtype), n_.parameters[p]));
    if (call_.uses_step) parameters.push_back("long step");
    if (call_.uses_seed) parameters.push_back("unsigned long seed");
    if (call_.uses_turn) parameters.push_back("long turn");
    return "__attribute__((noinline)) static void " + call_text(n_.function, parameters, 41);
  }

  /// Counters inside of a block: int vectorises better, where every index fits.
  std::string counter() const {
    int64_t largest = element_count(a_.shape);
    for (const Parameter& p : call_.parameters) largest = std::max(largest, l_.local.values[p.value].count());
    return largest < std::numeric_limits<int>::max() ? "int" : "long";
  }

  void declare_end(const std::string& name, int64_t block, const std::string& stop) {
    line(fmt::format("const {0} {1}_end_ = {1}_begin_ + {2} < {3} ? {1}_begin_ + {2} : {3};", counter(), name, block,
                     stop));
  }

  /// Where the columns end that some row of the block sees.
  void declare_stop() {
    int64_t extent = a_.extent(a_.column), shift = a_.ranges[a_.row].lo - a_.ranges[a_.column].lo;
    if (!a_.causal || shift >= extent) {
      stop_ = fmt::format("{}", extent);
      return;
    }
    stop_ = s_ + "_stop_";
    std::string seen = shift ? fmt::format("{}_end_ + {}", t_, shift) : t_ + "_end_";
    line(fmt::format("const {0} {1} = {2} < {3} ? {2} : {3};  // later {4} are hidden from all of these {5}", counter(),
                     stop_, seen, extent, s_, t_));
  }

  void begin_column_block() {
    begin(fmt::format("for ({0} {1}_begin_ = 0; {1}_begin_ < {2}; {1}_begin_ += {3})", counter(), s_, stop_, columns_));
    declare_end(s_, columns_, stop_);
    for (ValueId v : a_.scores) scores_product(v);
  }
  void begin_rows() { begin(fmt::format("for ({0} {1} = {1}_begin_; {1} < {1}_end_; ++{1})", counter(), t_)); }
  void begin_columns() { begin(fmt::format("for ({0} {1} = {1}_begin_; {1} < {1}_end_; ++{1})", counter(), s_)); }

  // Tiles: one per product of features; results that products read take their places, element by element. Those that
  // are rounded have places of their own.

  DType type(ValueId value) const { return l_.local.values[size_t(value)].type.dtype; }

  void assign_tiles() {
    for (ValueId v : a_.scores) tile_[v] = add_tile(v);
    std::vector<ValueId> wanted;
    for (ValueId product : a_.products)
      for (const Operand& operand : op_of(product).inputs)
        if (is_block(operand.value) && !tile_.count(operand.value)) {
          if (is_half(type(operand.value))) {
            rounded_.push_back(operand.value);
            tile_[operand.value] = name(operand.value) + "_block_";
          } else if (!a_.backward) {
            tile_[operand.value] = tiles_[0];
          } else if (!std::count(wanted.begin(), wanted.end(), operand.value)) {
            wanted.push_back(operand.value);
          }
        }
    for (size_t i = 0; i < wanted.size(); ++i)
      tile_[wanted[i]] = i < a_.scores.size() ? tiles_[i] : add_tile(wanted[i]);
  }
  std::string add_tile(ValueId value) {
    tiles_.push_back(name(value) + "_block_");
    return tiles_.back();
  }
  std::string row_of(const std::string& tile) const {
    return fmt::format("{} + ({} - {}_begin_) * {}", tile, t_, t_, columns_);
  }
  std::string in_tile(ValueId value) const {
    const std::string& tile = tile_.at(value);
    return fmt::format("{0}[({1} - {1}_begin_) * {2} + {3} - {3}_begin_]", tile, t_, columns_, s_);
  }
  void store_in_tile(ValueId value) {
    line(fmt::format("{} = {}{};", in_tile(value), conversion_to(type(value)), variable(value)));
  }
  const std::string& name(ValueId value) const { return n_.members[size_t(member_.at(value))]; }
  std::string variable(ValueId value) const { return name(value) + "_"; }

  // Addresses.

  /// Coefficients by dimension of the scores, the last that of the features.
  Address over_dims(const Address& address, const LocalOp& op) const {
    Address out;
    out.constant = address.constant;
    out.per_turn = address.per_turn;
    out.coefficients.assign(a_.shape.size() + 1, 0);
    std::vector<int> dims = a_.dims_of(op, *l_.reference);
    for (size_t f = 0; f < address.coefficients.size(); ++f)
      out.coefficients[dims[f] >= 0 ? size_t(dims[f]) : a_.shape.size()] += address.coefficients[f];
    return out;
  }
  /// Text of an address with the given counters of row, column and features.
  std::string at(Address address, const std::string& row, const std::string& column, const std::string& feature) const {
    std::vector<std::string> counters = n_.dims;
    counters.push_back(feature);
    counters[size_t(a_.row)] = row;
    counters[size_t(a_.column)] = column;
    for (size_t d = 0; d < a_.shape.size(); ++d)
      if (int(d) != a_.row && int(d) != a_.column && a_.extent(int(d)) == 1) address.coefficients[d] = 0;
    if (row.empty()) address.coefficients[size_t(a_.row)] = 0;
    if (column.empty()) address.coefficients[size_t(a_.column)] = 0;
    if (feature.empty()) address.coefficients.back() = 0;
    return address_text(address, counters);
  }
  int64_t features(const LocalOp& op) const {
    std::vector<int> dims = a_.dims_of(op, *l_.reference);
    for (size_t f = 0; f < dims.size(); ++f)
      if (dims[f] < 0) return op.extent(int(f));
    return 1;
  }

  // Products.

  struct Side {
    std::string text;
    int64_t row, column;
  };
  void product(const LocalOp& op, const std::string& m, const std::string& n, const std::string& k, const Side& a,
               const Side& w, const Side& c, const std::string& accumulate) {
    std::vector<std::string> arguments{"1", m, n, k};
    for (const Side* side : {&a, &w, &c}) {
      arguments.push_back(side->text);
      for (int64_t stride : {int64_t(0), side->row, side->column}) arguments.push_back(fmt::format("{}", stride));
    }
    arguments.push_back(accumulate);
    const std::string function = "hetsynth_matmul" + product_suffix(type(op.inputs[0].value));
    line(call_text(function, arguments, size_t(depth_) * 2) + ";");
  }
  std::string length(const std::string& name) const { return fmt::format("{0}_end_ - {0}_begin_", name); }

  /// block[t, s] = sum over features of one operand's row t and the other's row s.
  void scores_product(ValueId value) {
    const LocalOp& o = op_of(value);
    Address operands[2] = {over_dims(l_.layouts.read(o, 0), o), over_dims(l_.layouts.read(o, 1), o)};
    // Either may be the same in all rows, or all columns, as what was broadcast: then the other one tells.
    const auto over = [&](int operand, int dim) { return operands[operand].coefficients[size_t(dim)] != 0; };
    const bool first = over(0, a_.row) || over(1, a_.column), second = over(1, a_.row) || over(0, a_.column);
    const bool rows_first = first || !second;
    int q = rows_first ? 0 : 1, k = 1 - q;
    line(fmt::format("// a block of {}", name(value)));
    Side a{pointer_text(parameter(o.inputs[size_t(q)].value), at(operands[q], t_ + "_begin_", "", "")),
           operands[q].coefficients[size_t(a_.row)], operands[q].coefficients.back()};
    Side w{pointer_text(parameter(o.inputs[size_t(k)].value), at(operands[k], "", s_ + "_begin_", "")),
           operands[k].coefficients.back(), operands[k].coefficients[size_t(a_.column)]};
    product(o, length(t_), length(s_), fmt::format("{}", features(o)), a, w, {tile_.at(value), columns_, 1}, "0");
  }

  /// Whether the product runs over the columns of the block. The other operand does not tell where it is the same in
  /// all rows and columns, as what was broadcast.
  bool sums_columns(const LocalOp& o) const {
    const std::vector<Factor>& factors = (*l_.reference)[o.node].space.factors;
    const std::vector<int> dims = a_.dims_of(o, *l_.reference);
    for (size_t f = 0; f < factors.size(); ++f)
      if (factors[f].reduced() && dims[f] == a_.row) return false;
    return true;
  }

  /// Adds block x other operand, or its transpose x other operand, to the result.
  void add_product(ValueId value, const std::string& accumulate) {
    const LocalOp& o = op_of(value);
    size_t block = is_block(o.inputs[0].value) ? 0 : 1;
    const Operand& other = o.inputs[1 - block];
    Address read = over_dims(l_.layouts.read(o, int(1 - block)), o), written = over_dims(l_.layouts.written(o), o);
    const bool over_columns = sums_columns(o);
    int kept = over_columns ? a_.row : a_.column, summed = over_columns ? a_.column : a_.row;
    std::string m = n_.dims[size_t(kept)], k = n_.dims[size_t(summed)];
    auto begins = [&](const Address& address, bool rows) {
      return at(address, rows ? t_ + "_begin_" : "", rows ? "" : s_ + "_begin_", "");
    };
    line(fmt::format("// {} += {} block of {} * {}", parameter(value), over_columns ? "the" : "the transposed",
                     name(o.inputs[block].value), parameter(other.value)));
    const std::string& tile = tile_.at(o.inputs[block].value);
    Side a{tile, over_columns ? columns_ : 1, over_columns ? 1 : columns_};
    Side w{pointer_text(parameter(other.value), begins(read, !over_columns)), read.coefficients[size_t(summed)],
           read.coefficients.back()};
    Side c{pointer_text(parameter(value), begins(written, over_columns)), written.coefficients[size_t(kept)],
           written.coefficients.back()};
    product(o, length(m), fmt::format("{}", features(o)), length(k), a, w, c, accumulate);
  }

  // Elements.

  std::string expression(ValueId value) const {
    const LocalOp& o = op_of(value);
    std::vector<int> dims = a_.dims_of(o, *l_.reference);
    ExpressionLeaves leaves;
    leaves.input = [&](int j) -> Printed {
      ValueId read = o.inputs[size_t(j)].value;
      if (is_block(read)) return {variable(read), Printed::Binding::unary, false};
      bool integer = l_.local.values[read].type.dtype == DType::i32;
      std::string index = at(over_dims(l_.layouts.read(o, j), o), t_, s_, "");
      return {fmt::format("{}{}[{}]", is_half(type(read)) ? "(float)" : "", parameter(read), index),
              Printed::Binding::unary, integer};
    };
    leaves.factor = [&](int f) {
      int64_t lo = o.ranges[size_t(f)].lo;
      if (dims[size_t(f)] < 0 || a_.extent(dims[size_t(f)]) == 1) return fmt::format("{}", lo);
      const std::string& name = n_.dims[size_t(dims[size_t(f)])];
      return lo ? fmt::format("({} + {})", name, lo) : name;
    };
    leaves.random = [&](int stream) {
      Address index = over_dims(draw_number(o, l_.local.values[o.result].type.shape), o);
      return fmt::format("uniform(seed, {}, {}, step)", stream, at(index, t_, s_, ""));
    };
    return real_text(print(o.body, leaves), false);
  }

  void define(ValueId value) { line(fmt::format("const float {} = {};", variable(value), expression(value))); }

  void forward_row_block() {
    const ValueId mixed = a_.products[0];
    const LocalOp& o = op_of(mixed);
    Address result = over_dims(l_.layouts.written(o), o);
    std::string feature = "feature_", target = fmt::format("{}[{}]", parameter(mixed), at(result, t_, "", feature));
    std::string loop = fmt::format("for (int {0} = 0; {0} < {1}; ++{0})", feature, features(o));
    begin_rows();
    line(fmt::format("largest_[{0} - {0}_begin_] = -__builtin_inff();", t_));
    line(fmt::format("sum_[{0} - {0}_begin_] = 0.0f;", t_));
    end();
    begin_column_block();
    begin_rows();
    line(fmt::format("float* const row_ = {};", row_of(tiles_[0])));
    if (!a_.elements.empty()) {
      begin_columns();
      line(fmt::format("const float {} = row_[{} - {}_begin_];", variable(a_.scores[0]), s_, s_));
      for (ValueId v : a_.elements) define(v);
      line(fmt::format("row_[{} - {}_begin_] = {};", s_, s_, variable(a_.elements.back())));
      end();
    }
    line("// The row's maximum so far; what was added up under the last one is scaled to it.");
    line(fmt::format("const float before_ = largest_[{0} - {0}_begin_];", t_));
    line(fmt::format("const float now_ = max_f32(before_, row_max(row_, {}));", length(s_)));
    line("const float shift_ = now_ == -__builtin_inff() ? 0.0f : now_;");
    line("const float scale_ = exp_f32(before_ - shift_);");
    begin_columns();
    line(fmt::format("row_[{0} - {0}_begin_] = exp_f32(row_[{0} - {0}_begin_] - shift_);", s_));
    end();
    line(fmt::format("largest_[{0} - {0}_begin_] = now_;", t_));
    line(fmt::format("sum_[{0} - {0}_begin_] = sum_[{0} - {0}_begin_] * scale_ + row_sum(row_, {1});", t_, length(s_)));
    if (!a_.after.empty()) {
      begin_columns();
      line(fmt::format("const float {} = row_[{} - {}_begin_];", variable(a_.weights), s_, s_));
      for (ValueId v : a_.after) define(v);
      if (is_half(type(a_.after.back())))
        store_in_tile(a_.after.back());
      else
        line(fmt::format("row_[{} - {}_begin_] = {};", s_, s_, variable(a_.after.back())));
      end();
    }
    line(fmt::format("if ({}_begin_ > 0)", s_));
    line("  " + loop + " " + target + " *= scale_;");
    end();
    add_product(mixed, s_ + "_begin_ > 0");
    end();
    begin_rows();
    line(fmt::format("const float total_ = sum_[{0} - {0}_begin_];", t_));
    line(loop + " " + target + " /= total_;");
    store_row(a_.maximum, fmt::format("largest_[{0} - {0}_begin_]", t_));
    store_row(a_.total, "total_");
    end();
  }

  void store_row(ValueId value, const std::string& text) {
    if (!g_.members[size_t(member_.at(value))].stored) return;
    const LocalOp& o = op_of(value);
    line(fmt::format("{}[{}] = {};", parameter(value), at(over_dims(l_.layouts.written(o), o), t_, "", ""), text));
  }

  void backward_row_block() {
    begin_column_block();
    begin_rows();
    begin_columns();
    for (ValueId v : a_.scores) line(fmt::format("const float {} = {};", variable(v), in_tile(v)));
    for (ValueId v : a_.elements) define(v);
    for (const auto& [value, tile] : tile_)
      if (!std::count(a_.scores.begin(), a_.scores.end(), value)) store_in_tile(value);
    for (ValueId v : a_.sums) {
      const LocalOp& o = op_of(v);
      line(fmt::format("{}[{}] += {};", parameter(v), at(over_dims(l_.layouts.written(o), o), t_, s_, ""),
                       expression(v)));
    }
    end();
    end();
    for (ValueId v : a_.products) add_product(v, "1");
    end();
  }

  const Lowered& l_;
  const Group& g_;
  const FusedAttention& a_;
  const AttentionCall& call_;
  const AttentionNames& n_;
  std::map<ValueId, int> member_;
  std::map<ValueId, std::string> tile_;
  std::vector<std::string> tiles_;
  std::vector<ValueId> rounded_;  ///< those with tiles of their own
  int64_t rows_, columns_;
  std::string t_, s_, stop_;
  std::string out_;
  int depth_ = 0;
};

}  // namespace

AttentionCall attention_call(const Lowered& lowered, const Group& group) {
  AttentionCall out;
  auto add = [&](ValueId value, bool written) {
    ValueId storage = lowered.storage(value);
    for (Parameter& p : out.parameters)
      if (p.value == storage) {
        p.written = p.written || written;
        return;
      }
    out.parameters.push_back({storage, lowered.local.values[value].type.dtype, written});
  };
  for (const Member& member : group.members) {
    const LocalOp& op = lowered.op(member);
    for (size_t j = 0; j < op.inputs.size(); ++j)
      if (member.source[j] < 0) add(op.inputs[j].value, false);
    if (member.stored) add(op.result, true);
    bool random = mentions(op.body, ExprKind::random);
    out.uses_seed = out.uses_seed || random;
    out.uses_step = out.uses_step || random || mentions(op.body, ExprKind::step);
    const auto follows = [](const Operand& operand) { return follows_turn(operand.access); };
    out.uses_turn =
        out.uses_turn || op.draws_per_turn != 0 || follows_turn(op.output) || std::ranges::any_of(op.inputs, follows);
  }
  return out;
}

AttentionNames user_names(const Lowered& lowered, const Group& group, const AttentionCall& call, std::string function) {
  AttentionNames out;
  out.function = std::move(function);
  Names taken;
  for (const Parameter& p : call.parameters) out.parameters.push_back(taken.take(lowered.names[p.value]));
  for (const std::string& name : group.attention->names) out.dims.push_back(taken.take(name));
  for (const Member& member : group.members) out.members.push_back(lowered.names[lowered.op(member).result]);
  return out;
}

AttentionNames numbered_names(const Group& group, const AttentionCall& call) {
  AttentionNames out;
  out.function = "f";
  for (size_t i = 0; i < call.parameters.size(); ++i) out.parameters.push_back(fmt::format("p{}", i));
  for (size_t i = 0; i < group.attention->names.size(); ++i) out.dims.push_back(fmt::format("i{}", i));
  for (size_t i = 0; i < group.members.size(); ++i) out.members.push_back(fmt::format("m{}", i));
  return out;
}

std::string attention_text(const Lowered& lowered, const Group& group, const AttentionCall& call,
                           const AttentionNames& names) {
  return AttentionPrinter(lowered, group, call, names).run();
}

}  // namespace hetsynth::codegen
