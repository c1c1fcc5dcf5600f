#include "tests/gpu/gpu_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace hetsynth::testing {
namespace {

using cuda::DeviceResource;

constexpr unsigned granule = 8;  ///< multiprocessors

}  // namespace

std::string why_not_parted(const cuda::Driver& driver, const std::vector<int>& multiprocessors) {
  if (!driver.green_create) return "green contexts need a driver of CUDA 12.4 or later";
  int device = 0;
  DeviceResource whole;
  if (driver.init(0) || driver.device_get(&device, 0) ||
      driver.device_resource(device, &whole, cuda::resource_multiprocessors))
    return "the driver does not tell the multiprocessors of GPU 0";
  const int wanted = std::accumulate(multiprocessors.begin(), multiprocessors.end(), 0);
  if (int(whole.multiprocessors) >= wanted) return "";
  return fmt::format("GPU 0 has {} multiprocessors, and {} are wanted", whole.multiprocessors, wanted);
}

GpuParts::GpuParts(const cuda::Driver& driver, const std::vector<int>& multiprocessors) : driver_(driver) {
  require(driver_.init(0), "cuInit");
  require(driver_.device_get(&device_, 0), "cuDeviceGet");
  void* primary = nullptr;
  require(driver_.primary_context_retain(&primary, device_), "cuDevicePrimaryCtxRetain");
  require(driver_.context_set_current(primary), "cuCtxSetCurrent");
  DeviceResource whole;
  require(driver_.device_resource(device_, &whole, cuda::resource_multiprocessors), "cuDeviceGetDevResource");
  // What is put together into one context has to come from one split.
  unsigned count = whole.multiprocessors / granule;
  std::vector<DeviceResource> granules(count);
  DeviceResource remaining;
  require(driver_.split_resource(granules.data(), &count, &whole, &remaining, 0, granule),
          "cuDevSmResourceSplitByCount");
  unsigned next = 0;
  for (const int wanted : multiprocessors) {
    const unsigned first = next;
    cuda::GpuPart part;
    while (part.multiprocessors < wanted && next < count) part.multiprocessors += int(granules[next++].multiprocessors);
    if (part.multiprocessors < wanted)
      throw std::runtime_error(fmt::format("GPU 0 cannot be cut into {} and more multiprocessors", wanted));
    void* description = nullptr;
    require(driver_.describe_resources(&description, &granules[first], next - first), "cuDevResourceGenerateDesc");
    require(driver_.green_create(&part.green, description, device_, cuda::green_default_stream), "cuGreenCtxCreate");
    parts_.push_back(part);
    require(driver_.context_of_green(&parts_.back().context, part.green), "cuCtxFromGreenCtx");
  }
}

GpuParts::~GpuParts() {
  for (const cuda::GpuPart& part : parts_) driver_.green_destroy(part.green);
  driver_.primary_context_release(device_);
}

void GpuParts::require(int error, const char* call) const {
  if (!error) return;
  const char* text = nullptr;
  driver_.error_text(error, &text);
  throw std::runtime_error(fmt::format("{}: {}", call, text ? text : fmt::format("error {}", error)));
}

}  // namespace hetsynth::testing
