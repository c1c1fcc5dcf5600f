// Values one behind the other in the words that processes of one program exchange (Job::exchange).
#pragma once
#include <cstddef>
#include <cstring>
#include <string>
#include <type_traits>

#include "dsl/base/error.h"

namespace hetsynth {

inline void append(std::string& words, const void* data, size_t bytes) {
  words.append(static_cast<const char*>(data), bytes);
}

template <class T>
void append(std::string& words, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  append(words, &value, sizeof value);
}

/// Reads back what was appended, in the same order. Throws InternalError where the words end too soon.
class WordReader {
 public:
  /// `words` outlive it.
  explicit WordReader(const std::string& words) : words_(words) {}
  bool at_end() const { return at_ == words_.size(); }
  void take(void* to, size_t bytes) {
    HETSYNTH_CHECK(words_.size() - at_ >= bytes, "processes of one program exchange whole values");
    std::memcpy(to, words_.data() + at_, bytes);
    at_ += bytes;
  }
  template <class T>
  T next() {
    static_assert(std::is_trivially_copyable_v<T>);
    T out;
    take(&out, sizeof out);
    return out;
  }

 private:
  const std::string& words_;
  size_t at_ = 0;
};

}  // namespace hetsynth
