// The example models at test size, as reference programs of the whole training step.
#pragma once
#include <map>
#include <string>

#include "dsl/ir/interpreter.h"
#include "dsl/ir/program.h"

namespace hetsynth::test {

using Settings = std::map<std::string, std::string>;

Program mlp_program(const Settings& settings = {{"context", "3"}, {"width", "4"}, {"hidden", "10"}, {"batch", "7"}});
Program gpt_program(
    const Settings& settings = {
        {"layers", "2"}, {"heads", "2"}, {"width", "12"}, {"batch", "5"}, {"seq", "6"}, {"dropout", "0.1"}});

/// Starting values of parameters and states, and made-up bytes for the inputs.
Bindings starting_values(const Program& program, uint64_t seed);

}  // namespace hetsynth::test
