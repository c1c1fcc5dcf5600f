#include "cli/job_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "cli/usage.h"
#include "dsl/base/error.h"
#include "dsl/base/suggest.h"
#include "dsl/base/toml_text.h"

namespace hetsynth::cli {
namespace {

const std::string first_words = "# Made by hetsynth";

constexpr const char* model_key = "model";

[[noreturn]] void refuse(const std::string& file, const toml::source_region& place, const std::string& message,
                         const std::string& expected, const std::string& found = "", const std::string& mend = "") {
  SourceLocation where;
  where.file = file;
  where.line = int(place.begin.line);
  throw UserError(
      {.where = where, .tag = "job", .message = message, .expected = expected, .found = found, .mend = mend});
}

/// A number or a text as a word of a command line; nothing for a date, a list or a table.
std::optional<std::string> word_of(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return fmt::format("{}", number->get());
  if (const auto* number = node.as_floating_point()) return fmt::format("{}", number->get());
  return std::nullopt;
}

bool is_flag(const CLI::Option& option) { return option.get_expected_max() == 0; }

/// The words of one key.
std::vector<std::string> words_of(const CLI::App& command, const std::string& file, const std::string& key,
                                  const toml::node& node) {
  std::vector<std::string> names = long_names(command);
  names.insert(names.begin(), model_key);
  if (std::ranges::find(names, key) == names.end())
    refuse(file, node.source(), "there is no such option of run", "long names of options, and model", quote(key),
           did_you_mean(key, names, "`hetsynth run --help` lists the options"));
  const std::string name = "--" + key;
  if (is_flag(*command.get_option(name))) {
    const auto* value = node.as_boolean();
    if (!value) refuse(file, node.source(), key + " takes no value", "true or false");
    return value->get() ? std::vector{name} : std::vector<std::string>{};
  }
  std::vector<std::string> out;
  const auto add = [&](const toml::node& value, const std::string& before) {
    const std::optional<std::string> word = word_of(value);
    if (!word) refuse(file, value.source(), "a value of the wrong kind", "a text or a number");
    out.push_back(name);
    out.push_back(before + *word);
  };
  if (const toml::array* list = node.as_array()) {
    for (const toml::node& value : *list) add(value, "");
  } else if (const toml::table* table = node.as_table(); table && key == "set") {
    for (const auto& [setting, value] : in_order(*table)) add(value, std::string(setting.str()) + "=");
  } else {
    add(node, "");
  }
  return out;
}

/// The long name of an option that a word gives; empty: it gives none.
std::string name_in(const std::string& word) {
  return word.starts_with("--") ? word.substr(2, word.find('=') - 2) : "";
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", c);
    else
      out += c;
  }
  return out + '"';
}

}  // namespace

std::vector<std::string> with_job_file(const CLI::App& app, std::vector<std::string> words) {
  if (words.size() < 2 || words[0] != "run" || !words[1].ends_with(".toml")) return words;
  const std::string file = words[1];
  const CLI::App& command = *app.get_subcommand("run");
  const toml::table table = read_toml(file, "job", "job");
  std::vector<std::string> out = {"run"};
  const auto* model = table.get_as<std::string>(model_key);
  if (!model)
    refuse(file, table.source(), "the file does not say what to train", "model = \"gpt.cpp\"", "",
           "a cluster is no job: name the model first, and the cluster with --cluster");
  out.push_back(model->get());
  for (const auto& [key, node] : in_order(table)) {
    if (key.str() == model_key) continue;
    const bool given = std::ranges::any_of(words, [&](const std::string& word) { return name_in(word) == key.str(); });
    if (given && key.str() != "set") continue;  // of a setting that is given twice the last one counts
    const std::vector<std::string> more = words_of(command, file, std::string(key.str()), node);
    out.insert(out.end(), more.begin(), more.end());
  }
  out.insert(out.end(), words.begin() + 2, words.end());
  return out;
}

std::string job_of_checkpoint(const std::string& checkpoint) { return checkpoint + ".job.toml"; }

const OutputKind job_file_kind{"job file of hetsynth", begins_with(first_words)};

std::string job_file_of(const CLI::App& command) {
  std::string out = first_words + "; `hetsynth run` with this file repeats the run.\n";
  for (const CLI::Option* option : all_options(command)) {
    if (option->count() == 0) continue;
    const std::string key = option->get_positional() ? model_key : option->get_lnames().at(0);
    std::vector<std::string> values;
    for (const std::string& value : option->results()) values.push_back(quoted(value));
    if (is_flag(*option))
      out += fmt::format("{} = true\n", key);
    else if (values.size() == 1 && option->get_expected_max() == 1)
      out += fmt::format("{} = {}\n", key, values[0]);
    else
      out += fmt::format("{} = [{}]\n", key, fmt::join(values, ", "));
  }
  return out;
}

}  // namespace hetsynth::cli
