#include "random_programs.h"

#include <fmt/format.h>
#include <rapidcheck.h>

#include "programs.h"

namespace hetsynth::testing_support {
namespace {

/// Grows a program out of tensors of rank 2.
class Grower {
 public:
  /// Tensors of so many columns; 0: of any shapes.
  explicit Grower(std::vector<int> kinds, int64_t columns = 0) : kinds_(std::move(kinds)), columns_(columns) {}
  Program run(int max_ops) {
    Shape batch = columns_ == 0 ? Shape{draw_extent(), draw_extent()}
                                : Shape{*rc::gen::element<int64_t>(3, 96, 480, 960), columns_};
    pool_.push_back(b_.input("x", batch));
    int parameters = *rc::gen::inRange(1, 3);
    for (int p = 0; p < parameters; ++p) {
      parameters_.push_back(
          b_.parameter(fmt::format("w{}", p), columns_ == 0 ? Shape{batch[1], draw_extent()} : batch));
      pool_.push_back(parameters_.back());
    }
    int ops = *rc::gen::inRange(1, max_ops + 1);
    for (int i = 0; i < ops; ++i) grow(i);
    NodeId last = pool_.back();
    b_.program.loss = b_.op("loss", letters("->"), {last}, in0_ * in0_);
    b_.phase(Phase::update);
    for (NodeId p : parameters_) update(p);
    return b_.program;
  }

 private:
  static int64_t draw_extent() { return *rc::gen::element<int64_t>(1, 4, 6, 12); }
  NodeId pick() {
    const size_t first = columns_ == 0 || *rc::gen::inRange(0, 4) == 0 ? 0 : pool_.size() - 1;  // chains of windows
    return pool_[*rc::gen::inRange<size_t>(first, pool_.size())];
  }
  const Shape& shape(NodeId id) const { return b_.program[id].type.shape; }
  static std::string letters(const char* tail) { return std::string("ab") + tail; }

  void grow(int i) {
    NodeId a = pick(), c = pick();
    std::string name = fmt::format("t{}", i);
    switch (kinds_[*rc::gen::inRange<size_t>(0, kinds_.size())]) {
      case 0:
        return keep(b_.op(name, "ab->ab", {a}, maximum(in0_, 0.0)));
      case 1:
        return keep(b_.op(name, "ab->ab", {a}, in0_ * 0.5));
      case 2:
        return keep(b_.op(name, "ab->ba", {a}, in0_));
      case 3:
        return keep(b_.op(name, "au,ac->ac", {row_sums(a, i), a}, in0_ + in1_));
      case 4:
        if (shape(a) == shape(c)) return keep(b_.op(name, "ab,ab->ab", {a, c}, in0_ + in1_));
        return keep(b_.op(name, "ab,ab->ab", {a, a}));
      case 5:
        if (shape(a)[1] == shape(c)[0]) return keep(b_.op(name, "ak,kb->ab", {a, c}));
        return keep(b_.op(name, "ka,kb->ab", {a, a}));
      case 6:
        if (shape(a)[0] == shape(c)[0]) return keep(b_.op(name, "ka,kb->ab", {a, c}));
        return keep(b_.op(name, "ak,bk->ab", {a, a}));
      case 7:
        if (shape(a)[0] % 3 == 0 && *rc::gen::inRange(0, 4) == 0) return keep(b_.windows(name, a, 3, 0));
        if (shape(a)[0] % 2 == 0 && *rc::gen::arbitrary<bool>())
          return keep(b_.windows(name, a, 2, *rc::gen::inRange(0, 2)));
        return keep(b_.windows(name, a, 1, *rc::gen::inRange(0, 3)));
      case 8:
        return keep(b_.window_products(name, a, shape(a) == shape(c) ? c : a));
      default: {
        NodeId peak = b_.op(name + "_max", "ab->a", {a}, in0_, FactorKind::max);
        return keep(b_.op(name, "ab,a->ab", {a, peak}, exp(in0_ - in1_)));
      }
    }
  }

  /// Sums over the second dimension, kept as a dimension of extent 1.
  NodeId row_sums(NodeId a, int i) {
    b_.size('u', 1);
    return b_.op(fmt::format("t{}_sum", i), "ab->au", {a}, in0_);
  }

  void keep(NodeId id) { pool_.push_back(id); }

  void update(NodeId p) {
    NodeId gradient = p;
    for (NodeId id : pool_)
      if (shape(id) == shape(p) && id != p) gradient = id;
    b_.program.updates.push_back(
        {p, b_.op(b_.program[p].name + "_new", "ab,ab->ab", {p, gradient}, in0_ - in1_ * 0.1)});
  }

  const std::vector<int> kinds_;  ///< of operators
  const int64_t columns_;
  ProgramBuilder b_;
  Expr in0_ = Expr::input(0), in1_ = Expr::input(1);
  std::vector<NodeId> pool_, parameters_;
};

}  // namespace

Program random_program(int max_ops, bool windows) {
  std::vector<int> kinds{0, 1, 2, 3, 4, 5, 6, 9};
  if (windows) kinds.insert(kinds.end(), {7, 8});
  return Grower(kinds).run(max_ops);
}
Program random_windows(int max_ops) { return Grower({0, 4, 7, 7, 7, 8}, 1).run(max_ops); }

namespace {

/// Of every second cluster one host has a link of its own to the others, slower or faster in one direction or both.
void give_own_links(Cluster* cluster) {
  if (*rc::gen::arbitrary<bool>()) return;
  OutsideLink& own = cluster->hosts[*rc::gen::inRange<size_t>(0, cluster->hosts.size())].outside;
  const double usual = cluster->between.bandwidth_bytes_per_second;
  if (*rc::gen::arbitrary<bool>()) own.sending_bytes_per_second = usual * *rc::gen::element(0.1, 0.5, 3.0);
  if (*rc::gen::arbitrary<bool>()) own.receiving_bytes_per_second = usual * *rc::gen::element(0.1, 0.5, 3.0);
  if (*rc::gen::arbitrary<bool>()) own.latency_seconds = cluster->between.latency_seconds * 3;
}

/// Puts one host of every second cluster, or each of two, into a rack of its own, whose uplink may be slower than the
/// host's link.
void give_racks(Cluster* cluster) {
  const int racks = *rc::gen::element(0, 0, 1, 2);
  for (int r = 0; r < racks && r < int(cluster->hosts.size()); ++r) {
    const double usual = cluster->between.bandwidth_bytes_per_second;
    cluster->racks.push_back({fmt::format("rack{}", r),
                              {usual * *rc::gen::element(0.1, 0.5, 3.0), usual * *rc::gen::element(0.2, 3.0),
                               cluster->between.latency_seconds * *rc::gen::element(0, 2)}});
    cluster->hosts[size_t(r)].rack = r;
  }
}

}  // namespace

Cluster random_cluster() {
  std::vector<double> speeds =
      *rc::gen::container<std::vector<double>>(*rc::gen::inRange<size_t>(2, 5), rc::gen::element(1e9, 2e9, 5e9));
  double bandwidth = *rc::gen::element(1e8, 1e9, 1e10, 1e11);
  double latency = *rc::gen::element(0.0, 1e-9, 1e-8, 1e-7);
  Cluster cluster = cluster_of_speeds(speeds, bandwidth, latency);
  if (*rc::gen::arbitrary<bool>()) {  // on two hosts, of any numbers of devices
    cluster.between = {bandwidth / *rc::gen::element(1, 10, 100), latency * *rc::gen::element(1, 10)};
    cluster.hosts.resize(2, cluster.hosts[0]);
    for (size_t d = *rc::gen::inRange<size_t>(1, speeds.size()); d < speeds.size(); ++d) cluster.devices[d].host = 1;
    give_own_links(&cluster);
    give_racks(&cluster);
  }
  return cluster;
}

std::pair<Cluster, Mesh> random_mesh() {
  int outer = *rc::gen::inRange(2, 4), inner = 2;
  std::vector<double> speeds =
      *rc::gen::container<std::vector<double>>(size_t(outer * inner), rc::gen::element(1e9, 3e9));
  Cluster cluster = cluster_of_speeds(speeds, *rc::gen::element(1e9, 1e11, 1e12), *rc::gen::element(0.0, 1e-9, 1e-7));
  if (*rc::gen::arbitrary<bool>()) {  // the outer axis between hosts
    cluster.between = {*rc::gen::element(1e8, 1e10), 1e-8};
    cluster.hosts.resize(size_t(outer), cluster.hosts[0]);
    // Or so that groups of an axis have several devices on a host.
    const size_t first = *rc::gen::arbitrary<bool>() ? 0 : *rc::gen::inRange<size_t>(1, speeds.size());
    for (size_t d = 0; d < speeds.size(); ++d) cluster.devices[d].host = first == 0 ? int(d) / inner : int(d >= first);
    give_own_links(&cluster);
    give_racks(&cluster);
  }
  return {cluster, Mesh{{{"outer", outer}, {"inner", inner}}}};
}

}  // namespace hetsynth::testing_support
