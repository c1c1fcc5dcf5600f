// Rows that are added up at looked-up places, as the gradient of a table that tokens are looked up in: right text is
// accepted, and wrong text found, at sizes at which everything is executed and at which little is.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/codegen/harness.h"
#include "tests/source/fixture.h"
#include "tests/support/operator_plan.h"
#include "tests/support/plan_builder.h"

namespace hetsynth::test {
namespace {

struct Sizes {
  const char* name;
  int64_t rows, columns, places;
  std::vector<int64_t> bounds;  ///< of the places, by rank
};

/// out[v, c] = sum over i of values[i, c] where rows[i] is v; the places cut.
Generated scattering(const Sizes& sizes) {
  ProgramBuilder builder;
  builder.leaf("values", NodeKind::input, {sizes.rows, sizes.columns});
  builder.leaf("rows", NodeKind::input, {sizes.rows}, DType::i32);
  builder.general("out", "ic,i->vc", {"values", "rows"},
                  select(equal(Expr::input(1), Expr::factor(0)), Expr::input(0), 0.0), FactorKind::sum,
                  {{'v', sizes.places}});
  Program program = builder.program;
  program.outputs = {{"out", builder.id("out")}};
  return generated(program, split(program, 0, sizes.bounds), cpu_cluster(int(sizes.bounds.size()) - 1));
}

class Scatters : public ::testing::TestWithParam<Sizes> {};

TEST_P(Scatters, ThatAreRightPass) {
  const Generated g = scattering(GetParam());
  for (int rank = 0; rank < int(g.devices.size()); ++rank) {
    const SourceCheck found = check(g, rank);
    EXPECT_EQ(found.verdict, Verdict::proved) << found.summary << "\n" << g.devices[size_t(rank)].files[0].text;
  }
}

/// Columns, rows, offsets and bounds that are wrong by one, what is added only sometimes or not at all, and what is set
/// instead of added.
TEST_P(Scatters, ThatAreDamagedAreFound) {
  const Sizes& sizes = GetParam();
  const Generated g = scattering(sizes);
  for (int rank = 0; rank < int(g.devices.size()); ++rank) {
    const std::string& text = g.devices[size_t(rank)].files[0].text;
    const int64_t first = sizes.bounds[size_t(rank)], places = sizes.bounds[size_t(rank) + 1] - first;
    const auto number = [](int64_t n) { return std::to_string(n); };
    const std::string columns = number(sizes.columns), filled = number(places * sizes.columns),
                      guard = "(unsigned long)out_at_ < " + number(places), to = "out[c + out_at_ * " + columns + "]",
                      from = "values[i * " + columns + " + c]", adds = to + " += " + from;
    const std::pair<std::string, std::string> edits[] = {
        {to, "out[(c + 1) % " + columns + " + out_at_ * " + columns + "]"},
        {to, "out[" + number(sizes.columns - 1) + " - c + out_at_ * " + columns + "]"},
        {to, "out[c + out_at_ * " + columns + " * (out_at_ < 1)]"},
        {from, "values[i * " + columns + " + (c < 2 ? c : c - 1)]"},
        {from, "values[(i < 5 ? i : i - 1) * " + columns + " + c]"},
        {"rows[i]", "rows[i] + 1"},
        {"rows[i]", "rows[0]"},
        {"rows[i]", "rows[i / 2 * 2]"},
        {"i < " + number(sizes.rows), "i < " + number(sizes.rows - 1)},
        {"long i = 0", "long i = 1"},
        {"c < " + columns, "c < " + number(sizes.columns - 1)},
        {"int c = 0", "int c = 1"},
        {guard, guard + " && i != 4"},
        {guard, guard + " && out_at_ != 1"},
        {guard, guard + " && c != 2"},
        {guard, "(unsigned long)out_at_ < " + number(places - 1)},
        {guard, "(unsigned long)(out_at_ - 1) < " + number(places - 1)},
        {guard, "(unsigned long)out_at_ < " + number(places + 1)},
        {guard, "(unsigned long)(out_at_ + 1) < " + number(places + 1)},
        {"out_at_ * " + columns + "] += ", "out_at_ * " + columns + "] = "},
        {adds, to + " += " + from + " + out[(c + 1) % " + columns + " + out_at_ * " + columns + "]"},
        {adds, to + " += (i == 3 ? 2.0f : 1.0f) * " + from},
        {"fill(out, " + filled, "fill(out, " + number(places * sizes.columns - 1)},
        {filled + ", 0.0f", filled + ", 1.0f"}};
    for (const auto& [before, after] : edits) {
      const SourceCheck found = check(g, rank, replaced(text, "compute_out", before, after));
      EXPECT_EQ(found.verdict, Verdict::refuted)
          << "rank " << rank << ": " << before << " as " << after << ": " << found.summary;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Of, Scatters,
                         ::testing::Values(Sizes{"few", 6, 3, 5, {0, 2, 5}},
                                           Sizes{"many", 700, 96, 30000, {0, 9001, 30000}}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace hetsynth::test
