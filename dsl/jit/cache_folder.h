// A folder in which nobody else can put files: code is loaded from it.
#pragma once
#include <filesystem>
#include <string>
#include <utility>

namespace hetsynth {

/// An open file or folder. -1: none.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  ~Descriptor();
  int number() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }

 private:
  int number_ = -1;
};

/// Opens a folder of this user, made (for this user alone) if it is not there. Every folder on the way is opened in the
/// one before and looked at as it is open, so that nobody can put another in its place meanwhile: each belongs to this
/// user, to root or to whoever owns this program, and nobody else may write to it (or only to what is theirs, as in
/// /tmp); the last belongs to this user. None if that is not so; `problem` then says why.
Descriptor open_own_folder(const std::filesystem::path& folder, std::string* problem = nullptr);

}  // namespace hetsynth
