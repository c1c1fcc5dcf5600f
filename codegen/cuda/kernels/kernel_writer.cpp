#include "codegen/cuda/kernels/kernel_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "dsl/base/error.h"

namespace hetsynth::codegen::cuda {

std::string Counters::take(const std::string& base, int64_t divide, int64_t modulo, const std::string& wish) {
  std::string expression = base;
  if (divide != 1) expression += fmt::format(" / {}", divide);
  if (modulo != 0) expression += fmt::format(" % {}", modulo);
  if (expression == base) return base;
  for (const Counters* outer : outer_)
    if (auto found = outer->by_expression_.find(expression); found != outer->by_expression_.end()) return found->second;
  if (auto found = by_expression_.find(expression); found != by_expression_.end()) return found->second;
  std::string stem = "at_";
  for (char c : wish) stem += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  std::string name = stem;
  for (int n = 2; taken(name); ++n) name = fmt::format("{}{}", stem, n);
  by_expression_[expression] = name;
  definitions_.push_back({name, expression});
  for (Counters* outer : outer_) outer->hide(name);
  return name;
}

void Counters::hide(const std::string& name) {
  hidden_.insert(name);
  for (Counters* outer : outer_) outer->hide(name);
}

bool Counters::taken(const std::string& name) const {
  if (hidden_.count(name)) return true;
  auto defines = [&](const Counters& c) {
    return std::any_of(c.definitions_.begin(), c.definitions_.end(), [&](const auto& d) { return d.first == name; });
  };
  return defines(*this) || std::any_of(outer_.begin(), outer_.end(), [&](const Counters* c) { return defines(*c); });
}

bool mentions_word(const std::string& text, const std::string& word) {
  auto part = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    size_t end = at + word.size();
    if ((at == 0 || !part(text[at - 1])) && (end == text.size() || !part(text[end]))) return true;
  }
  return false;
}

void Counters::write(Lines& lines, const std::string& use) const {
  for (const auto& [name, expression] : definitions_)
    if (mentions_word(use, name)) lines.add(fmt::format("const {} {} = {};", index_type_, name, expression));
}

std::string Arguments::storage(ValueId value, bool written) {
  ValueId buffer = context_->lowered.layouts.of[value].buffer;
  auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) {
    return e.argument.kind == KernelArgument::Kind::storage && e.argument.value == buffer;
  });
  if (found == entries_.end()) {
    KernelArgument argument{KernelArgument::Kind::storage, buffer, -1, context_->lowered.names[buffer]};
    entries_.push_back({argument, context_->lowered.local.values[buffer].type.dtype});
    found = std::prev(entries_.end());
  }
  (written ? found->written : found->read) = true;
  return found->argument.name;
}

void Arguments::scratch(int number, const std::string& name, bool is_written) {
  entries_.push_back({{KernelArgument::Kind::scratch, -1, number, name}, DType::f32, !is_written, is_written});
}

void Arguments::note(const Expr& body) {
  if (mentions(body, ExprKind::random)) needs_seed();
  if (mentions(body, ExprKind::step)) needs_step();
}

std::vector<KernelArgument> Arguments::list() const {
  std::vector<KernelArgument> out;
  for (const Entry& entry : entries_) out.push_back(entry.argument);
  if (step_) out.push_back({KernelArgument::Kind::clock, -1, -1, "clock"});
  return out;
}

std::string Arguments::declaration() const {
  std::string out;
  for (const Entry& entry : entries_) {
    bool scratch = entry.argument.kind == KernelArgument::Kind::scratch;
    std::string type = scratch ? context_->types.real : context_->types.memory_text(entry.dtype);
    out += fmt::format("{}{}{}*{} {}", out.empty() ? "" : ", ", entry.written ? "" : "const ", type,
                       entry.written && entry.read ? "" : " __restrict__", entry.argument.name);
  }
  if (step_) out += fmt::format("{}const long long* __restrict__ clock", out.empty() ? "" : ", ");
  return out;
}

std::string Arguments::definitions() const {
  std::string out;
  if (step_) out += "  const long long step = clock[0];\n";
  if (seed_) out += "  const unsigned long long seed = (unsigned long long)clock[1];\n";
  return out;
}

std::string index_type(const KernelContext& context, const std::vector<int>& ops) {
  constexpr double most = double(1 << 30);
  bool fits = true;
  auto check = [&](ValueId value) {
    fits = fits && double(element_count(context.lowered.local.values[value].type.shape)) < most &&
           double(context.lowered.local.values[context.lowered.layouts.of[value].buffer].count()) < most;
  };
  for (int i : ops) {
    const LocalOp& op = context.lowered.local.ops[i];
    double points = 1;
    for (size_t f = 0; f < op.factors.size(); ++f) points *= double(int(f) == op.looked_up() ? 1 : op.extent(int(f)));
    fits = fits && points < most;
    check(op.result);
    for (const Operand& operand : op.inputs) check(operand.value);
  }
  return fits ? "int" : "long long";
}

std::string element_name(const KernelContext& context, const LocalOp& op) {
  return context.lowered.names[op.result] + "_";
}

bool is_kernel_word(const std::string& name) {
  static const std::vector<std::string> words = {"at",
                                                 "row",
                                                 "column",
                                                 "lane",
                                                 "first",
                                                 "last",
                                                 "start",
                                                 "chunk",
                                                 "v",
                                                 "k",
                                                 "hit",
                                                 "hits",
                                                 "found",
                                                 "piece",
                                                 "load4",
                                                 "store4",
                                                 "warp_sum",
                                                 "warp_max",
                                                 "expf",
                                                 "logf",
                                                 "sqrtf",
                                                 "tanhf",
                                                 "erff",
                                                 "sinf",
                                                 "cosf",
                                                 "floorf",
                                                 "powf",
                                                 "fmaxf",
                                                 "fminf",
                                                 "block_sum",
                                                 "block_max",
                                                 "exp",
                                                 "log",
                                                 "sqrt",
                                                 "tanh",
                                                 "erf",
                                                 "sin",
                                                 "cos",
                                                 "floor",
                                                 "pow",
                                                 "stacked_sum",
                                                 "stacked_max",
                                                 "y0",
                                                 "y1",
                                                 "yn",
                                                 "j0",
                                                 "j1",
                                                 "jn",
                                                 "collect_hits",
                                                 "philox_uniform",
                                                 "threadIdx",
                                                 "blockIdx",
                                                 "blockDim",
                                                 "gridDim",
                                                 "launch",
                                                 "communicator",
                                                 "float4",
                                                 "int4",
                                                 "tx",
                                                 "warp",
                                                 "quad",
                                                 "pair",
                                                 "strip",
                                                 "panel",
                                                 "cell",
                                                 "deep",
                                                 "half",
                                                 "side",
                                                 "beyond",
                                                 "round2",
                                                 "copy8",
                                                 "load_left",
                                                 "load_right",
                                                 "load_right_by_rows",
                                                 "mma_bf16",
                                                 "mma_fp16",
                                                 "ty",
                                                 "i",
                                                 "j",
                                                 "four",
                                                 "left",
                                                 "right",
                                                 "feature",
                                                 "row_begin",
                                                 "column_begin",
                                                 "column_end",
                                                 "seen",
                                                 "seen_from",
                                                 "largest",
                                                 "total",
                                                 "score",
                                                 "weight",
                                                 "now",
                                                 "shift",
                                                 "clock",
                                                 "step",
                                                 "seed",
                                                 "scale",
                                                 "sum"};
  return std::find(words.begin(), words.end(), name) != words.end() || name.rfind("at_", 0) == 0 ||
         name.rfind("hetsynth", 0) == 0 || name.rfind("nccl", 0) == 0 || name.rfind("compute_", 0) == 0 ||
         name.rfind("partial_", 0) == 0 || name.rfind("__", 0) == 0 || name.ends_with("_f32") ||
         name.ends_with("_f64") || name.ends_with("_four") || name.ends_with("_tile") || name.ends_with("_part") ||
         name.ends_with("_of_block") || name.rfind("lanes16_", 0) == 0 || name.rfind("lanes4_", 0) == 0 ||
         name.ends_with("_fragment") || name.ends_with("_result");
}

std::string kernel_head(const std::string& comment, const std::string& name, int threads, const std::string& arguments,
                        int blocks) {
  const std::string bounds = blocks > 0 ? fmt::format("{}, {}", threads, blocks) : fmt::format("{}", threads);
  return fmt::format("{}extern \"C\" __global__ void __launch_bounds__({}) {}({}) {{\n", comment, bounds, name,
                     arguments);
}

std::string kernel_head(const std::string& comment, const std::string& name, int threads, const Arguments& arguments,
                        int blocks) {
  return kernel_head(comment, name, threads, arguments.declaration(), blocks) + arguments.definitions();
}

}  // namespace hetsynth::codegen::cuda
