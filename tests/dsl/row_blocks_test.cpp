// Images in blocks of rows: the same values and gradients as without blocks, and what is refused.
#include <cmath>

#include "dsl/transform/differentiate.h"
#include "tests/dsl/evaluation.h"

namespace hetsynth {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Values waves(int64_t count) {
  Values out;
  for (int64_t i = 0; i < count; ++i) out.push_back(std::sin(double(i * i)) - 0.5);
  return out;
}

/// An image [2, 3, height, 7] and a kernel for it.
struct Inputs {
  explicit Inputs(int64_t height, int64_t window)
      : image(value.leaf({2, 3, height, 7}, waves(2 * 3 * height * 7))),
        kernel(value.leaf({4, 3, window, 3}, waves(4 * 3 * window * 3))) {}
  Evaluation value;
  Tensor image, kernel;
};

void expect_same(const Evaluation& value, Tensor whole, Tensor blocks, const std::vector<Tensor>& by) {
  ASSERT_EQ(blocks.shape(), whole.shape());
  EXPECT_THAT(value(blocks), ::testing::Pointwise(::testing::DoubleNear(exact), value(whole)));
  const auto weighted = [](Tensor t) { return sum(t * t * t); };  // every element has another gradient
  const std::vector<Tensor> expected = gradients(weighted(whole), by), found = gradients(weighted(blocks), by);
  for (size_t j = 0; j < by.size(); ++j)
    EXPECT_THAT(value(found[j]), ::testing::Pointwise(::testing::DoubleNear(1e-9), value(expected[j]))) << j;
}

TEST(RowBlocks, ConvolutionsAreTheSame) {
  struct Case {
    int64_t height, window, stride, padding, dilation, blocks;
  };
  for (const Case& c :
       {Case{12, 3, 1, 1, 1, 4}, Case{12, 3, 2, 1, 1, 3}, Case{12, 7, 2, 3, 1, 3}, Case{12, 1, 2, 0, 1, 6},
        Case{12, 3, 1, 2, 2, 2}, Case{15, 5, 1, 2, 1, 5}, Case{8, 2, 2, 0, 1, 4}}) {
    SCOPED_TRACE(::testing::Message() << "window " << c.window << " stride " << c.stride);
    Inputs in(c.height, c.window);
    Conv2d options{.stride = c.stride, .padding = {c.padding, 1}, .dilation = {c.dilation, 1}};
    Tensor whole = conv2d(in.image, in.kernel, options);
    options.row_blocks = c.blocks;
    Tensor blocks = conv2d(split_rows(in.image, c.blocks), in.kernel, options);
    expect_same(in.value, whole, join_rows(blocks, c.blocks), {in.image, in.kernel});
  }
}

TEST(RowBlocks, PoolsAreTheSame) {
  Inputs in(24, 1);
  for (int64_t stride : {1, 2, 3})
    for (int64_t blocks : {2, 4}) {
      Pool2d options{.stride = stride, .padding = 1}, blocked = options;
      blocked.row_blocks = blocks;
      Tensor split = split_rows(in.image, blocks);
      expect_same(in.value, max_pool2d(in.image, 3, options), join_rows(max_pool2d(split, 3, blocked), blocks),
                  {in.image});
      expect_same(in.value, avg_pool2d(in.image, 3, options), join_rows(avg_pool2d(split, 3, blocked), blocks),
                  {in.image});
    }
  EXPECT_LT(in.value(max_pool2d(split_rows(in.image - 5, 3), 3, {.stride = 1, .padding = 1, .row_blocks = 3}))[0], 0)
      << "beyond the image nothing counts";
}

TEST(RowBlocks, OnlyBoundaryRowsAreReadFromNeighbours) {
  Inputs in(12, 3);
  conv2d(split_rows(in.image, 4), in.kernel, {.padding = 1, .row_blocks = 4});
  int64_t moved = 0;
  for (const Node& node : Trace::current().program.nodes) {
    if (node.tag() != "slice" || node.type.shape[0] == 4 * 2) continue;  // those that leave a block out
    EXPECT_EQ(node.type.shape, (Shape{3 * 2, 3, 1, 7}));
    ++moved;
  }
  EXPECT_EQ(moved, 2) << "one row to the block above and one to the block below";
}

TEST(RowBlocks, KeepTheOrderOfRows) {
  Evaluation value;
  Tensor x = value.counting({2, 1, 4, 1});
  EXPECT_THAT(value(split_rows(x, 2)), ::testing::ElementsAre(0, 1, 4, 5, 2, 3, 6, 7));
  EXPECT_THAT(value(join_rows(split_rows(x, 4), 4)), ::testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST(RowBlocks, RefusesBlocksThatDoNotFit) {
  Inputs in(12, 5);
  const auto conv = [&](int64_t blocks, Conv2d options) {
    options.row_blocks = blocks;
    return error_of([&] { conv2d(split_rows(in.image, blocks), in.kernel, options); });
  };
  EXPECT_THAT(conv(5, {}), AllOf(HasSubstr("[split_rows] 5 blocks do not divide 12 rows"),
                                 HasSubstr("a divisor of the height"), HasSubstr("pad the image first")));
  EXPECT_THAT(error_of([&] { conv2d(in.image, in.kernel, {.row_blocks = 3}); }),
              AllOf(HasSubstr("[conv2d] the image is not in 3 blocks of rows"), HasSubstr("found:    a batch of 2"),
                    HasSubstr("split_rows(x, blocks)"), HasSubstr("row_blocks_test.cpp")));
  EXPECT_THAT(error_of([&] { conv2d(in.image, in.kernel, {.row_blocks = 0}); }), HasSubstr("at least 1"));
  EXPECT_THAT(error_of([&] { join_rows(in.image, 3); }), HasSubstr("[join_rows] the image is not in 3 blocks of rows"));
  EXPECT_THAT(conv(3, {.stride = {0, 1}}), HasSubstr("[conv2d] stride is out of range"));
  EXPECT_THAT(conv(4, {.stride = 2, .padding = 2}),
              AllOf(HasSubstr("[conv2d] blocks of rows are no whole strides"),
                    HasSubstr("a multiple of 2 rows in each block"), HasSubstr("found:    3 rows")));
  EXPECT_THAT(conv(3, {}),
              AllOf(HasSubstr("the rows of the result do not follow the blocks"), HasSubstr("12 rows: height / stride"),
                    HasSubstr("found:    8"), HasSubstr("set the padding to half of the window")));
  EXPECT_THAT(conv(12, {.padding = 2}), AllOf(HasSubstr("windows reach beyond the neighbouring block of rows"),
                                              HasSubstr("blocks of 2 rows or more"), HasSubstr("found:    1 rows")));
}

}  // namespace
}  // namespace hetsynth
