// What NVRTC's assembler says of the kernels it made: registers, shared memory, spills; and from the PTX, whether
// global memory is read and written 16 bytes at a time.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace hetsynth {

struct KernelReport {
  std::string name;
  int registers = 0;        ///< per thread
  int shared_bytes = 0;     ///< static, per block
  int spilled_bytes = 0;    ///< registers that were stored to and loaded from local memory
  int stack_bytes = 0;      ///< local arrays that were not kept in registers
  int wide_loads = 0;       ///< instructions of 16 bytes that read global memory
  int wide_stores = 0;      ///< the same that write it
  double milliseconds = 0;  ///< of the assembler
};

struct CompiledReport {
  std::vector<KernelReport> kernels;  ///< in the order of the source
  std::string problem;                ///< why there are none; empty if all went well
};

/// Compiles the source for an architecture such as "sm_80", bypassing nothing: results come from the disk cache if they
/// are there, times included. `problem` is set where NVRTC is missing or refuses.
CompiledReport report_kernels(std::string_view source, const std::string& name, const std::string& architecture);

/// Reads the assembler's report (--ptxas-options=-v).
std::vector<KernelReport> read_assembler_report(std::string_view log);
/// Adds the wide accesses of each entry of a PTX text.
void count_wide_accesses(std::string_view ptx, std::vector<KernelReport>& kernels);

}  // namespace hetsynth
