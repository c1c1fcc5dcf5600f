// Nothing that is there is lost: what a command writes takes the place of nothing, or of a file of its own kind.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <map>

#include "tests/cli/command.h"

namespace hetsynth::testing {
namespace {

using ::testing::HasSubstr;

class Outputs : public ::testing::Test {
 protected:
  Outputs() {
    place.write("notes.txt", "one text\n");
    place.write("rules.toml", "[[rule]]\n");
    done("plan model.cpp --cluster c.toml -o plan.json");
    done("verify model.cpp plan.json -o certificate.json");
    done("explain model.cpp plan.json --cluster c.toml --html page.html --trace trace.json");
    done("run model.cpp --cluster c.toml --steps 1 --checkpoint a.st --log-json log.json");
    done("tokenize notes.txt --train-bpe 256 -o tokenizer.json");
    done("tokenize notes.txt --tokenizer tokenizer.json -o tokens.npy");
  }
  void done(const std::string& words) const {
    const Outcome outcome = place.run(words);
    ASSERT_EQ(outcome.code, 0) << words << "\n" << outcome.out << outcome.err;
  }
  /// Refused, with these words, and each file of the folder as before.
  void expect_kept(const std::string& words, const std::string& message, int code = 3) const {
    const std::map<std::string, std::string> before = files();
    EXPECT_THAT(place.run(words), Fails(code, HasSubstr(message))) << words;
    for (const auto& [name, bytes] : before) EXPECT_TRUE(place.read(name) == bytes) << words << " changed " << name;
    for (const auto& [name, bytes] : files()) EXPECT_TRUE(before.contains(name)) << words << " left " << name;
  }
  std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> out;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(place.folder())) {
      const std::string name = std::filesystem::relative(entry.path(), place.folder()).string();
      // Not what the runs themselves leave: their streams and the cache.
      if (entry.is_regular_file() && name[0] != '.' && name.find("cache") == std::string::npos)
        out[name] = place.read(name);
    }
    return out;
  }
  const Workplace place;
};

TEST_F(Outputs, TakeThePlaceOfNothingOfAnotherKind) {
  const std::multimap<std::string, std::string> commands = {
      {"plan.json", "plan model.cpp --cluster c.toml -o {}"},
      {"certificate.json", "verify model.cpp plan.json -o {}"},
      {"page.html", "explain model.cpp plan.json --cluster c.toml --html {}"},
      {"trace.json", "explain model.cpp plan.json --cluster c.toml --trace {}"},
      {"trace.json", "run model.cpp --cluster c.toml --steps 1 --trace {}"},
      {"a.st", "run model.cpp --cluster c.toml --steps 1 --checkpoint {}"},
      {"log.json", "run model.cpp --cluster c.toml --steps 1 --log-json {}"},
      {"c.toml", "probe c.toml --seconds 0.01 -o {}"},
      {"exported.st", "export a.st --map rules.toml -o {}"},
      {"tokenizer.json", "tokenize notes.txt --train-bpe 256 -o {}"}};
  for (const auto& [own, words] : commands)
    for (const std::string victim : {"model.cpp", "c.toml", "plan.json", "certificate.json", "page.html", "trace.json",
                                     "a.st", "log.json", "notes.txt", "tokenizer.json", "tokens.npy"})
      if (victim != own) expect_kept(fmt::format(fmt::runtime(words), victim), "it was left as it is");
}

TEST_F(Outputs, TakeThePlaceOfTheirOwnKindAndOfNothing) {
  place.write("empty", "");
  for (const std::string target : {"plan.json", "empty", "new"}) done("plan model.cpp --cluster c.toml -o " + target);
  done("verify model.cpp plan.json -o certificate.json");
  done("explain model.cpp plan.json --cluster c.toml --html page.html --trace trace.json");
  done("tokenize notes.txt --train-bpe 256 -o tokenizer.json");
  done("tokenize notes.txt --tokenizer tokenizer.json -o tokens.npy");
  done("tokenize --decode tokens.npy --tokenizer tokenizer.json -o again.txt");
  done("tokenize --decode tokens.npy --tokenizer tokenizer.json -o again.txt");
  EXPECT_EQ(place.read("again.txt"), "one text\n");
  done("plan model.cpp --cluster c.toml -o /dev/null");
}

TEST_F(Outputs, AreNoneOfTheInputs) {
  const std::string words = "would take the place of a file that this command reads; it was left as it is";
  std::filesystem::create_hard_link(place.folder() / "tokenizer.json", place.folder() / "linked.json");
  expect_kept("tokenize --decode tokens.npy --tokenizer tokenizer.json -o tokenizer.json", words);
  expect_kept("tokenize --decode tokens.npy --tokenizer tokenizer.json -o linked.json", words);
  expect_kept("tokenize tokenizer.json --train-bpe 256 -o tokenizer.json", words);
  expect_kept("export a.st --map rules.toml -o a.st", words);
  expect_kept("run model.cpp --cluster c.toml --steps 1 --init-from a.st --checkpoint a.st", words);
}

TEST_F(Outputs, OfOneRunAreDifferentFiles) {
  for (const std::string log : {"b.st", "./b.st", "b.st.previous", "b.st.best", "b.st.job.toml"})
    expect_kept("run model.cpp --cluster c.toml --steps 1 --checkpoint b.st --log-json " + log,
                "the log and the checkpoint would be the same file", 2);
}

TEST_F(Outputs, BesideACheckpointAreNobodyElses) {
  const std::string run = "run model.cpp --cluster c.toml --checkpoint b.st --steps ";
  for (const std::string name : {"b.st.job.toml", "b.st.previous"}) {
    place.write(name, "somebody's\n");
    expect_kept(run + "1", name + ": error: the file exists and is no ");
    std::filesystem::remove(place.folder() / name);
  }
  place.write("b.st.2", "somebody's\n");
  expect_kept(run + "2 --checkpoint-every 1 --keep 2", "b.st.2: error: the file exists and is no ");
  // Names that this run does not come to, or that no checkpoint gets, are none of its business.
  for (const std::string name : {"b.st.3", "b.st.02", "b.st.2x"}) place.write(name, "somebody's\n");
  std::filesystem::remove(place.folder() / "b.st.2");
  done(run + "2 --checkpoint-every 1 --keep 2");
  for (const std::string name : {"b.st.3", "b.st.02", "b.st.2x"}) EXPECT_EQ(place.read(name), "somebody's\n");
  EXPECT_THAT(place.run(run + "2 --keep 2 --log-json b.st.7"),
              Fails(2, HasSubstr("a checkpoint that --keep asks for may get the log's name")));
}

TEST_F(Outputs, OfInspectLeaveOtherProjectsAndEditsBe) {
  std::filesystem::create_directory(place.folder() / "theirs");
  for (const std::string name : {"theirs/CMakeLists.txt", "theirs/main.cpp", "theirs/rank0.cpp"}) {
    place.write(name, "// somebody's\n");
    expect_kept("inspect model.cpp plan.json --out theirs", name + ": error: the file exists and is no generated");
    std::filesystem::remove(place.folder() / name);
  }
  done("inspect model.cpp plan.json --out ours");
  const std::string text = place.read("ours/rank0.cpp"), edited = text + "// an edit\n";
  place.write("ours/rank0.cpp", edited);
  done("inspect model.cpp plan.json --out ours");
  EXPECT_EQ(place.read("ours/rank0.cpp"), text);
  EXPECT_EQ(place.read("ours/rank0.cpp.previous"), edited);
  EXPECT_FALSE(place.exists("ours/rank1.cpp.previous"));
}

TEST_F(Outputs, AndInputsThatArePipesAreNotWaitedFor) {
  ASSERT_EQ(::mkfifo((place.folder() / "pipe").c_str(), 0600), 0);
  place.write("includes.cpp", "#include \"pipe\"\n" + place.read("model.cpp"));
  EXPECT_THAT(place.run("plan includes.cpp --cluster c.toml"),
              Fails(3, AllOf(HasSubstr("includes.cpp:1:"), HasSubstr("it is a pipe, a socket or a device"))));
  const std::string nobody = "nobody reads the pipe";
  EXPECT_THAT(place.run("plan model.cpp --cluster c.toml -o pipe"), Fails(1, HasSubstr(nobody)));
  EXPECT_THAT(place.run("run model.cpp --cluster c.toml --steps 1 --log-json pipe"), Fails(1, HasSubstr(nobody)));
  for (const std::string words :
       {"history pipe", "plan model.cpp --cluster pipe", "verify model.cpp pipe", "plan pipe --cluster c.toml",
        "run model.cpp --cluster c.toml --resume pipe", "run model.cpp --cluster c.toml --init-from pipe",
        "run model.cpp --cluster c.toml --init-from a.st --map pipe", "checkpoint pipe",
        "tokenize pipe -o a.npy -t pipe", "elastic model.cpp --cluster c.toml --hosts pipe --checkpoint e.st --steps 1",
        "diff pipe plan.json"}) {
    const Outcome outcome = place.run(words);
    EXPECT_TRUE(outcome.code == 2 || outcome.code == 3) << words << " " << outcome.code << outcome.err;
    EXPECT_NE(outcome.err, "") << words;
  }
}

}  // namespace
}  // namespace hetsynth::testing
