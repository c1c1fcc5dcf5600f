#include "runtime/token_files/tokenize_files.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>

namespace hetsynth {
namespace {

/// Text that is read before it is encoded, per thread: enough that no thread waits long for the others.
constexpr int64_t bytes_ahead = int64_t{4} << 20;

/// The blocks that follow, of about so many bytes.
std::vector<TextBlocks::Raw> next_batch(TextBlocks& blocks, int threads) {
  std::vector<TextBlocks::Raw> out;
  int64_t bytes = 0;
  while (bytes < bytes_ahead * threads) {
    std::optional<TextBlocks::Raw> block = blocks.next();
    if (!block) break;
    bytes += static_cast<int64_t>(block->text.size());
    out.push_back(std::move(*block));
  }
  return out;
}

/// Calls work(thread, item) for all items. The failure of the first item that has one is thrown.
void in_parallel(int threads, size_t items, const std::function<void(size_t thread, size_t item)>& work) {
  std::vector<std::exception_ptr> failures(items);
  std::atomic<size_t> next{0};
  std::atomic<bool> failed{false};
  const auto run = [&](size_t thread) {
    for (size_t item = next++; item < items && !failed; item = next++) {
      try {
        work(thread, item);
      } catch (...) {
        failures[item] = std::current_exception();
        failed = true;
      }
    }
  };
  {
    std::vector<std::jthread> running;
    for (size_t i = 1; i < std::min(static_cast<size_t>(threads), items); ++i) running.emplace_back(run, i);
    run(0);
  }
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

void append_all(std::vector<int32_t>& to, const std::vector<int32_t>& ids) {
  to.insert(to.end(), ids.begin(), ids.end());
}

}  // namespace

TokenizeResult tokenize_files(const Tokenizer& tokenizer, std::vector<TextFile> files, TokenFileWriter& writer,
                              const TokenizeOptions& options) {
  TokenizeResult result;
  result.files = static_cast<int64_t>(files.size());
  TextBlocks blocks(std::move(files), {.cut_at_lines = tokenizer.cuts_at_lines()});
  std::vector<std::unique_ptr<TokenEncoder>> encoders;
  for (int i = 0; i < options.threads; ++i) encoders.push_back(tokenizer.encoder());
  for (;;) {
    std::vector<TextBlocks::Raw> batch = next_batch(blocks, options.threads);
    if (batch.empty()) break;
    std::vector<std::vector<int32_t>> tokens(batch.size());
    in_parallel(options.threads, batch.size(), [&](size_t thread, size_t item) {
      const TextBlock block = blocks.checked(std::move(batch[item]), options.replace_invalid);
      std::vector<int32_t>& ids = tokens[item];
      if (options.around_text && block.first) append_all(ids, tokenizer.before_text());
      encoders[thread]->encode(block.text, block.first, !block.last, ids);
      if (options.around_text && block.last) append_all(ids, tokenizer.after_text());
      if (options.end_of_text && block.last) ids.push_back(*options.end_of_text);
    });
    for (const std::vector<int32_t>& ids : tokens) {
      writer.write(ids);
      if (!ids.empty()) result.largest = std::max(result.largest, *std::ranges::max_element(ids));
    }
    if (options.progress) options.progress(blocks.bytes_read(), blocks.total_bytes(), writer.tokens());
  }
  result.bytes = blocks.bytes_read();
  result.tokens = writer.tokens();
  return result;
}

WordCounts count_words_of_files(const unicode::WordPattern& pattern, std::vector<TextFile> files,
                                const TokenizeOptions& options) {
  TextBlocks blocks(std::move(files), {.cut_at_lines = true});
  std::vector<WordCounts> counts(static_cast<size_t>(options.threads));
  for (;;) {
    std::vector<TextBlocks::Raw> batch = next_batch(blocks, options.threads);
    if (batch.empty()) break;
    in_parallel(options.threads, batch.size(), [&](size_t thread, size_t item) {
      const TextBlock block = blocks.checked(std::move(batch[item]), options.replace_invalid);
      count_words(block.text, pattern, !block.last, counts[thread]);
    });
    if (options.progress) options.progress(blocks.bytes_read(), blocks.total_bytes(), 0);
  }
  for (size_t i = 1; i < counts.size(); ++i)
    for (const auto& [word, count] : counts[i]) counts[0][word] += count;
  return std::move(counts[0]);
}

}  // namespace hetsynth
