// A bound on what a model may become while it is traced with settings that nobody typed.
#pragma once
#include <cstddef>

namespace hetsynth {

/// While alive, a model that this thread traces and that grows beyond so many tensors ends with a UserError. One at a
/// time.
class TraceLimit {
 public:
  explicit TraceLimit(size_t tensors);
  ~TraceLimit();
  TraceLimit(const TraceLimit&) = delete;
  TraceLimit& operator=(const TraceLimit&) = delete;

 private:
  size_t before_;
};

}  // namespace hetsynth
