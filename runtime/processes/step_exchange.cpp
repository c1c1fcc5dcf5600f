#include "runtime/processes/step_exchange.h"

namespace hetsynth {
namespace {

void append(std::string& out, const void* data, size_t bytes) { out.append(static_cast<const char*>(data), bytes); }

/// Reads back what was appended.
class Reader {
 public:
  explicit Reader(const std::string& words) : words_(words) {}
  bool at_end() const { return at_ == words_.size(); }
  void take(void* to, size_t bytes) {
    HETSYNTH_CHECK(words_.size() - at_ >= bytes, "processes of one program exchange whole parts");
    std::memcpy(to, words_.data() + at_, bytes);
    at_ += bytes;
  }
  uint64_t number() {
    uint64_t out = 0;
    take(&out, sizeof out);
    return out;
  }

 private:
  const std::string& words_;
  size_t at_ = 0;
};

}  // namespace

std::vector<TensorPart> exchange_parts(Job& job, const std::vector<TensorPart>& own) {
  static_assert(std::is_trivially_copyable_v<Range>);
  std::string words;
  for (const TensorPart& part : own) {
    for (const uint64_t number : {uint64_t(part.ranges.size()), uint64_t(part.bytes.size())})
      append(words, &number, sizeof number);
    append(words, part.ranges.data(), part.ranges.size() * sizeof(Range));
    append(words, part.bytes.data(), part.bytes.size());
  }
  std::vector<TensorPart> out;
  for (const std::string& theirs : job.exchange(words)) {
    for (Reader reader(theirs); !reader.at_end();) {
      TensorPart part;
      part.ranges.resize(reader.number());
      part.bytes.resize(reader.number());
      reader.take(part.ranges.data(), part.ranges.size() * sizeof(Range));
      reader.take(part.bytes.data(), part.bytes.size());
      out.push_back(std::move(part));
    }
  }
  return out;
}

}  // namespace hetsynth
