// From choices to the SPMD program: instructions in program order, conversions beside the computation that needs them.
#pragma once
#include "synth/model/problem.h"

namespace hetsynth::synth {

/// Whether names of values and causes of conversions are written. Of programs that are only priced and measured there
/// are many.
enum class Wording { full, none };

/// Sets how a table divides what it cuts along its axis: its bounds, or rows where it divides the parts of axis 0.
void set_bounds(const Shares& shares, CutClass cut, BoundaryTable* table);

/// Conversions of partial results come right after them (they shrink and are sent early), all others just before their
/// first use. Written in full, every compute instruction is checked against `infer_placements`. `scrap`: written over.
SpmdProgram lower(const Problem& problem, const Conversions& conversions, const Shares& shares, const Choices& choices,
                  Wording wording = Wording::full, SpmdProgram scrap = {});

/// Says on which hosts the program's devices are, if some collective is hierarchical. `cluster`: the devices of its
/// mesh in rank order; hosts of which devices are left are numbered anew.
void tell_hosts(const Cluster& cluster, SpmdProgram* program);

}  // namespace hetsynth::synth
