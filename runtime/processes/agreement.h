// Processes of one job compare what each was given before they begin.
#pragma once
#include <optional>
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

/// Tells what became of something that every process does. `own` is nothing while this process is at it, an empty word
/// when it is done, and otherwise what is wrong. The answer is nothing until all processes are done or something is
/// wrong in one of them; then it is what is wrong in the first such process, or empty. All processes call it alike;
/// `job` is null where there is only one.
std::optional<std::string> outcome_of_all(Job* job, const std::optional<std::string>& own);

}  // namespace hetsynth
