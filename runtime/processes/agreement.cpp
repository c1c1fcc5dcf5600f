#include "runtime/processes/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "dsl/base/error.h"

namespace hetsynth {
namespace {

void put(std::string& out, const std::string& text) {
  const uint64_t size = text.size();
  out.append(reinterpret_cast<const char*>(&size), sizeof size);
  out += text;
}

std::string packed(const std::vector<GivenValue>& given) {
  std::string out;
  for (const GivenValue& value : given) put(out, value.name), put(out, value.value), put(out, value.where);
  return out;
}

/// What another process sent. Another version may have sent anything.
std::vector<GivenValue> unpacked(const std::string& bytes) {
  std::vector<std::string> texts;
  for (size_t at = 0; at + sizeof(uint64_t) <= bytes.size();) {
    uint64_t size = 0;
    std::memcpy(&size, bytes.data() + at, sizeof size);
    at += sizeof size;
    if (size > bytes.size() - at) break;
    texts.push_back(bytes.substr(at, size));
    at += size;
  }
  std::vector<GivenValue> out;
  for (size_t i = 0; i + 2 < texts.size(); i += 3) out.push_back({texts[i], texts[i + 1], texts[i + 2]});
  return out;
}

GivenValue value_of(const std::vector<GivenValue>& given, const std::string& name) {
  const auto found = std::ranges::find(given, name, &GivenValue::name);
  return found == given.end() ? GivenValue{name, "", "of another version"} : *found;
}

std::string in_words(const GivenValue& value) {
  const std::string text = value.value.empty() ? "none" : value.value;
  return value.where.empty() ? text : fmt::format("{} ({})", value.where, text);
}

}  // namespace

std::optional<std::string> outcome_of_all(Job* job, const std::optional<std::string>& own) {
  if (!job) return own;
  bool all_done = true;
  for (const std::string& word : job->exchange(!own ? "" : own->empty() ? "+" : "-" + *own)) {
    if (word.starts_with('-')) return word.substr(1);
    all_done = all_done && !word.empty();
  }
  return all_done ? std::optional<std::string>("") : std::nullopt;
}

void agree(Job& job, const std::vector<GivenValue>& given) {
  const std::vector<std::string> all = job.exchange(packed(given));
  const std::vector<GivenValue> first = unpacked(all.front());
  for (int process = 1; process < int(all.size()); ++process) {
    const std::vector<GivenValue> other = unpacked(all[size_t(process)]);
    for (const GivenValue& value : first) {
      const GivenValue found = value_of(other, value.name);
      if (value.value == found.value) continue;
      throw UserError({.tag = "processes",
                       .message = fmt::format("the processes of this run were not given the same {}", value.name),
                       .expected = fmt::format("{}: {}", job.describe(0), in_words(value)),
                       .found = fmt::format("{}: {}", job.describe(process), in_words(found)),
                       .mend = "start all with the same files and options"});
    }
  }
}

}  // namespace hetsynth
