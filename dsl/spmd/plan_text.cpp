#include "dsl/spmd/plan_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace hetsynth {
namespace {

bool plain_word(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '.' || c == '\'';
  });
}

}  // namespace

NodeNames::NodeNames(const Program& program) {
  std::map<std::string, int> uses;
  for (const Node& node : program.nodes) ++uses[node.name];
  for (const Node& node : program.nodes) {
    names_.push_back(uses[node.name] == 1 ? node.name : fmt::format("{}%{}", node.name, node.id));
    ids_.emplace(names_.back(), node.id);
  }
}

std::optional<NodeId> NodeNames::find(const std::string& name) const {
  const auto found = ids_.find(name);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

std::string factor_text(const Space& space, int factor) {
  const std::string& name = space.factors.at(factor).name;
  const auto same =
      std::count_if(space.factors.begin(), space.factors.end(), [&](const Factor& f) { return f.name == name; });
  return same == 1 && plain_word(name) ? name : fmt::format("#{}", factor);
}

std::optional<int> find_factor(const Space& space, std::string_view text) {
  for (int f = 0; f < int(space.factors.size()); ++f)
    if (factor_text(space, f) == text || fmt::format("#{}", f) == text) return f;
  return std::nullopt;
}

std::optional<Call> parse_call(std::string_view text) {
  const size_t open = text.find('(');
  Call call{std::string(text.substr(0, open)), {}};
  if (!plain_word(call.word)) return std::nullopt;
  if (open == std::string_view::npos) return call;
  if (text.back() != ')') return std::nullopt;
  const std::string_view inside = text.substr(open + 1, text.size() - open - 2);
  const size_t comma = inside.find(", ");
  call.arguments.emplace_back(inside.substr(0, comma));
  if (comma != std::string_view::npos) call.arguments.emplace_back(inside.substr(comma + 2));
  return call;
}

OpcodeFields fields_of(Opcode opcode) {
  //       axis  cut  to_cut reduce realisation root to halo
  switch (opcode) {
    case Opcode::compute:
      return {false, false, false, false, false, false, false};
    case Opcode::slice:
      return {true, true, false, false, false, false, false};
    case Opcode::to_partial:
      return {true, false, false, false, false, true, false};
    case Opcode::all_gather:
      return {true, true, false, false, true, false, false};
    case Opcode::all_reduce:
      return {true, false, false, true, true, false, false};
    case Opcode::reduce_scatter:
      return {true, true, false, true, true, false, false};
    case Opcode::all_to_all:
      return {true, true, true, false, true, false, false};
    case Opcode::broadcast:
      return {true, false, false, false, true, true, false};
    case Opcode::send:
      return {true, false, false, false, false, true, true};
    case Opcode::halo_exchange:
      return {true, true, false, false, false, false, false, true};
  }
  return {};
}

}  // namespace hetsynth
