// The CUDA libraries as tables of function pointers, filled at run time: the same binary works on machines without any
// of them, and tests fill the tables with doubles. Declared as in cuda.h, nccl.h and cublasLt.h, with handles opaque
// and enumerations as int.
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

namespace hetsynth::cuda {

using DevicePointer = unsigned long long;
inline DevicePointer device_pointer(const void* pointer) { return reinterpret_cast<DevicePointer>(pointer); }

/// A part of a device (CUdevResource). Of what the driver keeps in it only the number of multiprocessors is looked at.
struct DeviceResource {
  int type = 0;
  unsigned char hidden[92] = {};
  unsigned multiprocessors = 0;
  unsigned char rest[44] = {};
};

/// Driver interface (libcuda.so.1). 0: success.
struct Driver {
  int (*init)(unsigned flags) = nullptr;
  int (*version)(int* version) = nullptr;  ///< 13000: CUDA 13.0 is the latest it runs
  int (*device_count)(int* count) = nullptr;
  int (*device_get)(int* device, int ordinal) = nullptr;
  int (*device_name)(char* name, int length, int device) = nullptr;
  int (*device_attribute)(int* value, int attribute, int device) = nullptr;
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
  int (*memory_info)(size_t* free_bytes, size_t* total_bytes) = nullptr;         ///< of the current context's device
  int (*host_allocate)(void** pointer, size_t bytes, unsigned flags) = nullptr;  ///< pinned
  int (*host_free)(void* pointer) = nullptr;
  int (*fill)(DevicePointer pointer, unsigned char value, size_t bytes, void* stream) = nullptr;
  int (*copy_to_device)(DevicePointer to, const void* from, size_t bytes, void* stream) = nullptr;
  int (*copy_to_host)(void* to, DevicePointer from, size_t bytes, void* stream) = nullptr;
  int (*copy_on_device)(DevicePointer to, DevicePointer from, size_t bytes, void* stream) = nullptr;
  int (*stream_create)(void** stream, unsigned flags, int priority) = nullptr;
  int (*stream_destroy)(void* stream) = nullptr;
  int (*stream_synchronize)(void* stream) = nullptr;
  int (*stream_query)(void* stream) = nullptr;  ///< 0: all done, `not_ready`: not yet
  int (*stream_wait)(void* stream, void* event, unsigned flags) = nullptr;
  int (*begin_capture)(void* stream, int mode) = nullptr;
  int (*end_capture)(void* stream, void** graph) = nullptr;
  int (*graph_instantiate)(void** executable, void* graph, unsigned long long flags) = nullptr;
  int (*graph_launch)(void* executable, void* stream) = nullptr;
  int (*graph_executable_destroy)(void* executable) = nullptr;
  int (*graph_destroy)(void* graph) = nullptr;
  int (*event_create)(void** event, unsigned flags) = nullptr;
  int (*event_record)(void* event, void* stream) = nullptr;
  int (*event_elapsed)(float* milliseconds, void* begin, void* end) = nullptr;
  int (*event_destroy)(void* event) = nullptr;
  int (*error_text)(int error, const char** text) = nullptr;
  // Since CUDA 12.4; null before.
  int (*device_resource)(int device, DeviceResource* resource, int type) = nullptr;
  int (*split_resource)(DeviceResource* parts, unsigned* count, const DeviceResource* whole, DeviceResource* remaining,
                        unsigned flags, unsigned least) = nullptr;
  int (*describe_resources)(void** description, DeviceResource* resources, unsigned count) = nullptr;
  int (*green_create)(void** green, void* description, int device, unsigned flags) = nullptr;
  int (*green_destroy)(void* green) = nullptr;
  int (*context_of_green)(void** context, void* green) = nullptr;
  int (*green_stream_create)(void** stream, void* green, unsigned flags, int priority) = nullptr;
};

struct NcclUniqueId {
  char bytes[128];
};

/// ncclConfig_t as of NCCL 2.18; later versions read it by its `version`.
struct NcclConfig {
  size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef, version = 21800;
  int blocking = 0;
  int cga_cluster_size = undefined, least_blocks = undefined, most_blocks = undefined;
  const char* network = nullptr;
  int split_share = undefined;
  static constexpr int undefined = std::numeric_limits<int>::min();
};

/// NCCL (libnccl.so.2), 2.18 or later. 0: success.
struct Nccl {
  int (*version)(int* version) = nullptr;  ///< 22809: 2.28.9
  int (*unique_id)(NcclUniqueId* id) = nullptr;
  int (*init_rank)(void** communicator, int ranks, NcclUniqueId id, int rank, NcclConfig* config) = nullptr;
  int (*split)(void* communicator, int color, int key, void** part, NcclConfig* config) = nullptr;
  int (*asynchronous_error)(void* communicator, int* state) = nullptr;
  int (*finalize)(void* communicator) = nullptr;
  int (*abort)(void* communicator) = nullptr;
  int (*destroy)(void* communicator) = nullptr;
  const char* (*error_text)(int error) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  int (*all_gather)(const void* from, void* to, size_t count, int type, void* communicator, void* stream) = nullptr;
  int (*all_reduce)(const void* from, void* to, size_t count, int type, int op, void* communicator,
                    void* stream) = nullptr;
  int (*reduce_scatter)(const void* from, void* to, size_t count, int type, int op, void* communicator,
                        void* stream) = nullptr;
  int (*broadcast)(const void* from, void* to, size_t count, int type, int root, void* communicator,
                   void* stream) = nullptr;
  int (*reduce)(const void* from, void* to, size_t count, int type, int op, int root, void* communicator,
                void* stream) = nullptr;
  int (*send)(const void* from, size_t count, int type, int peer, void* communicator, void* stream) = nullptr;
  int (*receive)(void* to, size_t count, int type, int peer, void* communicator, void* stream) = nullptr;
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
  size_t (*version)() = nullptr;  ///< 130100: 13.1.0
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

/// The graph interface of cuDNN (libcudnn.so.9; numbers: runtime/cuda/cudnn_numbers.h). 0: success.
struct Cudnn {
  size_t (*version)() = nullptr;  ///< 91900: 9.19.0
  int (*create)(void** handle) = nullptr;
  int (*destroy)(void* handle) = nullptr;
  int (*set_stream)(void* handle, void* stream) = nullptr;
  int (*descriptor_create)(int type, void** descriptor) = nullptr;
  int (*descriptor_destroy)(void* descriptor) = nullptr;
  int (*set)(void* descriptor, int attribute, int type, int64_t count, const void* values) = nullptr;
  int (*get)(void* descriptor, int attribute, int type, int64_t wanted, int64_t* found, void* values) = nullptr;
  int (*finalize)(void* descriptor) = nullptr;
  int (*execute)(void* handle, void* plan, void* pack) = nullptr;
  const char* (*status_text)(int status) = nullptr;
  void (*last_error)(char* text, size_t bytes) = nullptr;  ///< of this thread
};

struct Api {
  Driver driver;
  Nccl nccl;
  CublasLt cublas;
  Cudnn cudnn;
  bool has_driver = false, has_nccl = false, has_cublas = false, has_cudnn = false;
  std::string nccl_path, cublas_path;  ///< where they were found
  int nccl_release = 0;                ///< the CUDA that NCCL was built for, 12 or 13; 0: not known
  std::string driver_problem, nccl_problem, cublas_problem, cudnn_problem;  ///< why not
};

/// Fills the table from this machine's cuDNN, whether or not there is a driver. "" or why it cannot be used.
std::string load(Cudnn& cudnn);

/// The libraries of this machine, opened once. Without a driver nothing else is opened.
const Api& api();

// Numbers of cublasLt.h, cublas_api.h and library_types.h used here; a test compares them with the toolkit's headers.
constexpr int compute_32f = 68, compute_32f_tf32 = 77, real_32f = 0, real_16f = 2, real_16bf = 14;
constexpr int product_transpose_a = 3, product_transpose_b = 4;
constexpr int product_multiprocessors = 15;
constexpr int layout_batch_count = 5, layout_batch_stride = 6;
constexpr int product_epilogue = 7, product_bias = 8, product_beside = 11, product_beside_leading = 12;
constexpr int epilogue_none = 1, epilogue_bias = 4, epilogue_relu_bias = 6, epilogue_gelu_bias = 36;
constexpr int epilogue_gelu_aux_bias = 164, epilogue_dgelu = 192, epilogue_dgelu_bgrad = 208;
constexpr int preference_workspace_bytes = 1;
constexpr int preference_alignment_a = 5, preference_alignment_b = 6, preference_alignment_c = 7,
              preference_alignment_d = 8;
// Of cuda.h.
constexpr unsigned stream_non_blocking = 1, event_disable_timing = 2;
constexpr int resource_multiprocessors = 1;
constexpr unsigned green_default_stream = 1;
constexpr int out_of_memory = 2, not_ready = 600, capture_relaxed = 2;
constexpr int attribute_major = 75, attribute_minor = 76;
// Of nccl.h.
constexpr int nccl_in_progress = 7, nccl_no_color = -1;
constexpr int nccl_int32 = 2, nccl_float16 = 6, nccl_float32 = 7, nccl_bfloat16 = 9;
constexpr int nccl_sum = 0, nccl_product = 1, nccl_max = 2, nccl_min = 3, nccl_average = 4;

}  // namespace hetsynth::cuda
