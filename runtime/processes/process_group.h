// The processes of one run, and messages between them. MPI is one implementation; tests have one of threads.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace hetsynth {

/// Some bytes on their way from one process to another, which the message owns. Destroying a message that is not done
/// leaves its bytes where they are until the process ends.
class Message {
 public:
  virtual ~Message() = default;
  /// Whether it was delivered (or, of a message that is sent, handed over). Also what moves messages on: has to be
  /// asked again and again.
  virtual bool done() = 0;
  /// Received and done: what came was longer than what was asked for; `bytes` holds its beginning.
  virtual bool truncated() const { return false; }
  virtual std::span<const std::byte> bytes() const = 0;
  /// A message to be received will not be waited for any longer.
  virtual void cancel() = 0;
};

/// All functions may be called from any thread.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;
  virtual int process() const = 0;  ///< this one, from 0
  virtual int count() const = 0;
  /// Name of the machine this process runs on.
  virtual std::string host() const = 0;
  /// Begin to send and to receive. Messages of one sender, receiver and tag arrive in the order they were sent.
  virtual std::unique_ptr<Message> send(int to, int tag, std::vector<std::byte> bytes) = 0;
  virtual std::unique_ptr<Message> receive(int from, int tag, size_t bytes) = 0;
  /// Ends every process of the run at once. Does not return.
  virtual void abandon(int exit_code) = 0;
};

}  // namespace hetsynth
