// Migrations between random plans are right, and whatever is changed in one is found.
#include "verify/migration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/mutation/random_plans.h"

namespace hetsynth {
namespace {

using test::PlanBuilder;
using test::Random;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// Moves between two plans, which may have other devices.
struct Change {
  Program reference;
  SpmdProgram before, after;
  Migration migration;
  std::string flaw() const { return flaw_of_migration(reference, before, after, migration); }
};

Change random_change(Random& random) {
  Change out{test::random_program(random, 6), {}, {}, {}};
  out.before = test::random_plan(random, out.reference);
  out.after = test::random_plan(random, out.reference);
  const int old_ranks = out.before.mesh.device_count(), new_ranks = out.after.mesh.device_count();
  std::vector<int> was, old_hosts, new_hosts;
  for (int rank = 0; rank < old_ranks; ++rank) old_hosts.push_back(rank / 2);
  for (int rank = 0; rank < new_ranks; ++rank) {
    was.push_back(rank < old_ranks ? rank : -1);
    new_hosts.push_back(rank / 2);
  }
  out.migration = migration_between(out.reference, out.before, out.after, was, old_hosts, new_hosts);
  return out;
}

/// Element by element, without boxes: what every new rank gets, and whether who gives it has it.
std::string flaw_by_elements(const Change& change) {
  const auto held = [&](const SpmdProgram& program, NodeId node, int rank) {
    std::vector<bool> out;
    const Shape& shape = change.reference[node].type.shape;
    const int64_t count = element_count(shape);
    out.assign(size_t(count), false);
    const ValueId leaf = leaf_of(program, node);
    if (leaf < 0 || !holds(program.mesh, program.values[size_t(leaf)].placements, rank)) return out;
    const std::vector<Range> ranges = local_ranges(program, program.values[size_t(leaf)].placements, shape, rank);
    const std::vector<int64_t> strides = row_major_strides(shape);
    for (int64_t i = 0; i < count; ++i) {
      bool in = true;
      for (size_t d = 0; d < shape.size(); ++d) {
        const int64_t index = i / strides[d] % shape[d];
        in = in && index >= ranges[d].lo && index < ranges[d].hi;
      }
      out[size_t(i)] = in;
    }
    return out;
  };
  for (const Node& node : change.reference.nodes) {
    if (node.kind != NodeKind::parameter && node.kind != NodeKind::state) continue;
    const Shape& shape = node.type.shape;
    const std::vector<int64_t> strides = row_major_strides(shape);
    for (int to = 0; to < change.after.mesh.device_count(); ++to) {
      std::vector<int> got(size_t(element_count(shape)), 0);
      for (const TensorMove& move : change.migration.moves) {
        if (move.node != node.id || move.to != to) continue;
        const std::vector<bool> source = held(change.before, node.id, move.from);
        for (size_t i = 0; i < got.size(); ++i) {
          bool in = true;
          for (size_t d = 0; d < shape.size(); ++d) {
            const int64_t index = int64_t(i) / strides[d] % shape[d];
            in = in && index >= move.ranges[d].lo && index < move.ranges[d].hi;
          }
          if (!in) continue;
          ++got[i];
          if (!source[i]) return "not the sender's";
        }
      }
      const std::vector<bool> wanted = held(change.after, node.id, to);
      for (size_t i = 0; i < got.size(); ++i)
        if (got[i] != (wanted[i] ? 1 : 0)) return "wrong number of copies";
    }
  }
  return "";
}

TEST(Migration, BetweenRandomPlansIsRight) {
  int moved = 0, kept = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    const Change change = random_change(random);
    ASSERT_EQ(change.flaw(), "") << "seed " << seed;
    ASSERT_EQ(flaw_by_elements(change), "") << "seed " << seed;
    for (const TensorMove& move : change.migration.moves)
      ++(change.migration.was[size_t(move.to)] == move.from ? kept : moved);
  }
  EXPECT_GT(moved, 300);
  EXPECT_GT(kept, 300);
}

/// Whatever one move is changed into, the check says what looking at every element says.
TEST(Migration, ChangedMovesAreFoundWhereverTheyMatter) {
  int found = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    Random random(seed);
    Change change = random_change(random);
    std::vector<TensorMove>& moves = change.migration.moves;
    if (moves.empty()) continue;
    const auto at = size_t(random() % moves.size());
    TensorMove& move = moves[at];
    switch (random() % 5) {
      case 0:
        moves.erase(moves.begin() + ptrdiff_t(at));
        break;
      case 1:
        moves.push_back(TensorMove(move));
        break;
      case 2:
        move.from = int(random() % uint64_t(change.before.mesh.device_count()));
        break;
      case 3:
        move.to = int(random() % uint64_t(change.after.mesh.device_count()));
        break;
      default:
        if (move.ranges.empty()) break;
        // One element more or less of some dimension, inside of the tensor.
        const size_t d = random() % move.ranges.size();
        Range& range = move.ranges[d];
        (random() % 2 ? range.lo : range.hi) += random() % 2 ? 1 : -1;
        range.lo = std::max<int64_t>(range.lo, 0);
        range.hi = std::clamp(range.hi, range.lo, change.reference[move.node].type.shape[d]);
    }
    const std::string flaw = change.flaw();
    EXPECT_EQ(flaw.empty(), flaw_by_elements(change).empty()) << "seed " << seed << ": " << flaw;
    found += !flaw.empty();
  }
  EXPECT_GT(found, 500);
}

/// w [6, 4] on three ranks, cut by 1:2:3 before and 3:2:1 afterwards.
Change cut_anew() {
  Change out{test::two_layers(), {}, {}, {}};
  const auto plan = [&](std::vector<int64_t> bounds) {
    PlanBuilder builder(out.reference, {{"dev", 3}});
    const int table = builder.table("t", 0, 6, std::move(bounds));
    builder.leaf("w1", {Placement::sharded(1, table)});
    return builder.plan;
  };
  out.before = plan({0, 1, 3, 6});
  out.after = plan({0, 3, 5, 6});
  out.migration = migration_between(out.reference, out.before, out.after, {0, 1, 2}, {0, 0, 1}, {0, 0, 1});
  return out;
}

TEST(Migration, ADeviceKeepsWhatItHas) {
  const Change change = cut_anew();
  EXPECT_EQ(change.flaw(), "");
  std::vector<std::string> words;
  for (const TensorMove& move : change.migration.moves)
    words.push_back(text(change.reference, move.node, move.ranges) + " " + std::to_string(move.from) + " to " +
                    std::to_string(move.to));
  EXPECT_THAT(words, ::testing::ElementsAre("w1[0:4, 0:1] 0 to 0", "w1[0:4, 1:3] 1 to 0", "w1[0:4, 3:5] 2 to 1",
                                            "w1[0:4, 5:6] 2 to 2"));
  EXPECT_EQ(moved_bytes(change.reference, change.migration), 4 * 4 * 4);
}

TEST(Migration, FlawsAreNamedWithTensorPartAndRanks) {
  const auto flaw = [](const std::function<void(std::vector<TensorMove>&)>& edit) {
    Change change = cut_anew();
    edit(change.migration.moves);
    return change.flaw();
  };
  EXPECT_THAT(flaw([](auto& moves) { moves.erase(moves.begin() + 1); }),
              HasSubstr("rank 0 will hold w1[0:4, 0:3], 12 elements, and gets 4 of them"));
  EXPECT_THAT(flaw([](auto& moves) { moves.push_back(moves[2]); }),
              HasSubstr("rank 1 gets a part of w1 twice: w1[0:4, 3:5] from rank 2 and w1[0:4, 3:5] from rank 2"));
  EXPECT_THAT(flaw([](auto& moves) { moves[1].from = 2; }),
              HasSubstr("w1[0:4, 1:3] comes from rank 2, which holds w1[0:4, 3:6]"));
  EXPECT_THAT(flaw([](auto& moves) { moves[1].to = 2; }),
              HasSubstr("w1[0:4, 1:3] goes to rank 2, which will hold w1[0:4, 5:6]"));
  EXPECT_THAT(flaw([](auto& moves) { moves[1].to = 5; }), HasSubstr("goes to rank 5, which the new program has not"));
  EXPECT_THAT(flaw([](auto& moves) { moves[1].from = -1; }),
              HasSubstr("comes from rank -1, which the old program has not"));
  EXPECT_THAT(flaw([](auto& moves) { moves[1].ranges.pop_back(); }), HasSubstr("comes from rank 1, which holds"));
  EXPECT_THAT(flaw([](auto& moves) { moves[1].node = 0; }), HasSubstr("no parameter or state"));
}

}  // namespace
}  // namespace hetsynth
