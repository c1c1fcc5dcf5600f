#include "dsl/transform/trained_parameters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string>

#include "dsl/base/counted.h"

namespace hetsynth {
namespace {

constexpr size_t names_shown = 6;

[[noreturn]] void fail(const Trace& trace, const std::string& message, const std::string& expected,
                       const std::string& found, const std::string& mend) {
  throw UserError({.where = {trace.program.model_file},
                   .tag = "freeze",
                   .message = message,
                   .expected = expected,
                   .found = found,
                   .mend = mend},
                  ExitCode::usage);
}

std::vector<const Node*> parameters_of(const Program& program) {
  std::vector<const Node*> out;
  for (const Node& node : program.nodes)
    if (node.kind == NodeKind::parameter) out.push_back(&node);
  return out;
}

std::string names_of(const std::vector<const Node*>& parameters) {
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(parameters.size(), names_shown); ++i) names.push_back(parameters[i]->name);
  return fmt::format("{}{}", fmt::join(names, ", "), parameters.size() > names_shown ? ", ..." : "");
}

std::optional<NamePattern> pattern_of(const Trace& trace) {
  if (trace.freeze.empty()) return std::nullopt;
  try {
    return NamePattern(trace.freeze);
  } catch (const std::regex_error& error) {
    fail(trace, "this is no pattern of names", "a regular expression, such as \"h[0-9]+\\.\"",
         fmt::format("\"{}\": {}", trace.freeze, error.what()), "quote what is meant as it stands: \\. is a dot");
  }
}

}  // namespace

std::vector<Tensor> trained_parameters(const Trace& trace) {
  const std::vector<const Node*> all = parameters_of(trace.program);
  const std::optional<NamePattern> pattern = pattern_of(trace);
  std::vector<Tensor> trained;
  size_t matches = 0;
  for (const Node* node : all) {
    const auto options = trace.parameter_options.find(node->id);
    const bool kept = options != trace.parameter_options.end() && !options->second.trainable;
    const bool matched = pattern && pattern->begins(node->name);
    matches += matched ? 1 : 0;
    if (!kept && !matched) trained.push_back(Tensor(node->id));
  }
  if (pattern && matches == 0)
    fail(trace, "no parameter has a name that begins like this",
         "a regular expression of names such as " + names_of(all), fmt::format("\"{}\"", trace.freeze),
         "names are those that parameter(name, ...) has in the model");
  if (trained.empty() && !all.empty())
    fail(trace, "every parameter is frozen, so that nothing is left to be trained",
         "one parameter or more that is trained",
         fmt::format("{}, {} of them by --freeze", counted(int64_t(all.size()), "parameter"), matches),
         pattern ? "freeze less: a pattern that ends in $ stands for whole names alone"
                 : "leave out .trainable = false of those that should learn");
  return trained;
}

}  // namespace hetsynth
