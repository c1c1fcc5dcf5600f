#include "dsl/ops/support/row_blocks.h"

#include <fmt/format.h>

#include <algorithm>

#include "dsl/ops/concat.h"
#include "dsl/ops/constant.h"
#include "dsl/ops/slice.h"
#include "dsl/ops/support/shape_rules.h"

namespace hetsynth {
namespace {

/// Rows of the neighbours that windows of a block reach into.
struct Boundary {
  int64_t above = 0, below = 0;
};

Boundary boundary_of(const WindowCall& call, int64_t blocks, Tensor image, const std::vector<Tensor>& arguments) {
  const int64_t stride = call.stride.height, padding = call.padding.height, rows = image.size(2);
  const int64_t reach = call.dilation.height * (call.window.height - 1) + 1, height = blocks * rows;
  auto fail = [&](std::string message, std::string expected, std::string found, std::string mend) {
    fail_call({.tag = call.tag,
               .message = std::move(message),
               .expected = std::move(expected),
               .found = std::move(found),
               .mend = std::move(mend)},
              arguments);
  };
  if (rows % stride != 0)
    fail("blocks of rows are no whole strides", fmt::format("a multiple of {} rows in each block", stride),
         fmt::format("{} rows", rows), "use fewer blocks, or pad the image");
  const int64_t results = (height + 2 * padding - reach) / stride + 1;
  if (results != height / stride)
    fail("the rows of the result do not follow the blocks", fmt::format("{} rows: height / stride", height / stride),
         fmt::format("{}", results), "set the padding to half of the window");
  const Boundary out{padding, std::max<int64_t>(0, reach - padding - stride)};
  if (std::max(out.above, out.below) > rows)
    fail("windows reach beyond the neighbouring block of rows",
         fmt::format("blocks of {} rows or more", std::max(out.above, out.below)), fmt::format("{} rows", rows),
         "use fewer blocks");
  return out;
}

/// Rows [from, to) of every block, as the block `distance` further on sees them; `outside` where there is none.
Tensor rows_of_neighbour(Tensor image, int64_t blocks, int64_t from, int64_t to, int distance, double outside) {
  const int64_t all = image.size(0), per_block = all / blocks;
  Tensor rows = slice(image, 2, from, to);
  Tensor none = full({per_block, image.size(1), to - from, image.size(3)}, outside);
  if (distance > 0) return concat({none, slice(rows, 0, 0, all - per_block)}, 0);
  return concat({slice(rows, 0, per_block, all), none}, 0);
}

Tensor with_boundary(Tensor image, int64_t blocks, const Boundary& boundary, double outside) {
  const int64_t rows = image.size(2);
  std::vector<Tensor> parts;
  if (boundary.above > 0) parts.push_back(rows_of_neighbour(image, blocks, rows - boundary.above, rows, 1, outside));
  parts.push_back(image);
  if (boundary.below > 0) parts.push_back(rows_of_neighbour(image, blocks, 0, boundary.below, -1, outside));
  return parts.size() == 1 ? image : concat(parts, 2);
}

bool positive(const WindowCall& call) {
  return std::min({call.window.height, call.stride.height, call.dilation.height}) >= 1 && call.padding.height >= 0;
}

}  // namespace

void require_row_blocks(const char* tag, Tensor image, int64_t blocks, const std::vector<Tensor>& arguments) {
  if (blocks >= 1 && image.size(0) % blocks == 0) return;
  fail_call({.tag = tag,
             .message = fmt::format("the image is not in {} blocks of rows", blocks),
             .expected = "a batch that is a multiple of row_blocks, which is at least 1",
             .found = fmt::format("a batch of {}", image.size(0)),
             .mend = "make the blocks with split_rows(x, blocks), and name as many"},
            arguments);
}

Tensor over_row_blocks(const WindowCall& call, int64_t blocks, Tensor image, const std::vector<Tensor>& arguments,
                       double outside, const std::function<Tensor(Tensor, const WindowCall&)>& compute) {
  require_row_blocks(call.tag.c_str(), image, blocks, arguments);
  if (blocks == 1 || !positive(call)) return compute(image, call);  // which refuses what is not positive
  const Boundary boundary = boundary_of(call, blocks, image, arguments);
  WindowCall inside = call;
  inside.padding.height = 0;
  return compute(with_boundary(image, blocks, boundary, outside), inside);
}

}  // namespace hetsynth
