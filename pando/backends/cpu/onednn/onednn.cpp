#include "pando/backends/cpu/onednn/onednn.hpp"

#include <omp.h>

#include <atomic>
#include <utility>

#include "pando/base/error.hpp"
#include "pando/base/signals_held.hpp"

namespace pando::cpu {

const dnnl::engine& onednn_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

bool onednn_multiplies(DType dtype) {
  if (dtype == DType::Float32) return true;
  if (!is_half_precision(dtype)) return false;
  const auto needed = static_cast<unsigned>(
      dtype == DType::BFloat16 ? dnnl::cpu_isa::avx512_core_bf16 : dnnl::cpu_isa::avx512_core_fp16);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & needed) == needed;
}

dnnl::memory::desc onednn_desc(DType dtype, const Shape& shape, const Strides& strides) {
  using Type = dnnl::memory::data_type;
  internal_check(is_half_or_single_precision(dtype), "oneDNN is given another dtype");
  const Type type = dtype == DType::Float32   ? Type::f32
                    : dtype == DType::Float16 ? Type::f16
                                              : Type::bf16;
  return dnnl::memory::desc(dnnl::memory::dims(shape.begin(), shape.end()), type,
                            dnnl::memory::dims(strides.begin(), strides.end()));
}

SingleThreaded::SingleThreaded() : before_(omp_get_max_threads()) {
  if (before_ != 1) omp_set_num_threads(1);
}

SingleThreaded::~SingleThreaded() {
  if (before_ != 1) omp_set_num_threads(before_);
}

struct OnednnPrimitive::Context {
  dnnl::stream stream{onednn_engine()};
  std::vector<dnnl::memory> memories;
  std::vector<dnnl_exec_arg_t> arguments;

  explicit Context(const std::vector<Argument>& list) {
    memories.reserve(list.size());
    for (const Argument& argument : list) {
      memories.emplace_back(argument.desc, onednn_engine(), nullptr);
      arguments.push_back({argument.id, memories.back().get()});
    }
  }
};

/// Contexts not in use. A run takes one and puts it back; more threads than slots allocate.
struct OnednnPrimitive::Pool {
  static constexpr int kSlots = 4;
  std::atomic<Context*> slots[kSlots] = {};

  ~Pool() {
    for (auto& slot : slots) delete slot.load();
  }
  std::unique_ptr<Context> take() {
    for (auto& slot : slots) {
      if (Context* context = slot.exchange(nullptr, std::memory_order_acquire)) {
        return std::unique_ptr<Context>(context);
      }
    }
    return nullptr;
  }
  void give(std::unique_ptr<Context> context) {
    for (auto& slot : slots) {
      Context* expected = nullptr;
      if (slot.compare_exchange_strong(expected, context.get(), std::memory_order_release)) {
        static_cast<void>(context.release());  // the slot owns it
        return;
      }
    }
  }
};

OnednnPrimitive::OnednnPrimitive(dnnl::primitive primitive, std::vector<Argument> arguments)
    : primitive_(std::move(primitive)),
      arguments_(std::move(arguments)),
      pool_(std::make_unique<Pool>()) {
  pool_->give(std::make_unique<Context>(arguments_));
}

OnednnPrimitive::~OnednnPrimitive() = default;

void OnednnPrimitive::run(void* const* pointers) const {
  const SingleThreaded single;
  std::unique_ptr<Context> context = pool_->take();
  if (!context) context = std::make_unique<Context>(arguments_);
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    dnnl_memory_set_data_handle(context->arguments[i].memory, pointers[i]);
  }
  dnnl_status_t status = dnnl_success;
  {
    // For many terms oneDNN's kernels have their stack in a buffer of the heap: the frame of a
    // signal would overwrite what lies below it.
    const SignalsHeld held;
    status = dnnl_primitive_execute(primitive_.get(), context->stream.get(),
                                    static_cast<int>(context->arguments.size()),
                                    context->arguments.data());
  }
  pool_->give(std::move(context));
  if (status != dnnl_success) {
    throw RuntimeFault(str_cat("oneDNN failed to run a primitive (status ", int(status), ")"));
  }
}

std::unique_ptr<OnednnPrimitive> onednn_reorder(const dnnl::memory::desc& from,
                                                const dnnl::memory::desc& to) {
  const dnnl::engine& engine = onednn_engine();
  const dnnl::reorder::primitive_desc desc(engine, from, engine, to);
  return std::make_unique<OnednnPrimitive>(
      dnnl::reorder(desc),
      std::vector<OnednnPrimitive::Argument>{{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

}  // namespace pando::cpu
