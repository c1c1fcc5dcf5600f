// Kernels that sum into rows named by an integer tensor (gradient of an embedding).
#include <fmt/format.h>

#include <algorithm>

#include "codegen/cuda/kernels/kernel_writer.h"
#include "codegen/text/annotate.h"

namespace hetsynth::codegen::cuda {
namespace {

/// Columns one thread accumulates in registers.
constexpr int64_t most_items = 8;

class ScatterPrinter {
 public:
  ScatterPrinter(const KernelContext& context, const LocalOp& op, const ScatterShape& shape, std::string name)
      : context_(context),
        op_(op),
        shape_(shape),
        name_(std::move(name)),
        arguments_(context),
        index_(points_fit() ? "int" : "long long") {
    arguments_.note(op.body);
  }

  Kernel print() {
    int64_t items = std::min(most_items, (shape_.columns + usual_threads - 1) / usual_threads);
    int64_t tiles = (shape_.columns + items * usual_threads - 1) / (items * usual_threads);
    std::string result = arguments_.written(op_.result), sum = element_name(context_, op_);
    Lines lines(1);
    lines.add(fmt::format("__shared__ int hits[{}];", usual_threads));
    lines.add(fmt::format("const {} row = blockIdx.x / {};", index_, tiles));
    lines.add(
        fmt::format("const {} first = blockIdx.x % {} * {} + threadIdx.x;", index_, tiles, items * usual_threads));
    lines.add(fmt::format("float {}[{}] = {{}};", sum, items));
    lines.open(fmt::format("for ({} chunk = 0; chunk < {}; chunk += {}) {{", index_, shape_.hits, usual_threads));
    find_hits(lines);
    lines.open("for (int hit = 0; hit < found; ++hit) {");
    accumulate(lines, items, sum);
    lines.close();
    lines.close();  // the next list is begun behind a barrier of collect_hits
    lines.open(fmt::format("for (int k = 0; k < {}; ++k) {{", items));
    lines.add(fmt::format("const {} column = first + k * {};", index_, usual_threads));
    lines.add(
        fmt::format("if (column < {}) {}[row * {} + column] = {}[k];", shape_.columns, result, shape_.columns, sum));
    lines.close();
    Kernel kernel;
    kernel.name = name_;
    kernel.blocks = shape_.rows * tiles;
    kernel.arguments = arguments_.list();
    std::string comment = fmt::format(
        "// {}\n// {} rows of {}: one block owns a row and adds its hits among {} in their order, so nothing races\n",
        origin_text(context_.lowered, op_), shape_.rows, shape_.columns, shape_.hits);
    kernel.text = kernel_head(comment, name_, kernel.threads, arguments_) + lines.text() + "}\n";
    return kernel;
  }

 private:
  bool points_fit() const {
    double most = double(shape_.hits) * double(shape_.columns);
    return std::max(most, double(shape_.rows) * double(shape_.columns)) < double(1 << 30) &&
           double(element_count(context_.lowered.local.values[op_.result].type.shape)) < double(1 << 30);
  }

  /// Which of the next 256 positions name this row.
  void find_hits(Lines& lines) {
    Counters counters(index_);
    std::vector<std::string> at = hit_counters(counters, "at");
    std::string index = operand(op_.one_hot->operand, at);
    int64_t start = op_.ranges[op_.one_hot->factor].lo;
    lines.add("bool hit_here = false;");
    lines.open(fmt::format("if (const {} at = chunk + threadIdx.x; at < {}) {{", index_, shape_.hits));
    counters.write(lines, index);
    lines.add(fmt::format("hit_here = {} == row{};", index, start ? fmt::format(" + {}", start) : ""));
    lines.close();
    lines.add("const int found = collect_hits(hit_here, hits);");
  }

  void accumulate(Lines& lines, int64_t items, const std::string& sum) {
    Counters hit(index_), column(index_, {&hit});
    std::vector<std::string> at = hit_counters(hit, "at");
    std::string value = value_text(at, column);
    Lines column_text(lines.depth() + 1);
    column.write(column_text, value);
    lines.add(fmt::format("const {} at = chunk + hits[hit];", index_));
    hit.write(lines, value + column_text.text());
    lines.add("#pragma unroll");
    lines.open(fmt::format("for (int k = 0; k < {}; ++k) {{", items));
    lines.add(fmt::format("const {} column = first + k * {};", index_, usual_threads));
    lines.add(fmt::format("if (column >= {}) break;", shape_.columns));
    lines.append(column_text.text());
    lines.add(fmt::format("{}[k] += {};", sum, value));
    lines.close();
  }

  std::vector<std::string> hit_counters(Counters& counters, const std::string& word) const {
    std::vector<std::string> out(op_.factors.size(), "0");
    for (size_t f = 0; f < out.size(); ++f) {
      int64_t stride = shape_.hit_stride[f], extent = op_.extent(int(f));
      if (op_.factors[f].reduced() && extent != 1)
        out[f] = counters.take(word, stride, stride * extent == shape_.hits ? 0 : extent, op_.factors[f].name);
    }
    return out;
  }

  std::string value_text(std::vector<std::string> at, Counters& column) {
    for (size_t f = 0; f < at.size(); ++f) {
      int64_t stride = shape_.column_stride[f], extent = op_.extent(int(f));
      if (int(f) == op_.one_hot->factor)
        at[f] = "row";
      else if (!op_.factors[f].reduced() && extent != 1)
        at[f] = column.take("column", stride, stride * extent == shape_.columns ? 0 : extent, op_.factors[f].name);
    }
    ElementScope scope{at, {}, {}, ""};
    for (const Operand& from : op_.inputs) scope.integer.push_back(is_integer(from));
    scope.operand = [this, at](int input) { return operand(input, at); };
    return body_text(op_, op_.one_hot->rest, scope);
  }

  bool is_integer(const Operand& from) const {
    return context_.lowered.local.values[from.value].type.dtype == DType::i32;
  }

  std::string operand(int input, const std::vector<std::string>& at) {
    const Operand& from = op_.inputs[input];
    Address read = context_.lowered.layouts.read(op_, input);
    read.constant += context_.lowered.layouts.of[from.value].offset;
    std::string text = fmt::format("{}[{}]", arguments_.read(from.value), address_text(read, at));
    std::string inside;
    if (from.access.zero_outside)
      inside = inside_text(op_, from.access, context_.lowered.local.values[from.value].ranges, at);
    return inside.empty() ? text : fmt::format("({} ? {} : {})", inside, text, is_integer(from) ? "0" : "0.0f");
  }

  const KernelContext& context_;
  const LocalOp& op_;
  const ScatterShape& shape_;
  std::string name_;
  Arguments arguments_;
  std::string index_;
};

}  // namespace

StepKernels scatter_kernels(const KernelContext& context, const LocalOp& op, const ScatterShape& shape,
                            const std::string& name) {
  return {{ScatterPrinter(context, op, shape, name).print()}, {}};
}

}  // namespace hetsynth::codegen::cuda
