// Hierarchical collectives in the generated text of both kinds of devices: it agrees with its plan, and one that was
// damaged does not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "synth/peers/peers.h"
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

}  // namespace
}  // namespace hetsynth::test
