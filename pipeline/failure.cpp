#include "pipeline/failure.h"

#include <fmt/format.h>

#include "dsl/base/excerpt.h"
#include "runtime/rank/run_state.h"

namespace hetsynth {

Failure failure_of(const std::exception& error) {
  if (const auto* user = dynamic_cast<const UserError*>(&error))
    return {with_excerpts(user->diagnostic()).render(), user->code()};
  if (dynamic_cast<const RunFailed*>(&error)) return {fmt::format("hetsynth: {}", error.what())};
  return {
      fmt::format("hetsynth: internal fault: {}\n  this is a mistake in hetsynth, not in your files", error.what())};
}

}  // namespace hetsynth
