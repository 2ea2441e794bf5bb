#include "pando/transforms/route_tensor.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "pando/base/error.hpp"

namespace pando {
namespace {

/// One use of a graph by an op: which called graph it is, and which op inputs feed it.
struct Site {
  Op* op;
  int first_input;  // op input of graph input 0
  int num_inputs;
  bool is_then_branch;
};

std::vector<Site> sites_of(const Graph& graph) {
  std::vector<Site> sites;
  for (const Graph* caller : graph.ir().graphs()) {
    for (Op* op : caller->ops()) {
      for (std::size_t k = 0; k < op->called_graphs.size(); ++k) {
        if (op->called_graphs[k] != &graph) continue;
        if (op->kind() != OpKind::If) {
          sites.push_back({op, 0, op->num_inputs(), false});
          continue;
        }
        const int num_then = static_cast<int>(op->attributes.integer("num_then_inputs"));
        const int num_else = op->num_inputs() - 1 - num_then;
        sites.push_back(k == 0 ? Site{op, 1, num_then, true}
                               : Site{op, 1 + num_then, num_else, false});
      }
    }
  }
  return sites;
}

class Router {
 public:
  Router(Tensor& tensor, bool modified) : tensor_(tensor), modified_(modified) {}

  Tensor& route(Graph& target) {
    if (&target == &tensor_.graph()) return tensor_;
    const auto known = routed_.find(&target);
    if (known != routed_.end()) return *known->second;
    const std::vector<Site> sites = sites_of(target);
    if (sites.empty()) {
      throw ValueError(str_cat("route_tensor: '", tensor_.id(), "' cannot be routed into graph ",
                               target.id(),
                               ": it is not called, directly or through other graphs, from ",
                               graph_text(tensor_.graph()), " alone"));
    }
    std::vector<Tensor*> outer;
    outer.reserve(sites.size());
    for (const Site& site : sites) outer.push_back(&route(site.op->graph()));
    Tensor* input = existing_input(target, sites, outer);
    if (input == nullptr) input = new_input(target, sites, outer);
    if (modified_) {
      refuse_branches(sites);
      input->set_by_ref(true);
    }
    routed_[&target] = input;
    return *input;
  }

 private:
  static std::string graph_text(const Graph& graph) {
    return graph.is_main() ? "the main graph" : "graph " + graph.id();
  }

  /// A graph input that every site feeds with the routed tensor.
  static Tensor* existing_input(const Graph& target, const std::vector<Site>& sites,
                                const std::vector<Tensor*>& outer) {
    for (int i = 0; i < static_cast<int>(target.inputs().size()); ++i) {
      bool fits = true;
      for (std::size_t s = 0; s < sites.size() && fits; ++s) {
        const int carried =
            sites[s].op->def().is_loop ? static_cast<int>(target.outputs().size()) + 1 : 0;
        fits = i >= carried && sites[s].op->input(sites[s].first_input + i) == outer[s];
      }
      if (fits) return target.inputs()[static_cast<std::size_t>(i)];
    }
    return nullptr;
  }

  Tensor* new_input(Graph& target, const std::vector<Site>& sites,
                    const std::vector<Tensor*>& outer) const {
    Tensor* input = target.add_input(target.unique_tensor_id(tensor_.name()), tensor_.info);
    for (std::size_t s = 0; s < sites.size(); ++s) {
      Op& op = *sites[s].op;
      const int at = sites[s].first_input + sites[s].num_inputs;
      std::vector<Tensor*> inputs = op.inputs();
      inputs.insert(inputs.begin() + at, outer[s]);
      for (int i = 0; i < static_cast<int>(inputs.size()); ++i) {
        op.set_input(i, inputs[static_cast<std::size_t>(i)]);
      }
      if (sites[s].is_then_branch) {
        op.attributes.set("num_then_inputs", std::int64_t{sites[s].num_inputs + 1});
      }
    }
    return input;
  }

  void refuse_branches(const std::vector<Site>& sites) const {
    for (const Site& site : sites) {
      if (site.op->kind() != OpKind::If) continue;
      throw NotSupported(str_cat("route_tensor: '", tensor_.id(),
                                 "' is to be modified below a conditional, ", describe(*site.op),
                                 ": conditionals take their inputs by value"));
    }
  }

  Tensor& tensor_;
  bool modified_;
  std::map<const Graph*, Tensor*> routed_;
};

}  // namespace

Tensor& route_tensor(Tensor& tensor, Graph& target, bool modified) {
  return Router(tensor, modified).route(target);
}

}  // namespace pando
