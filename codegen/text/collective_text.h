// Calls of the ABI's collectives as generated text, shared by the backends: groups of cpu devices use them, and groups
// that hold cpu devices and GPUs.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "codegen/passes/lower.h"

namespace hetsynth::codegen {

/// Collects the boundary tables that the calls of one source file mention.
class CollectiveText {
 public:
  CollectiveText(const Lowered& lowered, Names& table_names);

  /// "hetsynth_all_reduce(context, 3, 0, a, b, 128, 0, 0)". `before` gains a definition that must stand before the
  /// statement, if the call needs one. The source of a rank that gives nothing is not looked at, nor the destination of
  /// one that only sends.
  std::string call(const LocalOp& op, const std::string& source, const std::string& destination, std::string& before);
  /// Number of the instruction in the SPMD program, the same on all ranks.
  int id(const Instruction& instruction) const;
  /// Definitions of all tables mentioned so far.
  const std::string& tables() const { return tables_text_; }

 private:
  std::string table(int table, int64_t extent);
  std::string hosts(int axis);
  std::string exchange_arguments(const LocalOp& op, std::string& before);
  const Lowered& lowered_;
  std::vector<int> made_by_;  ///< by value: the number of its instruction, -1 for leaves
  Names& names_;
  std::map<std::pair<int, int64_t>, std::string> tables_;  ///< by table and unit
  std::map<int, std::string> hosts_;                       ///< by axis
  std::string tables_text_;
};

/// Declarations of those of the ABI's collectives that a text calls, each preceded by an empty line.
std::string collective_declarations(const std::string& calls);

}  // namespace hetsynth::codegen
