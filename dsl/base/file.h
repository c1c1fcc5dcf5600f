// Reading and writing whole small files: descriptions, plans, certificates.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace hetsynth {

/// The file's bytes. Throws UserError, with `what` ("cluster file") in the message, if it is missing, is no regular
/// file or is longer than `limit_bytes`.
std::string read_file(const std::string& path, const std::string& what, int64_t limit_bytes);

/// Throws UserError, with `what` in the message, unless there is a regular file at `path`: of a pipe nothing is waited
/// for.
void check_regular_file(const std::string& path, const std::string& what);

/// A file that is open for writing, as long as this lives. Of a pipe that nobody reads, opening waits for no reader.
class OpenForWriting {
 public:
  /// Throws UserError (ExitCode::failure), with `what` in the message, if the file cannot be opened; it is never made.
  OpenForWriting(const std::string& path, const std::string& what);
  ~OpenForWriting();
  OpenForWriting(const OpenForWriting&) = delete;
  OpenForWriting& operator=(const OpenForWriting&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
};

/// Writes a new file that takes the target's place when it is whole (dsl/base/new_file.h), so that a failure leaves
/// what was there; into a pipe, a terminal or a device the bytes are written as they are. Throws UserError
/// (ExitCode::failure).
void write_file_atomically(const std::string& path, const std::string& what, std::string_view bytes);

}  // namespace hetsynth
