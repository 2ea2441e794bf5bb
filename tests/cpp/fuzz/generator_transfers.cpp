// Random loads and stores, of streams and remote buffers.
#include "pando/ops/host_call.hpp"
#include "tests/cpp/fuzz/generator.hpp"

namespace pando::fuzz {

const RemoteBuffer& GraphGenerator::remote_buffer_like(const Candidate& c) {
  Ir& ir = *program_.ir;
  const bool exact = class_of(c).exact;
  for (const auto& buffer : ir.remote_buffers()) {
    const Transfers& known = program_.buffers.at(buffer->id);
    if (buffer->info == c.tensor->info && known.exact == exact && known.stage == site_.stage) {
      return *buffer;
    }
  }
  const RemoteBuffer& made = ir.add_remote_buffer(c.tensor->info, 2);
  program_.buffers[made.id] = {exact, site_.stage};
  return made;
}

void GraphGenerator::remote_op() {
  if (pool_.empty()) return void(any_float());
  const Candidate x = clipped(choose(pool_), kEntryBound);
  const RemoteBuffer& buffer = remote_buffer_like(x);
  const std::int32_t entry = pick(2);
  Tensor* offset = builder_.constant({DType::Int32, {}, {}}, &entry);
  const Attributes attributes = {{"buffer", buffer.id}};
  if (flip()) {
    op("RemoteStore", {x.tensor, offset}, attributes);
    return;
  }
  Tensor* init = op("Init", {},
                    {{"shape", Ints(buffer.info.shape)},
                     {"dtype", buffer.info.dtype},
                     {"init_type", std::string("undef")}})
                     .output(0);
  add(op("RemoteLoad", {init, offset}, attributes).output(0), class_of(x));
}

/// Elements of one or two tensors in reverse order.
void GraphGenerator::host_call_op() {
  if (pool_.empty()) return void(any_float());
  std::vector<Candidate> given;
  std::vector<Tensor*> inputs;
  std::vector<TensorInfo> infos;
  for (int i = pick(2); i >= 0; --i) {
    given.push_back(choose(pool_));
    inputs.push_back(given.back().tensor);
    infos.push_back({inputs.back()->dtype(), inputs.back()->shape(), {}});
  }
  const Op& call = op("HostCall", inputs, host_call_attributes("reverse", infos));
  for (std::size_t i = 0; i < given.size(); ++i) {
    add(call.output(static_cast<int>(i)), class_of(given[i]));
  }
}

void GraphGenerator::transfer_op() {
  if (flip(0.3)) return remote_op();
  if (flip(0.3)) return host_call_op();
  if (pool_.empty() || flip(0.7)) {
    const Slot slot = random_slot();
    load(slot.dtype, slot.shape, slot.exact);
  } else {
    store(choose(pool_));
  }
}

}  // namespace pando::fuzz
