#include "runtime/weights/initial_weights.h"

#include <fmt/format.h>

#include <set>

#include "dsl/base/counted.h"
#include "dsl/base/error.h"
#include "runtime/weights/rules_text.h"

namespace hetsynth {
namespace {

/// The name under which the file has it; empty: it has not.
std::string name_in(const WeightFile& file, const WeightMap& map, const std::string& tensor) {
  for (const std::string& name : map.names_of(tensor))
    if (file.types().contains(name)) return name;
  return "";
}

/// Whether neighbouring dimensions of `fine`, joined to one, make `coarse`: the same numbers in the same order.
bool joins_to(const Shape& fine, const Shape& coarse) {
  size_t at = 0;
  for (const int64_t extent : coarse) {
    int64_t joined = 1;
    if (at == fine.size()) return false;
    do joined *= fine[at++];
    while (joined < extent && at < fine.size());
    if (joined != extent) return false;
  }
  return at == fine.size();
}

void check_shape(const Node& parameter, const std::string& tensor, const TensorType& found, const Shape& wanted) {
  if (joins_to(found.shape, wanted) && found.dtype == DType::f32) return;
  throw UserError({.where = parameter.where,
                   .tag = "weights",
                   .message = fmt::format("{} does not fit: the file's tensor {} has another shape or type",
                                          parameter.name, tensor),
                   .expected = text(TensorType{wanted, DType::f32}),
                   .found = text(found),
                   .mend = "check the model's sizes (--set) and the layout in the rules (--map)"});
}

[[noreturn]] void refuse_nothing_found(const Program& program, const WeightFile& file, const WeightMap& map) {
  std::vector<std::string> there, wanted;
  for (const auto& [name, type] : file.types()) there.push_back(name);
  for (const Node& node : program.nodes)
    if (node.kind == NodeKind::parameter) wanted.push_back(node.name);
  throw UserError({.where = {map.file()},
                   .tag = "weights",
                   .message = "no parameter of the model is found in the file",
                   .expected = map.is_identity()
                                   ? fmt::format("tensors with the names of parameters: {}", short_list(wanted))
                                   : fmt::format("names as the {} make them of {}",
                                                 counted(int64_t(map.rules().size()), "rule"), short_list(wanted)),
                   .found = there.empty() ? "no tensors" : short_list(there),
                   .mend = map.is_identity() ? "give rules for the names with --map; examples/weights has some"
                                             : "mend the rules"});
}

}  // namespace

InitialWeights find_weights(const Program& program, const WeightFile& file, const WeightMap& map) {
  InitialWeights out;
  std::set<std::string> used, parameters;
  for (const Node& node : program.nodes)
    if (node.kind == NodeKind::parameter) parameters.insert(node.name);
  for (const Node& node : program.nodes) {
    if (node.kind != NodeKind::parameter) continue;
    ++out.parameters;
    const std::optional<WeightPlace> place = map.start_of(node.name);
    if (const std::string original = map.original_of(node.name); original != node.name && parameters.contains(original))
      out.copies[node.name] = original;
    if (!place) {
      out.missing.push_back(node.name);
      continue;
    }
    const Layout layout = place->rule ? place->rule->layout : Layout();
    const Shape wanted = layout.file_shape(node.type.shape);
    InitialWeights::Taken taken{node.id, {}, layout.walk(node.type.shape)};
    std::vector<std::string> absent, found;
    for (PlacedTensor& tensor : tensors_of(*place, taken.walk)) {
      const std::string name = name_in(file, map, tensor.name);
      if (name.empty()) {
        absent.push_back(tensor.name);
        continue;
      }
      check_shape(node, name, file.types().at(name), wanted);
      found.push_back(name);
      taken.tensors.push_back({name, std::move(tensor.at)});
    }
    if (!absent.empty() && !found.empty())
      throw UserError({.where = node.where,
                       .tag = "weights",
                       .message = fmt::format("the file has only some of the tensors that make {}", node.name),
                       .expected = short_list(absent),
                       .found = short_list(found)});
    if (!absent.empty()) {
      out.missing.push_back(node.name);
      continue;
    }
    used.insert(found.begin(), found.end());
    out.taken.push_back(std::move(taken));
  }
  if (out.taken.empty()) refuse_nothing_found(program, file, map);
  for (const auto& [name, type] : file.types())
    if (!used.contains(name) && !map.ignores(name)) out.left.push_back(name);
  return out;
}

std::string text(const InitialWeights& weights, const WeightFile& file) {
  std::string out = fmt::format("weights: {} of {} from {}\n", weights.taken.size(),
                                counted(weights.parameters, "parameter"), file.description());
  if (!weights.missing.empty())
    out +=
        fmt::format("  {}: {}\n",
                    weights.missing.size() == 1 ? "1 keeps its starting values"
                                                : fmt::format("{} keep their starting values", weights.missing.size()),
                    short_list(weights.missing));
  std::vector<std::string> unlike;
  for (const std::string& name : weights.missing)
    if (const auto copy = weights.copies.find(name); copy != weights.copies.end())
      unlike.push_back(fmt::format("{} of {}", name, copy->second));
  if (!unlike.empty())
    out += fmt::format("  of these, copies of what the file lacks, which do not start as their originals do: {}\n",
                       short_list(unlike));
  if (!weights.left.empty())
    out += fmt::format("  left in the file: {} ({})\n", counted(int64_t(weights.left.size()), "tensor"),
                       short_list(weights.left));
  return out;
}

void take_weights(const InitialWeights& weights, WeightFile& file, Executor& executor) {
  for (const InitialWeights::Taken& taken : weights.taken) {
    const Node& node = executor.reference()[taken.parameter];
    HostTensor whole(node.type);
    for (const auto& [name, at] : taken.tensors) {
      const HostTensor part = file.read(name);
      if (const std::string found = not_finite(part); !found.empty())
        throw UserError({.where = node.where,
                         .tag = "weights",
                         .message = fmt::format("the file's tensor {} holds a number that is not finite", name),
                         .expected = "finite numbers",
                         .found = found});
      const std::span<const float> from = part.as<float>();
      const std::span<float> to = whole.as<float>();
      for_each_run(taken.walk, at, [&](const ElementRun& run) {
        for (int64_t i = 0; i < run.count; ++i) to[size_t(run.ours + i)] = from[size_t(run.theirs + i * run.stride)];
      });
    }
    executor.write(node.id, whole);
  }
}

}  // namespace hetsynth
