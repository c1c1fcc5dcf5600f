// Where the time of a step goes on a GPU: by kernel, product and transfer.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace hetsynth {

/// Everything of one name that a rank's device did in a step.
struct TimedWork {
  enum class Kind : uint8_t { kernel, product, transfer } kind = Kind::kernel;
  std::string name;
  int calls = 0;
  double seconds = 0;  ///< on its stream; transfers run beside the rest
};

/// Adds one call to the entry of its name.
void add_call(std::vector<TimedWork>& work, TimedWork::Kind kind, const std::string& name, double seconds);

/// A table of what took longest, `lines` entries at most, under a line with the share of matrix products in the time of
/// the compute stream.
std::string profile_text(std::vector<TimedWork> work, size_t lines = 15);

}  // namespace hetsynth
