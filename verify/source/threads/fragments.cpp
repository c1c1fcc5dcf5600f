// What the prelude's functions do that move several numbers at once, and those of tensor cores: which lane of a warp
// has which elements of a matrix.
#include <fmt/format.h>

#include "verify/source/meaning/meaning.h"
#include "verify/source/threads/threads.h"

namespace hetsynth::source {
namespace {

/// Of mma.m16n8k16 (PTX ISA, "Matrix fragments for mma.m16n8k16"): element i of a fragment of lane 4 q + p.
struct At {
  int row, column;
};
At in_left(int lane, int i) { return {lane / 4 + i / 2 % 2 * 8, lane % 4 * 2 + i % 2 + i / 4 * 8}; }
/// Of two right operands side by side.
At in_right(int lane, int i) { return {lane % 4 * 2 + i % 2 + i / 2 % 2 * 8, lane / 4 + i / 4 * 8}; }
At in_sum(int lane, int i) { return {lane / 4 + i / 2 * 8, lane % 4 * 2 + i % 2}; }

constexpr int depth = 16, left_elements = 8, right_elements = 4, sum_elements = 4;
/// Elements that an access of 16 bytes moves.
constexpr int64_t elements_of_access = 8;

}  // namespace

/// How many numbers a function copies; 0: it is another one.
int ThreadBlock::moved_by(const Expression& call) {
  if (call.args.size() != 2) return 0;
  if (call.name == "load4" || call.name == "store4") return 4;
  if (call.name == "copy8") return int(elements_of_access);
  return call.name == "round2" ? 2 : 0;
}

void ThreadBlock::move(const Expression& e, Lanes lanes) {
  const int many = moved_by(e);
  const bool rounds = e.name == "round2";
  const ExprKind kind = e.args[0].type == Type::fp16s ? ExprKind::round_fp16 : ExprKind::round_bf16;
  const Place to = place(e.args[0], lanes);
  if (!rounds) expect_aligned(to, e.args[0].type, many, lanes, e.line);
  if (slice_ && to.parameter >= 0) {
    for (int v = 0; v < many; ++v) store_at(to, e.args[0].type, v, lanes, nullptr, e.line);
    return;
  }
  const Place from = place(e.args[1], lanes);
  if (!rounds) expect_aligned(from, e.args[1].type, many, lanes, e.line);
  double* value = reals(lanes.count);
  for (int v = 0; v < many; ++v) {
    load_at(from, e.args[1].type, v, lanes, value, e.line);
    if (rounds && outside_.rounds())
      for (int i = 0; i < lanes.count; ++i) value[i] = number(kind, value[i], 0);
    store_at(to, e.args[0].type, v, lanes, value, e.line);
  }
}

void ThreadBlock::expect_warps(Lanes lanes, int line) const {
  for (int i = 0; i < lanes.count; ++i)
    if (lanes.count % 32 != 0 || lanes.thread[i] != lanes.thread[i / 32 * 32] + i % 32 ||
        lanes.thread[i] % 32 != i % 32)
      throw Misstep("threads of the warp do not all come to where they meet", line);
}

/// A fragment from a tile in shared memory.
void ThreadBlock::load_fragment(const Expression& e, Lanes lanes) {
  expect_warps(lanes, e.line);
  const Place to = place(e.args[0], lanes), from = place(e.args[1], lanes);
  if (from.array < 0 || !arrays_[size_t(from.array)].shared) throw NotFollowed("a tile elsewhere", e.line);
  int64_t* stride = integers(lanes.count);
  integer(e.args[2], lanes, stride);
  for (int i = 0; i < lanes.count; ++i)
    if (from.offset[i] % elements_of_access != 0 || stride[i] % elements_of_access != 0)
      throw Misstep("a row of a tile begins at no multiple of 16 bytes", e.line);
  Array& tile = arrays_[size_t(from.array)];
  double* value = reals(lanes.count);
  for (int v = 0; v < left_elements; ++v) {
    count(lanes.count, e.line);
    for (int i = 0; i < lanes.count; ++i) {
      const int lane = lanes.thread[i] % 32;
      const At at = e.name == "load_left" ? in_left(lane, v) : in_right(lane, v);
      const int64_t row = e.name == "load_right" ? at.column : at.row,
                    column = e.name == "load_right" ? at.row : at.column;
      value[i] = cell(tile, from.offset[i] + row * stride[i] + column, lanes.thread[i], false, e.line);
    }
    store_at(to, e.args[0].type, v, lanes, value, e.line);
  }
}

void ThreadBlock::multiply_fragments(const Expression& e, Lanes lanes) {
  expect_warps(lanes, e.line);
  count(int64_t(lanes.count) * sum_elements * depth, e.line);
  const Place sum = place(e.args[0], lanes), left = place(e.args[1], lanes), right = place(e.args[2], lanes);
  std::vector<double> a(size_t(lanes.count) * depth), b(size_t(lanes.count) * depth / 4);  // by warp, row, column
  double* value = reals(lanes.count);
  const auto gather = [&](const Place& from, const Expression& pointer, int elements, auto&& take) {
    for (int v = 0; v < elements; ++v) {
      load_at(from, pointer.type, v, lanes, value, e.line);
      for (int i = 0; i < lanes.count; ++i) take(i / 32, lanes.thread[i] % 32, v, value[i]);
    }
  };
  gather(left, e.args[1], left_elements, [&](int warp, int lane, int v, double x) {
    a[size_t((warp * 16 + in_left(lane, v).row) * depth + in_left(lane, v).column)] = x;
  });
  gather(right, e.args[2], right_elements, [&](int warp, int lane, int v, double x) {
    b[size_t((warp * 8 + in_right(lane, v).column) * depth + in_right(lane, v).row)] = x;
  });
  for (int v = 0; v < sum_elements; ++v) {
    load_at(sum, e.args[0].type, v, lanes, value, e.line);
    for (int i = 0; i < lanes.count; ++i) {
      const At at = in_sum(lanes.thread[i] % 32, v);
      const double *x = &a[size_t((i / 32 * 16 + at.row) * depth)], *y = &b[size_t((i / 32 * 8 + at.column) * depth)];
      for (int k = 0; k < depth; ++k) value[i] += x[k] * y[k];
    }
    store_at(sum, e.args[0].type, v, lanes, value, e.line);
  }
}

}  // namespace hetsynth::source
