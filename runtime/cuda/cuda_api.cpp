#include "runtime/cuda/cuda_api.h"

#include <fmt/format.h>

#include "runtime/cuda/cudnn_numbers.h"
#include "runtime/jit/cuda_generation.h"
#include "runtime/jit/function_table.h"

namespace hetsynth::cuda {
namespace {

std::string load(Driver& d) {
  return FunctionTable("NVIDIA driver", {"libcuda.so.1"})
      .find("cuInit", d.init)
      .find("cuDriverGetVersion", d.version)
      .find("cuDeviceGetCount", d.device_count)
      .find("cuDeviceGet", d.device_get)
      .find("cuDeviceGetName", d.device_name)
      .find("cuDeviceGetAttribute", d.device_attribute)
      .find("cuDevicePrimaryCtxRetain", d.primary_context_retain)
      .find("cuDevicePrimaryCtxRelease_v2", d.primary_context_release)
      .find("cuCtxSetCurrent", d.context_set_current)
      .find("cuCtxGetStreamPriorityRange", d.priority_range)
      .find("cuModuleLoadData", d.module_load)
      .find("cuModuleUnload", d.module_unload)
      .find("cuModuleGetFunction", d.module_function)
      .find("cuLaunchKernel", d.launch)
      .find("cuMemAlloc_v2", d.allocate)
      .find("cuMemFree_v2", d.free)
      .find("cuMemGetInfo_v2", d.memory_info)
      .find("cuMemHostAlloc", d.host_allocate)
      .find("cuMemFreeHost", d.host_free)
      .find("cuMemsetD8Async", d.fill)
      .find("cuMemcpyHtoDAsync_v2", d.copy_to_device)
      .find("cuMemcpyDtoHAsync_v2", d.copy_to_host)
      .find("cuMemcpyDtoDAsync_v2", d.copy_on_device)
      .find("cuStreamCreateWithPriority", d.stream_create)
      .find("cuStreamDestroy_v2", d.stream_destroy)
      .find("cuStreamSynchronize", d.stream_synchronize)
      .find("cuStreamQuery", d.stream_query)
      .find("cuStreamWaitEvent", d.stream_wait)
      .find("cuStreamBeginCapture_v2", d.begin_capture)
      .find("cuStreamEndCapture", d.end_capture)
      .find("cuGraphInstantiateWithFlags", d.graph_instantiate)
      .find("cuGraphLaunch", d.graph_launch)
      .find("cuGraphExecDestroy", d.graph_executable_destroy)
      .find("cuGraphDestroy", d.graph_destroy)
      .find("cuEventCreate", d.event_create)
      .find("cuEventRecord", d.event_record)
      .find("cuEventElapsedTime", d.event_elapsed)
      .find("cuEventDestroy_v2", d.event_destroy)
      .find("cuGetErrorString", d.error_text)
      .find_if_any("cuDeviceGetDevResource", d.device_resource)
      .find_if_any("cuDevSmResourceSplitByCount", d.split_resource)
      .find_if_any("cuDevResourceGenerateDesc", d.describe_resources)
      .find_if_any("cuGreenCtxCreate", d.green_create)
      .find_if_any("cuGreenCtxDestroy", d.green_destroy)
      .find_if_any("cuCtxFromGreenCtx", d.context_of_green)
      .find_if_any("cuGreenCtxStreamCreate", d.green_stream_create)
      .problem();
}

std::string load(Nccl& n, Api& api) {
  FunctionTable table("NCCL", {"libnccl.so.2"}, cuda_library_folders(), objection_to_nccl);
  api.nccl_path = table.library().path();
  // Only where it decides something: the file is read for it.
  if (!works_on(cuda_machine(), 13)) api.nccl_release = release_of_nccl(api.nccl_path);
  table.find("ncclGetVersion", n.version)
      .find("ncclGetUniqueId", n.unique_id)
      .find("ncclCommInitRankConfig", n.init_rank)
      .find("ncclCommSplit", n.split)
      .find("ncclCommGetAsyncError", n.asynchronous_error)
      .find("ncclCommFinalize", n.finalize)
      .find("ncclCommAbort", n.abort)
      .find("ncclCommDestroy", n.destroy)
      .find("ncclGetErrorString", n.error_text)
      .find("ncclGroupStart", n.group_start)
      .find("ncclGroupEnd", n.group_end)
      .find("ncclAllGather", n.all_gather)
      .find("ncclAllReduce", n.all_reduce)
      .find("ncclReduceScatter", n.reduce_scatter)
      .find("ncclBroadcast", n.broadcast)
      .find("ncclReduce", n.reduce)
      .find("ncclSend", n.send)
      .find("ncclRecv", n.receive);
  const bool too_old = table.library() && !table.problem().empty();
  return table.problem() + (too_old ? ": NCCL 2.18 or later is needed" : "");
}

std::string load(CublasLt& c, Api& api) {
  FunctionTable table("cublasLt", cuda_files("libcublasLt"), cuda_library_folders());
  api.cublas_path = table.library().path();
  return table.find("cublasLtGetVersion", c.version)
      .find("cublasLtCreate", c.create)
      .find("cublasLtDestroy", c.destroy)
      .find("cublasLtMatmulDescCreate", c.product_create)
      .find("cublasLtMatmulDescDestroy", c.product_destroy)
      .find("cublasLtMatmulDescSetAttribute", c.product_set)
      .find("cublasLtMatrixLayoutCreate", c.layout_create)
      .find("cublasLtMatrixLayoutDestroy", c.layout_destroy)
      .find("cublasLtMatrixLayoutSetAttribute", c.layout_set)
      .find("cublasLtMatmulPreferenceCreate", c.preference_create)
      .find("cublasLtMatmulPreferenceDestroy", c.preference_destroy)
      .find("cublasLtMatmulPreferenceSetAttribute", c.preference_set)
      .find("cublasLtMatmulAlgoGetHeuristic", c.heuristic)
      .find("cublasLtMatmul", c.multiply)
      .problem();
}

Api load_all() {
  Api out;
  out.driver_problem = load(out.driver);
  out.has_driver = out.driver_problem.empty();
  if (!out.has_driver) {
    out.nccl_problem = out.cublas_problem = out.cudnn_problem = "not looked for without a driver";
    return out;
  }
  out.nccl_problem = load(out.nccl, out);
  out.has_nccl = out.nccl_problem.empty();
  out.cublas_problem = load(out.cublas, out);
  out.has_cublas = out.cublas_problem.empty();
  out.cudnn_problem = load(out.cudnn);
  out.has_cudnn = out.cudnn_problem.empty();
  return out;
}

}  // namespace

std::string load(Cudnn& c) {
  FunctionTable table("cuDNN", {"libcudnn.so.9"}, cuda_library_folders());
  table.find("cudnnGetVersion", c.version)
      .find("cudnnCreate", c.create)
      .find("cudnnDestroy", c.destroy)
      .find("cudnnSetStream", c.set_stream)
      .find("cudnnBackendCreateDescriptor", c.descriptor_create)
      .find("cudnnBackendDestroyDescriptor", c.descriptor_destroy)
      .find("cudnnBackendSetAttribute", c.set)
      .find("cudnnBackendGetAttribute", c.get)
      .find("cudnnBackendFinalize", c.finalize)
      .find("cudnnBackendExecute", c.execute)
      .find("cudnnGetErrorString", c.status_text)
      .find("cudnnGetLastErrorString", c.last_error);
  if (!table.problem().empty()) return table.problem();
  const size_t version = c.version();
  if (version >= size_t(cudnn::least_version)) return "";
  return fmt::format("{} is cuDNN {}; attention needs {} or later", table.library().path(),
                     cudnn::version_text(version), cudnn::version_text(cudnn::least_version));
}

const Api& api() {
  static const Api loaded = load_all();
  return loaded;
}

}  // namespace hetsynth::cuda
