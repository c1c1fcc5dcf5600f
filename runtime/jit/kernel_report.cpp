#include "runtime/jit/kernel_report.h"

#include <algorithm>
#include <cstdlib>
#include <regex>

#include "runtime/jit/nvrtc.h"

namespace hetsynth {
namespace {

/// The number before `unit` in the line: "Used 32 registers, 512 bytes smem"; 0 if the line does not say.
double number_before(const std::string& line, const std::string& unit) {
  std::smatch match;
  const std::regex pattern("([0-9.]+) " + unit);
  return std::regex_search(line, match, pattern) ? std::strtod(match[1].str().c_str(), nullptr) : 0.0;
}

/// Calls `visit` with each line, without its end.
template <class Visit>
void each_line(std::string_view text, const Visit& visit) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    visit(std::string(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace

std::vector<KernelReport> read_assembler_report(std::string_view log) {
  std::vector<KernelReport> out;
  static const std::regex entry("Compiling entry function '([^']+)'");
  each_line(log, [&](const std::string& line) {
    std::smatch match;
    if (std::regex_search(line, match, entry)) {
      out.push_back({});
      out.back().name = match[1];
    }
    if (out.empty()) return;
    KernelReport& kernel = out.back();
    if (line.find("stack frame") != std::string::npos) {
      kernel.stack_bytes = int(number_before(line, "bytes stack frame"));
      kernel.spilled_bytes = int(number_before(line, "bytes spill stores") + number_before(line, "bytes spill loads"));
    }
    if (line.find(" registers") != std::string::npos) {
      kernel.registers = int(number_before(line, "registers"));
      kernel.shared_bytes = int(number_before(line, "bytes smem"));
    }
    static const std::regex time("Compile time = ([0-9.]+) ms");
    if (std::regex_search(line, match, time)) kernel.milliseconds = std::strtod(match[1].str().c_str(), nullptr);
  });
  return out;
}

void count_wide_accesses(std::string_view ptx, std::vector<KernelReport>& kernels) {
  KernelReport* kernel = nullptr;
  static const std::regex entry("\\.entry ([A-Za-z0-9_$]+)");
  each_line(ptx, [&](const std::string& line) {
    std::smatch match;
    if (std::regex_search(line, match, entry)) {
      const auto found =
          std::find_if(kernels.begin(), kernels.end(), [&](const KernelReport& k) { return k.name == match[1].str(); });
      kernel = found == kernels.end() ? nullptr : &*found;
    }
    if (!kernel || line.find(".v4.") == std::string::npos) return;
    if (line.find("ld.global") != std::string::npos) ++kernel->wide_loads;
    if (line.find("st.global") != std::string::npos) ++kernel->wide_stores;
  });
}

CompiledReport report_kernels(std::string_view source, const std::string& name, const std::string& architecture) {
  CompiledReport out;
  const CudaCode code = compile_cuda(source, name, architecture, {"--ptxas-options=-v"});
  const CudaCode ptx = compile_cuda(source, name, "compute_" + architecture.substr(architecture.find('_') + 1));
  if (!code.ok() || !ptx.ok()) {
    out.problem = code.ok() ? ptx.log : code.log;
    return out;
  }
  out.kernels = read_assembler_report(code.log);
  // The assembler reports them in an order of its own.
  const auto place = [&](const KernelReport& kernel) { return source.find(" " + kernel.name + "("); };
  std::sort(out.kernels.begin(), out.kernels.end(),
            [&](const KernelReport& a, const KernelReport& b) { return place(a) < place(b); });
  count_wide_accesses(ptx.cubin, out.kernels);
  return out;
}

}  // namespace hetsynth
