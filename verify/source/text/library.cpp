#include "verify/source/text/library.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <map>
#include <optional>
#include <string_view>

#include "verify/source/text/attention_call.h"
#include "verify/source/text/differs.h"
#include "verify/source/text/each.h"
#include "verify/source/text/spelling.h"

namespace hetsynth::source {
namespace {

class Spelling {
 public:
  explicit Spelling(Function& function) : f_(function) {}

  void run() {
    note_tables(f_.body);
    visit(f_.body);
    int number = 0;
    each_statement(f_.body, [&](Statement& s) {
      s.number = number++;
      each_expression_of(s, [](Expression& e) {
        if (e.kind == Kind::call) e.slot = helper_number(e.name);
      });
    });
  }

 private:
  /// Constant arrays of the function: what a convolution's sizes and strides are.
  void note_tables(const Statement& s) {
    if (s.kind == Statement::Kind::declare && s.elements > 0) {
      std::vector<int64_t>& values = tables_[s.slot];
      for (const Expression& e : s.list)
        if (e.kind == Kind::integer) values.push_back(e.integer_value);
    }
    for (const Statement& inner : s.body) note_tables(inner);
  }

  void visit(Statement& s) {
    if (s.kind == Statement::Kind::call) {
      const std::string& name = s.value.name;
      size_t arguments = s.value.args.size();
      if (const auto operands = operands_of(name); operands && arguments == 17) {
        for (const size_t operand : {size_t(4), size_t(8)})
          if (s.value.args[operand].type != pointer_to(*operands))
            throw Differs(fmt::format("{} takes an operand of another type", name), s.line);
        s = matmul(s);
      }
      if (name == "hetsynth_matmul_then" && arguments == 15) matmul_then(s);
      if (name == "hetsynth_convolution" && arguments == 6) convolution(s);
      if (name == "hetsynth_attention" || name == "hetsynth_attention_gradient") spell_attention(s, f_, tables_);
      if (name == "fill" && arguments == 3) s = fill(s);
      if (name == "copy" && arguments == 3) s = copy(s);
      return;
    }
    if (s.kind == Statement::Kind::assign && s.value.kind == Kind::call && s.value.name == "row_sum" &&
        s.value.args.size() == 2 && s.target.type == Type::real)
      return row_sum(s);
    for (Statement& inner : s.body) visit(inner);
  }

  /// x = row_sum(first, count), or +=: turns of a loop, which add as others do.
  void row_sum(Statement& s) {
    const Statement here = s;
    const int i = new_slot("i"), total = new_slot("sum");
    const Expression added = element(here.value.args[0], variable(i, Type::integer));
    const Expression& limit = here.value.args[1];
    if (here.accumulates && here.target.kind == Kind::variable) {
      s = loop(here, i, limit, {assign(here, here.target, added, true)});
      return;
    }
    s = like(here, Statement::Kind::block);
    s.body = {declare(here, total, zero()),
              loop(here, i, limit, {assign(here, variable(total, Type::real), added, true)}),
              assign(here, here.target, variable(total, Type::real), here.accumulates)};
  }

  int new_slot(const std::string& name) {
    f_.slots.push_back(name);
    return int(f_.slots.size()) - 1;
  }

  static Statement like(const Statement& at, Statement::Kind kind) {
    Statement out;
    out.kind = kind;
    out.line = at.line;
    return out;
  }

  Statement loop(const Statement& at, int slot, const Expression& limit, std::vector<Statement> body) {
    Statement out = like(at, Statement::Kind::loop);
    out.slot = slot;
    out.value = number(0);
    out.limit = limit;
    out.body = std::move(body);
    return out;
  }

  static Statement assign(const Statement& at, Expression target, Expression value, bool accumulates = false) {
    Statement out = like(at, Statement::Kind::assign);
    out.target = std::move(target);
    out.value = std::move(value);
    out.accumulates = accumulates;
    return out;
  }

  /// (batch, m, n, k, a, 3 strides, w, 3 strides, c, 3 strides, accumulate): codegen/interface/abi.h.
  Statement matmul(const Statement& s) {
    const std::vector<Expression>& x = s.value.args;
    int b = new_slot("b"), i = new_slot("i"), j = new_slot("j"), k = new_slot("k"), total = new_slot("sum");
    auto at = [&](int operand, int row, int column) {
      Expression batch = product(variable(b, Type::integer), x[size_t(operand) + 1]);
      Expression rows = product(variable(row, Type::integer), x[size_t(operand) + 2]);
      Expression columns = product(variable(column, Type::integer), x[size_t(operand) + 3]);
      return element(x[size_t(operand)], sum(sum(batch, rows), columns));
    };
    Statement begin = like(s, Statement::Kind::declare);
    begin.slot = total;
    begin.type = Type::real;
    begin.has_value = true;
    begin.value.kind = Kind::choose;
    begin.value.type = Type::real;
    begin.value.args = {x[16], at(12, i, j), zero()};
    Statement add =
        assign(s, variable(total, Type::real), binary(Kind::mul, Type::real, at(4, i, k), at(8, k, j)), true);
    Statement store = assign(s, at(12, i, j), variable(total, Type::real));
    return loop(s, b, x[0], {loop(s, i, x[1], {loop(s, j, x[2], {begin, loop(s, k, x[3], {add}), store})})});
  }

  /// By the name of a product, what it multiplies.
  static std::optional<DType> operands_of(std::string_view name) {
    if (name == "hetsynth_matmul") return DType::f32;
    for (const HalfFormat& format : half_formats)
      if (name == fmt::format("hetsynth_matmul_{}", hetsynth::name(format.dtype))) return format.dtype;
    return std::nullopt;
  }

  /// (type of operands, m, n, k, a, 2 strides, w, 2 strides, c, row, epilogue, bias, beside): codegen/interface/abi.h.
  void matmul_then(Statement& s) {
    enum { bias = 4, relu = 6, gelu = 36, kept_gelu = 164, slope = 192, slope_and_sums = 208 };
    const std::vector<Expression> x = s.value.args;
    const int64_t epilogue = x[12].kind == Kind::integer ? x[12].integer_value : 0;
    if (std::ranges::count(std::initializer_list<int64_t>{bias, relu, gelu, kept_gelu, slope, slope_and_sums},
                           epilogue) == 0)
      return;
    const bool slopes = epilogue == slope || epilogue == slope_and_sums;
    const int i = new_slot("i"), j = new_slot("j"), k = new_slot("k"), total = new_slot("sum"),
              before = new_slot("before");
    auto at = [&](int operand, int row, Expression row_stride, int column, Expression column_stride) {
      return element(x[size_t(operand)], sum(product(variable(row, Type::integer), std::move(row_stride)),
                                             product(variable(column, Type::integer), std::move(column_stride))));
    };
    const Expression c = at(10, i, x[11], j, number(1)), beside = at(14, i, x[11], j, number(1));
    const Expression product_sum = variable(total, Type::real), activated = variable(before, Type::real);
    std::vector<Statement> steps = {declare(s, total, zero())};
    steps.push_back(
        loop(s, k, x[3], {assign(s, product_sum, times(at(4, i, x[5], k, x[6]), at(7, k, x[8], j, x[9])), true)}));
    steps.push_back(
        declare(s, before, slopes ? beside : plus(product_sum, element(x[13], variable(j, Type::integer)))));
    if (epilogue == kept_gelu) steps.push_back(assign(s, beside, activated));
    steps.push_back(assign(s, c,
                           epilogue == bias   ? activated
                           : epilogue == relu ? call("max_f32", {activated, zero()})
                           : slopes           ? times(product_sum, gelu_slope(activated))
                                    : times(times(real(0.5), activated), plus(real(1), gelu_tanh(activated)))));
    const Statement here = s;
    s = loop(here, i, x[1], {loop(here, j, x[2], std::move(steps))});
    if (epilogue != slope_and_sums) return;
    // The columns are summed over what is stored by then.
    Statement sums = loop(here, j, x[2],
                          {declare(here, total, zero()), loop(here, i, x[1], {assign(here, product_sum, c, true)}),
                           assign(here, element(x[13], variable(j, Type::integer)), product_sum)});
    Statement both = like(here, Statement::Kind::block);
    both.body = {std::move(s), std::move(sums)};
    s = std::move(both);
  }

  static Statement declare(const Statement& at, int slot, Expression value) {
    Statement out = like(at, Statement::Kind::declare);
    out.slot = slot;
    out.type = Type::real;
    out.has_value = true;
    out.value = std::move(value);
    return out;
  }

  // gelu(x) = x (1 + tanh(a (x + b x^3))) / 2, as cublasLt has it: Hendrycks and Gimpel, Gaussian Error Linear Units,
  // 2016.
  static constexpr double gelu_cubic = 0.044715;
  static Expression gelu_a() { return real(std::sqrt(2 / M_PI)); }
  static Expression gelu_tanh(const Expression& x) {
    return call("tanh_f32", {times(gelu_a(), plus(x, times(real(gelu_cubic), times(x, times(x, x)))))});
  }
  static Expression gelu_slope(const Expression& x) {
    const Expression t = gelu_tanh(x);
    const Expression inner = times(gelu_a(), plus(real(1), times(real(3 * gelu_cubic), times(x, x))));
    const Expression falls = times(x, times(binary(Kind::sub, Type::real, real(1), times(t, t)), inner));
    return times(real(0.5), plus(plus(real(1), t), falls));
  }

  /// (computes, sizes, strides, image, kernel, result): codegen/interface/abi.h.
  void convolution(Statement& s) {
    const std::vector<Expression> x = s.value.args;
    auto sizes_at = tables_.find(x[1].slot), strides_at = tables_.find(x[2].slot);
    bool known = x[0].kind == Kind::integer && x[0].integer_value >= 0 && x[0].integer_value <= 2 &&
                 x[1].kind == Kind::variable && x[2].kind == Kind::variable && sizes_at != tables_.end() &&
                 strides_at != tables_.end() && sizes_at->second.size() == 16 && strides_at->second.size() == 12;
    if (!known) return;
    const std::vector<int64_t>&z = sizes_at->second, &strides = strides_at->second;
    enum { batch, groups, channels, outputs, height, width = 10 };
    enum { image, window, result, stride, dilation, padding };
    int b = new_slot("b"), g = new_slot("g"), c = new_slot("c"), o = new_slot("o"), total = new_slot("sum");
    int at[2][3] = {{new_slot("iy"), new_slot("ky"), new_slot("y")}, {new_slot("ix"), new_slot("kx"), new_slot("x")}};
    auto var = [](int slot) { return variable(slot, Type::integer); };
    auto by = [](Expression e, int64_t factor) { return product(std::move(e), number(factor)); };
    int64_t computes = x[0].integer_value;
    // Of image, window and result position of a direction, one follows from the others.
    Expression place[2][3], inside = number(1);
    auto require = [&](Expression condition) {
      inside = binary(Kind::and_, Type::integer, inside, std::move(condition));
    };
    auto within = [&](const Expression& e, int64_t extent) {
      require(binary(Kind::less_equal, Type::integer, number(0), e));
      require(binary(Kind::less, Type::integer, e, number(extent)));
    };
    for (int d = 0; d < 2; ++d) {
      const int64_t* of = &z[d == 0 ? height : width];
      for (int part : {image, window, result}) place[d][part] = var(at[d][part]);
      if (computes == 0) {  // the result position that meets this image position
        Expression ahead = sum(place[d][image], sum(number(of[padding]), by(place[d][window], -of[dilation])));
        require(binary(Kind::less_equal, Type::integer, number(0), ahead));
        require(binary(Kind::equal, Type::integer, binary(Kind::modulo, Type::integer, ahead, number(of[stride])),
                       number(0)));
        place[d][result] = binary(Kind::div, Type::integer, ahead, number(of[stride]));
        within(place[d][result], of[result]);
      } else {
        place[d][image] =
            sum(by(place[d][result], of[stride]), sum(by(place[d][window], of[dilation]), number(-of[padding])));
        within(place[d][image], of[image]);
      }
    }
    auto part = [&](int which, Expression first, Expression second) {
      const int64_t* by_dim = &strides[size_t(which) * 4];
      return element(x[size_t(3 + which)], sum(sum(by(std::move(first), by_dim[0]), by(std::move(second), by_dim[1])),
                                               sum(by(place[0][which], by_dim[2]), by(place[1][which], by_dim[3]))));
    };
    Expression channel = sum(by(var(g), z[channels]), var(c)), output = sum(by(var(g), z[outputs]), var(o));
    Expression parts[3] = {part(image, var(b), channel), part(window, output, var(c)), part(result, var(b), output)};
    Expression term = binary(Kind::mul, Type::real, parts[(computes + 1) % 3], parts[(computes + 2) % 3]);
    Expression guarded;
    guarded.kind = Kind::choose;
    guarded.type = Type::real;
    guarded.args = {inside, term, zero()};
    // Loops over everything that indexes what is computed, then over what is summed.
    std::vector<std::pair<int, int64_t>> loops[2];  // kept, summed
    loops[computes == 1].push_back({b, z[batch]});
    loops[0].push_back({g, z[groups]});
    loops[computes == 2].push_back({c, z[channels]});
    loops[computes == 0].push_back({o, z[outputs]});
    for (int d = 0; d < 2; ++d) {
      const int64_t* of = &z[d == 0 ? height : width];
      loops[0].push_back({at[d][computes], of[computes]});
      int other = computes == 1 ? result : window;
      loops[1].push_back({at[d][other], of[other]});
    }
    auto nest = [&](const std::vector<std::pair<int, int64_t>>& around, std::vector<Statement> body) {
      for (size_t l = around.size(); l-- > 0;)
        body = {loop(s, around[l].first, number(around[l].second), std::move(body))};
      return body.front();
    };
    Statement begin = declare(s, total, zero());
    Statement add = assign(s, variable(total, Type::real), guarded, true);
    Statement store = assign(s, parts[computes], variable(total, Type::real));
    s = nest(loops[0], {begin, nest(loops[1], {add}), store});
  }

  Statement fill(const Statement& s) {
    const std::vector<Expression>& x = s.value.args;
    int i = new_slot("i");
    return loop(s, i, x[1], {assign(s, element(x[0], variable(i, Type::integer)), x[2])});
  }

  Statement copy(const Statement& s) {
    const std::vector<Expression>& x = s.value.args;
    int i = new_slot("i");
    Expression at = variable(i, Type::integer);
    return loop(s, i, x[2], {assign(s, element(x[1], at), element(x[0], at))});
  }

  Function& f_;
  std::map<int, std::vector<int64_t>> tables_;  ///< by slot
};

}  // namespace

void spell_out(Function& function) { Spelling(function).run(); }

}  // namespace hetsynth::source
