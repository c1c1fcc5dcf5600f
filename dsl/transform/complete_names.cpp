#include "dsl/transform/complete_names.h"

#include <fmt/format.h>

#include <map>
#include <set>

#include "dsl/base/error.h"

namespace hetsynth {
namespace {

/// Names that are found again, in plans and checkpoints: whatever variables of the model's file have the same name,
/// these stay as they are.
bool keeps_name(const Node& node) {
  return node.kind == NodeKind::parameter || (node.kind == NodeKind::state && !is_constant_data(node));
}

}  // namespace

void complete_names(Program& program) {
  std::vector<std::string> base(program.nodes.size());
  for (size_t i = program.nodes.size(); i-- > 0;) {
    Node& node = program.nodes[i];
    if (!node.name.empty()) base[i] = node.name;
    if (base[i].empty()) base[i] = "t";
    for (NodeId input : node.inputs)
      if (program[input].name.empty() && base[input].empty()) base[input] = base[i];
  }
  std::map<std::string, int> used;
  std::set<std::string> taken;
  for (const Node& node : program.nodes)
    if (keeps_name(node))
      HETSYNTH_CHECK(taken.insert(node.name).second, "parameters and states have names of their own");
  for (Node& node : program.nodes) {
    if (keeps_name(node)) continue;
    std::string wish = node.name.empty() ? base[node.id] + "." + std::string(node.tag()) : node.name;
    int& count = used[wish];
    std::string unique = wish;
    while (!taken.insert(unique).second) unique = fmt::format("{}_{}", wish, ++count + 1);
    // Files and made-up samples of an input go by the name that it was given.
    if (node.kind == NodeKind::input && unique != wish && node.micro_batch.of.empty()) node.micro_batch.of = wish;
    node.name = unique;
  }
}

}  // namespace hetsynth
