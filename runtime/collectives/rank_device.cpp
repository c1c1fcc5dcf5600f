#include "runtime/collectives/rank_device.h"

#include <cstring>
#include <memory>
#include <utility>

#include "dsl/base/error.h"
#include "runtime/rank/arena.h"

namespace hetsynth {
namespace {

class CpuDevice : public RankDevice {
 public:
  explicit CpuDevice(StepFunction step) : step_(std::move(step)) {}

  void allocate(int64_t bytes) override {
    arena_ = std::make_shared<Arena>(bytes);
    // First touch by this thread places the pages near its core.
    std::memset(arena_->data(), 0, static_cast<size_t>(arena_->bytes()));
  }
  void allocate_in(RankDevice& other, int64_t bytes) override {
    auto* const neighbour = dynamic_cast<CpuDevice*>(&other);
    HETSYNTH_CHECK(neighbour != nullptr, "memory is shared between cpu devices");
    arena_ = neighbour->arena_;
    arena_->grow(bytes);
  }
  std::byte* host_memory(int64_t offset_bytes) override {
    return reinterpret_cast<std::byte*>(arena_->data()) + offset_bytes;
  }
  void write(int64_t offset_bytes, std::span<const std::byte> data) override {
    if (!data.empty()) std::memcpy(arena_->data() + offset_bytes, data.data(), data.size());
  }
  void read(int64_t offset_bytes, std::span<std::byte> data) const override {
    if (!data.empty()) std::memcpy(data.data(), arena_->data() + offset_bytes, data.size());
  }
  int step(HetsynthContext context) override {
    context.arena = arena_->data();
    return step_(&context);
  }

 private:
  StepFunction step_;
  std::shared_ptr<Arena> arena_;
};

}  // namespace

void RankDevice::allocate_in(RankDevice& /*other*/, int64_t /*bytes*/) {
  throw InternalError("memory is shared between cpu devices");
}

std::unique_ptr<RankDevice> cpu_device(StepFunction step) { return std::make_unique<CpuDevice>(std::move(step)); }

}  // namespace hetsynth
