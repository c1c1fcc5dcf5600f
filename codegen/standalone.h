// `inspect --out`: the generated programs of all ranks as a project that builds and runs without hetsynth.
#pragma once
#include <string>

#include "dsl/spmd/cluster.h"
#include "dsl/spmd/spmd.h"

namespace hetsynth {

/// Writes every rank's source into `directory` (made if absent) and, if all devices are cpus, a CMakeLists.txt, a table
/// of the tensors (ranks.h) and a main program (main.cpp) that runs one step on made-up inputs, ranks as threads, and
/// prints the loss. Throws UserError (exit code 1) if a file cannot be written.
void write_standalone_project(const std::string& directory, const Program& reference, const SpmdProgram& program,
                              const Cluster& cluster);

}  // namespace hetsynth
