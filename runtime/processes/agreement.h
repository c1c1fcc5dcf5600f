// Processes of one job compare what each was given before they begin.
#pragma once
#include <string>
#include <vector>

#include "runtime/processes/job.h"

namespace hetsynth {

/// Something that decides the numbers of a run, or which calls its processes make together: "seed", "4".
struct GivenValue {
  std::string name;
  std::string value;
  std::string where = {};  ///< it came from, for the message: paths may differ between machines
};

/// All processes call it alike. Throws UserError in each of them, naming the first value that differs, the two
/// processes and both values, unless all were given the same.
void agree(Job& job, const std::vector<GivenValue>& given);

}  // namespace hetsynth
