#include "dsl/ops/windows.h"

#include <fmt/format.h>

#include <cmath>

#include "dsl/ir/trace.h"
#include "dsl/ops/reshape.h"
#include "dsl/ops/support/shape_rules.h"
#include "dsl/ops/transpose.h"

namespace hetsynth {
namespace {

void require_rank(const char* tag, Tensor x, int rank, const char* meaning) {
  if (x.rank() != rank)
    fail_call({.tag = tag, .message = "the tensor has another rank", .expected = meaning, .found = text(x.shape())},
              {x});
}

}  // namespace

Tensor window_partition(Operand x, int64_t size) {
  CallScope scope(x.where);
  Tensor in = as_tensor(x);
  require_rank("window_partition", in, 4, "[batch, height, width, channels]");
  int64_t batch = in.size(0), height = in.size(1), width = in.size(2), channels = in.size(3);
  if (size < 1 || height % size != 0 || width % size != 0)
    fail_call({.tag = "window_partition",
               .message = fmt::format("windows of {0} x {0} do not cover {1} x {2}", size, height, width),
               .expected = "a size that divides height and width",
               .found = std::to_string(size),
               .mend = "pad the image first"},
              {in});
  Tensor split = reshape(in, {batch, height / size, size, width / size, size, channels});
  return reshape(transpose(split, {0, 1, 3, 2, 4, 5}),
                 {batch * (height / size) * (width / size), size * size, channels});
}

Tensor window_reverse(Operand windows, int64_t height, int64_t width) {
  CallScope scope(windows.where);
  Tensor in = as_tensor(windows);
  require_rank("window_reverse", in, 3, "[batch * windows, size * size, channels]");
  int64_t size = std::llround(std::sqrt(double(in.size(1)))), channels = in.size(2);
  bool fits = size * size == in.size(1) && height >= size && width >= size && height % size == 0 && width % size == 0;
  int64_t per_image = fits ? (height / size) * (width / size) : 1;
  if (!fits || in.size(0) % per_image != 0)
    fail_call({.tag = "window_reverse",
               .message = fmt::format("{} windows of {} elements are no images of {} x {}", in.size(0), in.size(1),
                                      height, width),
               .expected = "square windows, as many as cover whole images",
               .found = text(in.shape())},
              {in});
  Tensor split = reshape(in, {in.size(0) / per_image, height / size, width / size, size, size, channels});
  return reshape(transpose(split, {0, 1, 3, 2, 4, 5}), {in.size(0) / per_image, height, width, channels});
}

OperatorInfo windows_info() { return {"windows", "Square windows of an image.", {}}; }

}  // namespace hetsynth
