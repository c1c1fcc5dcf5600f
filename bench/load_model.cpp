// What loading a model file costs: with no precompiled header, with one, and with the model's object code cached as
// well.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <vector>

#include "dsl/frontend/model.h"
#include "hetsynth/build_paths.h"

namespace {
using namespace hetsynth;

struct Sample {
  double header = 0, compile = 0, link = 0, trace = 0, total = 0, cpu = 0;
};

Sample measure(const std::string& path, bool use_cache) {
  using Clock = std::chrono::steady_clock;
  auto seconds = [](Clock::time_point a, Clock::time_point b) { return std::chrono::duration<double>(b - a).count(); };
  const std::clock_t cpu_start = std::clock();
  auto start = Clock::now();
  auto model = load_model(path, {.use_cache = use_cache});
  auto loaded = Clock::now();
  auto trace = model->trace();
  auto end = Clock::now();
  const double cpu = double(std::clock() - cpu_start) / CLOCKS_PER_SEC;
  const LoadTimes& times = model->times();
  return {times.header_seconds, times.compile_seconds, times.link_seconds,
          seconds(loaded, end), seconds(start, end),   cpu};
}

/// Median of each column on its own; cpu is what the process used, whatever else the machine does.
void report(const char* what, const std::vector<Sample>& samples) {
  auto median = [&](double Sample::*column) {
    std::vector<double> values;
    for (const Sample& sample : samples) values.push_back(sample.*column);
    std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
    return values[values.size() / 2] * 1e3;
  };
  fmt::print("{:<34} {:>9.1f} {:>9.1f} {:>9.1f} {:>9.1f} {:>9.1f} {:>9.1f}   {} runs\n", what, median(&Sample::header),
             median(&Sample::compile), median(&Sample::link), median(&Sample::trace), median(&Sample::total),
             median(&Sample::cpu), samples.size());
}

}  // namespace

int main(int argc, char** argv) {
  const std::string path = argc > 1 ? argv[1] : HETSYNTH_SOURCE_DIR "/examples/gpt.cpp";
  const auto cache = std::filesystem::temp_directory_path() / fmt::format("hetsynth-bench-{}", ::getpid());
  ::setenv("HETSYNTH_CACHE_DIR", cache.c_str(), 1);
  try {
    std::vector<Sample> cold, warm, cached;
    for (int i = 0; i < 3; ++i) {
      std::filesystem::remove_all(cache);
      cold.push_back(measure(path, false));
    }
    for (int i = 0; i < 15; ++i) warm.push_back(measure(path, false));
    measure(path, true);
    for (int i = 0; i < 15; ++i) cached.push_back(measure(path, true));
    fmt::print("{}: medians in milliseconds\n{:<34} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}\n", path, "", "header",
               "compile", "link", "trace", "total", "cpu");
    report("precompiled header made", cold);
    report("precompiled header found", warm);
    report("object code found", cached);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    std::filesystem::remove_all(cache);
    return 1;
  }
  std::filesystem::remove_all(cache);
}
