// The hosts of a run that a supervisor (hetsynth elastic) starts, and what is planned for them.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "cli/join_desk.h"
#include "pipeline/pipeline.h"

namespace hetsynth::cli {

/// Whether the name is one of these.
bool has(const std::vector<std::string>& names, const std::string& name);

/// A host of the cluster file, and what the launcher knows it by.
struct Place {
  std::string name, address;
};

/// How processes are started on hosts.
struct Launcher {
  std::string program = "mpirun";
  std::string alive_command;  ///< for a shell: succeeds if the host {} is there; empty: a process is started on it
};
extern const char* const mend_of_launcher;

/// Whether a process can be started at the address. What takes 20 s, or longer than `stop` allows, does not answer.
bool answers(const Launcher& launcher, const std::string& address, const std::function<bool()>& stop);

struct Crew {
  std::string cluster_file;
  std::vector<Place> places;       ///< all hosts that the file describes, in its order
  std::vector<std::string> lost;   ///< hosts that did not answer; they are used again when they do
  std::vector<std::string> apart;  ///< hosts and devices that are not used before they join

  /// Hosts that may be used.
  std::vector<std::string> hosts() const;
  std::vector<std::string> left_out() const;
  std::string address(const std::string& host) const;
  /// A host is neither used nor asked any more, unless it asks to join.
  void keep_apart(const std::string& host);
};

/// The hosts of the cluster file, with the addresses of the hosts' file, one on a line; without one their names are
/// their addresses. Throws UserError.
Crew crew_of(const std::string& cluster_file, const std::string& hosts_file, const std::vector<std::string>& apart);

/// With a host that asked to join. Other hosts that its cluster file brings along stay apart. Throws UserError as
/// load_cluster does.
Crew with_host(const Crew& crew, const JoinRequest& request);
/// With hosts that were lost and answer again.
Crew with_hosts(Crew crew, const std::vector<std::string>& back);

struct PlannedRun {
  std::string file;
  std::string devices;             ///< hash_of_devices of the crew
  std::string program;             ///< hash of the traced model
  std::vector<std::string> hosts;  ///< that the plan uses, in its order
  double step_seconds = 0;         ///< as predicted
};

/// Hash of what the cluster file says, and of what is left out.
std::string hash_of_devices(const Crew& crew);

/// Plans for the crew, and writes the plan to `file`. `program`: the hash that the traced model has to have; empty:
/// any. `goes_on`: null, or the plan is made beside a run: it ends early when that says false, and what is not proved
/// is refused. Throws UserError.
PlannedRun plan_for(const CompilationInput& given, const std::string& checkpoint, const Crew& crew,
                    const std::string& file, const std::string& program, const std::function<bool()>& goes_on);

}  // namespace hetsynth::cli
