#include "codegen/cpu/kernel_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/cpu/member_text.h"
#include "codegen/text/annotate.h"

namespace hetsynth::codegen {
namespace {

class KernelPrinter {
 public:
  KernelPrinter(const Kernel& kernel, const KernelNames& names)
      : k_(kernel), n_(names), plan_(plan_row(kernel)), text_(kernel, names, plan_) {}

  std::string run() {
    line(signature() + " {");
    ++depth_;
    prologue();
    if (!k_.no_rows()) {
      open_rows();
      if (plan_.chunked)
        chunked_row();
      else
        plain_row();
      close_rows();
    }
    epilogue();
    --depth_;
    line("}");
    return out_;
  }

 private:
  void line(const std::string& text) { out_ += std::string(size_t(depth_) * 2, ' ') + text + "\n"; }

  std::string signature() const {
    std::vector<std::string> parameters;
    for (size_t p = 0; p < k_.parameters.size(); ++p)
      parameters.push_back(fmt::format("{}{}* __restrict__ {}", k_.parameters[p].written ? "" : "const ",
                                       memory_type(k_.parameters[p].dtype), n_.parameters[p]));
    if (k_.uses_step) parameters.push_back("long step");
    if (k_.uses_seed) parameters.push_back("unsigned long seed");
    if (k_.uses_turn) parameters.push_back("long turn");
    // Inlined into the step, kernels that are called once would be optimised as one huge function.
    return "__attribute__((noinline)) static void " + call_text(n_.function, parameters, 41);
  }

  bool is_max(const KernelMember& m) const { return m.op->reduction() == FactorKind::max; }
  std::string neutral(const KernelMember& m) const { return is_max(m) ? "-__builtin_inff()" : "0.0f"; }
  std::string total(int m) const { return n_.members[m] + "_total_"; }
  std::string type(const KernelMember& m) const {
    return m.dtype == DType::i32 ? "int" : plan_.single ? "double" : "float";
  }
  /// Whether the member's reduction is collected in a variable rather than in memory.
  bool has_total(int m) const {
    return (k_.members[m].role == Role::accumulate && k_.members[m].whole) || summed_in_chunks(m);
  }
  bool summed_in_chunks(int m) const {
    const KernelMember& member = k_.members[m];
    return plan_.chunked && reduces_row(member) && (plan_.travel[m].terms || member.reads[0].source >= 0);
  }
  /// Totals of reductions to a single value outlive the rows; those of a row, even of the only one, do not.
  static bool declared_before(const KernelMember& member) { return member.role == Role::accumulate && member.whole; }
  std::string declare_total(int m) const {
    return is_max(k_.members[m]) ? fmt::format("float {} = -__builtin_inff();", total(m))
                                 : fmt::format("double {} = 0.0;", total(m));
  }

  void prologue() {
    for (size_t m = 0; m < k_.members.size(); ++m) {
      const KernelMember& member = k_.members[m];
      if (member.role != Role::accumulate) continue;
      if (member.whole)
        line(declare_total(int(m)));
      else
        line(fmt::format("fill({}, {}, {});", n_.parameters[member.stored], member.result_count, neutral(member)));
    }
  }

  void epilogue() {
    for (size_t m = 0; m < k_.members.size(); ++m)
      if (k_.members[m].role == Role::accumulate && k_.members[m].whole)
        line(fmt::format("{} = (float){};", text_.target(int(m)), total(int(m))));
  }

  void open_rows() {
    for (int l = 0; l < k_.inner(); ++l) {
      line(fmt::format("for (long {0} = 0; {0} < {1}; ++{0}) {{", n_.loops[l], k_.loops[l].extent()));
      ++depth_;
    }
  }
  void close_rows() {
    for (int l = 0; l < k_.inner(); ++l) {
      --depth_;
      line("}");
    }
  }

  void plain_row() {
    for (size_t m = 0; m < k_.members.size(); ++m)
      if (plan_.travel[m].buffered || plan_.travel[m].terms)
        line(fmt::format("float {}[{}];", text_.buffer(int(m)), std::max<int64_t>(k_.loops.back().extent(), 1)));
    row_code(-1);
    for (int pass = 0; pass < k_.passes; ++pass) {
      std::string counter = n_.loops.back();
      run_pass(pass, fmt::format("for ({1} {0} = 0; {0} < {2}; ++{0}) {{", counter, plan_.long_counter ? "long" : "int",
                                 k_.loops.back().extent()));
      after_pass(pass);
      row_code(pass);
    }
  }

  void chunked_row() {
    const std::string& counter = n_.loops.back();
    int64_t extent = k_.loops.back().extent();
    for (size_t m = 0; m < k_.members.size(); ++m)
      if (has_total(int(m)) && !declared_before(k_.members[m])) line(declare_total(int(m)));
    row_code(-1);
    line(fmt::format("for (long {0}_begin_ = 0; {0}_begin_ < {1}; {0}_begin_ += {2}) {{", counter, extent,
                     chunk_elements));
    ++depth_;
    line(fmt::format("const long {0}_end_ = {0}_begin_ + {1} < {2} ? {0}_begin_ + {1} : {2};", counter, chunk_elements,
                     extent));
    for (size_t m = 0; m < k_.members.size(); ++m)
      if (plan_.travel[m].buffered || plan_.travel[m].terms)
        line(fmt::format("float {}[{}];", text_.buffer(int(m)), chunk_elements));
    run_pass(0, fmt::format("for (long {0} = {0}_begin_; {0} < {0}_end_; ++{0}) {{", counter));
    for (size_t m = 0; m < k_.members.size(); ++m)
      if (summed_in_chunks(int(m)))
        collect(int(m), total(int(m)), fmt::format("{0}, {1}_end_ - {1}_begin_", chunk_pointer(int(m)), counter));
    --depth_;
    line("}");
    after_pass(0);
    row_code(0);
  }

  void run_pass(int pass, const std::string& head) {
    for (size_t m = 0; m < k_.members.size(); ++m)
      if (looks_up_before(int(m), pass)) line(text_.lookup(int(m)));
    std::string before = std::move(out_);
    out_.clear();
    ++depth_;
    for (size_t m = 0; m < k_.members.size(); ++m)
      if (k_.members[m].level == pass) in_row(int(m));
    --depth_;
    std::string body = std::move(out_);
    out_ = std::move(before);
    if (body.empty()) return;
    line(head);
    out_ += body;
    line("}");
  }

  /// Whether the member looks up a position that stays the same all along the row.
  bool looks_up_before(int m, int pass) const {
    const KernelMember& member = k_.members[m];
    return member.op->one_hot && member.level == pass && runs_in_pass(member) && !lookup_varies(k_, member);
  }

  void in_row(int m) {
    const KernelMember& member = k_.members[m];
    bool updates = member.role == Role::accumulate && member.over_inner && (!reduces_row(member));
    if (member.role != Role::element && !plan_.travel[m].terms && !updates) return;
    if (member.op->one_hot && lookup_varies(k_, member)) line(text_.lookup(m));
    if (member.role == Role::element) return define(m, /*in_row=*/true);
    if (updates) return update(m, member);
    std::string value = value_of(m);
    line(fmt::format("{} = {};", text_.buffered(m), value));
  }

  /// The member's value, after the lines that it needs.
  std::string value_of(int m) {
    std::vector<std::string> before;
    std::string value = text_.value_expression(m, before);
    for (const std::string& text : before) line(text);
    return value;
  }

  /// Stores the value where it is wanted, computing it once.
  void define(int m, bool in_row) {
    const KernelMember& member = k_.members[m];
    std::vector<std::string> targets;
    if (member.stored >= 0) targets.push_back(text_.target(m));
    if (in_row && plan_.travel[m].buffered) targets.push_back(text_.buffered(m));
    std::string text = value_of(m);
    if (plan_.travel[m].local || targets.size() != 1) {
      line(fmt::format("const {} {} = {};", type(member), text_.variable(m), text));
      text = text_.variable(m);
    }
    std::string cast = is_half(member.dtype)                        ? conversion_to(member.dtype)
                       : plan_.single && member.dtype == DType::f32 ? "(float)"
                                                                    : "";
    for (const std::string& target : targets)
      line(
          fmt::format("{} = {}{};", target, cast, text == text_.variable(m) || cast.empty() ? text : "(" + text + ")"));
  }

  void update(int m, const KernelMember& member) {
    if (member.whole && !member.op->one_hot) return collect_value(m, total(m), value_of(m));
    std::string target = text_.target(m);
    if (!scatters(member)) return collect_value(m, target, value_of(m));
    line(fmt::format("if ({}) {} += {};", text_.lookup_inside(m), target,
                     text_.expression(m, member.op->one_hot->rest)));
  }

  void collect_value(int m, const std::string& target, const std::string& text) {
    if (is_max(k_.members[m]))
      line(fmt::format("{0} = max_f32({0}, {1});", target, text));
    else
      line(fmt::format("{} += {};", target, text));
  }

  void collect(int m, const std::string& target, const std::string& arguments) {
    collect_value(m, target, fmt::format("{}({})", is_max(k_.members[m]) ? "row_max" : "row_sum", arguments));
  }

  /// Reductions over the row that the pass completed.
  void after_pass(int pass) {
    for (size_t i = 0; i < k_.members.size(); ++i) {
      int m = int(i);
      const KernelMember& member = k_.members[m];
      if (member.level != pass || !reduces_row(member)) continue;
      bool from_chunks = summed_in_chunks(m);
      std::string sum = from_chunks ? "(float)" + total(m)
                                    : fmt::format("{}({}, {})", is_max(member) ? "row_max" : "row_sum", row_pointer(m),
                                                  k_.loops.back().extent());
      if (member.role == Role::accumulate) {
        if (!(member.whole && from_chunks)) collect_value(m, member.whole ? total(m) : text_.target(m), sum);
        continue;
      }
      if (plan_.travel[m].local || member.stored < 0) {
        line(fmt::format("const float {} = {};", text_.variable(m), sum));
        sum = text_.variable(m);
      }
      if (member.stored >= 0) line(fmt::format("{} = {};", text_.target(m), sum));
    }
  }

  /// Where the summands of a row lie.
  std::string row_pointer(int m) const {
    if (plan_.travel[m].terms) return text_.buffer(m);
    const KernelRead& read = k_.members[m].reads[0];
    if (read.source < 0) return text_.row_pointer(read.parameter, read.address);
    const KernelMember& producer = k_.members[read.source];
    return plan_.travel[read.source].buffered ? text_.buffer(read.source)
                                              : text_.row_pointer(producer.stored, producer.store);
  }
  std::string chunk_pointer(int m) const {
    if (plan_.travel[m].terms) return text_.buffer(m);
    int source = k_.members[m].reads[0].source;
    if (plan_.travel[source].buffered) return text_.buffer(source);
    return fmt::format("{} + {}_begin_", row_pointer(m), n_.loops.back());
  }

  void row_code(int level) {
    for (size_t m = 0; m < k_.members.size(); ++m) {
      const KernelMember& member = k_.members[m];
      bool here = member.level == level &&
                  (member.role == Role::row || (member.role == Role::accumulate && !member.over_inner));
      if (!here) continue;
      if (member.op->one_hot) line(text_.lookup(int(m)));
      if (member.role == Role::row)
        define(int(m), false);
      else
        update(int(m), member);
    }
  }

  const Kernel& k_;
  const KernelNames& n_;
  const RowPlan plan_;
  const MemberText text_;
  std::string out_;
  int depth_ = 0;
};

}  // namespace

KernelNames user_names(const Lowered& lowered, const Kernel& kernel, std::string function) {
  KernelNames out;
  out.function = std::move(function);
  Names taken;
  for (const Parameter& parameter : kernel.parameters)
    out.parameters.push_back(taken.take(lowered.names[parameter.value]));
  for (const Loop& loop : kernel.loops) out.loops.push_back(taken.take(loop.name));
  for (const KernelMember& member : kernel.members) out.members.push_back(lowered.names[member.op->result]);
  return out;
}

KernelNames numbered_names(const Kernel& kernel) {
  KernelNames out;
  out.function = "f";
  for (size_t i = 0; i < kernel.parameters.size(); ++i) out.parameters.push_back(fmt::format("p{}", i));
  for (size_t i = 0; i < kernel.loops.size(); ++i) out.loops.push_back(fmt::format("i{}", i));
  for (size_t i = 0; i < kernel.members.size(); ++i) out.members.push_back(fmt::format("m{}", i));
  return out;
}

std::string kernel_text(const Kernel& kernel, const KernelNames& names) { return KernelPrinter(kernel, names).run(); }

}  // namespace hetsynth::codegen
