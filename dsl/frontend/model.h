// The stage `load`: a model file, ordinary C++, to a builder that can be traced in this process.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dsl/ir/trace.h"

namespace hetsynth {

/// How long the parts of loading took.
struct LoadTimes {
  double header_seconds = 0;   ///< checking, or making, the precompiled header of hetsynth.h
  double compile_seconds = 0;  ///< 0 if the object came from the cache
  double link_seconds = 0;
  bool header_made = false;
  bool object_from_cache = false;
};

struct LoadOptions {
  bool use_cache = true;  ///< look for the model's object code on disk; the precompiled header is always kept there
  bool color = false;     ///< the compiler's messages with terminal colours
};

/// A compiled model file, or a function of this program. Tracing it again, with other settings, compiles nothing.
class LoadedModel {
 public:
  /// Runs `void model()` of the file, or the function, under a fresh trace. Throws UserError, with lines of the model
  /// and carets, for mistakes the model makes (a shape that does not fit, a setting that it does not ask for, an
  /// exception of a file's own). The trace may hold functions of the compiled model: it must not outlive it. One trace
  /// at a time may live in a thread.
  std::unique_ptr<Trace> trace(const std::map<std::string, std::string>& settings = {}) const;

  const std::string& file() const { return file_; }
  /// The compiler's warnings, as it prints them; empty if there are none.
  const std::string& warnings() const { return warnings_; }
  const LoadTimes& times() const { return times_; }

 private:
  friend std::shared_ptr<LoadedModel> load_model(const std::string&, const LoadOptions&);
  friend std::shared_ptr<LoadedModel> model_of_function(std::function<void()>, std::string);
  std::string file_;
  std::string warnings_;
  LoadTimes times_;
  std::shared_ptr<const void> code_;  ///< null: a function of this program
  std::function<void()> builder_;
};

/// Compiles and links a model file. Tensors are named after the variables that hold them. Throws UserError if the file
/// cannot be read, does not compile (in Clang's own words), defines no `void model()`, or uses functions that nobody
/// defines.
std::shared_ptr<LoadedModel> load_model(const std::string& path, const LoadOptions& options = {});

/// A model that is a function of this program: it calls the same functions of the DSL as `void model()` of a file.
/// `name` stands for the file in messages and plans. Tensors have no names of variables (`named` in hetsynth/tensor.h
/// gives one). What the function throws goes to who traces it, and a crash is the program's own.
std::shared_ptr<LoadedModel> model_of_function(std::function<void()> build, std::string name);

/// Folders with hetsynth's headers: $HETSYNTH_INCLUDE_DIRS (separated by colons), else those that were installed with
/// this program or with the library that this function is in, else those that it was built with.
std::vector<std::string> dsl_include_directories();

}  // namespace hetsynth
