// A statement of the step, as a loop that a call of the library is spelled as, as a function of what it reads of the
// step's variables: then it can be told that two of them do the same.
#pragma once
#include <string>
#include <vector>

#include "verify/source/text/syntax.h"

namespace hetsynth::source {

struct FunctionOf {
  Function function;
  std::vector<int> arguments;  ///< by parameter: slot of the variable of the step
};

/// `around`: the function that the statement is of. Parameters come in the order in which they are first used; what the
/// statement declares itself keeps its names.
FunctionOf function_of(const Statement& s, const Function& around, const std::string& name);

}  // namespace hetsynth::source
