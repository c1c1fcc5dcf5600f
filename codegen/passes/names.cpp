#include "codegen/passes/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace hetsynth::codegen {
namespace {

/// Words of C++ and of the prelude that no tensor may be called.
constexpr std::string_view reserved[] = {
    "alignas",  "auto",    "bool",     "break",    "case",      "catch",   "char",     "class",  "const",   "continue",
    "default",  "delete",  "do",       "double",   "else",      "enum",    "explicit", "export", "extern",  "false",
    "float",    "for",     "friend",   "goto",     "if",        "inline",  "int",      "long",   "mutable", "namespace",
    "new",      "nullptr", "operator", "private",  "protected", "public",  "register", "return", "short",   "signed",
    "sizeof",   "static",  "struct",   "switch",   "template",  "this",    "throw",    "true",   "try",     "typedef",
    "typename", "union",   "unsigned", "using",    "virtual",   "void",    "volatile", "while",  "and",     "or",
    "not",      "xor",     "concept",  "requires", "arena",     "context", "step",     "seed",   "fill",    "copy",
    "row_sum",  "row_max", "main",     "bf16",     "fp16",      "turn"};

std::string identifier(std::string_view wish) {
  std::string out;
  for (char c : wish) out += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  if (out.empty() || std::isdigit(static_cast<unsigned char>(out[0]))) out = "t" + out;
  // A trailing underscore marks the element of a tensor inside of a kernel.
  while (out.size() > 1 && out.back() == '_') out.pop_back();
  if (std::count(std::begin(reserved), std::end(reserved), out)) out += "_tensor";
  return out;
}

std::string_view suffix(Opcode opcode) {
  switch (opcode) {
    case Opcode::all_gather:
      return "_gathered";
    case Opcode::all_reduce:
      return "_reduced";
    case Opcode::reduce_scatter:
      return "_scattered";
    case Opcode::all_to_all:
      return "_exchanged";
    case Opcode::halo_exchange:
      return "_with_halo";
    case Opcode::broadcast:
      return "_sent";
    case Opcode::send:
      return "_received";
    default:
      return "";
  }
}

}  // namespace

std::string Names::take(std::string_view wish) {
  const std::string base = identifier(wish);
  if (taken_.insert(base).second) return base;
  int& number = next_.try_emplace(base, 2).first->second;
  while (true)
    if (const auto [name, fresh] = taken_.insert(fmt::format("{}_{}", base, number++)); fresh) return *name;
}

std::vector<std::string> name_values(const LocalProgram& program, const Program& reference) {
  std::vector<std::string> out(program.values.size());
  Names names;
  for (ValueId leaf : program.leaves) out[leaf] = names.take(reference[program.values[leaf].node].name);
  for (const LocalOp& op : program.ops) {
    std::string wish = reference[op.node].name;
    if (op.collective) wish += suffix(op.collective->opcode);
    out[op.result] = names.take(wish);
  }
  return out;
}

}  // namespace hetsynth::codegen
