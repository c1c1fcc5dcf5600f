// Writes tokens into a file that models train on (docs/data.md).
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dsl/base/new_file.h"
#include "dsl/base/output_file.h"
#include "runtime/token_files/token_origin.h"

namespace hetsynth {

/// A token file that takes its place when it is whole. A name that ends in ".bin" asks for llm.c's format, ".npy" for
/// NumPy's. Every function throws UserError if the system refuses.
class TokenFileWriter {
 public:
  /// `vocabulary`: all tokens are below; tokens of up to 65,536 take two bytes, others four. The file says
  /// what the tokens come from, if that is known. Throws UserError for other endings.
  TokenFileWriter(const std::string& path, int64_t vocabulary, const TokenOrigin& origin = {});
  /// Appends. Throws UserError when there are more than the format counts.
  void write(std::span<const int32_t> tokens);
  void place();
  int64_t tokens() const { return tokens_; }
  /// "npy, uint16".
  std::string format() const;

 private:
  std::string header() const;

  std::string path_;
  std::string origin_;  ///< a line for the header
  bool npy_ = false;
  bool wide_ = false;
  int64_t tokens_ = 0;
  NewFile file_;
};

/// Token files whose name ends like this one's.
OutputKind token_file_kind(const std::string& path);

/// Throws UserError (usage) unless the name ends as a token file's does.
void check_token_file_name(const std::string& path);

}  // namespace hetsynth
