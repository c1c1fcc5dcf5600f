// Long reductions in chunks: partial results to scratch memory, then a second kernel adds them in their order.
#include "codegen/cuda/kernels/group_printer.h"

namespace hetsynth::codegen::cuda {

StepKernels GroupPrinter::split() {
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

std::set<size_t> GroupPrinter::all_sinks() const {
  std::set<size_t> wanted = of_level(0);
  int last = *std::max_element(level_.begin(), level_.end());
  HETSYNTH_CHECK(last == 0, "a chunked reduction has one pass");
  return wanted;
}

void GroupPrinter::chunk_bounds(Lines& lines) const {
  lines.add(fmt::format("const {0} first = chunk * ({0}){1};", index_, chunk_length()));
  lines.add(
      fmt::format("const {0} last = first + {1} < {2} ? first + {1} : {2};", index_, chunk_length(), group_.columns));
}

Kernel GroupPrinter::partial_rows(const std::vector<size_t>& reductions) {
  Counters row(index_);
  Lines body(1);
  for (size_t m : reductions) body.add(fmt::format("{} {} = {};", context_.types.real, element(m), identity(m)));
  pass(body, row, all_sinks(), {"first", "last", "threadIdx.x", 256, chunk_length()});
  for (size_t i = 0; i < reductions.size(); ++i) {
    size_t m = reductions[i];
    arguments_.scratch(int(i), partial_name(m), true);
    body.add(fmt::format("{0} = block_{1}({0});", element(m), is_max(m) ? "max" : "sum"));
    body.add(fmt::format("if (threadIdx.x == 0) {}[chunk * {} + row] = {};", partial_name(m), group_.rows, element(m)));
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

Kernel GroupPrinter::partial_columns(const std::vector<size_t>& reductions) {
  Counters row(index_);
  Lines body(2);
  pass(body, row, all_sinks(), {"first", "last", "threadIdx.x / 32", 8, chunk_length()});
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
    lines.add(fmt::format("if (threadIdx.x < 32 && row < {}) {}[chunk * {} + row] = {};", group_.rows, partial_name(m),
                          group_.rows, element(m)));
  }
  return finish(
      name_, lines, tiles * group_.splits, 256,
      comment_ + fmt::format("// {} sums of {} strided elements in {} chunks, one block for 32 sums and a chunk\n",
                             group_.rows, group_.columns, group_.splits));
}

Kernel GroupPrinter::combine(const std::vector<size_t>& reductions) {
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

}  // namespace hetsynth::codegen::cuda
