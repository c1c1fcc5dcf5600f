#include "codegen/cpu/member_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace hetsynth::codegen {

std::string MemberText::value_expression(int m, std::vector<std::string>& before) const {
  const KernelMember& member = k_.members[m];
  if (!member.op->one_hot) return expression(m, member.op->body, &before);
  return fmt::format("({} ? {} : {})", lookup_inside(m), expression(m, member.op->one_hot->rest),
                     number(0, plan_.single));
}

std::string MemberText::part_name(int m, const std::string& word, const std::vector<std::string>& before) const {
  auto taken = [&](const std::string& name) {
    auto declares = [&](const std::string& line) { return line.find(" " + name + "_ =") != std::string::npos; };
    return std::count(n_.members.begin(), n_.members.end(), name) > 0 ||
           std::any_of(before.begin(), before.end(), declares);
  };
  std::string base = n_.members[m] + "_" + word, name = base;
  for (int n = 2; taken(name); ++n) name = fmt::format("{}{}", base, n);
  return name + "_";
}

std::string MemberText::expression(int m, const Expr& body, std::vector<std::string>* before) const {
  const KernelMember& member = k_.members[m];
  ExpressionLeaves leaves;
  leaves.f64 = plan_.single;
  leaves.input = [&](int j) { return input(m, j); };
  leaves.factor = [&](int f) { return factor(m, f); };
  leaves.random = [&](int stream) {
    return fmt::format("uniform(seed, {}, {}, step)", stream, address_text(*member.random_index, counters(m)));
  };
  if (before && member.dtype == DType::f32)
    leaves.declare = [&, before](const std::string& word, const std::string& value) {
      std::string name = part_name(m, word, *before);
      before->push_back(fmt::format("const {} {} = {};", plan_.single ? "double" : "float", name, value));
      return name;
    };
  Printed printed = print(body, leaves);
  if (member.dtype == DType::i32) return printed.integer ? printed.text : "(int)(" + printed.text + ")";
  return real_text(printed, plan_.single);
}

std::string MemberText::lookup(int m) const {
  const OneHot& hot = *k_.members[m].op->one_hot;
  int64_t lo = k_.members[m].op->ranges[hot.factor].lo;
  return fmt::format("const long {} = {}{};", lookup_name(m), input(m, hot.operand).text,
                     lo ? fmt::format(" - {}", lo) : "");
}

std::string MemberText::lookup_inside(int m) const {
  const LocalOp& op = *k_.members[m].op;
  return fmt::format("(unsigned long){} < {}", lookup_name(m), op.extent(op.looked_up()));
}

std::string MemberText::element(int parameter, const Address& address, int m) const {
  return fmt::format("{}[{}]", n_.parameters[parameter], address_text(address, counters(m)));
}

std::string MemberText::row_pointer(int parameter, Address address) const {
  address.coefficients[k_.inner()] = 0;
  return pointer_text(n_.parameters[parameter], address_text(address, counters(0)));
}

std::string MemberText::buffered(int m) const {
  const std::string& counter = n_.loops.back();
  return fmt::format("{}[{}]", buffer(m), plan_.chunked ? fmt::format("{0} - {0}_begin_", counter) : counter);
}

std::vector<std::string> MemberText::counters(int m) const {
  std::vector<std::string> out = n_.loops;
  out.push_back(lookup_name(m));
  return out;
}

std::string MemberText::factor(int m, int f) const {
  const KernelMember& member = k_.members[m];
  int64_t lo = member.op->ranges[f].lo;
  int counter = member.counter[f];
  if (counter < 0) return fmt::format("{}", lo);
  std::string text = counters(m)[counter];
  return lo ? fmt::format("({} + {})", text, lo) : text;
}

Printed MemberText::input(int m, int j) const {
  const KernelMember& member = k_.members[m];
  const KernelRead& read = member.reads[j];
  if (read.source >= 0) return from_member(m, read);
  bool integer = k_.parameters[read.parameter].dtype == DType::i32;
  std::string zero = integer ? "0" : number(0, plan_.single);
  if (read.always_zero) return {zero, Printed::Binding::unary, integer};
  std::string text = element(read.parameter, read.address, m);
  if (is_half(k_.parameters[read.parameter].dtype)) text = "(float)" + text;
  std::string inside;
  for (const Guard& guard : read.guards) {
    std::string index = address_text(guard.index, counters(m));
    if (guard.below) inside += fmt::format("{}{} >= 0", inside.empty() ? "" : " && ", index);
    if (guard.above) inside += fmt::format("{}{} < {}", inside.empty() ? "" : " && ", index, guard.extent);
  }
  if (!inside.empty()) text = fmt::format("({} ? {} : {})", inside, text, zero);
  return {text, Printed::Binding::unary, integer};
}

Printed MemberText::from_member(int m, const KernelRead& read) const {
  const KernelMember& producer = k_.members[read.source];
  bool integer = producer.dtype == DType::i32;
  std::string text = variable(read.source);
  if (read.picks) {
    text = fmt::format("{}[{}]", buffer(read.source), lookup_name(m));
  } else if (producer.role == Role::element && k_.members[m].level > producer.level) {
    bool reloaded = plan_.travel[read.source].reloaded;
    text = reloaded ? element(producer.stored, producer.store, read.source) : buffered(read.source);
    if (reloaded && is_half(producer.dtype)) text = "(float)" + text;
  }
  return {text, Printed::Binding::unary, integer};
}

}  // namespace hetsynth::codegen
