// What a command writes takes the place of nothing, or of a file of its own kind; never of what the command reads.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hetsynth {

/// A kind of file that is written.
struct OutputKind {
  std::string what;  ///< "plan file", in messages
  /// Whether a file that begins like this, its first mebibyte, is one.
  std::function<bool(std::string_view)> is_one;
};

/// Files are of a kind that begin with `start`, and whose beginning has all of these marks.
std::function<bool(std::string_view)> begins_with(std::string start, std::vector<std::string> marks = {});
/// Any text is of this kind: no byte of it is zero.
extern const OutputKind text_kind;

/// Throws UserError if a file of the kind may not be written at `path`, and leaves everything as it was: what stands
/// there is of another kind and not empty, or is one of `inputs`, which are paths that the command reads; or the system
/// would refuse (check_writable). Pipes, terminals and devices take everything.
void check_output(const std::string& path, const OutputKind& kind, std::span<const std::string> inputs = {});

/// Throws UserError if `path` is one of `inputs`, which the command reads, or another name of one.
void check_not_read(const std::string& path, const std::string& what, std::span<const std::string> inputs);

/// Whether a file of one name would be that of the other, too.
bool is_same_place(const std::string& a, const std::string& b);

/// Throws as check_output does, without a look at inputs, if what stands at `path` is of another kind.
void check_replaceable(const std::string& path, const OutputKind& kind);

/// Writes a new file that takes the place of what stood at `path` when it is whole, as write_file_atomically does, if
/// that was nothing or of the same kind. Throws UserError.
void write_output(const std::string& path, const OutputKind& kind, std::string_view bytes);

/// Writes as write_output does. People edit files of this kind: one that differs from `bytes` is kept beside the new
/// one as PATH.previous.
void write_edited_output(const std::string& path, const OutputKind& kind, std::string_view bytes);

}  // namespace hetsynth
