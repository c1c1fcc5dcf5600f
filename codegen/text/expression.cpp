#include "codegen/text/expression.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace hetsynth::codegen {
namespace {

using Binding = Printed::Binding;

std::string wrap(const std::string& text, bool needed) { return needed ? "(" + text + ")" : text; }

/// What a variable that holds the value is called after.
const char* word_for(ExprKind kind) {
  switch (kind) {
    case ExprKind::exp:
      return "exp";
    case ExprKind::log:
      return "log";
    case ExprKind::sqrt:
      return "sqrt";
    case ExprKind::tanh:
      return "tanh";
    case ExprKind::erf:
      return "erf";
    case ExprKind::sin:
      return "sin";
    case ExprKind::cos:
      return "cos";
    case ExprKind::power:
      return "power";
    case ExprKind::random:
      return "draw";
    case ExprKind::div:
      return "ratio";
    case ExprKind::mul:
      return "product";
    case ExprKind::add:
      return "sum";
    case ExprKind::sub:
      return "difference";
    case ExprKind::select:
      return "choice";
    default:
      return "part";
  }
}

/// Parts of an expression that occur more than once, the largest of them: what lies inside of a repeated part counts
/// once.
class Repetitions {
 public:
  explicit Repetitions(const Expr& e) { visit(e); }
  bool repeated(const Expr& e) const {
    auto found = find(e);
    return found != parts_.end() && found->count > 1;
  }

 private:
  struct Part {
    Expr value;
    int count;
  };

  std::vector<Part>::const_iterator find(const Expr& e) const {
    return std::find_if(parts_.begin(), parts_.end(), [&](const Part& part) { return part.value == e; });
  }

  /// A function, a division, or two operations and more; conditions stay where they are tested.
  static bool worth_a_name(const Expr& e) {
    switch (e.kind()) {
      case ExprKind::less:
      case ExprKind::less_equal:
      case ExprKind::equal:
        return false;
      case ExprKind::sqrt:
      case ExprKind::div:
        return true;
      default:
        return flops(e) >= 2;
    }
  }

  void visit(const Expr& e) {
    if (worth_a_name(e)) {
      if (auto found = find(e); found != parts_.end()) {
        ++parts_[size_t(found - parts_.begin())].count;
        return;
      }
      parts_.push_back({e, 1});
    }
    for (const Expr& arg : e.args()) visit(arg);
  }

  std::vector<Part> parts_;
};

class Printer {
 public:
  Printer(const Expr& whole, const ExpressionLeaves& leaves) : leaves_(leaves) {
    if (leaves.declare) repetitions_.emplace(whole);
  }

  /// The expression, or the name of the variable that holds it.
  Printed print(const Expr& e) {
    if (!repetitions_ || !repetitions_->repeated(e)) return print_here(e);
    for (const auto& [value, name] : declared_)
      if (value == e) return {name, Binding::unary, false};
    std::string value = real_text(print_here(e), leaves_.f64);
    declared_.push_back({e, leaves_.declare(word_for(e.kind()), value)});
    return {declared_.back().second, Binding::unary, false};
  }

 private:
  Printed print_here(const Expr& e) {
    switch (e.kind()) {
      case ExprKind::input:
        return leaves_.input(e.index());
      case ExprKind::factor:
        return {leaves_.factor(e.index()), Binding::unary, true};
      case ExprKind::constant:
        return {number(e.value(), leaves_.f64), e.value() < 0 ? Binding::product : Binding::unary, false};
      case ExprKind::step:
        return {leaves_.step, Binding::unary, true};
      case ExprKind::random:
        return {leaves_.random(e.index()), Binding::unary, false};
      case ExprKind::neg:
        return {"-" + operand(e.arg(0), Binding::unary), Binding::product, false};
      case ExprKind::round_bf16:
      case ExprKind::round_fp16:
        return {fmt::format("round_{}({})", memory_type(*rounds_to(e.kind())), real_text(print(e.arg(0)), leaves_.f64)),
                Binding::unary, false};
      case ExprKind::add:
        return infix(e, "+", Binding::sum, Binding::product);
      case ExprKind::sub:
        return infix(e, "-", Binding::sum, Binding::product);
      case ExprKind::mul:
        return infix(e, "*", Binding::product, Binding::unary);
      case ExprKind::div:
        return infix(e, "/", Binding::product, Binding::unary);
      case ExprKind::less:
        return comparison(e, "<");
      case ExprKind::less_equal:
        return comparison(e, "<=");
      case ExprKind::equal:
        return comparison(e, "==");
      case ExprKind::select:
        return choice(e);
      case ExprKind::exp:
        return call(e, "exp");
      case ExprKind::log:
        return call(e, "log");
      case ExprKind::sqrt:
        return call(e, "sqrt");
      case ExprKind::tanh:
        return call(e, "tanh");
      case ExprKind::erf:
        return call(e, "erf");
      case ExprKind::sin:
        return call(e, "sin");
      case ExprKind::cos:
        return call(e, "cos");
      case ExprKind::floor:
        return call(e, "floor");
      case ExprKind::power:
        return power(e);
      case ExprKind::maximum:
        return call(e, "max");
      case ExprKind::minimum:
        return call(e, "min");
    }
    return {};
  }

  std::string operand(const Expr& e, Binding at_least) {
    Printed p = print(e);
    if (p.integer) return real_text(p, leaves_.f64);
    return wrap(p.text, p.binding < at_least);
  }

  Printed infix(const Expr& e, const char* op, Binding own, Binding right) {
    std::string first = operand(e.arg(0), own), second = operand(e.arg(1), right);
    return {first + " " + op + " " + second, own, false};
  }

  /// Two integers are compared as such.
  Printed comparison(const Expr& e, const char* op) {
    Printed a = print(e.arg(0)), b = print(e.arg(1));
    auto side = [&](const Printed& p) {
      if (a.integer && b.integer) return wrap(p.text, p.binding < Binding::sum);
      return p.integer ? real_text(p, leaves_.f64) : wrap(p.text, p.binding < Binding::sum);
    };
    return {side(a) + " " + op + " " + side(b), Binding::comparison, true};
  }

  Printed choice(const Expr& e) {
    Printed condition = print(e.arg(0));
    std::string test =
        condition.integer ? condition.text : wrap(condition.text, condition.binding < Binding::sum) + " != 0";
    std::string yes = operand(e.arg(1), Binding::sum), no = operand(e.arg(2), Binding::sum);
    return {"(" + test + " ? " + yes + " : " + no + ")", Binding::unary, false};
  }

  std::string function(const char* name) const {
    if (!leaves_.f64) return std::string(name) + "_f32";
    bool library = std::string(name) != "max" && std::string(name) != "min";
    return library ? std::string("__builtin_") + name : std::string(name) + "_f64";
  }

  Printed call(const Expr& e, const char* name) {
    std::string text = function(name) + "(";
    for (size_t i = 0; i < e.args().size(); ++i) text += (i ? ", " : "") + real_text(print(e.arg(int(i))), leaves_.f64);
    return {text + ")", Binding::unary, false};
  }

  Printed power(const Expr& e) {
    if (e.arg(1).is_constant(2)) {
      Printed base = print(e.arg(0));
      if (e.arg(0).args().empty() && !base.integer) return {base.text + " * " + base.text, Binding::product, false};
    }
    std::string base = real_text(print(e.arg(0)), leaves_.f64), exponent = real_text(print(e.arg(1)), leaves_.f64);
    return {(leaves_.f64 ? "__builtin_pow(" : "power_f32(") + base + ", " + exponent + ")", Binding::unary, false};
  }

  const ExpressionLeaves& leaves_;
  std::optional<Repetitions> repetitions_;
  std::vector<std::pair<Expr, std::string>> declared_;
};

}  // namespace

Printed print(const Expr& expr, const ExpressionLeaves& leaves) { return Printer(expr, leaves).print(expr); }

std::string real_text(const Printed& printed, bool f64, bool tight) {
  if (printed.integer)
    return std::string(f64 ? "(double)" : "(float)") + wrap(printed.text, printed.binding != Binding::unary);
  return wrap(printed.text, tight && printed.binding != Binding::unary);
}

std::string_view memory_type(DType dtype) {
  return dtype == DType::f32 ? "float" : dtype == DType::i32 ? "int" : hetsynth::name(dtype);
}

std::string conversion_to(DType dtype) { return is_half(dtype) ? fmt::format("({})", memory_type(dtype)) : ""; }

std::string product_suffix(DType operands) {
  return is_half(operands) ? fmt::format("_{}", memory_type(operands)) : "";
}

std::string number(double value, bool f64) {
  if (std::isnan(value)) return f64 ? "__builtin_nan(\"\")" : "__builtin_nanf(\"\")";
  bool infinite =
      std::abs(value) > (f64 ? std::numeric_limits<double>::max() : double(std::numeric_limits<float>::max()));
  if (infinite) return std::string(value < 0 ? "-" : "") + (f64 ? "__builtin_inf()" : "__builtin_inff()");
  std::string text = f64 ? fmt::format("{}", value) : fmt::format("{}", float(value));
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return f64 ? text : text + "f";
}

std::string address_text(const Address& address, const std::vector<std::string>& counters) {
  std::string out;
  auto add = [&](int64_t factor, const std::string& counter) {
    int64_t size = std::abs(factor);
    out += out.empty() ? (factor < 0 ? "-" : "") : (factor < 0 ? " - " : " + ");
    out += size == 1 ? counter : fmt::format("{} * {}", counter, size);
  };
  for (size_t c = 0; c < address.coefficients.size(); ++c)
    if (address.coefficients[c] != 0) add(address.coefficients[c], counters[c]);
  for (const Address::Term& term : address.others) {
    std::string at = counters[term.counter];
    if (term.start != 0) at = fmt::format("({} + {})", at, term.start);
    if (term.divide != 1) at = fmt::format("{} / {}", at, term.divide);
    if (term.modulo != 0) at = fmt::format("{} % {}", at, term.modulo);
    add(term.stride, "(" + at + ")");
  }
  if (address.per_turn != 0) add(address.per_turn, "turn");
  if (out.empty()) return fmt::format("{}", address.constant);
  if (address.constant != 0) out += fmt::format(" {} {}", address.constant < 0 ? "-" : "+", std::abs(address.constant));
  return out;
}

std::string pointer_text(const std::string& pointer, const std::string& address) {
  if (address == "0") return pointer;
  const bool takes_off = address.find('-') != std::string::npos;
  return pointer + " + " + (takes_off ? "(" + address + ")" : address);
}

}  // namespace hetsynth::codegen
