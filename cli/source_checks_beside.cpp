#include "cli/source_checks_beside.h"

#include <stdexcept>
#include <utility>

#include "runtime/processes/agreement.h"
#include "runtime/rank/notice.h"

namespace hetsynth::cli {
namespace {

/// A check takes this part of a core, which is less than steps jitter by.
constexpr double part_for_checks = 0.03;

}  // namespace

SourceChecksBeside::SourceChecksBeside(const Program& reference, CheckOfSource check, Job* job)
    : reference_(reference), check_(std::move(check)), job_(job) {}

void SourceChecksBeside::add(Plan plan, std::vector<DeviceProgram> programs) {
  divisions_.push_back({std::move(plan), std::move(programs)});
}

/// One rank after the other: the process has one thread.
std::string SourceChecksBeside::flaw(const Division& division) const {
  for (const DeviceProgram& program : division.programs)
    if (const GeneratedCheck result = check_(reference_, division.plan.program, {program});
        result.verdict == Verdict::refuted)
      return result.worst().summary;
  return "";
}

std::string SourceChecksBeside::go_on(bool wait) {
  if (!checking_ && !checked_)
    checking_ = std::make_unique<GentleProcess>(part_for_checks, [this] { return flaw(divisions_.front()); });
  // A process that dies has shown nothing, as a check that comes to no end; that is not refused at the start either.
  try {
    if (!checked_) checked_ = wait ? checking_->hurried() : checking_->result();
  } catch (const std::runtime_error& error) {
    warn("the source of another division was not checked: {}", error.what());
    checked_ = "";
  }
  const std::optional<std::string> flaw_of_any = outcome_of_all(job_, checked_);
  if (!flaw_of_any || !flaw_of_any->empty()) return flaw_of_any.value_or("");
  checked_.reset();
  checking_.reset();
  divisions_.erase(divisions_.begin());
  return "";
}

}  // namespace hetsynth::cli
