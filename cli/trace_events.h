// Timelines of steps as trace events: the JSON that Perfetto (ui.perfetto.dev) and chrome://tracing open.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "dsl/base/output_file.h"
#include "dsl/spmd/spmd.h"

namespace hetsynth::cli {

extern const OutputKind trace_kind;

/// Rows of a device, which is a process of the trace.
enum class TraceRow : uint8_t { computing, communicating, turns };

/// A bar in a row; seconds since the step began.
struct TraceSlice {
  TraceRow row = TraceRow::computing;
  std::string name, category;
  double start = 0, end = 0;
  nlohmann::ordered_json about = nlohmann::ordered_json::object();
};

class TraceEvents {
 public:
  /// Processes stand in the order of `number`.
  void add_process(int number, const std::string& name);
  /// What takes no time is left out.
  void add(int number, const TraceSlice& slice);
  /// `about`: of the whole trace.
  std::string text(nlohmann::ordered_json about = {}) const;

 private:
  nlohmann::ordered_json events_ = nlohmann::ordered_json::array();
};

/// Which part of a step an instruction belongs to. What is made again for the backward pass belongs to it.
class StepPhases {
 public:
  StepPhases(const Program& reference, const SpmdProgram& program);
  /// "forward", "backward" or "update".
  std::string phase(int instruction) const;
  /// "forward of turn 3"; outside of loops (`turn` is -1) the phase.
  std::string name(int instruction, int64_t turn) const;

 private:
  std::vector<Phase> phase_of_;  ///< by instruction
};

/// Bars of the row of turns, of what a device computes one behind the other. Each `name` of a slice is that of its part
/// of the step; neighbours of one name become one bar, unless a hundredth of the step (`seconds`) or more lies between
/// them: such a bubble shows.
std::vector<TraceSlice> turn_slices(std::vector<TraceSlice> computing, double seconds);

/// The stage that a rank is of; -1 if the plan has none.
int stage_of(const SpmdProgram& program, int rank);
/// The same, with the word before it: ", stage 1"; empty if the plan has none.
std::string stage_text(const SpmdProgram& program, int rank);

}  // namespace hetsynth::cli
