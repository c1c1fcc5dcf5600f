#include "codegen/cpu/step_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "codegen/annotate.h"
#include "codegen/cpu/attention_text.h"
#include "codegen/cpu/kernel_text.h"
#include "codegen/cpu/prelude.h"
#include "codegen/expression.h"

namespace hetsynth::codegen {
namespace {

constexpr std::string_view matmul_declaration =
    R"(// c[b,m,n] = sum over k of a[b,m,k] w[b,k,n] (+ c if accumulate); for each operand the strides of batch, row and column in elements.
extern "C" void hetsynth_matmul(long batch, long m, long n, long k, const float* a, long a_batch, long a_row, long a_column, const float* w,
                                long w_batch, long w_row, long w_column, float* c, long c_batch, long c_row, long c_column, int accumulate);
)";

constexpr std::string_view convolution_declaration =
    R"(// Image, kernel or result (computes 0, 1, 2) of a convolution from the other two. sizes: batch, groups, channels and outputs of a group; then of
// height and of width: image, kernel, result, stride, dilation, padding. strides: of the four dimensions of image, kernel and result.
extern "C" void hetsynth_convolution(int computes, const long* sizes, const long* strides, float* image, float* kernel, float* result);
)";

constexpr std::string_view matmul_bf16_declaration =
    R"(// The same with a and w of bf16, and sums and c of float.
extern "C" void hetsynth_matmul_bf16(long batch, long m, long n, long k, const void* a, long a_batch, long a_row, long a_column, const void* w,
                                     long w_batch, long w_row, long w_column, float* c, long c_batch, long c_row, long c_column,
                                     int accumulate);
)";

/// Declarations of the functions the runtime provides, by what calls them.
constexpr std::pair<std::string_view, std::string_view> collective_declarations[] = {
    {"hetsynth_all_gather",
     R"(extern "C" int hetsynth_all_gather(HetsynthContext*, int id, int axis, const void* source, void* destination, long outer, long inner,
                                   const long* bounds, int type);
)"},
    {"hetsynth_all_reduce",
     R"(extern "C" int hetsynth_all_reduce(HetsynthContext*, int id, int axis, const void* source, void* destination, long count, int reduce,
                                   int type);
)"},
    {"hetsynth_reduce_scatter",
     R"(extern "C" int hetsynth_reduce_scatter(HetsynthContext*, int id, int axis, const void* source, void* destination, long outer,
                                       long inner, const long* bounds, int reduce, int type);
)"},
    {"hetsynth_all_to_all",
     R"(extern "C" int hetsynth_all_to_all(HetsynthContext*, int id, int axis, const void* source, void* destination, const long* extents,
                                   int from_first, const long* bounds_from, const long* bounds_to, int type);
)"},
    {"hetsynth_broadcast",
     R"(extern "C" int hetsynth_broadcast(HetsynthContext*, int id, int axis, const void* source, void* destination, long count, int root,
                                  int type);
)"},
};

constexpr std::string_view context_declaration = R"(struct HetsynthContext {
  char* arena;
  long step;
  unsigned long seed;
  void* communicator;
  void* stream;
  void* communication_stream;
};
)";

class StepPrinter {
 public:
  StepPrinter(const Lowered& lowered, const Cluster& cluster) : l_(lowered), cluster_(cluster) {}

  std::string run() {
    for (ValueId leaf : l_.local.leaves) function_names_.take(l_.names[leaf]);
    print_leaves();
    for (const Group& group : l_.groups) print_group(group);
    print_copies();
    std::string body = std::move(step_);
    std::string calls = kernels_ + body;
    std::string out = header() + "\n" + std::string(context_declaration);
    if (calls.find("hetsynth_matmul(") != std::string::npos) out += "\n" + std::string(matmul_declaration);
    if (calls.find("hetsynth_matmul_bf16(") != std::string::npos) out += "\n" + std::string(matmul_bf16_declaration);
    if (calls.find("hetsynth_convolution") != std::string::npos) out += "\n" + std::string(convolution_declaration);
    for (const auto& [name, text] : collective_declarations)
      if (calls.find(name) != std::string::npos) out += "\n" + std::string(text);
    if (!tables_.empty()) out += "\n" + table_text_;
    std::string prelude = prelude_for(calls);
    if (!prelude.empty()) out += "\n" + prelude;
    if (!kernels_.empty()) out += "\n" + kernels_;
    out +=
        "// Nothing but calls: optimising them would gain nothing and take the compiler long.\n#pragma clang optimize "
        "off\n";
    out += "extern \"C\" int hetsynth_step(HetsynthContext* context) {\n  char* const arena = context->arena;\n";
    return out + body + "  return 0;\n}\n";
  }

 private:
  std::string header() const {
    const Device& device = cluster_.devices.at(l_.local.rank);
    std::string file = l_.reference->model_file.substr(l_.reference->model_file.rfind('/') + 1);
    return fmt::format(
        "// One training step of {} on rank {} of {} (cpu \"{}\"), generated by hetsynth.\n"
        "// Memory: {} in one arena, of which the first {} hold inputs, parameters and optimizer state from step to "
        "step.\n",
        file.empty() ? "the model" : file, l_.local.rank, l_.program->mesh.device_count(), device.name,
        bytes_text(l_.memory.arena_bytes), bytes_text(leaf_bytes()));
  }

  int64_t leaf_bytes() const {
    int64_t bytes = 0;
    for (ValueId leaf : l_.local.leaves)
      bytes += l_.local.values[leaf].count() * size_bytes(l_.local.values[leaf].type.dtype);
    return bytes;
  }

  void line(const std::string& text) { step_ += "  " + text + "\n"; }

  /// The pointer to a value; declared where it is first used.
  std::string pointer(ValueId value) {
    ValueId storage = l_.storage(value);
    if (declared_.insert(storage).second) {
      const LocalValue& local = l_.local.values[storage];
      std::string_view type = memory_type(local.type.dtype);
      line(fmt::format("{0}* const {1} = ({0}*)(arena + {2});  // {3}", type, l_.names[storage],
                       l_.memory.offset_bytes[storage], part_text(local)));
    }
    return l_.names[storage];
  }

  void print_leaves() {
    if (l_.local.leaves.empty()) return;
    line("// Inputs, parameters and optimizer state.");
    for (ValueId leaf : l_.local.leaves) pointer(leaf);
  }

  void print_group(const Group& group) {
    switch (group.kind) {
      case Group::Kind::loops:
        return print_kernel(group);
      case Group::Kind::product:
        return print_product(group);
      case Group::Kind::convolution:
        return print_convolution(group);
      case Group::Kind::attention:
        return print_attention(group);
      case Group::Kind::collective:
        return print_collective(group);
    }
  }

  /// Equal kernels (of repeated layers) are printed once and called with different pointers.
  void print_kernel(const Group& group) {
    Kernel kernel = make_kernel(l_, group);
    if (kernel.nothing_to_do()) return;
    std::string key = kernel_text(kernel, numbered_names(kernel));
    auto found = functions_.find(key);
    if (found == functions_.end()) {
      std::string name = function_names_.take("compute_" + group_name(l_, group));
      found = functions_.insert({key, name}).first;
      for (const Member& member : group.members) kernels_ += "//   " + origin_text(l_, l_.op(member)) + "\n";
      kernels_ += kernel_text(kernel, user_names(l_, kernel, name)) + "\n";
    }
    step_ += "\n";
    for (const Member& member : group.members)
      if (member.stored) line("// " + short_origin_text(l_, l_.op(member)));
    std::vector<std::string> arguments;
    for (const Parameter& parameter : kernel.parameters) arguments.push_back(pointer(parameter.value));
    if (kernel.uses_step) arguments.push_back("context->step");
    if (kernel.uses_seed) arguments.push_back("context->seed");
    line(call_text(found->second, arguments, 2) + ";");
  }

  void print_attention(const Group& group) {
    AttentionCall call = attention_call(l_, group);
    const FusedAttention& nest = *group.attention;
    std::string key = attention_text(l_, group, call, numbered_names(group, call));
    auto found = functions_.find(key);
    if (found == functions_.end()) {
      std::string name = function_names_.take("attention_" + l_.names[nest.products.front()]);
      found = functions_.insert({key, name}).first;
      kernels_ += nest.backward ? "// Gradient of attention, its weights made again block by block:\n"
                                : "// Attention block by block, no tensor of scores is stored:\n";
      for (const Member& member : group.members) kernels_ += "//   " + origin_text(l_, l_.op(member)) + "\n";
      kernels_ += attention_text(l_, group, call, user_names(l_, group, call, name)) + "\n";
    }
    step_ += "\n";
    for (const Member& member : group.members)
      if (member.stored) line("// " + short_origin_text(l_, l_.op(member)));
    std::vector<std::string> arguments;
    for (const Parameter& parameter : call.parameters) arguments.push_back(pointer(parameter.value));
    if (call.uses_step) arguments.push_back("context->step");
    if (call.uses_seed) arguments.push_back("context->seed");
    line(call_text(found->second, arguments, 2) + ";");
  }

  void print_product(const Group& group) {
    const LocalOp& op = l_.local.ops[group.op()];
    const Contraction& c = group.product;
    step_ += "\n";
    line("// " + origin_text(l_, op));
    std::string a = pointer(op.inputs[c.a].value), w = pointer(op.inputs[c.w].value), out = pointer(op.result);
    std::string a_at = offset_text(c.a_offset), w_at = offset_text(c.w_offset), c_at = offset_text(c.c_offset);
    std::string indent;
    Names taken;
    for (const std::string& name : {a, w, out}) taken.take(name);
    auto open = [&](const ProductDim& dim) {
      std::string counter = taken.take(dim.name);
      line(fmt::format("{0}for (long {1} = 0; {1} < {2}; ++{1})", indent, counter, dim.extent));
      indent += "  ";
      a_at += scaled(counter, dim.a), w_at += scaled(counter, dim.w), c_at += scaled(counter, dim.c);
      return counter;
    };
    for (const ProductDim& dim : c.outer) open(dim);
    std::string accumulate;
    for (const ProductDim& dim : c.outer_k) accumulate += (accumulate.empty() ? "" : " || ") + open(dim) + " > 0";
    if (accumulate.empty()) accumulate = "0";
    std::vector<std::string> arguments;
    auto number = [&](int64_t value) { arguments.push_back(fmt::format("{}", value)); };
    auto operand = [&](const std::string& at, int64_t batch, int64_t row, int64_t column) {
      arguments.push_back(at);
      for (int64_t stride : {batch, row, column}) number(stride);
    };
    for (const ProductDim* dim : {&c.batch, &c.m, &c.n, &c.k}) number(dim->extent);
    operand(a + a_at, c.batch.a, c.m.a, c.k.a);
    operand(w + w_at, c.batch.w, c.k.w, c.n.w);
    operand(out + c_at, c.batch.c, c.m.c, c.n.c);
    arguments.push_back(accumulate);
    bool halves = l_.local.values[op.inputs[c.a].value].type.dtype == DType::bf16;
    const char* function = halves ? "hetsynth_matmul_bf16" : "hetsynth_matmul";
    line(indent + call_text(function, arguments, 2 + indent.size()) + ";");
  }

  void print_convolution(const Group& group) {
    const LocalOp& op = l_.local.ops[group.op()];
    const LocalConvolution& c = group.convolution;
    step_ += "\n";
    line("// " + origin_text(l_, op));
    std::vector<std::string> at;
    for (size_t part = 0; part < 3; ++part) {
      ValueId value = c.operand[part] < 0 ? op.result : op.inputs[c.operand[part]].value;
      at.push_back(pointer(value) + offset_text(c.offset[part]));
    }
    std::string name = table_names_.take("convolution_" + l_.names[op.result]);
    std::string sizes = fmt::format("{}, {}, {}, {}", c.batch, c.groups, c.channels, c.outputs), strides;
    for (const LocalSlide& s : c.slides)
      sizes += fmt::format(",  {}, {}, {}, {}, {}, {}", s.image, s.window, s.result, s.stride, s.dilation, s.padding);
    for (const auto& of : c.strides)
      strides += fmt::format("{}{}, {}, {}, {}", strides.empty() ? "" : ",  ", of[0], of[1], of[2], of[3]);
    line(fmt::format("static const long {}[] = {{{}}};", name, sizes));
    line(fmt::format("static const long {}_strides[] = {{{}}};", name, strides));
    line(call_text("hetsynth_convolution",
                   {fmt::format("{}", int(c.computes)), name, name + "_strides", at[0], at[1], at[2]}, 2) +
         ";");
  }

  static std::string offset_text(int64_t offset) { return offset ? fmt::format(" + {}", offset) : ""; }
  static std::string scaled(const std::string& counter, int64_t stride) {
    return stride == 0 ? "" : stride == 1 ? " + " + counter : fmt::format(" + {} * {}", counter, stride);
  }

  /// Boundary table in elements of a dimension, as an array of the text.
  std::string table(int table, int64_t extent) {
    const BoundaryTable& t = l_.program->tables.at(table);
    int64_t unit = unit_of(t, extent);
    auto [entry, fresh] = tables_.insert({{table, unit}, ""});
    if (fresh) {
      entry->second = table_names_.take("bounds_" + t.name);
      std::string values;
      for (int64_t bound : t.bounds) values += fmt::format("{}{}", values.empty() ? "" : ", ", bound * unit);
      table_text_ += fmt::format("static const long {}[] = {{{}}};  // of {} elements over {}\n", entry->second, values,
                                 extent, l_.program->mesh.axes[t.axis].name);
    }
    return entry->second;
  }

  static int64_t product(const std::vector<Range>& ranges, size_t from, size_t to) {
    int64_t out = 1;
    for (size_t d = from; d < to; ++d) out *= ranges[d].hi - ranges[d].lo;
    return out;
  }

  void print_collective(const Group& group) {
    const LocalOp& op = l_.local.ops[group.op()];
    const Instruction& i = *op.collective;
    const LocalValue& result = l_.local.values[op.result];
    int type = int(result.type.dtype);  // numbered alike
    step_ += "\n";
    line("// " + collective_text(l_, op));
    std::string source = pointer(op.inputs[0].value), destination = pointer(op.result);
    std::string head =
        fmt::format("if (hetsynth_{}(context, {}, {}, {}, {}, ", name(i.opcode), id(i), i.axis, source, destination);
    std::string rest;
    switch (i.opcode) {
      case Opcode::all_gather:
      case Opcode::reduce_scatter: {
        int64_t outer = product(result.ranges, 0, size_t(i.dim)),
                inner = product(result.ranges, size_t(i.dim) + 1, result.ranges.size());
        std::string reduce = i.opcode == Opcode::reduce_scatter ? fmt::format(", {}", int(i.reduce)) : "";
        rest = fmt::format("{}, {}, {}{}", outer, inner, table(i.table, result.type.shape[i.dim]), reduce);
        break;
      }
      case Opcode::all_reduce:
        rest = fmt::format("{}, {}", result.count(), int(i.reduce));
        break;
      case Opcode::broadcast:
        rest = fmt::format("{}, {}", result.count(), i.root);
        break;
      case Opcode::all_to_all:
        rest = exchange_arguments(op, i);
        break;
      default:
        throw InternalError("not a collective");
    }
    line(fmt::format("{}{}, {})) return 1;", head, rest, type));
  }

  std::string exchange_arguments(const LocalOp& op, const Instruction& i) {
    const LocalValue& source = l_.local.values[op.inputs[0].value];
    std::vector<Range> whole = source.ranges;
    whole[i.dim] = {0, source.type.shape[i.dim]};
    size_t first = size_t(std::min(i.dim, i.to_dim)), second = size_t(std::max(i.dim, i.to_dim));
    step_ += fmt::format("  const long extents_{}[] = {{{}, {}, {}, {}, {}}};\n", id(i), product(whole, 0, first),
                         product(whole, first, first + 1), product(whole, first + 1, second),
                         product(whole, second, second + 1), product(whole, second + 1, whole.size()));
    return fmt::format("extents_{}, {}, {}, {}", id(i), i.dim < i.to_dim ? 1 : 0,
                       table(i.table, source.type.shape[i.dim]), table(i.to_table, source.type.shape[i.to_dim]));
  }

  /// Number of the instruction in the SPMD program, the same on all ranks.
  int id(const Instruction& instruction) const {
    const auto& all = l_.program->instructions;
    for (size_t n = 0; n < all.size(); ++n)
      if (all[n].result == instruction.result) return int(n);
    throw InternalError("a collective of the program");
  }

  void print_copies() {
    for (const MemoryPlan::Copy& c : l_.memory.copies) {
      step_ += "\n";
      line(fmt::format("// new contents of {}", l_.names[c.to]));
      std::string from = pointer(c.from);
      line(fmt::format("copy({}, {}, {});", from, pointer(c.to), l_.local.values[c.to].count()));
    }
  }

  const Lowered& l_;
  const Cluster& cluster_;
  std::string kernels_, step_, table_text_;
  std::map<std::string, std::string> functions_;  ///< numbered text -> name
  std::map<std::pair<int, int64_t>, std::string> tables_;
  std::set<ValueId> declared_;
  Names function_names_, table_names_;
};

}  // namespace

std::string cpu_source(const Lowered& lowered, const Cluster& cluster) { return StepPrinter(lowered, cluster).run(); }

}  // namespace hetsynth::codegen
