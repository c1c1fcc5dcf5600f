// NVRTC and the CUDA libraries, where the toolkit is installed; nothing here needs a GPU.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "dsl/jit/disk_cache.h"
#include "runtime/jit/cuda_generation.h"
#include "runtime/jit/cuda_libraries.h"
#include "runtime/jit/nvrtc.h"
#include "runtime/jit/shared_library.h"
#include "tests/support/temporary_cache.h"

namespace hetsynth {
namespace {
using ::testing::HasSubstr;
using ::testing::StartsWith;

class Cuda : public TemporaryCache {
 protected:
  void SetUp() override {
    if (!cuda_toolkit().available)
      GTEST_SKIP() << "SKIPPED: no CUDA toolkit on this machine: " << cuda_toolkit().problem;
    TemporaryCache::SetUp();
  }
};

const char* const kernel =
    "extern \"C\" __global__ void scale(float* x, float factor, int n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "  if (i < n) x[i] = tanhf(x[i]) * factor + __shfl_xor_sync(0xffffffffu, x[i], 1);\n"
    "}\n";

TEST_F(Cuda, CompilesAKernelForEachArchitecture) {
  std::vector<std::string> cubins;
  for (const char* architecture : {"sm_75", "sm_80", "sm_90"}) {
    CudaCode code = compile_cuda(kernel, "scale.cu", architecture);
    ASSERT_TRUE(code.ok()) << architecture << ": " << code.log;
    EXPECT_THAT(code.cubin, StartsWith("\x7f"
                                       "ELF"));
    EXPECT_THAT(code.cubin, HasSubstr("scale"));
    cubins.push_back(code.cubin);
  }
  EXPECT_NE(cubins[0], cubins[1]);
  EXPECT_NE(cubins[1], cubins[2]);
}

TEST_F(Cuda, FindsTheToolkitsHeaders) {
  if (cuda_toolkit().include_directory.empty()) GTEST_SKIP() << "SKIPPED: the toolkit's headers are not installed";
  CudaCode code = compile_cuda(
      "#include <cuda_bf16.h>\nextern \"C\" __global__ void f(__nv_bfloat16* x) { x[0] = __float2bfloat16(1.0f); }",
      "bf16.cu", "sm_80");
  EXPECT_TRUE(code.ok()) << code.log;
}

TEST_F(Cuda, SecondCompilationComesFromDisk) {
  CudaCode first = compile_cuda(kernel, "scale.cu", "sm_80");
  CudaCode second = compile_cuda(kernel, "scale.cu", "sm_80");
  EXPECT_FALSE(first.from_cache);
  EXPECT_TRUE(second.from_cache);
  EXPECT_EQ(first.cubin, second.cubin);
  EXPECT_FALSE(compile_cuda(kernel, "scale.cu", "sm_90").from_cache);
  EXPECT_FALSE(compile_cuda(kernel, "scale.cu", "sm_80", {"--use_fast_math"}).from_cache);
}

TEST_F(Cuda, DamagedEntriesAreMadeAnew) {
  CudaCode good = compile_cuda(kernel, "scale.cu", "sm_80");
  ASSERT_EQ(entries("cubins").size(), 1u);
  auto file = entries("cubins")[0];
  write(file, read(file).substr(0, 500));
  CudaCode again = compile_cuda(kernel, "scale.cu", "sm_80");
  EXPECT_FALSE(again.from_cache);
  EXPECT_EQ(again.cubin, good.cubin);
}

TEST_F(Cuda, MistakesComeBackWithLineAndName) {
  CudaCode code = compile_cuda("__global__ void f() {\n  undeclared = 1;\n}\n", "rank1.cu", "sm_80");
  EXPECT_EQ(code.status, CudaCompileStatus::rejected);
  EXPECT_TRUE(code.cubin.empty());
  EXPECT_THAT(code.log, HasSubstr("rank1.cu(2): error: identifier \"undeclared\" is undefined"));
}

TEST_F(Cuda, WarningsComeWithTheCodeAlsoFromTheCache) {
  const char* source = "extern \"C\" __global__ void f(int* x) { int unused; x[0] = 1; }";
  for (bool cached : {false, true}) {
    CudaCode code = compile_cuda(source, "w.cu", "sm_80");
    ASSERT_TRUE(code.ok()) << code.log;
    EXPECT_EQ(code.from_cache, cached);
    EXPECT_THAT(code.log, HasSubstr("\"unused\" was declared but never referenced"));
  }
}

TEST_F(Cuda, UnknownArchitecturesAreToldWithThoseThatExist) {
  for (const char* architecture : {"sm_1", "ptx", ""}) {
    CudaCode code = compile_cuda(kernel, "scale.cu", architecture);
    EXPECT_EQ(code.status, CudaCompileStatus::unavailable);
    EXPECT_THAT(code.log, HasSubstr("does not compile for " + std::string(architecture) + "; it knows sm_"));
  }
}

/// Assembles PTX for the oldest architecture that the toolkit's ptxas knows; "" if it does, or its words.
std::string assemble(const std::string& ptx, const std::string& folder) {
  std::ofstream(folder + "/kernels.ptx") << ptx;
  const std::string command =
      "ptxas -arch=sm_75 '" + folder + "/kernels.ptx' -o /dev/null > '" + folder + "/words' 2>&1";
  if (std::system(command.c_str()) == 0) return "";
  std::stringstream words;
  words << std::ifstream(folder + "/words").rdbuf();
  return words.str() + " failed";
}

TEST_F(Cuda, ArchitecturesThatNvrtcHasDroppedGoThroughClang) {
  const CudaToolkit& toolkit = cuda_toolkit();
  if (toolkit.through_clang.empty()) GTEST_SKIP() << "SKIPPED: no libdevice.10.bc, or an NVRTC that knows them all";
  for (const std::string& architecture : toolkit.through_clang) {
    const CudaCode code = compile_cuda(kernel, "scale.cu", architecture);
    ASSERT_TRUE(code.ok()) << code.log;
    EXPECT_EQ(code.log, "");
    EXPECT_THAT(code.cubin, HasSubstr(".target " + architecture + "\n"));
    EXPECT_THAT(code.cubin, HasSubstr(".entry scale("));
    EXPECT_THAT(code.cubin, HasSubstr("shfl.sync.bfly"));
    // All of libdevice that is used has been linked in.
    EXPECT_THAT(code.cubin, ::testing::Not(HasSubstr(".extern .func")));
    EXPECT_TRUE(compile_cuda(kernel, "scale.cu", architecture).from_cache);
    if (std::system("command -v ptxas > /dev/null") == 0) {
      EXPECT_EQ(assemble(code.cubin, cache_directory().string()), "");
    }
  }
  const CudaCode wrong = compile_cuda("extern \"C\" __global__ void k() { x = 1; }", "k.cu", "sm_70");
  EXPECT_EQ(wrong.status, CudaCompileStatus::rejected);
  EXPECT_THAT(wrong.log, HasSubstr("k.cu:1:34: error: use of undeclared identifier 'x'"));
}

TEST_F(Cuda, ThreadsCompileAtTheSameTime) {
  std::vector<std::thread> threads;
  std::atomic<int> compiled{0};
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      std::string source = "extern \"C\" __global__ void f" + std::to_string(t) + "(int* x) { x[0] = 1; }";
      CudaCode code = compile_cuda(source, "f.cu", "sm_80");
      if (code.ok() && code.cubin.find("f" + std::to_string(t)) != std::string::npos) ++compiled;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(compiled, 3);
}

TEST(CudaLibraries, EachIsEitherFoundWithAVersionOrExplained) {
  CudaSupport support = cuda_libraries();
  std::vector<std::string> names;
  for (const LibraryStatus& library : support.libraries) {
    names.push_back(library.name);
    EXPECT_EQ(library.found, library.problem.empty()) << library.name;
    EXPECT_EQ(library.found, !library.version.empty()) << library.name;
    EXPECT_EQ(library.found, !library.origin.empty()) << library.name;
    EXPECT_EQ(library.path.find("/stubs/"), std::string::npos) << library.path;
    RecordProperty(library.name, library.found ? library.version : library.problem);
  }
  EXPECT_THAT(names, testing::ElementsAre("driver", "NVRTC", "NCCL", "cublasLt", "cuDNN"));
  EXPECT_EQ(support.libraries[1].found, cuda_toolkit().available);
  EXPECT_TRUE(support.libraries[0].found || support.devices.empty());
  EXPECT_EQ(cuda_devices().size(), support.devices.size());
}

TEST(SharedLibraries, WhatIsAbsentIsExplained) {
  SharedLibrary library = SharedLibrary::open({"libhetsynth-absent.so.1"}, {"/no/such/folder"});
  EXPECT_FALSE(library.is_open());
  EXPECT_THAT(library.problem(), HasSubstr("libhetsynth-absent.so.1"));
  EXPECT_EQ(library.symbol("anything"), nullptr);
}

TEST(SharedLibraries, TheToolkitsStubsAreNotOpened) {
  namespace fs = std::filesystem;
  SharedLibrary real = SharedLibrary::open({"libm.so.6"});
  ASSERT_TRUE(real.is_open()) << real.problem();
  fs::path stubs = fs::temp_directory_path() / ("hetsynth-stub-test-" + std::to_string(::getpid())) / "stubs";
  fs::create_directories(stubs);
  fs::copy_file(real.path(), stubs / "libhetsynth-stub.so.1", fs::copy_options::overwrite_existing);
  SharedLibrary library = SharedLibrary::open({"libhetsynth-stub.so.1"}, {stubs.string()});
  EXPECT_FALSE(library.is_open());
  fs::copy_file(real.path(), stubs.parent_path() / "libhetsynth-stub.so.1", fs::copy_options::overwrite_existing);
  SharedLibrary beside = SharedLibrary::open({"libhetsynth-stub.so.1"}, {stubs.string(), stubs.parent_path().string()});
  EXPECT_TRUE(beside.is_open()) << beside.problem();
  fs::remove_all(stubs.parent_path());
}

/// A folder for a test, and a variable of the environment that is set meanwhile.
class FoundLibraries : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* before = std::getenv("HETSYNTH_PYTHON");
    if (before) python_before_ = before;
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override {
    if (python_before_.empty())
      ::unsetenv("HETSYNTH_PYTHON");
    else
      ::setenv("HETSYNTH_PYTHON", python_before_.c_str(), 1);
    std::filesystem::remove_all(folder_);
  }
  /// A library of that name.
  void put(const std::filesystem::path& file) const {
    const SharedLibrary real = SharedLibrary::open({"libm.so.6"});
    ASSERT_TRUE(real.is_open()) << real.problem();
    std::filesystem::create_directories(file.parent_path());
    std::filesystem::copy_file(real.path(), file);
  }
  /// An interpreter that finds packages in this folder, or one that cannot be started.
  void use_python(const std::string& script) const {
    const std::filesystem::path python = folder_ / "a python's \"place\"";
    std::ofstream(python) << "#!/bin/sh\n" << script << "\n";
    std::filesystem::permissions(python, std::filesystem::perms::owner_all);
    ::setenv("HETSYNTH_PYTHON", python.c_str(), 1);
  }

  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("hetsynth-libraries-" + std::to_string(::getpid()) + "-" +
                                                ::testing::UnitTest::GetInstance()->current_test_info()->name());

 private:
  std::string python_before_;
};

TEST_F(FoundLibraries, ThoseOfPipAre) {
  const std::filesystem::path packages = folder_ / "lib/python3.11/site-packages";
  put(packages / "nvidia/cublas/lib/libhetsynth-pip.so.12");
  put(packages / "nvidia/cu13/lib/libhetsynth-pip.so.13");
  std::filesystem::create_directories(packages / "nvidia/no_library");
  use_python("printf '\\n%s\\n%s\\n' /no/such/packages '" + packages.string() + "'");
  const std::string lib = "/nvidia/cublas/lib", lib13 = "/nvidia/cu13/lib";
  EXPECT_THAT(pip_library_folders(), testing::ElementsAre(packages.string() + lib13, packages.string() + lib));
  const std::vector<std::string> names = {"libhetsynth-pip.so.12", "libhetsynth-pip.so.13"};
  const SharedLibrary library = SharedLibrary::open(names, cuda_library_folders());
  ASSERT_TRUE(library.is_open()) << library.problem();
  EXPECT_THAT(library.path(), testing::EndsWith(lib + "/libhetsynth-pip.so.12")) << "the first name is preferred";
  EXPECT_EQ(origin(library), "installed by pip");
  EXPECT_EQ(origin(SharedLibrary::open({"libm.so.6"}, cuda_library_folders())), "found by the loader");
}

TEST_F(FoundLibraries, WithoutAnInterpreterThereAreNoneOfPip) {
  use_python("exit 1");
  EXPECT_THAT(pip_library_folders(), testing::IsEmpty());
  ::setenv("HETSYNTH_PYTHON", "/no/such/python", 1);
  EXPECT_THAT(pip_library_folders(), testing::IsEmpty());
}

TEST_F(FoundLibraries, WhatIsObjectedToIsPassedOverWhereThereIsAnother) {
  put(folder_ / "new/libhetsynth-two.so.2");
  put(folder_ / "old/libhetsynth-two.so.2");
  const auto not_new = [](const SharedLibrary& library) {
    return library.path().find("/new/") == std::string::npos ? "" : "too new";
  };
  const std::string first = (folder_ / "new").string(), second = (folder_ / "old").string();
  const std::vector<std::string> names = {"libhetsynth-two.so.2"};
  EXPECT_EQ(SharedLibrary::open(names, {first, second}).folder(), first);
  EXPECT_EQ(SharedLibrary::open(names, {first, second}, not_new).folder(), second);
  EXPECT_EQ(SharedLibrary::open(names, {first}, not_new).folder(), first) << "there is no other";
}

TEST_F(FoundLibraries, NcclTellsItsCudaInItsFile) {
  const std::string before(size_t(1 << 20) - 3, 'x');  // the mark lies across two blocks
  std::ofstream(folder_ / "nccl") << before << "NCCL version 2.21.5+cuda12.4\n";
  EXPECT_EQ(release_of_nccl((folder_ / "nccl").string()), 12);
  std::ofstream(folder_ / "other") << "a+cudagraph";
  EXPECT_EQ(release_of_nccl((folder_ / "other").string()), 0);
  EXPECT_EQ(release_of_nccl("/no/such/file"), 0);
  const SharedLibrary real = SharedLibrary::open({"libnccl.so.2"}, cuda_library_folders());
  if (real) {
    EXPECT_GE(release_of_nccl(real.path()), 11) << real.path();
  }
}

TEST(CudaReleases, AreChosenByDriverAndOldestGpu) {
  using testing::ElementsAre;
  EXPECT_THAT(cuda_releases({}), ElementsAre(13, 12)) << "nothing is known";
  EXPECT_THAT(cuda_releases({13000, 90}), ElementsAre(13, 12));
  EXPECT_THAT(cuda_releases({12080, 90}), ElementsAre(12, 13)) << "the driver cannot run CUDA 13";
  EXPECT_THAT(cuda_releases({13000, 70}), ElementsAre(12, 13)) << "CUDA 13 has no code for a V100";
  EXPECT_THAT(cuda_releases({13000, 75}), ElementsAre(13, 12));
  EXPECT_FALSE(works_on({13000, 60}, 13));
  EXPECT_TRUE(works_on({13000, 60}, 12));
  EXPECT_FALSE(works_on({11080, 80}, 12));
}

}  // namespace
}  // namespace hetsynth
