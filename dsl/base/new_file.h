// A file that takes its place only when it is whole: written beside it, synced, renamed.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace hetsynth {

/// A new file for `path`. Until `place` has renamed it, whatever stands at `path` stays as it is; a new file that is
/// never placed is removed. Every function throws UserError (ExitCode::failure) if the system refuses. A path that is a
/// symbolic link stands for what it points to.
///
/// The file has a name of its own in the same folder, which nobody can foresee, and is locked while it is being
/// written: the next writer for the same path removes those whose writer has died.
class NewFile {
 public:
  /// `what` ("checkpoint") is named in messages. Throws also if `path` is a folder or no regular file.
  NewFile(const std::string& path, std::string what);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  /// Appends.
  void write(std::span<const std::byte> bytes);
  /// Overwrites what has been written before.
  void write_at(int64_t offset, std::span<const std::byte> bytes);
  /// Bytes are on the disk when this returns, at a path from which they can be read and checked.
  const std::string& sync();
  /// Syncs, and takes the place of what stood at `path`, which is kept under the name `previous` (a file name in the
  /// same folder) if there is one. The folder is synced too: what is placed survives a loss of power.
  void place(const std::string& previous = "");
  /// Instead of what could be written: takes the place as another name of the file at `from`, or as a copy of it.
  void become(const std::string& from);

 private:
  void open_folder();
  void remove_abandoned() const;
  void open_new(unsigned mode);
  /// Gives the file at `path`, seen from the folder, the further name `as` in it, in place of what has that name.
  /// False if the file system has no hard links; other errors are thrown.
  bool link_as(const std::string& path, const std::string& as, const std::string& doing) const;
  void keep_as(const std::string& previous);
  [[noreturn]] void refuse(int error, const std::string& doing) const;
  void put(std::span<const std::byte> bytes, int64_t offset);

  std::string path_;  ///< as the user named it, for messages
  std::string what_;
  std::string folder_, name_;  ///< of the place, links followed
  std::string temporary_;      ///< file name in the folder
  std::string temporary_path_;
  int folder_number_ = -1, number_ = -1;  ///< descriptors
  int64_t bytes_ = 0;
  bool placed_ = false;
};

/// Makes and locks a new file in the folder of a descriptor. A writer locks its file as long as it lives, so that
/// others know one that was left behind; what was taken for that before it was locked is made anew. `name` becomes
/// prefix, sixteen digits that nobody can foresee, and ending. Returns the descriptor, or -1 with errno.
int make_locked_file(int folder, std::string_view prefix, std::string_view ending, unsigned mode, std::string* name);

/// Gives the file at `from` the further name `to`, in place of what has that name: the file is shared, or copied where
/// the file system has no hard links. Throws as NewFile does, with `what` in the message; then what had the name is as
/// it was.
void share_file(const std::string& from, const std::string& to, const std::string& what);

/// Makes a folder for files that are not kept where the user works, in the system's place for such. Its name is
/// `prefix` and six signs that nobody can foresee, as others share the place. Returns its path; throws UserError
/// (ExitCode::failure).
std::string make_temporary_folder(const std::string& prefix);

/// Throws as NewFile does if no file can be written at `path`; leaves everything as it was.
void check_writable(const std::string& path, const std::string& what);

}  // namespace hetsynth
