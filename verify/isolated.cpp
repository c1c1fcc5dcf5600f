#include "verify/isolated.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <new>

#include "dsl/base/error.h"
#include "dsl/base/json_tree.h"
#include "verify/solver/solver.h"

namespace hetsynth {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// ---- the result as text ----

std::string list_text(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& t : texts) out += (out.empty() ? "" : ",") + json_quoted(t);
  return "[" + out + "]";
}

std::string to_text(const Verification& v) {
  std::string proofs;
  for (const ProvedObligation& p : v.proofs)
    proofs += fmt::format("{}[{},{},{},{}]", proofs.empty() ? "" : ",", json_quoted(p.hash), json_quoted(p.first),
                          p.instructions, p.queries);
  return fmt::format(
      "{{\"verdict\":{},\"instruction\":{},\"summary\":{},\"evidence\":{},\"text\":{},\"file\":{},\"line\":{},"
      "\"column\":{},"
      "\"obligations\":{},\"distinct\":{},\"lemmas\":{},\"seconds\":{},\"solver\":{},\"assumptions\":{},\"names\":{},"
      "\"trials\":{},\"contradiction\":{},\"proofs\":[{}]}}",
      int(v.verdict), v.instruction, json_quoted(v.summary), int(v.counterexample.evidence),
      json_quoted(v.counterexample.text), json_quoted(v.counterexample.where.file), v.counterexample.where.line,
      v.counterexample.where.column, v.obligations, v.distinct_obligations, v.lemmas, v.seconds, json_quoted(v.solver),
      list_text(v.assumptions), list_text(v.lemma_names), v.trials, json_quoted(v.contradiction), proofs);
}

Verification from_text(const std::string& text) {
  constexpr int64_t most = int64_t(1) << 40;
  JsonNode tree = parse_json(text, "verification", "verification", {int64_t(1) << 30, 20'000'000, 8});
  std::string file = "verification";
  JsonReader top(tree, file, "");
  auto number = [&](const char* key) { return top.member(key).integer(-most, most); };
  Verification v;
  v.verdict = Verdict(top.member("verdict").integer(0, 2));
  v.instruction = int(number("instruction"));
  v.summary = top.member("summary").string();
  v.counterexample.evidence = Evidence(top.member("evidence").integer(0, 2));
  v.counterexample.text = top.member("text").string();
  v.counterexample.where = {top.member("file").string(), int(number("line")), int(number("column"))};
  v.obligations = int(number("obligations"));
  v.distinct_obligations = int(number("distinct"));
  v.lemmas = int(number("lemmas"));
  v.seconds = top.member("seconds").number(0, 1e12);
  v.solver = top.member("solver").string();
  for (const JsonReader& t : top.member("assumptions").elements()) v.assumptions.push_back(t.string());
  for (const JsonReader& t : top.member("names").elements()) v.lemma_names.push_back(t.string());
  v.trials = int(number("trials"));
  v.contradiction = top.member("contradiction").string();
  for (const JsonReader& p : top.member("proofs").elements()) {
    std::vector<JsonReader> parts = p.elements();
    v.proofs.push_back({parts.at(0).string(), parts.at(1).string(), int(parts.at(2).integer(0, most)),
                        int(parts.at(3).integer(0, most))});
  }
  return v;
}

// ---- the process ----

int64_t address_space_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t pages = 0;
  file >> pages;
  return pages * int64_t(::sysconf(_SC_PAGESIZE));
}

void limit_memory(int64_t bytes) {
#if !defined(__SANITIZE_ADDRESS__)
  if (bytes <= 0) return;
  rlimit limit{};
  limit.rlim_cur = limit.rlim_max = rlim_t(address_space_bytes() + bytes);
  ::setrlimit(RLIMIT_AS, &limit);
#else
  (void)bytes;  // its shadow memory is larger than any limit
#endif
}

void write_all(int fd, const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    ssize_t n = ::write(fd, text.data() + at, text.size() - at);
    if (n <= 0) return;
    at += size_t(n);
  }
}

/// What the child does; never returns.
[[noreturn]] void serve(const std::function<Verification()>& work, int fd, int64_t memory_bytes) {
  std::string text;
  try {
    limit_memory(memory_bytes);
    text = "=" + to_text(work());
  } catch (const std::bad_alloc&) {
    text = "!the check needed more memory than it may take";
  } catch (const std::exception& error) {
    text = std::string("!the check failed: ") + error.what();
  } catch (...) {
    text = "!the check failed";
  }
  write_all(fd, text);
  ::_exit(0);
}

/// Everything the child writes; false if it is not done in time.
bool read_all(int fd, Clock::time_point deadline, std::string& out) {
  char buffer[65536];
  for (;;) {
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    pollfd wait{fd, POLLIN, 0};
    int ready = ::poll(&wait, 1, int(std::min<long long>(left, 1000)));
    if (ready < 0 && errno != EINTR) return true;
    if (ready <= 0) continue;
    ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return true;
    out.append(buffer, size_t(n));
  }
}

Verification undecided(const std::string& why, double seconds) {
  Verification out;
  out.summary = why;
  out.seconds = seconds;
  out.solver = smt::solver_version();
  return out;
}

}  // namespace

Verification run_isolated(const std::function<Verification()>& work, double limit_seconds, int64_t memory_bytes) {
  auto start = Clock::now();
  auto deadline = start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limit_seconds));
  int ends[2];
  if (::pipe(ends) != 0) return work();
  // Or the child would print it again. Not all streams: another thread may hold one for as long as it waits for input.
  std::fflush(stdout);
  pid_t child = ::fork();
  if (child < 0) {
    ::close(ends[0]);
    ::close(ends[1]);
    return work();
  }
  if (child == 0) {
    ::close(ends[0]);
    serve(work, ends[1], memory_bytes);
  }
  ::close(ends[1]);
  std::string text;
  bool in_time = read_all(ends[0], deadline, text);
  ::close(ends[0]);
  if (!in_time) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  double seconds = seconds_since(start);
  if (!in_time) return undecided("the check was stopped at the time limit", seconds);
  if (WIFSIGNALED(status))
    return undecided(
        fmt::format("the checking process ended by signal {}, perhaps for lack of memory or stack", WTERMSIG(status)),
        seconds);
  if (text.empty()) return undecided("the checking process ended without an answer", seconds);
  if (text[0] == '!') return undecided(text.substr(1), seconds);
  return from_text(text.substr(1));
}

Verification verify_isolated(const Program& reference, const SpmdProgram& program, const VerifyOptions& options,
                             const IsolationOptions& isolation) {
  return run_isolated([&] { return verify(reference, program, options); },
                      options.time_limit_seconds + isolation.grace_seconds, isolation.memory_bytes);
}

}  // namespace hetsynth
