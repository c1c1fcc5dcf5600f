// Names of things in a plan file, the same way round for writing and reading. Internal to dsl/spmd.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dsl/spmd/spmd.h"

namespace hetsynth {

/// Nodes by what a plan calls them: the name, with "%7" after it if several nodes share the name.
class NodeNames {
 public:
  explicit NodeNames(const Program& program);
  const std::string& name(NodeId id) const { return names_.at(id); }
  std::optional<NodeId> find(const std::string& name) const;
  std::vector<std::string> all() const { return names_; }

 private:
  std::vector<std::string> names_;
  std::map<std::string, NodeId> ids_;
};

/// A factor's name, or "#2" if it is no unique plain word.
std::string factor_text(const Space& space, int factor);
std::optional<int> find_factor(const Space& space, std::string_view text);

/// "word(argument)" or "word(first, rest)": how splits and placements are written.
struct Call {
  std::string word;
  std::vector<std::string> arguments;  ///< at most two; the second may contain anything
};
/// nullopt if the text is neither a word nor a call.
std::optional<Call> parse_call(std::string_view text);

/// All names of an enumeration with a name() function, in order.
template <typename Enum>
std::vector<std::string> enum_names(Enum last) {
  std::vector<std::string> names;
  for (int i = 0; i <= int(last); ++i) names.emplace_back(name(Enum(i)));
  return names;
}
inline std::vector<std::string> opcode_names() { return enum_names(Opcode::halo_exchange); }
inline std::vector<std::string> reduce_names() { return enum_names(ReduceOp::product); }
inline std::vector<std::string> realisation_names() { return enum_names(Realisation::hierarchical); }

/// Which fields an opcode uses besides result, operands and cause.
struct OpcodeFields {
  bool axis, cut, to_cut, reduce, realisation, root, to, halo = false;
};
OpcodeFields fields_of(Opcode opcode);

}  // namespace hetsynth
