#include "runtime/processes/mpi.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <mutex>

#include "dsl/base/error.h"
#include "runtime/jit/function_table.h"

namespace hetsynth {
namespace {

/// Functions and constants of Open MPI, whose handles are pointers and whose constants are objects of the library.
struct Mpi {
  int (*init_thread)(int* argc, char*** argv, int wanted, int* given) = nullptr;
  int (*finalize)() = nullptr;
  int (*abort)(void* communicator, int code) = nullptr;
  int (*rank)(void* communicator, int* rank) = nullptr;
  int (*size)(void* communicator, int* size) = nullptr;
  int (*set_error_handler)(void* communicator, void* handler) = nullptr;
  int (*send)(const void* bytes, int count, void* type, int to, int tag, void* communicator, void** request) = nullptr;
  int (*receive)(void* bytes, int count, void* type, int from, int tag, void* communicator, void** request) = nullptr;
  int (*test)(void** request, int* done, void* status) = nullptr;
  int (*cancel)(void** request) = nullptr;
  int (*error_text)(int error, char* text, int* length) = nullptr;
  int (*library_version)(char* text, int* length) = nullptr;
  char *world = nullptr, *byte = nullptr, *errors_return = nullptr;
  std::string path, problem;
};

constexpr int thread_serialized = 2;
constexpr int longest_text = 8192;              ///< more than any library says of itself
constexpr size_t most_bytes = size_t(1) << 30;  ///< of one message of MPI, which counts with int

const Mpi& library() {
  static const Mpi loaded = [] {
    Mpi m;
    FunctionTable table("MPI", {"libmpi.so.40"});
    table.find("MPI_Init_thread", m.init_thread)
        .find("MPI_Finalize", m.finalize)
        .find("MPI_Abort", m.abort)
        .find("MPI_Comm_rank", m.rank)
        .find("MPI_Comm_size", m.size)
        .find("MPI_Comm_set_errhandler", m.set_error_handler)
        .find("MPI_Isend", m.send)
        .find("MPI_Irecv", m.receive)
        .find("MPI_Test", m.test)
        .find("MPI_Cancel", m.cancel)
        .find("MPI_Error_string", m.error_text)
        .find("MPI_Get_library_version", m.library_version)
        .find("ompi_mpi_comm_world", m.world)
        .find("ompi_mpi_byte", m.byte)
        .find("ompi_mpi_errors_return", m.errors_return);
    m.path = table.library().path();
    m.problem = table.problem();
    return m;
  }();
  return loaded;
}

std::string error_text(const Mpi& mpi, int error) {
  std::array<char, longest_text> text{};
  int length = 0;
  if (mpi.error_text(error, text.data(), &length)) return fmt::format("error {}", error);
  return std::string(text.data(), size_t(length));
}

/// One message; long ones are several of MPI. The library is called by one thread at a time.
class MpiMessage : public Message {
 public:
  MpiMessage(const Mpi& mpi, std::mutex& mutex, std::vector<std::byte> bytes)
      : mpi_(mpi), mutex_(mutex), bytes_(std::move(bytes)) {}

  /// `start(from, count, request)` begins one part.
  template <class Start>
  void begin(const Start& start) {
    std::lock_guard lock(mutex_);
    for (size_t at = 0; at == 0 || at < bytes_.size(); at += most_bytes) {
      requests_.push_back(nullptr);
      const int count = int(std::min(most_bytes, bytes_.size() - at));
      if (int error = start(bytes_.data() + at, count, &requests_.back()))
        throw std::runtime_error("MPI: " + error_text(mpi_, error));
    }
  }

  ~MpiMessage() override {
    // The library may still write to or read from the bytes.
    if (!requests_.empty()) new std::vector<std::byte>(std::move(bytes_));
  }

  bool done() override {
    std::lock_guard lock(mutex_);
    while (!requests_.empty()) {
      int complete = 0;
      // Open MPI's null request tests as complete; MPI_STATUS_IGNORE is a null pointer.
      if (mpi_.test(&requests_.back(), &complete, nullptr)) {
        truncated_ = true;
        complete = 1;
      }
      if (!complete) return false;
      requests_.pop_back();
    }
    return true;
  }
  bool truncated() const override { return truncated_; }
  std::span<const std::byte> bytes() const override { return bytes_; }
  void cancel() override {
    std::lock_guard lock(mutex_);
    for (void*& request : requests_) mpi_.cancel(&request);
  }

 private:
  const Mpi& mpi_;
  std::mutex& mutex_;
  std::vector<std::byte> bytes_;
  std::vector<void*> requests_;
  bool truncated_ = false;
};

class MpiProcesses : public ProcessGroup {
 public:
  explicit MpiProcesses(const Mpi& mpi) : mpi_(mpi) {
    // Open MPI's put protocol over TCP reaches half of a link's rate where several messages are under way at once: a
    // step of gpt.cpp on four hosts at 200 Mb/s takes 426 ms with it and 312 to 330 ms without (bench/bed/bed.py run
    // --links 200Mb/s --only proportional). What the user says about it stands.
    ::setenv("OMPI_MCA_btl_tcp_flags", "57", /*overwrite=*/0);
    int given = 0;
    require(mpi.init_thread(nullptr, nullptr, thread_serialized, &given));
    require(mpi.set_error_handler(mpi.world, mpi.errors_return));
    require(mpi.rank(mpi.world, &process_));
    require(mpi.size(mpi.world, &count_));
    if (given >= thread_serialized) return;
    throw UserError({{}, "mpi", "the MPI library allows one thread alone", "MPI_THREAD_SERIALIZED", "", ""},
                    ExitCode::failure);
  }
  ~MpiProcesses() override { mpi_.finalize(); }

  int process() const override { return process_; }
  int count() const override { return count_; }
  std::string host() const override {
    std::array<char, 256> name{};
    return ::gethostname(name.data(), name.size() - 1) ? "?" : name.data();
  }
  std::unique_ptr<Message> send(int to, int tag, std::vector<std::byte> bytes) override {
    auto out = std::make_unique<MpiMessage>(mpi_, mutex_, std::move(bytes));
    out->begin([&](std::byte* from, int length, void** request) {
      return mpi_.send(from, length, mpi_.byte, to, tag, mpi_.world, request);
    });
    return out;
  }
  std::unique_ptr<Message> receive(int from, int tag, size_t bytes) override {
    auto out = std::make_unique<MpiMessage>(mpi_, mutex_, std::vector<std::byte>(bytes));
    out->begin([&](std::byte* to, int length, void** request) {
      return mpi_.receive(to, length, mpi_.byte, from, tag, mpi_.world, request);
    });
    return out;
  }
  void abandon(int exit_code) override {
    mpi_.abort(mpi_.world, exit_code);
    ::_exit(exit_code);
  }

 private:
  void require(int error) const {
    if (!error) return;
    throw UserError({{}, "mpi", "MPI does not start", "", error_text(mpi_, error), ""}, ExitCode::failure);
  }
  const Mpi& mpi_;
  std::mutex mutex_;
  int process_ = 0, count_ = 1;
};

int number_in_environment(const char* name) {
  const char* const text = std::getenv(name);
  return text ? std::atoi(text) : 0;
}

}  // namespace

int launched_processes() {
  // Open MPI's mpirun; MPICH's and srun's process managers.
  int found = 1;
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) found = std::max(found, number_in_environment(name));
  // An allocation alone also sets SLURM_NTASKS: only a step of srun has started its tasks.
  if (std::getenv("SLURM_STEP_ID") && std::getenv("SLURM_PROCID") && std::getenv("PMIX_RANK"))
    found = std::max(found, number_in_environment("SLURM_STEP_NUM_TASKS"));
  return found;
}

std::unique_ptr<ProcessGroup> join_mpi() {
  const Mpi& mpi = library();
  if (!mpi.problem.empty())
    throw UserError(
        {{},
         "mpi",
         fmt::format("a launcher has started {} processes, which cannot meet", launched_processes()),
         "libmpi.so.40 (Open MPI 4 or 5)",
         mpi.problem,
         "install libopenmpi3 on every host and start with Open MPI's mpirun; one process alone needs none"},
        ExitCode::failure);
  return std::make_unique<MpiProcesses>(mpi);
}

MpiLibrary find_mpi() {
  const Mpi& mpi = library();
  MpiLibrary out{"", mpi.path, mpi.problem};
  if (!mpi.problem.empty()) return out;
  std::array<char, longest_text> text{};
  int length = 0;
  if (mpi.library_version(text.data(), &length) == 0)
    out.version = std::string(text.data(), size_t(length)).substr(0, std::string_view(text.data()).find(','));
  return out;
}

}  // namespace hetsynth
