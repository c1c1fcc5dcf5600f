// What the search finds for a program at fixed shares.
#pragma once
#include <memory>

#include "synth/baselines/baselines.h"
#include "synth/network/search.h"

namespace hetsynth::testing_support {

struct Searched {
  Searched(std::shared_ptr<const synth::Analysis> analysis, const Cluster& cluster, const Mesh& mesh,
           RatioRule rule = RatioRule::proportional, const synth::SearchLimits& limits = {})
      : problem(std::move(analysis), cluster, mesh),
        shares(synth::common_shares(problem.classes, synth::fractions_of(problem, rule))),
        conversions(*problem.analysis, problem.cost, shares),
        solution(synth::search(problem, conversions, shares, {}, limits)) {}
  /// On one axis over all devices.
  Searched(const Program& program, const Cluster& cluster, RatioRule rule, const synth::SearchLimits& limits = {})
      : Searched(std::make_shared<const synth::Analysis>(program, 1), cluster, synth::flat_mesh(cluster), rule,
                 limits) {}
  /// At shares by speed.
  Searched(const Program& program, const Cluster& cluster, const Mesh& mesh, const synth::SearchLimits& limits = {})
      : Searched(std::make_shared<const synth::Analysis>(program, int(mesh.axes.size())), cluster, mesh,
                 RatioRule::proportional, limits) {}

  synth::Problem problem;
  synth::Shares shares;
  synth::Conversions conversions;
  synth::Solution solution;
};

}  // namespace hetsynth::testing_support
