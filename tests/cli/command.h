// Runs the command line as a process, in a folder of its own.
#pragma once
#include <gmock/gmock.h>

#include <filesystem>
#include <string>
#include <string_view>

namespace hetsynth::testing {

struct Outcome {
  int code = -1;  ///< exit code; 128 + signal for a process that was killed
  std::string out, err;
};

/// The process ended with this code, and what it wrote on standard error matches.
MATCHER_P2(Fails, code, message, "") {
  *result_listener << "exit code " << arg.code << ", standard error: " << arg.err;
  return arg.code == code && ::testing::ExplainMatchResult(message, arg.err, result_listener);
}

/// A folder for one test's files, gone at the end.
class Workplace {
 public:
  Workplace();
  ~Workplace();
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;

  void write(const std::string& name, std::string_view text) const;
  std::string read(const std::string& name) const;
  bool exists(const std::string& name) const { return std::filesystem::exists(folder_ / name); }
  /// `arguments` as a shell would read them, of hetsynth, or of a `launcher` that starts it ("mpirun -np 2"). The
  /// process is killed after five minutes. What it prints is kept in the files NAME.out and NAME.err: of several that
  /// run at once each needs its own name.
  Outcome run(const std::string& arguments, const std::string& launcher = "", const std::string& name = "") const;
  const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
};

/// A launcher that starts so many processes on this machine, whatever cores it has and whoever runs it.
std::string mpirun(int processes);

/// `text` with `to` in place of every `from`, of which `to` must hold none.
std::string everywhere(std::string text, const std::string& from, const std::string& to);

/// A classifier of 6 features in 3 classes, `batch` samples a step: small enough to plan, prove and train in a moment.
extern const char* const small_model;
/// Next byte from two bytes of a text, four samples a step.
extern const char* const small_text_model;
/// Two unequal cpu devices.
extern const char* const small_cluster;

}  // namespace hetsynth::testing
