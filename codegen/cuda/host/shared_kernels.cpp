#include "codegen/cuda/host/shared_kernels.h"

#include <fmt/format.h>

#include <cctype>
#include <map>
#include <set>
#include <string_view>
#include <vector>

namespace hetsynth::codegen::cuda {
namespace {

bool starts_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

/// Names, numbers and single signs, without comments and white space.
std::vector<std::string_view> tokens(std::string_view text) {
  std::vector<std::string_view> out;
  for (size_t at = 0; at < text.size();) {
    size_t end = at + 1;
    if (text.substr(at, 2) == "//") {
      at = std::min(text.find('\n', at), text.size());
      continue;
    }
    if (std::isspace(static_cast<unsigned char>(text[at]))) {
      ++at;
      continue;
    }
    if (in_word(text[at]))
      // Numbers such as 1e-05f: their sign belongs to them.
      while (end < text.size() && (in_word(text[end]) || (!starts_name(text[at]) && text[end] == '.') ||
                                   (!starts_name(text[at]) && text[end - 1] == 'e' && text[end] == '-')))
        ++end;
    out.push_back(text.substr(at, end - at));
    at = end;
  }
  return out;
}

/// A name is declared where it follows a type, or a type and a star.
std::set<std::string_view> declared_names(const std::vector<std::string_view>& words) {
  static const std::set<std::string_view> types = {"float",    "double",       "int",  "long", "bool",
                                                   "unsigned", "__restrict__", "bf16", "fp16"};
  std::set<std::string_view> out;
  for (size_t i = 1; i < words.size(); ++i) {
    const size_t type = words[i - 1] == "*" && i > 1 ? i - 2 : i - 1;
    if (starts_name(words[i][0]) && types.count(words[type]) && !types.count(words[i])) out.insert(words[i]);
  }
  return out;
}

}  // namespace

std::string without_names(const std::string& kernel_text) {
  const std::vector<std::string_view> words = tokens(kernel_text);
  std::set<std::string_view> own = declared_names(words);
  for (size_t i = 0; i + 1 < words.size(); ++i)  // __launch_bounds__(256) NAME (
    if (words[i] == ")" && starts_name(words[i + 1][0]) && i + 2 < words.size() && words[i + 2] == "(") {
      own.insert(words[i + 1]);
      break;
    }
  std::map<std::string_view, size_t> numbers;
  std::string out;
  for (size_t i = 0; i < words.size(); ++i) {
    const bool member = i > 0 && words[i - 1] == ".";
    if (own.count(words[i]) && !member)
      out += fmt::format("${} ", numbers.emplace(words[i], numbers.size()).first->second);
    else
      out.append(words[i]).push_back(' ');
  }
  return out;
}

void share_kernels(DeviceSchedule& schedule) {
  struct First {
    Kernel* kernel;
    int launches;
  };
  std::map<std::string, First> firsts;
  for (ScheduledStep& step : schedule.steps)
    for (Kernel& kernel : step.kernels.kernels) {
      const auto [entry, fresh] = firsts.try_emplace(without_names(kernel.text), First{&kernel, 0});
      ++entry->second.launches;
      if (fresh) continue;
      kernel.name = entry->second.kernel->name;
      kernel.text.clear();
    }
  for (auto& [text, first] : firsts)
    if (first.launches > 1)
      first.kernel->text = fmt::format("// launched {} times in a step, here by the names of the first:\n{}",
                                       first.launches, first.kernel->text);
}

}  // namespace hetsynth::codegen::cuda
