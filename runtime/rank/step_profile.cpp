#include "runtime/rank/step_profile.h"

#include <fmt/format.h>

#include <algorithm>

namespace hetsynth {

void add_call(std::vector<TimedWork>& work, TimedWork::Kind kind, const std::string& name, double seconds) {
  auto entry =
      std::find_if(work.begin(), work.end(), [&](const TimedWork& w) { return w.kind == kind && w.name == name; });
  if (entry == work.end()) entry = work.insert(work.end(), {kind, name, 0, 0});
  ++entry->calls;
  entry->seconds += seconds;
}

std::string profile_text(std::vector<TimedWork> work, size_t lines) {
  double computes = 0, multiplies = 0, transfers = 0;
  for (const TimedWork& w : work) {
    (w.kind == TimedWork::Kind::transfer ? transfers : computes) += w.seconds;
    if (w.kind == TimedWork::Kind::product) multiplies += w.seconds;
  }
  std::stable_sort(work.begin(), work.end(),
                   [](const TimedWork& a, const TimedWork& b) { return a.seconds > b.seconds; });
  const double whole = std::max(computes, 1e-12);
  std::string out = fmt::format("computing {:.3f} ms, of it matrix products {:.1f} %; transfers {:.3f} ms beside it\n",
                                computes * 1e3, 100 * multiplies / whole, transfers * 1e3);
  const size_t shown = std::min(lines, work.size());
  for (size_t i = 0; i < shown; ++i) {
    const TimedWork& w = work[i];
    const std::string share =
        w.kind == TimedWork::Kind::transfer ? "     -" : fmt::format("{:5.1f}%", 100 * w.seconds / whole);
    out += fmt::format("  {:9.3f} ms {} {:5} x {}\n", w.seconds * 1e3, share, w.calls, w.name);
  }
  double rest = 0;
  for (size_t i = shown; i < work.size(); ++i) rest += work[i].seconds;
  if (shown < work.size()) out += fmt::format("  {:9.3f} ms          {} others\n", rest * 1e3, work.size() - shown);
  return out;
}

}  // namespace hetsynth
