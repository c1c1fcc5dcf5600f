#include "tests/codegen/views.h"

#include <rapidcheck.h>

#include <functional>
#include <string>
#include <vector>

namespace hetsynth::test {
namespace {

/// A tensor of this shape, seen through one to four views.
Tensor seen(const Dims& shape, const std::string& name) {
  // Backwards from the shape to that of the parameter: each view is undone before it is applied.
  std::vector<std::function<Tensor(Tensor)>> views;
  Dims before = shape;
  const int count = *rc::gen::inRange(1, 5);
  for (int i = 0; i < count; ++i) {
    const int rank = int(before.size()), dim = *rc::gen::inRange(0, rank), other = *rc::gen::inRange(0, rank);
    const int64_t extent = before[size_t(dim)];
    const Dims after = before;
    switch (*rc::gen::inRange(0, 5)) {
      case 0:
        views.push_back([=](Tensor x) { return flip(x, dim); });
        break;
      case 1: {
        std::vector<int> order;
        for (int d = 0; d < rank; ++d) order.push_back(d == dim ? other : d == other ? dim : d);
        std::swap(before[size_t(dim)], before[size_t(other)]);
        views.push_back([=](Tensor x) { return transpose(x, order); });
        break;
      }
      case 2: {
        const int64_t start = *rc::gen::inRange<int64_t>(0, 3);
        before[size_t(dim)] = extent + start + 1;
        views.push_back([=](Tensor x) { return slice(x, dim, start, start + extent); });
        break;
      }
      case 3:
        before[size_t(dim)] = 1;
        views.push_back([=](Tensor x) { return broadcast(x, after); });
        break;
      default:
        if (dim + 1 >= rank) break;
        before[size_t(dim)] *= before[size_t(dim) + 1];
        before.erase(before.begin() + dim + 1);
        views.push_back([=](Tensor x) { return reshape(x, after); });
    }
  }
  Tensor x = parameter(name, before, zeros());
  for (size_t i = views.size(); i-- > 0;) x = views[i](x);
  return x;
}

}  // namespace

Tensor computed_of_views(int which) {
  switch (which) {
    case 0:
      return matmul(seen({5, 6}, "x"), seen({6, 7}, "w"));
    case 1:
      return matmul(seen({3, 5, 6}, "x"), seen({3, 6, 7}, "w"));
    case 2:
      return matmul(seen({3, 5, 6}, "x"), seen({6, 7}, "w"));
    case 3:
      return einsum("btc,chd->bthd", seen({2, 5, 6}, "x"), seen({6, 4, 5}, "w"));
    case 4:
      return einsum("abc,adc->bd", seen({2, 5, 6}, "x"), seen({2, 7, 6}, "w"));
    case 5:
      return attention(seen({2, 2, 6, 4}, "q"), seen({2, 2, 6, 4}, "k"), seen({2, 2, 6, 4}, "v"));
    case 6:
      return conv2d(seen({2, 3, 6, 7}, "x"), seen({4, 3, 3, 3}, "w"), {.padding = 1});
    case 7: {
      const Tensor w = seen({6, 6}, "w");
      return scan(seen({5, 4, 6}, "x"), {parameter("start", {5, 6}, zeros())},
                  [&](const std::vector<Tensor>& state, Tensor x) {
                    const Tensor next = tanh(matmul(x, w) + state[0]);
                    return ScanStep{{next}, next};
                  })
          .outputs;
    }
    case 8:
      return lstm(seen({5, 4, 6}, "x"), {seen({6, 4, 5}, "in"), seen({5, 4, 5}, "again"), seen({4, 5}, "bias")});
    default:
      return gru(flip(parameter("x", {5, 4, 6}, zeros()), 1),
                 {seen({6, 3, 5}, "in"), seen({5, 3, 5}, "again"), seen({3, 5}, "bias"), seen({5}, "candidate")});
  }
}

/// What is made of a tensor by one to four views, and possibly by a sum over one of the dimensions behind them.
Tensor viewed(Tensor x) {
  const int count = *rc::gen::inRange(1, 5);
  for (int i = 0; i < count; ++i) {
    const Dims shape = x.shape();
    const int rank = int(shape.size()), dim = *rc::gen::inRange(0, rank), other = *rc::gen::inRange(0, rank);
    const int64_t extent = shape[size_t(dim)];
    Dims after = shape;
    switch (*rc::gen::inRange(0, 5)) {
      case 0:
        x = flip(x, dim);
        break;
      case 1: {
        std::vector<int> order;
        for (int d = 0; d < rank; ++d) order.push_back(d == dim ? other : d == other ? dim : d);
        x = transpose(x, order);
        break;
      }
      case 2: {
        const int64_t start = *rc::gen::inRange<int64_t>(0, extent);
        x = slice(x, dim, start, *rc::gen::inRange<int64_t>(start + 1, extent + 1));
        break;
      }
      case 3:  // a dimension in two
        if (extent % 2) break;
        after[size_t(dim)] = 2;
        after.insert(after.begin() + dim + 1, extent / 2);
        x = reshape(x, after);
        break;
      default:  // two dimensions in one
        if (dim + 1 >= rank) break;
        after[size_t(dim)] *= after[size_t(dim) + 1];
        after.erase(after.begin() + dim + 1);
        x = reshape(x, after);
    }
  }
  const int summed = *rc::gen::inRange(-1, int(x.shape().size()));
  return summed < 0 ? x : mean(x, {summed});
}

}  // namespace hetsynth::test
