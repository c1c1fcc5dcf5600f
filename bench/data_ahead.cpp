// How long a step waits for its samples when they are made as it begins, and when they are made some steps ahead by
// other threads (runtime/data/data_ahead.h): networks of several sizes on one cpu device, with rows of jsonl and with
// npy files in the system's memory. Both ways take turns; figures are medians over all steps.
//   bench_data_ahead [STEPS]
#include "runtime/data/data_ahead.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include "dsl/base/new_file.h"
#include "dsl/transform/differentiate.h"
#include "hetsynth/hetsynth.h"
#include "runtime/data/batch_source.h"
#include "runtime/launch.h"
#include "runtime/rank/median.h"
#include "synth/baselines/baseline_plans.h"

namespace {

using namespace hetsynth;
namespace fs = std::filesystem;

constexpr int64_t rows = 4096, features = 12, classes = 5;

void network(int64_t batch, int64_t hidden) {
  const Tensor x = input("x", {batch, features}, f32), y = input("y", {batch}, i32, {.classes = classes});
  const Tensor h = tanh(matmul(x, parameter("w", {features, hidden}, normal(0.3))));
  minimize(cross_entropy(matmul(h, parameter("v", {hidden, classes}, normal(0.3))), y), SGD{.learning_rate = 0.01});
}

float feature(int64_t i) { return float(std::sin(double(i) * 0.7)); }

void write_rows(const fs::path& folder) {
  std::ofstream lines(folder / "rows.jsonl");
  for (int64_t row = 0; row < rows; ++row) {
    std::string x;
    for (int64_t f = 0; f < features; ++f) x += fmt::format("{}{:.4f}", f ? "," : "", feature(row * features + f));
    lines << fmt::format("{{\"x\":[{}],\"y\":{}}}\n", x, row % classes);
  }
}

template <class T>
void write_npy(const fs::path& path, const std::string& type, const std::string& shape, const std::vector<T>& values) {
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", type, shape);
  header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 10 - 1, ' ');
  header += '\n';
  std::ofstream file(path, std::ios::binary);
  file << std::string("\x93NUMPY\x01\x00", 8) << char(header.size() % 256) << char(header.size() / 256) << header;
  file.write(reinterpret_cast<const char*>(values.data()), std::streamsize(values.size() * sizeof(T)));
}

void write_arrays(const fs::path& folder) {
  std::vector<float> x;
  std::vector<int32_t> y;
  for (int64_t i = 0; i < rows * features; ++i) x.push_back(feature(i));
  for (int64_t row = 0; row < rows; ++row) y.push_back(int32_t(row % classes));
  write_npy(folder / "x.npy", "<f4", fmt::format("({}, {})", rows, features), x);
  write_npy(folder / "y.npy", "<i4", fmt::format("({},)", rows), y);
}

struct Found {
  std::vector<double> seconds, waits;
  std::string text() const {
    std::vector<double> shares;
    for (size_t i = 0; i < seconds.size(); ++i) shares.push_back(waits[i] / seconds[i]);
    return fmt::format("{:>9.1f} {:>8.2f} {:>7.2f} %", 1e6 * median(seconds), 1e6 * median(waits),
                       100 * median(shares));
  }
};

void take_steps(Executor& executor, const BatchSource& data, int64_t first, int64_t steps, Found& found) {
  for (int64_t step = first; step < first + steps; ++step) {
    const StepReport report = executor.step(step, data);
    found.seconds.push_back(report.seconds);
    found.waits.push_back(report.ranks[0].data_seconds);
  }
}

void compare(const std::string& path, int64_t batch, int64_t hidden, int64_t steps) {
  Trace trace("network.cpp");
  run_builder(trace, [&] { network(batch, hidden); });
  const Program program = differentiate(trace);
  const Cluster one = local_cluster(1);
  const std::unique_ptr<Executor> executor =
      launch(program, single_device_plan(program, one).program, one, LaunchOptions{});
  const std::unique_ptr<BatchSource> data = open_data(program, {.path = path});
  Found begins, ahead;
  constexpr int64_t turns = 10;
  // Every row is read once before.
  Found ignored;
  take_steps(*executor, *data, 0, rows / batch, ignored);
  for (int64_t turn = 0; turn < turns; ++turn) {
    const int64_t first = rows / batch + turn * steps / turns;
    take_steps(*executor, *data, first, steps / turns, begins);
    const DataAhead made(*data, first + steps / turns - 1);
    take_steps(*executor, made, first, steps / turns, ahead);
  }
  fmt::print("{:<7} {:>6} {:>7}   {}   {}\n", fs::is_directory(path) ? "npy" : "jsonl", batch, hidden, begins.text(),
             ahead.text());
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t steps = argc > 1 ? std::atoll(argv[1]) : 3000;
  const fs::path folder = make_temporary_folder("hetsynth_data_ahead_");
  write_rows(folder);
  fs::create_directory(folder / "arrays");
  write_arrays(folder / "arrays");
  fmt::print("                         made when asked for            made ahead\n");
  fmt::print("data     batch  hidden     step us  wait us   share     step us  wait us   share\n");
  for (const std::string& path : {(folder / "rows.jsonl").string(), (folder / "arrays").string()})
    for (const auto& [batch, hidden] : std::initializer_list<std::pair<int64_t, int64_t>>{
             {16, 32}, {64, 32}, {64, 256}, {64, 2048}, {1024, 32}, {1024, 256}})
      compare(path, batch, hidden, steps);
  fs::remove_all(folder);
}
