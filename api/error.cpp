#include <fmt/format.h>

#include "api/impl.h"
#include "dsl/base/version.h"

namespace hetsynth::api {
namespace {

/// Versions of one interface: before 1.0 those whose first two numbers are the same.
std::string_view interface_of(std::string_view version) {
  const size_t major = version.find('.');
  return major == std::string_view::npos ? version : version.substr(0, version.find('.', major + 1));
}

}  // namespace

Error::Error(const std::string& text, int code) : std::runtime_error(text), code_(code) {}
Error::~Error() = default;

std::string library_version() { return tool_version(); }

void require_version(std::string_view of_headers) {
  const std::string own = library_version();
  if (interface_of(of_headers) == interface_of(own)) return;
  with_own_errors([&] {
    throw UserError({.tag = "version",
                     .message = "this program was built with the headers of another version of hetsynth",
                     .expected = fmt::format("headers of hetsynth {}, which is the library it runs with", own),
                     .found = fmt::format("headers of hetsynth {}", of_headers),
                     .mend = "build the program again, or run it with the library it was built for"},
                    ExitCode::failure);
  });
}

}  // namespace hetsynth::api
