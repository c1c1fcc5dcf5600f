#include "runtime/collectives/collectives_transfer.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "dsl/base/error.h"
#include "runtime/collectives/collective_pieces.h"
#include "runtime/rank/half.h"

namespace hetsynth {
namespace {

// Reductions run over blocks that stay in the first-level cache while every source is added to them.
constexpr int64_t block_elements = 2048;
// Below this size every member reduces all elements for itself; above, each reduces its share and hands it to all.
constexpr int64_t shared_reduction_elements = 4096;

const char* source_of(const CollectiveCall& call) { return static_cast<const char*>(call.source); }
char* destination_of(const CollectiveCall& call) { return static_cast<char*>(call.destination); }

/// What reductions of a type are computed in: sums of numbers of 16 bits are sums of floats, rounded once.
template <typename T>
struct Wide {
  using type = T;
};
template <>
struct Wide<Bf16> {
  using type = float;
};
template <>
struct Wide<Fp16> {
  using type = float;
};

int64_t copy_elements(int64_t element_bytes, char* to, int64_t to_offset, const char* from, int64_t from_offset,
                      int64_t elements) {
  if (elements > 0) {
    std::memcpy(to + to_offset * element_bytes, from + from_offset * element_bytes,
                static_cast<size_t>(elements * element_bytes));
  }
  return elements * element_bytes;
}

template <typename W, typename T>
void accumulate(W* into, const T* from, int64_t elements, Reduction reduce) {
  switch (reduce) {
    case Reduction::sum:
    case Reduction::average:
      for (int64_t i = 0; i < elements; ++i) into[i] += from[i];
      return;
    case Reduction::product:
      for (int64_t i = 0; i < elements; ++i) into[i] *= from[i];
      return;
    // A NaN in either operand stays, so that it is seen where it can be reported.
    case Reduction::max:
      for (int64_t i = 0; i < elements; ++i)
        into[i] = (into[i] > W(from[i]) || into[i] != into[i]) ? into[i] : W(from[i]);
      return;
    case Reduction::min:
      for (int64_t i = 0; i < elements; ++i)
        into[i] = (into[i] < W(from[i]) || into[i] != into[i]) ? into[i] : W(from[i]);
      return;
  }
}

/// The same elements of all members' sources, reduced within each host, rounded, and then over the hosts.
template <typename T, typename W>
void reduce_by_host(std::span<const CollectiveCall* const> calls, int64_t at, int64_t elements, W* block) {
  const Reduction reduce = calls[0]->reduce;
  const std::span<const int64_t> hosts = calls[0]->hosts;
  std::array<W, block_elements> of_host;
  std::array<T, block_elements> rounded;
  for (size_t first = 0, next = 0; first < calls.size(); first = next) {
    std::copy_n(static_cast<const T*>(calls[first]->source) + at, elements, of_host.data());
    for (next = first + 1; next < calls.size() && hosts[next] == hosts[first]; ++next)
      accumulate(of_host.data(), static_cast<const T*>(calls[next]->source) + at, elements, reduce);
    for (int64_t i = 0; i < elements; ++i) rounded[static_cast<size_t>(i)] = T(of_host[static_cast<size_t>(i)]);
    if (first == 0)
      std::copy_n(rounded.data(), elements, block);
    else
      accumulate(block, rounded.data(), elements, reduce);
  }
}

/// Reduces elements [from, to) of all members' sources, in coordinate order, block by block into `write(block, at,
/// elements)`.
template <typename T, typename Write>
void reduce_range(std::span<const CollectiveCall* const> calls, int64_t from, int64_t to, const Write& write) {
  const Reduction reduce = calls[0]->reduce;
  using W = typename Wide<T>::type;
  std::array<W, block_elements> block;
  for (int64_t at = from; at < to; at += block_elements) {
    const int64_t elements = std::min(block_elements, to - at);
    if (calls[0]->hosts.empty()) {
      std::copy_n(static_cast<const T*>(calls[0]->source) + at, elements, block.data());
      for (size_t j = 1; j < calls.size(); ++j)
        accumulate(block.data(), static_cast<const T*>(calls[j]->source) + at, elements, reduce);
    } else {
      reduce_by_host<T>(calls, at, elements, block.data());
    }
    if (reduce == Reduction::average) {
      const W members = static_cast<W>(calls.size());
      for (int64_t i = 0; i < elements; ++i) block[static_cast<size_t>(i)] /= members;
    }
    if constexpr (std::is_same_v<T, W>) {
      write(block.data(), at, elements);
    } else {
      std::array<T, block_elements> rounded;
      for (int64_t i = 0; i < elements; ++i) rounded[static_cast<size_t>(i)] = T(block[static_cast<size_t>(i)]);
      write(rounded.data(), at, elements);
    }
  }
}

template <typename T>
int64_t all_reduce(std::span<const CollectiveCall* const> calls, int member) {
  const int64_t count = calls[0]->count, members = static_cast<int64_t>(calls.size());
  if (count < shared_reduction_elements) {
    T* const own = static_cast<T*>(calls[static_cast<size_t>(member)]->destination);
    reduce_range<T>(calls, 0, count, [&](const T* block, int64_t at, int64_t n) { std::copy_n(block, n, own + at); });
    return count * int64_t{sizeof(T)};
  }
  // Shares end on cache lines, so that no two members write the same one.
  constexpr int64_t line = 64 / int64_t{sizeof(T)};
  const auto edge = [&](int64_t i) { return i == members ? count : (count / line * i / members) * line; };
  const int64_t from = edge(member), to = edge(member + 1);
  reduce_range<T>(calls, from, to, [&](const T* block, int64_t at, int64_t n) {
    for (const CollectiveCall* call : calls) std::copy_n(block, n, static_cast<T*>(call->destination) + at);
  });
  return (to - from) * members * int64_t{sizeof(T)};
}

template <typename T>
int64_t reduce_scatter(std::span<const CollectiveCall* const> calls, int member) {
  const CollectiveCall& own = *calls[static_cast<size_t>(member)];
  const auto m = static_cast<size_t>(member);
  const int64_t row = own.bounds.back() * own.inner;
  const int64_t from = own.bounds[m] * own.inner, to = own.bounds[m + 1] * own.inner;
  T* destination = static_cast<T*>(own.destination);
  for (int64_t o = 0; o < own.outer; ++o) {
    reduce_range<T>(calls, o * row + from, o * row + to,
                    [&](const T* block, int64_t, int64_t n) { destination = std::copy_n(block, n, destination); });
  }
  return own.outer * (to - from) * int64_t{sizeof(T)};
}

int64_t all_gather(std::span<const CollectiveCall* const> calls, int member) {
  const CollectiveCall& own = *calls[static_cast<size_t>(member)];
  const int64_t row = own.bounds.back() * own.inner;
  int64_t bytes = 0;
  for (size_t j = 0; j < calls.size(); ++j) {
    const int64_t from = own.bounds[j] * own.inner, part = own.bounds[j + 1] * own.inner - from;
    for (int64_t o = 0; o < own.outer; ++o) {
      bytes += copy_elements(bytes_per_element(own.type), destination_of(own), o * row + from, source_of(*calls[j]),
                             o * part, part);
    }
  }
  return bytes;
}

/// What each member's part has of the receiver's, which begins before its own and ends behind it.
int64_t halo_exchange(std::span<const CollectiveCall* const> calls, int member) {
  const CollectiveCall& own = *calls[static_cast<size_t>(member)];
  const Range held = held_with_halo(own, member);
  int64_t bytes = 0;
  for (size_t j = 0; j < calls.size(); ++j) {
    const Range part{own.bounds[j], own.bounds[j + 1]}, given = common(held, part);
    for (int64_t o = 0; o < own.outer && given.lo < given.hi; ++o) {
      bytes +=
          copy_elements(bytes_per_element(own.type), destination_of(own),
                        (o * (held.hi - held.lo) + given.lo - held.lo) * own.inner, source_of(*calls[j]),
                        (o * (part.hi - part.lo) + given.lo - part.lo) * own.inner, (given.hi - given.lo) * own.inner);
    }
  }
  return bytes;
}

// From `first` to `second`: member j holds rows [f0, f1) of `first` and all of `second`; the receiver takes its columns
// of every row.
int64_t all_to_all_from_first(std::span<const CollectiveCall* const> calls, size_t member) {
  const CollectiveCall& own = *calls[member];
  const int64_t s0 = own.bounds_to[member], kept = own.bounds_to[member + 1] - s0;
  int64_t bytes = 0;
  for (size_t j = 0; j < calls.size(); ++j) {
    const int64_t f0 = own.bounds[j], rows = own.bounds[j + 1] - f0;
    for (int64_t o = 0; o < own.outer; ++o) {
      for (int64_t r = 0; r < rows * own.middle; ++r) {
        const int64_t to = ((o * own.first + f0) * own.middle + r) * kept;
        const int64_t from = (o * rows * own.middle + r) * own.second + s0;
        bytes += copy_elements(bytes_per_element(own.type), destination_of(own), to * own.inner, source_of(*calls[j]),
                               from * own.inner, kept * own.inner);
      }
    }
  }
  return bytes;
}

// From `second` to `first`: member j holds all of `first` and columns [s0, s1) of `second`; the receiver takes its rows
// and joins the columns.
int64_t all_to_all_from_second(std::span<const CollectiveCall* const> calls, size_t member) {
  const CollectiveCall& own = *calls[member];
  const int64_t f0 = own.bounds_to[member], rows = own.bounds_to[member + 1] - f0;
  int64_t bytes = 0;
  for (size_t j = 0; j < calls.size(); ++j) {
    const int64_t s0 = own.bounds[j], columns = own.bounds[j + 1] - s0;
    for (int64_t o = 0; o < own.outer; ++o) {
      for (int64_t r = 0; r < rows * own.middle; ++r) {
        const int64_t to = (o * rows * own.middle + r) * own.second + s0;
        const int64_t from = ((o * own.first + f0) * own.middle + r) * columns;
        bytes += copy_elements(bytes_per_element(own.type), destination_of(own), to * own.inner, source_of(*calls[j]),
                               from * own.inner, columns * own.inner);
      }
    }
  }
  return bytes;
}

template <typename T>
int64_t transfer_as(std::span<const CollectiveCall* const> calls, int member) {
  const CollectiveCall& own = *calls[static_cast<size_t>(member)];
  switch (own.kind) {
    case CollectiveKind::all_reduce:
      return all_reduce<T>(calls, member);
    case CollectiveKind::reduce_scatter:
      return reduce_scatter<T>(calls, member);
    case CollectiveKind::all_gather:
      return all_gather(calls, member);
    case CollectiveKind::halo_exchange:
      return halo_exchange(calls, member);
    case CollectiveKind::all_to_all:
      return own.from_first ? all_to_all_from_first(calls, static_cast<size_t>(member))
                            : all_to_all_from_second(calls, static_cast<size_t>(member));
    case CollectiveKind::broadcast:
      return copy_elements(bytes_per_element(own.type), destination_of(own), 0,
                           source_of(*calls[static_cast<size_t>(own.root)]), 0, own.count);
    case CollectiveKind::send:
      return own.destination == nullptr ? 0
                                        : copy_elements(bytes_per_element(own.type), destination_of(own), 0,
                                                        source_of(*calls[calls[0]->source ? 0 : 1]), 0, own.count);
  }
  return 0;
}

[[noreturn]] void reject(const CollectiveCall& call, const std::string& message) {
  throw UserError({{}, std::string(name(call.kind)), message, "", text(call), ""}, ExitCode::failure);
}

void check_table(const CollectiveCall& call, std::span<const int64_t> bounds, int members, int64_t extent) {
  if (bounds.size() != static_cast<size_t>(members) + 1) reject(call, "the boundary table does not fit the group");
  if (bounds.front() != 0 || (extent >= 0 && bounds.back() != extent) || !std::ranges::is_sorted(bounds)) {
    reject(call, "the boundary table does not cut the dimension");
  }
}

void check_hosts(const CollectiveCall& call, int members) {
  if (call.kind == CollectiveKind::send || call.kind == CollectiveKind::halo_exchange)
    reject(call, "it has no hierarchical form");
  if (call.hosts.size() != static_cast<size_t>(members)) reject(call, "the hosts do not fit the group");
  int64_t before = -1;
  for (const int64_t host : call.hosts) {
    if (host != before && host != before + 1) reject(call, "the hosts are not numbered in coordinate order");
    before = host;
  }
  if (call.hosts.front() != 0) reject(call, "the hosts are not numbered in coordinate order");
  const bool reduces = call.kind == CollectiveKind::all_reduce || call.kind == CollectiveKind::reduce_scatter;
  if (reduces && call.reduce == Reduction::average) reject(call, "averages of hosts do not give that of all");
}

}  // namespace

int64_t transfer(std::span<const CollectiveCall* const> calls, int member) {
  switch (calls[0]->type) {
    case ElementType::f32:
      return transfer_as<float>(calls, member);
    case ElementType::i32:
      return transfer_as<int32_t>(calls, member);
    case ElementType::bf16:
      return transfer_as<Bf16>(calls, member);
    case ElementType::fp16:
      return transfer_as<Fp16>(calls, member);
  }
  return 0;
}

void check_call(const CollectiveCall& call, int members) {
  if (call.type > ElementType::fp16) reject(call, "unknown element type");
  if (call.reduce > Reduction::product) reject(call, "unknown reduction");
  if (std::min({call.count, call.outer, call.first, call.middle, call.second, call.inner, call.before, call.after}) < 0)
    reject(call, "negative size");
  if (!call.hosts.empty()) check_hosts(call, members);
  switch (call.kind) {
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::halo_exchange:
      check_table(call, call.bounds, members, -1);
      return;
    case CollectiveKind::all_to_all:
      check_table(call, call.bounds, members, call.from_first ? call.first : call.second);
      check_table(call, call.bounds_to, members, call.from_first ? call.second : call.first);
      return;
    case CollectiveKind::broadcast:
      if (call.root < 0 || call.root >= members) reject(call, "the root is not in the group");
      return;
    case CollectiveKind::send:
      if (std::min(call.root, call.to) < 0 || std::max(call.root, call.to) >= members || call.root == call.to)
        reject(call, "sender and receiver are not two ranks of the group");
      return;
    case CollectiveKind::all_reduce:
      return;
  }
}

}  // namespace hetsynth
