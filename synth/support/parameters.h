// Numbers that steer planning, by the room that uses them. What varying one does is said beside it where it was
// measured, over the models on v100-p100.toml, mixed-five.toml and unequal.toml (docs/planner-parameters.md has the
// command, and what the cases that use these numbers are worth). Where nothing is said of a number, or its heading says
// so, other values were not measured. Numbers that sums or tables must not exceed stand where they are used.
#pragma once
#include <cstddef>
#include <cstdint>

namespace hetsynth::synth {

// Search and linear program in turn (synth/alternation).

/// Rounds of search and linear program in turn from one start, if neither ends them before. 2 and 12 change no step.
constexpr int most_alternations = 6;
/// Starts that are followed in any case. Once patience has run out others are followed only if memory is short. One
/// more is followed where the plan is so far from the bound over all shares. With less patience, so that these count
/// more often, RNNTC on mixed-five is 1.7 % slower.
constexpr int first_starts = 2;
constexpr double worth_one_more_start = 0.02;
/// A plan that is farther from the bound than this was ill guided by the relaxation, and likely values are forgotten.
/// Without that BERT-MoE on mixed-five is 31 % slower.
constexpr double well_guided = 0.1;
/// Networks with no more values are searched to the end, also on several axes: tests hold that such plans are optimal.
/// Without that AlexNet on two axes over v100-p100 is left 0.6 % from its bound, and no step changes.
constexpr int64_t few_values_to_prove = 60'000;
/// Gap that is left in larger networks on several axes, where one more search of everything takes many times as long as
/// all before.
constexpr double near_enough_if_large = 0.015;

// The same: unless it is said, other values of these were not measured.

/// Shares whose plan is proven to be this near to the best over all shares end the alternation.
constexpr double near_enough_over_shares = 1e-3;
/// What the shares that suit the relaxation's program must lead to for the next start to be left out. 1e-3 makes no
/// step longer, and work is 1 % less in the mean.
constexpr double near_enough_at_first = 5e-4;
/// What is left between plan and bound is not worth one more search of everything; and a program that costs no more
/// than this above a bound is where a search begins.
constexpr double as_good_as_proven = 1e-6;
/// A bound over all shares that is this near is left as it is.
constexpr double worth_tightening = 5e-3;
/// Shares that gain a plan less than this part of what it lacks to the best do not lead there. 0 changes no step and no
/// model's work by a tenth.
constexpr double worth_following = 0.1;

// Where memory is short (synth/alternation, synth/memory).

/// Gap that a search at prices on memory leaves. With 1e-3 LLaMA 7B on mixed-five is 4.3 % slower; with 5e-3
/// steps are 0.02 % shorter in the mean, but GPT-2 1558M on v100-p100 is left 0.3 % from its bound.
constexpr double tolerance_at_prices = 2e-3;
/// How many times as much a memory too many costs after a round in which nothing fits. 2 makes one model 14 % slower,
/// 10 one model 53 %.
constexpr double price_step = 3;
/// Steps' time that a full memory costs at first, where nothing is known, and at most, when only memory is to count.
/// Much more would make sums overflow.
constexpr double first_memory_price = 0.3, dearest_memory_price = 30;
/// Where a device is fuller than this part of its memory, and the bound that knows no memory is below the plan by more
/// than that part, the step is planned in turns as well.
constexpr double full_memory = 0.9, gap_of_full_memory = 0.03;

// The same: unless it is said, other values of these were not measured.

/// Sweeps of message passing at prices: there are many such searches, and a good solution to each will do.
constexpr int sweeps_at_prices = 48;
/// A bound, or a cheapest plan without limits, this near to the plan ends the search for plans within memory; so do
/// shares whose cheapest program does not fit and is this near to the bound over all shares.
constexpr double near_enough_within_memory = 2e-3;
/// The search for plans within memory begins at a plan that is this near to the cheapest.
constexpr double near_enough_before_memory = 2.5e-3;
/// Steps' time, as the bound has it, that a memory too many counts as where shares follow the fastest program: of
/// shares that are nearly as fast those are taken that need less. What does not fit may do so at the same shares when
/// it makes values twice, or with thriftier forms.
constexpr double soft_price = 0.3;
/// The other starts are followed after all where the plan that fits is so far from the bound.
constexpr double worth_following_if_tight = 0.1;
/// Once a plan fits, the planner searches so many of the shares at which the cheapest plan does not fit under memory
/// limits. Later it ends after so many in a row that lead to nothing better.
constexpr int most_tight_shares = 2, most_in_vain = 2;
/// How often shares follow the best plan under memory limits, and the gap above which they do so more than once.
constexpr int most_tight_moves = 3;
constexpr double worth_moving_again = 0.1;
/// A plan that takes so much longer than the fastest that does not fit: thriftier ones at other shares may be faster.
constexpr double far_from_fastest = 0.3;
/// For a plan that takes so much longer everything is tried.
constexpr double very_far_from_fastest = 3;
/// Where plans at prices take no more than this part of the memory the thriftiest of all may fit.
constexpr double worth_more_thrift = 1.1;
/// Rounds of prices and shares in turn. Where plans take more than this part of the memory after the first few rounds
/// prices do not help; without that ResNeXt-50 and ResNet-101 on unequal take 1.3 times as long to plan.
constexpr int most_price_rounds = 6, rounds_to_help = 3;
constexpr double worth_going_on = 0.9;
/// Part of the prices so far that the new ones take the place of: programs would swing from one to another.
constexpr double part_of_new_prices = 0.5;
/// Prices of less than this part of a step are forgotten.
constexpr double negligible_price = 1e-4;
/// How often shares are looked for at which a program fits in whole granules, and while it is no fuller than this.
constexpr int most_roundings = 3;
constexpr double worth_rounding_anew = 1.1;
/// Part of the best plan's cost that a program must cost less for it to be made to fit, and part of its own cost that
/// another program must save. With 0 for the first Llama 3 8B LoRA on v100-p100 takes 1.2 times the work.
constexpr double worth_fitting = 2e-2, worth_another = 1e-2;
/// Moments of the step at which memory has a price, prices that are tried, and how often the highest of them is.
constexpr size_t most_priced_moments = 4;
constexpr int most_prices = 7, most_dearest = 3;
/// Part of the fullness that another moment must save at least for one more to be tried.
constexpr double worth_dearer = 0.9;
/// Bounds at prices that differ by less than this part are hardly better.
constexpr double worth_proving_anew = 0.03;
/// Where making values twice costs less than this part of the step, a better bound is not worth a search or two.
constexpr double worth_proving_copies = 0.01;
/// Values that one move of recomputation may drop together.
constexpr size_t most_remade_at_once = 24;

// Bounds over all shares (synth/bounds).

/// Bounds over all shares are worked out to this part of them (on several axes 3e-5 and 3e-3 change no step and no
/// bound by more than that), and bisections for them end after so many halvings.
constexpr double bound_precision = 1e-4;
constexpr int most_halvings = 60;
/// Searches of a branch and bound over shares. Six leave a gap of 7.00 % rather than 6.90 %, 96 the same gap.
constexpr int most_branches = 24;
/// Searches of a branch end this near to its bound. A tenth and ten times as much change the gap by 0.1 %.
constexpr double branch_precision = 1e-3;
/// A branch is divided so far before and behind what the plan at hand holds, in parts of its width, unless the bound is
/// too far from that plan for its shares to tell where the bound is low. Other values were not measured.
constexpr int64_t parts_of_width = 16;
constexpr double near_plan = 0.2;
/// Into so many branches at most. Other values were not measured.
constexpr int most_parts_of_branch = 3;
/// Part of all values that the relaxation calls likely. Without them Switch-Base, Swin-Huge-32 and GPT-2 1558M on
/// five-of-three-kinds take 1.7 to 3 times as long to plan.
constexpr double likely_part = 0.1;

// How long networks are searched (synth/network, synth/wcsp). Unless it is said, other values were not measured.

/// Relative gap of a relaxation that is as good as solved.
constexpr double nearly_proven = 6e-4;
/// Sweeps of message passing: on several axes, and on one as many as this divided by the nodes, but not fewer than
/// these.
constexpr int sweeps_of_several_axes = 210, least_sweeps = 90;
constexpr double sweeps_by_node = 2e6;
/// Networks with more values than this, and so many by variable on average, are pruned before dead ends are looked for.
/// If none are, on two axes over eight-unequal ResNeXt-50 is 2.0 % slower and BERT-Huge-32 takes 2.1 times as long to
/// plan.
constexpr int64_t many_values = 5000, many_by_variable = 26;

// Message passing and what follows from it (synth/wcsp). Unless it is said, other values of these were not measured.

/// From how far variables are told apart at first, and how many times as far after each refinement.
constexpr int first_rounds = 8, more_rounds = 2;
/// Sweeps between looks at the gap; at first fewer where message passing began with what is known. 30 there as well
/// makes a bound over all shares 10 % weaker, and GPT-2 124M on v100-p100 takes 1.5 times the work.
constexpr int sweeps_at_once = 30, sweeps_if_informed = 9;
/// Relative to the bound: gains of a round of sweeps, and the gap above which a better solution is looked for.
constexpr double worth_refining = 1e-3, least_gain = 1e-7, worth_guessing = 5e-3;
/// While the bound still gains so much in a round of sweeps, a better solution would not help.
constexpr double soon_gained = 1e-2;
/// Guesses at solutions in a row that lead to nothing better end them: the same messages lead to the same solutions.
constexpr int most_guesses_in_vain = 3;
/// A bound that gains less than this part of the gap is stuck, which matters while the gap is so large. Solutions are
/// then looked for a few times. Without that ViT-Huge-32 on mixed-five takes 3 times as long to plan.
constexpr double gained_of_gap_if_stuck = 0.1, worth_guessing_if_stuck = 2e-4;
constexpr int most_guesses_if_stuck = 3;
/// With a larger gap hardly any value is out of the question. Nor is it time to prune while the bound gains as much as
/// this part of the gap in a round of sweeps.
constexpr double worth_pruning = 3e-2, gained_of_gap = 0.5;
/// Unless hardly anything is left by it, where message passing began with what is known or has momentum: elsewhere the
/// bound still rises, at first slowly. Without that GPT-2 1558M on mixed-five takes twice as long to plan.
constexpr double nearly_closed = 5e-4;
/// Message passing begins anew where less than this part of the values is left.
constexpr double worth_narrowing = 0.7;
/// Networks with more variables than this are deep: it begins anew at the original costs there, and where more values
/// by variable than this are left only if less than this part of all is left. If no network is deep, Swin-B on two axes
/// over v100-p100 takes twice as long to plan.
constexpr int variables_of_deep_network = 4000;
constexpr int64_t many_values_left = 20;
constexpr double worth_narrowing_deep = 0.4;
/// Sweeps before and after an extrapolation, and how far it goes, as a multiple of what the first changed.
constexpr int sweeps_along = 6, sweeps_beyond = 3;
constexpr double least_stride = 0.5, greatest_stride = 64;
/// A guess at a solution: messages among this part of all values, then among all again. Networks with fewer values are
/// guessed from as they are. Without messages among a part ViT-Huge-32 on mixed-five takes 3.5 times as long to plan.
constexpr double guessed_among = 0.2;
constexpr size_t few_values_to_guess = 3000;
constexpr int likely_sweeps = 30, settling_sweeps = 6;
/// Parts of all values that solutions are then looked for in.
constexpr double guessed_parts[] = {0.06, 0.1};

// Meshes (synth/planner). Other values of these were not measured.

/// Sweeps of message passing by what is known of a mesh, and what they must have gained lately for more of them.
constexpr int sweeps_to_know[] = {9, 18, 27, 36};
constexpr double worth_more_sweeps = 2e-3;
/// Values in networks of meshes that wait: about half a gigabyte.
constexpr int64_t most_values_kept = 3'000'000;
/// Where the best plan of two axes is so far above its bound, with a device that full, plans that cut no dimension
/// along both are searched for as well, if that takes little time or no plan fits.
constexpr double wide_gap = 0.1, nearly_full = 0.8;
/// Part of the time, if it is limited, until some mesh is planned.
constexpr double part_for_bounds = 0.3;
/// Alternations for a plan at hand where time is limited, and how near to the best of its kind that has to be.
constexpr int fallback_alternations = 3;
constexpr double fallback_tolerance = 1e-4;
/// Where plans are searched for whose communication hides, what may hide counts as this part of itself. Weights of 2/3
/// and 1/3 beside it lead to no faster plan of seven models on v100-p100 and a100-64 (docs/planner-parameters.md).
constexpr double half_hidden = 0.5;

// Shares, and what may be chosen (synth/shares, synth/space, synth/network). Other values of these were not measured.

/// Share of a memory that the linear program may fill: rounding to whole granules takes some more.
constexpr double memory_fill = 0.97;
/// Moments of the step whose memory the linear program is given one after the other.
constexpr int most_memory_rounds = 40;
/// Granules by coordinate on average: of fewer granules one more or less is a part of memory that counts.
constexpr double few_granules = 32;
/// Small images, deep in a network, do not make the granules of large ones coarser than this: they are gathered.
constexpr int64_t least_granules_by_windows = 16;
/// Beyond this many operands only single ones and all together are tried as partial sets.
constexpr size_t most_enumerated_operands = 5;
/// Most forms of either of two sets that a tensor has before and after the forward phase; of tensors with so many forms
/// that there would be more pairs of sets than this, one form before and one after.
constexpr int most_forms_apart = 2;
constexpr size_t most_pairs_of_sets = 1000;

// Of pipelines (docs/planner-parameters.md, "Pipelines", has the table).

/// Turns that pipelines are tried in. With 32 GPT-2 124M on v100-p100 takes 454 ms a step, not 402 ms, and LLaMA 7B
/// 19.0 s, not 18.1 s; with 128 no step changes.
constexpr int most_pipelined_turns = 64;
/// Groups of a pipeline, and divisions that get a schedule, of each plan of a group. With one division the steps of six
/// of seven cases are up to 9 % longer; eight make none shorter.
constexpr unsigned long most_groups = 16, most_divisions = 3;
/// Gap that the search for a plan of a group leaves. A fifth of it changes no step.
constexpr double group_plan_tolerance = 1e-2;
/// Numbers of turns with sizes of groups that are looked at with groups on two axes: those that are fastest on one.
/// With 3 GPT-2 1558M on v100-p100 takes 2.99 s, not 2.87 s, and Swin-Huge-32 326 ms, not 319 ms; with all T5-Large is
/// planned in 50 s, not 26 s, and no step changes.
constexpr unsigned long most_on_two_axes = 6;
/// How much shorter than by the formula of divisions, and than by their schedule, steps turn out to be, at most: what
/// runs once a step may hide beside other stages. With 0 three of seven cases take 0.1 %, 1.4 % and 3.8 % longer; 0.3
/// changes no step.
constexpr double foreseen_above = 0.1;
/// Pipelines that are simulated: those with the shortest schedules, whose times are told. With the first alone LLaMA 7B
/// on v100-p100 takes 18.4 s a step, not 18.1 s.
constexpr unsigned long most_simulated_pipelines = 8;

}  // namespace hetsynth::synth
