#include "dsl/transform/set_operator.h"

#include <utility>
#include <vector>

namespace hetsynth {

void set_operator(Node& node, std::shared_ptr<const Operator> op, const Program& program) {
  std::vector<TensorType> types;
  for (const NodeId input : node.inputs) types.push_back(program[input].type);
  node.type = op->infer(types);
  node.space = op->space(types, node.type);
  node.body = op->body(types, node.type);
  node.op = std::move(op);
}

}  // namespace hetsynth
