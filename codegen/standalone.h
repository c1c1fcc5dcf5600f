// `inspect --out`: the generated programs of all ranks as a project that builds and runs without hetsynth.
#pragma once
#include <string>

#include "dsl/cluster/cluster.h"
#include "dsl/spmd/spmd.h"

namespace hetsynth {

/// Writes every rank's source into `directory` (made if absent) and, unless cpu devices and GPUs are mixed, a
/// CMakeLists.txt, a table of the tensors (ranks.h) and a main program that runs one step on made-up inputs and prints
/// the loss: main.cpp for cpus, ranks as threads; main.cu for GPUs, built by nvcc into an executable per rank, which
/// meet through NCCL. Throws UserError (exit code 1) if a file cannot be written.
void write_standalone_project(const std::string& directory, const Program& reference, const SpmdProgram& program,
                              const Cluster& cluster);

}  // namespace hetsynth
