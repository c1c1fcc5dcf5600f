#include "dsl/cluster/cluster_measured.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>

#include "dsl/base/counted.h"
#include "dsl/base/error.h"

namespace hetsynth {
namespace {

/// Replacement of the text between two places; equal places: an insertion.
struct Edit {
  size_t begin, end;
  std::string text;
};

class Editor {
 public:
  Editor(std::string_view toml, const std::string& file) : text_(toml), file_(file) {
    starts_.push_back(0);
    for (size_t i = 0; i < text_.size(); ++i)
      if (text_[i] == '\n') starts_.push_back(i + 1);
  }

  void measure_device(const toml::table& device, const DeviceSpeed& speed) {
    std::vector<std::string> values;
    for (const SpeedField& field : speed_fields())
      if (speed.*field.value)
        values.push_back(fmt::format("{} = \"{}\"", field.key, quantity_text(*(speed.*field.value), field.dimension)));
    if (speed.epilogues) {
      std::vector<std::string> words;
      for (const FusedProduct& product : *speed.epilogues)
        words.push_back(fmt::format("\"{}\"", hetsynth::text(product)));
      values.push_back(fmt::format("epilogues = [{}]", fmt::join(words, ", ")));
    }
    if (speed.attention) values.push_back(fmt::format("attention = \"{}\"", name(*speed.attention)));
    if (values.empty()) return;
    const std::string measured = fmt::format("measured = {{ {} }}", fmt::join(values, ", "));
    if (replace(device, measured)) return;
    if (device.is_inline()) refuse(device);
    insert_below_header(device, measured);
  }

  void measure_link(const toml::table& link, const Link& speed) {
    const std::string measured = measured_text(speed);
    if (replace(link, measured)) return;
    if (!link.is_inline()) return insert_below_header(link, measured);
    // Before the brace that closes the table.
    size_t at = offset(link.source().end);
    while (at > 0 && (at >= text_.size() || text_[at] != '}')) --at;
    size_t word = at;
    while (word > 0 && text_[word - 1] == ' ') --word;
    edits_.push_back({word, at, fmt::format(", {} ", measured)});
  }

  /// The link of a host to others, which few files tell before it is measured.
  void measure_outside(const toml::table& host, const Link& speed) {
    if (const toml::table* outside = host.get_as<toml::table>("outside")) return measure_link(*outside, speed);
    if (host.is_inline()) refuse(host);
    insert_below_header(host, fmt::format("outside = {{ {} }}", measured_text(speed)));
  }

  std::string result() {
    std::sort(edits_.begin(), edits_.end(), [](const Edit& a, const Edit& b) { return a.begin > b.begin; });
    for (const Edit& edit : edits_) text_.replace(edit.begin, edit.end - edit.begin, edit.text);
    return text_;
  }

  [[noreturn]] void refuse(const toml::node& node) const {
    throw UserError(
        {.where = {file_, int(node.source().begin.line), int(node.source().begin.column)},
         .tag = "cluster",
         .message = "measured values cannot be written into this entry",
         .expected = "devices as [[host.device]] tables, inside = { ... } and outside = { ... } in one line",
         .mend = "write the entry that way, or enter the printed values by hand"});
  }

 private:
  static std::string measured_text(const Link& speed) {
    return fmt::format("measured = {{ bandwidth = \"{:.4g} GB/s\", latency = \"{:.4g} us\" }}",
                       speed.bandwidth_bytes_per_second / 1e9, speed.latency_seconds * 1e6);
  }

  size_t offset(const toml::source_position& at) const {
    return std::min(starts_[std::min<size_t>(at.line, starts_.size()) - 1] + at.column - 1, text_.size());
  }

  /// As far in as the next line.
  void insert_below_header(const toml::table& table, const std::string& line_of_text) {
    // A table of dotted keys has no header.
    if (const size_t begin = offset(table.source().begin); begin >= text_.size() || text_[begin] != '[') refuse(table);
    const size_t line = table.source().begin.line;
    const size_t at = line < starts_.size() ? starts_[line] : text_.size();
    const size_t word = std::min(text_.find_first_not_of(' ', at), text_.size());
    const std::string before = at > 0 && text_[at - 1] != '\n' ? "\n" : "";
    edits_.push_back({at, at, fmt::format("{}{}{}\n", before, std::string(word - at, ' '), line_of_text)});
  }

  /// Replaces the measured values that stand there, if they do so as an inline table.
  bool replace(const toml::table& table, const std::string& measured) {
    const toml::node* old = table.get("measured");
    if (!old) return false;
    if (!old->is_table() || !old->as_table()->is_inline()) refuse(*old);
    size_t begin = text_.rfind("measured", offset(old->source().begin));
    if (begin != std::string::npos && begin > 0 && (text_[begin - 1] == '"' || text_[begin - 1] == '\'')) --begin;
    const size_t end = text_.find('}', begin);
    if (begin == std::string::npos || end == std::string::npos) refuse(*old);
    edits_.push_back({begin, end + 1, measured});
    return true;
  }

  std::string text_;
  const std::string& file_;
  std::vector<size_t> starts_;
  std::vector<Edit> edits_;
};

/// What the first does not say, as the second one does.
DeviceSpeed with_missing(DeviceSpeed speed, const DeviceSpeed& other) {
  for (const SpeedField& field : speed_fields())
    if (!(speed.*field.value)) speed.*field.value = other.*field.value;
  if (!speed.epilogues) speed.epilogues = other.epilogues;
  if (!speed.attention) speed.attention = other.attention;
  return speed;
}

/// nullptr: none has that name.
const toml::table* find_host(const toml::table& root, const std::string& name) {
  int number = 0;
  for (const toml::node& node : *root.get_as<toml::array>("host")) {
    const toml::table* host = node.as_table();
    const std::string entry = host->at_path("name").value_or(fmt::format("host{}", number++));
    if (entry == name || name.starts_with(entry + "[")) return host;
  }
  return nullptr;
}

}  // namespace

std::string with_measured(std::string_view toml, const std::string& file, const MeasuredHost& measured) {
  const Cluster cluster = parse_cluster(toml, file);
  const toml::table root = toml::parse(toml, file);
  Editor editor(toml, file);
  const toml::table* host = find_host(root, measured.name);
  if (!host)
    throw UserError(
        {.where = {file}, .tag = "cluster", .message = "the cluster has no such host", .found = measured.name});
  // Of the host's devices, in the order of the file, in which an entry may stand for several.
  auto before = std::ranges::find_if(
      cluster.devices, [&](const Device& device) { return cluster.hosts[size_t(device.host)].name == measured.name; });
  for (const toml::node& entry : *host->get_as<toml::array>("device")) {
    DeviceSpeed speed = measured.device;
    if (measured.adds && before != cluster.devices.end()) speed = with_missing(speed, before->measured);
    editor.measure_device(*entry.as_table(), speed);
    const auto count = entry.as_table()->at_path("count").value_or<int64_t>(1);
    before += std::min<ptrdiff_t>(count, cluster.devices.end() - before);
  }
  const toml::table* inside = host->get_as<toml::table>("inside");
  if (inside && measured.inside) editor.measure_link(*inside, *measured.inside);
  if (measured.outside) editor.measure_outside(*host, *measured.outside);
  return editor.result();
}

std::string with_measured_between(std::string_view toml, const std::string& file, const Link& between) {
  const Cluster cluster = parse_cluster(toml, file);
  const toml::table root = toml::parse(toml, file);
  const toml::table* link = root.get_as<toml::table>("between");
  if (!link)
    throw UserError({.where = {file},
                     .tag = "cluster",
                     .message = "the cluster has no links between hosts",
                     .expected = "[between]",
                     .found = counted(int64_t(cluster.hosts.size()), "host")});
  Editor editor(toml, file);
  editor.measure_link(*link, between);
  return editor.result();
}

}  // namespace hetsynth
