// Hyper-parameters: a default in the model, a value from the command line.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "dsl/include/hetsynth/model.h"
#include "dsl/ir/precision_setting.h"
#include "dsl/ir/trace.h"

namespace hetsynth {
namespace {

[[noreturn]] void wrong_value(const char* name, const std::string& value, const char* expected,
                              const std::string& example, const std::source_location& where) {
  throw UserError({.where = location(where),
                   .tag = "option",
                   .message = fmt::format("{} has no valid value", name),
                   .expected = expected,
                   .found = fmt::format("\"{}\"", value),
                   .mend = fmt::format("--set {}={}", name, example)},
                  ExitCode::usage);
}

/// The whole text as a number.
template <class Number>
bool parse(const std::string& text, Number* out) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size();
}

/// The setting for `name` if there is one; notes that it was asked for.
const std::string* setting(const char* name) {
  Trace& trace = Trace::current();
  auto found = trace.settings.find(name);
  if (found == trace.settings.end()) return nullptr;
  trace.settings_used.insert(name);
  if (name == std::string_view(precision_setting)) drop_precision_setting(trace);
  return &found->second;
}

/// Options are listed once, however often the model asks.
void record(const char* name, std::string value, const char* help) {
  std::vector<OptionValue>& options = Trace::current().program.options;
  auto same = [&](const OptionValue& option) { return option.name == name; };
  if (std::none_of(options.begin(), options.end(), same)) options.push_back({name, std::move(value), help});
}

}  // namespace

int64_t option(const char* name, int64_t default_value, const char* help, std::source_location where) {
  int64_t value = default_value;
  if (const std::string* text = setting(name); text && !parse(*text, &value))
    wrong_value(name, *text, "a whole number", std::to_string(default_value), where);
  record(name, std::to_string(value), help);
  return value;
}

int64_t option(const char* name, int default_value, const char* help, std::source_location where) {
  return option(name, int64_t(default_value), help, where);
}

double option(const char* name, double default_value, const char* help, std::source_location where) {
  double value = default_value;
  if (const std::string* text = setting(name); text && (!parse(*text, &value) || value - value != 0))
    wrong_value(name, *text, "a finite number", fmt::format("{}", default_value), where);
  record(name, fmt::format("{}", value), help);
  return value;
}

std::string option(const char* name, const char* default_value, const char* help, std::source_location where) {
  (void)where;
  const std::string* text = setting(name);
  std::string value = text ? *text : default_value;
  record(name, value, help);
  return value;
}

size_t choice_index(const char* name, const char* default_value, const std::vector<std::string>& names,
                    const char* help, std::source_location where) {
  const std::string value = option(name, default_value, help, where);
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == value) return i;
  wrong_value(name, value, fmt::format("one of: {}", fmt::join(names, ", ")).c_str(), default_value, where);
}

}  // namespace hetsynth
