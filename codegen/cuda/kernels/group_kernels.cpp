// Kernels of fused groups: element by element, or row by row with reductions in between.
#include "codegen/cuda/kernels/group_printer.h"
#include "codegen/text/expression.h"

namespace hetsynth::codegen::cuda {

/// Of a thread that walks the columns of a row alone.
static constexpr int64_t turns_at_once = 4;

StepKernels GroupPrinter::print() {
  if (!group_.reduces) return {{elementwise()}, {}};
  if (group_.splits > 1) return split();
  return {{rowwise()}, {}};
}

std::string GroupPrinter::stored_element(size_t member) const {
  return context_.types.stored_text(dtype(op(member).result), element(member));
}

void GroupPrinter::find_levels() {
  level_.assign(group_.ops.size(), 0);
  for (size_t m = 0; m < group_.ops.size(); ++m)
    for (int source : group_.sources[m])
      if (source >= 0) level_[m] = std::max(level_[m], level_[source] + (is(source, DomainRole::Kind::reduce) ? 1 : 0));
}

std::string GroupPrinter::row_counter(const GroupSpot& place, int64_t stride, int64_t extent,
                                      const std::string& wish) const {
  return place.row_counters->take(row_word(), stride, stride * extent == group_.rows ? 0 : extent, wish);
}

std::string GroupPrinter::position_counter(const GroupSpot& place, int64_t stride, int64_t extent,
                                           const std::string& wish) const {
  if (!group_.reduces) return row_counter(place, stride, extent, wish);
  // Of the outer one of rows and columns where whole turns of the inner one are a step of the factor, of the inner one
  // where the factor goes round a whole number of times in each turn of it; else the factor straddles both.
  const int64_t rows = group_.rows, columns = group_.columns, inner = group_.columns_outside ? rows : columns;
  const auto counter = [&](bool of_column, int64_t step) {
    return of_column ? column_counter(place, step, extent, wish) : row_counter(place, step, extent, wish);
  };
  if (stride % inner == 0) return counter(group_.columns_outside, stride / inner);
  if (inner % (stride * extent) == 0) return counter(!group_.columns_outside, stride);
  return place.column_counters->take("at", stride, stride * extent == rows * columns ? 0 : extent, wish);
}

std::string GroupPrinter::column_counter(const GroupSpot& place, int64_t stride, int64_t extent,
                                         const std::string& wish) const {
  return place.column_counters->take("column", stride, stride * extent == group_.columns ? 0 : extent, wish);
}

std::vector<std::string> GroupPrinter::counters(const GroupSpot& place, size_t member) const {
  const LocalOp& o = op(member);
  std::vector<std::string> out(o.factors.size(), "0");
  for (size_t f = 0; f < o.factors.size(); ++f) {
    int64_t stride = role(member).stride[f], extent = o.extent(int(f));
    if (stride == 0 || extent == 1) continue;
    out[f] = is(member, DomainRole::Kind::row) ? row_counter(place, stride, extent, o.factors[f].name)
                                               : position_counter(place, stride, extent, o.factors[f].name);
  }
  if (role(member).lookup)
    out[o.one_hot->factor] = "at_" + context_.lowered.names[o.result] + "_";  // no counter ends so
  return out;
}

std::optional<std::string> GroupPrinter::direct_index(size_t member, int input) const {
  const LocalOp& o = op(member);
  if (o.inputs[input].access.zero_outside) return std::nullopt;
  Address read = address_of(o, input);
  if (!read.affine() || read.constant != 0) return std::nullopt;
  for (size_t f = 0; f < o.factors.size(); ++f)
    if (o.extent(int(f)) != 1 && read.coefficients[f] != role(member).stride[f]) return std::nullopt;
  return is(member, DomainRole::Kind::row) ? row_word() : "at";
}

Address GroupPrinter::address_of(const LocalOp& o, int input) const {
  Address read = context_.lowered.layouts.read(o, input);
  read.constant += context_.lowered.layouts.of[o.inputs[input].value].offset;
  return read;
}

std::string GroupPrinter::operand(const GroupSpot& place, size_t member, int input) {
  const LocalOp& o = op(member);
  const Operand& from = o.inputs[input];
  bool integer = context_.lowered.local.values[from.value].type.dtype == DType::i32;
  if (int source = group_.sources[member][input]; source >= 0) return element(source);
  std::string pointer = arguments_.read(from.value);
  if (std::optional<std::string> direct = direct_index(member, input)) {
    if (vector_ && *direct == "at") return loaded_ahead(from.value, pointer, "at");
    return fmt::format("{}[{}]", pointer, *direct);
  }
  std::vector<std::string> names = counters(place, member);
  if (vector_ && runs_along_columns(member, input)) {
    std::vector<std::string> first = names;
    std::ranges::replace(first, "column", "start");
    return loaded_ahead(from.value, pointer, address_text(address_of(o, input), first));
  }
  std::string text = fmt::format("{}[{}]", pointer, address_text(address_of(o, input), names));
  if (from.access.zero_outside) {
    std::string inside = inside_text(o, from.access, context_.lowered.local.values[from.value].ranges, names);
    if (!inside.empty()) text = fmt::format("({} ? {} : {})", inside, text, integer ? "0" : "0.0f");
  }
  return text;
}

bool GroupPrinter::runs_along_columns(size_t member, int input) const {
  const LocalOp& o = op(member);
  const Address read = address_of(o, input);
  const bool plain = group_.reduces && !role(member).lookup && !is(member, DomainRole::Kind::row) &&
                     !o.inputs[input].access.zero_outside && read.affine() && read.constant % 4 == 0;
  if (!plain) return false;
  bool along = false;
  for (size_t f = 0; f < o.factors.size(); ++f) {
    const int64_t stride = role(member).stride[f], coefficient = read.coefficients[f];
    if (o.extent(int(f)) == 1 || coefficient == 0) continue;
    if (stride == 1 && o.extent(int(f)) == group_.columns && coefficient == 1)
      along = true;
    else if (stride % group_.columns != 0 || coefficient % 4 != 0)
      return false;
  }
  return along;
}

std::string GroupPrinter::loaded_ahead(ValueId value, const std::string& pointer, const std::string& index) {
  // One array may be read at several places.
  std::string name = pointer + "_four";
  const auto taken = [&](const VectorLoad& load) { return load.name == name && load.index != index; };
  for (int n = 2; std::ranges::any_of(vector_loads_, taken); ++n) name = fmt::format("{}_{}_four", pointer, n);
  vector_loads_.insert({name, pointer, memory_type(value), index});
  return name + "[v]";
}

ElementScope GroupPrinter::scope(const GroupSpot& place, size_t member) {
  const LocalOp& o = op(member);
  ElementScope out{counters(place, member), {}, {}, ""};
  for (const Operand& from : o.inputs)
    out.integer.push_back(context_.lowered.local.values[from.value].type.dtype == DType::i32);
  out.operand = [this, place, member](int input) { return operand(place, member, input); };
  if (mentions(o.body, ExprKind::random))
    out.global_position = global_position_text(o, (*context_.lowered.reference)[o.node].type.shape, out.counters);
  return out;
}

std::string GroupPrinter::value(Lines& lines, const GroupSpot& place, size_t member) {
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

std::string GroupPrinter::part_name(size_t member, const std::string& word, std::set<std::string>& declared) const {
  const std::vector<std::string>& names = context_.lowered.names;
  std::string base = element(member) + word, name = base;
  for (int n = 2; std::count(names.begin(), names.end(), name) || !declared.insert(name).second; ++n)
    name = fmt::format("{}{}", base, n);
  return name + "_";
}

void GroupPrinter::define(Lines& lines, const GroupSpot& place, size_t member) {
  std::string text = value(lines, place, member);
  DType dtype = context_.lowered.local.values[op(member).result].type.dtype;
  lines.add(fmt::format("const {} {} = {};", context_.types.value_text(dtype), element(member), text));
}

std::vector<size_t> GroupPrinter::with_sources(const std::set<size_t>& wanted) const {
  std::set<size_t> needed = wanted;
  for (size_t m = group_.ops.size(); m-- > 0;)
    if (needed.count(m))
      for (int source : group_.sources[m])
        if (source >= 0 && is(source, DomainRole::Kind::full)) needed.insert(size_t(source));
  return {needed.begin(), needed.end()};
}

bool GroupPrinter::can_vectorise() const {
  if (group_.rows % 4 != 0) return false;
  for (size_t m = 0; m < group_.ops.size(); ++m) {
    if (stored(m)) return true;
    for (size_t j = 0; j < op(m).inputs.size(); ++j)
      if (group_.sources[m][j] < 0 && direct_index(m, int(j))) return true;
  }
  return false;
}

Kernel GroupPrinter::elementwise() {
  vector_ = can_vectorise();
  Counters row(index_);
  GroupSpot place{&row, &row};
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
  if (vector_) open_vector(lines, vector_stores, "first");
  Lines counters(lines.depth());
  row.write(counters, body.text());
  if (vector_ && mentions_word(counters.text() + body.text(), "at"))
    lines.add(fmt::format("const {} at = first + v;", index_));
  lines.append(counters.text());
  lines.append(body.text());
  if (vector_) close_vector(lines, vector_stores, "first");
  lines.close();
  return finish(
      name_, lines, blocks, int(threads),
      comment_ + fmt::format("// {} elements{}\n", group_.rows, vector_ ? ", four per thread at a time" : ""));
}

void GroupPrinter::open_vector(Lines& lines, const std::vector<std::pair<std::string, std::string>>& stores,
                               const std::string& at) const {
  for (const VectorLoad& load : vector_loads_) {
    lines.add(fmt::format("{} {}[4];", load.type, load.name));
    const std::string from = pointer_text(load.pointer, load.index == "at" ? at : load.index);
    lines.add(fmt::format("load4({}, {});", load.name, from));
  }
  for (const auto& [pointer, type] : stores) lines.add(fmt::format("{} {}_result[4];", type, pointer));
  lines.add("#pragma unroll");
  lines.open("for (int v = 0; v < 4; ++v) {");
}

void GroupPrinter::close_vector(Lines& lines, const std::vector<std::pair<std::string, std::string>>& stores,
                                const std::string& at) {
  lines.close();
  for (const auto& [pointer, type] : stores) lines.add(fmt::format("store4({0} + {1}, {0}_result);", pointer, at));
}

int GroupPrinter::threads_per_row(const KernelGroup& g) {
  if (g.columns_outside || g.columns < 16) return 1;
  // A warp needs no barriers, and reads rows of some hundred elements, as those of GPT-2's width, four at a time, where
  // threads of a block would have too few of them. Eight rows a block: there must be enough to fill a GPU.
  constexpr int64_t rows_that_fill_a_gpu = 8192;
  if (g.columns <= 512 || (g.columns <= 1024 && g.rows >= rows_that_fill_a_gpu)) return 32;
  if (g.columns <= 4096) return 256;
  return 1024;
}

std::string GroupPrinter::accumulated(size_t member, const std::string& sum, const std::string& term) const {
  return is_max(member) ? fmt::format("{0} = max_f32({0}, {1});", sum, term) : fmt::format("{} += {};", sum, term);
}

std::string GroupPrinter::position_text() const {
  return group_.columns_outside ? fmt::format("column * {} + row", group_.rows)
                                : fmt::format("row * {} + column", group_.columns);
}

bool GroupPrinter::pass_in_fours(const std::vector<size_t>& members, const std::set<size_t>& wanted,
                                 const Columns& columns) const {
  // Threads that would have nothing to do cost more than narrow accesses.
  if (group_.columns_outside || group_.columns % 4 != 0 || columns.count < 4 * columns.threads) return false;
  for (size_t m : members) {
    if (!is(m, DomainRole::Kind::reduce) && wanted.count(m)) return true;
    for (size_t j = 0; j < op(m).inputs.size(); ++j)
      if (group_.sources[m][j] < 0 && (direct_index(m, int(j)) == "at" || runs_along_columns(m, int(j)))) return true;
  }
  return false;
}

void GroupPrinter::pass(Lines& lines, Counters& row, const std::set<size_t>& wanted, const Columns& columns) {
  const std::vector<size_t> members = with_sources(wanted);
  vector_ = pass_in_fours(members, wanted, columns);
  vector_loads_.clear();
  Counters column(index_, {&row});
  GroupSpot place{&row, &column};
  Lines body(lines.depth() + (vector_ ? 2 : 1));
  std::vector<std::pair<std::string, std::string>> vector_stores;
  for (size_t m : members) {
    if (is(m, DomainRole::Kind::reduce)) {
      std::string term = value(body, place, m);
      body.add(accumulated(m, element(m), term));
      continue;
    }
    define(body, place, m);
    if (!wanted.count(m)) continue;
    const std::string pointer = arguments_.written(op(m).result);
    body.add(fmt::format("{}{} = {};", pointer, vector_ ? "_result[v]" : "[at]", stored_element(m)));
    if (vector_) vector_stores.push_back({pointer, memory_type(op(m).result)});
  }
  const std::string thread = vector_ && !columns.thread.empty() ? "4 * " + columns.thread : columns.thread;
  const std::string both = !columns.first.empty() && !thread.empty() ? " + " : "";
  const std::string from = columns.first + both + thread;
  // The compiler would take all turns of a short loop at once, for which registers may not do.
  if (!vector_ && columns.threads == 1 && columns.count > turns_at_once)
    lines.add(fmt::format("#pragma unroll {}", turns_at_once));
  lines.open(fmt::format("for ({0} {1} = {2}; {1} < {3}; {1} += {4}) {{", index_, vector_ ? "start" : "column",
                         from.empty() ? "0" : from, columns.last, columns.threads * (vector_ ? 4 : 1)));
  const std::string at_start = fmt::format("row * {} + start", group_.columns);
  if (vector_) open_vector(lines, vector_stores, at_start);
  Lines counters(lines.depth());
  column.write(counters, body.text());
  const std::string written = counters.text() + body.text();
  const bool needs_position = mentions_word(written, "at");
  if (vector_ && (needs_position || mentions_word(written, "column")))
    lines.add(fmt::format("const {} column = start + v;", index_));
  if (needs_position) lines.add(fmt::format("const {} at = {};", index_, position_text()));
  lines.append(counters.text());
  lines.append(body.text());
  if (vector_) close_vector(lines, vector_stores, at_start);
  lines.close();
  vector_ = false;
}

std::set<size_t> GroupPrinter::of_level(int level) const {
  std::set<size_t> out;
  for (size_t m = 0; m < group_.ops.size(); ++m) {
    bool sink = is(m, DomainRole::Kind::reduce) || (is(m, DomainRole::Kind::full) && stored(m));
    if (sink && level_[m] == level) out.insert(m);
  }
  return out;
}

void GroupPrinter::row_values(Lines& lines, const GroupSpot& place, int level, int per_row) {
  for (size_t m = 0; m < group_.ops.size(); ++m) {
    if (!is(m, DomainRole::Kind::row) || level_[m] != level) continue;
    define(lines, place, m);
    if (stored(m)) store_row(lines, m, per_row);
  }
}

void GroupPrinter::store_row(Lines& lines, size_t member, int per_row) {
  std::string guard = per_row > 1 ? "if (lane == 0) " : "";
  lines.add(fmt::format("{}{}[row] = {};", guard, arguments_.written(op(member).result), stored_element(member)));
}

Kernel GroupPrinter::rowwise() {
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
    pass(body, row, wanted, {"", std::to_string(group_.columns), per_row > 1 ? "lane" : "", per_row, group_.columns});
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

Kernel GroupPrinter::finish(const std::string& name, const Lines& lines, int64_t blocks, int threads,
                            const std::string& comment) const {
  Kernel kernel;
  kernel.name = name;
  kernel.arguments = arguments_.list();
  kernel.text = kernel_head(comment, name, threads, arguments_) + lines.text() + "}\n";
  kernel.blocks = blocks;
  kernel.threads = threads;
  return kernel;
}

StepKernels group_kernels(const KernelContext& context, const KernelGroup& group, const std::string& name) {
  return GroupPrinter(context, group, name).print();
}

}  // namespace hetsynth::codegen::cuda
