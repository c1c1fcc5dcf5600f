// What ranks hand each other when an all-to-all goes by hosts: what leaves a host is gathered at its leader, leaders
// exchange one block per pair of hosts, and every device is given its own.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "dsl/spmd/hosts.h"
#include "runtime/collectives/collective_pieces.h"

namespace hetsynth {

/// One member's part of one such all-to-all, phase by phase. Members of the two phases within the host are the host's
/// devices, its leader first; those of the phase between hosts, which leaders alone take part in, are the leaders.
class HostExchange {
 public:
  /// `within`: what stays in the host goes where it belongs, the rest to the leader. `back`: from the leader.
  enum class Phase : uint8_t { within, between, back };

  /// `call`, an all-to-all, must outlive this.
  HostExchange(const CollectiveCall& call, const GroupHosts& hosts, int coordinate);

  /// What this member sends in a phase: by member, its piece of the bytes.
  struct Packed {
    std::vector<std::byte> bytes;
    std::vector<Piece> to;
  };
  Packed sent(Phase phase) const;
  /// Elements that come from a member, this one included.
  int64_t expected(Phase phase, int from) const;
  /// Puts them where they belong, or keeps them for the next phase. Returns the bytes written.
  int64_t take(Phase phase, int from, const std::byte* bytes);

 private:
  bool leads() const { return coordinate_ == hosts_.leader(); }
  int64_t elements(int from, int to) const;
  int64_t leaving(int from) const;
  int64_t block(int from_host, int to_host) const;
  template <class Visit>
  void each_of(int host, const Visit& visit) const;
  template <class Visit>
  void each_outside(const Visit& visit) const;

  const CollectiveCall& call_;
  const GroupHosts& hosts_;
  const int coordinate_, members_;
  const int64_t size_;                           ///< bytes of an element
  std::vector<std::vector<std::byte>> leaving_;  ///< leader, by device of its host: what goes to devices of others
  std::vector<std::vector<std::byte>> arrived_;  ///< leader, by host: sender by sender what its devices get
};

}  // namespace hetsynth
