#include <algorithm>
#include <atomic>
#include <iterator>
#include <unordered_map>
#include <unordered_set>

#include "pando/base/error.hpp"
#include "pando/base/mapped_memory.hpp"
#include "pando/ir/graph.hpp"

namespace pando {
namespace {

std::int64_t next_ir_id() {
  static std::atomic<std::int64_t> next{0};
  return next++;
}

}  // namespace

Ir::Ir()
    : memory_(&large_page_memory()),
      id_(next_ir_id()),
      erased_(std::make_unique<Graph>(*this, "(erased)")) {
  graphs_.push_back(std::make_unique<Graph>(*this, ""));
  graphs_by_id_.emplace(main_graph().id(), &main_graph());
}

std::vector<Graph*> Ir::graphs() const {
  std::vector<Graph*> result;
  result.reserve(graphs_.size());
  for (const auto& graph : graphs_) result.push_back(graph.get());
  return result;
}

Graph* Ir::find_graph(std::string_view id) const {
  const auto it = graphs_by_id_.find(id);
  return it == graphs_by_id_.end() ? nullptr : it->second;
}

Graph& Ir::create_graph(std::string_view base) {
  std::string name(base);
  constexpr std::string_view kLocals = ".<locals>";
  for (auto at = name.find(kLocals); at != std::string::npos; at = name.find(kLocals)) {
    name.erase(at, kLocals.size());
  }
  return create_graph_with_id(str_cat(name, "_subgraph(", counters_.graph_suffix++, ")"));
}

Graph& Ir::create_graph_with_id(const std::string& id) {
  if (find_graph(id) != nullptr) {
    throw InternalError(str_cat("a graph called '", id, "' exists already"));
  }
  graphs_.push_back(std::make_unique<Graph>(*this, id));
  graphs_by_id_.emplace(graphs_.back()->id(), graphs_.back().get());
  return *graphs_.back();
}

void Ir::erase_graphs(const std::vector<Graph*>& graphs) {
  std::unordered_set<const Graph*> erased;
  for (const Graph* graph : graphs) {
    internal_check(!graph->is_main(), "the main graph cannot be erased");
    internal_check(find_graph(graph->id()) == graph, "only a graph of this Ir can be erased");
    erased.insert(graph);
  }
  for (const Graph* graph : graphs) graphs_by_id_.erase(graph->id());
  const auto kept = std::stable_partition(graphs_.begin(), graphs_.end(), [&](const auto& graph) {
    return !erased.contains(graph.get());
  });
  std::move(kept, graphs_.end(), std::back_inserter(erased_graphs_));
  graphs_.erase(kept, graphs_.end());
}

Stream& Ir::add_stream(Tensor& handle, StreamDirection direction) {
  streams_.push_back(std::make_unique<Stream>(Stream{&handle, direction}));
  streams_by_id_.emplace(handle.id(), streams_.back().get());
  return *streams_.back();
}

const Stream* Ir::find_stream(std::string_view handle_id) const {
  const auto it = streams_by_id_.find(handle_id);
  return it == streams_by_id_.end() ? nullptr : it->second;
}

RemoteBuffer& Ir::add_remote_buffer(const TensorInfo& info, std::int64_t entries) {
  if (!has_sound_size(info, entries)) refuse_size(info, "remote buffer", entries);
  const std::int64_t id = remote_buffers_.empty() ? 1 : remote_buffers_.back()->id + 1;
  remote_buffers_.push_back(std::make_unique<RemoteBuffer>(RemoteBuffer{id, info, entries}));
  return *remote_buffers_.back();
}

std::unique_ptr<Ir> Ir::clone() const {
  auto copy = std::make_unique<Ir>();
  copy->tensor_ids_.share(tensor_ids_);
  Graph::GraphMap graphs;
  for (const auto& graph : graphs_) {
    graphs[graph.get()] =
        graph->is_main() ? &copy->main_graph() : &copy->create_graph_with_id(graph->id());
  }
  for (const auto& graph : graphs_) {
    TensorMap<Tensor*> tensors;
    graphs.at(graph.get())->copy_contents(*graph, graphs, tensors);
    if (!graph->is_main()) continue;
    for (const auto& stream : streams_) {
      copy->add_stream(*tensors.at(stream->handle), stream->direction);
    }
  }
  for (const auto& buffer : remote_buffers_) {
    copy->remote_buffers_.push_back(std::make_unique<RemoteBuffer>(*buffer));
  }
  copy->counters_ = counters_;
  copy->num_host_transfers = num_host_transfers;
  copy->replication_factor = replication_factor;
  return copy;
}

}  // namespace pando
