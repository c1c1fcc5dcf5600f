#include "codegen/cpu/standalone_main.h"

namespace hetsynth::codegen {

const std::string_view standalone_main =
    R"(// Runs one step of the generated programs: a thread per rank, collectives through shared memory, plain matrix products. It is here to read and
// to check the generated source; hetsynth itself runs the same source with fast products and collectives.
#include <algorithm>
#include <barrier>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include "ranks.h"

// --- matrix product -----------------------------------------------------------------------------------------------------------------

extern "C" void hetsynth_matmul(long batch, long m, long n, long k, const float* a, long a_batch, long a_row, long a_column, const float* w,
                                long w_batch, long w_row, long w_column, float* c, long c_batch, long c_row, long c_column, int accumulate) {
  for (long b = 0; b < batch; ++b)
    for (long i = 0; i < m; ++i)
      for (long j = 0; j < n; ++j) {
        float& out = c[b * c_batch + i * c_row + j * c_column];
        double sum = accumulate ? out : 0.0;
        for (long l = 0; l < k; ++l)
          sum += double(a[b * a_batch + i * a_row + l * a_column]) * w[b * w_batch + l * w_row + j * w_column];
        out = float(sum);
      }
}

// --- convolution --------------------------------------------------------------------------------------------------------------------

extern "C" void hetsynth_convolution(int computes, const long* sizes, const long* strides, float* image, float* kernel, float* result) {
  const long batch = sizes[0], groups = sizes[1], channels = sizes[2], outputs = sizes[3];
  const long *rows = sizes + 4, *columns = sizes + 10, *si = strides, *sk = strides + 4, *sr = strides + 8;
  // Visits every meeting of an image, a kernel and a result element.
  const auto each = [&](const auto& visit) {
    for (long n = 0; n < batch; ++n)
      for (long g = 0; g < groups; ++g)
        for (long o = g * outputs; o < (g + 1) * outputs; ++o)
          for (long c = 0; c < channels; ++c)
            for (long y = 0; y < rows[2]; ++y)
              for (long i = 0; i < rows[1]; ++i) {
                const long h = y * rows[3] + i * rows[4] - rows[5];
                if (h < 0 || h >= rows[0]) continue;
                for (long x = 0; x < columns[2]; ++x)
                  for (long j = 0; j < columns[1]; ++j) {
                    const long w = x * columns[3] + j * columns[4] - columns[5];
                    if (w < 0 || w >= columns[0]) continue;
                    visit(n * si[0] + (g * channels + c) * si[1] + h * si[2] + w * si[3], o * sk[0] + c * sk[1] + i * sk[2] + j * sk[3],
                          n * sr[0] + o * sr[1] + y * sr[2] + x * sr[3]);
                  }
              }
  };
  const long image_extents[] = {batch, groups * channels, rows[0], columns[0]};
  const long kernel_extents[] = {groups * outputs, channels, rows[1], columns[1]};
  const long result_extents[] = {batch, groups * outputs, rows[2], columns[2]};
  const long* extents = computes == 0 ? image_extents : computes == 1 ? kernel_extents : result_extents;
  const long* stride = strides + 4 * computes;
  float* out = computes == 0 ? image : computes == 1 ? kernel : result;
  for (long a = 0; a < extents[0]; ++a)
    for (long b = 0; b < extents[1]; ++b)
      for (long c = 0; c < extents[2]; ++c)
        for (long d = 0; d < extents[3]; ++d) out[a * stride[0] + b * stride[1] + c * stride[2] + d * stride[3]] = 0;
  if (computes == 0) each([&](long i, long k, long r) { image[i] += kernel[k] * result[r]; });
  if (computes == 1) each([&](long i, long k, long r) { kernel[k] += image[i] * result[r]; });
  if (computes == 2) each([&](long i, long k, long r) { result[r] += image[i] * kernel[k]; });
}

// The upper half of a float.
struct Bf16 {
  uint16_t bits;
  Bf16() = default;
  explicit Bf16(float x) {
    const uint32_t b = std::bit_cast<uint32_t>(x);
    bits = uint16_t(x == x ? (b + 0x7fff + (b >> 16 & 1)) >> 16 : b >> 16 | 0x40);
  }
  operator float() const { return std::bit_cast<float>(uint32_t(bits) << 16); }
};

// IEEE 754 binary16.
struct Fp16 {
  uint16_t bits;
  Fp16() = default;
  explicit Fp16(float x) {
    const float magnitude = std::fabs(x);
    uint32_t rounded = x == x ? 0x7c00 : 0x7e00;
    if (magnitude < 65520.0f) {
      const int exponent = magnitude < 0x1p-14f ? -14 : std::ilogb(magnitude);
      // As so many units, which nearbyint rounds to even.
      rounded = uint32_t(int(std::nearbyint(std::ldexp(magnitude, 10 - exponent))) + (exponent + 14) * 1024);
    }
    bits = uint16_t(rounded | (std::signbit(x) ? 0x8000 : 0));
  }
  operator float() const {
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const float magnitude = exponent == 31  ? (fraction ? NAN : INFINITY)
                            : exponent == 0 ? std::ldexp(float(fraction), -24)
                                            : std::ldexp(float(1024 + fraction), exponent - 25);
    return std::copysign(magnitude, bits >> 15 ? -1.0f : 1.0f);
  }
};

static long element_bytes(int type) { return type == 2 || type == 3 ? 2 : 4; }

template <class Half>
static void multiply(long batch, long m, long n, long k, const void* a, long a_batch, long a_row, long a_column, const void* w, long w_batch,
                     long w_row, long w_column, float* c, long c_batch, long c_row, long c_column, int accumulate) {
  const Half *left = static_cast<const Half*>(a), *right = static_cast<const Half*>(w);
  for (long b = 0; b < batch; ++b)
    for (long i = 0; i < m; ++i)
      for (long j = 0; j < n; ++j) {
        float& out = c[b * c_batch + i * c_row + j * c_column];
        double sum = accumulate ? out : 0.0;
        for (long l = 0; l < k; ++l)
          sum += double(float(left[b * a_batch + i * a_row + l * a_column])) * float(right[b * w_batch + l * w_row + j * w_column]);
        out = float(sum);
      }
}

extern "C" void hetsynth_matmul_bf16(long batch, long m, long n, long k, const void* a, long a_batch, long a_row, long a_column, const void* w,
                                     long w_batch, long w_row, long w_column, float* c, long c_batch, long c_row, long c_column,
                                     int accumulate) {
  multiply<Bf16>(batch, m, n, k, a, a_batch, a_row, a_column, w, w_batch, w_row, w_column, c, c_batch, c_row, c_column, accumulate);
}

extern "C" void hetsynth_matmul_fp16(long batch, long m, long n, long k, const void* a, long a_batch, long a_row, long a_column, const void* w,
                                     long w_batch, long w_row, long w_column, float* c, long c_batch, long c_row, long c_column,
                                     int accumulate) {
  multiply<Fp16>(batch, m, n, k, a, a_batch, a_row, a_column, w, w_batch, w_row, w_column, c, c_batch, c_row, c_column, accumulate);
}

// --- collectives --------------------------------------------------------------------------------------------------------------------

static const void* posted[rank_count];

struct Group {
  int me;                  // coordinate along the axis
  std::vector<int> ranks;  // in coordinate order
};

// Where the ranks of a group meet.
static std::barrier<>& meeting(const Group& group) {
  static std::mutex mutex;
  static std::map<std::vector<int>, std::barrier<>> meetings;
  std::lock_guard lock(mutex);
  return meetings.try_emplace(group.ranks, group.ranks.size()).first->second;
}

static Group group_of(HetsynthContext* context, int axis) {
  const int rank = int(reinterpret_cast<intptr_t>(context->communicator));
  int stride = 1;
  for (int a = axis + 1; a < axis_count; ++a) stride *= axis_sizes[a];
  Group group{rank / stride % axis_sizes[axis], {}};
  for (int i = 0; i < axis_sizes[axis]; ++i) group.ranks.push_back(rank + (i - group.me) * stride);
  return group;
}

// Here every collective is carried out where it is called.
extern "C" int hetsynth_begin(HetsynthContext*, int, int) { return 0; }
extern "C" int hetsynth_end(HetsynthContext*, int) { return 0; }

// Every rank shows its source, then fills its own destination from all of them.
template <class Fill>
static int exchange(const Group& group, const void* source, const Fill& fill) {
  posted[group.ranks[group.me]] = source;
  meeting(group).arrive_and_wait();
  std::vector<const char*> sources;
  for (int rank : group.ranks) sources.push_back(static_cast<const char*>(posted[rank]));
  fill(group.me, sources);
  meeting(group).arrive_and_wait();
  return 0;
}

template <class Fill>
static int exchange(HetsynthContext* context, int axis, const void* source, const Fill& fill) {
  return exchange(group_of(context, axis), source, fill);
}

template <class T>
static auto reduced(const std::vector<const char*>& sources, long at, int reduce) {
  auto value = +reinterpret_cast<const T*>(sources[0])[at];
  for (size_t i = 1; i < sources.size(); ++i) {
    const auto other = +reinterpret_cast<const T*>(sources[i])[at];
    if (reduce == 0 || reduce == 2) value += other;
    if (reduce == 1 && other > value) value = other;
    if (reduce == 3 && other < value) value = other;
    if (reduce == 4) value *= other;
  }
  return reduce == 2 ? value / decltype(value)(sources.size()) : value;
}

static void reduce_element(const std::vector<const char*>& sources, long from, void* destination, long to, int reduce, int type) {
  if (type == 0)
    static_cast<float*>(destination)[to] = reduced<float>(sources, from, reduce);
  else if (type == 2)
    static_cast<Bf16*>(destination)[to] = Bf16(reduced<Bf16>(sources, from, reduce));
  else if (type == 3)
    static_cast<Fp16*>(destination)[to] = Fp16(reduced<Fp16>(sources, from, reduce));
  else
    static_cast<int*>(destination)[to] = reduced<int>(sources, from, reduce);
}

// Within hosts first, then over them. Here all ranks share one memory, so that only the order of the sums tells.
static void reduce_element_by_host(const std::vector<const char*>& sources, const long* hosts, long from, void* destination, long to, int reduce,
                                   int type) {
  std::vector<int> parts;  // as many bytes as an element of any type has
  for (size_t first = 0, next = 0; first < sources.size(); first = next) {
    for (next = first + 1; next < sources.size() && hosts[next] == hosts[first];) ++next;
    parts.push_back(0);
    reduce_element({sources.begin() + long(first), sources.begin() + long(next)}, from, &parts.back(), 0, reduce, type);
  }
  std::vector<const char*> of_hosts;
  for (const int& part : parts) of_hosts.push_back(reinterpret_cast<const char*>(&part));
  reduce_element(of_hosts, 0, destination, to, reduce, type);
}

extern "C" int hetsynth_all_gather(HetsynthContext* context, int, int axis, const void* source, void* destination, long outer, long inner,
                                   const long* bounds, int type) {
  return exchange(context, axis, source, [&](int, const std::vector<const char*>& sources) {
    const long whole = bounds[sources.size()], size = element_bytes(type);
    for (size_t i = 0; i < sources.size(); ++i) {
      const long part = bounds[i + 1] - bounds[i];
      for (long o = 0; o < outer && part > 0; ++o)
        std::memcpy(static_cast<char*>(destination) + (o * whole + bounds[i]) * inner * size, sources[i] + o * part * inner * size,
                    part * inner * size);
    }
  });
}

extern "C" int hetsynth_all_reduce(HetsynthContext* context, int, int axis, const void* source, void* destination, long count, int reduce,
                                   int type) {
  return exchange(context, axis, source, [&](int, const std::vector<const char*>& sources) {
    for (long i = 0; i < count; ++i) reduce_element(sources, i, destination, i, reduce, type);
  });
}

extern "C" int hetsynth_reduce_scatter(HetsynthContext* context, int, int axis, const void* source, void* destination, long outer,
                                       long inner, const long* bounds, int reduce, int type) {
  return exchange(context, axis, source, [&](int me, const std::vector<const char*>& sources) {
    const long whole = bounds[sources.size()], part = bounds[me + 1] - bounds[me];
    for (long o = 0; o < outer; ++o)
      for (long i = 0; i < part * inner; ++i)
        reduce_element(sources, (o * whole + bounds[me]) * inner + i, destination, o * part * inner + i, reduce, type);
  });
}

extern "C" int hetsynth_hierarchical_all_gather(HetsynthContext* context, int id, int axis, const void* source, void* destination, long outer,
                                                long inner, const long* bounds, int type, const long*) {
  return hetsynth_all_gather(context, id, axis, source, destination, outer, inner, bounds, type);
}

extern "C" int hetsynth_hierarchical_all_reduce(HetsynthContext* context, int, int axis, const void* source, void* destination, long count,
                                                int reduce, int type, const long* hosts) {
  return exchange(context, axis, source, [&](int, const std::vector<const char*>& sources) {
    for (long i = 0; i < count; ++i) reduce_element_by_host(sources, hosts, i, destination, i, reduce, type);
  });
}

extern "C" int hetsynth_hierarchical_reduce_scatter(HetsynthContext* context, int, int axis, const void* source, void* destination,
                                                    long outer, long inner, const long* bounds, int reduce, int type, const long* hosts) {
  return exchange(context, axis, source, [&](int me, const std::vector<const char*>& sources) {
    const long whole = bounds[sources.size()], part = bounds[me + 1] - bounds[me];
    for (long o = 0; o < outer; ++o)
      for (long i = 0; i < part * inner; ++i)
        reduce_element_by_host(sources, hosts, (o * whole + bounds[me]) * inner + i, destination, o * part * inner + i, reduce, type);
  });
}

extern "C" int hetsynth_all_to_all(HetsynthContext* context, int, int axis, const void* source, void* destination, const long* extents,
                                   int from_first, const long* bounds_from, const long* bounds_to, int type) {
  return exchange(context, axis, source, [&](int me, const std::vector<const char*>& sources) {
    const long size = extents[4] * element_bytes(type);
    const long *first = from_first ? bounds_from : bounds_to, *second = from_first ? bounds_to : bounds_from;
    for (size_t i = 0; i < sources.size(); ++i) {
      // The block that lies in the other rank's part of the one dimension and in ours of the other.
      const size_t at_first = from_first ? i : size_t(me), at_second = from_first ? size_t(me) : i;
      const long rows = first[at_first + 1] - first[at_first], columns = second[at_second + 1] - second[at_second];
      for (long o = 0; o < extents[0]; ++o)
        for (long r = 0; r < rows; ++r)
          for (long middle = 0; middle < extents[2]; ++middle)
            for (long c = 0; c < columns; ++c) {
              const long row = first[at_first] + r, column = second[at_second] + c;
              const long from = from_first ? ((o * rows + r) * extents[2] + middle) * extents[3] + column
                                           : ((o * extents[1] + row) * extents[2] + middle) * columns + c;
              const long to = from_first ? ((o * extents[1] + row) * extents[2] + middle) * columns + c
                                         : ((o * rows + r) * extents[2] + middle) * extents[3] + column;
              std::memcpy(static_cast<char*>(destination) + to * size, sources[i] + from * size, size);
            }
    }
  });
}

extern "C" int hetsynth_halo_exchange(HetsynthContext* context, int, int axis, const void* source, void* destination, long outer, long inner,
                                      const long* bounds, long before, long after, int type) {
  return exchange(context, axis, source, [&](int me, const std::vector<const char*>& sources) {
    const long size = inner * element_bytes(type), extent = bounds[sources.size()];
    if (bounds[me] == bounds[me + 1]) return;
    // What this rank gets, and of that what lies in the part of each of the others.
    const long first = std::max(0L, bounds[me] - before), last = std::min(extent, bounds[me + 1] + after);
    for (size_t i = 0; i < sources.size(); ++i) {
      const long from = std::max(first, bounds[i]), to = std::min(last, bounds[i + 1]), part = bounds[i + 1] - bounds[i];
      for (long o = 0; o < outer && from < to && size > 0; ++o)
        std::memcpy(static_cast<char*>(destination) + (o * (last - first) + from - first) * size,
                    sources[i] + (o * part + from - bounds[i]) * size, (to - from) * size);
    }
  });
}

extern "C" int hetsynth_broadcast(HetsynthContext* context, int, int axis, const void* source, void* destination, long count, int root,
                                  int type) {
  return exchange(context, axis, source, [&](int, const std::vector<const char*>& sources) {
    if (count > 0) std::memcpy(destination, sources[root], count * element_bytes(type));
  });
}

extern "C" int hetsynth_hierarchical_all_to_all(HetsynthContext* context, int id, int axis, const void* source, void* destination,
                                                const long* extents, int from_first, const long* bounds_from, const long* bounds_to,
                                                int type, const long*) {
  return hetsynth_all_to_all(context, id, axis, source, destination, extents, from_first, bounds_from, bounds_to, type);
}

extern "C" int hetsynth_hierarchical_broadcast(HetsynthContext* context, int id, int axis, const void* source, void* destination, long count,
                                               int root, int type, const long*) {
  return hetsynth_broadcast(context, id, axis, source, destination, count, root, type);
}

// Sender and receiver meet as a group of two.
extern "C" int hetsynth_send(HetsynthContext* context, int, int axis, const void* source, long, int to, int) {
  const Group group = group_of(context, axis);
  return exchange({0, {group.ranks[group.me], group.ranks[to]}}, source, [](int, const std::vector<const char*>&) {});
}

extern "C" int hetsynth_receive(HetsynthContext* context, int, int axis, void* destination, long count, int from, int type) {
  const Group group = group_of(context, axis);
  return exchange({1, {group.ranks[from], group.ranks[group.me]}}, nullptr, [&](int, const std::vector<const char*>& sources) {
    if (count > 0) std::memcpy(destination, sources[0], count * element_bytes(type));
  });
}

// --- inputs and parameters ----------------------------------------------------------------------------------------------------------

// Uniform in [0,1), a function of the tensor's number and the global index of the element: the same however tensors are cut.
static double uniform(long number, long index) {
  uint64_t x = uint64_t(number) * 0x9E3779B97F4A7C15ull + uint64_t(index) + 1;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return double((x ^ (x >> 31)) >> 11) * 0x1p-53;
}

static double start_value(const Leaf& leaf, long index) {
  const double u = uniform(leaf.number, index), v = uniform(leaf.number + 1000000, index);
  switch (leaf.start) {
    case 0:
      return std::floor(u * leaf.value);
    case 1:
      return leaf.value;
    case 2:
      return leaf.value * std::sqrt(-2 * std::log(1 - u)) * std::cos(6.283185307179586 * v);
    default:
      return leaf.value * (2 * u - 1);
  }
}

static void start(const Leaf& leaf, char* arena) {
  long index[most_dims], count = 1;
  for (int d = 0; d < leaf.dims; ++d) {
    index[d] = leaf.lo[d];
    count *= leaf.hi[d] - leaf.lo[d];
  }
  for (long i = 0; i < count; ++i) {
    long global = 0;
    for (int d = 0; d < leaf.dims; ++d) global = global * leaf.shape[d] + index[d];
    const double value = start_value(leaf, global);
    if (leaf.integer)
      reinterpret_cast<int*>(arena + leaf.offset)[i] = int(value);
    else
      reinterpret_cast<float*>(arena + leaf.offset)[i] = float(value);
    for (int d = leaf.dims - 1; d >= 0 && ++index[d] == leaf.hi[d]; --d) index[d] = leaf.lo[d];
  }
}

int main() {
  std::vector<std::thread> threads;
  for (long rank = 0; rank < rank_count; ++rank)
    threads.emplace_back([rank] {
      char* const arena = static_cast<char*>(::operator new(arena_bytes[rank] + 64, std::align_val_t(64)));
      for (int i = 0; i < leaf_counts[rank]; ++i) start(leaves[rank][i], arena);
      HetsynthContext context{arena, 0, 1, reinterpret_cast<void*>(rank), nullptr, nullptr};
      const int result = steps[rank](&context);
      if (rank == 0 && result == 0 && loss_offsets[0] >= 0)
        std::printf("loss %.6f\n", double(*reinterpret_cast<float*>(arena + loss_offsets[0])));
      ::operator delete(arena, std::align_val_t(64));
    });
  for (std::thread& thread : threads) thread.join();
}
)";

}  // namespace hetsynth::codegen
