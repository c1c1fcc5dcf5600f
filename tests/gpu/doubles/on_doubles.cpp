// The command line on a machine of doubles: tests/gpu/run.sh is executed with it, so that its lines have run before
// they come to a GPU, and what goes wrong on real machines can be tried by hand:
//   HETSYNTH_DOUBLES="gpus=2 nccl=0" build/tests/hetsynth_on_doubles run examples/mlp.cpp --cluster gpus.toml
// Words: gpus=N, driver=0 (none), driver=12040 (its version), nccl=0 (none), nccl1=22703 (version on GPU 1),
// architecture=70, memory=BYTES (of each GPU), dies=1 (that GPU's rank, in its first collective).
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>

#include "runtime/cuda/cuda_backend.h"
#include "tests/support/cuda/cuda_doubles.h"

namespace {

using hetsynth::testing_support::MachineOptions;

void apply(MachineOptions& options, const std::string& word, long value) {
  if (word == "gpus")
    options.gpus = int(value);
  else if (word == "driver")
    options.has_driver = value != 0, options.driver_version = int(value);
  else if (word == "nccl")
    options.has_nccl = value != 0;
  else if (word == "nccl1")
    options.nccl_versions[1] = int(value);
  else if (word == "architecture")
    options.major = int(value / 10), options.minor = int(value % 10);
  else if (word == "memory")
    options.memory_bytes = size_t(value);
  else if (word == "dies")
    options.before_collective = [value](int gpu, const std::string& operation) {
      if (gpu == int(value)) throw std::runtime_error("fell off the bus in " + operation);
    };
  else
    std::cerr << "HETSYNTH_DOUBLES: no such word: " << word << "\n", std::exit(2);
}

MachineOptions options_of_environment() {
  MachineOptions options;
  options.traces_kernels = false;
  const char* const text = std::getenv("HETSYNTH_DOUBLES");
  std::istringstream words(text ? text : "");
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    apply(options, word.substr(0, equals),
          equals == std::string::npos ? 0 : std::strtol(word.c_str() + equals + 1, nullptr, 10));
  }
  return options;
}

/// Before main: every command asks this machine for its GPUs.
const struct Doubles {
  Doubles() : machine(options_of_environment()) { hetsynth::cuda::stand_in(&machine.backend()); }
  ~Doubles() { hetsynth::cuda::stand_in(nullptr); }
  hetsynth::testing_support::CudaDoubles machine;
} doubles;

}  // namespace
