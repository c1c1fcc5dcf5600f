// The command line on a machine of doubles: tests/gpu/run.sh is executed with it, so that its lines have run before they
// come to a GPU.
#include "runtime/cuda/cuda_backend.h"
#include "tests/support/cuda/cuda_doubles.h"

namespace {

/// Before main: every command asks this machine for its GPUs.
const struct Doubles {
  Doubles() : machine(options()) { hetsynth::cuda::stand_in(&machine.backend()); }
  ~Doubles() { hetsynth::cuda::stand_in(nullptr); }
  static hetsynth::testing_support::MachineOptions options() {
    hetsynth::testing_support::MachineOptions out;
    out.traces_kernels = false;
    return out;
  }
  hetsynth::testing_support::CudaDoubles machine;
} doubles;

}  // namespace
