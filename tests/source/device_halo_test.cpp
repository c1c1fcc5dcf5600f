// Halo exchanges in the generated text of GPUs: it agrees with its plan, and one that was damaged does not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>

#include "synth/planner/synthesize.h"
#include "tests/source/fixture.h"
#include "tests/support/halo_plan.h"

namespace hetsynth::test {
namespace {

using ::testing::HasSubstr;

Generated generated_for_gpus(const Program& reference, const SpmdProgram& plan) {
  return generated_for_cuda(reference, plan, cuda_devices(std::vector<double>(size_t(plan.mesh.device_count()), 1e9)));
}
Generated divided(const Program& reference, const std::vector<int64_t>& bounds) {
  return generated_for_gpus(reference, divided_by_rows(reference, bounds));
}

const std::string& host_of(const Generated& g, int rank) { return g.devices[size_t(rank)].files.at(0).text; }
const std::string& kernels_of(const Generated& g, int rank) { return g.devices[size_t(rank)].files.at(1).text; }

void expect_agrees(const Generated& g) {
  for (int rank = 0; rank < int(g.devices.size()); ++rank) {
    const SourceCheck result = check(g, rank);
    EXPECT_EQ(result.verdict, Verdict::proved)
        << "rank " << rank << " line " << result.line << ": " << result.summary << "\n"
        << host_of(g, rank);
  }
}

class DeviceHalo : public ::testing::TestWithParam<HaloCase> {};

TEST_P(DeviceHalo, AgreesWithItsPlan) { expect_agrees(generated_for_gpus(GetParam().reference, GetParam().plan)); }

/// Where a group holds a cpu device the runtime carries the exchange out.
TEST_P(DeviceHalo, AgreesBesideACpuDevice) {
  const SpmdProgram& plan = GetParam().plan;
  Cluster mixed = cuda_devices(std::vector<double>(size_t(plan.mesh.device_count()), 1e9));
  mixed.devices[1].kind = DeviceKind::cpu;
  expect_agrees(generated_for_cuda(GetParam().reference, plan, mixed));
}

INSTANTIATE_TEST_SUITE_P(Cases, DeviceHalo, ::testing::ValuesIn(halo_cases()),
                         [](const auto& info) { return info.param.name; });

TEST(DeviceHalo, OfPlansOfTheSearchAgrees) {
  const Program program = network_of_one_image();
  for (const std::vector<double>& speeds : std::vector<std::vector<double>>{{2e8, 1e8}, {1e8, 5e8, 1e8, 1e8}}) {
    Cluster cluster = cuda_devices(speeds);
    cluster.hosts[0].inside = {1e8, 1e-9};
    for (size_t d = 0; d < speeds.size(); ++d) cluster.devices[d].declared = {speeds[d], speeds[d] / 10};
    const SpmdProgram plan = synthesize(program, cluster).program;
    EXPECT_GE(std::ranges::count(plan.instructions, Opcode::halo_exchange, &Instruction::opcode), 2);
    expect_agrees(generated_for_cuda(program, plan, cluster));
  }
}

/// Rows packed and unpacked, rank 1 of shares of 3, 1, 0 and 4 rows with 2 before and after: it gives to 0 and 3, and
/// takes from them.
const Generated& packed() {
  static const Generated g = divided(halo_cases()[4].reference, {0, 3, 4, 4, 8});
  return g;
}
/// Rows sent from where they are.
const Generated& in_place() {
  static const Generated g = divided(convolution_of_rows(1, 1), {0, 1, 4, 8});
  return g;
}

/// The text with the n-th match of the expression replaced; "$1" and the like stand for its parts.
std::string replaced(const std::string& text, const std::string& expression, const std::string& by, int n = 0) {
  const std::regex pattern(expression);
  std::sregex_iterator at(text.begin(), text.end(), pattern);
  for (; n > 0 && at != std::sregex_iterator(); --n) ++at;
  EXPECT_NE(at, std::sregex_iterator()) << expression << " is not in\n" << text;
  if (at == std::sregex_iterator()) return text;
  return text.substr(0, size_t(at->position())) + at->format(by) + text.substr(size_t(at->position() + at->length()));
}

struct Damage {
  std::string from, to;
  std::string found;  ///< words of what the check says
};

void expect_found(const Generated& g, int rank, const Damage& damage, bool kernels) {
  const std::string& text = kernels ? kernels_of(g, rank) : host_of(g, rank);
  const std::string changed = replaced(text, damage.from, damage.to);
  ASSERT_NE(changed, text) << damage.from;
  const SourceCheck result = kernels ? check_kernels(g, rank, changed) : check(g, rank, changed);
  EXPECT_EQ(result.verdict, Verdict::refuted) << damage.from << " -> " << damage.to << ": " << result.summary;
  EXPECT_THAT(result.summary, HasSubstr(damage.found)) << damage.from << " -> " << damage.to;
}

TEST(DeviceHalo, DamagedMessagesAreFound) {
  const Damage damages[] = {
      {"(ncclSend\\([^,]*, [0-9]+, nccl_float32, )0", "$011", "the peer of the halo_exchange"},
      {"(ncclRecv\\([^,]*, [0-9]+, nccl_float32, )3", "$012", "the peer of the halo_exchange"},
      {"(ncclSend\\([^,]*, )([0-9]+)", "$011$2", "the count of the halo_exchange"},
      {"(ncclRecv\\([^,]*, )([0-9]+)", "$011$2", "the count of the halo_exchange"},
      {"(ncclSend\\([^,]*, [0-9]+, )nccl_float32", "$01nccl_int32", "the type of the halo_exchange"},
      {"  if \\(ncclSend[^\n]*\n", "", "but takes ncclSend"},
      {"  if \\(ncclRecv[^\n]*\n", "", "but takes ncclSend"},
      {"(  if \\(ncclSend[^\n]*\n)(  if \\(ncclRecv[^\n]*\n)", "$2$1", "but takes ncclSend"},
      {"  if \\(ncclGroupStart\\(\\)\\) return 1;\n([^\n]*\n)([^\n]*\n)([^\n]*\n)([^\n]*\n)[^\n]*\n", "$1$2$3$4",
       "but takes ncclSend"},
  };
  for (const Damage& damage : damages) expect_found(packed(), 1, damage, false);
}

/// Another place is what another rank's rows, or none, come from or go to.
TEST(DeviceHalo, DamagedPlacesAreFound) {
  const Damage of_packed[] = {
      {"(ncclSend\\(arena \\+ )([0-9]+)", "$010", ""},
      {"(ncclSend\\(arena \\+ [^\n]*\n[^\n]*\n[^\n]*ncclSend\\(arena \\+ )([0-9]+)", "$010", "place of a piece"},
      {"(ncclRecv\\(arena \\+ [^\n]*\n[^\n]*\n[^\n]*ncclRecv\\(arena \\+ )([0-9]+)", "$010", "place of a piece"},
      {"(kernel_pack_x, [0-9]+, [0-9]+, )x, (arena \\+ [0-9]+)", "$01w, $2", ""},
      {"(kernel_unpack_[a-z_0-9]+, [0-9]+, [0-9]+, arena \\+ )([0-9]+), x,", "$010, x,", ""},
  };
  for (const Damage& damage : of_packed) expect_found(packed(), 1, damage, false);
  const Damage of_rows[] = {
      {"ncclSend\\((x) \\+ 12", "ncclSend($1 + 6", "place of a piece"},
      {"ncclRecv\\(([a-z_0-9]+) \\+ 24", "ncclRecv($1 + 18", "place of a piece"},
      {"ncclRecv\\(([a-z_0-9]+), 6,", "ncclRecv($1 + 6, 6,", "place of a piece"},
      {"  if \\(hetsynth_device_copy\\([^\n]*\n", "", "the own part within the halo_exchange of x"},
      {"(hetsynth_device_copy\\(context, communication_stream, [a-z_0-9]+ \\+ )6", "$0112",
       "the own part within the halo_exchange of x"},
  };
  for (const Damage& damage : of_rows) expect_found(in_place(), 1, damage, false);
}

/// The own part is copied out of a tensor that lies whole.
TEST(DeviceHalo, DamagedCopiesOfSlicesAreFound) {
  static const std::vector<HaloCase> cases = halo_cases();
  const auto one = std::ranges::find(cases, "slices_of_1", &HaloCase::name);
  ASSERT_NE(one, cases.end());
  const Generated g = generated_for_gpus(one->reference, one->plan);
  const std::string copy = "(hetsynth_device_copy\\(context, communication_stream, [a-z_0-9]+ \\+ 6, x_2";
  const Damage damages[] = {
      {copy + "), 96", "$01 + 6, 96", "the operand of the halo_exchange of x should be at byte"},
      {copy + "), 96", "$01, 72", "no value of the program begins there"},
  };
  for (const Damage& damage : damages) expect_found(g, 1, damage, false);
  expect_found(g, 0, {"(ncclSend\\()x_2, 6", "$01x_2 + 6, 6", "the operand of the halo_exchange of x"}, false);
}

TEST(DeviceHalo, WrongRowsInKernelsAreFound) {
  // Rank 0 gives rows 1 and 2 to rank 1, and row 2 to rank 3.
  const std::string pack = "(\\) pack_x\\([^}]*?", unpack = "(\\) unpack_x_[a-z_0-9]+\\([^}]*?";
  const Damage of_pack[] = {
      {"first = )1, last = 3", "$010, last = 2", "the operand of the halo_exchange of x"},
      {"first = )2, last = 3", "$011, last = 2", "the operand of the halo_exchange of x"},
      {"\\(row \\* )3 ", "$012 ", "the operand of the halo_exchange of x"},
      {"\\) \\* 5 \\+ )lane", "$010", "the operand of the halo_exchange of x"},
  };
  for (const Damage& d : of_pack) expect_found(packed(), 0, {pack + d.from, d.to, d.found}, true);
  const Damage of_unpack[] = {
      {"start = )20", "$010", "is nothing the program computes"},
      {"first = )3, last = 5", "$012, last = 5", "is nothing the program computes"},
      {"column >= )2", "$011", "is nothing the program computes"},
      {"column < )3( \\?)", "$014$2", "is nothing the program computes"},
      {"column - first\\) \\* 5 \\+ )lane", "$01(4 - lane)", "is nothing the program computes"},
  };
  for (const Damage& d : of_unpack) expect_found(packed(), 1, {unpack + d.from, d.to, d.found}, true);
}

}  // namespace
}  // namespace hetsynth::test
