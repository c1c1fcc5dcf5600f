// Activation checkpointing as the planner sets it: what the forward phase made is freed after it and made again, from
// what is still there, just before the backward phase first reads it.
#pragma once
#include <optional>

#include "synth/memory/recompute_floor.h"
#include "synth/schedule/candidate.h"

namespace hetsynth::synth {

/// The program with a second copy of each of these values: what runs after the forward phase reads the copies. What
/// they are made from and is not stored either is made again with them. `again`: values that the forward phase makes.
/// In a pipeline each stage makes its own again, in the part that reads them.
SpmdProgram with_recomputed(const Problem& problem, const SpmdProgram& program, const std::vector<ValueId>& again);

/// The candidate's program with names and causes.
SpmdProgram written_out(const Problem& problem, const Candidate& candidate);

/// Values worth making twice, in order of the seconds they cost for a byte of the device that they free, and for how
/// long. `hard_to_check`: attention in blocks, what it reads, and what is looked up at computed places may be among
/// them.
std::vector<Absence> recompute_order(const Problem& problem, const SpmdProgram& program, int device,
                                     bool hard_to_check = true);

/// The candidate with just enough values made twice that it fits; none if no number of them is enough, or if the step
/// would take `cost_to_beat` or longer. Values are taken in the order of the fullest device (Chen et al. 2016 choose by
/// bytes alone; Jain et al. 2020, Checkmate, by an integer program): good, not proven best. Attention that runs block
/// by block is made again as a whole, or not at all.
std::optional<Candidate> recomputed_to_fit(const Problem& problem, const Candidate& candidate,
                                           Picoseconds cost_to_beat);

/// The candidate with as many values made twice as bring it nearest to fitting, whatever that takes: of all that
/// recomputed_to_fit chooses from, of three quarters, a half, a quarter or none of them. Its cost is left as it is.
Candidate recomputed_to_be_thrifty(const Problem& problem, const Candidate& candidate);

}  // namespace hetsynth::synth
