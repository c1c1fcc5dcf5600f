#include "verify/source/threads/kernel_region.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

namespace hetsynth::source {
namespace {

/// Pieces that what a kernel writes may fall into.
constexpr size_t most_pieces = size_t(1) << 24;
/// A block whose threads share memory makes many elements together: of what it executes, one needs about this part.
constexpr int64_t share_of_block = 8;
constexpr int64_t most_blocks = int64_t(1) << 22, most_threads = 1024;

std::vector<int> all_threads(int64_t threads) {
  std::vector<int> out(static_cast<size_t>(threads));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

/// Notes what a block writes, relative to the arguments.
class Covering final : public ThreadBlock::Outside {
 public:
  explicit Covering(const Launch& launch) : launch_(launch) {}

  void load(DType, const int64_t*, Lanes, double*, int line) override {
    throw NotFollowed("an address that depends on what is in memory", line);
  }
  void store(int parameter, DType dtype, const int64_t* bytes, Lanes lanes, const double*, int line) override {
    const int64_t size = size_bytes(dtype), base = launch_.arguments[size_t(parameter)];
    for (int i = 0; i < lanes.count; ++i) {
      const int64_t begin = bytes[i] - base;
      if (!pieces_.empty() && pieces_.back().end == begin && pieces_.back().parameter == parameter)
        pieces_.back().end += size;
      else
        pieces_.push_back({parameter, begin, begin + size, 0, line});
    }
  }

  /// What came since the last call, for this block.
  void take(int64_t block, std::vector<Coverage::Piece>& out) {
    merge(pieces_);
    for (Coverage::Piece& piece : pieces_) {
      piece.block = block;
      out.push_back(piece);
    }
    pieces_.clear();
    if (out.size() > most_pieces) throw TooLong("where a kernel writes", launch_.kernel->line);
  }

  static void sort(std::vector<Coverage::Piece>& pieces) {
    auto before = [](const Coverage::Piece& a, const Coverage::Piece& b) {
      return std::tie(a.parameter, a.begin) < std::tie(b.parameter, b.begin);
    };
    if (!std::is_sorted(pieces.begin(), pieces.end(), before)) std::sort(pieces.begin(), pieces.end(), before);
    for (size_t i = 1; i < pieces.size(); ++i)
      if (pieces[i].parameter == pieces[i - 1].parameter && pieces[i].begin < pieces[i - 1].end)
        throw Misstep(fmt::format("bytes {} to {} behind an argument are written twice by the kernel", pieces[i].begin,
                                  std::min(pieces[i].end, pieces[i - 1].end)),
                      pieces[i].line);
  }

 private:
  static void merge(std::vector<Coverage::Piece>& pieces) {
    sort(pieces);
    size_t last = 0;
    for (size_t i = 1; i < pieces.size(); ++i) {
      if (pieces[i].parameter == pieces[last].parameter && pieces[i].begin == pieces[last].end)
        pieces[last].end = pieces[i].end;
      else
        pieces[++last] = pieces[i];
    }
    if (!pieces.empty()) pieces.resize(last + 1);
  }

  const Launch& launch_;
  std::vector<Coverage::Piece> pieces_;
};

/// Notes which thread writes which byte.
class Naming final : public ThreadBlock::Outside {
 public:
  explicit Naming(std::unordered_map<int64_t, int>& writers) : writers_(writers) {}
  void load(DType, const int64_t*, Lanes, double*, int line) override {
    throw NotFollowed("an address that depends on what is in memory", line);
  }
  void store(int, DType, const int64_t* bytes, Lanes lanes, const double*, int) override {
    for (int i = 0; i < lanes.count; ++i) writers_[bytes[i]] = lanes.thread[i];
  }

 private:
  std::unordered_map<int64_t, int>& writers_;
};

}  // namespace

const Slice& KnownKernels::slice(const Function& kernel) {
  auto found = slices_.find(&kernel);
  if (found == slices_.end()) found = slices_.emplace(&kernel, Slice(kernel)).first;
  return found->second;
}

const Coverage& KnownKernels::coverage(const Launch& launch, int64_t& work, int64_t limit) {
  auto [entry, fresh] = coverages_.try_emplace({launch.kernel, launch.blocks, launch.threads});
  if (!fresh) return entry->second;
  Coverage found;
  Covering covering(launch);
  const std::vector<int> threads = all_threads(launch.threads);
  try {
    for (int64_t block = 0; block < launch.blocks; ++block) {
      ThreadBlock(launch, block, &slice(*launch.kernel), covering, work, limit).run(threads);
      covering.take(block, found.pieces);
    }
    Covering::sort(found.pieces);
  } catch (...) {
    coverages_.erase(entry);
    throw;
  }
  return entry->second = std::move(found);
}

namespace {

const Coverage& checked_coverage(const Launch& launch, KnownKernels& known, int64_t& work, int64_t limit) {
  const Function& kernel = *launch.kernel;
  if (launch.threads < 1 || launch.threads > std::min(kernel.most_threads, most_threads))
    throw Misstep(fmt::format("{} is launched with {} threads, but is made for at most {}", kernel.name, launch.threads,
                              kernel.most_threads),
                  kernel.line);
  if (launch.threads % 32 != 0) throw NotFollowed("a launch whose last warp is not full", kernel.line);
  if (launch.blocks < 1 || launch.blocks > most_blocks) throw NotFollowed("a launch of so many blocks", kernel.line);
  return known.coverage(launch, work, limit);
}

}  // namespace

KernelRegion::KernelRegion(Launch launch, KnownKernels& known, const Memory& memory, int64_t limit)
    : launch_(std::move(launch)),
      known_(known),
      memory_(memory),
      coverage_(checked_coverage(launch_, known_, work, limit)),
      meets_(meets(launch_.kernel->body)) {
  this->limit = limit;
  find_blocks();
}

void KernelRegion::find_blocks() {
  for (const Coverage::Piece& piece : coverage_.pieces) {
    const int64_t base = launch_.arguments[size_t(piece.parameter)];
    if (!written_.empty() && written_.back().pointer == piece.parameter && written_.back().end == base + piece.begin) {
      written_.back().end = base + piece.end;
      continue;
    }
    Written block;
    block.begin = base + piece.begin;
    block.end = base + piece.end;
    block.dtype = element_type(launch_.kernel->parameters[size_t(piece.parameter)].type);
    block.line = piece.line;
    block.pointer = piece.parameter;
    written_.push_back(std::move(block));
  }
  for (size_t i = 0; i < written_.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (written_[i].begin < written_[j].end && written_[j].begin < written_[i].end)
        throw Misstep(
            fmt::format("bytes {} to {} are written through two arguments of the kernel",
                        std::max(written_[i].begin, written_[j].begin), std::min(written_[i].end, written_[j].end)),
            written_[i].line);
  find_ends();
  // What the first thread and the first block write last, and others first.
  for (Written& block : written_)
    for (int64_t corner : {int64_t(0), int64_t(1), int64_t(4), launch_.threads - 1, launch_.threads,
                           4 * launch_.threads, block.count() / 2, block.count() - 2})
      if (corner >= 0 && corner < block.count()) block.corners.push_back(corner);
}

/// What some blocks write last: a loop of theirs may end elsewhere than that of others.
void KernelRegion::find_ends() {
  const std::set<int64_t> blocks{0, std::min<int64_t>(1, launch_.blocks - 1), launch_.blocks / 2, launch_.blocks - 1};
  for (int64_t block : blocks)
    for (Written& w : written_) {
      int64_t end = -1;
      for (const Coverage::Piece& piece : coverage_.pieces)
        if (piece.block == block && piece.parameter == w.pointer)
          if (const int64_t at = launch_.arguments[size_t(piece.parameter)] + piece.end; at > w.begin && at <= w.end)
            end = std::max(end, at);
      if (end >= 0) w.ends.push_back((end - w.begin) / w.element_bytes() - 1);
    }
}

const Coverage::Piece& KernelRegion::piece_of(int64_t byte, const Written& block) const {
  const int64_t offset = byte - launch_.arguments[size_t(block.pointer)];
  auto after = std::upper_bound(coverage_.pieces.begin(), coverage_.pieces.end(), std::pair(block.pointer, offset),
                                [](const std::pair<int, int64_t>& wanted, const Coverage::Piece& piece) {
                                  return wanted < std::pair(piece.parameter, piece.begin);
                                });
  return *std::prev(after);
}

void KernelRegion::look_up_writers(int64_t block) {
  if (block_ == block) return;
  block_ = block;
  writers_.clear();
  Naming naming(writers_);
  ThreadBlock(launch_, block, &known_.slice(*launch_.kernel), naming, work, limit).run(all_threads(launch_.threads));
}

/// Memory as the threads see it that are executed: old contents, and what they wrote themselves.
class KernelRegion::Contents final : public ThreadBlock::Outside {
 public:
  explicit Contents(KernelRegion& of) : of_(of) {}

  void load(DType dtype, const int64_t* bytes, Lanes lanes, double* out, int line) override {
    for (int i = 0; i < lanes.count; ++i) out[i] = load(dtype, bytes[i], lanes.thread[i], line);
  }
  void store(int, DType, const int64_t* bytes, Lanes lanes, const double* values, int) override {
    for (int i = 0; i < lanes.count; ++i) of_.found_[bytes[i]] = values[i];
    for (int i = 0; of_.decisions && i < lanes.count; ++i)
      of_.decisions->written(Decisions::arena, bytes[i], lanes.thread[i]);
  }
  Decisions* decisions() override { return of_.decisions; }
  bool rounds() const override { return of_.memory_.rounds(); }
  int64_t step() const override { return of_.memory_.step(); }

 private:
  double load(DType dtype, int64_t byte, int thread, int line) const {
    if (!is_written(byte)) return of_.memory_.read(byte, dtype);
    auto writer = of_.writers_.find(byte);
    if (writer == of_.writers_.end() || writer->second != thread)
      throw Misstep(fmt::format("byte {} of the arena is read here and overwritten by another thread", byte), line);
    auto own = of_.found_.find(byte);
    return own != of_.found_.end() ? own->second : of_.memory_.read(byte, dtype);
  }
  bool is_written(int64_t byte) const {
    return std::any_of(of_.written_.begin(), of_.written_.end(),
                       [&](const Written& block) { return byte >= block.begin && byte < block.end; });
  }

  KernelRegion& of_;
};

double KernelRegion::value(const Written& block, int64_t byte) {
  look_up_writers(piece_of(byte, block).block);
  auto writer = writers_.find(byte);
  if (writer == writers_.end()) throw Misstep("an element of the block is never written", block.line);
  std::vector<int> threads = all_threads(launch_.threads);
  if (meets_ == Meets::nobody)
    threads = {writer->second};
  else if (meets_ == Meets::warp)
    threads = {threads.begin() + writer->second / 32 * 32, threads.begin() + (writer->second / 32 + 1) * 32};
  Contents contents(*this);
  if (decisions) decisions->begin(byte);
  const int64_t share = meets_ == Meets::block ? share_of_block : 1;
  int64_t spent = work * share;
  ThreadBlock(launch_, block_, nullptr, contents, spent, limit * share).run(threads);
  work = spent / share;
  auto found = found_.find(byte);
  if (found == found_.end()) throw Misstep("an element of the block is never written", block.line);
  return found->second;
}

std::vector<double> KernelRegion::values(const Written& block, const std::vector<int64_t>& elements) {
  std::vector<double> out;
  for (int64_t element : elements) {
    if (moment_ != memory_.moment()) found_.clear();
    moment_ = memory_.moment();
    const int64_t byte = block.begin + element * block.element_bytes();
    auto known = found_.find(byte);
    // What is known would be taken for what this thread wrote before.
    if (known != found_.end()) {
      out.push_back(known->second);
      continue;
    }
    out.push_back(value(block, byte));
  }
  return out;
}

}  // namespace hetsynth::source
