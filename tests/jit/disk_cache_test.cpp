// The disk cache under damage, concurrency and missing permissions.
#include "dsl/jit/disk_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

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
