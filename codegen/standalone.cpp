#include "codegen/standalone.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <set>

#include "codegen/cpu/standalone_main.h"
#include "codegen/cuda/host/standalone_main.h"
#include "codegen/interface/device_program.h"
#include "codegen/text/context_text.h"
#include "dsl/base/output_file.h"
#include "dsl/spmd/hosts.h"

namespace hetsynth {
namespace {

/// Generated files begin with the same words whatever the model is: those of a rank up to its name, others with the
/// same line.
OutputKind kind_of(const SourceFile& file) {
  constexpr std::string_view of_rank = "raining step of ";
  const std::string first_line = file.text.substr(0, file.text.find('\n'));
  const size_t at = first_line.find(of_rank);
  return {"generated " + file.name,
          begins_with(at == first_line.npos ? first_line : first_line.substr(0, at + of_rank.size()))};
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out + "\"";
}

std::string list(const std::vector<int64_t>& values) {
  std::string out;
  for (int64_t v : values) out += fmt::format("{}{}", out.empty() ? "" : ", ", v);
  return "{" + out + "}";
}

/// How a leaf starts: 0 random integers below `value`, 1 the constant `value`, 2 normal of that deviation, 3 uniform of
/// that half-width. Inputs and data of the model are made up.
std::pair<int, double> start_of(const Node& node) {
  if (node.kind == NodeKind::input || is_constant_data(node)) {
    if (node.type.dtype == DType::i32) return {0, double(std::max<int64_t>(node.data.classes, 1))};
    return {2, 1.0};
  }
  switch (node.initializer.kind) {
    case Initializer::Kind::constant:
      return {1, node.initializer.value};
    case Initializer::Kind::normal:
      return {2, node.initializer.value};
    case Initializer::Kind::uniform:
      return {3, node.initializer.value};
    case Initializer::Kind::values:
      break;
  }
  return {1, 0.0};
}

std::string leaf_text(const Program& reference, const Slot& slot) {
  const Node& node = reference[slot.node];
  std::vector<int64_t> lo, hi;
  for (const Range& range : slot.ranges) {
    lo.push_back(range.lo);
    hi.push_back(range.hi);
  }
  auto [start, value] = start_of(node);
  return fmt::format("    {{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}}},\n", quoted(node.name), slot.node, start, value,
                     slot.offset_bytes, slot.dtype == DType::i32 ? 1 : 0, node.type.shape.size(), list(node.type.shape),
                     list(lo), list(hi));
}

/// Names of the kernels that a file defines, in the order of their numbers.
std::vector<std::string> kernel_names(const std::string& text) {
  const std::string mark = "__global__ void __launch_bounds__(";
  std::vector<std::string> out;
  for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + 1)) {
    const size_t begin = text.find(") ", at) + 2;
    out.push_back(text.substr(begin, text.find('(', begin) - begin));
  }
  return out;
}

std::string kernel_table(const DeviceProgram& device) {
  std::string out =
      "// The kernels by their numbers, as the host program launches them.\n"
      "static const void* const kernel_table[] = {\n";
  for (const std::string& name : kernel_names(device.files.at(1).text))
    out += fmt::format("    (const void*)&{},\n", name);
  return out + "};\n";
}

std::string tables(const Program& reference, const SpmdProgram& program, const Cluster& cluster,
                   const std::vector<DeviceProgram>& devices) {
  const bool cuda = devices.front().kind == DeviceKind::cuda;
  size_t most_dims = 1;
  for (const DeviceProgram& device : devices)
    for (const Slot& slot : device.leaves) most_dims = std::max(most_dims, slot.ranges.size());
  std::string out = fmt::format(
      R"(// Where each rank's tensors lie: name, number, how it starts (0 integers below, 1 constant, 2 normal, 3 uniform), with
// what value, offset in bytes, whether integer, dimensions, shape, and the part this rank holds.
#pragma once

{}
constexpr int most_dims = {};

struct Leaf {{
  const char* name;
  int number, start;
  double value;
  long offset;
  int integer, dims;
  long shape[most_dims], lo[most_dims], hi[most_dims];
}};

)",
      codegen::context_declaration(cuda), most_dims);
  std::vector<int64_t> axes;
  for (const Mesh::Axis& axis : program.mesh.axes) axes.push_back(axis.size);
  out += fmt::format(
      "constexpr int rank_count = {};\nconstexpr int axis_count = {};\nconstexpr int axis_sizes[] = {};\n\n",
      devices.size(), axes.size(), list(axes));
  std::string bytes, losses, counts, steps, names, gpus;
  for (const DeviceProgram& device : devices) {
    out += fmt::format("inline const Leaf leaves_of_rank{}[] = {{\n", device.rank);
    for (const Slot& slot : device.leaves) out += leaf_text(reference, slot);
    out += "};\n";
    std::string comma = device.rank ? ", " : "";
    bytes += fmt::format("{}{}", comma, device.arena_bytes);
    losses += fmt::format("{}{}", comma, device.loss.node >= 0 ? device.loss.offset_bytes : -1);
    counts += fmt::format("{}{}", comma, device.leaves.size());
    names += fmt::format("{}leaves_of_rank{}", comma, device.rank);
    gpus += fmt::format("{}{}", comma, cluster.devices.at(size_t(device.rank)).index);
    if (cuda) continue;
    steps += fmt::format("{}hetsynth_step_rank{}", comma, device.rank);
    out += fmt::format("extern \"C\" int hetsynth_step_rank{}(HetsynthContext*);\n\n", device.rank);
  }
  out += fmt::format(
      "inline const Leaf* const leaves[] = {{{}}};\nconstexpr int leaf_counts[] = {{{}}};\n"
      "constexpr long arena_bytes[] = {{{}}};\nconstexpr long loss_offsets[] = {{{}}};\n",
      names, counts, bytes, losses);
  if (cuda) {
    // Where no collective is hierarchical, all ranks count as one host.
    std::vector<int64_t> hosts(program.hosts.begin(), program.hosts.end()), levelled, sending;
    if (hosts.empty()) hosts.assign(devices.size(), 0);
    for (int axis : hierarchical_axes(program)) levelled.push_back(axis);
    levelled.push_back(-1);
    for (int axis : sending_axes(program)) sending.push_back(axis);
    sending.push_back(-1);
    return out + fmt::format(
                     "constexpr int gpu_of_rank[] = {{{}}};\nconstexpr int host_of_rank[] = {};\n"
                     "constexpr int levelled_axes[] = {};  // those of hierarchical collectives, then -1\n"
                     "constexpr int sending_axes[] = {};  // those along which stages send, then -1\n",
                     gpus, list(hosts), list(levelled), list(sending));
  }
  return out + fmt::format("inline int (*const steps[])(HetsynthContext*) = {{{}}};\n", steps);
}

std::string cmake_text(const std::vector<DeviceProgram>& devices) {
  std::string out =
      "# Builds the generated programs of all ranks into one executable that runs a training step on made-up inputs.\n"
      "cmake_minimum_required(VERSION 3.16)\nproject(step LANGUAGES CXX)\nset(CMAKE_CXX_STANDARD "
      "20)\nset(CMAKE_CXX_STANDARD_REQUIRED ON)\n"
      "if(NOT CMAKE_BUILD_TYPE)\n  set(CMAKE_BUILD_TYPE Release)\nendif()\nadd_compile_options(-O3 -march=native "
      "-fno-math-errno)\n"
      "find_package(Threads REQUIRED)\nadd_executable(step main.cpp";
  for (const DeviceProgram& device : devices) out += " " + device.files[0].name;
  out += ")\ntarget_link_libraries(step PRIVATE Threads::Threads)\n# Every rank's source defines hetsynth_step.\n";
  for (const DeviceProgram& device : devices)
    out += fmt::format(
        "set_source_files_properties({} PROPERTIES COMPILE_DEFINITIONS hetsynth_step=hetsynth_step_rank{})\n",
        device.files[0].name, device.rank);
  return out;
}

/// "80" from "sm_80".
std::string architecture_number(const std::string& architecture) {
  return architecture.starts_with("sm_") ? architecture.substr(3) : "80";
}

std::string cuda_cmake_text(const std::vector<DeviceProgram>& devices) {
  std::set<std::string> architectures;
  for (const DeviceProgram& device : devices) architectures.insert(architecture_number(device.architecture));
  std::string out = fmt::format(
      "# Builds one executable per rank, which runs a training step on its GPU on made-up inputs.\n"
      "cmake_minimum_required(VERSION 3.18)\nif(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)\n  set(CMAKE_CUDA_ARCHITECTURES "
      "{})\nendif()\nif(NOT CMAKE_BUILD_TYPE)\n  set(CMAKE_BUILD_TYPE Release)\nendif()\nproject(step LANGUAGES CXX "
      "CUDA)\nset(CMAKE_CXX_STANDARD 17)\nset(CMAKE_CUDA_STANDARD 17)\n",
      fmt::join(architectures, " "));
  if (devices.size() > 1) out += "find_library(NCCL nccl HINTS $ENV{CUDA_HOME}/lib64 REQUIRED)\n";
  for (const DeviceProgram& device : devices) {
    const std::string name = fmt::format("rank{}", device.rank);
    out += fmt::format(
        "add_executable({0} main.cu {1})\ntarget_compile_definitions({0} PRIVATE RANK={2} RANKS={3} KERNELS=\"{4}\" "
        "KERNEL_TABLE=\"{0}_kernel_table.h\")\n",
        name, device.files.at(0).name, device.rank, devices.size(), device.files.at(1).name);
    if (devices.size() > 1) out += fmt::format("target_link_libraries({} PRIVATE ${{NCCL}})\n", name);
  }
  return out;
}

}  // namespace

void write_standalone_project(const std::string& directory, const Program& reference, const SpmdProgram& program,
                              const Cluster& cluster) {
  std::filesystem::path folder(directory);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    throw UserError({.where = {directory}, .message = "the directory cannot be made", .found = error.message()},
                    ExitCode::failure);
  std::vector<DeviceProgram> devices;
  std::vector<SourceFile> files;
  bool all_cpu = true, all_cuda = true;
  for (int rank = 0; rank < program.mesh.device_count(); ++rank) {
    devices.push_back(generate(reference, program, cluster, rank));
    all_cpu = all_cpu && devices.back().kind == DeviceKind::cpu;
    all_cuda = all_cuda && devices.back().kind == DeviceKind::cuda;
    std::ranges::copy(devices.back().files, std::back_inserter(files));
  }
  if (all_cpu || all_cuda) files.push_back({"ranks.h", tables(reference, program, cluster, devices)});
  if (all_cuda) {
    for (const DeviceProgram& device : devices)
      files.push_back({fmt::format("rank{}_kernel_table.h", device.rank), kernel_table(device)});
    files.push_back({"main.cu", std::string(codegen::cuda::standalone_main)});
    files.push_back({"CMakeLists.txt", cuda_cmake_text(devices)});
  } else if (all_cpu) {
    files.push_back({"main.cpp", std::string(codegen::standalone_main)});
    files.push_back({"CMakeLists.txt", cmake_text(devices)});
  }
  // All or nothing: a folder of another project stays as it is.
  for (const SourceFile& file : files) check_output(folder / file.name, kind_of(file));
  for (const SourceFile& file : files) write_edited_output(folder / file.name, kind_of(file), file.text);
}

}  // namespace hetsynth
