#include "tests/cpp/fuzz/host_function_threads.hpp"

#include <utility>

#include "tests/oracle/host_functions.hpp"

namespace pando::fuzz {
namespace {

/// In the memory of a call.
void run(HostCall& call, const oracle::HostFunction& function) {
  std::vector<oracle::Array> inputs;
  for (std::size_t i = 0; i < call.desc().inputs.size(); ++i) {
    const OperandDesc& desc = call.desc().inputs[i];
    oracle::Array& input = inputs.emplace_back(desc.dtype, desc.shape);
    input.data = oracle::decode(call.input(i).data(), desc.dtype, input.size());
  }
  const std::vector<oracle::Array> outputs = function(inputs);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    oracle::encode(outputs[i].data, call.desc().outputs.at(i).dtype, call.output(i).data());
  }
}

}  // namespace

HostFunctionThreads::HostFunctionThreads(Runner& runner) {
  for (const std::string& name : runner.host_functions().names()) {
    auto queue = std::make_shared<HostFunctionQueue>(name);
    runner.host_functions().set(queue);
    threads_.push_back(std::make_unique<HostFunctionThread>(
        std::move(queue),
        [&function = oracle::host_functions().at(name)](HostCall& call) { run(call, function); }));
  }
}

}  // namespace pando::fuzz
