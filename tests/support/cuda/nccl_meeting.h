// What the ranks of one communicator bring to each other.
#pragma once
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/support/cuda/nccl_operation.h"

namespace hetsynth::testing_support {

class Clique {
 public:
  explicit Clique(int ranks) : ranks_(ranks) {}

  /// A rank's visit with one group of calls; `results` by call, once ready.
  struct Ticket {
    bool begun = false;
    size_t round = 0;
    std::vector<std::vector<char>> results;
  };
  struct Split {
    int number;  ///< how many splits this rank called before
  };

  void arrive();
  void leave();
  void abort();
  /// Whether all ranks have arrived.
  bool complete() const;
  int size() const;
  int arrived() const;
  /// Ranks that have left in good order and ranks that aborted, if there are both.
  std::string unequal_end() const;

  Split split(int rank, int color, int key);
  /// Whether all ranks have called the split of that number.
  bool all_called(int number) const;
  /// This is the part of a parent's split; its ranks are known when the parent's have all called.
  void made_by(std::shared_ptr<Clique> parent, int number, int color);
  /// Place of a GPU among the part's ranks.
  int rank_of(int parent_rank) const;

  /// Throws std::runtime_error naming rank and operation if the rank's calls differ from its peers' (rules 1 and 3).
  void join(int rank, const std::vector<NcclOperation>& calls, Ticket& ticket);
  /// Whether everything the calls wait for is there; fills the ticket's results.
  bool ready(int rank, const std::vector<NcclOperation>& calls, Ticket& ticket);

 private:
  struct Round {
    std::map<int, std::vector<NcclOperation>> calls;
    std::map<int, std::vector<std::vector<char>>> sources;  ///< by rank and call
    std::map<int, std::vector<std::vector<char>>> results;  ///< as above, when all have come
  };
  struct Parcel {
    int type;
    std::vector<char> data;
  };
  void check(const Round& round, int rank) const;
  void carry_out(Round& round) const;

  mutable std::mutex mutex_;
  std::string problem_;  ///< the first difference between ranks: it ends the wait of all
  int ranks_;
  int arrived_ = 0, left_ = 0, aborted_ = 0;
  std::shared_ptr<Clique> parent_;
  int split_number_ = 0, color_ = 0;
  std::vector<int> splits_;                                   ///< by rank: calls of split so far
  std::map<int, std::map<int, std::pair<int, int>>> colors_;  ///< by split and rank: color and key
  std::map<int, size_t> next_round_;                          ///< by rank
  std::map<size_t, Round> rounds_;
  std::map<std::pair<int, int>, std::deque<Parcel>> mail_;  ///< by sender and receiver
};

}  // namespace hetsynth::testing_support
