#include "models.h"

#include <cmath>

#include "dsl/transform/differentiate.h"
#include "harness.h"
#include "hetsynth/hetsynth.h"

namespace gpt_example {
#include "examples/gpt.cpp"
}
namespace mlp_example {
#include "examples/mlp.cpp"
}

namespace hetsynth::test {
namespace {

Program traced(const std::string& file, const std::function<void()>& builder, const Settings& settings) {
  Trace trace(file, settings);
  run_builder(trace, builder);
  return differentiate(trace);
}

}  // namespace

Program mlp_program(const Settings& settings) { return traced("mlp.cpp", mlp_example::model, settings); }
Program gpt_program(const Settings& settings) { return traced("gpt.cpp", gpt_example::model, settings); }

Bindings starting_values(const Program& program, uint64_t seed) {
  Bindings out = initial_values(program, seed);
  for (const Node& node : program.nodes)
    if (node.kind == NodeKind::input) out[node.id] = random_array(node.type, 0, 255, seed + uint64_t(node.id));
  return out;
}

}  // namespace hetsynth::test
