// A libcuda.so.1 for a machine without a driver: cuDNN looks for it before it makes a plan, and hands the kernels it
// compiled to it. Functions that a plan needs succeed; there is no device, and nothing can be run.
#include <cstddef>

namespace {

constexpr int success = 0, no_device = 100, not_found = 500;
int something;  // what handles point to

int hand_out(void** handle) {
  *handle = &something;
  return success;
}

}  // namespace

extern "C" {

int cuInit(unsigned) { return no_device; }
int cuDeviceGetCount(int* count) {
  *count = 0;
  return no_device;
}
int cuDriverGetVersion(int* version) {
  *version = 13000;
  return success;
}
int cuGetErrorString(int, const char** text) {
  *text = "there is no device";
  return success;
}
int cuGetErrorName(int, const char** text) { return cuGetErrorString(0, text); }
// Answers of the static CUDA runtime within cuDNN: it finds no function, so it sees no device.
int cuGetProcAddress_v2(const char*, void**, int, unsigned long long, int*) { return not_found; }
int cuGetProcAddress(const char*, void**, int, unsigned long long) { return not_found; }
int cuLibraryLoadData(void** library) { return hand_out(library); }
int cuLibraryGetKernel(void** kernel) { return hand_out(kernel); }

// What is looked up and not called, or told and not answered.
#define HETSYNTH_ACCEPTED(name) \
  int name() { return success; }
HETSYNTH_ACCEPTED(cuCtxGetCurrent)
HETSYNTH_ACCEPTED(cuCtxGetDevice)
HETSYNTH_ACCEPTED(cuCtxGetLimit)
HETSYNTH_ACCEPTED(cuCtxPopCurrent)
HETSYNTH_ACCEPTED(cuCtxPushCurrent)
HETSYNTH_ACCEPTED(cuDeviceGet)
HETSYNTH_ACCEPTED(cuDeviceGetAttribute)
HETSYNTH_ACCEPTED(cuDevicePrimaryCtxRelease)
HETSYNTH_ACCEPTED(cuDevicePrimaryCtxReset)
HETSYNTH_ACCEPTED(cuDevicePrimaryCtxRetain)
HETSYNTH_ACCEPTED(cuFuncGetAttribute)
HETSYNTH_ACCEPTED(cuFuncSetAttribute)
HETSYNTH_ACCEPTED(cuKernelGetAttribute)
HETSYNTH_ACCEPTED(cuKernelSetAttribute)
HETSYNTH_ACCEPTED(cuLaunchCooperativeKernel)
HETSYNTH_ACCEPTED(cuLaunchKernel)
HETSYNTH_ACCEPTED(cuLaunchKernelEx)
HETSYNTH_ACCEPTED(cuLibraryLoadFromFile)
HETSYNTH_ACCEPTED(cuLibraryUnload)
HETSYNTH_ACCEPTED(cuLinkAddData)
HETSYNTH_ACCEPTED(cuLinkAddData_v2)
HETSYNTH_ACCEPTED(cuLinkAddFile_v2)
HETSYNTH_ACCEPTED(cuLinkComplete)
HETSYNTH_ACCEPTED(cuLinkCreate)
HETSYNTH_ACCEPTED(cuLinkCreate_v2)
HETSYNTH_ACCEPTED(cuLinkDestroy)
HETSYNTH_ACCEPTED(cuMemcpyDtoH_v2)
HETSYNTH_ACCEPTED(cuModuleGetFunction)
HETSYNTH_ACCEPTED(cuModuleGetGlobal_v2)
HETSYNTH_ACCEPTED(cuModuleLoadData)
HETSYNTH_ACCEPTED(cuModuleLoadDataEx)
HETSYNTH_ACCEPTED(cuModuleLoadFatBinary)
HETSYNTH_ACCEPTED(cuModuleUnload)
HETSYNTH_ACCEPTED(cuOccupancyMaxActiveBlocksPerMultiprocessor)
HETSYNTH_ACCEPTED(cuOccupancyMaxPotentialClusterSize)
HETSYNTH_ACCEPTED(cuStreamGetCtx)
HETSYNTH_ACCEPTED(cuStreamSynchronize)
HETSYNTH_ACCEPTED(cuTensorMapEncodeTiled)

}  // extern "C"
