// Tokens that are found in a text before it is cut into words: "<|endoftext|>".
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hetsynth {

struct AddedToken {
  std::string text;  ///< not empty
  int32_t id = 0;
  bool takes_space_before = false, takes_space_after = false;
};

class AddedTokens {
 public:
  /// Of equal texts the last one counts.
  explicit AddedTokens(std::vector<AddedToken> tokens = {});

  struct Part {
    std::string_view text;
    int32_t id = -1;  ///< of an added token; -1: text between them, not empty
  };
  /// The leftmost tokens, of those that begin at one place the longest.
  std::vector<Part> split(std::string_view text) const;
  bool empty() const { return tokens_.empty(); }
  /// Whether no token reaches over the end of a line, nor takes the space before it.
  bool stays_in_line() const;

 private:
  const AddedToken* at(std::string_view rest) const;
  std::vector<AddedToken> tokens_;                             ///< by first byte, then the longest first
  std::array<std::pair<uint32_t, uint32_t>, 256> by_first_{};  ///< begin and end in tokens_
};

}  // namespace hetsynth
