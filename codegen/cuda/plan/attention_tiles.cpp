#include "codegen/cuda/plan/attention_tiles.h"

#include <algorithm>

namespace hetsynth::codegen::cuda::attention {
namespace {

/// Shared memory of a forward kernel: queries, keys and values in turn, weights.
int64_t forward_bytes(const TileSize& size, int64_t query_features, int64_t value_features) {
  const int64_t second = std::max(query_features, value_features);
  return 4 * (size.rows * padded(query_features) + size.columns * padded(second) + size.rows * padded(size.columns));
}

}  // namespace

Nest::Nest(const FusedAttention& nest, const LocalProgram& program, const Layouts& layouts, const Program& reference)
    : a(nest), program_(program), layouts_(layouts), reference_(reference), hidden_(nest.hidden()) {
  const std::vector<ValueId> own = nest.values();
  for (const LocalOp& op : program_.ops)
    if (std::count(own.begin(), own.end(), op.result)) op_[op.result] = &op;
}

bool Nest::is_block(ValueId value) const { return std::count(hidden_.begin(), hidden_.end(), value) > 0; }

int64_t Nest::features(const LocalOp& op) const {
  const std::vector<int> dims_of_op = dims(op);
  for (size_t f = 0; f < dims_of_op.size(); ++f)
    if (dims_of_op[f] < 0) return op.extent(int(f));
  return 1;
}

Address Nest::read(const LocalOp& op, int input) const {
  Address address = over_dims(layouts_.read(op, input), op);
  address.constant += layouts_.of[op.inputs[size_t(input)].value].offset;
  return address;
}

Address Nest::written(const LocalOp& op) const { return over_dims(layouts_.written(op), op); }

int64_t Nest::coefficient(const Address& address, int dim) const {
  return a.extent(dim) == 1 ? 0 : address.coefficients[size_t(dim)];
}

int Nest::row_input(const LocalOp& op) const {
  // Either may be the same in all rows, or all columns, as what was broadcast: then the other one tells.
  const bool first = varies(op, 0, a.row) || varies(op, 1, a.column);
  const bool second = varies(op, 1, a.row) || varies(op, 0, a.column);
  return second && !first ? 1 : 0;
}

bool Nest::sums_columns(const LocalOp& op) const {
  const std::vector<Factor>& factors = reference_[op.node].space.factors;
  const std::vector<int> dims_of_op = dims(op);
  for (size_t f = 0; f < factors.size(); ++f)
    if (factors[f].reduced() && dims_of_op[f] == a.row) return false;
  return true;
}

/// Whether an operand's own index runs over a dimension, also where the rank holds one element of it.
bool Nest::varies(const LocalOp& op, int input, int dim) const {
  const Space& space = reference_[op.node].space;
  const std::vector<int> dims_of_op = dims(op);
  for (size_t f = 0; f < dims_of_op.size(); ++f)
    if (dims_of_op[f] == dim && mentions_factor(space.inputs[size_t(input)], int(f))) return true;
  return false;
}

Address Nest::over_dims(const Address& address, const LocalOp& op) const {
  Address out;
  out.constant = address.constant;
  out.coefficients.assign(a.shape.size() + 1, 0);
  const std::vector<int> dims_of_op = dims(op);
  for (size_t f = 0; f < address.coefficients.size(); ++f)
    out.coefficients[dims_of_op[f] >= 0 ? size_t(dims_of_op[f]) : a.shape.size()] += address.coefficients[f];
  return out;
}

std::vector<Gradients> gradients_of(const Nest& nest) {
  std::vector<Gradients> out;
  for (ValueId product : nest.a.products) {
    const LocalOp& op = nest.op(product);
    const Address written = nest.written(op);
    Gradients wanted{nest.sums_columns(op), {}, {}};
    for (int d = 0; d < int(nest.a.shape.size()); ++d)
      if (d != nest.a.row && d != nest.a.column && nest.a.extent(d) != 1 && nest.coefficient(written, d) == 0)
        wanted.summed.push_back(d);
    auto found = std::find_if(out.begin(), out.end(), [&](const Gradients& g) {
      return g.keeps_rows == wanted.keeps_rows && g.summed == wanted.summed;
    });
    if (found == out.end()) found = out.insert(out.end(), wanted);
    found->products.push_back(product);
  }
  return out;
}

std::set<ValueId> blocks_read(const Nest& nest, const Gradients& gradients) {
  std::set<ValueId> out;
  for (ValueId value : gradients.products) {
    const LocalOp& op = nest.op(value);
    out.insert(op.inputs[size_t(nest.block_input(op))].value);
  }
  return out;
}

std::vector<Tile> tiles_of(const Nest& nest, const Gradients& gradients, const std::vector<std::string>& names) {
  std::vector<Tile> out;
  auto take = [&](const LocalOp& op, int input, bool of_rows) {
    const ValueId value = op.inputs[size_t(input)].value;
    std::string name = names.empty() ? "" : names[size_t(value)] + "_tile";
    // One tensor may be queries and values, say, and is then kept twice.
    const auto taken = [&] {
      return std::any_of(out.begin(), out.end(),
                         [&](const Tile& other) { return !name.empty() && other.name == name; });
    };
    Tile tile{value, nest.read(op, input), of_rows, nest.features(op), name};
    const bool known = std::any_of(out.begin(), out.end(), [&](const Tile& other) { return other.same(tile); });
    if (known) return;
    while (taken()) name += "_too";
    tile.name = name;
    out.push_back(tile);
  };
  for (ValueId value : nest.a.scores) {
    const LocalOp& op = nest.op(value);
    const int row = nest.row_input(op);
    take(op, row, true);
    take(op, 1 - row, false);
  }
  for (ValueId value : gradients.products) {
    const LocalOp& op = nest.op(value);
    take(op, 1 - nest.block_input(op), !gradients.keeps_rows);
  }
  return out;
}

std::optional<TileSize> forward_size(const Nest& nest) {
  const int64_t q = nest.features(nest.op(nest.a.scores[0])), v = nest.features(nest.op(nest.a.products[0]));
  for (TileSize size : {TileSize{64, 32}, TileSize{32, 32}, TileSize{32, 16}, TileSize{16, 16}})
    if (forward_bytes(size, q, v) <= most_shared_bytes) return size;
  return std::nullopt;
}

std::optional<TileSize> backward_size(const Nest& nest, const Gradients& gradients) {
  const auto blocks = int64_t(blocks_read(nest, gradients).size());
  const std::vector<Tile> tiles = tiles_of(nest, gradients, {});
  for (int64_t edge : {32, 16}) {
    int64_t bytes = blocks * edge * padded(edge) * 4;
    for (const Tile& tile : tiles) bytes += edge * padded(tile.features) * 4;
    if (bytes <= most_shared_bytes) return TileSize{edge, edge};
  }
  return std::nullopt;
}

}  // namespace hetsynth::codegen::cuda::attention
