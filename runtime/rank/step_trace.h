// What a rank did in a step, and when: computing by the marks of its generated program, exchanges by who carries them
// out. Seconds are those of wall_seconds().
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace hetsynth {

/// Where a step is: the number of a mark (MarkedWork), and the turn that it told.
struct StepPlace {
  int work = -1;  ///< -1: before the first mark
  int64_t turn = 0;
};

struct TraceSpan {
  enum class Kind : uint8_t {
    marked,     ///< from a mark to the next
    exchanged,  ///< a collective, while the rank waits for it
    beside,     ///< a collective, on the rank's thread for exchanges
    slept,      ///< the rank acts as a slower device
    data        ///< samples are waited for and copied in
  };
  Kind kind = Kind::marked;
  StepPlace place;
  double start = 0, end = 0;
  double waited = 0;  ///< of an exchange: seconds in which nothing moved, as others were not there yet
};

/// Of one step of one rank.
struct RankTrace {
  double start = 0, end = 0;
  std::vector<TraceSpan> spans;
};

/// Notes the spans of a rank's steps. The rank's thread calls all functions but `beside`, which that for exchanges
/// calls; the rank waits for that thread before the step ends.
class StepTrace {
 public:
  void begin();
  /// Samples are there; the generated program begins.
  void data_are_there();
  void mark(StepPlace place);
  /// Where the rank is now.
  StepPlace place() const { return place_; }
  void slept(double start, double end);
  void exchanged(StepPlace place, double start, double end, double waited);
  void beside(StepPlace place, double start, double end, double waited);
  /// Ends the step and gives its trace.
  RankTrace end();

 private:
  void close(double now);

  StepPlace place_;
  double began_ = 0, marked_ = 0;
  size_t most_ = 0;  ///< spans of a step so far, so that later ones need no growth
  std::vector<TraceSpan> own_, beside_;
};

}  // namespace hetsynth
