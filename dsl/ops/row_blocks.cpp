#include "dsl/ops/row_blocks.h"

#include <fmt/format.h>

#include "dsl/ops/reshape.h"
#include "dsl/ops/support/row_blocks.h"
#include "dsl/ops/support/shape_rules.h"
#include "dsl/ops/transpose.h"

namespace hetsynth {

Tensor split_rows(Operand x, int64_t blocks) {
  CallScope scope(x.where);
  Tensor in = as_tensor(x);
  require_rank("split_rows", 0, {in}, 4, "an image [batch,channels,height,width]");
  const int64_t batch = in.size(0), channels = in.size(1), height = in.size(2), width = in.size(3);
  if (blocks < 1 || height % blocks != 0)
    fail_call({.tag = "split_rows",
               .message = fmt::format("{} blocks do not divide {} rows", blocks, height),
               .expected = "a divisor of the height",
               .found = fmt::format("{}", blocks),
               .mend = "use other blocks, or pad the image first"},
              {in});
  if (blocks == 1) return in;
  Tensor split = reshape(in, {batch, channels, blocks, height / blocks, width});
  return reshape(transpose(split, {2, 0, 1, 3, 4}), {blocks * batch, channels, height / blocks, width});
}

Tensor join_rows(Operand x, int64_t blocks) {
  CallScope scope(x.where);
  Tensor in = as_tensor(x);
  require_rank("join_rows", 0, {in}, 4, "an image in blocks [blocks * batch,channels,rows,width]");
  require_row_blocks("join_rows", in, blocks, {in});
  const int64_t batch = in.size(0) / blocks, channels = in.size(1), rows = in.size(2), width = in.size(3);
  if (blocks == 1) return in;
  Tensor split = reshape(in, {blocks, batch, channels, rows, width});
  return reshape(transpose(split, {1, 2, 0, 3, 4}), {batch, channels, blocks * rows, width});
}

OperatorInfo row_blocks_info() { return {"row_blocks", "Images in blocks of rows.", {}}; }

}  // namespace hetsynth
