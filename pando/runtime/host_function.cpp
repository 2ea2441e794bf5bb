#include "pando/runtime/host_function.hpp"

#include <algorithm>
#include <utility>

#include "pando/base/error.hpp"
#include "pando/base/start_thread.hpp"

namespace pando {
namespace {

std::vector<std::vector<std::byte>> memory_for(const std::vector<OperandDesc>& operands) {
  std::vector<std::vector<std::byte>> memory;
  memory.reserve(operands.size());
  for (const OperandDesc& desc : operands) {
    memory.emplace_back(static_cast<std::size_t>(num_elements(desc.shape)) *
                        dtype_bytes(desc.dtype));
  }
  return memory;
}

}  // namespace

HostCall::HostCall(const HostCallDesc& desc)
    : desc_(desc), inputs_(memory_for(desc.inputs)), outputs_(memory_for(desc.outputs)) {}

void HostFunctionQueue::call(const std::shared_ptr<HostCall>& call, const StopCheck& check) {
  std::unique_lock lock(mutex_);
  call->is_done_ = false;
  call->error_ = nullptr;
  waiting_.push_back(call);
  changed_.notify_all();
  try {
    wait_until_or_stop(lock, changed_, check, [&] { return call->is_done_ || closed_; });
  } catch (...) {
    std::erase(waiting_, call);
    throw;
  }
  if (!call->is_done_) {
    std::erase(waiting_, call);
    throw RuntimeFault(
        str_cat("the host function '", name_, "' was closed while the program called it"));
  }
  // Out of the call, which the thread of the host may be the last to let go.
  if (call->error_ != nullptr) std::rethrow_exception(std::exchange(call->error_, nullptr));
}

std::shared_ptr<HostCall> HostFunctionQueue::take(const StopCheck& check) {
  std::unique_lock lock(mutex_);
  wait_until_or_stop(lock, changed_, check, [&] { return closed_ || !waiting_.empty(); });
  if (closed_) return nullptr;
  std::shared_ptr<HostCall> call = std::move(waiting_.front());
  waiting_.pop_front();
  return call;
}

void HostFunctionQueue::finish(HostCall& call, std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  call.is_done_ = true;
  call.error_ = std::move(error);
  changed_.notify_all();
}

void HostFunctionQueue::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

HostFunctionThread::HostFunctionThread(std::shared_ptr<HostFunctionQueue> queue, Function function)
    : queue_(std::move(queue)), function_(std::move(function)) {
  start_threads(threads_, 1, "a function of the host", [this](int) { work(); });
}

HostFunctionThread::~HostFunctionThread() {
  queue_->close();
  for (std::thread& thread : threads_) thread.join();
}

void HostFunctionThread::work() noexcept {
  while (const std::shared_ptr<HostCall> call = queue_->take({})) {
    std::exception_ptr error;
    try {
      function_(*call);
    } catch (...) {
      error = std::current_exception();
    }
    queue_->finish(*call, std::move(error));
  }
}

}  // namespace pando
