// Attention through cuDNN's wrapper on doubles, against softmax and its gradient written out; and that seeded faults in
// the calls are found. cuDNN's double carries out the very graph that the real one accepts (plans_test.cpp).
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "codegen/cuda/plan/attention_workspace.h"
#include "codegen/interface/abi.h"
#include "runtime/cuda/cuda_device.h"
#include "tests/support/cuda/cuda_doubles.h"

namespace hetsynth::testing_support {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Declared as generated text does; the runtime hands their addresses out.
using Forward = decltype(&hetsynth_device_attention);
using Backward = decltype(&hetsynth_device_attention_gradient);
template <class F>
F function(const std::string& name) {
  for (const auto& [known, address] : cuda::cuda_symbols())
    if (known == name) return reinterpret_cast<F>(address);
  return nullptr;
}

uint16_t rounded(double value) {
  const auto bits = std::bit_cast<uint32_t>(float(value));
  return uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
double number(uint16_t bits) { return double(std::bit_cast<float>(uint32_t(bits) << 16)); }

struct Sizes {
  int64_t batch, heads, key_heads, queries, keys, features, value_features;
};

/// [batch, head, position, feature] in float64.
struct Values {
  int64_t batch, heads, positions, features;
  std::vector<double> x = std::vector<double>(size_t(batch * heads * positions * features));
  double& at(int64_t b, int64_t h, int64_t t, int64_t f) {
    return x[size_t(((b * heads + h) * positions + t) * features + f)];
  }
};

struct Case {
  Sizes n;
  bool causal = false;
  float scale = 0.3f;
  Values q{n.batch, n.heads, n.queries, n.features}, k{n.batch, n.key_heads, n.keys, n.features};
  Values v{n.batch, n.key_heads, n.keys, n.value_features}, dy{n.batch, n.heads, n.queries, n.value_features};
  Values o = dy, dq = q, dk = k, dv = v;

  Case(const Sizes& sizes, bool is_causal) : n(sizes), causal(is_causal) {
    std::mt19937_64 random(7);
    std::normal_distribution<double> normal;
    for (Values* values : {&q, &k, &v, &dy})
      for (double& x : values->x) x = number(rounded(normal(random)));
    define();
  }

  /// softmax(scale q k^T) v and its gradient, row by row.
  void define() {
    for (Values* result : {&o, &dq, &dk, &dv}) std::ranges::fill(result->x, 0.0);
    for (int64_t b = 0; b < n.batch; ++b)
      for (int64_t h = 0; h < n.heads; ++h)
        for (int64_t t = 0; t < n.queries; ++t) row(b, h, h / (n.heads / n.key_heads), t);
  }
  void row(int64_t b, int64_t h, int64_t g, int64_t t) {
    std::vector<double> weights, gradients;
    double total = 0, dot = 0;
    const int64_t seen = causal ? std::min(t + 1, n.keys) : n.keys;
    for (int64_t s = 0; s < seen; ++s) {
      double score = 0, gradient = 0;
      for (int64_t f = 0; f < n.features; ++f) score += q.at(b, h, t, f) * k.at(b, g, s, f);
      for (int64_t f = 0; f < n.value_features; ++f) gradient += dy.at(b, h, t, f) * v.at(b, g, s, f);
      weights.push_back(std::exp(double(scale) * score)), gradients.push_back(gradient);
      total += weights.back();
    }
    for (int64_t s = 0; s < seen; ++s) dot += (weights[size_t(s)] /= total) * gradients[size_t(s)];
    for (int64_t s = 0; s < seen; ++s) {
      const double weight = weights[size_t(s)], by_score = double(scale) * weight * (gradients[size_t(s)] - dot);
      for (int64_t f = 0; f < n.value_features; ++f) {
        o.at(b, h, t, f) += weight * v.at(b, g, s, f);
        dv.at(b, g, s, f) += weight * dy.at(b, h, t, f);
      }
      for (int64_t f = 0; f < n.features; ++f) {
        dq.at(b, h, t, f) += by_score * k.at(b, g, s, f);
        dk.at(b, g, s, f) += by_score * q.at(b, h, t, f);
      }
    }
  }
};

/// The arena: tensors as [batch, position, head, feature], at multiples of 256 bytes.
struct Arena {
  std::vector<int64_t> sizes, strides;
  int64_t q, k, v, o, dy, dq, dk, dv, statistics, workspace, workspace_bytes, bytes = 0;

  explicit Arena(const Case& c)
      : sizes{c.n.batch, c.n.heads, c.n.key_heads, c.n.queries, c.n.keys, c.n.features, c.n.value_features} {
    const auto place = [this](int64_t count) {
      const int64_t at = bytes;
      bytes += (count + 255) / 256 * 256;
      return at;
    };
    for (const Values* x : {&c.q, &c.k, &c.v, &c.o, &c.dy, &c.dq, &c.dk, &c.dv}) {
      const int64_t tensor[] = {x->positions * x->heads * x->features, x->features, x->heads * x->features};
      strides.insert(strides.end(), std::begin(tensor), std::end(tensor));
    }
    int64_t* const places[] = {&q, &k, &v, &o, &dy, &dq, &dk, &dv};
    const Values* const values[] = {&c.q, &c.k, &c.v, &c.o, &c.dy, &c.dq, &c.dk, &c.dv};
    for (size_t i = 0; i < 8; ++i) *places[i] = place(2 * int64_t(values[i]->x.size()));
    statistics = place(4 * c.n.batch * c.n.heads * c.n.queries);
    workspace_bytes = codegen::cuda::attention_workspace_bytes(
        {c.n.batch, c.n.heads, c.n.key_heads, c.n.queries, c.n.keys, c.n.features, c.n.value_features}, true);
    workspace = place(workspace_bytes);
  }
};

/// A step of one attention and its gradient on a GPU of doubles.
struct Executed {
  using Steps = std::function<void(HetsynthContext*, const Arena&, int&)>;
  std::string problem;
  std::vector<std::byte> memory;

  Executed(Case& c, const Arena& arena, MachineOptions options = {}, const Steps& other = {}, int times = 3) {
    CudaDoubles doubles(std::move(options));
    try {
      cuda::CudaRank rank;
      rank.cubin = " ";
      rank.replays = true;
      rank.step = [&](HetsynthContext* context) {
        int failed = 0;
        (other ? other : Steps(both))(context, arena, failed);
        return failed;
      };
      const std::unique_ptr<RankDevice> device = cuda::cuda_device(*doubles.backend().api, std::move(rank));
      device->allocate(arena.bytes);
      for (const auto& [values, at] : {std::pair(&c.q, arena.q), {&c.k, arena.k}, {&c.v, arena.v}, {&c.dy, arena.dy}})
        write(*device, *values, at);
      for (int i = 0; i < times; ++i) {  // issued, recorded, replayed
        HetsynthContext context{};
        context.step = i;
        device->step(context);
      }
      memory.resize(size_t(arena.bytes));
      device->read(0, memory);
    } catch (const std::exception& e) {
      problem = e.what();
    }
    if (problem.empty()) problem = doubles.left_behind();
  }

  static void both(HetsynthContext* context, const Arena& a, int& failed) {
    forward(context, a, failed);
    backward(context, a, failed);
  }
  static void forward(HetsynthContext* context, const Arena& a, int& failed, float scale = 0.3f) {
    char* const at = context->arena;
    failed |= function<Forward>("hetsynth_device_attention")(
        context, a.sizes.data(), a.strides.data(), scale, causal, at + a.q, at + a.k, at + a.v, at + a.o,
        reinterpret_cast<float*>(at + a.statistics), at + a.workspace, a.workspace_bytes);
  }
  static void backward(HetsynthContext* context, const Arena& a, int& failed) {
    char* const at = context->arena;
    failed |= function<Backward>("hetsynth_device_attention_gradient")(
        context, a.sizes.data(), a.strides.data(), 0.3f, causal, at + a.q, at + a.k, at + a.v, at + a.o,
        reinterpret_cast<float*>(at + a.statistics), at + a.dy, at + a.dq, at + a.dk, at + a.dv, at + a.workspace,
        a.workspace_bytes);
  }
  static inline int causal = 0;

  /// The largest error of an element, in multiples of the largest element.
  double error(Values& expected, int64_t at) const {
    double largest = 0, worst = 0;
    each(expected, [&](double& x, int64_t place) {
      uint16_t bits;
      std::memcpy(&bits, memory.data() + at + 2 * place, sizeof bits);
      const double difference = std::abs(number(bits) - x);
      worst = difference <= worst ? worst : difference;  // what is no number is worse
      largest = std::max(largest, std::abs(x));
    });
    return worst / largest;
  }

 private:
  template <class Visit>
  static void each(Values& values, const Visit& visit) {
    int64_t place = 0;
    for (int64_t b = 0; b < values.batch; ++b)
      for (int64_t t = 0; t < values.positions; ++t)
        for (int64_t h = 0; h < values.heads; ++h)
          for (int64_t f = 0; f < values.features; ++f) visit(values.at(b, h, t, f), place++);
  }
  static void write(RankDevice& device, Values& values, int64_t at) {
    std::vector<uint16_t> bits;
    each(values, [&](double& x, int64_t) { bits.push_back(rounded(x)); });
    device.write(at, std::as_bytes(std::span(bits)));
  }
};

/// Weights, what is added up over heads, and results are rounded to bf16, of a unit roundoff of 2^-9: a sum of n such
/// terms of random signs is off by about sqrt(n) 2^-9 of a term, and by 2^-9 of itself. Two percent of the largest
/// element is four times what was seen.
constexpr double bound = 0.02;

bool right(const Executed& run, Case& c, const Arena& a) {
  return run.problem.empty() && run.error(c.o, a.o) <= bound && run.error(c.dq, a.dq) <= bound &&
         run.error(c.dk, a.dk) <= bound && run.error(c.dv, a.dv) <= bound;
}

TEST(CudnnAttention, AndItsGradientAreWhatTheyAreByDefinition) {
  const Sizes sizes[] = {{2, 3, 3, 24, 24, 16, 16}, {1, 6, 2, 16, 16, 8, 8}, {2, 4, 1, 9, 33, 8, 24}};
  for (const Sizes& n : sizes)
    for (const bool causal : {false, true}) {
      Case c(n, causal);
      const Arena arena(c);
      Executed::causal = causal;
      const Executed run(c, arena);
      EXPECT_EQ(run.problem, "");
      if (!run.problem.empty()) continue;
      for (const auto& [name, values, at] :
           {std::tuple("o", &c.o, arena.o), {"dq", &c.dq, arena.dq}, {"dk", &c.dk, arena.dk}, {"dv", &c.dv, arena.dv}})
        EXPECT_LE(run.error(*values, at), bound) << name << ", causal " << causal << ", heads " << n.heads;
    }
}

/// What a call says, with one thing of it wrong.
struct Fault {
  std::string name;
  std::function<void(Arena&)> change;
  std::string told = {};  ///< empty: results alone tell
};
class CudnnFault : public ::testing::TestWithParam<Fault> {};

TEST_P(CudnnFault, IsFound) {
  Case c({2, 2, 2, 16, 16, 8, 8}, true);
  Arena arena(c);
  Executed::causal = 1;
  ASSERT_TRUE(right(Executed(c, arena), c, arena));
  GetParam().change(arena);
  const Executed run(c, arena);
  EXPECT_FALSE(right(run, c, arena));
  EXPECT_THAT(run.problem, HasSubstr(GetParam().told));
}

constexpr size_t of_k = 3, of_v = 6, of_dy = 12, head = 1, position = 2;
INSTANTIATE_TEST_SUITE_P(
    Cudnn, CudnnFault,
    ::testing::Values(Fault{"stride_of_positions", [](Arena& a) { a.strides[of_k + position] = 8; }},
                      Fault{"stride_of_heads", [](Arena& a) { a.strides[of_v + head] = 16; }},
                      Fault{"stride_beyond_the_arena", [](Arena& a) { a.strides[of_dy] = 1 << 26; }, "out of bounds"},
                      Fault{"stride_that_is_no_multiple", [](Arena& a) { a.strides[of_k + position] = 12; },
                            "cuDNN has no plan: it proposes none"},
                      Fault{"statistics_elsewhere", [](Arena& a) { a.statistics = a.workspace; }},
                      Fault{"statistics_off_by_an_element", [](Arena& a) { a.statistics += 4; },
                            "multiple of 16 bytes"},
                      Fault{"statistics_off_by_a_row", [](Arena& a) { a.statistics += 64; }, ""},
                      Fault{"values_instead_of_keys", [](Arena& a) { a.k = a.v; }},
                      Fault{"no_room_for_the_workspace", [](Arena& a) { a.workspace_bytes = 128; }, "are set aside"}),
    [](const auto& info) { return info.param.name; });

TEST(CudnnAttention, ScaleAndMaskMatter) {
  Case c({1, 2, 2, 16, 16, 8, 8}, true);
  const Arena arena(c);
  Executed::causal = 1;
  const Executed without_scale(c, arena, {}, [](HetsynthContext* context, const Arena& a, int& failed) {
    Executed::forward(context, a, failed, 1.0f);
    Executed::backward(context, a, failed);
  });
  EXPECT_GT(without_scale.error(c.o, arena.o), bound);
  Executed::causal = 0;
  const Executed without_mask(c, arena);
  EXPECT_GT(without_mask.error(c.o, arena.o), bound);
}

TEST(CudnnAttention, WhatCannotBeDoneIsSaidWithItsMend) {
  Case c({1, 2, 2, 16, 16, 8, 8}, false);
  const Arena arena(c);
  MachineOptions options;
  options.has_cudnn_plans = false;
  EXPECT_THAT(Executed(c, arena, options).problem,
              AllOf(HasSubstr("attention of 1 x 2 heads, 16 queries x 16 keys, 8 features through cuDNN"),
                    HasSubstr("it proposes none"), HasSubstr("to mend: write attention = \"generated\"")));
  options = {};
  options.has_cudnn = false;
  EXPECT_THAT(Executed(c, arena, options).problem, HasSubstr("no cuDNN"));
}

}  // namespace
}  // namespace hetsynth::testing_support
