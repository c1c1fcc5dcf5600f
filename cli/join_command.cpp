// hetsynth join: asks the supervisor of a run that goes on to take this host in.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "cli/command.h"
#include "cli/join_desk.h"
#include "dsl/base/version.h"
#include "pipeline/pipeline.h"
#include "runtime/cuda/cuda_backend.h"
#include "runtime/rank/arena.h"
#include "runtime/rank/interrupt.h"
#include "runtime/rank/notice.h"

namespace hetsynth::cli {
namespace {

struct JoinOptions {
  std::string host, address, checkpoint, cluster_file;
  double patience = 60;
  bool json = false;
};

constexpr std::chrono::milliseconds between_looks{200};

/// Throws UserError if this machine lacks what the cluster file says of the host.
void check_machine(const std::string& cluster_file, const std::string& host) {
  const Cluster cluster = load_cluster(cluster_file);
  std::vector<Device> gpus;
  int64_t memory = 0;
  for (const Device& device : cluster.devices) {
    if (device.name != host && cluster.hosts[size_t(device.host)].name != host) continue;
    if (device.kind == DeviceKind::cuda)
      gpus.push_back(device);
    else
      memory += device.memory_bytes;
  }
  for (Device& gpu : gpus) gpu.host = 0;
  if (!gpus.empty()) cuda::require_cuda(cuda::this_machine(), gpus);
  if (memory > usable_memory_bytes())
    throw UserError({.where = {cluster_file},
                     .tag = "join",
                     .message = fmt::format("this machine has less memory than the cpu devices of {} together", host),
                     .expected = text_of_bytes(memory),
                     .found = text_of_bytes(usable_memory_bytes()),
                     .mend = "run the command on the host that is to join, or describe it as it is: `hetsynth probe` "
                             "measures it"});
}

/// Hash of the model as it is on this host.
std::string program_here(const ElasticNotice& notice) {
  Compilation c;
  c.model_options.file = notice.model;
  for (const auto& [name, value] : notice.settings) c.model_options.set.push_back(name + "=" + value);
  run_pipeline(c, "differentiate", {});
  return hash_text(c.reference);
}

/// What has become of the request; nothing: nobody has read it. No supervisor runs any more: UserError.
std::optional<JoinAnswer> answer_to(const JoinOptions& options, const std::string& run, const std::string& id) {
  std::optional<ElasticNotice> now;
  try {
    now = read_notice(options.checkpoint);
  } catch (const UserError&) {  // told of below
  }
  if (!now || now->run != run)
    throw UserError({.where = {options.checkpoint},
                     .tag = "join",
                     .message = fmt::format("the run ended before {} could be taken in", options.host),
                     .mend = "start it again with `hetsynth elastic --resume`"},
                    ExitCode::failure);
  const auto found = std::ranges::find(now->answers, id, &JoinAnswer::request);
  return found == now->answers.end() ? std::nullopt : std::optional(*found);
}

ExitCode wait_for_answer(const JoinOptions& options, const ElasticNotice& run, const JoinTicket& ticket) {
  const InterruptGuard interrupt;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(options.patience);
  bool is_heard = false;
  for (bool asked_to_stop = false;; std::this_thread::sleep_for(between_looks)) {
    const std::optional<JoinAnswer> answer = answer_to(options, run.run, ticket.id());
    if (answer && answer->state == JoinAnswer::State::joined) {
      if (options.json)
        fmt::print(
            "{}\n",
            nlohmann::ordered_json{{"host", options.host}, {"step", answer->step}, {"model", run.model}}.dump(2));
      else
        fmt::print("{} takes part in the run from step {} on\n", options.host, answer->step);
      return ExitCode::done;
    }
    if (answer && answer->state == JoinAnswer::State::refused) throw UserError(answer->why, answer->code);
    if (answer && !is_heard) {
      is_heard = true;
      fmt::print(options.json ? stderr : stdout, "{} asks to join the run of {} on {}\n", options.host, run.model,
                 fmt::join(run.hosts, ", "));
      std::fflush(stdout);
    }
    if (interrupt.requested() && !asked_to_stop) {
      asked_to_stop = true;
      if (ticket.withdraw()) {
        notice("hetsynth: the request is withdrawn; the run goes on as it was\n");
        return stopped_early;
      }
      notice("hetsynth: the run takes {} in already; a second signal leaves it to that\n", options.host);
    }
    if (!is_heard && std::chrono::steady_clock::now() > deadline && ticket.withdraw())
      throw UserError({.where = {run.file},
                       .tag = "join",
                       .message = fmt::format("nobody has read the request within {} s", options.patience),
                       .expected = "the run goes on, and sees this folder",
                       .mend = "if it runs and is planning, give it more --patience; if it was killed, start it again "
                               "with --resume"},
                      ExitCode::failure);
  }
}

ExitCode join(JoinOptions options) {
  const ElasticNotice notice = read_notice(options.checkpoint);
  const std::string cluster_file =
      options.cluster_file.empty() ? notice.cluster_file : std::filesystem::absolute(options.cluster_file).string();
  JoinRequest request{.id = {},
                      .run = notice.run,
                      .version = tool_version(),
                      .program = notice.program,
                      .host = options.host,
                      .address = options.address,
                      .cluster_file = cluster_file};
  check_request(notice, request);  // what it says without a look at the model, which another version may read otherwise
  check_described(cluster_file, options.host, notice.hosts, notice.takes_devices);
  check_machine(cluster_file, options.host);
  request.program = program_here(notice);
  check_request(notice, request);
  return wait_for_answer(options, notice, JoinTicket(notice, request));
}

}  // namespace

Command add_join(CLI::App& app) {
  auto options = std::make_shared<JoinOptions>();
  CLI::App* command = app.add_subcommand(
      "join",
      "Ask a run that goes on to take this host in: one of hetsynth elastic stops after a step, and goes on from there "
      "with a plan for all; one of run --balance plan takes in devices of its own host");
  command->add_option("host", options->host, "Name of this host, or of the device, in the cluster file")->required();
  command->add_option("--checkpoint", options->checkpoint, "Checkpoint of the run, as this host sees it")
      ->type_name("FILE")
      ->required();
  command
      ->add_option("--cluster", options->cluster_file,
                   "Cluster file that describes this host beside those of the run; default: the run's own")
      ->type_name("FILE");
  command
      ->add_option("--address", options->address,
                   "What the run's launcher knows this host by; default: as before, or its name")
      ->type_name("NAME");
  command->add_option("--patience", options->patience, "Seconds in which the run's supervisor has to read the request")
      ->capture_default_str()
      ->check(at_least(1));
  command->add_flag("--json", options->json, "Report as JSON, when the run has taken the host in");
  return [options]() { return join(*options); };
}

}  // namespace hetsynth::cli
