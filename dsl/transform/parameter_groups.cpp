#include "dsl/transform/parameter_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "dsl/base/counted.h"
#include "dsl/model/minimize.h"
#include "dsl/transform/trained_parameters.h"

namespace hetsynth {
namespace {

NamePattern pattern_of_group(const Trace::Minimized& minimized) {
  try {
    return NamePattern(minimized.group.parameters);
  } catch (const std::regex_error& error) {
    refuse_group(minimized.where, fmt::format("the parameters of {} are no pattern of names", minimized.group.name),
                 "a regular expression, such as \"generator\\\\.\"",
                 fmt::format("\"{}\": {}", minimized.group.parameters, error.what()),
                 "quote what is meant as it stands: \\\\. is a dot");
  }
}

/// In the order of the calls each group is trained for its steps, then the next one.
std::vector<Alternation> alternations(const Trace& trace) {
  std::vector<Alternation> out;
  int64_t period = 0;
  for (const Trace::Minimized& minimized : trace.minimized) {
    if (minimized.group.steps == 0) return std::vector<Alternation>(trace.minimized.size());
    out.push_back({period, minimized.group.steps, 0});
    period += minimized.group.steps;
  }
  for (Alternation& alternation : out) alternation.period = period;
  return out;
}

}  // namespace

std::vector<TrainedGroup> trained_groups(const Trace& trace) {
  const std::vector<Tensor> trained = trained_parameters(trace);
  const std::vector<Trace::Minimized>& minimized = trace.minimized;
  if (minimized.size() == 1 && minimized.front().group.parameters.empty()) return {{trained, {}}};
  std::vector<NamePattern> patterns;
  for (const Trace::Minimized& one : minimized) patterns.push_back(pattern_of_group(one));
  std::vector<TrainedGroup> out;
  for (const Alternation& steps : alternations(trace)) out.push_back({{}, steps});
  for (Tensor parameter : trained) {
    const Node& node = trace.program[parameter.node()];
    std::optional<size_t> first;
    for (size_t g = 0; g < minimized.size(); ++g) {
      if (!patterns[g].begins(node.name)) continue;
      if (first)
        refuse_group(minimized[g].where, fmt::format("the parameter {} is of two groups", node.name),
                     "one group for each parameter",
                     fmt::format("\"{}\" of {}, and \"{}\" of {}", minimized[*first].group.parameters,
                                 minimized[*first].group.name, minimized[g].group.parameters, minimized[g].group.name),
                     "let the patterns tell them apart: a pattern that ends in $ stands for whole names alone");
      first = g;
      out[g].parameters.push_back(parameter);
    }
    if (!first)
      throw UserError({.where = node.where,
                       .tag = "minimize",
                       .message = fmt::format("the parameter {} is of no group", node.name),
                       .expected = "a group for each parameter that is trained",
                       .found = counted(int64_t(minimized.size()), "group") + ", none of which names it",
                       .mend = "name it in a group's pattern, or make it {.trainable = false}"});
  }
  for (size_t g = 0; g < out.size(); ++g)
    if (out[g].parameters.empty())
      refuse_group(minimized[g].where, fmt::format("the group {} has no parameter", minimized[g].group.name),
                   "a pattern with which a name begins",
                   fmt::format("\"{}\", which fits none of {}", minimized[g].group.parameters,
                               counted(int64_t(trained.size()), "parameter")),
                   "names are those that parameter(name, ...) has in the model; what is frozen (--freeze, .trainable = "
                   "false) does not count");
  return out;
}

}  // namespace hetsynth
