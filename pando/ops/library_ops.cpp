#include "pando/ops/library_ops.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

#include "pando/custom/library_call.hpp"
#include "pando/custom/library_kernel.hpp"
#include "pando/ops/library_gradient.hpp"
#include "pando/ops/ops.hpp"

namespace pando {
namespace {

static_assert(static_cast<int>(AttributeType::Flag) == PANDO_FLAG - 1 &&
                  static_cast<int>(AttributeType::TextList) == PANDO_TEXTS - 1,
              "types of attributes have the order of pando_op.h");

void add_inputs(LibraryCall& call, const Op& op) {
  for (const Tensor* input : op.inputs()) {
    if (input == nullptr) {
      call.add_absent_input();
    } else {
      call.add_input(input->dtype(), input->shape(), contiguous_strides(input->shape()));
    }
  }
}

/// Throws Error for an output that a shape rule must not give.
[[noreturn]] void refuse_output(const Op& op, const LibraryOp& library_op, std::int32_t index,
                                const std::string& fault) {
  throw Error(str_cat(describe(op), ": the shape rule (infer) of the library ",
                      library_op.library->path(), " gives output ", index, " ", fault));
}

TensorInfo checked_output(const Op& op, const LibraryOp& library_op, std::int32_t index,
                          const pando_info_v1& given) {
  const auto refuse = [&](const std::string& fault) {
    refuse_output(op, library_op, index, fault);
  };
  TensorInfo info;
  if (!dtype_of_code(given.dtype, info.dtype)) refuse(str_cat("the unknown dtype ", given.dtype));
  if (given.rank < 0 || given.rank > PANDO_OP_MAX_RANK) {
    refuse(str_cat(given.rank, " dimensions: wanted 0 to ", PANDO_OP_MAX_RANK));
  }
  info.shape = Shape(given.shape, given.shape + given.rank);
  if (std::any_of(info.shape.begin(), info.shape.end(),
                  [](std::int64_t size) { return size < 0; })) {
    refuse(str_cat("the shape ", shape_text(info.shape), ": wanted no negative size"));
  }
  if (index >= library_op.record.num_in_place) return info;
  const Tensor* target = op.input(index);
  if (target == nullptr || target->shape() != info.shape || target->dtype() != info.dtype) {
    refuse(str_cat(info_text(info), ", but it is input ", index, " in place",
                   target == nullptr ? ", which is not connected" : ", which is ",
                   target == nullptr ? "" : info_text(target->info)));
  }
  return info;
}

/// An op that writes inputs reads each of them as it was before.
void check_written_inputs(const Op& op, std::int32_t num_in_place) {
  for (std::int32_t i = 0; i < num_in_place; ++i) {
    for (int k = 0; k < op.num_inputs(); ++k) {
      if (k == i || op.input(k) != op.input(i)) continue;
      wrong_input(op, str_cat("wanted a tensor of its own as input ", i,
                              ", which is written, but input ", k, " is the same tensor"));
    }
  }
}

std::vector<TensorInfo> infer(const LibraryOp& library_op, const Op& op) {
  check_written_inputs(op, library_op.record.num_in_place);
  LibraryCall call(library_op, op.attributes);
  add_inputs(call, op);
  const pando_op_v1& record = library_op.record;
  // What the rule does not fill in is refused: it is no dtype.
  std::vector<pando_info_v1> outputs(static_cast<std::size_t>(record.max_outputs));
  std::int32_t count = record.max_outputs;
  const pando_call_v1 arguments = call.call();
  const CallbackResult result = call_back([&](pando_message_v1* message) {
    return record.infer(&arguments, outputs.data(), &count, message);
  });
  check_result(result, library_op, "the shape rule (infer)", describe(op),
               ErrorCode::InvalidProgram);
  if (count < std::max(record.num_in_place, 1) || count > record.max_outputs) {
    throw Error(str_cat(describe(op), ": the shape rule (infer) of the library ",
                        library_op.library->path(), " gives ", count, " outputs: wanted ",
                        std::max(record.num_in_place, 1), " to ", record.max_outputs));
  }
  std::vector<TensorInfo> infos;
  infos.reserve(static_cast<std::size_t>(count));
  for (std::int32_t i = 0; i < count; ++i) {
    infos.push_back(checked_output(op, library_op, i, outputs[static_cast<std::size_t>(i)]));
  }
  return infos;
}

void build_gradient(const LibraryOp& library_op, GradientBuilder& builder, const Op& op) {
  LibraryCall call(library_op, op.attributes);
  add_inputs(call, op);
  for (const Tensor* output : op.outputs()) call.add_output(output->dtype(), output->shape());
  LibraryGradient gradient(builder, op);
  const pando_call_v1 arguments = call.call();
  const CallbackResult result = call_back([&](pando_message_v1* message) {
    return library_op.record.gradient(&arguments, gradient.table(), message);
  });
  gradient.rethrow();
  check_result(result, library_op, "the gradient rule", describe(op), ErrorCode::InvalidProgram);
}

}  // namespace

AttributeType attribute_type(const LibraryAttribute& attribute) {
  switch (attribute.type) {
    case PANDO_FLAG:
      return AttributeType::Flag;
    case PANDO_INTEGER:
      return AttributeType::Integer;
    case PANDO_NUMBER:
      return AttributeType::Number;
    case PANDO_TEXT:
      return AttributeType::Text;
    case PANDO_DTYPE:
      return AttributeType::DTypeName;
    case PANDO_INTEGERS:
      return AttributeType::IntList;
    case PANDO_NUMBERS:
      return AttributeType::NumberList;
    case PANDO_TEXTS:
      return AttributeType::TextList;
    default:
      throw InternalError(
          str_cat("the attribute '", attribute.name, "' has the unknown type ", attribute.type));
  }
}

namespace {

OpDef def_of(const LibraryOp& op) {
  const pando_op_v1& record = op.record;
  OpDef def;
  def.name = op.name;
  def.doc = op.doc;
  def.min_inputs = record.min_inputs;
  def.max_inputs = record.max_inputs;
  for (const LibraryAttribute& attribute : op.attributes) {
    def.attributes.push_back({attribute.name, attribute_type(attribute), attribute.required});
  }
  def.infer = [&op](const Op& built) { return infer(op, built); };
  if (record.num_in_place > 0) {
    const int count = record.num_in_place;
    def.modified_inputs = [count](const Op&) {
      InputSet modified;
      for (int i = 0; i < count; ++i) modified.insert(i);
      return modified;
    };
    def.output_alias = [count](const Op&, int output) { return output < count ? output : -1; };
  }
  if (record.gradient != nullptr) {
    def.gradient = [&op](GradientBuilder& builder, const Op& built) {
      build_gradient(op, builder, built);
    };
    for (int i = 0; i < std::max(record.min_inputs, 1); ++i) def.differentiable_inputs.push_back(i);
  }
  def.has_side_effects = (record.flags & PANDO_OP_SIDE_EFFECTS) != 0;
  def.kernel = op.takes_strides() ? kStridedLibraryKernel : kLibraryKernel;
  def.library = op.library->path();
  def.library_hash = op.library->hash();
  return def;
}

void refuse_taken_names(const OpLibrary& library, const Registry& registry) {
  for (const auto& op : library.ops()) {
    const OpDef* taken = registry.find(op->name);
    if (taken == nullptr) continue;
    throw Error(str_cat("the library ", library.path(), " registers the op '", op->name,
                        "', which ",
                        taken->library.empty() ? "is one of Pando's own"
                                               : "is already one of the library " + taken->library,
                        ": give it another name"));
  }
}

}  // namespace

const OpLibrary& load_library(const std::string& path) {
  op_registry();
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const LibraryFile file = look_at_library(path);
  if (const OpLibrary* loaded = find_library(file.path)) {
    if (loaded->hash() == file.hash) return *loaded;
    throw Error(str_cat("the library ", file.path,
                        " has changed since it was loaded, and libraries stay loaded until the "
                        "process ends: start a new process to use the new one"));
  }
  std::unique_ptr<OpLibrary> library = OpLibrary::open(file.path, file.hash);
  refuse_taken_names(*library, Registry::instance());
  const OpLibrary& kept = keep_library(std::move(library));
  for (const auto& op : kept.ops()) Registry::instance().add(def_of(*op));
  return kept;
}

}  // namespace pando
