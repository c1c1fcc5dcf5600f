// The writer of checkpoints when the system refuses a call, and when the process is killed: a whole checkpoint is there
// at any time, and the one before it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <random>
#include <thread>

#include "dsl/base/error.h"
#include "dsl/base/file.h"
#include "runtime/training/checkpoint.h"
#include "runtime/training/safetensors.h"
#include "tests/runtime/failing_calls.h"
#include "tests/runtime/fake_program.h"
#include "tests/runtime/temporary_folder.h"
#include "tests/support/error_of.h"

namespace hetsynth {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using namespace testing;  // NOLINT: fixtures of this folder

FakeOptions one_rank() { return {{0, 12}, {0, 7}, false, -1, -1}; }

std::vector<std::string> names_in(const TemporaryFolder& folder) {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    out.push_back(entry.path().filename().string());
  std::ranges::sort(out);
  return out;
}

/// Calls whose failure costs nothing but a lock or a file that is left for the next writer.
bool may_fail_unnoticed(const std::string& call) {
  return call.starts_with("flock") || call.starts_with("close") || call == "openat ." || call.starts_with("fstat ") ||
         call.starts_with("unlinkat");
}

/// A failing call of this error, whichever it is, leaves a whole checkpoint and is told.
void expect_no_failure_loses_work(int error) {
  const auto executor = fake_executor(one_rank());
  int failed = 0;
  for (int call = 0;; ++call) {
    TemporaryFolder folder;
    const std::string path = folder.path("model");
    save_checkpoint(path, *executor, {.next_step = 2});
    save_checkpoint(path, *executor, {.next_step = 3});
    std::string message = "no error";
    std::vector<std::string> calls;
    {
      const FailingCalls failing(call, error);
      message = error_of([&] { save_checkpoint(path, *executor, {.next_step = 4}); });
      calls = failing.calls();
    }
    if (int(calls.size()) <= call) break;
    const std::string name = calls[size_t(call)];
    SCOPED_TRACE("call " + std::to_string(call) + " failed: " + name);
    if (message != "no error") {
      ++failed;
      EXPECT_THAT(message, HasSubstr("model"));
      EXPECT_THAT(message, HasSubstr("cannot write the checkpoint"));
    } else {
      // Without links the one before is moved.
      EXPECT_TRUE(may_fail_unnoticed(name) || name.starts_with("linkat")) << name;
    }
    const int64_t step = read_checkpoint_info(path).next_step,
                  before = read_checkpoint_info(path + ".previous").next_step;
    EXPECT_TRUE(step == 4 || (step == 3 && message != "no error")) << step;
    EXPECT_TRUE(before == step - 1 || (step == 3 && before == 3)) << step << " after " << before;
    load_checkpoint(path, *executor);
    if (!name.starts_with("unlinkat")) {
      EXPECT_THAT(names_in(folder), Each(Not(HasSubstr(".tmp"))));
    }
    // Whatever was left is gone after the next save, which goes well.
    save_checkpoint(path, *executor, {.next_step = 5});
    EXPECT_EQ(names_in(folder), (std::vector<std::string>{"model", "model.previous"}));
  }
  EXPECT_GE(failed, 10);
}

TEST(CheckpointFaults, NoFailingCallLosesWork) { expect_no_failure_loses_work(EIO); }
TEST(CheckpointFaults, NoFullDiskLosesWork) { expect_no_failure_loses_work(ENOSPC); }
TEST(CheckpointFaults, AFileSystemWithoutLinksKeepsTheOneBeforeToo) { expect_no_failure_loses_work(EOPNOTSUPP); }

TEST(CheckpointFaults, BytesAreSyncedBeforeTheNameAndTheNameBeforeTheEnd) {
  TemporaryFolder folder;
  const auto executor = fake_executor(one_rank());
  save_checkpoint(folder.path("model"), *executor, {.next_step = 3});
  std::vector<std::string> calls;
  {
    const FailingCalls watched;
    save_checkpoint(folder.path("model"), *executor, {.next_step = 4});
    calls = watched.calls();
  }
  const auto last = [&](const std::string& start, const std::string& end) {
    size_t at = 0;
    for (size_t i = 0; i < calls.size(); ++i)
      if (calls[i].starts_with(start) && calls[i].ends_with(end)) at = i;
    EXPECT_NE(at, 0u) << start << " " << end;
    return at;
  };
  const size_t written = last("pwrite", ""), kept = last("renameat", " model.previous"),
               placed = last("renameat", " model");
  const std::string file = calls[written].substr(7);
  EXPECT_LT(written, last("fsync " + file, ""));
  EXPECT_LT(last("fsync " + file, ""), kept);
  EXPECT_LT(kept, placed);
  EXPECT_LT(placed, last("fsync", ""));  // of the folder
}

/// Saves one checkpoint after the other until it is killed; each is filled with its own number.
[[noreturn]] void save_for_ever(const std::string& path) {
  const TensorType type{{256, 128}, DType::f32};
  for (int number = 1;; ++number) {
    HostTensor tensor(type);
    for (float& value : tensor.as<float>()) value = float(number);
    write_safetensors(
        path, {{"w", type}, {"m", type}}, {{"number", std::to_string(number)}},
        [&](const std::string&) { return tensor; }, "model.previous");
  }
}

int number_in(const std::string& path) {
  SafetensorsFile file(path);
  const int number = std::stoi(file.metadata().at("number"));
  for (const char* name : {"w", "m"}) {
    const HostTensor tensor = file.read(name);
    EXPECT_THAT(tensor.as<float>(), Each(float(number)));
  }
  return number;
}

TEST(CheckpointFaults, KilledAtAHundredMomentsItAlwaysLeavesAWholeOne) {
  TemporaryFolder folder;
  std::mt19937 random(39);
  int with_rest = 0;
  for (int round = 0; round < 100; ++round) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) save_for_ever(folder.path("model"));
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 15000));
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    const std::vector<std::string> names = names_in(folder);
    with_rest += std::ranges::any_of(names, [](const std::string& name) { return name.ends_with(".tmp"); });
    // What one writer left the next one removes.
    EXPECT_LE(names.size(), 4u);
    if (!std::filesystem::exists(folder.path("model"))) continue;
    const int number = number_in(folder.path("model"));
    if (std::filesystem::exists(folder.path("model.previous"))) {
      const int before = number_in(folder.path("model.previous"));
      EXPECT_TRUE(before == number || before == number - 1 || number == 1) << number << " after " << before;
    }
  }
  EXPECT_GT(with_rest, 0) << "no writer was killed while it wrote";
  const auto executor = fake_executor(one_rank());
  save_checkpoint(folder.path("model"), *executor, {});
  EXPECT_EQ(names_in(folder), (std::vector<std::string>{"model", "model.previous"}));
}

TEST(CheckpointFaults, TwoWritersOfOnePlaceLeaveEachOthersFilesAlone) {
  TemporaryFolder folder;
  std::vector<std::thread> writers;
  for (int writer = 0; writer < 4; ++writer)
    writers.emplace_back([&] {
      for (int i = 0; i < 25; ++i) write_file_atomically(folder.path("plan"), "plan file", std::string(1000, 'p'));
    });
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(folder.read("plan"), std::string(1000, 'p'));
  EXPECT_EQ(names_in(folder), (std::vector<std::string>{"plan"}));
}

TEST(CheckpointFaults, ALinkStaysALinkAndAPrivateFileStaysPrivate) {
  TemporaryFolder folder;
  folder.write("real/model", "");
  std::filesystem::permissions(folder.path("real/model"), std::filesystem::perms(0600));
  folder.link("real/model", "model");
  save_checkpoint(folder.path("model"), *fake_executor(one_rank()), {.next_step = 7});
  EXPECT_TRUE(std::filesystem::is_symlink(folder.path("model")));
  EXPECT_EQ(read_checkpoint_info(folder.path("real/model")).next_step, 7);
  EXPECT_EQ(std::filesystem::status(folder.path("real/model")).permissions(), std::filesystem::perms(0600));
}

TEST(CheckpointFaults, IntoADeviceBytesAreWrittenAndNothingIsReplaced) {
  write_file_atomically("/dev/null", "plan file", "text");
  EXPECT_FALSE(std::filesystem::is_regular_file("/dev/null"));
  EXPECT_THAT(error_of([] { save_checkpoint("/dev/null", *fake_executor(one_rank()), {}); }),
              HasSubstr("it is not a regular file"));
}

}  // namespace
}  // namespace hetsynth
