// The search against a solver of integer programs that shares nothing with it: the planning network as a 0-1 program
// over values and pairs of values, solved by CBC (Debian: coinor-cbc). Skipped where that is not installed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "dsl/transform/differentiate.h"
#include "hetsynth/hetsynth.h"
#include "programs.h"
#include "synth/baselines/baselines.h"
#include "synth/network/plan_network.h"
#include "synth/network/search.h"

namespace bert_example {
#include "examples/bert.cpp"
}
namespace moe_example {
#include "examples/bert_moe.cpp"
}

namespace hetsynth {
namespace {

using namespace synth;

bool has_cbc() { return std::system("cbc -quit > /dev/null 2>&1") == 0; }

/// Nanoseconds: what CBC's tolerances can tell apart.
double scaled(Picoseconds cost) { return double(cost) * 1e-3; }

/// The network in CPLEX's LP format. Pairs are linearised by their local polytope: a variable per pair of values, whose
/// sums are the values' own.
std::string linear_format(const Network& network) {
  std::string objective, rows, binaries;
  auto value = [](int v, int x) { return fmt::format("x{}_{}", v, x); };
  for (int v = 0; v < network.variable_count(); ++v) {
    std::string sum;
    for (int x = 0; x < network.domain(v); ++x) {
      if (network.unary(v)[x] >= forbidden) continue;
      objective += fmt::format(" + {} {}\n", scaled(network.unary(v)[x]), value(v, x));
      sum += " + " + value(v, x);
      binaries += " " + value(v, x) + "\n";
    }
    rows += sum + " = 1\n";
  }
  int pairs = 0;
  for (const Network::Pair& pair : network.pairs()) {
    const Table& table = network.table(pair);
    const int columns = network.domain(pair.b), id = pairs++;
    std::vector<std::string> by_column(size_t(columns), "");
    for (int x = 0; x < network.domain(pair.a); ++x) {
      if (network.unary(pair.a)[x] >= forbidden) continue;
      std::string row;
      for (int y = 0; y < columns; ++y) {
        const Picoseconds cost = table[size_t(x * columns + y)];
        if (cost >= forbidden || network.unary(pair.b)[y] >= forbidden) continue;
        const std::string both = fmt::format("z{}_{}_{}", id, x, y);
        if (cost != 0) objective += fmt::format(" + {} {}\n", scaled(cost), both);
        row += " + " + both;
        by_column[size_t(y)] += " + " + both;
      }
      rows +=
          row.empty() ? fmt::format("{} = 0\n", value(pair.a, x)) : fmt::format("{} - {} = 0\n", row, value(pair.a, x));
    }
    for (int y = 0; y < columns; ++y)
      if (network.unary(pair.b)[y] < forbidden)
        rows += by_column[size_t(y)].empty() ? fmt::format("{} = 0\n", value(pair.b, y))
                                             : fmt::format("{} - {} = 0\n", by_column[size_t(y)], value(pair.b, y));
  }
  return "Minimize\n" + objective + "Subject To\n" + rows + "Binaries\n" + binaries + "End\n";
}

/// The least cost in nanoseconds by CBC; NaN if it found none.
double solved_by_cbc(const Network& network) {
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("hetsynth-mip-{}", ::getpid());
  std::filesystem::create_directory(folder);
  std::ofstream(folder / "network.lp") << linear_format(network);
  const std::string command = fmt::format(
      "cbc {0}/network.lp ratioGap 0 allowableGap 0 solve solution {0}/out.txt > {0}/log.txt 2>&1", folder.string());
  double cost = NAN;
  if (std::system(command.c_str()) == 0) {
    std::ifstream in(folder / "out.txt");
    std::string line;
    std::getline(in, line);  // "Optimal - objective value 123.4"
    if (line.starts_with("Optimal")) cost = std::strtod(line.substr(line.rfind(' ')).c_str(), nullptr);
  }
  std::filesystem::remove_all(folder);
  return cost;
}

void expect_equal(const Program& program) {
  if (!has_cbc()) GTEST_SKIP() << "cbc is not installed";
  const Cluster cluster = testing_support::cluster_of_speeds({1e12, 1e12, 2e12, 1e12}, 5e9, 1e-5);
  Problem problem(program, cluster);
  Shares shares = common_shares(problem.classes, fractions_of(problem, RatioRule::proportional));
  Conversions conversions(*problem.analysis, problem.cost, shares);
  const Solution solution = search(problem, conversions, shares, {}, {});
  ASSERT_TRUE(solution.search.optimal());
  const double least = solved_by_cbc(build_network(problem, conversions, shares, {}).network);
  EXPECT_NEAR(least, scaled(solution.cost), 1e-6 * least);
}

Program traced(const std::string& file, void (*model)()) {
  Trace trace(file, {{"size", "tiny"}});
  run_builder(trace, model);
  return differentiate(trace);
}

TEST(Mip, AgreesOnAPerceptron) { expect_equal(testing_support::mlp(64, {32, 64, 64, 48, 16})); }
TEST(Mip, AgreesOnBert) { expect_equal(traced("examples/bert.cpp", bert_example::model)); }
TEST(Mip, AgreesOnAMixtureOfExperts) { expect_equal(traced("examples/bert_moe.cpp", moe_example::model)); }

}  // namespace
}  // namespace hetsynth
