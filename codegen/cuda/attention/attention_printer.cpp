#include "codegen/cuda/attention/attention_printer.h"

#include <algorithm>

#include "codegen/text/annotate.h"
#include "dsl/base/error.h"

namespace hetsynth::codegen::cuda::attention {
namespace {

constexpr int64_t features_at_once = 8;  ///< of a loop over features or a tile's lines

}  // namespace

NestPrinter::NestPrinter(const KernelContext& context, const FusedAttention& attention, std::string name)
    : context_(context),
      nest_(attention, context.lowered.local, context.lowered.layouts, *context.lowered.reference),
      a_(attention),
      name_(std::move(name)),
      arguments_(context),
      lines_(1) {
  std::vector<int> ops;
  const std::vector<ValueId> own = attention.values();
  for (size_t i = 0; i < context.lowered.local.ops.size(); ++i) {
    const LocalOp& op = context.lowered.local.ops[i];
    if (!std::count(own.begin(), own.end(), op.result)) continue;
    ops.push_back(int(i));
    comment_ += "// " + origin_text(context.lowered, op) + "\n";
  }
  index_ = index_type(context, ops);
  for (size_t d = 0; d < a_.shape.size(); ++d) {
    dims_.push_back("at_" + a_.names[d]);
    for (int n = 2; std::count(dims_.begin(), dims_.end() - 1, dims_.back()); ++n)
      dims_.back() = fmt::format("at_{}{}", a_.names[d], n);
  }
}

void NestPrinter::unroll(int64_t turns) { add("#pragma unroll {}", std::clamp<int64_t>(turns, 1, features_at_once)); }

void NestPrinter::next_kernel() {
  arguments_ = Arguments(context_);
  lines_ = Lines(1);
}

std::string NestPrinter::at(Address address) const {
  std::vector<std::string> counters = dims_;
  counters.push_back("feature");
  for (size_t d = 0; d < a_.shape.size(); ++d)
    if (a_.extent(int(d)) == 1) address.coefficients[d] = 0;
  return address_text(address, counters);
}

int64_t NestPrinter::fixed_dims(const std::vector<int>& summed, int64_t tiles) {
  int64_t divide = tiles;
  for (size_t d = a_.shape.size(); d-- > 0;) {
    int dim = int(d);
    bool fixed =
        dim != a_.row && dim != a_.column && a_.extent(dim) != 1 && !std::count(summed.begin(), summed.end(), dim);
    if (!fixed) continue;
    add("const {} {} = blockIdx.x / {} % {};", index_, dims_[d], divide, a_.extent(dim));
    divide *= a_.extent(dim);
  }
  return divide;
}

std::string NestPrinter::expression(ValueId value) {
  const LocalOp& op = nest_.op(value);
  arguments_.note(op.body);
  const std::vector<int> dims = nest_.dims(op);
  ElementScope scope;
  for (size_t f = 0; f < dims.size(); ++f)
    scope.counters.push_back(dims[f] >= 0 && a_.extent(dims[f]) != 1 ? dims_[size_t(dims[f])] : "0");
  for (const Operand& operand : op.inputs)
    scope.integer.push_back(context_.lowered.local.values[size_t(operand.value)].type.dtype == DType::i32);
  scope.operand = [this, &op](int input) {
    ValueId read = op.inputs[size_t(input)].value;
    if (nest_.is_block(read)) return element(read);
    return fmt::format("{}[{}]", arguments_.read(read), at(nest_.read(op, input)));
  };
  if (mentions(op.body, ExprKind::random))
    scope.global_position = global_position_text(op, (*context_.lowered.reference)[op.node].type.shape, scope.counters);
  return body_text(op, op.body, scope);
}

std::string NestPrinter::tile_number(int64_t tiles) const {
  if (tiles == 1) return "0";
  std::string number = fmt::format("(blockIdx.x % {})", tiles);
  return hides() ? fmt::format("({} - (int)blockIdx.x % {})", tiles - 1, tiles) : number;
}

std::string NestPrinter::column_stop(int64_t tile_rows) {
  const int64_t extent = a_.extent(a_.column);
  if (!hides()) return fmt::format("{}", extent);
  add("const {} seen = row_begin + {};  // later {} are hidden from all of these {}", index_, tile_rows + shift(),
      a_.names[size_t(a_.column)], a_.names[size_t(a_.row)]);
  add("const {} column_end = seen < {} ? seen : {};", index_, extent, extent);
  return "column_end";
}

std::string NestPrinter::sweep_start(bool keeps_rows, int64_t swept) {
  if (keeps_rows || !hides()) return "0";
  add("const {} seen_from = column_begin - {};  // earlier {} see none of these {}", index_, shift(),
      a_.names[size_t(a_.row)], a_.names[size_t(a_.column)]);
  return fmt::format("(seen_from > 0 ? seen_from / {0} * {0} : 0)", swept);
}

Kernel NestPrinter::finish(const std::string& name, int64_t blocks, int threads, int blocks_at_once,
                           const std::string& how) const {
  Kernel kernel;
  kernel.name = name;
  kernel.arguments = arguments_.list();
  kernel.text = kernel_head(comment_ + how, name, threads, arguments_, blocks_at_once) + lines_.text() + "}\n";
  kernel.blocks = blocks;
  kernel.threads = threads;
  return kernel;
}

const Tile& find_tile(const std::vector<Tile>& tiles, const Tile& wanted) {
  for (const Tile& tile : tiles)
    if (tile.same(wanted)) return tile;
  throw InternalError("a tile of the kernel");
}

const Tile& tile_of_scores(const Nest& nest, const std::vector<Tile>& tiles, ValueId scores, bool of_rows) {
  const LocalOp& op = nest.op(scores);
  const int row_input = nest.row_input(op), input = of_rows ? row_input : 1 - row_input;
  return find_tile(tiles, {op.inputs[size_t(input)].value, nest.read(op, input), of_rows, 0, ""});
}

}  // namespace hetsynth::codegen::cuda::attention
