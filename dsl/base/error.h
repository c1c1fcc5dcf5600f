// Two voices: UserError for mistakes a user can mend, InternalError for faults of hetsynth itself.
#pragma once
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace hetsynth {

/// Exit codes of the command line (docs/errors.md).
enum class ExitCode { done = 0, failure = 1, usage = 2, invalid_input = 3, infeasible = 4, refuted = 5, unknown = 6 };

/// A place in a file. Line and column count from 1; line 0 means the file as a whole, an empty file no place.
struct SourceLocation {
  std::string file;
  int line = 0;
  int column = 0;
  bool known() const { return !file.empty(); }
  /// "file:line:column", leaving out what is not known.
  std::string text() const;
  bool operator==(const SourceLocation&) const = default;
};

/// What a user is told: place, tag, what is wrong, what was expected, what was found, how to mend it. Empty parts are
/// left out.
struct Diagnostic {
  SourceLocation where = {};
  std::string tag = {};      ///< operator or section, without brackets: "matmul"
  std::string message = {};  ///< one sentence without a full stop
  std::string expected = {};
  std::string found = {};
  std::string mend = {};
  std::string detail = {};  ///< whole lines shown under the message: source with a caret, a compiler's own words
  struct Note {
    SourceLocation where;
    std::string text;
    std::string detail = {};
  };
  std::vector<Note> notes = {};

  /// "file:3:7: error: [tag] message", the detail, one indented line each for expected, found, mend, and the notes.
  std::string render() const;
};

/// A mistake in what the user gave: model, cluster, plan, data or command line.
class UserError : public std::exception {
 public:
  explicit UserError(Diagnostic diagnostic, ExitCode code = ExitCode::invalid_input);
  const char* what() const noexcept override { return text_.c_str(); }
  const Diagnostic& diagnostic() const { return diagnostic_; }
  ExitCode code() const { return code_; }

 private:
  Diagnostic diagnostic_;
  ExitCode code_;
  std::string text_;
};

/// A fault of hetsynth itself: a condition that should always hold did not.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] void internal_failure(std::string_view condition, std::string_view detail, const char* file, int line);

/// Throws InternalError unless `condition` holds. For our own faults only, never for a user's input.
#define HETSYNTH_CHECK(condition, detail) \
  ((condition) ? void(0) : ::hetsynth::internal_failure(#condition, (detail), __FILE__, __LINE__))

}  // namespace hetsynth
