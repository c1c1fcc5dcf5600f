#include "cli/join_desk.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "dsl/base/file.h"
#include "dsl/base/json_tree.h"
#include "dsl/base/output_file.h"
#include "dsl/base/version.h"
#include "dsl/cluster/cluster.h"
#include "runtime/rank/notice.h"

namespace hetsynth::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// Notices and requests begin with it.
constexpr const char* marker = "hetsynth";
constexpr const char* notice_begin = "{\n \"hetsynth\": \"elastic\"";
const OutputKind notice_kind{"notice of hetsynth elastic", begins_with(notice_begin)};
const OutputKind request_kind{"request of hetsynth join", begins_with("{\n \"hetsynth\": \"join\"")};

constexpr int64_t most_bytes = 1 << 20;

/// So many answers are kept, the last ones: whoever asked reads its own within a second.
constexpr size_t most_answers = 64;

constexpr size_t digits_of_id = 16;

const std::map<std::string, JoinAnswer::State> states = {{"waiting", JoinAnswer::State::waiting},
                                                         {"joined", JoinAnswer::State::joined},
                                                         {"refused", JoinAnswer::State::refused}};

std::string name_of(JoinAnswer::State state) {
  return std::ranges::find(states, state, &std::pair<const std::string, JoinAnswer::State>::second)->first;
}

std::string new_id() {
  std::random_device source;
  return fmt::format("{:08x}{:08x}", source(), source());
}

/// False also where the system does not say.
bool is_there(const std::string& file) {
  std::error_code ignored;
  return fs::exists(file, ignored);
}

std::string file_of_notice(const std::string& checkpoint, bool takes_devices) {
  return checkpoint + (takes_devices ? ".balance" : ".elastic");
}

std::string file_of_request(const ElasticNotice& notice, const std::string& id) { return notice.file + "." + id; }

Json to_json(const JoinAnswer& answer) {
  Json out{{"request", answer.request}, {"state", name_of(answer.state)}, {"step", answer.step}};
  const Diagnostic& why = answer.why;
  out["why"] = {{"file", why.where.file},   {"line", why.where.line}, {"tag", why.tag},  {"message", why.message},
                {"expected", why.expected}, {"found", why.found},     {"mend", why.mend}};
  out["code"] = int(answer.code);
  return out;
}

JoinAnswer read_answer(const JsonReader& in) {
  JoinAnswer out;
  out.request = in.member("request").string();
  const std::string state = in.member("state").string();
  if (!states.contains(state)) in.member("state").fail("no such state", "waiting, joined or refused", state);
  out.state = states.at(state);
  out.step = in.member("step").integer(0, int64_t(1) << 60);
  const JsonReader why = in.member("why");
  const auto text = [&](const char* key) { return why.member(key).string(); };
  out.why = {.where = {text("file"), int(why.member("line").integer(0, 1 << 30))},
             .tag = text("tag"),
             .message = text("message"),
             .expected = text("expected"),
             .found = text("found"),
             .mend = text("mend")};
  out.code = ExitCode(in.member("code").integer(0, 255));
  return out;
}

std::string to_text(const ElasticNotice& notice) {
  Json out{{marker, "elastic"},
           {"run", notice.run},
           {"version", notice.version},
           {"model", notice.model},
           {"settings", notice.settings},
           {"program", notice.program},
           {"cluster", notice.cluster_file},
           {"takes_devices", notice.takes_devices},
           {"hosts", notice.hosts}};
  out["answers"] = Json::array();
  for (const JoinAnswer& answer : notice.answers) out["answers"].push_back(to_json(answer));
  return out.dump(1) + "\n";
}

std::string to_text(const JoinRequest& request) {
  return Json{{marker, "join"},
              {"run", request.run},
              {"version", request.version},
              {"program", request.program},
              {"host", request.host},
              {"address", request.address},
              {"cluster", request.cluster_file}}
             .dump(1) +
         "\n";
}

JoinRequest read_request(const std::string& file) {
  const JsonNode document = parse_json(read_file(file, "request to join", most_bytes), file, "join");
  const JsonReader in(document, file, "");
  const auto text = [&](const char* key) { return in.member(key).string(); };
  return {.id = {},
          .run = text("run"),
          .version = text("version"),
          .program = text("program"),
          .host = text("host"),
          .address = text("address"),
          .cluster_file = text("cluster")};
}

UserError refusal(Diagnostic why, ExitCode code = ExitCode::invalid_input) {
  why.tag = "join";
  return UserError(std::move(why), code);
}

}  // namespace

ElasticNotice read_notice(const std::string& checkpoint) {
  std::string file = file_of_notice(checkpoint, /*takes_devices=*/false);
  if (!is_there(file)) file = file_of_notice(checkpoint, /*takes_devices=*/true);
  if (!is_there(file))
    throw refusal(
        {.where = {checkpoint},
         .message = "no run that takes in hosts goes on with this checkpoint",
         .expected = fmt::format("{}, which `hetsynth elastic` writes while it runs, or {} of `run --balance plan`",
                                 file_of_notice(checkpoint, /*takes_devices=*/false), file),
         .mend = "name the checkpoint as the run was given it, by a path that this host sees too"});
  const std::string contents = read_file(file, "notice of hetsynth elastic", most_bytes);
  if (!contents.starts_with(notice_begin))
    throw refusal({.where = {file},
                   .message = "this file does not come from a run that takes in hosts",
                   .expected = "what `hetsynth elastic` or `run --balance plan` writes while it runs",
                   .mend = "remove it if nobody needs it, and name the checkpoint of a run that goes on"});
  const JsonNode document = parse_json(contents, file, "join");
  const JsonReader in(document, file, "");
  const auto text = [&](const char* key) { return in.member(key).string(); };
  ElasticNotice out{.file = file,
                    .run = text("run"),
                    .version = text("version"),
                    .model = text("model"),
                    .settings = {},
                    .program = text("program"),
                    .cluster_file = text("cluster"),
                    .takes_devices = in.member("takes_devices").boolean(),
                    .hosts = {},
                    .answers = {}};
  for (const JsonReader& setting : in.member("settings").members()) out.settings[setting.key()] = setting.string();
  for (const JsonReader& host : in.member("hosts").elements()) out.hosts.push_back(host.string());
  for (const JsonReader& answer : in.member("answers").elements()) out.answers.push_back(read_answer(answer));
  return out;
}

void check_request(const ElasticNotice& notice, const JoinRequest& request) {
  if (request.run != notice.run)
    throw refusal({.message = "the run that the host wants to join has ended, and another goes on with its checkpoint",
                   .mend = "run the command again"},
                  ExitCode::failure);
  if (request.version != notice.version)
    throw refusal({.message = fmt::format("{} has another version of hetsynth than the run", request.host),
                   .expected = notice.version,
                   .found = request.version,
                   .mend = fmt::format("install version {} on the host", notice.version)});
  if (request.program != notice.program)
    throw refusal({.where = {notice.model},
                   .message = fmt::format("the model is another one on {} than that of the run", request.host),
                   .expected = "a traced program with the hash " + notice.program,
                   .found = request.program,
                   .mend = "give the host the file that the run was started with, or start the run anew"});
  if (std::ranges::find(notice.hosts, request.host) != notice.hosts.end())
    throw refusal({.message = "a host of this name takes part in the run already",
                   .expected = fmt::format("a host besides {}", fmt::join(notice.hosts, ", ")),
                   .found = request.host,
                   .mend = "name the host that is to join as the cluster file does"},
                  ExitCode::usage);
}

void check_described(const std::string& cluster_file, const std::string& host, const std::vector<std::string>& others,
                     bool devices) {
  const Cluster cluster = load_cluster(cluster_file);
  std::vector<std::string> names;
  for (const Host& described : cluster.hosts) names.push_back(described.name);
  if (devices)
    for (const Device& described : cluster.devices) names.push_back(described.name);
  const auto has = [&](const std::string& name) { return std::ranges::find(names, name) != names.end(); };
  if (!has(host))
    throw refusal({.where = {cluster_file},
                   .message = "the cluster file does not describe the host that is to join",
                   .expected = fmt::format("one of {}", fmt::join(names, ", ")),
                   .found = host,
                   .mend = "describe the host in a cluster file beside those of the run, and give it with --cluster"});
  for (const std::string& other : others)
    if (!has(other))
      throw refusal({.where = {cluster_file},
                     .message = "the cluster file has to describe the hosts of the run as well",
                     .expected = fmt::format("{} and {}", fmt::join(others, ", "), host),
                     .found = fmt::format("{}", fmt::join(names, ", ")),
                     .mend = "add the host that is to join to a copy of the run's cluster file"});
}

JoinTicket::JoinTicket(const ElasticNotice& notice, const JoinRequest& request)
    : id_(new_id()), file_(file_of_request(notice, id_)) {
  write_output(file_, request_kind, to_text(request));
}

bool JoinTicket::withdraw() const { return ::unlink(file_.c_str()) == 0; }

JoinDesk::JoinDesk(const std::string& checkpoint, ElasticNotice notice) : notice_(std::move(notice)) {
  notice_.file = file_of_notice(checkpoint, notice_.takes_devices);
  notice_.run = new_id();
  notice_.version = tool_version();
  for (std::string* path : {&notice_.model, &notice_.cluster_file}) *path = fs::absolute(*path);
  write_output(notice_.file, notice_kind, to_text(notice_));
}

JoinDesk::~JoinDesk() { ::unlink(notice_.file.c_str()); }

void JoinDesk::announce(const std::vector<std::string>& hosts, const std::string& cluster_file) {
  notice_.hosts = hosts;
  notice_.cluster_file = fs::absolute(cluster_file);
  write();
}

std::vector<JoinRequest> JoinDesk::new_requests() {
  std::vector<JoinRequest> out;
  const std::string prefix = fs::path(file_of_request(notice_, "")).filename();
  const fs::path folder = fs::path(notice_.file).parent_path();
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder.empty() ? "." : folder, ignored)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(prefix) || name.size() != prefix.size() + digits_of_id) continue;
    if (!seen_.insert(name).second) continue;
    JoinRequest request;
    try {
      request = read_request(entry.path());
    } catch (const UserError& error) {  // it is somebody else's, or was withdrawn
      if (is_there(entry.path())) warn("{}", error.what());
      continue;
    }
    request.id = name.substr(prefix.size());
    try {
      check_fits(request);
      waiting_.insert(request.host);
      answer({.request = request.id, .state = JoinAnswer::State::waiting, .why = {}});
      out.push_back(request);
    } catch (const UserError& error) {
      if (::unlink(entry.path().c_str()) == 0) turn_away(request, error);
    }
  }
  return out;
}

void JoinDesk::check_fits(const JoinRequest& request) const {
  check_request(notice_, request);
  if (waiting_.contains(request.host))
    throw refusal({.message = "another request for this host is waiting",
                   .found = request.host,
                   .mend = "let that one be answered, or withdraw it"},
                  ExitCode::usage);
  std::vector<std::string> others = notice_.hosts;
  others.insert(others.end(), waiting_.begin(), waiting_.end());
  check_described(request.cluster_file, request.host, others, notice_.takes_devices);
}

bool JoinDesk::is_waiting(const JoinRequest& request) {
  if (is_there(file_of_request(notice_, request.id))) return true;
  waiting_.erase(request.host);
  return false;
}

bool JoinDesk::take(const JoinRequest& request) {
  const bool was_there = ::unlink(file_of_request(notice_, request.id).c_str()) == 0;
  if (!was_there) waiting_.erase(request.host);
  return was_there;
}

void JoinDesk::joined(const JoinRequest& request, int64_t step) {
  waiting_.erase(request.host);
  answer({.request = request.id, .state = JoinAnswer::State::joined, .step = step, .why = {}});
}

void JoinDesk::refuse(const JoinRequest& request, const UserError& why) {
  waiting_.erase(request.host);
  turn_away(request, why);
}

void JoinDesk::turn_away(const JoinRequest& request, const UserError& why) {
  notice("hetsynth: {} is not taken in: {}\n", request.host, why.diagnostic().message);
  answer({.request = request.id, .state = JoinAnswer::State::refused, .why = why.diagnostic(), .code = why.code()});
}

void JoinDesk::answer(JoinAnswer answer) {
  std::erase_if(notice_.answers, [&](const JoinAnswer& other) { return other.request == answer.request; });
  notice_.answers.push_back(std::move(answer));
  if (notice_.answers.size() > most_answers) notice_.answers.erase(notice_.answers.begin());
  write();
}

void JoinDesk::write() const {
  try {
    write_output(notice_.file, notice_kind, to_text(notice_));
  } catch (const UserError& error) {  // the run counts for more
    warn("{}", error.what());
  }
}

}  // namespace hetsynth::cli
