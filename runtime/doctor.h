// What is installed on this machine and whether it works.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "dsl/cluster/cluster.h"

namespace hetsynth {
namespace cuda {
struct Backend;
}

enum class Health {
  good,
  absent,  ///< not there, and only some uses need it
  broken,  ///< hetsynth cannot do its main work
};
std::string_view name(Health health);

struct Finding {
  std::string name;  ///< "compiler"
  Health health = Health::good;
  std::string detail;  ///< what was found: versions, sizes, the reason of a failure
  std::string mend;    ///< what to do about it; empty if nothing need be done
};

struct DoctorOptions {
  std::string solver;                ///< "Z3 4.8.12", as the verifier tells it
  std::string model_headers;         ///< folder with hetsynth/hetsynth.h, as the front end tells it; empty: not found
  const Cluster* cluster = nullptr;  ///< also say whether its devices can run on this machine
  const cuda::Backend* backend = nullptr;  ///< where its cuda devices would; null: this machine's libraries
};

/// Looks at the processor, memory, the compiler in process (by compiling and running a function), the matrix library
/// (by multiplying), the cache folder, MPI, and the CUDA libraries; for a cluster, whether driver, libraries and GPUs
/// are what its devices need. Never throws for what it finds.
std::vector<Finding> examine(const DoctorOptions& options);

/// One aligned line per finding, with a line below it on how to mend it.
std::string text(const std::vector<Finding>& findings);
/// [{"name": "compiler", "status": "good", "detail": "...", "mend": "..."}]
nlohmann::ordered_json to_json(const std::vector<Finding>& findings);
/// Whether nothing is broken.
bool healthy(const std::vector<Finding>& findings);

}  // namespace hetsynth
