#include "cuda_emulator.h"

#include <fmt/format.h>
#include <ucontext.h>

#include <cstring>
#include <functional>
#include <stdexcept>

#include "dsl/jit/compiled_code.h"

namespace hetsynth::testing_support {
namespace {

constexpr const char* shim = R"(
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(threads)
#define __shared__ static
struct uint3 { unsigned x, y, z; };
static uint3 threadIdx, blockIdx, blockDim, gridDim;
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(16) int4 { int x, y, z, w; };
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
#define __popc __builtin_popcount
extern "C" unsigned emulated_meeting(int kind, unsigned bits, int argument);
// The harness changes whose turn it is during a meeting: the thread's own index is put back after it.
static unsigned meet(int kind, unsigned bits, int argument) {
  const uint3 me = threadIdx;
  const unsigned result = emulated_meeting(kind, bits, argument);
  threadIdx = me;
  return result;
}
static void __syncthreads() { meet(0, 0, 0); }
static float __shfl_down_sync(unsigned, float value, int distance) {
  return __builtin_bit_cast(float, meet(1, __builtin_bit_cast(unsigned, value), distance));
}
static float __shfl_sync(unsigned, float value, int lane) {
  return __builtin_bit_cast(float, meet(2, __builtin_bit_cast(unsigned, value), lane));
}
static unsigned __ballot_sync(unsigned, bool vote) { return meet(3, vote, 0); }
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

enum Meeting { barrier = 0, shuffle_down = 1, shuffle = 2, ballot = 3 };

/// One block's threads. Each runs until it must meet others, then the next has its turn.
class Block {
 public:
  Block(unsigned threads, std::function<void(unsigned)> work) : fibers_(threads), work_(std::move(work)) {}

  void run(Turns turns) {
    Block* outer = current;
    current = this;
    for (unsigned t = 0; t < fibers_.size(); ++t) start(t);
    while (!all_done()) {
      bool any = false;
      size_t warps = (fibers_.size() + 31) / 32;
      for (size_t w = 0; w < warps; ++w)
        any = run_warp(32 * (turns == Turns::forward ? w : warps - 1 - w), turns) || any;
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
    swapcontext(&fiber.context, &scheduler_);
    return fiber.result;
  }

  static thread_local Block* current;

 private:
  enum class State { ready, waiting, done };
  struct Fiber {
    ucontext_t context;
    std::unique_ptr<char[]> stack;
    State state = State::ready;
    int kind = 0, argument = 0;
    unsigned bits = 0, result = 0;
  };
  static constexpr size_t stack_bytes = 64 << 10;

  static void enter() {
    Block& block = *current;
    unsigned thread = block.turn_;
    block.work_(thread);
    block.fibers_[thread].state = State::done;
    swapcontext(&block.fibers_[thread].context, &block.scheduler_);
  }

  void start(unsigned t) {
    Fiber& fiber = fibers_[t];
    fiber.stack.reset(new char[stack_bytes]);
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = stack_bytes;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, &Block::enter, 0);
  }

  bool all_done() const {
    for (const Fiber& fiber : fibers_)
      if (fiber.state != State::done) return false;
    return true;
  }

  /// Runs a warp until all of its threads are done or wait for other warps: a warp may be that far ahead.
  bool run_warp(size_t first, Turns turns) {
    size_t lanes = std::min<size_t>(32, fibers_.size() - first);
    for (bool any = false;; any = true) {
      bool ran = false;
      for (size_t i = 0; i < lanes; ++i) {
        size_t t = first + (turns == Turns::forward ? i : lanes - 1 - i);
        if (fibers_[t].state != State::ready) continue;
        turn_ = unsigned(t), ran = true;
        swapcontext(&scheduler_, &fibers_[t].context);
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
      size_t from = fiber.kind == shuffle_down ? l + size_t(fiber.argument) : size_t(fiber.argument);
      fiber.result = fiber.kind == ballot ? votes : fibers_[first + (from < lanes ? from : l)].bits;
      fiber.state = State::ready;
    }
    return true;
  }

  std::vector<Fiber> fibers_;
  std::function<void(unsigned)> work_;
  ucontext_t scheduler_;
  unsigned turn_ = 0;
};

thread_local Block* Block::current = nullptr;

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

EmulatedKernels::EmulatedKernels(const std::string& text, const std::vector<std::string>& names) {
  std::string source = shim + text;
  for (const std::string& name : names)
    source += fmt::format(
        "extern \"C\" void emulated_{0}(unsigned block, unsigned thread, void** arguments) {{\n"
        "  blockIdx = {{block, 0, 0}}, threadIdx = {{thread, 0, 0}};\n  call(&{0}, arguments);\n}}\n",
        name);
  CompileOptions options;
  options.optimization = 1;
  impl_.reset(new Impl{
      load_native(source, options, {{"emulated_meeting", reinterpret_cast<void*>(&emulated_meeting)}}), {}, nullptr});
  impl_->grid = impl_->module.function<void(unsigned, unsigned)>("emulated_grid");
  for (const std::string& name : names) {
    size_t begin = text.find(" " + name + "("), end = text.find("\n}\n", begin);
    if (begin == std::string::npos || end == std::string::npos)
      throw std::runtime_error("the file has no kernel " + name);
    std::string body = text.substr(begin, end - begin);
    bool meets = false;
    for (const char* word : {"warp_", "block_", "stacked_", "collect_hits", "__sync", "__shfl"})
      meets = meets || body.find(word) != std::string::npos;
    impl_->kernels.push_back({impl_->module.function<void(unsigned, unsigned, void**)>("emulated_" + name), meets});
  }
}

EmulatedKernels::~EmulatedKernels() = default;

void EmulatedKernels::launch(int number, unsigned blocks, unsigned threads, void** arguments, Turns turns) const {
  const Impl::Kernel& kernel = impl_->kernels.at(size_t(number));
  impl_->grid(blocks, threads);
  for (unsigned i = 0; i < blocks; ++i) {
    unsigned block = turns == Turns::forward ? i : blocks - 1 - i;
    if (kernel.meets) {
      Block(threads, [&](unsigned thread) { kernel.call(block, thread, arguments); }).run(turns);
      continue;
    }
    for (unsigned t = 0; t < threads; ++t) kernel.call(block, turns == Turns::forward ? t : threads - 1 - t, arguments);
  }
}

}  // namespace hetsynth::testing_support
