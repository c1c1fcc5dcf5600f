// Shared by the kernel printers: arguments, counters and element variables of one kernel, collected while its
// statements are written.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "codegen/cuda/kernels/kernel.h"

namespace hetsynth::codegen::cuda {

/// Lines of text at a depth of indentation.
class Lines {
 public:
  explicit Lines(int depth = 0) : depth_(depth) {}
  void add(const std::string& line) {
    text_ += (line.empty() ? "" : std::string(size_t(depth_) * 2, ' ')) + line + "\n";
  }
  void open(const std::string& line) {
    add(line);
    ++depth_;
  }
  void close(const std::string& line = "}") {
    --depth_;
    add(line);
  }
  /// After a line that closes one block and opens the next.
  void deepen() { ++depth_; }
  void append(const std::string& text) { text_ += text; }
  int depth() const { return depth_; }
  const std::string& text() const { return text_; }

 private:
  int depth_;
  std::string text_;
};

/// Definitions of factor counters, each once, in the order in which they were asked for: "const int at_b = row / 512 %
/// 8;". Text inside of a block may ask for counters of the block and for those around it in any order, so none of the
/// latter has a name that the former hide.
class Counters {
 public:
  Counters(std::string index_type, const std::vector<Counters*>& outer = {})
      : index_type_(std::move(index_type)), outer_(outer) {}
  /// Name of (base / divide) % modulo; modulo 0: none. The base itself if nothing is to be done.
  std::string take(const std::string& base, int64_t divide, int64_t modulo, const std::string& wish);
  /// Writes the definitions that `use` mentions.
  void write(Lines& lines, const std::string& use) const;

 private:
  bool taken(const std::string& name) const;
  void hide(const std::string& name);
  std::string index_type_;
  std::vector<Counters*> outer_;
  std::set<std::string> hidden_;  ///< names of counters within
  std::map<std::string, std::string> by_expression_;
  std::vector<std::pair<std::string, std::string>> definitions_;
};

/// Arguments of a kernel in the order of their first use.
class Arguments {
 public:
  explicit Arguments(const KernelContext& context) : context_(&context) {}
  /// Name of the storage in which a value lies.
  std::string read(ValueId value) { return storage(value, false); }
  std::string written(ValueId value) { return storage(value, true); }
  void scratch(int number, const std::string& name, bool is_written);
  void needs_step() { step_ = true; }
  void needs_seed() { step_ = seed_ = true; }
  /// Bodies may read the step or draw random numbers.
  void note(const Expr& body);
  std::vector<KernelArgument> list() const;
  /// "const float* __restrict__ x, float* __restrict__ y, const long long* __restrict__ clock". Storage both read and
  /// written may not be restricted.
  std::string declaration() const;
  /// Lines that define `step` and `seed` where bodies use them.
  std::string definitions() const;

 private:
  struct Entry {
    KernelArgument argument;
    DType dtype;
    bool read = false, written = false;
  };
  std::string storage(ValueId value, bool written);
  const KernelContext* context_;
  std::vector<Entry> entries_;
  bool step_ = false, seed_ = false;
};

/// Whether a text mentions an identifier.
bool mentions_word(const std::string& text, const std::string& word);

/// "int" where all counters of the operators fit, otherwise "long long".
std::string index_type(const KernelContext& context, const std::vector<int>& ops);

std::string element_name(const KernelContext& context, const LocalOp& op);

/// Start of a kernel: comments, name, arguments, opening brace.
/// `blocks`: as many are to fit on a multiprocessor at a time; 0: the compiler's choice.
std::string kernel_head(const std::string& comment, const std::string& name, int threads, const std::string& arguments,
                        int blocks = 0);
std::string kernel_head(const std::string& comment, const std::string& name, int threads, const Arguments& arguments,
                        int blocks = 0);

}  // namespace hetsynth::codegen::cuda
