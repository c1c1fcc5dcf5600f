// Memory of a GPU that is not there: bounds and races are checked on every access of a kernel, and fresh memory is
// poisoned.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace hetsynth::testing_support {

/// How far each stream of a device has come, as far as whoever holds the clock has waited for it.
constexpr int most_streams = 8;
using Clock = std::array<uint32_t, most_streams>;

inline void join(Clock& into, const Clock& from) {
  for (size_t s = 0; s < into.size(); ++s) into[s] = into[s] < from[s] ? from[s] : into[s];
}

/// Who touches memory: an operation of a stream, at its clock. `clock[stream]` numbers the operation.
struct Toucher {
  int stream = 0;
  Clock clock = {};
  uint32_t block = 0;  ///< of a kernel
  std::string name;    ///< of the operation
};

class DeviceMemory {
 public:
  explicit DeviceMemory(size_t capacity_bytes);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  /// nullptr if it does not fit. Filled with bytes that make floats NaN.
  char* allocate(size_t bytes);
  /// Whether there was such an allocation.
  bool free(const void* pointer);
  size_t free_bytes() const { return capacity_ - used_; }
  size_t capacity() const { return capacity_; }
  size_t allocations() const { return blocks_.size(); }
  /// The first allocation that is still there; nullptr if none is.
  char* first() const { return blocks_.empty() ? nullptr : blocks_.front().begin; }
  bool holds(const void* pointer, size_t bytes) const { return find(pointer, bytes) != nullptr; }
  /// Fills a part with poison, and forgets who touched it.
  void poison(void* pointer, size_t bytes);

  /// An operation is about to touch memory: messages name it.
  void begin(const Toucher& by);
  /// Notes an access, unless the address is none of the device's (a stack, shared memory). Once something is wrong,
  /// `problem` says what: out of bounds, or two accesses that no event orders.
  void touch(const void* pointer, size_t bytes, bool writes, const Toucher& by);
  const std::string& problem() const { return problem_; }

 private:
  /// Who touched two bytes last.
  struct Half {
    uint32_t writer_number, writer_block, reader_block;
    uint32_t reader_number[most_streams];
    uint8_t writer_stream;
  };
  struct Block {
    char* begin;
    size_t bytes;
    Half* halves;
  };
  const Block* find(const void* pointer, size_t bytes) const;
  void race(const Half& half, const Block& block, const void* at, bool writes, const Toucher& by, int other);
  size_t capacity_, used_ = 0;
  char *reserved_ = nullptr, *next_ = nullptr;
  std::vector<Block> blocks_;
  std::string problem_;
  /// Names of the last operations by stream and number, for messages.
  std::vector<std::string> names_[most_streams];
};

/// While this lives, kernels executed by the thread report their accesses.
class Tracing {
 public:
  Tracing(DeviceMemory& memory, Toucher& by);
  ~Tracing();
  static Tracing* current();
  DeviceMemory& memory;
  Toucher& by;

 private:
  Tracing* outer_;
};

}  // namespace hetsynth::testing_support
