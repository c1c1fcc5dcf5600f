#include "dsl/spmd/hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "dsl/base/error.h"

namespace hetsynth {

std::vector<int64_t> GroupHosts::by_coordinate() const {
  std::vector<int64_t> out;
  for (int h = 0; h < count(); ++h) out.insert(out.end(), size_t(members(h)), h);
  return out;
}

int GroupHosts::host_of(int coordinate) const {
  return int(std::ranges::upper_bound(first, coordinate) - first.begin()) - 1;
}

GroupHosts hosts_of_group(const Mesh& mesh, const std::vector<int>& hosts, int axis, int rank) {
  HETSYNTH_CHECK(hosts.size() == size_t(mesh.device_count()), "the program knows its hosts");
  std::vector<int64_t> by_coordinate;
  for (int member : mesh.group(rank, axis)) by_coordinate.push_back(hosts[size_t(member)]);
  return hosts_by_coordinate(by_coordinate, mesh.coordinate(rank, axis));
}

GroupHosts hosts_by_coordinate(std::span<const int64_t> hosts, int coordinate) {
  GroupHosts out;
  for (size_t i = 0; i < hosts.size(); ++i) {
    if (i == 0 || hosts[i] != hosts[i - 1]) out.first.push_back(int(i));
    if (int(i) == coordinate) out.host = out.count();
  }
  out.first.push_back(int(hosts.size()));
  return out;
}

std::vector<int64_t> bounds_by_host(const GroupHosts& hosts, std::span<const int64_t> bounds) {
  std::vector<int64_t> out;
  for (int coordinate : hosts.first) out.push_back(bounds[size_t(coordinate)]);
  return out;
}

bool has_levels(Opcode opcode) {
  return opcode == Opcode::all_reduce || opcode == Opcode::all_gather || opcode == Opcode::reduce_scatter ||
         opcode == Opcode::all_to_all || opcode == Opcode::broadcast;
}

std::string why_not_hierarchical(const SpmdProgram& program, const Instruction& instruction) {
  const std::string what =
      fmt::format("{} over {}", name(instruction.opcode), program.mesh.axes.at(size_t(instruction.axis)).name);
  if (!has_levels(instruction.opcode))
    return fmt::format(
        "{} has no hierarchical form: all_reduce, all_gather, reduce_scatter, all_to_all and broadcast have", what);
  const bool reduces = instruction.opcode == Opcode::all_reduce || instruction.opcode == Opcode::reduce_scatter;
  if (reduces && instruction.reduce == ReduceOp::average)
    return fmt::format(
        "{} takes the average: averages of hosts with unequal numbers of devices do not give that of all", what);
  if (program.hosts.size() != size_t(program.mesh.device_count()))
    return fmt::format("{} is hierarchical, but the plan does not say which devices share a host", what);
  bool several = false, shared = false;
  for (int rank = 0; rank < program.mesh.device_count(); ++rank) {
    if (program.mesh.coordinate(rank, instruction.axis) != 0) continue;
    const GroupHosts hosts = hosts_of_group(program, instruction.axis, rank);
    several = several || hosts.count() > 1;
    for (int h = 0; h < hosts.count(); ++h) shared = shared || hosts.members(h) > 1;
  }
  if (!several) return fmt::format("{} is hierarchical, but each of its groups lies on one host", what);
  if (!shared) return fmt::format("{} is hierarchical, but no host holds two devices of a group", what);
  return "";
}

std::vector<int> hierarchical_axes(const SpmdProgram& program) {
  std::set<int> axes;
  for (const Instruction& i : program.instructions)
    if (i.realisation == Realisation::hierarchical && communicates(i.opcode)) axes.insert(i.axis);
  return {axes.begin(), axes.end()};
}

std::vector<int> sending_axes(const SpmdProgram& program) {
  std::set<int> axes;
  for (const Instruction& i : program.instructions)
    if (i.opcode == Opcode::send) axes.insert(i.axis);
  return {axes.begin(), axes.end()};
}

}  // namespace hetsynth
