#include "codegen/cpu/prelude.h"

#include <cctype>
#include <vector>

namespace hetsynth::codegen {
namespace {

struct Piece {
  std::string_view name;
  std::string_view text;
};

// The polynomials are minimax fits (Remez) made for these functions (those of sine and cosine: Moshier, Cephes); tests
// measure their errors against the C library in double.
constexpr Piece pieces[] = {
    {"max_f32", R"(static inline float max_f32(float a, float b) { return a > b ? a : b; }
)"},
    {"min_f32", R"(static inline float min_f32(float a, float b) { return a < b ? a : b; }
)"},
    {"max_f64", R"(static inline double max_f64(double a, double b) { return a > b ? a : b; }
)"},
    {"min_f64", R"(static inline double min_f64(double a, double b) { return a < b ? a : b; }
)"},
    {"power_f32",
     R"(static inline float power_f32(float base, float exponent) { return __builtin_powf(base, exponent); }
)"},
    {"sqrt_f32", R"(static inline float sqrt_f32(float x) {
#ifdef __clang__
  return __builtin_elementwise_sqrt(x);
#else
  return __builtin_sqrtf(x);
#endif
}
)"},
    {"float_of_bits", R"(static inline float float_of_bits(int bits) { return __builtin_bit_cast(float, bits); }
static inline int bits_of_float(float x) { return __builtin_bit_cast(int, x); }
)"},
    {"bf16",
     R"(// The upper half of a float; converting rounds to the nearest, ties to even.
struct bf16 {
  unsigned short bits;
  bf16() = default;
  explicit bf16(float x) {
    const unsigned b = (unsigned)bits_of_float(x);
    bits = (unsigned short)(x == x ? (b + 0x7fff + (b >> 16 & 1)) >> 16 : b >> 16 | 0x40);
  }
  operator float() const { return float_of_bits((int)((unsigned)bits << 16)); }
};
static inline float round_bf16(float x) { return bf16(x); }
)"},
    {"fp16",
     R"(// IEEE 754 binary16; converting rounds to the nearest, ties to even. From 2^-14 on the exponent changes its bias, and below the digits lie as
// those of a float between 1/2 and 1 do.
struct fp16 {
  unsigned short bits;
  fp16() = default;
  explicit fp16(float x) {
    const unsigned b = (unsigned)bits_of_float(x), magnitude = b & 0x7fffffff;
    const unsigned normal = (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
    const unsigned subnormal = (unsigned)bits_of_float(float_of_bits((int)magnitude) + 0.5f) - 0x3f000000;
    const unsigned rounded = magnitude < 0x38800000 ? subnormal : magnitude < 0x477ff000 ? normal : 0x7c00;
    bits = (unsigned short)((magnitude <= 0x7f800000 ? rounded : 0x7e00) | (b >> 16 & 0x8000));
  }
  operator float() const {
    const unsigned magnitude = (bits & 0x7fffu) << 13, sign = (bits & 0x8000u) << 16;
    const unsigned subnormal = (unsigned)bits_of_float(float_of_bits((int)(magnitude + 0x38800000)) - 0.00006103515625f);
    const unsigned above = magnitude < 0xf800000 ? magnitude + 0x38000000 : magnitude + 0x70000000;
    return float_of_bits((int)((magnitude < 0x800000 ? subnormal : above) | sign));
  }
};
static inline float round_fp16(float x) { return fp16(x); }
)"},
    {"exp_f32",
     R"(// exp: x = n ln 2 + r, a polynomial in r, then twice half the power of two, so that results below the normal range come out right.
static inline float exp_f32(float x) {
  x = x > 89.0f ? 89.0f : x;
  x = x < -104.0f ? -104.0f : x;
  const float shifted = x * 1.44269504f + 12582912.0f;
  const float n = shifted - 12582912.0f;
  const float r = (x - n * 0.693145752f) - n * 1.42860682e-6f;
  float p = 1.395047949e-3f;
  p = p * r + 8.368882228e-3f;
  p = p * r + 4.166620598e-2f;
  p = p * r + 1.666651890e-1f;
  p = p * r + 5.000000095e-1f;
  p = p * (r * r) + r + 1.0f;
  const int power = bits_of_float(shifted) - 0x4b400000, half = power >> 1;
  return p * float_of_bits((half + 127) << 23) * float_of_bits((power - half + 127) << 23);
}
)"},
    {"log_f32", R"(// log: x = 2^e m with m in [sqrt(1/2), sqrt(2)), log m = f - f^2/2 + f^3 p(f) for f = m - 1.
static inline float log_f32(float x) {
  const bool tiny = x < 1.17549435e-38f;
  const int bits = bits_of_float(tiny ? x * 8388608.0f : x);
  const int e = (bits - 0x3f3504f3) >> 23;
  const float f = float_of_bits(bits - (e << 23)) - 1.0f;
  float p = 6.915540652e-2f;
  p = p * f - 1.178986443e-1f;
  p = p * f + 1.187292564e-1f;
  p = p * f - 1.238433521e-1f;
  p = p * f + 1.421866386e-1f;
  p = p * f - 1.666925181e-1f;
  p = p * f + 2.000222632e-1f;
  p = p * f - 2.499998658e-1f;
  p = p * f + 3.333331045e-1f;
  const float n = (float)(tiny ? e - 23 : e), square = f * f;
  const float y = n * 0.693145752f + (f + (square * (f * p - 0.5f) + n * 1.42860682e-6f));
  const float special = x == 0.0f ? -__builtin_inff() : x > 0.0f ? x : __builtin_nanf("");
  return x > 0.0f && x < __builtin_inff() ? y : special;
}
)"},
    {"tanh_f32", R"(// tanh: 1 - 2 / (exp(2a) + 1) for a = |x|, and a polynomial near 0, where that would cancel.
static inline float tanh_f32(float x) {
  const float a = x < 0.0f ? -x : x, square = x * x;
  const float large = 1.0f - 2.0f / (exp_f32(2.0f * a) + 1.0f);
  float p = -5.543121846e-3f;
  p = p * square + 2.049664528e-2f;
  p = p * square - 5.369713840e-2f;
  p = p * square + 1.333095030e-1f;
  p = p * square - 3.333326474e-1f;
  const float small = x + x * (square * p);
  return a < 0.625f ? small : __builtin_copysignf(large, x);
}
)"},
    {"erf_f32", R"(// erf: x times a polynomial in x^2 near 0; beyond, 1 - exp of a polynomial that is log(1 - erf).
static inline float erf_f32(float x) {
  const float a = x < 0.0f ? -x : x, square = x * x, b = a > 4.0f ? 4.0f : a;
  float q = 1.959371921e-4f;
  q = q * b - 3.043216987e-3f;
  q = q * b + 2.222691886e-2f;
  q = q * b - 1.039315941e-1f;
  q = q * b - 6.371822502e-1f;
  q = q * b - 1.127675625e+0f;
  q = q * b - 1.956759667e-4f;
  const float large = 1.0f - exp_f32(q);
  float p = -5.965800225e-4f;
  p = p * square + 4.988306975e-3f;
  p = p * square - 2.676332985e-2f;
  p = p * square + 1.128172674e-1f;
  p = p * square - 3.761248529e-1f;
  p = p * square + 1.283791483e-1f;
  return a < 0.927f ? x + x * p : __builtin_copysignf(large, x);
}
)"},
    {"floor_f32", R"(static inline float floor_f32(float x) {
#ifdef __clang__
  return __builtin_elementwise_floor(x);
#else
  return __builtin_floorf(x);
#endif
}
)"},
    {"quarter_turns",
     R"(// The angle as whole quarter turns and a rest in [-pi/4, pi/4], taken away in double: right to a rounding of x up to 1e8.
static inline float quarter_turns(float x, long* turns) {
  const double shifted = x * 0.63661977236758134 + 6755399441055744.0, n = shifted - 6755399441055744.0;
  *turns = __builtin_bit_cast(long, shifted);
  return (float)(x - n * 1.57079632679489662);
}
static inline float sine_near_zero(float r, float square) {
  float p = -1.9515295891e-4f;
  p = p * square + 8.3321608736e-3f;
  p = p * square - 1.6666654611e-1f;
  return r + r * (square * p);
}
static inline float cosine_near_zero(float square) {
  float p = 2.443315711809948e-5f;
  p = p * square - 1.388731625493765e-3f;
  p = p * square + 4.166664568298827e-2f;
  return 1.0f - 0.5f * square + square * (square * p);
}
)"},
    {"sin_f32", R"(static inline float sin_f32(float x) {
  long turns;
  const float r = quarter_turns(x, &turns), square = r * r;
  const float y = turns & 1 ? cosine_near_zero(square) : sine_near_zero(r, square);
  return turns & 2 ? -y : y;
}
)"},
    {"cos_f32", R"(static inline float cos_f32(float x) {
  long turns;
  const float r = quarter_turns(x, &turns), square = r * r;
  const float y = turns & 1 ? sine_near_zero(r, square) : cosine_near_zero(square);
  return (turns + 1) & 2 ? -y : y;
}
)"},
    {"row_sum", R"(// Sum in a fixed order: 64 lanes, then halves; long rows in blocks that are added in double.
static float row_sum(const float* x, long n) {
  double total = 0.0;
  for (long begin = 0; begin < n || begin == 0; begin += 4096) {
    const long end = n - begin < 4096 ? n : begin + 4096;
    float lane[64] = {0.0f};
    long i = begin;
    for (; i + 64 <= end; i += 64)
      for (int j = 0; j < 64; ++j) lane[j] += x[i + j];
    for (int j = 0; j < 64 && i + j < end; ++j) lane[j] += x[i + j];
    for (int half = 32; half > 0; half /= 2)
      for (int j = 0; j < half; ++j) lane[j] += lane[j + half];
    total += lane[0];
  }
  return (float)total;
}
)"},
    {"row_max", R"(static float row_max(const float* x, long n) {
  float lane[64];
  for (int j = 0; j < 64; ++j) lane[j] = -__builtin_inff();
  long i = 0;
  for (; i + 64 <= n; i += 64)
    for (int j = 0; j < 64; ++j) lane[j] = max_f32(x[i + j], lane[j]);
  for (int j = 0; j < 64 && i + j < n; ++j) lane[j] = max_f32(x[i + j], lane[j]);
  for (int half = 32; half > 0; half /= 2)
    for (int j = 0; j < half; ++j) lane[j] = max_f32(lane[j], lane[j + half]);
  return lane[0];
}
)"},
    {"fill", R"(template <class T>
static void fill(T* out, long n, T value) {
  for (long i = 0; i < n; ++i) out[i] = value;
}
)"},
    {"copy", R"(template <class T>
static void copy(const T* __restrict__ from, T* __restrict__ to, long n) {
  for (long i = 0; i < n; ++i) to[i] = from[i];
}
)"},
    {"uniform",
     R"(// Uniform in [0,1) with 24 bits: Philox 4x32-10 (Salmon et al. 2011), counter (index, step, stream), key seed. It depends on the global
// index of an element alone, so every plan draws the same numbers.
static inline float uniform(unsigned long seed, unsigned stream, unsigned long index, unsigned long step) {
  unsigned c0 = (unsigned)index, c1 = (unsigned)(index >> 32), c2 = (unsigned)step, c3 = stream;
  unsigned k0 = (unsigned)seed, k1 = (unsigned)(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const unsigned long p0 = 0xD2511F53ul * c0, p1 = 0xCD9E8D57ul * c2;
    c0 = (unsigned)(p1 >> 32) ^ c1 ^ k0;
    c2 = (unsigned)(p0 >> 32) ^ c3 ^ k1;
    c1 = (unsigned)p1;
    c3 = (unsigned)p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return (float)(c0 >> 8) * (1.0f / 16777216.0f);
}
)"},
};

/// Whether the text mentions the name as a whole word.
bool mentions(std::string_view text, std::string_view name) {
  auto word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
    bool begins = at == 0 || !word(text[at - 1]);
    bool ends = at + name.size() == text.size() || !word(text[at + name.size()]);
    if (begins && ends) return true;
  }
  return false;
}

}  // namespace

std::string prelude_for(std::string_view text) {
  std::vector<const Piece*> used;
  for (size_t i = std::size(pieces); i-- > 0;) {
    auto names = [&](std::string_view where) {
      return mentions(where, pieces[i].name) || mentions(where, "round_" + std::string(pieces[i].name)) ||
             (pieces[i].name == "float_of_bits" && mentions(where, "bits_of_float"));
    };
    bool wanted = names(text);
    for (const Piece* user : used) wanted = wanted || names(user->text);
    if (wanted) used.push_back(&pieces[i]);
  }
  std::string out;
  for (size_t i = used.size(); i-- > 0;) out += std::string(out.empty() ? "" : "\n") + std::string(used[i]->text);
  return out;
}

std::string whole_prelude() {
  std::string names;
  for (const Piece& piece : pieces) names += std::string(piece.name) + " ";
  return prelude_for(names);
}

}  // namespace hetsynth::codegen
