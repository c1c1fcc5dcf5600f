#include "cli/crew.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <sstream>

#include "cli/started_process.h"
#include "dsl/base/counted.h"
#include "dsl/base/file.h"
#include "dsl/base/hash.h"
#include "runtime/training/checkpoint.h"

namespace hetsynth::cli {
namespace {

/// A host that does not answer for so long is lost.
constexpr std::chrono::seconds answer_within{20};

}  // namespace

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

const char* const mend_of_launcher = "install Open MPI, or name the launcher with --launcher";

bool answers(const Launcher& launcher, const std::string& address, const std::function<bool()>& stop) {
  std::vector<std::string> words = {launcher.program, "-np", "1", "--host", address, "true"};
  if (!launcher.alive_command.empty()) {
    std::string command = launcher.alive_command;
    for (size_t at = 0; (at = command.find("{}", at)) != std::string::npos; at += address.size())
      command.replace(at, 2, address);
    words = {"sh", "-c", command};
  }
  return run_to_the_end(words, mend_of_launcher, answer_within, stop) == 0;
}

std::vector<std::string> Crew::hosts() const {
  std::vector<std::string> out;
  for (const Place& place : places)
    if (!has(lost, place.name) && !has(apart, place.name)) out.push_back(place.name);
  return out;
}

std::vector<std::string> Crew::left_out() const {
  std::vector<std::string> out = lost;
  for (const std::string& name : apart)
    if (!has(out, name)) out.push_back(name);
  return out;
}

std::string Crew::address(const std::string& host) const {
  const auto place = std::ranges::find(places, host, &Place::name);
  return place == places.end() ? host : place->address;
}

void Crew::keep_apart(const std::string& host) {
  std::erase(lost, host);
  apart.push_back(host);
}

Crew crew_of(const std::string& cluster_file, const std::string& hosts_file, const std::vector<std::string>& apart) {
  Crew out{.cluster_file = cluster_file, .places = {}, .lost = {}, .apart = apart};
  for (const Host& host : load_cluster(cluster_file).hosts) out.places.push_back({host.name, host.name});
  if (hosts_file.empty()) return out;
  std::istringstream file(read_file(hosts_file, "hosts file", int64_t(1) << 20));
  std::vector<std::string> addresses;
  for (std::string line; std::getline(file, line);) {
    const std::string word = line.substr(0, line.find_first_of(" \t#"));
    if (!word.empty()) addresses.push_back(word);
  }
  if (addresses.size() != out.places.size())
    throw UserError({.where = {hosts_file},
                     .tag = "hosts",
                     .message = "the file has to name each host of the cluster file, in the same order",
                     .expected = counted(int64_t(out.places.size()), "line"),
                     .found = counted(int64_t(addresses.size()), "line"),
                     .mend = "write one address on a line"});
  for (size_t i = 0; i < addresses.size(); ++i) out.places[i].address = addresses[i];
  return out;
}

Crew with_host(const Crew& crew, const JoinRequest& request) {
  Crew out = with_hosts(crew, {request.host});
  std::erase(out.apart, request.host);
  out.cluster_file = request.cluster_file;
  out.places.clear();
  const Cluster cluster = load_cluster(request.cluster_file);
  // Hosts that are not used may be gone from the file.
  const auto is_gone = [&](const std::string& name) {
    return std::ranges::find(cluster.hosts, name, &Host::name) == cluster.hosts.end() &&
           std::ranges::find(cluster.devices, name, &Device::name) == cluster.devices.end();
  };
  std::erase_if(out.lost, is_gone);
  std::erase_if(out.apart, is_gone);
  for (const Host& host : cluster.hosts) {
    const bool is_known = std::ranges::find(crew.places, host.name, &Place::name) != crew.places.end();
    const bool joins = host.name == request.host;
    out.places.push_back({host.name, joins && !request.address.empty() ? request.address : crew.address(host.name)});
    if (!is_known && !joins) out.apart.push_back(host.name);
  }
  return out;
}

Crew with_hosts(Crew crew, const std::vector<std::string>& back) {
  std::erase_if(crew.lost, [&](const std::string& name) { return has(back, name); });
  return crew;
}

std::string hash_of_devices(const Crew& crew) {
  return content_hash(fmt::format("{}\n{}", fmt::join(crew.left_out(), "\n"),
                                  read_file(crew.cluster_file, "cluster file", max_cluster_file_bytes)));
}

PlannedRun plan_for(const CompilationInput& given, const std::string& checkpoint, const Crew& crew,
                    const std::string& file, const std::string& program, const std::function<bool()>& goes_on) {
  Compilation c;
  static_cast<CompilationInput&>(c) = given;
  c.cluster_file = crew.cluster_file;
  c.without = crew.left_out();
  if (goes_on) {
    c.embedded = true;
    c.progress = [&](const SynthesisProgress&) { return goes_on(); };
  }
  run_pipeline(c, "differentiate", {});
  PlannedRun out{.file = file,
                 .devices = hash_of_devices(crew),
                 .program = hash_text(c.reference),
                 .hosts = {},
                 .step_seconds = 0};
  if (!program.empty() && out.program != program)
    throw UserError({.where = {given.model_options.file},
                     .tag = "elastic",
                     .message = "the model was changed while the run goes on",
                     .expected = "a traced program with the hash " + program,
                     .found = out.program,
                     .mend = "put the file back that the run was started with, or start anew"});
  run_pipeline(c, "synthesize", {});
  check_checkpoint_target(checkpoint, c.reference);
  if (goes_on) {
    run_pipeline(c, "verify", {});
    if (c.verification.verdict != Verdict::proved)
      throw UserError({.tag = "elastic", .message = "the next plan is not proved: " + c.verification.summary},
                      ExitCode::unknown);
  }
  save_plan(file, c.plan, c.reference);
  out.step_seconds = c.plan.prediction.step_seconds;
  for (const Device& device : c.cluster.devices)
    if (const std::string& host = c.cluster.hosts[size_t(device.host)].name;
        out.hosts.empty() || out.hosts.back() != host)
      out.hosts.push_back(host);
  return out;
}

}  // namespace hetsynth::cli
