#include "runtime/weights/exported_weights.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "dsl/base/error.h"

namespace hetsynth {
namespace {

int64_t elements(const ExportedWeights::Part& part) {
  int64_t out = element_count(part.walk.shape);
  for (const int dim : part.walk.separate) out /= part.walk.shape[size_t(dim)];
  return out;
}

}  // namespace

ExportedWeights exported_weights(const SafetensorsFile& checkpoint, const WeightMap& map) {
  ExportedWeights out;
  std::map<std::string, ExportedWeights::Exported> by_name;
  std::map<std::string, int64_t> filled;  // elements that parts have
  for (const auto& [parameter, type] : checkpoint.types()) {
    const std::optional<WeightPlace> place = map.place_of(parameter);
    if (!place || !place->rule) {
      out.left.push_back(parameter);
      continue;
    }
    const Layout& layout = place->rule->layout;
    const Layout::Walk walk = layout.walk(type.shape);
    const TensorType wanted{layout.file_shape(type.shape), type.dtype};
    for (const auto& [name, at] : tensors_of(*place, walk)) {
      ExportedWeights::Exported& exported =
          by_name.try_emplace(name, ExportedWeights::Exported{{name, wanted}, {}}).first->second;
      if (!(exported.entry.type == wanted))
        throw UserError({.where = {map.file(), place->rule->line},
                         .tag = "weights",
                         .message = fmt::format("{} and {} make tensors of other shapes of {}", parameter,
                                                exported.parts.front().parameter, name),
                         .expected = text(exported.entry.type),
                         .found = text(wanted)});
      exported.parts.push_back({parameter, walk, at});
      filled[name] += elements(exported.parts.back());
    }
  }
  for (auto& [name, exported] : by_name) {
    if (filled[name] != element_count(exported.entry.type.shape))
      throw UserError({.where = {map.file()},
                       .tag = "weights",
                       .message = fmt::format("the checkpoint has only a part of {}", name),
                       .expected = fmt::format("{} elements", element_count(exported.entry.type.shape)),
                       .found = fmt::format("{}, of {}", filled[name], exported.parts.front().parameter)});
    out.tensors.push_back(std::move(exported));
  }
  if (out.tensors.empty())
    throw UserError({.where = {map.file()},
                     .tag = "weights",
                     .message = "no rule names a tensor of the checkpoint",
                     .expected = "names like " + map.rules().front().parameter,
                     .found = out.left.empty() ? "no tensors" : out.left.front(),
                     .mend = "take the rules of the model that wrote the checkpoint"});
  return out;
}

ExportedValues::ExportedValues(const ExportedWeights& weights, Read read) : read_(std::move(read)) {
  for (const ExportedWeights::Exported& exported : weights.tensors)
    for (const ExportedWeights::Part& part : exported.parts) ++uses_[part.parameter];
}

HostTensor ExportedValues::value(const ExportedWeights::Exported& exported) {
  HostTensor out(exported.entry.type);
  const std::span<float> to = out.as<float>();
  for (const ExportedWeights::Part& part : exported.parts) {
    if (!held_.contains(part.parameter)) held_.emplace(part.parameter, read_(part.parameter));
    const HostTensor& whole = held_.at(part.parameter);
    const std::span<const float> from = whole.as<float>();
    for_each_run(part.walk, part.at, [&](const ElementRun& run) {
      for (int64_t i = 0; i < run.count; ++i) to[size_t(run.theirs + i * run.stride)] = from[size_t(run.ours + i)];
    });
    if (--uses_.at(part.parameter) == 0) held_.erase(part.parameter);
  }
  return out;
}

}  // namespace hetsynth
