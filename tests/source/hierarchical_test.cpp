// Hierarchical collectives in the generated text of both kinds of devices: it agrees with its plan, and one that was
// damaged does not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <regex>
#include <set>

#include "synth/baselines/baseline_plans.h"
#include "synth/baselines/peers/peers.h"
#include "tests/codegen/harness.h"
#include "tests/codegen/models.h"
#include "tests/source/fixture.h"
#include "tests/support/by_host.h"
#include "tests/support/detours.h"

namespace hetsynth::test {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

const std::vector<int> hosts{2, 3};
const std::vector<double> speeds{1e9, 3e9, 2e9, 1e9, 1e9};

const PeerPlan& peer(const std::vector<PeerPlan>& plans, const std::string& name) {
  for (const PeerPlan& plan : plans)
    if (plan.name.find(name) != std::string::npos) return plan;
  throw std::runtime_error("no peer " + name);
}

/// Gradients all-reduced; parameters gathered, gradients scattered; and values exchanged and handed out on detours.
const std::vector<Generated>& on(bool gpus) {
  static const auto make = [](bool cuda) {
    const Program program = mlp_program();
    const Cluster cluster = cuda ? cuda_devices(speeds) : unequal_cluster(speeds);
    const std::vector<PeerPlan> peers = peer_plans(program, cluster);
    std::vector<Generated> out;
    const SpmdProgram data_parallel = data_parallel_plan(program, cluster, RatioRule::proportional).program;
    for (const SpmdProgram& plan :
         {data_parallel, peer(peers, "ZeRO-3").plan->program, with_detours(program, data_parallel)}) {
      const SpmdProgram levels = by_host(plan, hosts);
      out.push_back(cuda ? generated_for_cuda(program, levels, cluster) : generated(program, levels, cluster));
    }
    return out;
  };
  static const std::vector<Generated> cores = make(false), cards = make(true);
  return gpus ? cards : cores;
}

const std::string& host_of(const Generated& g, int rank) { return g.devices[size_t(rank)].files.front().text; }

TEST(HierarchicalSource, AgreesWithItsPlan) {
  for (bool gpus : {false, true})
    for (const Generated& g : on(gpus))
      for (int rank = 0; rank < int(g.devices.size()); ++rank) {
        EXPECT_THAT(host_of(g, rank), HasSubstr(gpus ? "_host_ranks" : "hetsynth_hierarchical_"));
        const SourceCheck result = check(g, rank);
        EXPECT_EQ(result.verdict, Verdict::proved)
            << "rank " << rank << " line " << result.line << ": " << result.summary << "\n"
            << host_of(g, rank);
      }
}

TEST(HierarchicalSource, OfCoresWithOtherHostsIsFound) {
  const Generated& g = on(false)[0];
  const std::string& text = host_of(g, 1);
  EXPECT_THAT(check(g, 1, edited(text, "{0, 0, 1, 1, 1}", "{0, 0, 0, 1, 1}")).summary,
              HasSubstr("are [0,0,0,1,1], but the program says [0,0,1,1,1]"));
  EXPECT_THAT(check(g, 1, edited(text, "{0, 0, 1, 1, 1}", "{0, 0, 0, 1}")).summary, HasSubstr("the hosts of the"));
  std::string flat = std::regex_replace(text, std::regex("hetsynth_hierarchical_all_reduce"), "hetsynth_all_reduce");
  flat = std::regex_replace(flat, std::regex(", const long\\* hosts\\);"), ");");
  flat = std::regex_replace(flat, std::regex(", hosts_[a-z]+\\)\\) return 1;"), ")) return 1;");
  const SourceCheck found = check(g, 1, flat);
  EXPECT_EQ(found.verdict, Verdict::refuted) << found.summary;
  EXPECT_THAT(found.summary, HasSubstr("hetsynth_all_reduce is called where the program has the all_reduce"));
}

/// Of every rank: every call dropped, over other ranks, of another count, peer and place.
TEST(HierarchicalSource, OfGpusWithDamagedCallsIsFound) {
  int damaged = 0;
  for (const Generated& g : on(true))
    for (int rank : {0, 1, 2, 4}) {
      const std::string& text = host_of(g, rank);
      std::set<std::string> kinds;  // one call of each is enough
      for (size_t at = 0; at < text.size();) {
        const size_t end = text.find('\n', at) + 1;
        const std::string line = text.substr(at, end - at);
        const std::string before = text.substr(0, at), after = text.substr(end);
        at = end;
        const bool within = line.find("_host_ranks, ") != std::string::npos;
        if (!within && line.find("_leaders, ") == std::string::npos) continue;
        const std::string kind = line.substr(0, line.find('(', 6)) + (within ? "w" : "l");
        if (!kinds.insert(kind).second) continue;
        const auto expect_found = [&](const std::string& by, const auto& words) {
          const SourceCheck result = check(g, rank, before + by + after);
          EXPECT_EQ(result.verdict, Verdict::refuted) << "rank " << rank << ": " << by << result.summary;
          EXPECT_THAT(result.summary, words) << by;
          ++damaged;
        };
        expect_found("", AnyOf(HasSubstr("but takes"), HasSubstr("the count of the hierarchical"),
                               HasSubstr("the program computes")));
        if (text.find(within ? "_leaders = " : "_host_ranks = ") != std::string::npos)
          expect_found(std::regex_replace(line, std::regex(within ? "_host_ranks" : "_leaders"),
                                          within ? "_leaders" : "_host_ranks"),
                       within ? HasSubstr("is over the leaders of the hosts, but takes the ranks on its host")
                              : HasSubstr("is over the ranks on its host, but takes the leaders of the hosts"));
        expect_found(std::regex_replace(line, std::regex(", ([0-9]+), nccl_float32"), ", 1$1, nccl_float32"),
                     HasSubstr("the count of the hierarchical"));
        if (line.find("nccl_sum") != std::string::npos)
          expect_found(std::regex_replace(line, std::regex("nccl_sum"), "nccl_max"), HasSubstr("the reduction of"));
      }
      EXPECT_GE(kinds.size(), rank == 0 || rank == 2 ? 3u : 2u);
    }
  EXPECT_GT(damaged, 60);
}

/// What is sent on, and where it is put.
TEST(HierarchicalSource, OfGpusWithMovedPlacesIsFound) {
  for (size_t of : {1, 2}) {
    const Generated& g = on(true)[of];
    int moved = 0;
    for (int rank : {0, 2}) {
      const std::string& text = host_of(g, rank);
      // Of a broadcast where it arrives: only its root looks at the other place.
      const std::regex places(
          "(ncclRecv\\(|ncclSend\\(|ncclReduce\\(|ncclBroadcast\\([^,]*, )([a-z_0-9 ]+) \\+ ([0-9]+), ");
      for (std::sregex_iterator at(text.begin(), text.end(), places), end; at != end && moved < 24; ++at) {
        const int64_t place = std::stoll((*at)[3]);
        const std::string changed = text.substr(0, size_t(at->position(3))) + std::to_string(place + 8) +
                                    text.substr(size_t(at->position(3) + at->length(3)));
        const SourceCheck result = check(g, rank, changed);
        EXPECT_EQ(result.verdict, Verdict::refuted) << at->str() << result.summary;
        ++moved;
      }
    }
    EXPECT_GE(moved, 8);
  }
}

/// Where a step of the text with hierarchical collectives of this kind begins and ends.
struct Lines {
  size_t begin, end;
};
std::vector<Lines> steps_of(const std::string& text, const std::string& collective) {
  std::vector<Lines> out;
  for (size_t at = 0; (at = text.find("// hierarchical " + collective, at)) != std::string::npos; at = out.back().end)
    out.push_back({at, std::min(text.find("\n\n", at), text.size())});
  return out;
}

/// By name, where arrays begin in the arena.
std::map<std::string, int64_t> arrays_of(const std::string& text) {
  std::map<std::string, int64_t> out{{"arena", 0}};
  const std::regex declared("\\* const ([a-z_0-9]+) = \\((?:float|int)\\*\\)\\(arena \\+ ([0-9]+)\\);");
  for (std::sregex_iterator at(text.begin(), text.end(), declared), end; at != end; ++at)
    out[(*at)[1]] = std::stoll((*at)[2]);
  return out;
}

/// A call of NCCL within a host or of leaders, and the bytes of the arena that it names.
struct NcclCall {
  std::string called;
  bool of_leaders;
  struct Place {
    bool declared;  ///< it is the array of a value
    Range bytes;
  };
  std::vector<Place> places;
};
std::vector<NcclCall> calls_of(const std::string& lines, const std::map<std::string, int64_t>& arrays) {
  std::vector<NcclCall> out;
  const std::regex call("nccl([A-Z][A-Za-z]*)\\((.*), ([0-9]+), nccl_float32, .*_(leaders|host_ranks), ");
  const std::regex place("([a-z_0-9]+)(?: \\+ ([0-9]+))?");
  for (std::sregex_iterator at(lines.begin(), lines.end(), call), end; at != end; ++at) {
    const std::string places = (*at)[2];
    out.push_back({(*at)[1], (*at)[4] == "leaders", {}});
    for (std::sregex_iterator p(places.begin(), places.end(), place); p != end; ++p) {
      const bool declared = (*p)[1] != "arena";
      const int64_t behind = (*p)[2].matched ? std::stoll((*p)[2]) : 0;
      const int64_t begin = arrays.at((*p)[1]) + (declared ? 4 : 1) * behind;
      out.back().places.push_back({declared, {begin, begin + 4 * std::stoll((*at)[3])}});
    }
  }
  return out;
}

/// Bytes that a leader passes on what is others' through, or each that it adds up in.
std::vector<Range> scratch_of(const std::vector<NcclCall>& calls) {
  std::vector<Range> out;
  Range passed_on{std::numeric_limits<int64_t>::max(), 0};
  for (const NcclCall& call : calls) {
    const NcclCall::Place& place = call.places.back();
    if (place.declared) continue;
    // Of sends within the host the operand is the source, which may be packed, and of receives the result the target.
    if (!call.of_leaders && call.called == "Reduce")
      out.push_back(place.bytes);
    else if (call.of_leaders && (call.called == "Send" || call.called == "Recv"))
      passed_on = {std::min(passed_on.lo, place.bytes.lo), std::max(passed_on.hi, place.bytes.hi)};
  }
  if (passed_on.lo < passed_on.hi) out.push_back(passed_on);
  return out;
}

/// The lines with what lies in `from` beginning at `to`.
std::string with_scratch_at(const std::string& lines, Range from, int64_t to) {
  std::string out;
  const std::regex places("arena \\+ ([0-9]+)");
  size_t done = 0;
  for (std::sregex_iterator at(lines.begin(), lines.end(), places), end; at != end; ++at) {
    const int64_t place = std::stoll((*at)[1]);
    if (place < from.lo || place >= from.hi) continue;
    out += lines.substr(done, size_t(at->position()) - done) + "arena + " + std::to_string(place - from.lo + to);
    done = size_t(at->position() + at->length());
  }
  return out + lines.substr(done);
}

/// By name, where arrays begin that are made before these lines and read after them.
std::map<std::string, int64_t> living(const std::string& text, Lines lines) {
  std::map<std::string, int64_t> out;
  const size_t code = text.find("\n\n", text.find("hetsynth_step("));
  const std::regex comment("//[^\n]*");
  const std::string before = std::regex_replace(text.substr(code, lines.begin - code), comment, ""),
                    after = std::regex_replace(text.substr(lines.end), comment, "");
  for (const auto& [name, begin] : arrays_of(text)) {
    const std::regex word("\\b" + name + "\\b");
    if (name != "arena" && std::regex_search(before, word) && std::regex_search(after, word)) out[name] = begin;
  }
  return out;
}

/// Over every array that is needed later, over what the collectives of the step read and write, beyond the end: of
/// leaders that hold a part of the result, and of such that hold none and work for their host alone.
TEST(HierarchicalSource, OfGpusWithScratchOfALeaderOverOtherMemoryIsFound) {
  struct Case {
    size_t plan;
    std::vector<int> hosts;
    int rank;
    const char* collective;
  };
  for (const Case& c :
       {Case{2, {2, 3}, 0, "all_to_all"}, Case{2, {2, 3}, 2, "all_to_all"}, Case{2, {1, 4}, 1, "all_to_all"},
        Case{1, {2, 3}, 0, "reduce_scatter"}, Case{1, {2, 3}, 2, "reduce_scatter"}}) {
    const Generated& plan = on(true)[c.plan];
    const Generated g = generated_for_cuda(plan.reference, by_host(plan.plan, c.hosts), cuda_devices(speeds));
    const std::string& text = host_of(g, c.rank);
    ASSERT_EQ(check(g, c.rank).verdict, Verdict::proved) << check(g, c.rank).summary;
    const std::map<std::string, int64_t> arrays = arrays_of(text);
    int regions = 0, moved = 0, refuted = 0;
    for (const Lines& at : steps_of(text, c.collective)) {
      const std::string lines = text.substr(at.begin, at.end - at.begin);
      const std::vector<NcclCall> calls = calls_of(lines, arrays);
      for (const Range& scratch : scratch_of(calls)) {
        if (++regions > 6) break;
        const auto expect_found = [&](int64_t to, const std::string& over) {
          const std::string changed =
              text.substr(0, at.begin) + with_scratch_at(lines, scratch, to) + text.substr(at.end);
          ASSERT_NE(changed, text);
          const SourceCheck result = check(g, c.rank, changed);
          EXPECT_NE(result.verdict, Verdict::proved) << "rank " << c.rank << ": scratch of bytes " << scratch.lo
                                                     << " to " << scratch.hi << " over " << over << "\n"
                                                     << lines;
          ++moved, refuted += result.verdict == Verdict::refuted;
          if (result.verdict == Verdict::unknown) {
            EXPECT_THAT(result.summary, testing::HasSubstr("a kernel that overwrites what it reads"));
          }
        };
        expect_found(g.devices[size_t(c.rank)].arena_bytes - 4, "the end");
        for (const auto& [name, begin] : living(text, at)) expect_found(begin, name);
        for (const NcclCall& call : calls)
          for (const NcclCall::Place& place : call.places)
            // A sum may take the place of its operand, but not of a part of it.
            if (place.bytes.hi <= scratch.lo || place.bytes.lo >= scratch.hi)
              expect_found(place.bytes.lo + (call.called == "Reduce" ? 4 : 0), "what a call reads or writes");
      }
    }
    EXPECT_GE(moved, 30) << c.collective << " of rank " << c.rank;
    EXPECT_GE(refuted, 9 * moved / 10) << c.collective << " of rank " << c.rank;
  }
}

}  // namespace
}  // namespace hetsynth::test
