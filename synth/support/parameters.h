// Numbers that steer planning. What varying one does is said beside it where it was measured, over 31 models on
// v100-p100.toml, mixed-five.toml and unequal.toml (docs/planner-parameters.md has the command, and what special cases
// are worth).
#pragma once

namespace hetsynth::synth {

/// Rounds of search and linear program in turn from one start, if neither ends them before. 2 and 12 change no step.
constexpr int most_alternations = 6;
/// Searches of a branch and bound over shares. Six leave a gap of 7.00 % rather than 6.90 %, 96 the same gap.
constexpr int most_branches = 24;
/// Searches of a branch end this near to its bound. A tenth and ten times as much change the gap by 0.1 %.
constexpr double branch_precision = 1e-3;
/// Gap that a search at prices on memory leaves. With 1e-3 LLaMA 7B on mixed-five is 4.3 % slower; with 5e-3
/// steps are 0.02 % shorter in the mean, but GPT-2 1558M on v100-p100 is left 0.3 % from its bound.
constexpr double tolerance_at_prices = 2e-3;
/// How many times as much a memory too many costs after a round in which nothing fits. 2 makes one model 14 % slower,
/// 10 one model 53 %.
constexpr double price_step = 3;
/// Gap that is left in large networks on several axes, where one more search of everything takes many times as long as
/// all before.
constexpr double near_enough_if_large = 0.015;

/// Steps' time that a full memory costs at first, where nothing is known, and at most, when only memory is to count.
/// Much more would make sums overflow.
constexpr double first_memory_price = 0.3, dearest_memory_price = 30;

/// Bounds over all shares are worked out to this part of them (on several axes 3e-5 and 3e-3 change no step and no
/// bound by more than that), and bisections for them end after so many halvings.
constexpr double bound_precision = 1e-4;
constexpr int most_halvings = 60;

/// Where plans are searched for whose communication hides, what may hide counts as this part of itself. Weights of 2/3
/// and 1/3 beside it lead to no faster plan of seven models on v100-p100 and a100-64 (docs/planner-parameters.md).
constexpr double half_hidden = 0.5;

/// Where a device is fuller than this part of its memory, and the bound that knows no memory is below the plan by more
/// than that part, the step is planned in turns as well.
constexpr double full_memory = 0.9, gap_of_full_memory = 0.03;

/// Turns that pipelines are tried in. With 32 LLaMA 7B on v100-p100 takes 4.42 s a step, not 3.91 s, and GPT-2 124M
/// 481 ms, not 412 ms.
constexpr int most_pipelined_turns = 64;
/// Pipelines that are simulated: those with the shortest schedules, whose times are told. The first alone would leave
/// the plans of five models on v100-p100 as they are (LLaMA 7B, both GPT-2, Swin-Huge-32, BERT-Base).
constexpr unsigned long most_simulated_pipelines = 8;

}  // namespace hetsynth::synth
