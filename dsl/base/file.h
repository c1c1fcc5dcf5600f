// Reading and writing whole small files: descriptions, plans, certificates.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace hetsynth {

/// The file's bytes. Throws UserError, with `what` ("cluster file") in the message, if it is missing, is no regular
/// file or is longer than `limit_bytes`.
std::string read_file(const std::string& path, const std::string& what, int64_t limit_bytes);

/// Writes a file beside the target and renames it into place, so that a failure leaves what was there. Throws UserError
/// (ExitCode::failure).
void write_file_atomically(const std::string& path, const std::string& what, std::string_view bytes);

}  // namespace hetsynth
