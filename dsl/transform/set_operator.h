// Nodes of programs that are made of other programs.
#pragma once
#include <memory>

#include "dsl/ir/program.h"

namespace hetsynth {

/// Makes the node what the operator computes of the node's inputs, which are nodes of `program`: type, space and body.
void set_operator(Node& node, std::shared_ptr<const Operator> op, const Program& program);

}  // namespace hetsynth
