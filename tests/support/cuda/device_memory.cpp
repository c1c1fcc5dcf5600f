#include "tests/support/cuda/device_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace hetsynth::testing_support {
namespace {

/// Far more addresses than memory: an access a little outside of an allocation is still recognised, and harms nothing.
constexpr size_t reserved_bytes = size_t(1) << 36;
constexpr size_t gap = 1 << 20;
constexpr unsigned char poison_byte = 0xff;

void* map(size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("no addresses for the memory of a GPU's double");
  return memory;
}

thread_local Tracing* current_tracing = nullptr;

}  // namespace

DeviceMemory::DeviceMemory(size_t capacity_bytes)
    : capacity_(capacity_bytes), reserved_(static_cast<char*>(map(reserved_bytes))), next_(reserved_ + gap) {}

DeviceMemory::~DeviceMemory() {
  for (const Block& block : blocks_) ::munmap(block.halves, (block.bytes / 2 + 1) * sizeof(Half));
  ::munmap(reserved_, reserved_bytes);
}

char* DeviceMemory::allocate(size_t bytes) {
  if (bytes > free_bytes()) return nullptr;
  used_ += bytes;
  Block block{next_, bytes, static_cast<Half*>(map((bytes / 2 + 1) * sizeof(Half)))};
  blocks_.push_back(block);
  next_ += (bytes + gap - 1) / gap * gap + gap;
  std::memset(block.begin, poison_byte, bytes);
  return block.begin;
}

bool DeviceMemory::free(const void* pointer) {
  auto found = std::find_if(blocks_.begin(), blocks_.end(), [&](const Block& b) { return b.begin == pointer; });
  if (found == blocks_.end()) return false;
  used_ -= found->bytes;
  ::munmap(found->halves, (found->bytes / 2 + 1) * sizeof(Half));
  ::madvise(found->begin, found->bytes / 4096 * 4096, MADV_DONTNEED);
  blocks_.erase(found);
  return true;
}

const DeviceMemory::Block* DeviceMemory::find(const void* pointer, size_t bytes) const {
  const char* p = static_cast<const char*>(pointer);
  for (const Block& block : blocks_)
    if (p >= block.begin && p + bytes <= block.begin + block.bytes) return &block;
  return nullptr;
}

void DeviceMemory::poison(void* pointer, size_t bytes) {
  const Block* block = find(pointer, bytes);
  if (!block) throw std::runtime_error("poison outside of an allocation");
  std::memset(pointer, poison_byte, bytes);
  const size_t first = size_t(static_cast<char*>(pointer) - block->begin) / 2;
  std::memset(static_cast<void*>(block->halves + first), 0, bytes / 2 * sizeof(Half));
}

void DeviceMemory::begin(const Toucher& by) {
  auto& names = names_[by.stream];
  const uint32_t number = by.clock[size_t(by.stream)];
  if (names.size() <= number) names.resize(number + 1);
  names[number] = by.name;
}

void DeviceMemory::touch(const void* pointer, size_t bytes, bool writes, const Toucher& by) {
  const char* p = static_cast<const char*>(pointer);
  if (p < reserved_ || p >= reserved_ + reserved_bytes || bytes == 0) return;
  const Block* block = find(pointer, bytes);
  if (!block) {
    if (problem_.empty())
      problem_ = fmt::format("{} {} {} bytes outside of every allocation", by.name, writes ? "writes" : "reads", bytes);
    return;
  }
  const uint32_t number = by.clock[size_t(by.stream)];
  const size_t first = size_t(p - block->begin) / 2, last = (size_t(p - block->begin) + bytes - 1) / 2;
  for (size_t i = first; i <= last; ++i) {
    Half& half = block->halves[i];
    if (half.writer_number) {
      const bool same = half.writer_stream == by.stream && half.writer_number == number;
      const bool ordered = same ? half.writer_block == by.block : half.writer_number <= by.clock[half.writer_stream];
      if (!ordered) race(half, *block, pointer, writes, by, -1);
    }
    if (writes) {
      for (int s = 0; s < most_streams; ++s) {
        const bool same = s == by.stream && half.reader_number[s] == number;
        const bool ordered = same ? half.reader_block == by.block : half.reader_number[s] <= by.clock[size_t(s)];
        if (half.reader_number[s] && !ordered) race(half, *block, pointer, writes, by, s);
      }
      half.writer_number = number, half.writer_stream = uint8_t(by.stream), half.writer_block = by.block;
    } else {
      half.reader_number[by.stream] = number, half.reader_block = by.block;
    }
  }
}

void DeviceMemory::race(const Half& half, const Block& block, const void* at, bool writes, const Toucher& by,
                        int other) {
  if (!problem_.empty()) return;
  const int stream = other < 0 ? half.writer_stream : other;
  const uint32_t number = other < 0 ? half.writer_number : half.reader_number[other];
  const auto& names = names_[stream];
  problem_ =
      fmt::format("race: {} {} byte {} of an allocation of {} that {} {} and no event orders them", by.name,
                  writes ? "writes" : "reads", static_cast<const char*>(at) - block.begin, block.bytes,
                  number < names.size() ? names[number] : "an earlier operation", other < 0 ? "writes" : "reads");
}

Tracing::Tracing(DeviceMemory& traced, Toucher& toucher) : memory(traced), by(toucher), outer_(current_tracing) {
  current_tracing = this;
}
Tracing::~Tracing() { current_tracing = outer_; }
Tracing* Tracing::current() { return current_tracing; }

}  // namespace hetsynth::testing_support
