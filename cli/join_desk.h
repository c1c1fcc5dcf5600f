// Where hosts ask a running supervisor (hetsynth elastic) to be taken in, and devices a run of one process: files
// beside the checkpoint, which all hosts see. FILE.elastic is the supervisor's, FILE.balance the run's: it says what
// runs, and what became of requests. Each request is a file of its own, with 16 digits after that name, which whoever
// asks removes to withdraw it, and whoever is asked to take it up.
#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "dsl/base/error.h"

namespace hetsynth::cli {

/// What became of a request so far.
struct JoinAnswer {
  enum class State { waiting, joined, refused };
  std::string request;
  State state = State::waiting;
  int64_t step = 0;  ///< from which on the host takes part, where it joined
  Diagnostic why;    ///< it is refused
  ExitCode code = ExitCode::failure;
};

/// What a supervisor says of its run.
struct ElasticNotice {
  std::string file;     ///< it stands in
  std::string run;      ///< tells it from other runs
  std::string version;  ///< of hetsynth
  std::string model;    ///< the file, of one path on all hosts
  std::map<std::string, std::string> settings;
  std::string program;  ///< hash of the traced model
  std::string cluster_file;
  bool takes_devices = false;      ///< not only whole hosts
  std::vector<std::string> hosts;  ///< that take part, or may at any time; devices too where it takes those
  std::vector<JoinAnswer> answers;
};

struct JoinRequest {
  std::string id;
  std::string run, version, program;  ///< as in the notice that was read, and as they are on the host that asks
  std::string host, address;          ///< an empty address: the one known of the host, or else its name
  std::string cluster_file;           ///< in which the host is described
};

/// Reads the notice of a supervisor, or else that of a run. Throws UserError if there is neither, which means that
/// nothing runs that takes in hosts, or if the file is none of hetsynth's.
ElasticNotice read_notice(const std::string& checkpoint);

/// Throws UserError unless the request fits what runs: the same run, version and model, and a host of another name.
void check_request(const ElasticNotice& notice, const JoinRequest& request);

/// Throws UserError unless the cluster file describes the host, and these others, too; `devices`: or the device.
void check_described(const std::string& cluster_file, const std::string& host, const std::vector<std::string>& others,
                     bool devices);

/// Whoever asks.
class JoinTicket {
 public:
  /// Writes the request, under an identity that it finds.
  JoinTicket(const ElasticNotice& notice, const JoinRequest& request);
  /// Withdraws it, unless it was taken up.
  ~JoinTicket() { withdraw(); }
  JoinTicket(const JoinTicket&) = delete;
  JoinTicket& operator=(const JoinTicket&) = delete;
  const std::string& id() const { return id_; }
  /// Whether it could still be withdrawn: nobody has taken it up, or answered it.
  bool withdraw() const;

 private:
  std::string id_, file_;
};

/// The supervisor's side.
class JoinDesk {
 public:
  /// `notice`: what is known before the run starts, but for `file`, `run` and `version`, which are filled in here.
  /// Throws UserError if something else stands where notices are written.
  JoinDesk(const std::string& checkpoint, ElasticNotice notice);
  /// Removes the notice: no supervisor runs any more.
  ~JoinDesk();
  JoinDesk(const JoinDesk&) = delete;
  JoinDesk& operator=(const JoinDesk&) = delete;

  /// Says which hosts take part from now on, and where they are described.
  void announce(const std::vector<std::string>& hosts, const std::string& cluster_file);
  /// Requests that came since the last call. Those that do not fit what runs are refused at once, the others are told
  /// to wait.
  std::vector<JoinRequest> new_requests();
  /// Whether it was not withdrawn.
  bool is_waiting(const JoinRequest& request);
  /// Takes a request up; false: it was withdrawn, and needs no answer.
  bool take(const JoinRequest& request);
  /// The answers to a request that was taken up.
  void joined(const JoinRequest& request, int64_t step);
  void refuse(const JoinRequest& request, const UserError& why);

 private:
  void turn_away(const JoinRequest& request, const UserError& why);
  void answer(JoinAnswer answer);
  void check_fits(const JoinRequest& request) const;
  void write() const;

  ElasticNotice notice_;
  std::set<std::string> seen_;     ///< files of requests
  std::set<std::string> waiting_;  ///< hosts that were told to wait
};

}  // namespace hetsynth::cli
