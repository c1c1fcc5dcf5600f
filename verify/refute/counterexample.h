// What a plan that is wrong is refuted with.
#pragma once
#include <string>
#include <string_view>

#include "dsl/base/error.h"

namespace hetsynth {

/// What shows that a plan is wrong.
enum class Evidence {
  form,     ///< the plan has no meaning: it contradicts itself, or leaves something out
  results,  ///< loss or updates differ from the program's
  word,     ///< these are right, but a value is not what the plan says: source would be laid out wrongly
};
std::string_view name(Evidence evidence);

/// A concrete instance on which the two programs differ.
struct Counterexample {
  Evidence evidence = Evidence::results;
  std::string text;      ///< sizes, tables, the first diverging tensor with numbers of both programs
  SourceLocation where;  ///< the user's line of that tensor
};

}  // namespace hetsynth
