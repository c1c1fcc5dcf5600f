// MPI as processes of a run. Its library is opened at run time, and only under a launcher; nothing of MPI stands in a
// header.
#pragma once
#include <memory>
#include <string>

#include "runtime/processes/process_group.h"

namespace hetsynth {

/// How many processes mpirun or srun says it has started of this program; 1: none of them started it.
int launched_processes();

/// Joins the others. Throws UserError (exit code 1) if the MPI library cannot be opened or does not start. Once per
/// process; the destructor leaves in good order and waits for the others to do so.
std::unique_ptr<ProcessGroup> join_mpi();

/// For `doctor`: the library's version ("Open MPI v4.1.4"), or "" and why there is none.
struct MpiLibrary {
  std::string version, path, problem;
};
MpiLibrary find_mpi();

}  // namespace hetsynth
