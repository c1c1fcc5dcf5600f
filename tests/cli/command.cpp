#include "tests/cli/command.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "hetsynth/build_paths.h"

namespace hetsynth::testing {
namespace fs = std::filesystem;

std::string mpirun(int processes) {
  return "env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe --bind-to none -np " +
         std::to_string(processes);
}

std::string everywhere(std::string text, const std::string& from, const std::string& to) {
  // What was put in is not looked at again: it may have `from` in it.
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

const char* const small_model = R"(#include "hetsynth/hetsynth.h"
using namespace hetsynth;

void model() {
  int64_t batch = option("batch", 12, "samples per step");
  auto [x, labels] = synthetic_batch(batch, 6, 3);
  Tensor w1 = parameter("w1", {6, 16}, normal(0.3));
  Tensor h = relu(matmul(x, w1));
  Tensor w2 = parameter("w2", {16, 3}, normal(0.3));
  Tensor loss = cross_entropy(matmul(h, w2), labels);
  minimize(loss, SGD{.learning_rate = 0.1});
}
)";

const char* const small_text_model = R"(#include "hetsynth/hetsynth.h"
using namespace hetsynth;
void model() {
  auto [bytes, next] = text_next_byte(4, 2);
  Tensor x = reshape(embedding(parameter("table", {256, 4}, normal(0.3)), bytes), {4, 8});
  minimize(cross_entropy(matmul(x, parameter("w", {8, 256}, normal(0.3))), next), SGD{});
}
)";

const char* const small_cluster = R"(name = "small"
[[host]]
inside = { bandwidth = "5 GB/s", latency = "20 us" }
[[host.device]]
name = "fast"
kind = "cpu"
memory = "1 GiB"
declared = { matmul = "60 GFLOP/s", memory_bandwidth = "10 GB/s" }
[[host.device]]
name = "slow"
kind = "cpu"
memory = "1 GiB"
declared = { matmul = "30 GFLOP/s", memory_bandwidth = "10 GB/s" }
)";

Workplace::Workplace() {
  std::string pattern = (fs::temp_directory_path() / "hetsynth_cli_XXXXXX").string();
  if (!::mkdtemp(pattern.data())) throw std::runtime_error("no temporary folder");
  folder_ = pattern;
  write("model.cpp", small_model);
  write("c.toml", small_cluster);
}

Workplace::~Workplace() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

void Workplace::write(const std::string& name, std::string_view text) const { std::ofstream(folder_ / name) << text; }

std::string Workplace::read(const std::string& name) const {
  std::stringstream text;
  text << std::ifstream(folder_ / name).rdbuf();
  return text.str();
}

Outcome Workplace::run(const std::string& arguments, const std::string& launcher, const std::string& name) const {
  // One cache for all tests, so that the header is compiled once.
  const std::string command = "cd '" + folder_.string() +
                              "' && HETSYNTH_CACHE_DIR='" HETSYNTH_BINARY_DIR "/test-cache' exec timeout 300 " +
                              launcher + " '" HETSYNTH_BINARY_DIR "/hetsynth' " + arguments + " >" + name + ".out 2>" +
                              name + ".err </dev/null";
  const int status = std::system(command.c_str());
  Outcome outcome;
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome.out = read(name + ".out");
  outcome.err = read(name + ".err");
  return outcome;
}

}  // namespace hetsynth::testing
