// Kernels of fused groups: element by element, row by row with reductions in between, or long reductions in chunks.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "codegen/annotate.h"
#include "codegen/cuda/kernel_writer.h"
#include "dsl/base/error.h"

namespace hetsynth::codegen::cuda {
namespace {

constexpr int64_t most_blocks = 65536;

int64_t blocks_for(int64_t items, int64_t per_block) {
  return std::clamp<int64_t>((items + per_block - 1) / per_block, 1, most_blocks);
}

/// Where the emitted code stands: how to reach positions, rows and columns, and where their counters are defined.
struct Spot {
  Counters* row_counters = nullptr;
  Counters* column_counters = nullptr;
};

class GroupPrinter {
 public:
  GroupPrinter(const KernelContext& context, const KernelGroup& group, std::string name)
      : context_(context),
        group_(group),
        name_(std::move(name)),
        arguments_(context),
        index_(index_type(context, group.ops)) {
    for (int i : group.ops) {
      const LocalOp& op = context.lowered.local.ops[i];
      comment_ += "// " + origin_text(context.lowered, op) + "\n";
      arguments_.note(op.body);
    }
    find_levels();
  }

  StepKernels print() {
    if (!group_.reduces) return {{elementwise()}, {}};
    if (group_.splits > 1) return split();
    return {{rowwise()}, {}};
  }

 private:
  const LocalOp& op(size_t member) const { return context_.lowered.local.ops[group_.ops[member]]; }
  const DomainRole& role(size_t member) const { return group_.roles[member]; }
  bool is(size_t member, DomainRole::Kind kind) const { return role(member).kind == kind; }
  bool stored(size_t member) const { return context_.stored[op(member).result]; }
  std::string element(size_t member) const { return element_name(context_, op(member)); }
  DType dtype(ValueId value) const { return context_.lowered.local.values[value].type.dtype; }
  std::string memory_type(ValueId value) const { return context_.types.memory_text(dtype(value)); }
  std::string stored_element(size_t member) const {
    return context_.types.stored_text(dtype(op(member).result), element(member));
  }
  bool is_max(size_t member) const { return op(member).reduction() == FactorKind::max; }

  /// Full and reducing operators: the pass over the columns in which they can first be computed. Row values: the pass
  /// before which they are.
  void find_levels() {
    level_.assign(group_.ops.size(), 0);
    for (size_t m = 0; m < group_.ops.size(); ++m)
      for (int source : group_.sources[m])
        if (source >= 0)
          level_[m] = std::max(level_[m], level_[source] + (is(source, DomainRole::Kind::reduce) ? 1 : 0));
  }

  // ---- counters ----

  std::string row_counter(const Spot& place, int64_t stride, int64_t extent, const std::string& wish) const {
    return place.row_counters->take(row_word(), stride, stride * extent == group_.rows ? 0 : extent, wish);
  }
  std::string row_word() const { return group_.reduces ? "row" : "at"; }

  std::string position_counter(const Spot& place, int64_t stride, int64_t extent, const std::string& wish) const {
    if (!group_.reduces) return row_counter(place, stride, extent, wish);
    int64_t rows = group_.rows, columns = group_.columns;
    if (group_.columns_outside) {
      if (stride >= rows) return column_counter(place, stride / rows, extent, wish);
      if (stride * extent <= rows) return row_counter(place, stride, extent, wish);
    } else {
      if (stride >= columns && stride % columns == 0) return row_counter(place, stride / columns, extent, wish);
      if (stride * extent <= columns) return column_counter(place, stride, extent, wish);
    }
    return place.column_counters->take("at", stride, stride * extent == rows * columns ? 0 : extent, wish);
  }
  std::string column_counter(const Spot& place, int64_t stride, int64_t extent, const std::string& wish) const {
    return place.column_counters->take("column", stride, stride * extent == group_.columns ? 0 : extent, wish);
  }

  std::vector<std::string> counters(const Spot& place, size_t member) const {
    const LocalOp& o = op(member);
    std::vector<std::string> out(o.factors.size(), "0");
    for (size_t f = 0; f < o.factors.size(); ++f) {
      int64_t stride = role(member).stride[f], extent = o.extent(int(f));
      if (stride == 0 || extent == 1) continue;
      out[f] = is(member, DomainRole::Kind::row) ? row_counter(place, stride, extent, o.factors[f].name)
                                                 : position_counter(place, stride, extent, o.factors[f].name);
    }
    if (role(member).lookup) out[o.one_hot->factor] = "at_" + context_.lowered.names[o.result];
    return out;
  }

  // ---- elements ----

  /// Index text if the operand is read exactly at the position (or the row) the group is at.
  std::optional<std::string> direct_index(size_t member, int input) const {
    const LocalOp& o = op(member);
    if (o.inputs[input].access.zero_outside) return std::nullopt;
    Address read = address_of(o, input);
    if (!read.affine() || read.constant != 0) return std::nullopt;
    for (size_t f = 0; f < o.factors.size(); ++f)
      if (o.extent(int(f)) != 1 && read.coefficients[f] != role(member).stride[f]) return std::nullopt;
    return is(member, DomainRole::Kind::row) ? row_word() : "at";
  }

  Address address_of(const LocalOp& o, int input) const {
    Address read = context_.lowered.layouts.read(o, input);
    read.constant += context_.lowered.layouts.of[o.inputs[input].value].offset;
    return read;
  }

  std::string operand(const Spot& place, size_t member, int input) {
    const LocalOp& o = op(member);
    const Operand& from = o.inputs[input];
    bool integer = context_.lowered.local.values[from.value].type.dtype == DType::i32;
    if (int source = group_.sources[member][input]; source >= 0) return element(source);
    std::string pointer = arguments_.read(from.value);
    if (std::optional<std::string> direct = direct_index(member, input)) {
      if (vector_ && *direct == "at") {
        vector_loads_.insert({pointer, memory_type(from.value)});
        return pointer + "_four[v]";
      }
      return fmt::format("{}[{}]", pointer, *direct);
    }
    std::vector<std::string> names = counters(place, member);
    std::string text = fmt::format("{}[{}]", pointer, address_text(address_of(o, input), names));
    if (from.access.zero_outside) {
      std::string inside = inside_text(o, from.access, context_.lowered.local.values[from.value].ranges, names);
      if (!inside.empty()) text = fmt::format("({} ? {} : {})", inside, text, integer ? "0" : "0.0f");
    }
    return text;
  }

  ElementScope scope(const Spot& place, size_t member) {
    const LocalOp& o = op(member);
    ElementScope out{counters(place, member), {}, {}, ""};
    for (const Operand& from : o.inputs)
      out.integer.push_back(context_.lowered.local.values[from.value].type.dtype == DType::i32);
    out.operand = [this, place, member](int input) { return operand(place, member, input); };
    if (mentions_random(o.body))
      out.global_position = global_position_text(o, (*context_.lowered.reference)[o.node].type.shape, out.counters);
    return out;
  }

  /// The body; for a lookup, the looked-up index is defined first and guards what it leads to.
  std::string value(Lines& lines, const Spot& place, size_t member) {
    const LocalOp& o = op(member);
    ElementScope s = scope(place, member);
    if (!role(member).lookup) {
      bool integer = context_.lowered.local.values[o.result].type.dtype == DType::i32;
      if (integer) return integer_body_text(o, o.body, s);
      std::set<std::string> declared;
      s.declare = [&](const std::string& word, const std::string& text) {
        std::string name = part_name(member, word, declared);
        lines.add(fmt::format("const {} {} = {};", context_.types.real, name, text));
        return name;
      };
      return body_text(o, o.body, s);
    }
    std::string name = s.counters[o.one_hot->factor];
    const Range& range = o.ranges[o.one_hot->factor];
    std::string index = operand(place, member, o.one_hot->operand);
    lines.add(fmt::format("const {} {} = {}{};", index_, name, index, range.lo ? fmt::format(" - {}", range.lo) : ""));
    return fmt::format("{} >= 0 && {} < {} ? {} : 0.0f", name, name, range.hi - range.lo,
                       body_text(o, o.one_hot->rest, s));
  }

  /// "h_tanh_": a variable for a part of the member's value; `declared` gains it.
  std::string part_name(size_t member, const std::string& word, std::set<std::string>& declared) const {
    const std::vector<std::string>& names = context_.lowered.names;
    std::string base = element(member) + word, name = base;
    for (int n = 2; std::count(names.begin(), names.end(), name) || !declared.insert(name).second; ++n)
      name = fmt::format("{}{}", base, n);
    return name + "_";
  }

  void define(Lines& lines, const Spot& place, size_t member) {
    std::string text = value(lines, place, member);
    DType dtype = context_.lowered.local.values[op(member).result].type.dtype;
    lines.add(fmt::format("const {} {} = {};", context_.types.value_text(dtype), element(member), text));
  }

  /// Operators of the domain that the given ones need in the same pass, in order.
  std::vector<size_t> with_sources(const std::set<size_t>& wanted) const {
    std::set<size_t> needed = wanted;
    for (size_t m = group_.ops.size(); m-- > 0;)
      if (needed.count(m))
        for (int source : group_.sources[m])
          if (source >= 0 && is(source, DomainRole::Kind::full)) needed.insert(size_t(source));
    return {needed.begin(), needed.end()};
  }

  // ---- one element per thread ----

  bool can_vectorise() const {
    if (group_.rows % 4 != 0) return false;
    for (size_t m = 0; m < group_.ops.size(); ++m) {
      if (stored(m)) return true;
      for (size_t j = 0; j < op(m).inputs.size(); ++j)
        if (group_.sources[m][j] < 0 && direct_index(m, int(j))) return true;
    }
    return false;
  }

  Kernel elementwise() {
    vector_ = can_vectorise();
    Counters row(index_);
    Spot place{&row, &row};
    Lines body(vector_ ? 3 : 2);
    std::set<size_t> wanted;
    for (size_t m = 0; m < group_.ops.size(); ++m)
      if (stored(m)) wanted.insert(m);
    std::vector<std::pair<std::string, std::string>> vector_stores;
    for (size_t m : with_sources(wanted)) {
      define(body, place, m);
      if (!stored(m)) continue;
      std::string pointer = arguments_.written(op(m).result);
      body.add(vector_ ? fmt::format("{}_result[v] = {};", pointer, stored_element(m))
                       : fmt::format("{}[at] = {};", pointer, stored_element(m)));
      if (vector_) vector_stores.push_back({pointer, memory_type(op(m).result)});
    }
    Lines lines(1);
    int64_t threads = 256, step = threads * (vector_ ? 4 : 1), blocks = blocks_for(group_.rows, step);
    std::string start = vector_ ? "4 * (" : "";
    lines.open(fmt::format(
        "for ({0} {1} = {2}({0})blockIdx.x * {3} + threadIdx.x{4}; {1} < {5}; {1} += ({0})gridDim.x * {6}) {{", index_,
        vector_ ? "first" : "at", start, threads, vector_ ? ")" : "", group_.rows, step));
    if (vector_) open_vector(lines, vector_stores);
    Lines counters(lines.depth());
    row.write(counters, body.text());
    if (vector_ && mentions_word(counters.text() + body.text(), "at"))
      lines.add(fmt::format("const {} at = first + v;", index_));
    lines.append(counters.text());
    lines.append(body.text());
    if (vector_) {
      lines.close();
      for (const auto& [pointer, type] : vector_stores)
        lines.add(fmt::format("store4({0} + first, {0}_result);", pointer));
    }
    lines.close();
    return finish(
        name_, lines, blocks, int(threads),
        comment_ + fmt::format("// {} elements{}\n", group_.rows, vector_ ? ", four per thread at a time" : ""));
  }

  void open_vector(Lines& lines, const std::vector<std::pair<std::string, std::string>>& stores) const {
    for (const auto& [pointer, type] : vector_loads_) {
      lines.add(fmt::format("{} {}_four[4];", type, pointer));
      lines.add(fmt::format("load4({0}_four, {0} + first);", pointer));
    }
    for (const auto& [pointer, type] : stores) lines.add(fmt::format("{} {}_result[4];", type, pointer));
    lines.add("#pragma unroll");
    lines.open("for (int v = 0; v < 4; ++v) {");
  }

  // ---- rows with reductions ----

  static int threads_per_row(const KernelGroup& g) {
    if (g.columns_outside || g.columns < 16) return 1;
    if (g.columns <= 512) return 32;
    if (g.columns <= 4096) return 256;
    return 1024;
  }

  std::string identity(size_t member) const { return is_max(member) ? "-__builtin_inff()" : "0.0f"; }

  std::string accumulated(size_t member, const std::string& sum, const std::string& term) const {
    return is_max(member) ? fmt::format("{0} = max_f32({0}, {1});", sum, term) : fmt::format("{} += {};", sum, term);
  }

  std::string position_text() const {
    return group_.columns_outside ? fmt::format("column * {} + row", group_.rows)
                                  : fmt::format("row * {} + column", group_.columns);
  }

  /// One pass over the columns `from`, `from + step`, ... below `to`: stores and accumulates what belongs to the level.
  void pass(Lines& lines, Counters& row, const std::set<size_t>& wanted, const std::string& from, const std::string& to,
            int64_t step) {
    Counters column(index_, {&row});
    Spot place{&row, &column};
    Lines body(lines.depth() + 1);
    for (size_t m : with_sources(wanted)) {
      if (is(m, DomainRole::Kind::reduce)) {
        std::string term = value(body, place, m);
        body.add(accumulated(m, element(m), term));
        continue;
      }
      define(body, place, m);
      if (wanted.count(m)) body.add(fmt::format("{}[at] = {};", arguments_.written(op(m).result), stored_element(m)));
    }
    lines.open(fmt::format("for ({0} column = {1}; column < {2}; column += {3}) {{", index_, from, to, step));
    Lines counters(lines.depth());
    column.write(counters, body.text());
    if (mentions_word(counters.text() + body.text(), "at"))
      lines.add(fmt::format("const {} at = {};", index_, position_text()));
    lines.append(counters.text());
    lines.append(body.text());
    lines.close();
  }

  std::set<size_t> of_level(int level) const {
    std::set<size_t> out;
    for (size_t m = 0; m < group_.ops.size(); ++m) {
      bool sink = is(m, DomainRole::Kind::reduce) || (is(m, DomainRole::Kind::full) && stored(m));
      if (sink && level_[m] == level) out.insert(m);
    }
    return out;
  }

  /// Values of the row that are known before the pass of that level.
  void row_values(Lines& lines, const Spot& place, int level, int per_row) {
    for (size_t m = 0; m < group_.ops.size(); ++m) {
      if (!is(m, DomainRole::Kind::row) || level_[m] != level) continue;
      define(lines, place, m);
      if (stored(m)) store_row(lines, m, per_row);
    }
  }

  void store_row(Lines& lines, size_t member, int per_row) {
    std::string guard = per_row > 1 ? "if (lane == 0) " : "";
    lines.add(fmt::format("{}{}[row] = {};", guard, arguments_.written(op(member).result), stored_element(member)));
  }

  Kernel rowwise() {
    int per_row = threads_per_row(group_);
    int threads = std::max(256, per_row), rows_per_block = threads / per_row;
    Counters row(index_);
    Lines body(2);
    int last = *std::max_element(level_.begin(), level_.end());
    for (int level = 0; level <= last + 1; ++level) {
      row_values(body, {&row, &row}, level, per_row);
      std::set<size_t> wanted = of_level(level);
      if (wanted.empty()) continue;
      for (size_t m : wanted)
        if (is(m, DomainRole::Kind::reduce))
          body.add(fmt::format("{} {} = {};", context_.types.real, element(m), identity(m)));
      pass(body, row, wanted, per_row > 1 ? "lane" : "0", std::to_string(group_.columns), per_row);
      for (size_t m : wanted) {
        if (!is(m, DomainRole::Kind::reduce)) continue;
        if (per_row > 1)
          body.add(fmt::format("{0} = {1}_{2}({0});", element(m), per_row == 32 ? "warp" : "block",
                               is_max(m) ? "max" : "sum"));
        if (stored(m)) store_row(body, m, per_row);
      }
    }
    Lines lines(1);
    if (per_row > 1) lines.add(fmt::format("const int lane = threadIdx.x{};", per_row == threads ? "" : " % 32"));
    std::string start = per_row == threads ? fmt::format("({})blockIdx.x", index_)
                        : per_row == 1     ? fmt::format("({})blockIdx.x * {} + threadIdx.x", index_, threads)
                                       : fmt::format("({})blockIdx.x * {} + threadIdx.x / 32", index_, rows_per_block);
    lines.open(fmt::format("for ({0} row = {1}; row < {2}; row += ({0})gridDim.x * {3}) {{", index_, start, group_.rows,
                           rows_per_block));
    row.write(lines, body.text());
    lines.append(body.text());
    lines.close();
    std::string how = per_row == 1 ? "one thread" : per_row == 32 ? "one warp" : "one block";
    return finish(name_, lines, blocks_for(group_.rows, rows_per_block), threads,
                  comment_ + fmt::format("// {} rows of {}, {} for each row\n", group_.rows, group_.columns, how));
  }

  // ---- long reductions in chunks ----

  StepKernels split() {
    StepKernels out;
    std::vector<size_t> reductions;
    for (size_t m = 0; m < group_.ops.size(); ++m)
      if (is(m, DomainRole::Kind::reduce)) reductions.push_back(m);
    out.scratch_bytes.assign(reductions.size(), group_.splits * group_.rows * int64_t(sizeof(float)));
    out.kernels.push_back(group_.columns_outside ? partial_columns(reductions) : partial_rows(reductions));
    arguments_ = Arguments(context_);
    out.kernels.push_back(combine(reductions));
    return out;
  }

  std::string partial_name(size_t member) const { return "partial_" + context_.lowered.names[op(member).result]; }

  std::set<size_t> all_sinks() const {
    std::set<size_t> wanted = of_level(0);
    int last = *std::max_element(level_.begin(), level_.end());
    HETSYNTH_CHECK(last == 0, "a chunked reduction has one pass");
    return wanted;
  }

  int64_t chunk_length() const { return (group_.columns + group_.splits - 1) / group_.splits; }

  void chunk_bounds(Lines& lines) const {
    lines.add(fmt::format("const {0} first = chunk * ({0}){1};", index_, chunk_length()));
    lines.add(
        fmt::format("const {0} last = first + {1} < {2} ? first + {1} : {2};", index_, chunk_length(), group_.columns));
  }

  /// One block for a chunk of a row.
  Kernel partial_rows(const std::vector<size_t>& reductions) {
    Counters row(index_);
    Lines body(1);
    for (size_t m : reductions) body.add(fmt::format("{} {} = {};", context_.types.real, element(m), identity(m)));
    pass(body, row, all_sinks(), "first + threadIdx.x", "last", 256);
    for (size_t i = 0; i < reductions.size(); ++i) {
      size_t m = reductions[i];
      arguments_.scratch(int(i), partial_name(m), true);
      body.add(fmt::format("{0} = block_{1}({0});", element(m), is_max(m) ? "max" : "sum"));
      body.add(
          fmt::format("if (threadIdx.x == 0) {}[chunk * {} + row] = {};", partial_name(m), group_.rows, element(m)));
    }
    Lines lines(1);
    lines.add(
        fmt::format("const {} row = blockIdx.x / {}, chunk = blockIdx.x % {};", index_, group_.splits, group_.splits));
    chunk_bounds(lines);
    row.write(lines, body.text());
    lines.append(body.text());
    return finish(name_, lines, group_.rows * group_.splits, 256,
                  comment_ + fmt::format("// {} rows of {} in {} chunks, one block for each chunk\n", group_.rows,
                                         group_.columns, group_.splits));
  }

  /// 32 neighbouring rows by 8 warps for a chunk of their columns.
  Kernel partial_columns(const std::vector<size_t>& reductions) {
    Counters row(index_);
    Lines body(2);
    pass(body, row, all_sinks(), "first + threadIdx.x / 32", "last", 8);
    Lines lines(1);
    int64_t tiles = (group_.rows + 31) / 32;
    lines.add(fmt::format("const {} row = blockIdx.x % {} * 32 + threadIdx.x % 32, chunk = blockIdx.x / {};", index_,
                          tiles, tiles));
    chunk_bounds(lines);
    for (size_t m : reductions) lines.add(fmt::format("{} {} = {};", context_.types.real, element(m), identity(m)));
    lines.open(fmt::format("if (row < {}) {{", group_.rows));
    row.write(lines, body.text());
    lines.append(body.text());
    lines.close();
    for (size_t i = 0; i < reductions.size(); ++i) {
      size_t m = reductions[i];
      arguments_.scratch(int(i), partial_name(m), true);
      lines.add(fmt::format("{0} = stacked_{1}({0});", element(m), is_max(m) ? "max" : "sum"));
      lines.add(fmt::format("if (threadIdx.x < 32 && row < {}) {}[chunk * {} + row] = {};", group_.rows,
                            partial_name(m), group_.rows, element(m)));
    }
    return finish(
        name_, lines, tiles * group_.splits, 256,
        comment_ + fmt::format("// {} sums of {} strided elements in {} chunks, one block for 32 sums and a chunk\n",
                               group_.rows, group_.columns, group_.splits));
  }

  /// Adds up the chunks of every row in their order.
  Kernel combine(const std::vector<size_t>& reductions) {
    Lines lines(1);
    lines.open(
        fmt::format("for ({0} row = ({0})blockIdx.x * 256 + threadIdx.x; row < {1}; row += ({0})gridDim.x * 256) {{",
                    index_, group_.rows));
    std::string comment;
    for (size_t i = 0; i < reductions.size(); ++i) {
      size_t m = reductions[i];
      comment += fmt::format("// {} from the results of {} chunks, in their order\n",
                             context_.lowered.names[op(m).result], group_.splits);
      arguments_.scratch(int(i), partial_name(m), false);
      lines.add(fmt::format("{} {} = {};", context_.types.real, element(m), identity(m)));
      lines.add(fmt::format(
          "for (int chunk = 0; chunk < {}; ++chunk) {}", group_.splits,
          accumulated(m, element(m), fmt::format("{}[chunk * ({}){} + row]", partial_name(m), index_, group_.rows))));
      lines.add(fmt::format("{}[row] = {};", arguments_.written(op(m).result), stored_element(m)));
    }
    lines.close();
    return finish(name_ + "_combined", lines, blocks_for(group_.rows, 256), 256, comment);
  }

  Kernel finish(const std::string& name, const Lines& lines, int64_t blocks, int threads,
                const std::string& comment) const {
    Kernel kernel;
    kernel.name = name;
    kernel.arguments = arguments_.list();
    kernel.text = kernel_head(comment, name, threads, arguments_.declaration()) + lines.text() + "}\n";
    kernel.blocks = blocks;
    kernel.threads = threads;
    return kernel;
  }

  const KernelContext& context_;
  const KernelGroup& group_;
  std::string name_;
  Arguments arguments_;
  std::string index_;
  std::string comment_;
  std::vector<int> level_;
  bool vector_ = false;
  std::set<std::pair<std::string, std::string>> vector_loads_;  ///< pointer, type of its elements
};

}  // namespace

StepKernels group_kernels(const KernelContext& context, const KernelGroup& group, const std::string& name) {
  return GroupPrinter(context, group, name).print();
}

}  // namespace hetsynth::codegen::cuda
