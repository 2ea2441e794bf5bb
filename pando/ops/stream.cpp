// Host streams, remote buffers and moves between virtual devices.
#include "pando/ops/rules.hpp"

namespace pando {
namespace {

void check_stream(const Op& op, StreamDirection direction) {
  const std::string& handle = op.attributes.text("stream");
  const Stream* stream = op.graph().ir().find_stream(handle);
  if (stream == nullptr || stream->direction != direction) {
    throw Error(
        str_cat(describe(op), ": there is no ",
                direction == StreamDirection::HostToDevice ? "host-to-device" : "device-to-host",
                " stream called '", handle, "'"));
  }
  const TensorInfo& wanted = stream->handle->info;
  const TensorInfo& given = input_info(op, 0);
  if (wanted.dtype != given.dtype) {
    throw ValueError(str_cat("dtype of stream ", wanted.dtype,
                             " does not match dtype of provided tensor ", given.dtype, " in ",
                             describe(op)));
  }
  if (wanted.shape != given.shape) {
    throw ValueError(str_cat("shape of stream ", shape_text(wanted.shape),
                             " does not match shape of provided tensor ", shape_text(given.shape),
                             " in ", describe(op)));
  }
}

std::vector<TensorInfo> infer_host_load(const Op& op) {
  check_stream(op, StreamDirection::HostToDevice);
  return {op.input(0)->info};
}

std::vector<TensorInfo> infer_host_store(const Op& op) {
  check_stream(op, StreamDirection::DeviceToHost);
  if (!op.input(0)->info.meta_shape.empty()) {
    wrong_input(op, "a replica-sharded tensor cannot be stored to a host stream: gather it first");
  }
  return {};
}

/// Checks inputs t and offset against the buffer and returns the info of a loaded tensor.
TensorInfo check_remote(const Op& op) {
  const std::int64_t id = op.attributes.integer("buffer");
  const RemoteBuffer* buffer = nullptr;
  for (const auto& candidate : op.graph().ir().remote_buffers()) {
    if (candidate->id == id) buffer = candidate.get();
  }
  if (buffer == nullptr) throw Error(str_cat(describe(op), ": there is no remote buffer ", id));
  const TensorInfo& given = input_info(op, 0);
  if (given.shape != buffer->info.shape || given.dtype != buffer->info.dtype) {
    throw ValueError(str_cat("Tensor '", op.input(0)->name(), "' does not match buffer. Tensor ",
                             info_text(given), ", buffer ", info_text(buffer->info), " in ",
                             describe(op)));
  }
  require_one_element(op, 1);
  return buffer->info;
}

void needs_offset(const Op& op) {
  const DType dtype = input_info(op, 1).dtype;
  if (dtype == DType::Int32 || dtype == DType::UInt32) return;
  wrong_input(op, "wanted an int32 or uint32 offset at input 1");
}

std::vector<TensorInfo> infer_remote_load(const Op& op) { return {check_remote(op)}; }

std::vector<TensorInfo> infer_remote_store(const Op& op) {
  check_remote(op);
  return {};
}

std::vector<TensorInfo> infer_copy(const Op& op) { return {input_info(op, 0)}; }

void add_host(Registry& registry) {
  registry.add({.name = "HostLoad",
                .doc = "The next element of the host-to-device stream whose handle is called "
                       "attribute stream. Input 0 (an Init) gives shape and dtype.",
                .attributes = {text_attribute("stream")},
                .infer = infer_host_load,
                .has_side_effects = true,
                .is_load = true,
                .ignores_value = true});
  registry.add({.name = "HostStore",
                .doc = "Appends input 0 to the device-to-host stream whose handle is called "
                       "attribute stream.",
                .attributes = {text_attribute("stream")},
                .infer = infer_host_store,
                .has_side_effects = true,
                .is_store = true});
}

void add_remote(Registry& registry) {
  OpDef load{.name = "RemoteLoad",
             .doc =
                 "Entry input 1 (int32 or uint32 scalar) of the remote buffer with id attribute "
                 "buffer. Input 0 (an Init) gives shape and dtype.",
             .min_inputs = 2,
             .max_inputs = 2,
             .attributes = {integer_attribute("buffer")},
             .infer = infer_remote_load,
             .check_execution = needs_offset,
             .has_side_effects = true,
             .is_load = true};
  OpDef fresh_load = load;
  fresh_load.ignores_value = true;
  registry.add(std::move(fresh_load));
  registry.add(in_place(load, "RemoteLoadInplace",
                        "Overwrites input 0 with entry input 1 of the remote buffer with id "
                        "attribute buffer."));
  registry.add({.name = "RemoteStore",
                .doc = "Writes input 0 to entry input 1 (int32 or uint32 scalar) of the remote "
                       "buffer with id attribute buffer.",
                .min_inputs = 2,
                .max_inputs = 2,
                .attributes = {integer_attribute("buffer")},
                .infer = infer_remote_store,
                .check_execution = needs_offset,
                .has_side_effects = true,
                .is_store = true});
  registry.add(
      {.name = "RemoteCodeLoad",
       .doc = "Asks that the code of the graph with id attribute graph be present at attribute "
              "destination (executable). Code always is.",
       .min_inputs = 0,
       .max_inputs = 0,
       .attributes = {text_attribute("graph"), text_attribute("destination")},
       .infer = [](const Op& op) {
         const std::string& destination = op.attributes.text("destination");
         if (destination != "executable") {
           throw NotSupported(str_cat("remote_code_load to '", destination,
                                      "' is not supported, only to 'executable'"));
         }
         return std::vector<TensorInfo>{};
       }});
}

void add_device_copies(Registry& registry) {
  registry.add({.name = "DeviceCopy",
                .doc = "Input 0 moved from virtual device attribute source to virtual device "
                       "attribute destination.",
                .attributes = {integer_attribute("source"), integer_attribute("destination")},
                .infer = infer_copy,
                .view = identity_view,
                .moves_devices = true});
  registry.add({.name = "IoTileCopy",
                .doc = "Input 0 moved between the compute and the io tiles.",
                .infer = infer_copy,
                .view = identity_view});
}

}  // namespace

void register_stream_ops(Registry& registry) {
  add_host(registry);
  add_remote(registry);
  add_device_copies(registry);
}

}  // namespace pando
