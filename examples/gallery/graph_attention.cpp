// A graph attention network (Velickovic et al. 2018) for Cora: classes of papers from their words and from the papers
// they cite. The whole graph is one step: nodes are the batch, and devices share them.
//   hetsynth run graph_attention.cpp --set size=tiny
//   hetsynth run graph_attention.cpp --data cora/ --set neighbours=cora/neighbours.npy
//     (words.npy [nodes, features]; labels.npy [nodes], -100 where unknown; neighbours [nodes, most], -1 where fewer)
// Model: GAT Cora | 92373 parameters
#include <cmath>
#include <string>
#include <vector>

#include "hetsynth/hetsynth.h"
using namespace hetsynth;

struct Size {
  int64_t nodes, features, heads, hidden, classes, most;
};

/// A ring with chords, each node its own neighbour first: a graph to try the network with.
Tensor made_up(int64_t nodes, int64_t most) {
  std::vector<int64_t> table;
  for (int64_t node = 0; node < nodes; ++node)
    for (int64_t i = 0; i < most; ++i)
      table.push_back(i > 1 + node % most ? -1 : (node + i * i * 7 + (i ? node % 3 : 0)) % nodes);
  return constant(table, {nodes, most});
}

/// n nodes, m neighbours, h heads, d features of a head. The published score leaky_relu(a [W x_i, W x_j]) is a sum of
/// a part of the node and one of its neighbour.
Tensor attend(const std::string& name, Tensor x, Tensor neighbours, int64_t heads, int64_t features, double p) {
  double deviation = std::sqrt(2.0 / double(x.size(1) + heads * features));
  Tensor weight = parameter(name + ".weight", {x.size(1), heads, features}, normal(deviation));
  Tensor own = parameter(name + ".own", {heads, features}, normal(0.3));
  Tensor other = parameter(name + ".other", {heads, features}, normal(0.3));
  Tensor projected = einsum("nc,chd->nhd", dropout(x, p), weight);
  Tensor table = reshape(projected, {x.size(0), heads * features});
  Dims shape = {x.size(0), neighbours.size(1), heads, features};
  Tensor near = reshape(embedding(table, neighbours), shape);
  Tensor part = reshape(einsum("nhd,hd->nh", projected, own), {x.size(0), 1, heads});
  Tensor score = leaky_relu(part + einsum("nmhd,hd->nmh", near, other), 0.2);
  Tensor missing = reshape(to_float(neighbours) < 0, {x.size(0), neighbours.size(1), 1});
  Tensor share = dropout(softmax(where(missing, -1e9, score), 1), p);
  return einsum("nmh,nmhd->nhd", share, near);
}

void model() {
  Size s = choice<Size>("size", "cora", {{"cora", {2708, 1433, 8, 8, 7, 16}}, {"tiny", {19, 12, 2, 4, 3, 5}}},
                        "published size, or tiny");
  std::string file = option("neighbours", "", "npy file of the graph; without it one is made up");
  int64_t nodes = option("batch", s.nodes, "nodes of the graph");
  double p = option("dropout", 0.6, "share of features and of neighbours dropped");
  double lr = option("lr", 5e-3, "learning rate");

  Tensor words = input("words", {nodes, s.features}, f32);
  Tensor labels = input("labels", {nodes}, i32, {.classes = s.classes, .ignored = -100});
  Tensor neighbours = file.empty() ? made_up(nodes, s.most) : constant(file);
  Tensor h = attend("first", words, neighbours, s.heads, s.hidden, p);
  h = reshape(h, {nodes, s.heads * s.hidden}) + parameter("first.bias", {s.heads * s.hidden}, zeros());
  Tensor active = where(h > 0, h, exp(minimum(h, 0)) - 1);
  Tensor out = attend("second", active, neighbours, 1, s.classes, p);
  Tensor logits = reshape(out, {nodes, s.classes}) + parameter("second.bias", {s.classes}, zeros());
  output("logits", logits);
  minimize(cross_entropy(logits, labels, {.ignored_label = -100}), Adam{.learning_rate = lr, .weight_decay = 5e-4});
}
