// What the processes of a run tell each other of their ranks.
#pragma once
#include <cstddef>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "codegen/interface/device_program.h"
#include "dsl/base/error.h"
#include "runtime/processes/job.h"

namespace hetsynth {

/// Fills in, of a list by rank, the entries of other processes. `here`: the ranks of this process.
template <class T>
void exchange_by_rank(Job& job, const std::vector<int>& here, std::vector<T>& values) {
  static_assert(std::is_trivially_copyable_v<T>);
  struct Entry {
    int rank;
    T value;
  };
  std::string own;
  for (const int rank : here) {
    const Entry entry{rank, values.at(size_t(rank))};
    own.append(reinterpret_cast<const char*>(&entry), sizeof entry);
  }
  for (const std::string& words : job.exchange(own)) {
    HETSYNTH_CHECK(words.size() % sizeof(Entry) == 0, "processes of one program exchange whole entries");
    for (size_t at = 0; at < words.size(); at += sizeof(Entry)) {
      Entry entry;
      std::memcpy(&entry, words.data() + at, sizeof entry);
      values.at(size_t(entry.rank)) = entry.value;
    }
  }
}

/// The first process's value.
template <class T>
T from_first(Job& job, T value) {
  static_assert(std::is_trivially_copy_constructible_v<T> && std::is_trivially_destructible_v<T>);
  const std::string own = job.leads() ? std::string(reinterpret_cast<const char*>(&value), sizeof value) : "";
  const std::string first = job.exchange(own).front();
  HETSYNTH_CHECK(first.size() == sizeof value, "processes of one program exchange whole values");
  std::memcpy(static_cast<void*>(&value), first.data(), sizeof value);
  return value;
}

/// A part of a tensor, as ranks hold it.
struct TensorPart {
  std::vector<Range> ranges;
  std::vector<std::byte> bytes;
};
/// The parts of all processes.
std::vector<TensorPart> exchange_parts(Job& job, const std::vector<TensorPart>& own);

/// Every process sends each other one some bytes, in messages of `tag`, and gets as many as it expects of it. All call
/// it alike. `to`, `expected`: by process; nothing goes to oneself. Throws RunFailed when another process failed.
std::vector<std::vector<std::byte>> exchange_bytes(Job& job, int tag, std::vector<std::vector<std::byte>> to,
                                                   const std::vector<size_t>& expected);

}  // namespace hetsynth
