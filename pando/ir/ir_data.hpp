// An Ir as plain records: the common ground of its text and binary forms.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pando/ir/graph.hpp"

namespace pando {

/// Where a record was read, for errors. Line 0: unknown (binary files).
struct TextPosition {
  int line = 0;
  int column = 0;
};

/// A tensor that no op makes: graph input, variable, constant or stream handle.
struct SourceTensorData {
  std::string id;
  TensorInfo info;
  TensorKind kind = TensorKind::GraphInput;
  bool by_ref = false;
  std::shared_ptr<HostArray> data;  // variables and constants; may be nullptr
  VariableSettings settings;
  TextPosition position;
};

struct OpData {
  std::int64_t id = 0;
  std::string kind;
  std::vector<std::optional<std::string>> inputs;  // nullopt: not connected
  Attributes attributes;
  std::vector<std::pair<std::string, TensorInfo>> outputs;
  std::vector<std::string> called_graphs;
  std::vector<std::int64_t> after;
  OpContext context;
  TextPosition position;
};

struct GraphData {
  std::string id;
  bool differentiable = true;
  std::vector<SourceTensorData> sources;  // inputs in order, then the others sorted by id
  std::vector<OpData> ops;
  std::vector<std::string> outputs;
  TextPosition position;
};

struct StreamData {
  std::string handle;
  StreamDirection direction = StreamDirection::HostToDevice;
  TextPosition position;
};

struct IrData {
  std::int64_t num_host_transfers = 1;
  std::int64_t replication_factor = 1;
  IrCounters counters;
  std::vector<RemoteBuffer> remote_buffers;
  std::vector<StreamData> streams;
  std::vector<GraphData> graphs;  // the main graph first
};

/// The records of `ir`; host arrays are shared.
IrData ir_data(const Ir& ir);

/// The Ir that `data` describes. Throws Error, with the position when known, for unknown names,
/// ids used twice, data of the wrong size, and ops that break the rules of their kind (see
/// `op_fault`).
std::unique_ptr<Ir> build_ir(const IrData& data);

/// Bytes of the host array of a variable or constant.
std::size_t source_bytes(const SourceTensorData& source, std::int64_t replicas);

/// Throws Error when a dimension is negative or the tensor has more than 2^48 bytes.
void check_storable(const TensorInfo& info);

}  // namespace pando
