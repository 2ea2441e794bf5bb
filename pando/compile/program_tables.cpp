#include "pando/compile/program_tables.hpp"

#include <algorithm>

#include "pando/base/alignment.hpp"
#include "pando/base/error.hpp"
#include "pando/compile/device_streams.hpp"

namespace pando {
namespace {

/// The index of what was added to `list` last.
template <class List>
std::int32_t last_index(const List& list) {
  return static_cast<std::int32_t>(list.size()) - 1;
}

}  // namespace

ProgramTables::ProgramTables(StepProgram& steps, const Ir& ir, Target& target)
    : steps_(steps), program_(steps.tables), target_(target), kernels_(program_) {
  for (const auto& stream : ir.streams()) ir_streams_[stream->handle->id()] = stream.get();
  for (const auto& buffer : ir.remote_buffers()) ir_buffers_[buffer->id] = buffer.get();
}

std::int32_t ProgramTables::stream(const Op& op) {
  const std::string& id = op.attributes.text("stream");
  const auto known = ir_streams_.find(id);
  if (known == ir_streams_.end())
    throw Error(str_cat(describe(op), ": there is no stream called '", id, "'"));
  const auto [it, is_new] = streams_.try_emplace(known->first);
  if (is_new) {
    const Stream& stream = *known->second;
    program_.streams.push_back({id, stream.handle->dtype(), stream.handle->shape(),
                                stream.direction == StreamDirection::HostToDevice});
    it->second = last_index(program_.streams);
  }
  return it->second;
}

std::int32_t ProgramTables::remote_buffer(const Op& op) {
  const std::int64_t id = op.attributes.integer("buffer");
  const std::int32_t index = remote_buffer(id);
  if (index < 0) throw Error(str_cat(describe(op), ": there is no remote buffer with id ", id));
  return index;
}

std::int32_t ProgramTables::remote_buffer(std::int64_t id) {
  const auto known = ir_buffers_.find(id);
  if (known == ir_buffers_.end()) return -1;
  const auto [it, is_new] = buffers_.try_emplace(id);
  if (is_new) {
    const RemoteBuffer& buffer = *known->second;
    program_.remote_buffers.push_back({id, buffer.info.dtype, buffer.info.shape, buffer.entries});
    it->second = last_index(program_.remote_buffers);
  }
  return it->second;
}

std::int32_t ProgramTables::collective(CollectiveDesc collective, const Op& op) {
  const SourceInfo info = program_.sources[static_cast<std::size_t>(source(op))];
  collective.name =
      info.location.empty() ? std::string(info.op) : str_cat(info.op, " (", info.location, ")");
  program_.collectives.push_back(std::move(collective));
  return last_index(program_.collectives);
}

std::int32_t ProgramTables::print(PrintDesc print) {
  program_.prints.push_back(std::move(print));
  return last_index(program_.prints);
}

std::int32_t ProgramTables::host_call(HostCallDesc call) {
  program_.host_calls.push_back(std::move(call));
  return last_index(program_.host_calls);
}

std::int32_t ProgramTables::source(const Op& op) {
  std::int32_t& known =
      sources_.try_emplace(&op.graph(), OpMap<std::int32_t>(-1)).first->second[&op];
  if (known >= 0) return known;
  const SharedText& name = op.context.name;
  const TextTable::Index text = name.empty()
                                    ? program_.sources.add_text(op.kind_name())
                                    : program_.sources.add_joined(op.kind_name(), " '", name, "'");
  const TextTable::Index location =
      source_locations_.of(op, [&](std::string_view at) { return program_.sources.add_text(at); });
  if (!last_phase_ || !last_phase_->is_shared_with(op.context.phase)) {
    last_phase_ = op.context.phase;
    last_phase_text_ = phase(*last_phase_);
  }
  program_.sources.add({text, location, last_phase_text_});
  return known = last_index(program_.sources);
}

std::int32_t ProgramTables::device(const Op& op) const {
  const std::vector<std::int64_t>& devices = steps_.device_numbers;
  const auto it = std::lower_bound(devices.begin(), devices.end(), device_of(op));
  return static_cast<std::int32_t>(it - devices.begin());
}

std::int64_t ProgramTables::global_offset(const Tensor& root) {
  const auto [known, is_new] = globals_.try_emplace(&root);
  if (!is_new) return known->second;
  if (root.settings().remote_buffer > 0) {
    throw Error(str_cat("the variable '", root.id(), "' lives in remote buffer ",
                        root.settings().remote_buffer,
                        " and has no value on the device: load it with ops.remote_load"));
  }
  std::int64_t& bytes = program_.persistent_bytes.front();
  const std::int64_t offset = bytes;
  bytes += align_bytes(static_cast<std::int64_t>(root.info.bytes()));
  PersistentTensor& tensor = program_.persistent.emplace_back();
  tensor.id = root.id();
  tensor.dtype = root.dtype();
  tensor.shape = root.info.shape;
  tensor.offset = offset;
  tensor.is_variable = root.kind() == TensorKind::Variable;
  tensor.settings = root.settings();
  return known->second = offset;
}

TextTable::Index ProgramTables::storage_location(const Op& op) {
  return storage_locations_.of(op, [&](std::string_view at) { return steps_.texts.add(at); });
}

TextTable::Index ProgramTables::phase(const std::string& phase) {
  const auto it = phases_.find(phase);
  if (it != phases_.end()) return it->second;
  return phases_[phase] = program_.sources.add_text(phase);
}

}  // namespace pando
