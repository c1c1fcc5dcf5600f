// Words for people, on standard error. Where these cannot be written, as on a full disk or with the stream closed, what
// the command does goes on: its results and its exit code do not depend on who reads along.
#pragma once
#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>

namespace hetsynth {

/// As fmt::print(stderr, ...), which throws if nothing can be written.
template <class... Args>
void notice(fmt::format_string<Args...> format, Args&&... args) {
  const std::string text = fmt::format(format, std::forward<Args>(args)...);
  (void)std::fwrite(text.data(), 1, text.size(), stderr);
}

/// A word on what is odd and ends nothing.
template <class... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  notice("hetsynth: warning: {}\n", fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace hetsynth
