// Which parameters the optimizer trains.
#pragma once
#include <regex>
#include <string>
#include <vector>

#include "dsl/ir/trace.h"

namespace hetsynth {

/// A regular expression (ECMAScript) that a name has to begin with: "h[0-9]+\." stands for h0.w and h11.attention.b.
class NamePattern {
 public:
  /// Throws std::regex_error.
  explicit NamePattern(const std::string& text) : regex_(text, std::regex::ECMAScript | std::regex::optimize) {}
  bool begins(const std::string& name) const {
    return std::regex_search(name, regex_, std::regex_constants::match_continuous);
  }

 private:
  std::regex regex_;
};

/// The parameters of a traced model without those that the model (`.trainable = false`) or the setting "freeze" keeps
/// as they are. That setting is a NamePattern. Throws UserError if it is no regular expression, if no name begins with
/// it, and if no parameter is left.
std::vector<Tensor> trained_parameters(const Trace& trace);

}  // namespace hetsynth
