// The CUDA libraries as tables of function pointers, filled at run time: the same binary works on machines without any
// of them, and tests fill the tables with doubles. Declared as in cuda.h, nccl.h and cublasLt.h, with handles opaque
// and enumerations as int.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace hetsynth::cuda {

using DevicePointer = unsigned long long;

/// Driver interface (libcuda.so.1). 0: success.
struct Driver {
  int (*init)(unsigned flags) = nullptr;
  int (*device_get)(int* device, int ordinal) = nullptr;
  int (*primary_context_retain)(void** context, int device) = nullptr;
  int (*primary_context_release)(int device) = nullptr;
  int (*context_set_current)(void* context) = nullptr;
  int (*priority_range)(int* least, int* greatest) = nullptr;
  int (*module_load)(void** module, const void* image) = nullptr;
  int (*module_unload)(void* module) = nullptr;
  int (*module_function)(void** function, void* module, const char* name) = nullptr;
  int (*launch)(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                unsigned block_z, unsigned shared_bytes, void* stream, void** arguments, void** extra) = nullptr;
  int (*allocate)(DevicePointer* pointer, size_t bytes) = nullptr;
  int (*free)(DevicePointer pointer) = nullptr;
  int (*fill)(DevicePointer pointer, unsigned char value, size_t bytes, void* stream) = nullptr;
  int (*copy_to_device)(DevicePointer to, const void* from, size_t bytes, void* stream) = nullptr;
  int (*copy_to_host)(void* to, DevicePointer from, size_t bytes, void* stream) = nullptr;
  int (*copy_on_device)(DevicePointer to, DevicePointer from, size_t bytes, void* stream) = nullptr;
  int (*stream_create)(void** stream, unsigned flags, int priority) = nullptr;
  int (*stream_destroy)(void* stream) = nullptr;
  int (*stream_synchronize)(void* stream) = nullptr;
  int (*stream_wait)(void* stream, void* event, unsigned flags) = nullptr;
  int (*event_create)(void** event, unsigned flags) = nullptr;
  int (*event_record)(void* event, void* stream) = nullptr;
  int (*event_destroy)(void* event) = nullptr;
  int (*error_text)(int error, const char** text) = nullptr;
};

struct NcclUniqueId {
  char bytes[128];
};

/// NCCL (libnccl.so.2). 0: success.
struct Nccl {
  int (*unique_id)(NcclUniqueId* id) = nullptr;
  int (*init_rank)(void** communicator, int ranks, NcclUniqueId id, int rank) = nullptr;
  int (*abort)(void* communicator) = nullptr;
  int (*destroy)(void* communicator) = nullptr;
  const char* (*error_text)(int error) = nullptr;
  // What generated host programs call by NCCL's own names: handed to the linker as they are.
  void *group_start = nullptr, *group_end = nullptr, *all_gather = nullptr, *all_reduce = nullptr,
       *reduce_scatter = nullptr, *broadcast = nullptr, *reduce = nullptr, *send = nullptr, *receive = nullptr;
};

/// One answer of cublasLt's heuristic (cublasLtMatmulHeuristicResult_t).
struct CublasLtChoice {
  uint64_t algorithm[8];
  size_t workspace_bytes;
  int status;
  float waves;
  int reserved[4];
};

/// cublasLt (libcublasLt.so.13 or .12). 0: success.
struct CublasLt {
  int (*create)(void** handle) = nullptr;
  int (*destroy)(void* handle) = nullptr;
  int (*product_create)(void** product, int compute_type, int scale_type) = nullptr;
  int (*product_destroy)(void* product) = nullptr;
  int (*product_set)(void* product, int attribute, const void* value, size_t bytes) = nullptr;
  int (*layout_create)(void** layout, int type, uint64_t rows, uint64_t columns, int64_t leading) = nullptr;
  int (*layout_destroy)(void* layout) = nullptr;
  int (*layout_set)(void* layout, int attribute, const void* value, size_t bytes) = nullptr;
  int (*preference_create)(void** preference) = nullptr;
  int (*preference_destroy)(void* preference) = nullptr;
  int (*preference_set)(void* preference, int attribute, const void* value, size_t bytes) = nullptr;
  int (*heuristic)(void* handle, void* product, void* a, void* b, void* c, void* d, void* preference, int wanted,
                   CublasLtChoice* choices, int* found) = nullptr;
  int (*multiply)(void* handle, void* product, const void* alpha, const void* a, void* a_layout, const void* b,
                  void* b_layout, const void* beta, const void* c, void* c_layout, void* d, void* d_layout,
                  const void* algorithm, void* workspace, size_t workspace_bytes, void* stream) = nullptr;
};

struct Api {
  Driver driver;
  Nccl nccl;
  CublasLt cublas;
  bool has_driver = false, has_nccl = false, has_cublas = false;
  std::string driver_problem, nccl_problem, cublas_problem;  ///< why not
};

/// The libraries of this machine, opened once. Without a driver nothing else is opened.
const Api& api();

// Numbers of cublasLt.h, cublas_api.h and library_types.h used here; a test compares them with the toolkit's headers.
constexpr int compute_32f = 68, real_32f = 0;
constexpr int product_transpose_a = 3, product_transpose_b = 4;
constexpr int layout_batch_count = 5, layout_batch_stride = 6;
constexpr int preference_workspace_bytes = 1;
// Of cuda.h.
constexpr unsigned stream_non_blocking = 1, event_disable_timing = 2;

}  // namespace hetsynth::cuda
