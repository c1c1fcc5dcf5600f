// hetsynth tokenize: texts become a token file, or a tokenizer of their own; token files become text again.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/command.h"
#include "dsl/base/counted.h"
#include "dsl/base/output_file.h"
#include "dsl/base/suggest.h"
#include "runtime/data/token_windows.h"
#include "runtime/rank/notice.h"
#include "runtime/rank/rank_threads.h"
#include "runtime/token_files/tokenize_files.h"
#include "runtime/training/progress.h"

namespace hetsynth::cli {
namespace {

constexpr const char* default_words = "gpt2";

const OutputKind tokenizer_kind{"tokenizer", begins_with("{", {"\"model\"", "\"vocab\""})};

struct TokenizeCommand {
  std::vector<std::string> inputs, special;
  std::string tokenizer, output, end_of_text, decode, words = default_words;
  std::optional<int64_t> train_bpe;
  bool around_text = false, replace_invalid = false, json = false;
  int threads = usable_cores();
};

[[noreturn]] void refuse_usage(const std::string& message, const std::string& mend, const std::string& found = "") {
  throw UserError({.tag = "tokenize", .message = message, .found = found, .mend = mend}, ExitCode::usage);
}

/// How far it is, on standard error: a line that is written over on a terminal, else one every ten seconds.
class ProgressLine {
 public:
  ~ProgressLine() {
    if (terminal_ && shown_) notice("\r\033[K");
  }
  /// Bytes read, bytes in all, tokens so far.
  void bytes(int64_t done, int64_t total, int64_t tokens) {
    const double megabytes = static_cast<double>(done) / 1e6;
    show(done, total, [&](double seconds) {
      return fmt::format("{:.1f} of {:.1f} MB  {}{:.1f} MB/s", megabytes, static_cast<double>(total) / 1e6,
                         tokens > 0 ? counted(tokens, "token") + "  " : "", megabytes / seconds);
    });
  }
  void merges(int64_t done, int64_t total) {
    show(done, total, [&](double) { return fmt::format("{} of {} tokens", done, total); });
  }

 private:
  using Clock = std::chrono::steady_clock;

  void show(int64_t done, int64_t total, const std::function<std::string(double)>& text) {
    const Clock::time_point now = Clock::now();
    if (now - last_ < (terminal_ ? std::chrono::milliseconds(200) : std::chrono::milliseconds(10'000))) return;
    last_ = now;
    shown_ = true;
    const double seconds = std::chrono::duration<double>(now - begin_).count();
    const double left = seconds * static_cast<double>(total - done) / static_cast<double>(std::max<int64_t>(1, done));
    notice("{}{}  left {}{}", terminal_ ? "\r" : "", text(seconds), text_of_duration(left),
           terminal_ ? "\033[K" : "\n");
  }

  const bool terminal_ = ::isatty(STDERR_FILENO);
  Clock::time_point begin_ = Clock::now(), last_ = begin_;
  bool shown_ = false;
};

void print_json(const nlohmann::ordered_json& out) { fmt::print("{}\n", out.dump(2)); }

std::string_view expression_of(const std::string& words) {
  return words == "llama3" ? unicode::llama3_expression : unicode::gpt2_expression;
}

void train(const TokenizeCommand& command) {
  const int64_t least = 256 + static_cast<int64_t>(command.special.size());
  if (*command.train_bpe < least) {
    refuse_usage("the tokenizer is too small: every byte and every special token is a token of its own",
                 fmt::format("--train-bpe {} or more", least), fmt::format("--train-bpe {}", *command.train_bpe));
  }
  check_output(command.output, tokenizer_kind, command.inputs);
  ProgressLine reading, merging;
  TokenizeOptions options{.threads = command.threads, .replace_invalid = command.replace_invalid};
  options.progress = [&](int64_t done, int64_t total, int64_t) { reading.bytes(done, total, 0); };
  const std::string_view expression = expression_of(command.words);
  const WordCounts counts =
      count_words_of_files(*unicode::word_pattern(expression), text_files(command.inputs, command.output), options);
  const TrainedBpe trained = train_bpe(counts, {.vocabulary = *command.train_bpe, .special = command.special},
                                       [&](int64_t tokens) { merging.merges(tokens, *command.train_bpe); });
  write_output(command.output, tokenizer_kind, tokenizer_json(trained, expression));
  const auto tokens = static_cast<int64_t>(trained.special.size() + trained.tokens.size());
  if (tokens < *command.train_bpe)
    warn("the text has no more pairs that stand twice: {} tokens instead of {}", tokens, *command.train_bpe);
  const auto words = static_cast<int64_t>(counts.size());
  if (command.json) return print_json({{"file", command.output}, {"tokens", tokens}, {"different_words", words}});
  fmt::print("{}: {} from {}\n", command.output, counted(tokens, "token"), counted(words, "different word"));
}

int32_t end_of_text_id(const TokenizeCommand& command, const Tokenizer& tokenizer) {
  if (const auto id = tokenizer.id_of(command.end_of_text)) return *id;
  throw UserError({.where = {command.tokenizer},
                   .tag = "--end-of-text",
                   .message = "the tokenizer has no such token",
                   .found = quote(command.end_of_text),
                   .mend = "name one of its special tokens, such as <|endoftext|> of GPT-2's"});
}

void tokenize(const TokenizeCommand& command) {
  check_token_file_name(command.output);
  std::vector<std::string> inputs = command.inputs;
  inputs.push_back(command.tokenizer);
  check_output(command.output, token_file_kind(command.output), inputs);
  const std::unique_ptr<Tokenizer> tokenizer = open_tokenizer(command.tokenizer);
  ProgressLine progress;
  TokenizeOptions options{
      .threads = command.threads, .around_text = command.around_text, .replace_invalid = command.replace_invalid};
  options.progress = [&](int64_t done, int64_t total, int64_t tokens) { progress.bytes(done, total, tokens); };
  if (!command.end_of_text.empty()) options.end_of_text = end_of_text_id(command, *tokenizer);
  std::vector<TextFile> files = text_files(command.inputs, command.output);
  TokenFileWriter writer(command.output, tokenizer->vocabulary(), origin_of(*tokenizer, command.tokenizer));
  const TokenizeResult result = tokenize_files(*tokenizer, std::move(files), writer, options);
  if (result.tokens == 0) {
    throw UserError({.where = {command.output},
                     .tag = "tokenize",
                     .message = "the text gives no tokens: nothing is written",
                     .found = fmt::format("{} in {}", counted(result.bytes, "byte"), counted(result.files, "file")),
                     .mend = "does the tokenizer fit the text? One without bytes leaves out what it does not know"});
  }
  writer.place();
  const double per_byte = static_cast<double>(result.tokens) / static_cast<double>(std::max<int64_t>(1, result.bytes));
  if (command.json)
    return print_json({{"file", command.output},
                       {"format", writer.format()},
                       {"tokens", result.tokens},
                       {"bytes", result.bytes},
                       {"files", result.files},
                       {"tokens_per_byte", per_byte},
                       {"largest", result.largest},
                       {"vocabulary", tokenizer->vocabulary()},
                       {"tokenizer", tokenizer->description()}});
  fmt::print("{}: {} from {} in {} ({}, by a {})\n", command.output, counted(result.tokens, "token"),
             counted(result.bytes, "byte"), counted(result.files, "file"), writer.format(), tokenizer->description());
  fmt::print("  {:.4f} tokens per byte, largest id {}: train with a vocabulary of {} or more\n", per_byte,
             result.largest, tokenizer->vocabulary());
}

void decode(const TokenizeCommand& command) {
  if (!command.output.empty()) check_output(command.output, text_kind, std::vector{command.decode, command.tokenizer});
  const std::unique_ptr<Tokenizer> tokenizer = open_tokenizer(command.tokenizer);
  const std::unique_ptr<TokenSequence> tokens = open_token_sequence(command.decode);
  const TokenOrigin made_by = tokens->origin(), given = origin_of(*tokenizer, command.tokenizer);
  if (differ(made_by, given))
    warn("{} was made by another tokenizer, {}; this one is {}", command.decode, text(made_by), text(given));
  std::vector<int64_t> read(static_cast<size_t>(tokens->size()));
  tokens->read(0, read);
  std::vector<int32_t> ids;
  for (size_t i = 0; i < read.size(); ++i) {
    if (read[i] >= 0 && read[i] < tokenizer->vocabulary()) {
      ids.push_back(static_cast<int32_t>(read[i]));
      continue;
    }
    const auto [file, place] = tokens->place_of(static_cast<int64_t>(i));
    throw UserError({.where = {file},
                     .tag = "--decode",
                     .message = "this token is not one of the tokenizer's",
                     .expected = fmt::format("0 to {}", tokenizer->vocabulary() - 1),
                     .found = fmt::format("{} at {}", read[i], place),
                     .mend = "name the tokenizer that the file was made with"});
  }
  const std::string text = tokenizer->decode(ids);
  if (!command.output.empty()) write_output(command.output, text_kind, text);
  if (command.json)
    return print_json({{"tokens", ids.size()},
                       {command.output.empty() ? "text" : "file", command.output.empty() ? text : command.output}});
  if (command.output.empty()) std::fwrite(text.data(), 1, text.size(), stdout);
}

void run_tokenize(const TokenizeCommand& command) {
  const bool trains = command.train_bpe.has_value(), decodes = !command.decode.empty();
  if (decodes && (trains || !command.inputs.empty()))
    refuse_usage("--decode takes no texts", "hetsynth tokenize --decode TOKENS --tokenizer TOKENIZER");
  if (trains && !command.tokenizer.empty())
    refuse_usage("a tokenizer is either made or used", "leave out --train-bpe or --tokenizer");
  if (!trains && command.tokenizer.empty())
    refuse_usage("a tokenizer is missing", "--tokenizer tokenizer.json, or --train-bpe 8192 to make one");
  if (!decodes && command.inputs.empty()) refuse_usage("a text is missing", "name text files or folders of them");
  if (!decodes && command.output.empty()) refuse_usage("the name of the result is missing", "-o tokens.npy");
  if (decodes) return decode(command);
  return trains ? train(command) : tokenize(command);
}

}  // namespace

Command add_tokenize(CLI::App& app) {
  auto options = std::make_shared<TokenizeCommand>();
  CLI::App* command = app.add_subcommand("tokenize", "Turns texts into a token file, or trains a tokenizer on them");
  command->add_option("input", options->inputs,
                      "Text files in UTF-8, and folders of them; each file is a text of its own");
  command->add_option("-t,--tokenizer", options->tokenizer, "A tokenizer.json, or a model of SentencePiece");
  command->add_option("-o,--output", options->output, "Token file to write (.npy or .bin), or tokenizer.json, or text");
  CLI::Option* train =
      command->add_option("--train-bpe", options->train_bpe, "Train a byte-level BPE of so many tokens");
  command->add_option("--words", options->words, "With --train-bpe: how texts are cut into words, gpt2 or llama3")
      ->check(CLI::IsMember({"gpt2", "llama3"}))
      ->capture_default_str()
      ->needs(train);
  command->add_option("--special", options->special, "With --train-bpe: a special token, as <|endoftext|>")
      ->needs(train);
  CLI::Option* decode = command->add_option("--decode", options->decode, "Token file to turn into text");
  command->add_option("--end-of-text", options->end_of_text, "Token to put after every file, as <|endoftext|>")
      ->excludes(train)
      ->excludes(decode);
  command
      ->add_flag("--around-text", options->around_text,
                 "Put before and after every file what the tokenizer has for that, as <s>")
      ->excludes(train)
      ->excludes(decode);
  command->add_flag("--replace-invalid", options->replace_invalid, "Put U+FFFD for what is no UTF-8")->excludes(decode);
  command->add_option("--threads", options->threads, "Default: the cores of this machine")
      ->check(CLI::Range(1, 1024))
      ->excludes(decode);
  command->add_flag("--json", options->json, "Report as JSON");
  return [options] {
    run_tokenize(*options);
    return ExitCode::done;
  };
}

}  // namespace hetsynth::cli
