#include "verify/source/cuda/kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "verify/source/step/step_walk.h"
#include "verify/source/text/parse.h"

namespace hetsynth::source {
namespace {

/// The words of CUDA C++ as those of C++, and the prelude's functions without their bodies. Words of one thread's place
/// and of memory that threads share are for the reader of the tree (threads.h).
constexpr const char* declarations = R"(
#define __global__ __attribute__((annotate("kernel")))
#define __launch_bounds__(threads, ...) __attribute__((annotate("threads " #threads)))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __shared__ __attribute__((annotate("shared")))
struct Dimensions { unsigned x, y, z; };
extern const Dimensions threadIdx, blockIdx, blockDim, gridDim;
void __syncthreads();
struct bf16 {
  unsigned short bits;
  bf16() = default;
  explicit bf16(float value);
  operator float() const;
};
struct fp16 {
  unsigned short bits;
  fp16() = default;
  explicit fp16(float value);
  operator float() const;
};
float round_bf16(float); float round_fp16(float);
float exp_f32(float); float log_f32(float); float sqrt_f32(float); float tanh_f32(float); float erf_f32(float);
float sin_f32(float); float cos_f32(float); float floor_f32(float); float power_f32(float, float);
float max_f32(float, float); float min_f32(float, float);
double max_f64(double, double); double min_f64(double, double);
void load4(float*, const float*); void load4(int*, const int*); void load4(bf16*, const bf16*);
void load4(fp16*, const fp16*);
void store4(float*, const float*); void store4(int*, const int*); void store4(bf16*, const bf16*);
void store4(fp16*, const fp16*);
float warp_sum(float); float warp_max(float); float lanes16_sum(float); float lanes16_max(float);
float lanes4_sum(float); float lanes4_max(float); float exp_fast_f32(float);
void copy8(bf16*, const bf16*); void round2(bf16*, const float*); void mma_bf16(float*, const bf16*, const bf16*);
void load_left(bf16*, const bf16*, int); void load_right(bf16*, const bf16*, int);
void load_right_by_rows(bf16*, const bf16*, int);
void copy8(fp16*, const fp16*); void round2(fp16*, const float*); void mma_fp16(float*, const fp16*, const fp16*);
void load_left(fp16*, const fp16*, int); void load_right(fp16*, const fp16*, int);
void load_right_by_rows(fp16*, const fp16*, int);
float block_sum(float); float block_max(float); float stacked_sum(float); float stacked_max(float);
int collect_hits(bool, int*);
float philox_uniform(unsigned long long, unsigned, unsigned long long, unsigned long long);
)";

/// #pragma unroll, with a number or without.
bool is_unrolling(const std::string& line) {
  const std::string word = "#pragma unroll";
  return line.rfind(word, 0) == 0 && line.find_first_not_of(" 0123456789", word.size()) == std::string::npos;
}

/// What the text says besides the prelude may hold no directive: it could name any file.
void forbid_directives(const std::string& text, int line) {
  std::istringstream lines(text);
  for (std::string one; std::getline(lines, one); ++line) {
    const size_t begin = one.find_first_not_of(' ');
    if (begin != std::string::npos && is_unrolling(one.substr(begin))) continue;
    const std::string code = one.substr(0, one.find("//"));
    for (const char* sign : {"#", "%:", "\?\?=", "_Pragma", "/*"})
      if (code.find(sign) != std::string::npos)
        throw NotFollowed("in the kernels, a directive or comment that generated text does not have", line);
  }
}

void expect_comments(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (!line.empty() && (line.rfind("//", 0) != 0 || line.back() == '\\'))
      throw NotFollowed("in the kernels, something before the prelude", 1);
}

}  // namespace

Unit read_kernels(const std::string& text, const std::string& prelude, const std::string& file_name) {
  const size_t at = text.find(prelude);
  if (prelude.empty() || at == std::string::npos)
    throw Differs("the functions that kernels lean on are not the generator's", 0);
  const std::string before = text.substr(0, at), rest = text.substr(at + prelude.size());
  const int first = int(std::count(text.begin(), text.begin() + long(at + prelude.size()), '\n')) + 1;
  expect_comments(before);
  forbid_directives(rest, first);
  Unit unit = parse(fmt::format("{}#line {}\n{}", declarations, first, rest), file_name);
  if (!unit.errors.empty()) throw Differs("the kernels do not compile: " + unit.errors, 0);
  if (!unit.surprises.empty()) throw NotFollowed("in the kernels, " + unit.surprises.front(), 0);
  for (const auto& [name, function] : unit.functions)
    if (function.defined && !function.kernel)
      throw NotFollowed(fmt::format("in the kernels, the function {}", name), function.line);
  for (const auto& [name, record] : unit.records)
    if (name != "bf16" && name != "fp16" && name != "Dimensions")
      throw NotFollowed(fmt::format("in the kernels, the type {}", name), 0);
  return unit;
}

}  // namespace hetsynth::source
