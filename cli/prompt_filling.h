// A second program of `hetsynth generate`: it reads a prompt in blocks of tokens and fills the memory of keys and
// values that the program for a single token goes on with.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "pipeline/pipeline.h"
#include "runtime/launch.h"
#include "runtime/training/text_generation.h"

namespace hetsynth::cli {

/// Throws UserError (usage) if --prompt-block asks for blocks that do not divide the window of `program`, or if it
/// remembers nothing that they could fill.
void check_prompt_block(const GenerationProgram& program, int64_t asked);

/// How many tokens of a prompt are read at once where nothing is asked for; 1: it is read token by token. That is what
/// is faster, as planned: `ahead` tokens of `seconds` each, against what a second program takes to be made.
int64_t fastest_prompt_block(const GenerationProgram& program, int64_t ahead, double seconds);

class PromptFilling {
 public:
  /// `generation`: has a plan of `program`, which remembers. It and `program` outlive this. `block`: tokens that are
  /// read at once, see filling_program. `always`: not only where that is faster as planned.
  PromptFilling(const Compilation& generation, const GenerationProgram& program, int64_t block, bool always);
  PromptFilling(const PromptFilling&) = delete;
  PromptFilling& operator=(const PromptFilling&) = delete;

  /// Plans the second program, proves it, compiles it and gives it the checkpoint's parameters. In one process, where
  /// both programs keep the same parts of tensors, it lies in the memory of `reader`, which runs the first: it has the
  /// parameters there. Otherwise it is planned in the memory that `reader` leaves. The exit code of a command that ends
  /// here; none: go on. What cannot be planned leaves prompts to the first program, and `reason` says why. `reader`
  /// outlives this. Of several processes all call it alike.
  std::optional<ExitCode> prepare(const std::string& checkpoint, Executor& reader, bool unverified, Job* job);

  /// For generate_tokens: without an executor if nothing was prepared.
  TextFilling filling();
  /// Tokens that are read at once.
  int64_t block() const { return executor_ ? blocks_.block : 1; }
  const std::string& reason() const { return reason_; }

 private:
  Compilation begun();
  bool lies_in_memory_of(const Executor& reader);
  /// Plans, in the first process if there are several, whose outcome all of them take.
  bool has_plan(Job* job);
  /// How keys and values get from the ranks of the second program to those of the first.
  Migration hand_over() const;

  const Compilation& generation_;
  const GenerationProgram& program_;
  const int64_t asked_block_;
  const bool always_;
  GenerationProgram blocks_;
  Compilation compilation_;
  std::string reason_;
  Executor* reader_ = nullptr;
  std::unique_ptr<Executor> executor_;
};

}  // namespace hetsynth::cli
