#include "verify/source/check.h"

#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <set>
#include <sstream>

#include "dsl/base/error.h"
#include "dsl/spmd/unroll.h"
#include "verify/source/cpu/walk.h"
#include "verify/source/cuda/device.h"
#include "verify/source/text/parse.h"

namespace hetsynth {
namespace {

constexpr size_t longest_text = size_t(64) << 20;

/// The first line with a preprocessor directive that generated text does not have, 0 if there is none. Texts that
/// people edited could name any file otherwise.
int line_with_directive(const std::string& text) {
  static const std::set<std::string> known = {"#pragma clang optimize off", "#ifdef __clang__", "#else", "#endif"};
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (known.count(line)) continue;
    std::string code = line.substr(0, line.find("//"));
    for (const char* sign : {"#", "%:", "\?\?=", "_Pragma", "/*"})
      if (code.find(sign) != std::string::npos) return number;
  }
  return 0;
}

void follow(const Program& reference, const SpmdProgram& program, const RankSource& source,
            const SourceOptions& options, SourceCheck& out, const std::vector<int>& numbers = {}) {
  using namespace hetsynth::source;
  auto say = [&](Verdict verdict, const std::string& text, int line) {
    out.verdict = verdict;
    out.summary = text;
    out.line = line;
  };
  if (int line = line_with_directive(source.text); line > 0)
    return say(Verdict::unknown, "a directive or comment stands in the text that generated programs do not have", line);
  if (source.text.size() > longest_text) return say(Verdict::unknown, "the text is too long", 0);
  Unit unit = parse(source.text, source.file_name);
  if (!unit.errors.empty()) return say(Verdict::refuted, "the text does not compile: " + unit.errors, 0);
  const bool on_device = is_device_host(unit);
  BucketedProgram bucketed;
  std::unique_ptr<StepWalk> walk;
  try {
    if (on_device) {
      bucketed = source.buckets ? gather_buckets(reference, program, DeviceKind::cuda) : without_buckets(program);
      walk = std::make_unique<DeviceWalk>(reference, bucketed, source, options, unit);
    } else {
      bucketed = as_planned(program);
      walk = std::make_unique<Walk>(reference, bucketed, source, options, unit, numbers);
    }
    walk->run();
    say(Verdict::proved, "the text does what the program says", 0);
  } catch (const Differs& e) {
    say(Verdict::refuted, e.what(), e.line);
    if (e.node >= 0) out.where = reference[e.node].where;
  } catch (const Misstep& e) {
    say(Verdict::refuted, e.what(), e.line);
  } catch (const NotFollowed& e) {
    say(Verdict::unknown, fmt::format("{} is nothing this check knows", e.what()), e.line);
  } catch (const NotHeld& e) {  // what is read follows from values that this check has lost sight of
    say(Verdict::unknown, e.what(), 0);
  } catch (const TooLong& e) {
    say(Verdict::unknown, e.what(), e.line);
  } catch (const SpentAll& e) {
    out.out_of_work = true;
    say(Verdict::unknown, fmt::format("{}; {} calls and kernels before were", e.what(), walk ? walk->statements : 0),
        0);
  } catch (const UserError& e) {
    say(Verdict::unknown, e.diagnostic().message, 0);
  }
  if (!walk) return;
  out.statements = walk->statements;
  out.collectives = walk->collectives;
}

/// A loop's turns are followed one by one, as instructions of their own.
void follow_turns(const Program& reference, const SpmdProgram& program, const RankSource& source,
                  const SourceOptions& options, SourceCheck& out) {
  const UnrolledPlan flat = unroll(reference, program);
  RankSource of_flat = source;
  auto rename = [&](ArenaSlot& slot) {
    if (slot.node >= 0) slot.node = flat.last_node[size_t(slot.node)];
    if (slot.value >= 0) slot.value = flat.last_of[size_t(slot.value)];
  };
  for (ArenaSlot& slot : of_flat.leaves) rename(slot);
  for (ArenaSlot& slot : of_flat.outputs) rename(slot);
  rename(of_flat.loss);
  // Host programs of cuda devices have no loops and count instructions as they are executed.
  // Those of cpu devices call them by the plan's numbers, also on stages where no loop runs, unless turns overlap.
  const bool written_out = source.text.find("hetsynth_launch(") != std::string::npos || !program.schedules.empty();
  follow(flat.reference, flat.program, of_flat, options, out, written_out ? std::vector<int>{} : flat.instruction_of);
}

}  // namespace

SourceCheck check_source(const Program& reference, const SpmdProgram& program, const RankSource& source,
                         const SourceOptions& options) {
  auto start = std::chrono::steady_clock::now();
  SourceCheck out;
  out.rank = source.rank;
  if (reference.loops.empty())
    follow(reference, program, source, options, out);
  else
    follow_turns(reference, program, source, options, out);
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return out;
}

}  // namespace hetsynth
