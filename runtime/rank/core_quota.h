// How many cores a control group lets a process use.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace hetsynth {

/// Cores that a quota of time is worth, from the text of a cpu.max file ("150000 100000" is 1.5: two threads can use
/// it). None if there is no limit.
std::optional<int> cores_of_quota(std::string_view text);

/// The least quota of the process's control group and those around it, below `root`, of either version of control
/// groups. None: no limit, or no groups.
std::optional<int> quota_of_this_process(const std::string& root = "/sys/fs/cgroup",
                                         const std::string& own_group = "/proc/self/cgroup");

}  // namespace hetsynth
