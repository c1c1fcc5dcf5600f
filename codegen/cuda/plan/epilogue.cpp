#include "codegen/cuda/plan/epilogue.h"

#include <algorithm>
#include <map>

namespace hetsynth::codegen::cuda {
namespace {

/// What cublasLt asks for: rows of a matrix beside the result begin at multiples of so many elements (cublasLt.h,
/// CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD), and 16-byte accesses of the bias want as many bytes.
constexpr int64_t row_multiple = 8, bias_multiple = 4;

class Joiner {
 public:
  Joiner(const Program& reference, const LocalProgram& program, const Layouts& layouts, const FusedProducts& faster)
      : reference_(reference), program_(program), layouts_(layouts), faster_(faster) {
    for (size_t i = 0; i < program.ops.size(); ++i)
      if (!layouts.window[i])
        for (const Operand& operand : program.ops[i].inputs) readers_[buffer(operand.value)].push_back(int(i));
  }

  std::vector<LaunchStep> run(std::vector<LaunchStep> steps) {
    std::vector<bool> gone(steps.size(), false);
    for (size_t p = 0; p < steps.size(); ++p) {
      if (steps[p].kind != LaunchStep::Kind::product || steps[p].epilogue) continue;
      const size_t k = only_kernel(steps, p);
      if (k == 0) continue;
      const std::optional<Epilogue> epilogue = match(steps[p], steps[k].group);
      if (!epilogue || !faster_.count({epilogue->kind, operands(steps[p])})) continue;
      LaunchStep joined = steps[p];
      joined.epilogue = epilogue;
      steps[k] = std::move(joined);
      gone[p] = true;
    }
    std::vector<LaunchStep> out;
    for (size_t i = 0; i < steps.size(); ++i)
      if (!gone[i]) out.push_back(std::move(steps[i]));
    return out;
  }

 private:
  ValueId buffer(ValueId value) const { return layouts_.of[size_t(value)].buffer; }
  const LocalOp& op(int number) const { return program_.ops[size_t(number)]; }
  DType type(ValueId value) const { return program_.values[size_t(value)].type.dtype; }
  int64_t count(ValueId value) const { return program_.values[size_t(value)].count(); }
  DType operands(const LaunchStep& product) const {
    const LocalOp& multiplies = op(product.op);
    return type(multiplies.inputs[size_t(product.contraction->a)].value);
  }

  /// Whether somebody besides this operator needs the value in memory.
  bool needed_besides(ValueId value, int reader) const {
    if (program_.pinned[size_t(value)]) return true;
    const auto found = readers_.find(value);
    return found == readers_.end() ||
           std::any_of(found->second.begin(), found->second.end(), [&](int other) { return other != reader; });
  }

  /// The step of the kernel that alone reads a product; 0 if there is none. With a collective in between the product
  /// would wait for it in vain.
  size_t only_kernel(const std::vector<LaunchStep>& steps, size_t product) const {
    const ValueId result = op(steps[product].op).result;
    const auto readers = readers_.find(result);
    if (buffer(result) != result || readers == readers_.end()) return 0;
    const int reader = readers->second.front();
    if (needed_besides(result, reader)) return 0;
    for (size_t s = product + 1; s < steps.size() && steps[s].kind != LaunchStep::Kind::collective; ++s)
      if (steps[s].kind == LaunchStep::Kind::kernel && steps[s].group.ops.front() == reader) return s;
    return 0;
  }

  /// Elements of a row of the product's result where it lies row by row, or column by column; 0 if it lies otherwise.
  int64_t row_length(const LaunchStep& product) const {
    const Contraction& c = *product.contraction;
    const ValueId result = op(product.op).result;
    const bool plain = c.batch.extent == 1 && c.outer.empty() && c.outer_k.empty() && c.c_offset == 0 &&
                       c.c_turn == 0 && c.m.extent > 1 && c.n.extent > 1 && count(result) == c.m.extent * c.n.extent &&
                       type(result) == DType::f32;
    if (plain && c.n.c == 1 && c.m.c == c.n.extent) return c.n.extent;
    if (plain && c.m.c == 1 && c.n.c == c.m.extent) return c.m.extent;
    return 0;
  }

  std::optional<Epilogue> match(const LaunchStep& product, const KernelGroup& group) const {
    const int64_t length = row_length(product);
    if (length == 0 || group.ops.size() > 2) return std::nullopt;
    const ValueId result = op(product.op).result;
    const LocalOp& first = op(group.ops.front());
    std::optional<Epilogue> out = slope(first, result, length);
    if (out && group.ops.size() == 2) {
      out = summed(*out, op(group.ops[1]), length);
    } else if (!out && !group.reduces) {
      out = biased(first, result, length);
      if (out && group.ops.size() == 2) out = activated(*out, group.ops[1], length);
    }
    if (out) out->ops = group.ops;
    return out;
  }

  /// The operand is read exactly where the result is written.
  bool reads_own_elements(const LocalOp& op, size_t input) const {
    const Operand& operand = op.inputs[input];
    const Address read = layouts_.read(op, int(input)), written = layouts_.written(op);
    bool same = type(operand.value) == DType::f32 && type(op.result) == DType::f32 && read.affine() &&
                written.affine() && !operand.access.zero_outside && written.constant == 0 &&
                read.constant + layouts_.of[size_t(operand.value)].offset == 0 &&
                count(buffer(operand.value)) == count(op.result);
    for (size_t f = 0; same && f < op.factors.size(); ++f)
      same = op.extent(int(f)) == 1 || read.coefficients[f] == written.coefficients[f];
    return same;
  }

  /// The operand is read at the position within a row, and is the same for all rows.
  bool reads_row(const LocalOp& op, size_t input, int64_t length) const {
    const Operand& operand = op.inputs[input];
    const Address read = layouts_.read(op, int(input)), written = layouts_.written(op);
    bool row = type(operand.value) == DType::f32 && read.affine() && !operand.access.zero_outside &&
               read.constant >= 0 && (layouts_.of[size_t(operand.value)].offset + read.constant) % bias_multiple == 0;
    for (size_t f = 0; row && f < op.factors.size(); ++f) {
      const int64_t stride = written.coefficients[f], extent = op.extent(int(f));
      if (extent == 1) continue;
      row = stride * extent <= length ? read.coefficients[f] == stride
                                      : stride % length == 0 && read.coefficients[f] == 0;
    }
    return row;
  }

  bool plain(const LocalOp& op) const { return !op.reduction() && !op.one_hot && !op.converts && !op.collective; }

  /// The operator is the one of this name, of one element of each operand, as the model has it.
  bool is(const LocalOp& op, std::string_view tag) const {
    const Node& node = reference_[op.node];
    return plain(op) && node.op && node.op->tag() == tag && op.body == node.body;
  }

  std::optional<Epilogue> biased(const LocalOp& add, ValueId product, int64_t length) const {
    const Expr x = Expr::input(0), y = Expr::input(1);
    if (!plain(add) || add.inputs.size() != 2 || (!(add.body == x + y) && !(add.body == y + x))) return std::nullopt;
    const size_t summand = buffer(add.inputs[0].value) == product ? 0 : 1, bias = 1 - summand;
    if (buffer(add.inputs[summand].value) != product || !reads_own_elements(add, summand) ||
        !reads_row(add, bias, length))
      return std::nullopt;
    Epilogue out{.kind = ProductEpilogue::bias, .bias = add.inputs[bias].value, .result = add.result};
    out.bias_offset = layouts_.read(add, int(bias)).constant;
    out.passed_on = {add.inputs[summand].value};
    return out;
  }

  std::optional<Epilogue> activated(Epilogue sum, int number, int64_t length) const {
    const LocalOp& activation = op(number);
    if (activation.inputs.size() != 1 || buffer(activation.inputs[0].value) != sum.result ||
        !reads_own_elements(activation, 0))
      return std::nullopt;
    const bool kept = needed_besides(sum.result, number);
    if (is(activation, "relu") && !kept)
      sum.kind = ProductEpilogue::bias_relu;
    else if (is(activation, "gelu") && (!kept || length % row_multiple == 0))
      sum.kind = kept ? ProductEpilogue::bias_gelu_kept : ProductEpilogue::bias_gelu;
    else
      return std::nullopt;
    if (kept) sum.beside = sum.result;
    sum.passed_on.push_back(activation.inputs[0].value);
    sum.result = activation.result;
    return sum;
  }

  /// gelu_gradient of what was kept (operand 0) and the product.
  std::optional<Epilogue> slope(const LocalOp& gradient, ValueId product, int64_t length) const {
    if (!is(gradient, "gelu_gradient") || gradient.inputs.size() != 2 || length % row_multiple != 0)
      return std::nullopt;
    const ValueId kept = gradient.inputs[0].value;
    if (buffer(gradient.inputs[1].value) != product || buffer(kept) != kept || kept == product ||
        !reads_own_elements(gradient, 0) || !reads_own_elements(gradient, 1))
      return std::nullopt;
    Epilogue out{.kind = ProductEpilogue::gelu_slope, .beside = kept, .result = gradient.result};
    out.passed_on = {gradient.inputs[1].value};
    return out;
  }

  /// With the gradient of the bias: the sums over all rows of what is stored.
  std::optional<Epilogue> summed(Epilogue slope, const LocalOp& sum, int64_t length) const {
    const bool adds = sum.reduction() == FactorKind::sum && !sum.one_hot && !sum.converts &&
                      sum.body == Expr::input(0) && sum.inputs.size() == 1 &&
                      buffer(sum.inputs[0].value) == slope.result && !sum.inputs[0].access.zero_outside &&
                      type(sum.result) == DType::f32 && count(sum.result) == length && buffer(sum.result) == sum.result;
    if (!adds) return std::nullopt;
    const Address read = layouts_.read(sum, 0), written = layouts_.written(sum);
    bool columns = read.affine() && written.affine() && written.constant == 0 &&
                   read.constant + layouts_.of[size_t(sum.inputs[0].value)].offset == 0;
    int64_t rows = 1;
    for (size_t f = 0; columns && f < sum.factors.size(); ++f) {
      if (sum.extent(int(f)) == 1) continue;
      const bool summed = sum.factors[f].reduced();
      columns = summed ? read.coefficients[f] % length == 0 : read.coefficients[f] == written.coefficients[f];
      if (summed) rows *= sum.extent(int(f));
    }
    if (!columns || rows * length != count(slope.result)) return std::nullopt;
    slope.sums = sum.result;
    slope.passed_on.push_back(sum.inputs[0].value);
    return slope;
  }

  const Program& reference_;
  const LocalProgram& program_;
  const Layouts& layouts_;
  const FusedProducts& faster_;
  std::map<ValueId, std::vector<int>> readers_;  ///< by buffer: operators
};

}  // namespace

std::vector<LaunchStep> fuse_epilogues(std::vector<LaunchStep> steps, const Program& reference,
                                       const LocalProgram& program, const Layouts& layouts,
                                       const FusedProducts& faster) {
  return Joiner(reference, program, layouts, faster).run(std::move(steps));
}

}  // namespace hetsynth::codegen::cuda
