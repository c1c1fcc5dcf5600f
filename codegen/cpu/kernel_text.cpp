#include "codegen/cpu/kernel_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/expression.h"

namespace hetsynth::codegen {
namespace {

/// Elements of a row handled at a time where the row is passed over once: its buffers then stay in the first-level
/// cache.
constexpr int64_t chunk = 4096;

class KernelPrinter {
 public:
  KernelPrinter(const Kernel& kernel, const KernelNames& names) : k_(kernel), n_(names), single_(kernel.loops.empty()) {
    for (size_t m = 0; m < k_.members.size(); ++m) info_.push_back(inspect(int(m)));
    if (single_) return;
    bool terms = std::any_of(info_.begin(), info_.end(), [](const Info& i) { return i.terms || i.buffered; });
    bool rows_after = std::any_of(k_.members.begin(), k_.members.end(),
                                  [](const KernelMember& m) { return m.role == Role::row && m.level >= 0; });
    int64_t row = k_.loops.back().extent();
    chunked_ = terms && !rows_after && k_.passes == 1 && row > chunk;
    long_counter_ = row >= (int64_t(1) << 31) / largest_stride();
  }

  std::string run() {
    line(signature() + " {");
    ++depth_;
    prologue();
    if (!k_.no_rows()) {
      open_rows();
      if (chunked_)
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
  /// How a member's value reaches its readers.
  struct Info {
    bool local = false;     ///< a variable, read in the same pass or row
    bool buffered = false;  ///< a row buffer
    bool reloaded = false;  ///< read back from where it is stored
    bool terms = false;     ///< a reduction that writes its summands to a buffer first
  };

  Info inspect(int m) const {
    const KernelMember& member = k_.members[m];
    Info info;
    bool later = false, picked = false;
    for (size_t r = size_t(m) + 1; r < k_.members.size(); ++r)
      for (const KernelRead& read : k_.members[r].reads) {
        if (read.source != m) continue;
        const KernelMember& reader = k_.members[r];
        bool across = member.role == Role::element && (reader.level > member.level || sums_directly(reader));
        picked = picked || read.picks;
        later = later || across;
        info.local = info.local || (!across && !read.picks);
      }
    bool unit = member.stored >= 0 && member.store.affine() && !single_ && member.store.coefficients[k_.inner()] == 1;
    info.reloaded = later && !picked && unit;
    info.buffered = picked || (later && !unit);
    info.terms = reduces_row(member) && !sums_directly(member);
    return info;
  }

  bool reduces_row(const KernelMember& m) const {
    bool scatters = m.op->one_hot && !m.op->factors[m.op->looked_up()].reduced();
    return !scatters && (m.role == Role::row_reduce || (m.role == Role::accumulate && m.over_inner && m.reduces_inner));
  }

  /// A reduction of neighbouring elements that already lie somewhere.
  bool sums_directly(const KernelMember& m) const {
    if (!reduces_row(m) || m.op->one_hot || m.op->body.kind() != ExprKind::input) return false;
    const KernelRead& read = m.reads[0];
    if (read.source >= 0)
      return k_.members[read.source].role == Role::element && k_.members[read.source].dtype == DType::f32;
    return read.address.affine() && read.address.coefficients[k_.inner()] == 1 && read.guards.empty() &&
           !read.always_zero && k_.parameters[read.parameter].dtype == DType::f32;
  }

  int64_t largest_stride() const {
    int64_t largest = 1;
    auto look = [&](const Address& a) { largest = std::max(largest, std::abs(a.coefficients[k_.inner()])); };
    for (const KernelMember& m : k_.members) {
      look(m.store);
      if (m.random_index) look(*m.random_index);
      for (const KernelRead& read : m.reads) look(read.address);
    }
    return largest;
  }

  // --- text
  // -----------------------------------------------------------------------------------------------------------------------

  void line(const std::string& text) { out_ += std::string(size_t(depth_) * 2, ' ') + text + "\n"; }

  std::string signature() const {
    std::string text;
    for (size_t p = 0; p < k_.parameters.size(); ++p) {
      const Parameter& parameter = k_.parameters[p];
      text += fmt::format("{}{}{}* __restrict__ {}", text.empty() ? "" : ", ", parameter.written ? "" : "const ",
                          parameter.dtype == DType::f32 ? "float" : "int", n_.parameters[p]);
    }
    if (k_.uses_step) text += text.empty() ? "long step" : ", long step";
    if (k_.uses_seed) text += text.empty() ? "unsigned long seed" : ", unsigned long seed";
    return "static void " + n_.function + "(" + text + ")";
  }

  bool is_max(const KernelMember& m) const { return m.op->reduction() == FactorKind::max; }
  std::string neutral(const KernelMember& m) const { return is_max(m) ? "-__builtin_inff()" : "0.0f"; }
  std::string value(int m) const { return n_.members[m] + "_"; }
  std::string total(int m) const { return n_.members[m] + "_total_"; }
  std::string row_buffer(int m) const { return n_.members[m] + (info_[m].terms ? "_terms_" : "_row_"); }
  std::string type(const KernelMember& m) const { return m.dtype == DType::i32 ? "int" : single_ ? "double" : "float"; }
  /// Whether the member's reduction is collected in a variable rather than in memory.
  bool has_total(int m) const {
    return (k_.members[m].role == Role::accumulate && k_.members[m].whole) || summed_in_chunks(m);
  }
  bool summed_in_chunks(int m) const {
    const KernelMember& member = k_.members[m];
    return chunked_ && reduces_row(member) && (info_[m].terms || member.reads[0].source >= 0);
  }
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
        line(fmt::format("{} = (float){};", element(k_.members[m].stored, k_.members[m].store, int(m)), total(int(m))));
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
      if (info_[m].buffered || info_[m].terms)
        line(fmt::format("float {}[{}];", row_buffer(int(m)), std::max<int64_t>(k_.loops.back().extent(), 1)));
    row_code(-1);
    for (int pass = 0; pass < k_.passes; ++pass) {
      std::string counter = n_.loops.back();
      run_pass(pass, fmt::format("for ({1} {0} = 0; {0} < {2}; ++{0}) {{", counter, long_counter_ ? "long" : "int",
                                 k_.loops.back().extent()));
      after_pass(pass);
      row_code(pass);
    }
  }

  void chunked_row() {
    const std::string& counter = n_.loops.back();
    int64_t extent = k_.loops.back().extent();
    for (size_t m = 0; m < k_.members.size(); ++m)
      if (has_total(int(m)) && !k_.members[m].whole) line(declare_total(int(m)));
    row_code(-1);
    line(fmt::format("for (long {0}_begin_ = 0; {0}_begin_ < {1}; {0}_begin_ += {2}) {{", counter, extent, chunk));
    ++depth_;
    line(fmt::format("const long {0}_end_ = {0}_begin_ + {1} < {2} ? {0}_begin_ + {1} : {2};", counter, chunk, extent));
    for (size_t m = 0; m < k_.members.size(); ++m)
      if (info_[m].buffered || info_[m].terms) line(fmt::format("float {}[{}];", row_buffer(int(m)), chunk));
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
    lookups(pass, false);
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

  void in_row(int m) {
    const KernelMember& member = k_.members[m];
    bool updates = member.role == Role::accumulate && member.over_inner && (!reduces_row(member));
    if (member.role != Role::element && !info_[m].terms && !updates) return;
    if (member.op->one_hot && lookup_varies(member)) line(lookup(m));
    if (member.role == Role::element) return define(m, /*in_row=*/true);
    if (updates) return update(m, member);
    line(fmt::format("{}[{}] = {};", row_buffer(m), buffer_index(), expression(m)));
  }

  std::string buffer_index() const {
    return chunked_ ? fmt::format("{0} - {0}_begin_", n_.loops.back()) : n_.loops.back();
  }

  /// Stores the value where it is wanted, computing it once.
  void define(int m, bool in_row) {
    const KernelMember& member = k_.members[m];
    std::vector<std::string> targets;
    if (member.stored >= 0) targets.push_back(element(member.stored, member.store, m));
    if (in_row && info_[m].buffered) targets.push_back(fmt::format("{}[{}]", row_buffer(m), buffer_index()));
    std::string text = expression(m);
    if (info_[m].local || targets.size() != 1) {
      line(fmt::format("const {} {} = {};", type(member), value(m), text));
      text = value(m);
    }
    std::string cast = single_ && member.dtype == DType::f32 ? "(float)" : "";
    for (const std::string& target : targets)
      line(fmt::format("{} = {}{};", target, cast, text == value(m) || cast.empty() ? text : "(" + text + ")"));
  }

  void update(int m, const KernelMember& member) {
    if (member.whole && !member.op->one_hot) return collect_value(m, total(m), expression(m));
    std::string target = element(member.stored, member.store, m);
    bool scatters = member.op->one_hot && !member.op->factors[member.op->looked_up()].reduced();
    if (!scatters) return collect_value(m, target, expression(m));
    line(fmt::format("if ({}) {} += {};", lookup_inside(m), target, body_text(m, member.op->one_hot->rest)));
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
        if (!(member.whole && from_chunks))
          collect_value(m, member.whole ? total(m) : element(member.stored, member.store, m), sum);
        continue;
      }
      if (info_[m].local || member.stored < 0) {
        line(fmt::format("const float {} = {};", value(m), sum));
        sum = value(m);
      }
      if (member.stored >= 0) line(fmt::format("{} = {};", element(member.stored, member.store, m), sum));
    }
  }

  /// Where the summands of a row lie.
  std::string row_pointer(int m) const {
    if (info_[m].terms) return row_buffer(m);
    const KernelRead& read = k_.members[m].reads[0];
    if (read.source < 0) return pointer(read.parameter, read.address);
    const KernelMember& producer = k_.members[read.source];
    return info_[read.source].buffered ? row_buffer(read.source) : pointer(producer.stored, producer.store);
  }
  std::string chunk_pointer(int m) const {
    if (info_[m].terms) return row_buffer(m);
    int source = k_.members[m].reads[0].source;
    if (info_[source].buffered) return row_buffer(source);
    return fmt::format("{} + {}_begin_", row_pointer(m), n_.loops.back());
  }

  void row_code(int level) {
    for (size_t m = 0; m < k_.members.size(); ++m) {
      const KernelMember& member = k_.members[m];
      bool here = member.level == level &&
                  (member.role == Role::row || (member.role == Role::accumulate && !member.over_inner));
      if (!here) continue;
      if (member.op->one_hot) line(lookup(int(m)));
      if (member.role == Role::row)
        define(int(m), false);
      else
        update(int(m), member);
    }
  }

  // --- one-hot lookups
  // ------------------------------------------------------------------------------------------------------------

  bool in_pass(const KernelMember& m) const {
    return m.role == Role::element || m.role == Role::row_reduce || m.over_inner;
  }

  bool lookup_varies(const KernelMember& m) const {
    const KernelRead& read = m.reads[m.op->one_hot->operand];
    if (read.source >= 0) return k_.members[read.source].role == Role::element;
    const Address& a = read.address;
    return a.coefficients[k_.inner()] != 0 ||
           std::any_of(a.others.begin(), a.others.end(),
                       [&](const Address::Term& t) { return t.counter == k_.inner(); });
  }

  void lookups(int pass, bool varying) {
    for (size_t m = 0; m < k_.members.size(); ++m) {
      const KernelMember& member = k_.members[m];
      if (member.op->one_hot && member.level == pass && in_pass(member) && lookup_varies(member) == varying)
        line(lookup(int(m)));
    }
  }

  std::string lookup_name(int m) const { return n_.members[m] + "_at_"; }

  std::string lookup(int m) const {
    const OneHot& hot = *k_.members[m].op->one_hot;
    int64_t lo = k_.members[m].op->ranges[hot.factor].lo;
    return fmt::format("const long {} = {}{};", lookup_name(m), input(m, hot.operand).text,
                       lo ? fmt::format(" - {}", lo) : "");
  }

  std::string lookup_inside(int m) const {
    const LocalOp& op = *k_.members[m].op;
    return fmt::format("(unsigned long){} < {}", lookup_name(m), op.extent(op.looked_up()));
  }

  // --- expressions
  // ----------------------------------------------------------------------------------------------------------------

  std::string expression(int m) const {
    const KernelMember& member = k_.members[m];
    if (!member.op->one_hot) return body_text(m, member.op->body);
    return fmt::format("({} ? {} : {})", lookup_inside(m), body_text(m, member.op->one_hot->rest), number(0, single_));
  }

  std::string body_text(int m, const Expr& body) const {
    const KernelMember& member = k_.members[m];
    ExpressionLeaves leaves;
    leaves.f64 = single_;
    leaves.input = [&](int j) { return input(m, j); };
    leaves.factor = [&](int f) { return factor(m, f); };
    leaves.random = [&](int stream) {
      return fmt::format("uniform(seed, {}, {}, step)", stream, address_text(*member.random_index, counters(m)));
    };
    Printed printed = print(body, leaves);
    if (member.dtype == DType::i32) return printed.integer ? printed.text : "(int)(" + printed.text + ")";
    return real_text(printed, single_);
  }

  std::vector<std::string> counters(int m) const {
    std::vector<std::string> out = n_.loops;
    out.push_back(lookup_name(m));
    return out;
  }

  std::string factor(int m, int f) const {
    const KernelMember& member = k_.members[m];
    int64_t lo = member.op->ranges[f].lo;
    int counter = member.counter[f];
    if (counter < 0) return fmt::format("{}", lo);
    std::string text = counters(m)[counter];
    return lo ? fmt::format("({} + {})", text, lo) : text;
  }

  Printed input(int m, int j) const {
    const KernelMember& member = k_.members[m];
    const KernelRead& read = member.reads[j];
    if (read.source >= 0) return from_member(m, read);
    bool integer = k_.parameters[read.parameter].dtype == DType::i32;
    std::string zero = integer ? "0" : number(0, single_);
    if (read.always_zero) return {zero, Printed::Binding::unary, integer};
    std::string text = element(read.parameter, read.address, m);
    std::string inside;
    for (const Guard& guard : read.guards) {
      std::string index = address_text(guard.index, counters(m));
      if (guard.below) inside += fmt::format("{}{} >= 0", inside.empty() ? "" : " && ", index);
      if (guard.above) inside += fmt::format("{}{} < {}", inside.empty() ? "" : " && ", index, guard.extent);
    }
    if (!inside.empty()) text = fmt::format("({} ? {} : {})", inside, text, zero);
    return {text, Printed::Binding::unary, integer};
  }

  Printed from_member(int m, const KernelRead& read) const {
    const KernelMember& producer = k_.members[read.source];
    bool integer = producer.dtype == DType::i32;
    std::string text = value(read.source);
    if (read.picks) {
      text = fmt::format("{}[{}]", row_buffer(read.source), lookup_name(m));
    } else if (producer.role == Role::element && k_.members[m].level > producer.level) {
      text = info_[read.source].reloaded ? element(producer.stored, producer.store, read.source)
                                         : fmt::format("{}[{}]", row_buffer(read.source), buffer_index());
    }
    return {text, Printed::Binding::unary, integer};
  }

  std::string element(int parameter, const Address& address, int m) const {
    return fmt::format("{}[{}]", n_.parameters[parameter], address_text(address, counters(m)));
  }

  /// The beginning of the row that an address walks through.
  std::string pointer(int parameter, Address address) const {
    address.coefficients[k_.inner()] = 0;
    std::string at = address_text(address, counters(0));
    return n_.parameters[parameter] + (at == "0" ? "" : " + " + at);
  }

  const Kernel& k_;
  const KernelNames& n_;
  bool single_;  ///< no loops: single values, computed in double
  bool chunked_ = false, long_counter_ = false;
  std::vector<Info> info_;
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
