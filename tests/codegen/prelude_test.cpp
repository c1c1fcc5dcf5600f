// Accuracy of the generated mathematical functions, and that they draw the interpreter's random numbers.
#include "codegen/cpu/prelude.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "dsl/base/element_type.h"
#include "dsl/ir/interpreter.h"
#include "harness.h"

namespace hetsynth::test {
namespace {

struct Prelude {
  NativeModule module;
  float (*exp)(float);
  float (*log)(float);
  float (*tanh)(float);
  float (*erf)(float);
  float (*sin)(float);
  float (*cos)(float);
  float (*floor)(float);
  float (*sum)(const float*, long);
  float (*max)(const float*, long);
  float (*uniform)(unsigned long, unsigned, unsigned long, unsigned long);
  unsigned (*bf16_bits)(float);
  unsigned (*fp16_bits)(float);
  float (*of_fp16)(unsigned);
};

const Prelude& prelude() {
  static const Prelude compiled = [] {
    Prelude p;
    p.module = compile(codegen::whole_prelude() + R"(
extern "C" float test_exp(float x) { return exp_f32(x); }
extern "C" float test_log(float x) { return log_f32(x); }
extern "C" float test_tanh(float x) { return tanh_f32(x); }
extern "C" float test_erf(float x) { return erf_f32(x); }
extern "C" float test_sin(float x) { return sin_f32(x); }
extern "C" float test_cos(float x) { return cos_f32(x); }
extern "C" float test_floor(float x) { return floor_f32(x); }
extern "C" unsigned test_bf16_bits(float x) { return bf16(x).bits; }
extern "C" unsigned test_fp16_bits(float x) { return fp16(x).bits; }
extern "C" float test_of_fp16(unsigned bits) {
  fp16 half;
  half.bits = (unsigned short)bits;
  return half;
}
extern "C" float test_sum(const float* x, long n) { return row_sum(x, n); }
extern "C" float test_max(const float* x, long n) { return row_max(x, n); }
extern "C" float test_uniform(unsigned long a, unsigned b, unsigned long c, unsigned long d) { return uniform(a, b, c, d); }
)");
    p.exp = p.module.function<float(float)>("test_exp");
    p.log = p.module.function<float(float)>("test_log");
    p.tanh = p.module.function<float(float)>("test_tanh");
    p.erf = p.module.function<float(float)>("test_erf");
    p.sin = p.module.function<float(float)>("test_sin");
    p.cos = p.module.function<float(float)>("test_cos");
    p.floor = p.module.function<float(float)>("test_floor");
    p.sum = p.module.function<float(const float*, long)>("test_sum");
    p.max = p.module.function<float(const float*, long)>("test_max");
    p.bf16_bits = p.module.function<unsigned(float)>("test_bf16_bits");
    p.fp16_bits = p.module.function<unsigned(float)>("test_fp16_bits");
    p.of_fp16 = p.module.function<float(unsigned)>("test_of_fp16");
    p.uniform = p.module.function<float(unsigned long, unsigned, unsigned long, unsigned long)>("test_uniform");
    return p;
  }();
  return compiled;
}

/// Largest error over evenly spaced arguments, in units in the last place of the exact result.
double worst_ulps(float (*f)(float), double (*exact)(double), float from, float to, int count = 200001) {
  double worst = 0;
  for (int i = 0; i < count; ++i) {
    float x = float(from + (double(to) - from) * i / (count - 1));
    double wanted = exact(x);
    float rounded = float(wanted);
    double ulp =
        std::max<double>(std::nextafter(std::abs(rounded), std::numeric_limits<float>::infinity()) - std::abs(rounded),
                         std::numeric_limits<float>::denorm_min());
    worst = std::max(worst, std::abs(double(f(x)) - wanted) / ulp);
  }
  return worst;
}

const float infinity = std::numeric_limits<float>::infinity();

TEST(Prelude, ExpIsWithinTwoUlps) {
  EXPECT_LT(worst_ulps(prelude().exp, std::exp, -87, 88.7f), 2);
  EXPECT_LT(worst_ulps(prelude().exp, std::exp, -1, 1), 2);
  EXPECT_LT(worst_ulps(prelude().exp, std::exp, -103, -87), 2) << "below the normal range";
  EXPECT_EQ(prelude().exp(-infinity), 0);
  EXPECT_EQ(prelude().exp(infinity), infinity);
  EXPECT_EQ(prelude().exp(-1e9f), 0) << "a hidden score";
  EXPECT_TRUE(std::isnan(prelude().exp(NAN)));
  EXPECT_EQ(prelude().exp(0), 1);
}

TEST(Prelude, LogIsWithinTwoUlps) {
  EXPECT_LT(worst_ulps(prelude().log, std::log, 1e-30f, 100), 2);
  EXPECT_LT(worst_ulps(prelude().log, std::log, 0.5f, 2), 2);
  EXPECT_LT(worst_ulps(prelude().log, std::log, 1e-44f, 1e-38f), 2) << "below the normal range";
  EXPECT_EQ(prelude().log(0), -infinity);
  EXPECT_EQ(prelude().log(infinity), infinity);
  EXPECT_TRUE(std::isnan(prelude().log(-1)));
  EXPECT_EQ(prelude().log(1), 0);
}

TEST(Prelude, TanhAndErfAreWithinFiveUlps) {
  EXPECT_LT(worst_ulps(prelude().tanh, std::tanh, -10, 10), 5);
  EXPECT_LT(worst_ulps(prelude().tanh, std::tanh, -0.7f, 0.7f), 5);
  EXPECT_LT(worst_ulps(prelude().erf, std::erf, -5, 5), 5);
  EXPECT_LT(worst_ulps(prelude().erf, std::erf, -1, 1), 5);
  EXPECT_EQ(prelude().tanh(infinity), 1);
  EXPECT_EQ(prelude().tanh(-infinity), -1);
  EXPECT_EQ(prelude().erf(-infinity), -1);
  EXPECT_TRUE(std::isnan(prelude().tanh(NAN)));
  EXPECT_TRUE(std::isnan(prelude().erf(NAN)));
}

/// Near their zeros sine and cosine are small beside the angle's own rounding, so the error is absolute.
double worst_error(float (*f)(float), double (*exact)(double), float to) {
  double worst = 0;
  for (int i = -100000; i <= 100000; ++i) {
    float x = to * float(i) / 100000;
    worst = std::max(worst, std::abs(double(f(x)) - exact(x)));
  }
  return worst;
}

TEST(Prelude, SineAndCosineAreWithinTwoRoundingsOfOne) {
  for (float to : {3.2f, 1000.0f, 1e5f, 1e8f}) {
    EXPECT_LT(worst_error(prelude().sin, std::sin, to), 0x1p-23) << to;
    EXPECT_LT(worst_error(prelude().cos, std::cos, to), 0x1p-23) << to;
  }
  EXPECT_LT(worst_ulps(prelude().sin, std::sin, 1e-6f, 0.7f), 2);
  EXPECT_EQ(prelude().cos(0), 1);
  EXPECT_EQ(prelude().sin(0), 0);
  for (float x : {infinity, -infinity, float(NAN)}) {
    EXPECT_TRUE(std::isnan(prelude().sin(x))) << x;
    EXPECT_TRUE(std::isnan(prelude().cos(x))) << x;
  }
}

TEST(Prelude, FloorRoundsDown) {
  for (float x : {-2.5f, -2.0f, -0.25f, 0.0f, 0.75f, 1.0f, 1e9f}) EXPECT_EQ(prelude().floor(x), std::floor(x)) << x;
}

TEST(Prelude, SumsOfManyValuesStayAccurate) {
  for (long n : {0L, 1L, 63L, 64L, 65L, 4096L, 4097L, 1000000L}) {
    std::vector<float> values;
    double wanted = 0;
    for (long i = 0; i < n; ++i) {
      values.push_back(float(philox_uniform(1, 0, uint64_t(i), 0)));
      wanted += values.back();
    }
    // Lanes add at most 64 values before a tree of depth 6, blocks are added in double: 70 roundings at most.
    EXPECT_NEAR(prelude().sum(values.data(), n), wanted, wanted * 70 * 0x1p-24) << n;
    EXPECT_EQ(prelude().max(values.data(), n), n ? *std::max_element(values.begin(), values.end()) : -infinity) << n;
  }
}

TEST(Prelude, DrawsTheInterpretersRandomNumbers) {
  for (uint64_t seed : {uint64_t(0), uint64_t(7), uint64_t(0x123456789abcdef)})
    for (int stream : {0, 5, 0x7fffffff})
      for (uint64_t index : {uint64_t(0), uint64_t(1), uint64_t(0x123456789a)})
        for (uint64_t step : {uint64_t(0), uint64_t(99)})
          EXPECT_EQ(double(prelude().uniform(seed, unsigned(stream), index, step)),
                    philox_uniform(seed, stream, index, step));
}

/// All numbers of fp16, as the reader of stored numbers has them (dsl/base/element_type.h).
TEST(Prelude, ConvertsEveryNumberOfFp16) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const std::byte stored[] = {std::byte(bits & 0xff), std::byte(bits >> 8)};
    const double wanted = real_at(stored, {StoredType::Kind::real, 2});
    const float found = prelude().of_fp16(bits);
    if (std::isnan(wanted)) {
      EXPECT_TRUE(std::isnan(found)) << bits;
      EXPECT_EQ(prelude().fp16_bits(found) & 0x7c00, 0x7c00u) << bits;
      EXPECT_NE(prelude().fp16_bits(found) & 0x03ff, 0u) << bits;
      continue;
    }
    ASSERT_EQ(double(found), wanted) << bits;
    ASSERT_EQ(prelude().fp16_bits(found), bits);
  }
}

/// Around every number of fp16, halfway to the next one, and anywhere.
TEST(Prelude, RoundsTo16BitsAsTheInterpreter) {
  const auto expect_rounded = [&](float x) {
    ASSERT_EQ(double(prelude().of_fp16(prelude().fp16_bits(x))), rounded_to(DType::fp16, x)) << x;
    ASSERT_EQ(double(std::bit_cast<float>(prelude().bf16_bits(x) << 16)), rounded_to(DType::bf16, x)) << x;
  };
  for (unsigned bits = 0; bits < 0x7c00; ++bits) {
    const double here = prelude().of_fp16(bits),
                 next = bits + 1 < 0x7c00 ? double(prelude().of_fp16(bits + 1)) : 65536.0;
    const auto middle = float((here + next) / 2);
    for (float x : {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, 1e9f)})
      for (float signed_x : {x, -x}) expect_rounded(signed_x);
  }
  std::mt19937_64 random(1);
  for (int i = 0; i < 1000000; ++i)
    if (const auto x = std::bit_cast<float>(uint32_t(random())); !std::isnan(x)) expect_rounded(x);
}

TEST(Prelude, ContainsOnlyWhatIsCalled) {
  EXPECT_EQ(codegen::prelude_for("y[i] = x[i];"), "");
  std::string text = codegen::prelude_for("y[i] = tanh_f32(x[i]);");
  EXPECT_NE(text.find("tanh_f32("), std::string::npos);
  EXPECT_NE(text.find("static inline float exp_f32("), std::string::npos) << "tanh needs exp";
  EXPECT_EQ(text.find("log_f32"), std::string::npos);
}

}  // namespace
}  // namespace hetsynth::test
