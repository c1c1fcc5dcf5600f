#include "tests/support/cuda/kernel_emulator.h"

#include <fmt/format.h>
#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <stdexcept>

#include "dsl/jit/compiled_code.h"
#include "tests/support/cuda/device_memory.h"

namespace hetsynth::testing_support {
namespace {

constexpr const char* shim = R"(
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static
struct uint3 { unsigned x, y, z; };
static uint3 threadIdx, blockIdx, blockDim, gridDim;
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(16) int4 { int x, y, z, w; };
struct alignas(8) uint2 { unsigned x, y; };
static uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
static unsigned __float_as_uint(float value) { return __builtin_bit_cast(unsigned, value); }
static float __uint_as_float(unsigned value) { return __builtin_bit_cast(float, value); }
static float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
#define expf __builtin_expf
#define logf __builtin_logf
#define sqrtf __builtin_sqrtf
#define tanhf __builtin_tanhf
#define erff __builtin_erff
#define sinf __builtin_sinf
#define cosf __builtin_cosf
#define floorf __builtin_floorf
#define powf __builtin_powf
#define fmaxf __builtin_fmaxf
#define fminf __builtin_fminf
#define __popc __builtin_popcount
#define __align__(bytes) __attribute__((aligned(bytes)))
extern "C" unsigned emulated_meeting(int kind, unsigned bits, int argument);
// The harness changes whose turn it is during a meeting: the thread's own index is put back after it.
static unsigned meet(int kind, unsigned bits, int argument) {
  const uint3 me = threadIdx;
  const unsigned result = emulated_meeting(kind, bits, argument);
  threadIdx = me;
  return result;
}
static void __syncthreads() { meet(0, 0, 0); }
// Nothing of the kernel lies between the two barriers, so that they are as good as one.
static int __syncthreads_or(int vote) {
  static int votes[1024];
  votes[threadIdx.x] = vote != 0;
  __syncthreads();
  int any = 0;
  for (unsigned t = 0; t < blockDim.x; ++t) any |= votes[t];
  __syncthreads();
  return any;
}
static float __shfl_down_sync(unsigned, float value, int distance) {
  return __builtin_bit_cast(float, meet(1, __builtin_bit_cast(unsigned, value), distance));
}
static float __shfl_sync(unsigned, float value, int lane) {
  return __builtin_bit_cast(float, meet(2, __builtin_bit_cast(unsigned, value), lane));
}
static unsigned __ballot_sync(unsigned, bool vote) { return meet(3, vote, 0); }
static float __shfl_xor_sync(unsigned, float value, int mask) {
  return __builtin_bit_cast(float, meet(4, __builtin_bit_cast(unsigned, value), mask));
}
// Tensor cores: lanes leave their operands, meet, and add up what is theirs. Sums are of floats, in order.
#define EMULATED_TENSOR_CORES
static float left_operands[1024][8], right_operands[1024][4];
template <class Half> static void load_left(Half* to, const Half* tile, int stride) {
  const int q = threadIdx.x % 32 / 4, p = threadIdx.x % 4;
  for (int i = 0; i < 8; ++i) to[i] = tile[(q + i / 2 % 2 * 8) * stride + 2 * p + i % 2 + i / 4 * 8];
}
template <class Half> static void load_right(Half* to, const Half* tile, int stride) {
  const int q = threadIdx.x % 32 / 4, p = threadIdx.x % 4;
  for (int i = 0; i < 8; ++i) to[i] = tile[(q + i / 4 * 8) * stride + 2 * p + i % 2 + i / 2 % 2 * 8];
}
template <class Half> static void load_right_by_rows(Half* to, const Half* tile, int stride) {
  const int q = threadIdx.x % 32 / 4, p = threadIdx.x % 4;
  for (int i = 0; i < 8; ++i) to[i] = tile[(2 * p + i % 2 + i / 2 % 2 * 8) * stride + q + i / 4 * 8];
}
template <class Half> static void multiply_fragments(float* sum, const Half* left, const Half* right) {
  const int me = threadIdx.x, first = me / 32 * 32, q = me % 32 / 4, p = me % 4;
  for (int i = 0; i < 8; ++i) left_operands[me][i] = left[i];
  for (int i = 0; i < 4; ++i) right_operands[me][i] = right[i];
  meet(5, 0, 0);
  for (int c = 0; c < 4; ++c)
    for (int k = 0; k < 16; ++k) {
      const int in_left = k / 8 * 4 + c / 2 * 2 + k % 2, in_right = k / 8 * 2 + k % 2;
      sum[c] += left_operands[first + 4 * q + k % 8 / 2][in_left] *
                right_operands[first + 4 * (2 * p + c % 2) + k % 8 / 2][in_right];
    }
  meet(5, 0, 0);  // nobody leaves the next ones before
}
struct bf16;
struct fp16;
static void mma_bf16(float* sum, const bf16* left, const bf16* right);
static void mma_fp16(float* sum, const fp16* left, const fp16* right);
template <class Half> static void round2(Half* to, const float* from) { to[0] = Half(from[0]), to[1] = Half(from[1]); }
template <int... I> struct Indices {};
template <int N, int... I> struct Count : Count<N - 1, N - 1, I...> {};
template <int... I> struct Count<0, I...> { typedef Indices<I...> type; };
template <class... A, int... I> static void call(void (*kernel)(A...), void** arguments, Indices<I...>) {
  kernel(*(A*)arguments[I]...);
}
template <class... A> static void call(void (*kernel)(A...), void** arguments) {
  call(kernel, arguments, typename Count<sizeof...(A)>::type());
}
extern "C" void emulated_grid(unsigned blocks, unsigned threads) { gridDim = {blocks, 1, 1}, blockDim = {threads, 1, 1}; }
)";

/// Behind the prelude, which says what the types are: others than its own have no product.
constexpr const char* products = R"(
static void mma_bf16(float* sum, const bf16* left, const bf16* right) { multiply_fragments(sum, left, right); }
static void mma_fp16(float* sum, const fp16* left, const fp16* right) { multiply_fragments(sum, left, right); }
)";

enum Meeting { barrier = 0, shuffle_down = 1, shuffle = 2, ballot = 3, shuffle_xor = 4, warp_meeting = 5 };

/// In which order `count` things take their turns.
std::vector<unsigned> order_of(unsigned count, Turns turns, std::mt19937_64& random) {
  std::vector<unsigned> out(count);
  std::iota(out.begin(), out.end(), 0u);
  if (turns == Turns::reversed) std::reverse(out.begin(), out.end());
  if (turns == Turns::shuffled) std::shuffle(out.begin(), out.end(), random);
  return out;
}

/// The threads of a block. Each runs until it must meet others, then the next has its turn.
class Block {
 public:
  Block(unsigned threads, Turns turns, std::mt19937_64& random)
      : fibers_(threads), lanes_(order_of(32, turns, random)), warps_(order_of((threads + 31) / 32, turns, random)) {
    for (Fiber& fiber : fibers_) start(fiber);
  }

  void run(std::function<void(unsigned)> work) {
    work_ = std::move(work);
    Block* outer = current;
    current = this;
    for (Fiber& fiber : fibers_) fiber.state = State::ready;
    while (!all_done()) {
      bool any = false;
      for (unsigned warp : warps_) any = run_warp(32 * size_t(warp)) || any;
      if (!any && !release_block()) {
        current = outer;
        throw std::runtime_error("threads of a block wait where others never come");
      }
    }
    current = outer;
  }

  unsigned meet(int kind, unsigned bits, int argument) {
    Fiber& fiber = fibers_[turn_];
    fiber.state = State::waiting, fiber.kind = kind, fiber.bits = bits, fiber.argument = argument;
    rest(fiber);
    return fiber.result;
  }

  static thread_local Block* current;

 private:
  enum class State { ready, waiting, done };
  struct Fiber {
    ucontext_t context;  ///< for its start alone
    jmp_buf place;       ///< where it goes on
    bool started = false;
    std::unique_ptr<char[]> stack;
    State state = State::ready;
    int kind = 0, argument = 0;
    unsigned bits = 0, result = 0;
  };
  static constexpr size_t stack_bytes = 64 << 10;

  /// A fiber carries out its thread's work for one block after the other.
  static void enter() {
    for (;;) {
      Block& block = *current;
      Fiber& fiber = block.fibers_[block.turn_];
      block.work_(block.turn_);
      fiber.state = State::done;
      block.rest(fiber);
    }
  }

  void start(Fiber& fiber) {
    fiber.stack.reset(new char[stack_bytes]);
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = stack_bytes;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, &Block::enter, 0);
  }

  // Jumps, as swapcontext asks the system for the signal mask each time.
  void resume(Fiber& fiber) {
    if (_setjmp(scheduler_) != 0) return;
    if (fiber.started) _longjmp(fiber.place, 1);
    fiber.started = true;
    setcontext(&fiber.context);
  }
  void rest(Fiber& fiber) {
    if (_setjmp(fiber.place) == 0) _longjmp(scheduler_, 1);
  }

  bool all_done() const {
    return std::all_of(fibers_.begin(), fibers_.end(), [](const Fiber& fiber) { return fiber.state == State::done; });
  }

  /// Runs a warp until all of its threads are done or wait for other warps: a warp may be that far ahead.
  bool run_warp(size_t first) {
    for (bool any = false;; any = true) {
      bool ran = false;
      for (unsigned lane : lanes_) {
        size_t t = first + lane;
        if (t >= fibers_.size() || fibers_[t].state != State::ready) continue;
        turn_ = unsigned(t), ran = true;
        resume(fibers_[t]);
      }
      if (!release_warp(first) && !ran) return any;
    }
  }

  bool release_block() {
    for (const Fiber& fiber : fibers_)
      if (fiber.state != State::waiting || fiber.kind != barrier) return false;
    for (Fiber& fiber : fibers_) fiber.state = State::ready;
    return true;
  }

  /// Lets a warp go on that has met as a whole at a warp operation.
  bool release_warp(size_t first) {
    size_t lanes = std::min<size_t>(32, fibers_.size() - first);
    const Fiber& leader = fibers_[first];
    for (size_t l = 0; l < lanes; ++l) {
      const Fiber& fiber = fibers_[first + l];
      bool together = fiber.state == State::waiting && fiber.kind == leader.kind && fiber.argument == leader.argument;
      if (!together || fiber.kind == barrier) return false;
    }
    unsigned votes = 0;
    for (size_t l = 0; l < lanes; ++l) votes |= (fibers_[first + l].bits & 1u) << l;
    for (size_t l = 0; l < lanes; ++l) {
      Fiber& fiber = fibers_[first + l];
      fiber.result = fiber.kind == ballot         ? votes
                     : fiber.kind == warp_meeting ? 0
                                                  : fibers_[first + partner(fiber, l, lanes)].bits;
      fiber.state = State::ready;
    }
    return true;
  }

  /// Whose value a lane gets; its own where there is none.
  static size_t partner(const Fiber& fiber, size_t lane, size_t lanes) {
    size_t argument = size_t(fiber.argument);
    size_t from = fiber.kind == shuffle_down ? lane + argument : fiber.kind == shuffle_xor ? lane ^ argument : argument;
    return from < lanes ? from : lane;
  }

  std::vector<Fiber> fibers_;
  std::vector<unsigned> lanes_, warps_;
  std::function<void(unsigned)> work_;
  jmp_buf scheduler_;
  unsigned turn_ = 0;
};

thread_local Block* Block::current = nullptr;

void report(const void* address, size_t bytes, bool writes) {
  if (Tracing* tracing = Tracing::current()) tracing->memory.touch(address, bytes, writes, tracing->by);
}

template <size_t Bytes>
void loads(const void* address) {
  report(address, Bytes, false);
}
template <size_t Bytes>
void stores(const void* address) {
  report(address, Bytes, true);
}

/// Clang calls these before every load and store of the kernels.
std::map<std::string, void*> tracing_symbols() {
  const auto address = [](auto* function) { return reinterpret_cast<void*>(function); };
  return {{"__sanitizer_cov_load1", address(&loads<1>)},   {"__sanitizer_cov_load2", address(&loads<2>)},
          {"__sanitizer_cov_load4", address(&loads<4>)},   {"__sanitizer_cov_load8", address(&loads<8>)},
          {"__sanitizer_cov_load16", address(&loads<16>)}, {"__sanitizer_cov_store1", address(&stores<1>)},
          {"__sanitizer_cov_store2", address(&stores<2>)}, {"__sanitizer_cov_store4", address(&stores<4>)},
          {"__sanitizer_cov_store8", address(&stores<8>)}, {"__sanitizer_cov_store16", address(&stores<16>)}};
}

unsigned emulated_meeting(int kind, unsigned bits, int argument) { return Block::current->meet(kind, bits, argument); }

}  // namespace

struct EmulatedKernels::Impl {
  NativeModule module;
  struct Kernel {
    void (*call)(unsigned block, unsigned thread, void** arguments);
    bool meets;  ///< has barriers or warp operations
  };
  std::vector<Kernel> kernels;
  void (*grid)(unsigned, unsigned);
};

std::vector<std::string> kernels_of(const std::string& text) {
  std::vector<std::string> out;
  for (size_t at = text.find("__global__"); at != std::string::npos; at = text.find("__global__", at + 1)) {
    size_t begin = text.find("void ", at) + 5;
    if (text.compare(begin, 17, "__launch_bounds__") == 0) begin = text.find(") ", begin) + 2;
    out.push_back(text.substr(begin, text.find('(', begin) - begin));
  }
  return out;
}

EmulatedKernels::EmulatedKernels(const std::string& text, const std::vector<std::string>& names, bool traced) {
  std::string source = shim + text;
  if (text.find("struct fp16 {") != std::string::npos) source += products;
  for (const std::string& name : names)
    source += fmt::format(
        "extern \"C\" void emulated_{0}(unsigned block, unsigned thread, void** arguments) {{\n"
        "  blockIdx = {{block, 0, 0}}, threadIdx = {{thread, 0, 0}};\n  call(&{0}, arguments);\n}}\n",
        name);
  CompileOptions options;
  options.optimization = 1;
  // `func` brings no calls of its own, but without such a kind the others are ignored.
  if (traced) options.flags = {"-fsanitize-coverage=func,trace-loads,trace-stores"};
  std::map<std::string, void*> symbols = tracing_symbols();
  symbols["emulated_meeting"] = reinterpret_cast<void*>(&emulated_meeting);
  impl_.reset(new Impl{load_native(source, options, symbols), {}, nullptr});
  impl_->grid = impl_->module.function<void(unsigned, unsigned)>("emulated_grid");
  for (const std::string& name : names) {
    size_t begin = text.find(" " + name + "("), end = text.find("\n}\n", begin);
    if (begin == std::string::npos || end == std::string::npos)
      throw std::runtime_error("the file has no kernel " + name);
    std::string body = text.substr(begin, end - begin);
    bool meets = false;
    for (const char* word : {"warp_", "block_", "stacked_", "lanes", "mma_", "collect_hits", "__sync", "__shfl"})
      meets = meets || body.find(word) != std::string::npos;
    impl_->kernels.push_back({impl_->module.function<void(unsigned, unsigned, void**)>("emulated_" + name), meets});
  }
}

EmulatedKernels::~EmulatedKernels() = default;

void EmulatedKernels::launch(int number, unsigned blocks, unsigned threads, void** arguments, Turns turns,
                             uint64_t seed) const {
  const Impl::Kernel& kernel = impl_->kernels.at(size_t(number));
  std::mt19937_64 random(seed);
  impl_->grid(blocks, threads);
  std::unique_ptr<Block> fibers;
  if (kernel.meets) fibers = std::make_unique<Block>(threads, turns, random);
  const std::vector<unsigned> turns_of_threads = order_of(threads, turns, random);
  for (unsigned block : order_of(blocks, turns, random)) {
    if (Tracing* tracing = Tracing::current()) tracing->by.block = block;
    if (fibers)
      fibers->run([&](unsigned thread) { kernel.call(block, thread, arguments); });
    else
      for (unsigned thread : turns_of_threads) kernel.call(block, thread, arguments);
  }
}

}  // namespace hetsynth::testing_support
