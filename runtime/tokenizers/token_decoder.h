// How a tokenizer.json puts tokens together to a text.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dsl/base/json_tree.h"

namespace hetsynth {

class TokenDecoder {
 public:
  TokenDecoder() = default;
  /// Reads the member "decoder"; nothing puts spaces between the tokens. Throws UserError for kinds that are not
  /// supported.
  explicit TokenDecoder(const JsonReader& json);
  /// The bytes that tokens stand for together.
  std::string join(const std::vector<std::string>& tokens) const;

 private:
  struct Step {
    enum class Kind { byte_letters, replace, bytes, strip, suffix, word_pieces, metaspace };
    Kind kind = Kind::byte_letters;
    std::string what = {}, with = {};
    int64_t left = 0, right = 0;  ///< of strip: how many
    bool first_space = false;     ///< of metaspace: the text's first space was put there
  };
  void add(const JsonReader& json);
  static void apply(const Step& step, std::vector<std::string>& tokens);

  std::vector<Step> steps_;
  bool spaces_between_ = true;
};

}  // namespace hetsynth
