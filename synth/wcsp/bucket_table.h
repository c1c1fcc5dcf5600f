// The sum of cost functions over all assignments of their variables, minimised over one of them: what bucket
// elimination spends its time on.
#pragma once
#include "synth/wcsp/elimination.h"

namespace hetsynth::synth {

/// Entries for every assignment of `scope`, the last variable varying fastest: the least sum of the functions over the
/// values of `minimised`, at most `forbidden`. False if stopped.
/// `functions`: of variables of the scope and the one that is minimised, costs from 0 to `forbidden`. `domains`: values
/// by variable.
bool minimum_of_sum(int minimised, const std::vector<int>& scope, const std::vector<CostFunction>& functions,
                    const std::vector<int>& domains, const TableStore& store, const StopToken& stop, Table* out);

}  // namespace hetsynth::synth
