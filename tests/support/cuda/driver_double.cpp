// The driver's double: contexts, memory, modules, streams and events.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/support/cuda/double_machine.h"

namespace hetsynth::testing_support {
namespace {

using cuda::DevicePointer;

constexpr int invalid_value = 1;

struct Module {
  Gpu* gpu;
  std::vector<std::string> names;
  std::unique_ptr<EmulatedKernels> kernels;
};

struct Function {
  Module* module;
  int number;
};

Gpu& gpu() { return *current_gpu(); }

/// Holds the GPU while a call of the driver works on it.
using Held = std::lock_guard<std::recursive_mutex>;
Stream& stream_of(void* handle) { return *static_cast<Stream*>(handle); }
char* address(DevicePointer pointer) { return reinterpret_cast<char*>(pointer); }

int asked() { return current_gpu() && !gpu().problem.empty() ? rule_broken : 0; }

/// A recorded step: what to issue again.
struct Graph {
  std::vector<std::function<void()>> calls;
};

/// Waiting for a stream while a group of NCCL calls is open waits for what was not issued yet.
bool in_group(const char* call) {
  if (open_groups() == 0) return false;
  gpu().fail(fmt::format("GPU {}: {} between ncclGroupStart and ncclGroupEnd", gpu().ordinal, call));
  return true;
}

int query(void* handle) {
  if (in_group("cuStreamQuery")) return rule_broken;
  if (gpu().captured) {
    gpu().fail(fmt::format("GPU {}: a stream is waited for while a step is being recorded", gpu().ordinal));
    return rule_broken;
  }
  Stream& stream = stream_of(handle);
  const Held held(stream.gpu->mutex);
  const int status = stream.gpu->drain(stream);
  if (status == 0) join(stream.gpu->host, stream.clock);
  return status;
}

int synchronize(void* handle) {
  int status = query(handle);
  while (status == cuda::not_ready) status = query(handle);
  return status;
}

int copy(const char* name, void* handle, void* to, const void* from, size_t bytes) {
  Stream& stream = stream_of(handle);
  Gpu& device = *stream.gpu;
  const Held held(device.mutex);
  device.issue([&stream, &device, name, to, from, bytes] {
    device.enqueue(stream, {name, [&device, to, from, bytes](Toucher& by) {
                              device.memory.touch(from, bytes, false, by);
                              device.memory.touch(to, bytes, true, by);
                              if (device.memory.problem().empty()) std::memmove(to, from, bytes);
                              return true;
                            }});
  });
  return asked();
}

int launch(void* handle, unsigned blocks, unsigned, unsigned, unsigned threads, unsigned, unsigned, unsigned,
           void* stream_handle, void** arguments, void**) {
  const auto* function = static_cast<Function*>(handle);
  Module& module = *function->module;
  Stream& stream = stream_of(stream_handle);
  if (blocks == 0 || threads == 0 || threads > 1024) return invalid_value;
  // Values are taken now. hetsynth_launch ends the list with a null pointer; each value has at most eight bytes.
  std::vector<int64_t> values;
  for (int i = 0; arguments[i]; ++i) std::memcpy(&values.emplace_back(), arguments[i], sizeof(int64_t));
  const int number = function->number;
  const Held held(stream.gpu->mutex);
  stream.gpu->issue([&stream, &module, number, blocks, threads, values] {
    stream.gpu->enqueue(stream, {module.names[size_t(number)], [&module, number, blocks, threads, values](Toucher& by) {
                                   const MachineOptions& options = DoubleMachine::current().options;
                                   std::vector<int64_t> own = values;
                                   std::vector<void*> pointers;
                                   for (int64_t& value : own) pointers.push_back(&value);
                                   Tracing tracing(module.gpu->memory, by);
                                   module.kernels->launch(number, blocks, threads, pointers.data(), options.turns,
                                                          options.seed + by.clock[size_t(by.stream)]);
                                   return true;
                                 }});
  });
  return asked();
}

int allocate(DevicePointer* pointer, size_t bytes) {
  DoubleMachine& machine = DoubleMachine::current();
  if (++machine.allocations == machine.options.refused_allocation) return cuda::out_of_memory;
  const Held held(gpu().mutex);
  char* memory = gpu().memory.allocate(bytes);
  *pointer = reinterpret_cast<DevicePointer>(memory);
  return memory ? asked() : cuda::out_of_memory;
}

int load_module(void** module, const void* image) {
  auto loaded = std::make_unique<Module>();
  const std::string text = static_cast<const char*>(image);
  loaded->gpu = &gpu();
  loaded->names = kernels_of(text);
  loaded->kernels =
      std::make_unique<EmulatedKernels>(text, loaded->names, DoubleMachine::current().options.traces_kernels);
  const Held held(gpu().mutex);
  ++gpu().modules;
  *module = loaded.release();
  return asked();
}

/// Functions live as long as their module; nothing frees them in the driver either.
int find_function(void** function, void* handle, const char* name) {
  static std::mutex mutex;
  static std::vector<std::unique_ptr<Function>> all;
  auto* module = static_cast<Module*>(handle);
  const auto found = std::find(module->names.begin(), module->names.end(), name);
  if (found == module->names.end()) return 500;  // CUDA_ERROR_NOT_FOUND
  std::lock_guard<std::mutex> lock(mutex);
  all.push_back(std::make_unique<Function>(Function{module, int(found - module->names.begin())}));
  *function = all.back().get();
  return 0;
}

int create_stream_on(Gpu& device, void** handle, unsigned flags) {
  const Held held(device.mutex);
  if (flags != cuda::stream_non_blocking || device.streams.size() >= most_streams) return invalid_value;
  device.streams.push_back(std::make_unique<Stream>(Stream{&device, int(device.streams.size()), {}, {}}));
  *handle = device.streams.back().get();
  return 0;
}

int create_stream(void** handle, unsigned flags, int) { return create_stream_on(gpu(), handle, flags); }

int destroy_stream(void* handle) {
  const Held held(stream_of(handle).gpu->mutex);
  auto& streams = stream_of(handle).gpu->streams;
  std::erase_if(streams, [handle](const auto& stream) { return stream.get() == handle; });
  return 0;
}

int record(void* event_handle, void* stream_handle) {
  auto* event = static_cast<Event*>(event_handle);
  Stream& stream = stream_of(stream_handle);
  const Held held(stream.gpu->mutex);
  stream.gpu->issue([&stream, event] {
    ++event->issued;
    stream.gpu->enqueue(stream, {.name = "record of an event", .run = {}, .record = event});
  });
  return asked();
}

int wait(void* stream_handle, void* event_handle, unsigned) {
  auto* event = static_cast<Event*>(event_handle);
  Stream& stream = stream_of(stream_handle);
  const Held held(stream.gpu->mutex);
  stream.gpu->issue([&stream, event] {
    stream.gpu->enqueue(stream, {.name = "wait for an event", .run = {}, .wait = event, .version = event->issued});
  });
  return asked();
}

int error_text(int error, const char** text) {
  static thread_local std::string last;
  last = error == cuda::out_of_memory            ? "out of memory"
         : error == rule_broken && current_gpu() ? gpu().problem
                                                 : fmt::format("error {}", error);
  *text = last.c_str();
  return 0;
}

int begin_capture(void*, int) {
  if (gpu().captured) return invalid_value;
  gpu().captured = &(new Graph)->calls;
  return 0;
}

int end_capture(void*, void** graph) {
  if (!gpu().captured) return invalid_value;
  *graph = std::exchange(gpu().captured, nullptr);
  ++gpu().graphs;
  return asked();
}

int launch_graph(void* executable, void*) {
  for (const auto& call : static_cast<Graph*>(executable)->calls) call();
  return asked();
}

/// A description is a context in the making.
int describe(void** description, cuda::DeviceResource* resources, unsigned count) {
  auto green = std::make_unique<GreenContext>(GreenContext{&gpu(), 0});
  for (unsigned i = 0; i < count; ++i) green->multiprocessors += int(resources[i].multiprocessors);
  const Held held(gpu().mutex);
  *description = green.get();
  gpu().greens.push_back(std::move(green));
  return 0;
}

void fill_green_contexts(cuda::Driver& d) {
  d.device_resource = [](int, cuda::DeviceResource* resource, int type) {
    resource->multiprocessors = unsigned(DoubleMachine::current().options.multiprocessors);
    return type == (resource->type = cuda::resource_multiprocessors) ? 0 : invalid_value;
  };
  d.split_resource = [](cuda::DeviceResource* parts, unsigned* count, const cuda::DeviceResource* whole,
                        cuda::DeviceResource* remaining, unsigned, unsigned least) {
    *count = std::min(*count, whole->multiprocessors / least);
    for (unsigned i = 0; i < *count; ++i) parts[i] = *whole, parts[i].multiprocessors = least;
    *remaining = *whole;
    remaining->multiprocessors -= *count * least;
    return 0;
  };
  d.describe_resources = describe;
  d.green_create = [](void** green, void* description, int, unsigned flags) {
    *green = description;
    return flags == cuda::green_default_stream ? 0 : invalid_value;
  };
  d.green_destroy = [](void* green) {
    Gpu& device = *static_cast<GreenContext*>(green)->gpu;
    const Held held(device.mutex);
    return std::erase_if(device.greens, [green](const auto& other) { return other.get() == green; }), 0;
  };
  d.context_of_green = [](void** context, void* green) { return *context = static_cast<GreenContext*>(green)->gpu, 0; };
  d.green_stream_create = [](void** stream, void* green, unsigned flags, int) {
    return create_stream_on(*static_cast<GreenContext*>(green)->gpu, stream, flags);
  };
}

int attribute(int* value, int which, int) {
  const MachineOptions& options = DoubleMachine::current().options;
  *value = which == cuda::attribute_major ? options.major : options.minor;
  return 0;
}

}  // namespace

Gpu*& current_gpu() {
  thread_local Gpu* current = nullptr;
  return current;
}

void Gpu::enqueue(Stream& stream, Operation operation) {
  if (stream.gpu != this) fail(fmt::format("GPU {}: {} on a stream of another GPU", ordinal, operation.name));
  operation.host = host;
  stream.queue.push_back(std::move(operation));
}

void Gpu::issue(std::function<void()> enqueues) {
  if (captured)
    captured->push_back(std::move(enqueues));
  else
    enqueues();
}

bool Gpu::touch(const void* pointer, size_t bytes, bool writes, const Toucher& by) {
  memory.touch(pointer, bytes, writes, by);
  return bytes == 0 || memory.holds(pointer, bytes);
}

/// Streams by who goes ahead: 0 computes, 1 communicates.
std::vector<Stream*> Gpu::order() {
  std::vector<Stream*> out;
  for (const auto& stream : streams) out.push_back(stream.get());
  switch (DoubleMachine::current().options.eager) {
    case Eager::compute:
      break;
    case Eager::communication:
      std::reverse(out.begin(), out.end());
      break;
    case Eager::random:
      std::shuffle(out.begin(), out.end(), random);
      break;
  }
  return out;
}

int Gpu::drain(Stream& wanted) {
  while (!wanted.queue.empty()) {
    if (!problem.empty()) return rule_broken;
    bool any = false, waits = false;
    for (Stream* stream : order()) {
      const Advance advanced = advance(*stream);
      any = advanced == Advance::done;
      waits = waits || advanced == Advance::waits;
      if (any) break;
    }
    if (any) continue;
    if (waits) return problem.empty() ? cuda::not_ready : rule_broken;
    fail(fmt::format("GPU {}: the streams wait for events that never come", ordinal));
  }
  return problem.empty() ? 0 : rule_broken;
}

Gpu::Advance Gpu::advance(Stream& stream) {
  if (stream.queue.empty()) return Advance::nothing;
  Operation& next = stream.queue.front();
  if (next.wait) {
    if (int(next.wait->records.size()) < next.version) return Advance::nothing;
    if (next.version > 0) join(stream.clock, next.wait->records[size_t(next.version) - 1]);
  }
  if (!next.begun) {
    join(stream.clock, next.host);
    ++stream.clock[size_t(stream.number)];
    next.begun = true;
  }
  if (next.record) next.record->records.push_back(stream.clock);
  if (next.run) {
    Toucher by{stream.number, stream.clock, 0, next.name};
    memory.begin(by);
    try {
      if (!next.run(by)) return problem.empty() ? Advance::waits : Advance::done;
    } catch (const std::exception& error) {
      fail(fmt::format("GPU {}: {}: {}", ordinal, next.name, error.what()));
    }
    if (!memory.problem().empty()) fail(fmt::format("GPU {}: {}", ordinal, memory.problem()));
  }
  stream.queue.pop_front();
  ++DoubleMachine::current().progress;
  return Advance::done;
}

void fill_driver(cuda::Driver& d) {
  d.init = [](unsigned) { return 0; };
  d.version = [](int* version) { return *version = DoubleMachine::current().options.driver_version, 0; };
  d.device_count = [](int* count) { return *count = DoubleMachine::current().options.gpus, 0; };
  d.device_get = [](int* device, int ordinal) {
    *device = ordinal;
    return ordinal < DoubleMachine::current().options.gpus ? 0 : 101;  // CUDA_ERROR_INVALID_DEVICE
  };
  d.device_name = [](char* name, int length, int) { return std::strncpy(name, "Double", size_t(length)), 0; };
  d.device_attribute = attribute;
  d.primary_context_retain = [](void** context, int device) {
    Gpu* retained = DoubleMachine::current().gpus.at(size_t(device)).get();
    ++retained->contexts;
    return *context = retained, 0;
  };
  d.primary_context_release = [](int device) {
    return --DoubleMachine::current().gpus.at(size_t(device))->contexts, 0;
  };
  d.context_set_current = [](void* context) { return current_gpu() = static_cast<Gpu*>(context), 0; };
  d.priority_range = [](int* least, int* greatest) { return *least = 0, *greatest = -5, 0; };
  d.module_load = load_module;
  d.module_unload = [](void* module) {
    const Held held(gpu().mutex);
    return --gpu().modules, delete static_cast<Module*>(module), 0;
  };
  d.module_function = find_function;
  d.launch = launch;
  d.allocate = allocate;
  d.free = [](DevicePointer pointer) {
    const Held held(gpu().mutex);
    return gpu().memory.free(address(pointer)) ? 0 : invalid_value;
  };
  d.memory_info = [](size_t* free, size_t* total) {
    return *free = gpu().memory.free_bytes(), *total = gpu().memory.capacity(), 0;
  };
  d.host_allocate = [](void** pointer, size_t bytes, unsigned) {
    return ++gpu().pinned, *pointer = ::malloc(bytes), 0;
  };
  d.host_free = [](void* pointer) { return --gpu().pinned, ::free(pointer), 0; };
  d.fill = [](DevicePointer pointer, unsigned char value, size_t bytes, void* handle) {
    Stream& stream = stream_of(handle);
    const Held held(stream.gpu->mutex);
    stream.gpu->enqueue(stream, {"fill", [pointer, value, bytes, device = stream.gpu](Toucher& by) {
                                   if (device->touch(address(pointer), bytes, true, by))
                                     std::memset(address(pointer), value, bytes);
                                   return true;
                                 }});
    return asked();
  };
  d.copy_to_device = [](DevicePointer to, const void* from, size_t bytes, void* stream) {
    return copy("copy to the device", stream, address(to), from, bytes);
  };
  d.copy_to_host = [](void* to, DevicePointer from, size_t bytes, void* stream) {
    return copy("copy to the host", stream, to, address(from), bytes);
  };
  d.copy_on_device = [](DevicePointer to, DevicePointer from, size_t bytes, void* stream) {
    return copy("copy on the device", stream, address(to), address(from), bytes);
  };
  d.stream_create = create_stream;
  d.stream_destroy = destroy_stream;
  d.stream_synchronize = synchronize;
  d.stream_query = query;
  d.stream_wait = wait;
  d.begin_capture = begin_capture;
  d.end_capture = end_capture;
  d.graph_instantiate = [](void** executable, void* graph, unsigned long long) {
    ++gpu().graphs;
    return *executable = new Graph(*static_cast<Graph*>(graph)), 0;
  };
  d.graph_launch = launch_graph;
  d.graph_executable_destroy = [](void* graph) { return --gpu().graphs, delete static_cast<Graph*>(graph), 0; };
  d.graph_destroy = [](void* graph) { return --gpu().graphs, delete static_cast<Graph*>(graph), 0; };
  d.event_create = [](void** event, unsigned) {
    auto* created = new Event;
    const Held held(gpu().mutex);
    gpu().events.insert(created);
    return *event = created, 0;
  };
  d.event_record = record;
  d.event_elapsed = [](float* milliseconds, void*, void*) { return *milliseconds = 1, 0; };
  d.event_destroy = [](void* event) {
    const Held held(gpu().mutex);
    gpu().events.erase(static_cast<Event*>(event));
    return delete static_cast<Event*>(event), 0;
  };
  d.error_text = error_text;
  fill_green_contexts(d);
}

}  // namespace hetsynth::testing_support
