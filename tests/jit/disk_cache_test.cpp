// The disk cache under damage, concurrency and missing permissions.
#include "dsl/jit/disk_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "dsl/jit/cache_folder.h"
#include "dsl/jit/compiled_code.h"
#include "tests/support/temporary_cache.h"

namespace hetsynth {
namespace {

class Cache : public TemporaryCache {};

const char* const source = "extern \"C\" int value() { return 5; }";
int run(const CompiledCode& code) { return NativeModule::load(code.object, "test").function<int()>("value")(); }

TEST_F(Cache, SecondCompilationComesFromDisk) {
  CompiledCode first = compile_cached(source);
  CompiledCode second = compile_cached(source);
  EXPECT_FALSE(first.from_cache);
  EXPECT_TRUE(second.from_cache);
  EXPECT_EQ(first.object, second.object);
  EXPECT_EQ(run(second), 5);
}

TEST_F(Cache, EveryOptionThatChangesCodeChangesTheKey) {
  compile_cached(source);
  EXPECT_FALSE(compile_cached(source, {.optimization = 1}).from_cache);
  EXPECT_FALSE(compile_cached(source, {.native = false}).from_cache);
  EXPECT_FALSE(compile_cached(source, {.debug_info = true}).from_cache);
  EXPECT_FALSE(compile_cached(source, {.flags = {"-DX=1"}}).from_cache);
  EXPECT_FALSE(compile_cached(source, {.file_name = "other.cpp"}).from_cache);
  EXPECT_FALSE(compile_cached(std::string(source) + " ").from_cache);
  EXPECT_TRUE(compile_cached(source).from_cache);
}

TEST_F(Cache, DamagedEntriesAreMadeAnew) {
  CompiledCode good = compile_cached(source);
  ASSERT_EQ(entries("objects").size(), 1u);
  const std::filesystem::path file = entries("objects")[0];
  const std::string bytes = read(file);
  std::vector<std::string> damaged = {"",
                                      "x",
                                      bytes.substr(0, 10),
                                      bytes.substr(0, bytes.size() / 2),
                                      bytes.substr(0, bytes.size() - 1),
                                      bytes + "x",
                                      std::string(bytes.size(), '\0')};
  for (size_t at : {size_t(3), size_t(20), size_t(60), bytes.size() / 2, bytes.size() - 1}) {
    damaged.push_back(bytes);
    damaged.back()[at] ^= 1;
  }
  for (const std::string& bad : damaged) {
    write(file, bad);
    CompiledCode again = compile_cached(source);
    EXPECT_FALSE(again.from_cache) << "an entry of " << bad.size() << " bytes was believed";
    EXPECT_EQ(again.object, good.object);
    EXPECT_EQ(read(file), bytes);
  }
}

TEST_F(Cache, AnEntryUnderAnotherKeyIsNotBelieved) {
  DiskCache cache("objects");
  ASSERT_TRUE(cache.store("a", "bytes of a"));
  std::filesystem::copy(cache.path("a"), cache.path("b"));
  EXPECT_EQ(cache.load("a"), "bytes of a");
  EXPECT_EQ(cache.load("b"), std::nullopt);
}

TEST_F(Cache, KeepsAnyBytes) {
  rc::check("what is stored is loaded", [](const std::string& bytes) {
    DiskCache cache("bytes");
    std::string key = cache_key({bytes});
    RC_ASSERT(cache.store(key, bytes));
    RC_ASSERT(cache.load(key) == bytes);
  });
}

TEST_F(Cache, KeysKeepTheirPartsApart) {
  EXPECT_NE(cache_key({"ab", "c"}), cache_key({"a", "bc"}));
  EXPECT_NE(cache_key({"a", ""}), cache_key({"", "a"}));
  EXPECT_EQ(cache_key({"a", "b"}), cache_key({"a", "b"}));
}

TEST_F(Cache, ConcurrentWritersLeaveAWholeEntry) {
  DiskCache cache("objects");
  const std::string bytes[2] = {std::string(300000, 'a'), std::string(200000, 'b')};
  std::atomic<int> torn{0};
  std::vector<std::thread> workers;
  for (int t = 0; t < 4; ++t)
    workers.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        if (!cache.store("key", bytes[(t + i) % 2])) ++torn;
        auto loaded = cache.load("key");
        if (!loaded || (*loaded != bytes[0] && *loaded != bytes[1])) ++torn;
      }
    });
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(torn, 0);
  EXPECT_EQ(entries("objects").size(), 1u) << "temporary files were left behind";
}

TEST_F(Cache, ConcurrentProcessesLeaveAWholeEntry) {
  std::vector<pid_t> children;
  for (int p = 0; p < 3; ++p) {
    pid_t child = ::fork();
    if (child == 0) {
      DiskCache cache("objects");
      bool good = true;
      for (int i = 0; i < 50; ++i) {
        good = cache.store("key", std::string(100000 + 1000 * p, char('a' + p))) && good;
        auto loaded = cache.load("key");
        good = loaded && loaded->find_first_not_of((*loaded)[0]) == std::string::npos && good;
      }
      ::_exit(good ? 0 : 1);
    }
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = 1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
}

TEST_F(Cache, WorksWithoutAFolderItMayWrite) {
  write(folder_ / "file", "a file where a folder is wanted");
  ::setenv("HETSYNTH_CACHE_DIR", (folder_ / "file" / "cache").c_str(), 1);
  EXPECT_FALSE(DiskCache("objects").store("key", "bytes"));
  CompiledCode code = compile_cached(source);
  EXPECT_FALSE(code.from_cache);
  EXPECT_EQ(run(code), 5);
}

TEST_F(Cache, AFolderOthersCanWriteIsNotTrusted) {
  DiskCache cache("objects");
  ASSERT_TRUE(cache.store("key", "bytes"));
  ASSERT_EQ(::chmod((folder_ / "cache" / "objects").c_str(), 0777), 0);
  EXPECT_EQ(cache.load("key"), std::nullopt);
  EXPECT_FALSE(cache.store("key", "bytes"));
}

TEST_F(Cache, EntriesUsedLeastRecentlyGoFirst) {
  auto folder = folder_ / "cache" / "small";
  DiskCache unlimited("small");
  for (const char* key : {"old", "middle", "new"}) ASSERT_TRUE(unlimited.store(key, std::string(1000, 'x')));
  auto now = std::filesystem::file_time_type::clock::now();
  std::filesystem::last_write_time(folder / "old", now - std::chrono::hours(3));
  std::filesystem::last_write_time(folder / "middle", now - std::chrono::hours(2));
  DiskCache("small", 2500).prune();
  EXPECT_EQ(unlimited.load("old"), std::nullopt);
  EXPECT_TRUE(unlimited.load("middle"));
  EXPECT_TRUE(unlimited.load("new"));
}

std::vector<std::string> names(const std::vector<std::filesystem::path>& files) {
  std::vector<std::string> out;
  for (const std::filesystem::path& file : files) out.push_back(file.filename().string());
  std::sort(out.begin(), out.end());
  return out;
}

TEST_F(Cache, WhatItDidNotWriteIsNeitherRemovedNorCounted) {
  const auto folder = folder_ / "cache" / "small";
  DiskCache cache("small", 2500);
  ASSERT_TRUE(cache.store("a", std::string(1000, 'x')));
  std::filesystem::create_directory(folder / "folder");
  const std::vector<std::string> strangers = {"data.bin",      "notes.tmp",
                                              "key.123.0.tmp", "0123456789abcdef0123456789abcdef",
                                              ".new-name",     ".new-0123456789abcdef",
                                              "copy",          "short"};
  for (const std::string& name : strangers) write(folder / name, std::string(5000, 's'));
  std::filesystem::copy(folder / "a", folder / "copy", std::filesystem::copy_options::overwrite_existing);
  write(folder / "short", "hetsynth cache 1\n");
  std::filesystem::create_symlink(folder / "a", folder / "link");
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.is_regular_file() && entry.path().filename() != "a")
      std::filesystem::last_write_time(entry, std::filesystem::file_time_type::clock::now() - std::chrono::hours(100));
  cache.prune();
  EXPECT_TRUE(cache.load("a"));
  for (const std::string& name : strangers) EXPECT_TRUE(std::filesystem::exists(folder / name)) << name;
  ASSERT_TRUE(cache.store("b", std::string(2000, 'x')));
  std::filesystem::last_write_time(folder / "a", std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  cache.prune();
  EXPECT_FALSE(cache.load("a"));
  EXPECT_TRUE(cache.load("b"));
  for (const std::string& name : strangers) EXPECT_TRUE(std::filesystem::exists(folder / name)) << name;
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  cache.remove("data.bin");
  EXPECT_TRUE(std::filesystem::exists(folder / "data.bin"));
}

TEST_F(Cache, WhatAKilledWriterLeftIsRemovedByTheNext) {
  DiskCache cache("objects");
  ASSERT_TRUE(cache.store("key", "bytes"));
  int left = 0;
  // On a busy machine a writer may not have begun by then: longer waits until one has been hit.
  for (int round = 0; round < 30 || (left == 0 && round < 300); ++round) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0)
      for (;;) cache.store("large", std::string(size_t(8) << 20, 'x'));
    std::this_thread::sleep_for(std::chrono::milliseconds((5 + round % 7) * (1 + round / 30)));
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    left += entries("objects").size() > 2;
    cache.prune();
    for (const std::string& name : names(entries("objects"))) EXPECT_TRUE(name == "key" || name == "large") << name;
  }
  EXPECT_GT(left, 0) << "no writer was killed while it wrote";
}

TEST_F(Cache, FoldersInWhichOthersCouldPutFilesAreNotUsed) {
  const auto usable = [&](const std::filesystem::path& folder) {
    std::string problem;
    const bool open = bool(open_own_folder(folder, &problem));
    EXPECT_EQ(open, problem.empty()) << problem;
    return open;
  };
  namespace fs = std::filesystem;
  EXPECT_TRUE(usable(folder_ / "a" / "b" / "c"));
  EXPECT_EQ(fs::status(folder_ / "a").permissions(), fs::perms(0700));
  // Writable by others anywhere on the way.
  fs::permissions(folder_ / "a" / "b", fs::perms(0777));
  EXPECT_FALSE(usable(folder_ / "a" / "b" / "c"));
  fs::permissions(folder_ / "a" / "b", fs::perms(01777));
  EXPECT_TRUE(usable(folder_ / "a" / "b" / "c"));
  EXPECT_FALSE(usable(folder_ / "a" / "b"));
  fs::permissions(folder_ / "a" / "b", fs::perms(0700));
  // A link is followed, but what it leads to is held against the same rules.
  fs::create_symlink(folder_ / "a" / "b" / "c", folder_ / "link");
  EXPECT_TRUE(usable(folder_ / "link"));
  fs::permissions(folder_ / "a" / "b" / "c", fs::perms(0777));
  EXPECT_FALSE(usable(folder_ / "link"));
  if (::geteuid() != 0) return;
  // Only root can give folders away.
  ASSERT_EQ(::chown((folder_ / "a").c_str(), 12345, 12345), 0);
  EXPECT_FALSE(usable(folder_ / "a" / "b"));
  EXPECT_FALSE(usable(folder_ / "a" / "new"));
  EXPECT_FALSE(fs::exists(folder_ / "a" / "new"));
}

TEST_F(Cache, EntriesAreNotReadThroughLinksAndPipes) {
  DiskCache cache("objects");
  ASSERT_TRUE(cache.store("key", "bytes"));
  const auto folder = folder_ / "cache" / "objects";
  std::filesystem::rename(folder / "key", folder_ / "elsewhere");
  std::filesystem::create_symlink(folder_ / "elsewhere", folder / "key");
  EXPECT_EQ(cache.load("key"), std::nullopt);
  std::filesystem::remove(folder / "key");
  ASSERT_EQ(::mkfifo((folder / "key").c_str(), 0600), 0);
  EXPECT_EQ(cache.load("key"), std::nullopt);
  cache.prune();
  EXPECT_TRUE(std::filesystem::exists(folder / "key"));
}

TEST_F(Cache, DirectoryFollowsTheEnvironment) {
  ::setenv("HETSYNTH_CACHE_DIR", "/given", 1);
  EXPECT_EQ(cache_directory(), "/given");
  ::unsetenv("HETSYNTH_CACHE_DIR");
  ::setenv("XDG_CACHE_HOME", "/xdg", 1);
  EXPECT_EQ(cache_directory(), "/xdg/hetsynth");
  ::unsetenv("XDG_CACHE_HOME");
  std::string home = std::getenv("HOME") ? std::getenv("HOME") : "";
  ::setenv("HOME", folder_.c_str(), 1);
  EXPECT_EQ(cache_directory(), folder_ / ".cache" / "hetsynth");
  ::setenv("HOME", "/no/such/home", 1);
  EXPECT_EQ(cache_directory().filename(), "hetsynth-" + std::to_string(::geteuid()));
  ::setenv("HOME", home.c_str(), 1);
}

}  // namespace
}  // namespace hetsynth
