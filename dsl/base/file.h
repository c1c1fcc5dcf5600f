// Reading and writing whole small files: descriptions, plans, certificates.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace hetsynth {

/// The file's bytes. Throws UserError, with `what` ("cluster file") in the message, if it is missing, is no regular
/// file or is longer than `limit_bytes`.
std::string read_file(const std::string& path, const std::string& what, int64_t limit_bytes);

/// Writes a new file that takes the target's place when it is whole (dsl/base/new_file.h), so that a failure leaves
/// what was there; into a pipe, a terminal or a device the bytes are written as they are. Throws UserError
/// (ExitCode::failure).
void write_file_atomically(const std::string& path, const std::string& what, std::string_view bytes);

}  // namespace hetsynth
