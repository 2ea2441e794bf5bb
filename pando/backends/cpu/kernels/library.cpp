// Ops of users' libraries.
#include <cstring>
#include <memory>

#include "pando/backends/cpu/kernel_table.hpp"
#include "pando/base/error.hpp"
#include "pando/custom/library_call.hpp"
#include "pando/custom/library_kernel.hpp"

namespace pando::cpu {
namespace {

/// What an op may ask for; more is a mistake of its library.
constexpr std::int64_t kMostScratch = std::int64_t{1} << 40;

const LibraryOp& loaded_op(const Attributes& attributes, const std::string& site) {
  const std::string& name = attributes.text(kLibraryOpAttribute);
  const std::string& hash = attributes.text(kLibraryHashAttribute);
  const LibraryOp* op = find_library_op(name);
  if (op == nullptr) {
    throw Error(str_cat(site, ": the library of the op '", name,
                        "' is not loaded: load it before the program is run"));
  }
  if (op->library->hash() != hash) {
    throw Error(str_cat(site, ": the program was compiled with another version of the library ",
                        op->library->path(), ": wanted one of hash ", hash, ", loaded is ",
                        op->library->hash()));
  }
  return *op;
}

struct PreparedCall {
  PreparedCall(const LibraryOp& op, const Attributes& attributes, std::string op_site)
      : call(op, attributes), site(std::move(op_site)) {}

  std::size_t tensor_bytes() const { return call.tensors().size() * sizeof(pando_tensor_v1); }

  /// The scratch begins with the tensors, which get the addresses of this run.
  void run(std::byte* const* operands, std::byte* scratch) const {
    auto* tensors = reinterpret_cast<pando_tensor_v1*>(scratch);
    std::memcpy(tensors, call.tensors().data(), tensor_bytes());
    for (std::size_t i = 0; i < call.tensors().size(); ++i) tensors[i].data = operands[i];
    const pando_call_v1 arguments = call.call_with(tensors);
    std::byte* rest = scratch + scratch_aligned(tensor_bytes());
    const CallbackResult result = call_back([&](pando_message_v1* message) {
      return call.op().record.compute(&arguments, rest, message);
    });
    check_result(result, call.op(), "compute", site, ErrorCode::RunFailed);
  }

  /// Bytes that the library's function wants beside.
  std::int64_t wanted_scratch() const {
    const auto ask = call.op().record.scratch_bytes;
    if (ask == nullptr) return 0;
    std::int64_t bytes = 0;
    const pando_call_v1 arguments = call.call();
    const CallbackResult result =
        call_back([&](pando_message_v1* message) { return ask(&arguments, &bytes, message); });
    check_result(result, call.op(), "scratch_bytes", site, ErrorCode::InvalidProgram);
    if (bytes < 0 || bytes > kMostScratch) {
      throw Error(str_cat(site, ": scratch_bytes of the library ", call.op().library->path(),
                          " asks for ", bytes, " bytes: wanted 0 to ", kMostScratch));
    }
    return bytes;
  }

  LibraryCall call;
  const std::string site;
};

KernelPlan make_library_call(const KernelRequest& request) {
  const std::string& site = request.attributes().text(kLibrarySiteAttribute);
  const LibraryOp& op = loaded_op(request.attributes(), site);
  auto prepared = std::make_shared<PreparedCall>(op, request.attributes(), site);
  for (std::size_t i = 0; i < request.spec.inputs.size(); ++i) {
    const OperandDesc& input = request.input(i);
    if (request.has_input(i)) {
      prepared->call.add_input(input.dtype, input.shape, input.strides);
    } else {
      prepared->call.add_absent_input();
    }
  }
  for (const OperandDesc& output : request.spec.outputs) {
    prepared->call.add_output(output.dtype, output.shape);
  }
  KernelPlan plan;
  plan.detail = str_cat(op.name, " of ", op.library->path());
  plan.scratch_bytes = scratch_aligned(prepared->tensor_bytes()) +
                       scratch_aligned(static_cast<std::size_t>(prepared->wanted_scratch()));
  plan.run = [prepared](std::byte* const* operands, std::byte* scratch) {
    prepared->run(operands, scratch);
  };
  return plan;
}

}  // namespace

void register_library_kernels(KernelTable& table) {
  table[kLibraryKernel] = {{{"library", make_library_call}}};
  table[kStridedLibraryKernel] = {{{"library", make_library_call}}, AcceptedLayout::AnyStrides};
}

}  // namespace pando::cpu
