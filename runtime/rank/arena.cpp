#include "runtime/rank/arena.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <utility>

#include "dsl/base/error.h"

namespace hetsynth {
namespace {

/// The number in a control group's file, or no limit if it says so or cannot be read.
int64_t limit_in(const char* path) {
  std::ifstream file(path);
  int64_t value = 0;
  return file >> value && value > 0 ? value : std::numeric_limits<int64_t>::max();
}

[[noreturn]] void fail_of_memory(int64_t bytes) {
  throw UserError(
      {{}, "memory", "the system refused " + text_of_bytes(bytes), "", "", "plan for devices with less memory"},
      ExitCode::failure);
}

}  // namespace

std::string text_of_bytes(int64_t bytes) {
  constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(units)) value /= 1024, ++unit;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, units[unit]);
}

Arena::Arena(int64_t bytes) : bytes_(std::max<int64_t>(bytes, 64)) {
  void* found = mmap(nullptr, static_cast<size_t>(bytes_), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (found == MAP_FAILED) fail_of_memory(bytes_);
  data_ = static_cast<char*>(found);
  // Advice only: without huge pages everything works, more slowly.
  (void)madvise(data_, static_cast<size_t>(bytes_), MADV_HUGEPAGE);
  // A copy of this process (runtime/balance/gentle_process.h) has no use for it, and would have each page copied that
  // is written meanwhile.
  (void)madvise(data_, static_cast<size_t>(bytes_), MADV_DONTFORK);
}

Arena::~Arena() {
  if (data_) munmap(data_, static_cast<size_t>(bytes_));
}

Arena::Arena(Arena&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Arena& Arena::operator=(Arena&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

void Arena::grow(int64_t bytes) {
  if (bytes <= bytes_) return;
  void* found = mremap(data_, static_cast<size_t>(bytes_), static_cast<size_t>(bytes), MREMAP_MAYMOVE);
  if (found == MAP_FAILED) fail_of_memory(bytes);
  data_ = static_cast<char*>(found);
  bytes_ = bytes;
}

int64_t usable_memory_bytes() {
  const int64_t physical = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<int64_t>(sysconf(_SC_PAGESIZE));
  return std::min(
      {physical, limit_in("/sys/fs/cgroup/memory.max"), limit_in("/sys/fs/cgroup/memory/memory.limit_in_bytes")});
}

int64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<int64_t>(usage.ru_maxrss) * 1024;
}

void check_memory(const std::vector<std::string>& devices, const std::vector<int64_t>& arena_bytes,
                  int64_t available_bytes) {
  int64_t total = 0;
  std::string list;
  for (size_t i = 0; i < devices.size(); ++i) {
    total += arena_bytes[i];
    list += fmt::format("{}{}: {}", i ? ", " : "", devices[i], text_of_bytes(arena_bytes[i]));
  }
  if (total <= available_bytes) return;
  throw UserError(
      {{},
       "memory",
       "the ranks of this process need more memory than this machine has",
       "at most " + text_of_bytes(available_bytes),
       fmt::format("{} ({})", text_of_bytes(total), list),
       "state the devices' real memory in the cluster file and plan again, or make the model or batch smaller"},
      ExitCode::failure);
}

}  // namespace hetsynth
