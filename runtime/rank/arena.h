// A rank's memory: one block for all of its tensors.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace hetsynth {

/// Zeroed memory, aligned to 64 bytes and more, in huge pages where the system offers them. Pages come into being where
/// they are first touched: by the rank's own thread, near its core.
class Arena {
 public:
  Arena() = default;
  /// Throws UserError (exit code 1) if the system refuses.
  explicit Arena(int64_t bytes);
  ~Arena();
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;

  /// Makes it so large at least. What is in it stays, perhaps at another address; what is new is zeroed. Throws
  /// UserError (exit code 1) if the system refuses.
  void grow(int64_t bytes);

  char* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  char* data_ = nullptr;
  int64_t bytes_ = 0;
};

/// Memory of this machine, or what the control group of this process allows if that is less.
int64_t usable_memory_bytes();
/// The most this process ever held, in bytes.
int64_t peak_resident_bytes();

/// Throws UserError (exit code 1) listing the devices if their arenas together exceed `available_bytes`.
void check_memory(const std::vector<std::string>& devices, const std::vector<int64_t>& arena_bytes,
                  int64_t available_bytes);

/// "1.5 GiB", "640 B".
std::string text_of_bytes(int64_t bytes);

}  // namespace hetsynth
