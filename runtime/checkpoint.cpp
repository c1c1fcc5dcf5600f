#include "runtime/checkpoint.h"

#include <charconv>
#include <map>

#include "dsl/base/error.h"
#include "runtime/safetensors.h"

namespace hetsynth {
namespace {

constexpr const char* format_name = "hetsynth checkpoint 1";

bool is_kept(const Node& node) { return node.kind == NodeKind::parameter || node.kind == NodeKind::state; }

[[noreturn]] void fail(const std::string& path, const std::string& message, const std::string& expected,
                       const std::string& found) {
  throw UserError({{path, 0, 0}, "checkpoint", message, expected, found, "load it with the model that wrote it"});
}

template <typename Number>
Number number_in(const std::string& path, const std::map<std::string, std::string>& metadata, const std::string& key) {
  const auto found = metadata.find(key);
  Number value = 0;
  if (found != metadata.end()) {
    const std::string& text = found->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size() && value >= 0) return value;
  }
  fail(path, "the metadata have no valid " + key, "a number", found == metadata.end() ? "nothing" : found->second);
}

CheckpointInfo info_of(const std::string& path, const SafetensorsFile& file) {
  const auto format = file.metadata().find("format");
  if (format == file.metadata().end() || format->second != format_name) {
    fail(path, "the file is no checkpoint of hetsynth", format_name,
         format == file.metadata().end() ? "no format" : format->second);
  }
  return {number_in<int64_t>(path, file.metadata(), "next_step"), number_in<uint64_t>(path, file.metadata(), "seed")};
}

}  // namespace

void save_checkpoint(const std::string& path, const Executor& executor, int64_t next_step) {
  const Program& program = executor.reference();
  std::vector<TensorEntry> entries;
  std::map<std::string, NodeId> nodes;
  for (const Node& node : program.nodes) {
    if (!is_kept(node)) continue;
    entries.push_back({node.name, node.type});
    nodes[node.name] = node.id;
  }
  const std::map<std::string, std::string> metadata{
      {"format", format_name}, {"next_step", std::to_string(next_step)}, {"seed", std::to_string(executor.seed())}};
  if (!executor.leads()) {
    // Tensors are put together from the ranks of all processes, in the order in which the first one writes them.
    for (const TensorEntry& entry : entries) executor.read(nodes.at(entry.name));
    return;
  }
  write_safetensors(path, entries, metadata, [&](const std::string& name) { return executor.read(nodes.at(name)); });
}

CheckpointInfo read_checkpoint_info(const std::string& path) { return info_of(path, SafetensorsFile(path)); }

CheckpointInfo load_checkpoint(const std::string& path, Executor& executor) {
  SafetensorsFile file(path);
  const CheckpointInfo info = info_of(path, file);

  std::map<std::string, TensorType> unused = file.types();
  for (const Node& node : executor.reference().nodes) {
    if (!is_kept(node)) continue;
    const auto found = unused.find(node.name);
    if (found == unused.end()) fail(path, "the file has no tensor " + node.name, text(node.type), "");
    if (!(found->second == node.type))
      fail(path, "tensor " + node.name + " has another type", text(node.type), text(found->second));
    unused.erase(found);
  }
  if (!unused.empty()) fail(path, "the model has no tensor " + unused.begin()->first, "", text(unused.begin()->second));
  for (const Node& node : executor.reference().nodes) {
    if (is_kept(node)) executor.write(node.id, file.read(node.name));
  }
  return info;
}

}  // namespace hetsynth
