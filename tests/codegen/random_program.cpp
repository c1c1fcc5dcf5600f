#include "tests/codegen/random_program.h"

#include <fmt/format.h>
#include <rapidcheck.h>

#include "dsl/ir/trace.h"
#include "hetsynth/hetsynth.h"

namespace hetsynth::test {

Program traced(const std::function<void()>& builder) {
  Trace trace("test.cpp");
  run_builder(trace, builder);
  for (size_t i = 0; i < trace.program.nodes.size(); ++i) {
    Node& node = trace.program.nodes[i];
    node.name = fmt::format("{}{}", node.name.empty() ? std::string(node.tag()) : node.name, i);
  }
  return trace.program;
}

Program random_program() {
  return traced([] {
    Tensor full = parameter("full", {2, 3, 5}, zeros()), other = parameter("other", {2, 3, 5}, zeros());
    Tensor row = parameter("row", {2, 3, 1}, zeros()), column = parameter("column", {5}, zeros());
    std::vector<Tensor> pool = {full, other, row, column};
    auto pick = [&] { return pool[*rc::gen::inRange<size_t>(0, pool.size())]; };
    int count = *rc::gen::inRange(3, 12);
    for (int i = 0; i < count; ++i) {
      Tensor x = pick();
      bool whole = x.rank() == 3 && x.size(0) == 2 && x.size(1) == 3 && x.size(2) == 5;
      switch (*rc::gen::inRange(0, 10)) {
        case 0:
          pool.push_back(tanh(x) + pick());
          break;
        case 1:
          pool.push_back(x * pick());
          break;
        case 2:
          pool.push_back(exp(tanh(x)));
          break;
        case 3:
          if (x.rank() == 3) pool.push_back(sum(x, -1, true));
          break;
        case 4:
          if (x.rank() == 3) pool.push_back(max(x, -1, true));
          break;
        case 5:
          if (whole) pool.push_back(sum(x, {0, 1}));
          break;
        case 6:
          if (whole) pool.push_back(softmax(x, *rc::gen::inRange(0, 3)));
          break;
        case 7:
          if (whole) pool.push_back(transpose(reshape(transpose(x, {1, 0, 2}), {3, 10}), {1, 0}) * 0.5);
          if (whole) pool.back() = reshape(pool.back(), {2, 5, 3}), pool.back() = transpose(pool.back(), {0, 2, 1});
          break;
        case 8:
          if (whole) pool.push_back(concat({slice(x, 2, 1, 5), slice(pool[1], 2, 0, 1)}, 2));
          break;
        default:
          pool.push_back(tanh(sum(x)));
          break;
      }
    }
    for (size_t i = 4; i < pool.size(); ++i)
      if (i + 1 == pool.size() || *rc::gen::arbitrary<bool>()) output(fmt::format("out{}", i).c_str(), pool[i]);
  });
}

}  // namespace hetsynth::test
