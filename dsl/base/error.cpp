#include "dsl/base/error.h"

#include <fmt/format.h>

namespace hetsynth {

std::string SourceLocation::text() const {
  if (!known()) return "";
  if (line == 0) return file;
  return column > 0 ? fmt::format("{}:{}:{}", file, line, column) : fmt::format("{}:{}", file, line);
}

std::string Diagnostic::render() const {
  std::string text = where.known() ? where.text() + ": error: " : "error: ";
  if (!tag.empty()) text += "[" + tag + "] ";
  text += message;
  if (!detail.empty()) text += "\n" + detail;
  if (!expected.empty()) text += "\n  expected: " + expected;
  if (!found.empty()) text += "\n  found:    " + found;
  if (!mend.empty()) text += "\n  to mend:  " + mend;
  for (const Note& note : notes) {
    text += fmt::format("\n{}note: {}", note.where.known() ? note.where.text() + ": " : "", note.text);
    if (!note.detail.empty()) text += "\n" + note.detail;
  }
  return text;
}

UserError::UserError(Diagnostic diagnostic, ExitCode code)
    : diagnostic_(std::move(diagnostic)), code_(code), text_(diagnostic_.render()) {}

void internal_failure(std::string_view condition, std::string_view detail, const char* file, int line) {
  throw InternalError(fmt::format("{}:{}: {} does not hold: {}", file, line, condition, detail));
}

}  // namespace hetsynth
