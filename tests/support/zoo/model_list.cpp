#include "tests/support/zoo/model_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>

#include "dsl/base/suggest.h"
#include "hetsynth/build_paths.h"

namespace hetsynth::testing {
namespace {

namespace fs = std::filesystem;

const fs::path examples = fs::path(HETSYNTH_SOURCE_DIR) / "examples";

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::string part;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] != separator) {
      part += text[i];
      continue;
    }
    part.erase(0, part.find_first_not_of(' '));
    part.erase(part.find_last_not_of(' ') + 1);
    if (!part.empty()) parts.push_back(part);
    part.clear();
  }
  return parts;
}

std::optional<Settings> settings_in(const std::string& text) {
  Settings settings;
  for (const std::string& pair : split(text, ' ')) {
    const size_t equals = pair.find('=');
    if (equals == std::string::npos || equals == 0) return std::nullopt;
    settings[pair.substr(0, equals)] = pair.substr(equals + 1);
  }
  return settings;
}

/// "109482240", "672M", "46.7B": the number, and a unit of its last digit if it was rounded or cut.
bool parse_count(const std::string& text, ListedModel* model) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc()) return false;
  const std::string unit(rest, end);
  if (unit != "" && unit != "M" && unit != "B") return false;
  const double scale = unit == "M" ? 1e6 : unit == "B" ? 1e9 : 1;
  const size_t point = text.find('.');
  const auto digits = point == std::string::npos ? 0 : int(rest - text.data()) - int(point) - 1;
  model->count_text = text;
  model->count = std::llround(number * scale);
  model->count_rounding = unit.empty() ? 0 : std::llround(scale * std::pow(10, -digits));
  return true;
}

/// "109482240 parameters without head."
bool parse_parameters(const std::string& field, ListedModel* model) {
  const std::vector<std::string> words = split(field, ' ');
  if (words.size() < 2 || words[1] != "parameters" || !parse_count(words[0], model)) return false;
  if (words.size() == 2) return true;
  if (words.size() != 4 || words[2] != "without") return false;
  model->without = words[3];
  return true;
}

ListedModel parse_model(const std::string& text) {
  const std::vector<std::string> fields = split(text, '|');
  if (fields.empty()) throw std::runtime_error("a model needs a name");
  ListedModel model;
  model.name = fields[0];
  for (size_t i = 1; i < fields.size(); ++i) {
    if (parse_parameters(fields[i], &model)) continue;
    const std::optional<Settings> settings = settings_in(fields[i]);
    if (!settings) throw std::runtime_error(fmt::format("\"{}\" is neither a count nor settings", fields[i]));
    model.published = *settings;
  }
  return model;
}

/// Body evaluations, the loop that a table lookup replaces counted once.
double evaluations(const Node& node) {
  OneHot found{0, 0, 0.0};
  const double all = node.space.iterations();
  if (!match_one_hot(node.body, &found)) return all;
  return all / double(std::max<int64_t>(1, node.space.factors[static_cast<size_t>(found.factor)].size));
}

}  // namespace

std::string ListedModel::path() const { return (examples / file).string(); }

int64_t ListedModel::counted_parameters(const Program& program) const {
  int64_t count = 0;
  for (const Node& node : program.nodes)
    if (node.kind == NodeKind::parameter && (without.empty() || !node.name.starts_with(without)))
      count += element_count(node.type.shape);
  return count;
}

std::vector<ListedModel> models_of(const std::string& path) {
  const fs::path file = path;
  std::vector<ListedModel> models;
  Settings tiny{{"size", "tiny"}};
  std::ifstream in(file);
  std::string line;
  for (int number = 1; std::getline(in, line) && line.starts_with("//"); ++number) {
    const auto after = [&](const std::string& key) -> std::optional<std::string> {
      const std::string start = "// " + key + ":";
      return line.starts_with(start) ? std::optional(line.substr(start.size())) : std::nullopt;
    };
    try {
      if (const auto text = after("Model")) {
        models.push_back(parse_model(*text));
      } else if (const auto text = after("Tiny")) {
        const std::optional<Settings> settings = settings_in(*text);
        if (!settings) throw std::runtime_error("expected settings: name=value name=value");
        tiny = *settings;
      }
    } catch (const std::runtime_error& error) {
      throw std::runtime_error(fmt::format("{}:{}: {}", file.string(), number, error.what()));
    }
  }
  if (models.empty()) {
    models.push_back(parse_model(file.stem().string()));
    tiny.clear();
  }
  for (ListedModel& model : models) {
    model.file = file.lexically_relative(examples).string();
    model.tiny = tiny;
  }
  models.front().first_of_file = true;
  return models;
}

void PrintTo(const ListedModel& model, std::ostream* out) { *out << model.name << " of " << model.file; }

namespace {

std::vector<ListedModel> models_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".cpp") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<ListedModel> models;
  for (const fs::path& file : files) {
    const std::vector<ListedModel> found = models_of(file.string());
    models.insert(models.end(), found.begin(), found.end());
  }
  return models;
}

std::vector<ListedModel> chosen_models(std::vector<ListedModel> out, const std::set<std::string>& names) {
  std::vector<std::string> known;
  for (const ListedModel& model : out) known.push_back(model.name);
  for (const std::string& name : names)
    if (std::ranges::find(known, name) == known.end())
      throw std::runtime_error(
          fmt::format("no model is named \"{}\"; {}", name, did_you_mean(name, known, "docs/models.md lists them")));
  std::erase_if(out, [&](const ListedModel& model) { return !names.empty() && !names.contains(model.name); });
  return out;
}

}  // namespace

std::vector<ListedModel> listed_models() { return models_in(examples); }
std::vector<ListedModel> listed_models(const std::set<std::string>& names) {
  return chosen_models(listed_models(), names);
}
std::vector<ListedModel> gallery_models(const std::set<std::string>& names) {
  return chosen_models(models_in(examples / "gallery"), names);
}

int64_t samples_per_step(const Program& program) {
  for (const Node& node : program.nodes)
    if (node.kind == NodeKind::input && !node.type.shape.empty()) return node.type.shape[0];
  return 1;
}

double flops_per_sample(const Program& program) {
  double total = 0;
  for (const Node& node : program.nodes)
    if (!node.leaf() && node.phase != Phase::update)
      total +=
          double(program.turns(node.id)) * evaluations(node) * (flops(node.body) + (node.space.reduction() ? 1 : 0));
  return total / double(samples_per_step(program));
}

std::vector<ListedModel> first_of_each_file() {
  std::vector<ListedModel> models = listed_models();
  std::erase_if(models, [](const ListedModel& model) { return !model.first_of_file; });
  return models;
}

bool has_turns(const ListedModel& model) {
  constexpr const char* without[] = {"gan", "inception_v3", "resnet101", "resnext50", "nmt", "rnnlm", "rnntc"};
  return std::ranges::none_of(without, [&](const char* file) { return model.file.find(file) != std::string::npos; });
}

std::vector<ListedModel> models_with_turns() {
  std::vector<ListedModel> out = first_of_each_file();
  std::erase_if(out, [](const ListedModel& model) { return !has_turns(model); });
  return out;
}

}  // namespace hetsynth::testing
