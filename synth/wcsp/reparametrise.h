// Shifts costs between neighbours until single values and pairs show by themselves what choosing them must cost. Gives
// a proven lower bound, prunes most values, and so makes exact elimination affordable where plain tables would explode.
#pragma once
#include "synth/wcsp/astar.h"
#include "synth/wcsp/message_passing.h"

namespace hetsynth::synth {

/// Message passing in rounds. Every pair must be arc consistent (`possible_values`). The network, the quotient and the
/// limits must outlive this.
class Reparametrisation {
 public:
  Reparametrisation(const Network& network, const Quotient& quotient, const SearchLimits& limits);
  /// Begins with the messages of another quotient of the same network.
  void begin_with(const Reparametrisation& other);
  /// Begins with what was learnt in another network.
  void begin_with(const LearntMessages& known, const NamedValues& names);
  LearntMessages learnt(const NamedValues& names) const { return all_.learnt(names); }
  /// So many sweeps; what the bound gained, relative to the best before and what is beside the network.
  double improve(int sweeps);
  /// Reads an assignment off the messages.
  void decode() { decode(all_); }
  /// The best bound so far, up to rounding.
  double reached() const { return reached_; }
  /// At the best bound.
  Reparametrised apply() const { return all_.apply(); }
  Picoseconds exact_bound() const { return all_.exact_bound(); }
  /// The best assignment read off the messages so far (by `decode`); empty if all were forbidden.
  const std::vector<int>& decoded() const { return decoded_; }

  /// By cell: values among which a good solution is likely, a few such choices. Most values of a large network never
  /// come near an optimum: messages that are passed among the most promising ones soon agree on one. They may be far
  /// from giving a bound, so the bound's own messages stay as they were.
  std::vector<ValueLists> guesses();
  /// By cell: this part of all values, those with the least excess; of every cell some.
  ValueLists promising(double part) const;

 private:
  void sweep_once(MessagePassing* messages);
  void sweep(int times);
  void sweep_in_strides();
  void sweep_with_momentum();
  void go_on(Rough multiple);
  bool take_if_better();
  void decode(const MessagePassing& messages);

  const Network& network_;
  const Quotient& quotient_;
  const SearchLimits& limits_;
  MessagePassing all_;
  std::vector<int> decoded_;
  double reached_ = -1e300;  ///< best bound
  std::vector<Rough> best_;  ///< its messages
  double stride_ = 4;
  std::vector<Rough> before_;  ///< messages some sweeps ago; with momentum: before the last
  int in_a_row_ = 0;           ///< sweeps since messages last went back to the best
};

}  // namespace hetsynth::synth
