#include "synth/colouring.h"

#include <algorithm>
#include <numeric>

namespace hetsynth::synth {
namespace {

Colouring counted(std::vector<int> colours, int number) {
  Colouring out{std::move(colours), std::vector<int>(number, -1), std::vector<int>(number, 0)};
  for (size_t v = 0; v < out.colour.size(); ++v) {
    int c = out.colour[v];
    if (out.count[c]++ == 0) out.representative[c] = int(v);
  }
  return out;
}

}  // namespace

Colouring colour(const Network& network, const std::vector<int>& rank, int rounds) {
  int count = network.variable_count();
  Interner<int> first;
  std::vector<int> colours;
  for (int v = 0; v < count; ++v) colours.push_back(first.number({network.unary_table(v)}));
  int number = first.size();
  for (int round = 0; round < rounds; ++round) {
    Interner<int> refined;
    std::vector<int> next;
    std::vector<std::pair<int, int>> around;
    for (int v = 0; v < count; ++v) {
      around.clear();
      for (const Network::End& end : network.ends(v))
        around.push_back(
            {network.pairs()[end.pair].table * 4 + end.first * 2 + (rank[v] < rank[end.other]), colours[end.other]});
      std::sort(around.begin(), around.end());
      std::vector<int> key{colours[v]};
      for (auto [side, other] : around) key.insert(key.end(), {side, other});
      next.push_back(refined.number(std::move(key)));
    }
    colours = std::move(next);
    bool stable = refined.size() == number;
    number = refined.size();
    if (stable) break;
  }
  return counted(std::move(colours), number);
}

Colouring every_variable(const Network& network) {
  std::vector<int> colours(network.variable_count());
  std::iota(colours.begin(), colours.end(), 0);
  return counted(std::move(colours), network.variable_count());
}

}  // namespace hetsynth::synth
