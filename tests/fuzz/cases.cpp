#include "tests/fuzz/cases.h"

#include <cmath>
#include <filesystem>
#include <set>

#include "dsl/base/error.h"
#include "dsl/base/file.h"
#include "dsl/spmd/plan.h"
#include "hetsynth/build_paths.h"
#include "tests/support/pipelined_plan.h"
#include "tests/support/plan_fixture.h"
#include "verify/certificate.h"

namespace hetsynth::testing {
namespace {

const Program& reference() {
  static const Program program = plan_test_program();
  return program;
}

void check_cluster(const Cluster& cluster) {
  HETSYNTH_CHECK(!cluster.devices.empty() && cluster.devices.size() <= size_t(max_cluster_devices), "device count");
  std::set<std::string> names;
  for (const Device& device : cluster.devices) {
    HETSYNTH_CHECK(names.insert(device.name).second, "names are unique");
    HETSYNTH_CHECK(device.host >= 0 && device.host < int(cluster.hosts.size()), "host");
    HETSYNTH_CHECK(device.memory_bytes > 0 && device.duty > 0 && device.duty <= 1, "memory and duty");
    HETSYNTH_CHECK(std::isfinite(device.matmul_flops_per_second()) && device.matmul_flops_per_second() > 0, "compute");
    HETSYNTH_CHECK(std::isfinite(device.memory_bytes_per_second()) && device.memory_bytes_per_second() > 0,
                   "memory bandwidth");
  }
  const Link link = cluster.slowest_link();
  HETSYNTH_CHECK(cluster.devices.size() == 1 || link.bandwidth_bytes_per_second > 0, "bandwidth");
  HETSYNTH_CHECK(hash_text(cluster).size() == 16, "hash");
}

/// What later stages do with a plan before it is proved: none of it may fail but with a UserError.
void use_program(const SpmdProgram& program) {
  for (int rank = 0; rank < program.mesh.device_count(); ++rank) {
    for (const Value& value : program.values)
      local_shape(program, value.placements, reference()[value.node].type.shape, rank);
    for (const Instruction& instruction : program.instructions)
      if (instruction.opcode == Opcode::compute)
        factor_ranges(program, reference()[instruction.node].space, instruction.splits, rank);
  }
  for (const Instruction& instruction : program.instructions) {
    std::string reason;
    if (instruction.opcode == Opcode::compute) infer_placements(program, reference(), instruction, &reason);
  }
  text(program, reference());
}

}  // namespace

bool check_cluster_bytes(std::string_view bytes) {
  try {
    check_cluster(parse_cluster(bytes, "fuzz.toml"));
    return true;
  } catch (const UserError& error) {
    HETSYNTH_CHECK(error.code() == ExitCode::invalid_input, error.what());
    return false;
  }
}

bool check_plan_bytes(std::string_view bytes) {
  try {
    const Plan plan = plan_from_json(bytes, "fuzz.json", reference());
    use_program(plan.program);
    const std::string json = plan_to_json(plan, reference());
    const Plan again = plan_from_json(json, "again.json", reference());
    HETSYNTH_CHECK(again.program == plan.program, "a plan that was taken comes back the same");
    HETSYNTH_CHECK(plan_to_json(again, reference()) == json, "its text too");
    return true;
  } catch (const UserError& error) {
    HETSYNTH_CHECK(error.code() == ExitCode::invalid_input, error.what());
    return false;
  }
}

std::vector<std::string> cluster_seeds() {
  std::set<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(HETSYNTH_SOURCE_DIR "/examples/clusters"))
    paths.insert(entry.path());
  std::vector<std::string> seeds;
  for (const std::string& path : paths) seeds.push_back(read_file(path, "cluster file", 1 << 20));
  return seeds;
}

std::vector<std::string> plan_seeds() {
  Plan staged = plan_test_plan(reference());
  staged.program = test::pipelined_plan(reference(), staged.program, 2);
  staged.devices.insert(staged.devices.end(),
                        {{"third", DeviceKind::cpu, "", ""}, {"fourth", DeviceKind::cpu, "", ""}});
  staged.ratios.clear();
  staged.prediction.devices.clear();
  BoundaryTable& rows = staged.program.tables[0];
  rows.by = 0;
  rows.rows = {rows.bounds, {0, 1, 6}};
  rows.bounds.clear();
  return {plan_to_json(plan_test_plan(reference()), reference()),
          plan_to_json(plan_test_detour(reference()), reference()), plan_to_json(staged, reference()),
          plan_to_json(plan_test_halo(reference()), reference())};
}

bool check_certificate_bytes(std::string_view bytes) {
  try {
    const Certificate certificate = certificate_from_json(bytes, "fuzz.json");
    const Certificate again = certificate_from_json(certificate_to_json(certificate), "again.json");
    HETSYNTH_CHECK(certificate_to_json(again) == certificate_to_json(certificate), "a certificate comes back the same");
    return true;
  } catch (const UserError& error) {
    HETSYNTH_CHECK(error.code() == ExitCode::invalid_input, error.what());
    return false;
  }
}

std::vector<std::string> certificate_seeds() {
  Certificate certificate;
  certificate.tool = "0.1.0";
  certificate.solver = "Z3 4.8.12";
  certificate.model_file = "model.cpp";
  certificate.model_hash = "0123456789abcdef";
  certificate.plan_hash = "0123456789abcdef0123456789abcdef";
  certificate.scope = {"arithmetic is that of the real numbers", "a \"quoted\" word"};
  certificate.obligations = {{"00ff", "h1", 12, 4}, {"11ee", "d_w1", 1, 6}};
  certificate.lemmas = {{"owner_exists", "22dd"}};
  return {certificate_to_json(certificate), certificate_to_json({})};
}

}  // namespace hetsynth::testing
