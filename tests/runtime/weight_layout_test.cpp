// Layouts of tensors in files of other programs, against loops that are written out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <random>

#include "runtime/weights/layout.h"
#include "tests/support/error_of.h"

namespace hetsynth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// The file's flat index of each element of the model's tensor.
std::vector<int64_t> places(const Layout& layout, const Shape& ours, const std::vector<int64_t>& at = {}) {
  std::vector<int64_t> out;
  for_each_run(layout.walk(ours), at, [&](const ElementRun& run) {
    for (int64_t i = 0; i < run.count; ++i) out.push_back(run.theirs + i * run.stride);
  });
  return out;
}

TEST(Layout, OfTheModelIsTheSame) {
  EXPECT_TRUE(Layout().is_same());
  EXPECT_EQ(Layout().file_shape({2, 3}), (Shape{2, 3}));
  EXPECT_THAT(places(Layout(), {2, 3}), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(places(Layout(), {}), ElementsAre(0));
}

TEST(Layout, Transposes) {
  const Layout layout("c f -> f c");
  EXPECT_EQ(layout.file_shape({2, 3}), (Shape{3, 2}));
  EXPECT_THAT(places(layout, {2, 3}), ElementsAre(0, 2, 4, 1, 3, 5));
}

TEST(Layout, JoinsDimensions) {
  const Layout layout("c h d -> (h d) c");
  EXPECT_EQ(layout.file_shape({2, 3, 4}), (Shape{12, 2}));
  std::vector<int64_t> expected;
  for (int c = 0; c < 2; ++c)
    for (int h = 0; h < 3; ++h)
      for (int d = 0; d < 4; ++d) expected.push_back((h * 4 + d) * 2 + c);
  EXPECT_EQ(places(layout, {2, 3, 4}), expected);
}

TEST(Layout, TakesOneOfSeveralTensorsThatAreJoined) {
  const Layout layout("c h d -> c (3 h d)", 1);
  EXPECT_EQ(layout.joined(), 3);
  EXPECT_EQ(layout.file_shape({2, 3, 4}), (Shape{2, 36}));
  std::vector<int64_t> expected;
  for (int c = 0; c < 2; ++c)
    for (int h = 0; h < 3; ++h)
      for (int d = 0; d < 4; ++d) expected.push_back(c * 36 + 12 + h * 4 + d);
  EXPECT_EQ(places(layout, {2, 3, 4}), expected);
}

TEST(Layout, SplitsDimensionsOfTheModel) {
  // Rotary pairs: halves of a head here, neighbours there.
  const Layout layout("c h (2 d) -> (h d 2) c");
  EXPECT_EQ(layout.file_shape({2, 3, 4}), (Shape{12, 2}));
  std::vector<int64_t> expected;
  for (int c = 0; c < 2; ++c)
    for (int h = 0; h < 3; ++h)
      for (int half = 0; half < 2; ++half)
        for (int d = 0; d < 2; ++d) expected.push_back(((h * 2 + d) * 2 + half) * 2 + c);
  EXPECT_EQ(places(layout, {2, 3, 4}), expected);
  EXPECT_THAT(places(Layout("(2 a 3) -> 3 a 2"), {12}), ElementsAre(0, 4, 8, 2, 6, 10, 1, 5, 9, 3, 7, 11));
  EXPECT_THAT(error_of([&] {
                layout.walk({2, 3, 5});
              }),
              AllOf(HasSubstr("parts that are not equal"), HasSubstr("an extent that 2 divides"), HasSubstr("5")));
}

TEST(Layout, LeavesDimensionsToTheNamesOfTensors) {
  const Layout layout("e c f -> f c");
  EXPECT_THAT(layout.separate(), ElementsAre("e"));
  EXPECT_EQ(layout.file_shape({4, 2, 3}), (Shape{3, 2}));
  EXPECT_THAT(places(layout, {4, 2, 3}, {2}), ElementsAre(0, 2, 4, 1, 3, 5));
  std::vector<int64_t> ours;
  for_each_run(layout.walk({4, 2, 3}), {2}, [&](const ElementRun& run) {
    for (int64_t i = 0; i < run.count; ++i) ours.push_back(run.ours + i);
  });
  EXPECT_THAT(ours, ElementsAre(12, 13, 14, 15, 16, 17));
}

TEST(Layout, PutsEachElementIntoAPlaceOfItsOwn) {
  // Random permutations of dimensions, cut into random groups, with a joined part or without.
  std::mt19937_64 random(20261128);
  for (int round = 0; round < 500; ++round) {
    const size_t rank = 1 + random() % 4;
    Shape ours;
    std::string text, right;
    std::vector<size_t> order(rank);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::shuffle(order, random);
    for (size_t d = 0; d < rank; ++d) ours.push_back(1 + int64_t(random() % 4)), text += char('a' + d), text += ' ';
    const bool joins = random() % 2;
    const size_t joined_at = random() % rank;
    for (size_t i = 0; i < rank;) {
      const size_t end = i + 1 + random() % (rank - i);
      right += " (";
      for (size_t j = i; j < end; ++j) {
        if (joins && j == joined_at) right += " 3 ";
        right += ' ', right += char('a' + order[j]);
      }
      right += " )";
      i = end;
    }
    SCOPED_TRACE(text + "->" + right);
    std::map<int64_t, int> seen;
    const int64_t all = element_count(Layout(text + "->" + right).file_shape(ours));
    for (int64_t part = 0; part < (joins ? 3 : 1); ++part)
      for (const int64_t place : places(Layout(text + "->" + right, part), ours)) ++seen[place];
    EXPECT_EQ(int64_t(seen.size()), all);
    EXPECT_EQ(seen.begin()->first, 0);
    EXPECT_EQ(seen.rbegin()->first, all - 1);
    for (const auto& [place, times] : seen) EXPECT_EQ(times, 1);
  }
}

TEST(Layout, OfTheWrongFormIsRefused) {
  for (const auto& [text, words] :
       std::map<std::string, std::string>{{"a b", "has no arrow"},
                                          {"a a -> a", "names a dimension twice: a"},
                                          {"a -> a a", "names a dimension twice: a"},
                                          {"a -> b", "has a dimension that the model's tensor has not: b"},
                                          {"(a b) -> a b", "parentheses on the side of the model"},
                                          {"a b -> (a b", "parentheses that do not match"},
                                          {"a b -> a) b", "parentheses that do not match"},
                                          {"3 a -> a", "a number on the side of the model"},
                                          {"(a) -> a", "parentheses on the side of the model around one word"},
                                          {"(2 a -> a 2", "parentheses that do not match"},
                                          {"(2 a) -> a", "splits a dimension by 2, which the file has nowhere"},
                                          {"(2a b) -> b", "a name that begins with a digit"},
                                          {"a -> 0 a", "joins tensors by a number that is none"},
                                          {"a -> 2 3 a", "joins tensors by a number that is none, or twice"},
                                          {"a - b -> a b", "a character that means nothing: -"},
                                          {"a ->", "has nothing on one side"},
                                          {" -> 3", "has nothing on one side"}})
    EXPECT_THAT(error_of([&] { Layout layout(text); }),
                ::testing::AllOf(HasSubstr(words), HasSubstr("\"c h d -> (h d) c\"")))
        << text;
  EXPECT_THAT(error_of([] { Layout("a -> (3 a)", 3); }), HasSubstr("joins 3 tensors, of which none is number 3"));
  EXPECT_THAT(error_of([] { Layout("a b -> b a").file_shape({2}); }), HasSubstr("another number of dimensions"));
}

}  // namespace
}  // namespace hetsynth
