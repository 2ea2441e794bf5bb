// The contents of a file of the executable cache, and the key that it is found by.
#include <unordered_map>

#include "pando/base/build_id.hpp"
#include "pando/base/byte_stream.hpp"
#include "pando/base/error.hpp"
#include "pando/ir/serialise.hpp"
#include "pando/program/check.hpp"
#include "pando/program/serialise.hpp"
#include "pando/program/target.hpp"
#include "pando/session/executable_cache.hpp"
#include "pando/session/session_options.hpp"

namespace pando {
namespace {

constexpr std::string_view kMagic = "PANDOEXE";
constexpr std::uint32_t kVersion = 3;
constexpr const char* kWhat = "a compiled program of Pando";

enum Section : std::uint32_t { kKey = 1, kTarget, kConstants };

/// A constant that the compiler made is written with its value, one of the Ir by its id.
void write_constants(ByteWriter& out, const Executable& executable, const Ir& ir) {
  std::unordered_map<const HostArray*, const Tensor*> of_ir;
  if (!executable.constants().empty()) {
    for (const Graph* graph : ir.graphs()) {
      for (const Tensor* tensor : graph->tensors().sources()) {
        if (tensor->kind() == TensorKind::Constant) of_ir.emplace(tensor->data.get(), tensor);
      }
    }
  }
  out.list(executable.constants(), [&](const ProgramConstant& constant) {
    out.value(static_cast<std::uint64_t>(constant.persistent));
    const auto found = of_ir.find(constant.data.get());
    out.value(found != of_ir.end());
    if (found != of_ir.end()) {
      out.text(found->second->id());
    } else {
      out.value(static_cast<std::uint64_t>(constant.data->bytes));
      out.raw(constant.data->data, constant.data->bytes);
    }
  });
}

/// Without an Ir, constants of its own have no values.
std::vector<ProgramConstant> read_constants(ByteReader& in, const Ir* ir) {
  std::unordered_map<std::string, std::shared_ptr<HostArray>> of_ir;
  if (ir != nullptr) of_ir = constants_by_id(*ir);
  return in.list([&] {
    ProgramConstant constant;
    constant.persistent = in.value<std::uint64_t>();
    if (in.value<bool>()) {
      const auto found = of_ir.find(in.text());
      if (found != of_ir.end()) constant.data = found->second;
      if (ir != nullptr && found == of_ir.end()) in.corrupt("a constant that the Ir does not have");
    } else {
      const std::string_view bytes = in.raw(in.value<std::uint64_t>());
      constant.data = HostArray::copy_of(bytes.data(), bytes.size());
    }
    return constant;
  });
}

Hash128 read_key(ByteReader& in) {
  Hash128 key;
  in.section(kKey, [&] {
    key.high = in.value<std::uint64_t>();
    key.low = in.value<std::uint64_t>();
  });
  return key;
}

/// Whether every constant and variable of the program has a value of the right size.
void check_values(const Executable& executable, const Ir& ir, const ByteReader& in) {
  const auto& persistent = executable.program().persistent;
  if (executable.program().replicas != ir.replication_factor) {
    in.corrupt("another number of replicas");
  }
  for (const ProgramConstant& constant : executable.constants()) {
    const bool known = constant.persistent < persistent.size();
    if (!known || persistent[constant.persistent].is_variable) in.corrupt("an unknown constant");
    const PersistentTensor& tensor = persistent[constant.persistent];
    const auto bytes =
        static_cast<std::size_t>(num_elements(tensor.shape)) * dtype_bytes(tensor.dtype);
    if (constant.data->bytes != bytes) in.corrupt("a constant of another size");
  }
  const auto check_variable = [&](std::string_view id) {
    const Tensor* tensor = ir.main_graph().find_tensor(id);
    const bool known = tensor != nullptr && tensor->kind() == TensorKind::Variable;
    if (!known || tensor->data == nullptr) in.corrupt("a variable that the Ir does not have");
  };
  for (const VariableLayout& variable : executable.variables()) check_variable(variable.id);
}

}  // namespace

Hash128 executable_key(const Ir& ir, const CompilerOptions& options, const Target& target) {
  HashWriter out;
  out.text(build_id());
  out.text(target.identity());
  out.value(options.check_inplace_ambiguity);
  out.value(options.check_log2_scales);
  out.value(options.stable_softmax);
  out.value(options.prefetch_bytes);
  // Programs give up what saves time until they fit.
  out.value(options.memory_limit_bytes);
  out.value(options.device_memory_limit_bytes);
  hash_ir(out, ir);
  return std::move(out).finish();
}

std::string serialise_executable(const Hash128& key, const Executable& executable, const Ir& ir) {
  ByteWriter out(kMagic, kVersion);
  out.section(kKey, [&] {
    out.value(key.high);
    out.value(key.low);
  });
  out.section(kTarget, [&] { out.text(executable.target()); });
  out.section(kConstants, [&] { write_constants(out, executable, ir); });
  write_program(out, executable.program());
  return std::move(out).finish();
}

Hash128 check_executable(std::string_view bytes) {
  ByteReader in(bytes, kMagic, kVersion, kWhat);
  const Hash128 key = read_key(in);
  in.section(kTarget, [&] { in.text(); });
  in.section(kConstants, [&] { read_constants(in, nullptr); });
  const Program program = read_program(in);
  in.finish();
  check_program(program);
  return key;
}

Executable deserialise_executable(std::string_view bytes, const Hash128& key, const Ir& ir) {
  ByteReader in(bytes, kMagic, kVersion, kWhat);
  const Hash128 given = read_key(in);
  if (given != key) {
    throw Error(str_cat("Cache file hash did not match the IR hash: wanted ", key.hex(), ", given ",
                        given.hex()));
  }
  std::string target;
  std::vector<ProgramConstant> constants;
  in.section(kTarget, [&] { target = in.text(); });
  in.section(kConstants, [&] { constants = read_constants(in, &ir); });
  Program program = read_program(in);
  in.finish();
  check_program(program);
  Executable executable(std::move(program), std::move(constants), std::move(target));
  check_values(executable, ir, in);
  return executable;
}

}  // namespace pando
