// The class behind runtime/cuda/cuda_device.h, shared with the functions that generated host programs call.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/cudnn_attention.h"
#include "runtime/cuda/staged_communicator.h"

namespace hetsynth::cuda {

class CudaDevice : public RankDevice {
 public:
  CudaDevice(const Api& api, CudaRank rank) : api_(api), driver_(api.driver), rank_(std::move(rank)) {}
  ~CudaDevice() override;

  void join(RunState& run, Communicator& communicator) override { run_ = &run, hosts_ = &communicator; }
  void allocate(int64_t bytes) override;
  void write(int64_t offset_bytes, std::span<const std::byte> data) override;
  void read(int64_t offset_bytes, std::span<std::byte> data) const override;
  int step(HetsynthContext context) override;
  int profile(HetsynthContext context, std::vector<TimedWork>& work) override;

  // What the generated host program calls; 0, or non-zero if the step cannot go on.
  int launch(int stream, int kernel, unsigned blocks, unsigned threads, unsigned shared_bytes, void** arguments);
  int multiply(const ProductShape& shape, const ProductOperands& operands, bool accumulate);
  int attend(const AttentionShape& shape, const AttentionOperands& operands);
  int copy(int stream, void* to, const void* from, int64_t bytes);
  int record(int event, int stream);
  int wait(int event, int stream);
  void* communicator(int axis);
  void* host_communicator(int axis);
  void* leader_communicator(int axis);
  void* rising_communicator(int axis);
  void* falling_communicator(int axis);
  /// 0 computes, 1 carries collectives; 2 and 3, where stages send, what goes to higher coordinates and to lower ones.
  static constexpr int stream_count = 4;
  int number_of(const void* stream) const;
  const Nccl& nccl() const { return api_.nccl; }
  /// What became of a call of NCCL; within a group that is known at its end alone.
  int nccl_done(int status, const char* call);
  bool in_group() const { return group_depth_ > 0; }
  int group_start();
  void time_group(int stream);
  int group_end();

  /// Around what is issued to a stream: what it takes is measured, if the step is being profiled.
  class Timed {
   public:
    Timed(CudaDevice& device, TimedWork::Kind kind, int stream, std::string name);
    ~Timed();

   private:
    CudaDevice& device_;
    const size_t number_;  ///< of the span
    const int stream_;
  };

  /// The device whose step this thread is issuing.
  static CudaDevice*& issuing();

 private:
  struct Span {
    TimedWork::Kind kind;
    std::string name;
    void *begin = nullptr, *end = nullptr;
  };
  void* timing_event(int stream);
  void forget_spans();
  bool stopping() const { return run_ && run_->aborted(); }
  std::string error_text(int error, const std::string& call) const;
  void require(int error, const char* call) const;
  int note(int error, const std::string& call);
  /// Until the stream is done: 0. Leaves early, with all communicators aborted, if the run is being aborted or NCCL
  /// tells of an error: not_ready.
  int await(int stream);
  void synchronize(int stream) const;
  void make_current() const;
  void create_streams();
  void load_kernels();
  void allocate_arena(int64_t bytes);
  void set_clock(const HetsynthContext& context);
  /// What the step issues: by the generated host program, or by replaying what it issued before. 0, or its code.
  int issue(HetsynthContext& context);
  int run_host_program(HetsynthContext& context);
  bool record(HetsynthContext& context);
  void connect();
  void forget_recorded();
  void abort_communicators();
  [[noreturn]] void fail_step(int code);
  DeviceStream staging();
  void* pinned(int which, size_t bytes);

  const Api& api_;
  const Driver& driver_;
  CudaRank rank_;
  RunState* run_ = nullptr;
  Communicator* hosts_ = nullptr;
  int device_ = 0;
  void *context_ = nullptr, *module_ = nullptr;
  void* streams_[stream_count] = {};
  DevicePointer arena_ = 0, workspace_ = 0, clock_ = 0;
  int64_t step_and_seed_[2] = {0, 0};  ///< on their way to the device
  void* recorded_ = nullptr;           ///< a step, ready to be replayed
  int steps_ = 0;
  bool profiles_ = false;
  std::vector<Span> spans_;     ///< of the step that is being profiled
  std::optional<Timed> group_;  ///< the group of NCCL that is open in it
  std::vector<void*> functions_, events_;
  struct Pinned {
    void* memory = nullptr;
    size_t bytes = 0;
  } pinned_[2];
  std::unique_ptr<NcclConnection> nccl_;
  std::unique_ptr<StagedCommunicator> staged_;
  std::unique_ptr<EpilogueKernels> epilogues_;
  std::unique_ptr<DeviceProducts> products_;
  std::unique_ptr<DeviceAttention> attention_;
  int group_depth_ = 0;
  std::string problem_;
};

}  // namespace hetsynth::cuda
