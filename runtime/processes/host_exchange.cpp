#include "runtime/processes/host_exchange.h"

#include <cstring>

namespace hetsynth {

HostExchange::HostExchange(const CollectiveCall& call, const GroupHosts& hosts, int coordinate)
    : call_(call),
      hosts_(hosts),
      coordinate_(coordinate),
      members_(hosts.first.back()),
      size_(bytes_per_element(call.type)),
      leaving_(size_t(hosts.members(hosts.host))),
      arrived_(size_t(hosts.count())) {}

int64_t HostExchange::elements(int from, int to) const { return piece_sent(call_, from, to, members_).elements(); }

template <class Visit>
void HostExchange::each_of(int host, const Visit& visit) const {
  for (int p = hosts_.first[size_t(host)]; p < hosts_.first[size_t(host) + 1]; ++p) visit(p);
}

/// Devices of other hosts, in coordinate order.
template <class Visit>
void HostExchange::each_outside(const Visit& visit) const {
  for (int p = 0; p < members_; ++p)
    if (!hosts_.here(p)) visit(p);
}

/// What a device of this host has for those of others.
int64_t HostExchange::leaving(int from) const {
  int64_t out = 0;
  each_outside([&](int to) { out += elements(from, to); });
  return out;
}

int64_t HostExchange::block(int from_host, int to_host) const {
  int64_t out = 0;
  each_of(from_host, [&](int from) { each_of(to_host, [&](int to) { out += elements(from, to); }); });
  return out;
}

HostExchange::Packed HostExchange::sent(Phase phase) const {
  Packed out;
  const auto begin = [&] { out.to.push_back({int64_t(out.bytes.size()) / size_, 1, 0, 0}); };
  const auto add = [&](const std::byte* bytes, int64_t elements) {
    out.bytes.insert(out.bytes.end(), bytes, bytes + elements * size_);
    out.to.back().run += elements;
  };
  const auto add_own = [&](int to) {
    const Piece piece = piece_sent(call_, coordinate_, to, members_);
    const size_t at = out.bytes.size();
    out.bytes.resize(at + size_t(piece.elements() * size_));
    copy_out(call_.source, piece, size_, out.bytes.data() + at);
    out.to.back().run += piece.elements();
  };
  switch (phase) {
    case Phase::within:
      each_of(hosts_.host, [&](int to) {
        begin();
        add_own(to);
        if (to == hosts_.leader()) each_outside(add_own);
      });
      break;
    case Phase::between: {
      // Host by host, device by device of this one: both sides know the order.
      std::vector<int64_t> done(leaving_.size(), 0);
      for (int host = 0; host < hosts_.count(); ++host) {
        begin();
        for (size_t d = 0; d < leaving_.size() && host != hosts_.host; ++d) {
          int64_t run = 0;
          each_of(host, [&](int to) { run += elements(hosts_.leader() + int(d), to); });
          add(leaving_[d].data() + done[d] * size_, run);
          done[d] += run;
        }
      }
      break;
    }
    case Phase::back:
      each_of(hosts_.host, [&](int to) {
        begin();
        for (int host = 0; leads() && host < hosts_.count(); ++host) {
          int64_t at = 0;
          if (host == hosts_.host) continue;
          each_of(host, [&](int from) {
            each_of(hosts_.host, [&](int of) {
              if (of == to) add(arrived_[size_t(host)].data() + at * size_, elements(from, of));
              at += elements(from, of);
            });
          });
        }
      });
      break;
  }
  return out;
}

int64_t HostExchange::expected(Phase phase, int from) const {
  switch (phase) {
    case Phase::within: {
      const int sender = hosts_.leader() + from;
      return elements(sender, coordinate_) + (leads() ? leaving(sender) : 0);
    }
    case Phase::between:
      return from == hosts_.host ? 0 : block(from, hosts_.host);
    case Phase::back:
      break;
  }
  int64_t out = 0;
  if (from == 0) each_outside([&](int sender) { out += elements(sender, coordinate_); });
  return out;
}

int64_t HostExchange::take(Phase phase, int from, const std::byte* bytes) {
  const std::byte* const end = bytes + expected(phase, from) * size_;
  const auto put = [&](int sender) {
    bytes += copy_in(bytes, piece_received(call_, sender, coordinate_), size_, call_.destination);
  };
  const int64_t total = end - bytes;
  switch (phase) {
    case Phase::within:
      put(hosts_.leader() + from);
      if (leads()) leaving_[size_t(from)].assign(bytes, end);
      break;
    case Phase::between:
      arrived_[size_t(from)].assign(bytes, end);
      break;
    case Phase::back:
      if (from == 0) each_outside(put);
      break;
  }
  return total;
}

}  // namespace hetsynth
