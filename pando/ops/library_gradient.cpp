#include "pando/ops/library_gradient.hpp"

#include <algorithm>

#include "pando/base/error.hpp"
#include "pando/custom/library_call.hpp"
#include "pando/ops/ops.hpp"

namespace pando {
namespace {

/// Of a list that a library gives.
template <class T>
void check_list(const T* items, std::int32_t count, std::int32_t most, const char* what) {
  if (count < 0 || count > most || (count > 0 && items == nullptr)) {
    throw Error(str_cat("wanted a list of up to ", most, " ", what, ", given ", count,
                        items == nullptr ? " at NULL" : ""));
  }
}

void check_given(const void* items, std::int64_t count) {
  if (count < 0 || (count > 0 && items == nullptr)) throw Error("wanted a list, given NULL");
}

template <class T>
std::vector<T> list_of(const T* items, std::int64_t count) {
  check_given(items, count);
  return {items, items + count};
}

/// The texts of PANDO_TEXTS.
Texts texts_of(const char* text, std::int64_t count) {
  check_given(text, count);
  Texts texts;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::string_view item = text;
    texts.push_back(printable(item));
    text += item.size() + 1;
  }
  return texts;
}

AttributeValue attribute_of(const pando_value_v1& value) {
  switch (value.type) {
    case PANDO_FLAG:
      return value.integer != 0;
    case PANDO_INTEGER:
      return value.integer;
    case PANDO_NUMBER:
      return value.number;
    case PANDO_TEXT:
      if (value.text == nullptr) throw Error("wanted a text, given NULL");
      return printable(value.text);
    case PANDO_DTYPE: {
      DType dtype = DType::Float32;
      if (!dtype_of_code(static_cast<std::int32_t>(value.integer), dtype)) {
        throw Error(str_cat("wanted a dtype, given the code ", value.integer));
      }
      return dtype;
    }
    case PANDO_INTEGERS:
      return list_of(value.integers, value.count);
    case PANDO_NUMBERS:
      return list_of(value.numbers, value.count);
    case PANDO_TEXTS:
      return texts_of(value.text, value.count);
    default:
      throw Error(str_cat("there is no type ", value.type, " of attributes"));
  }
}

Attributes attributes_of(const pando_value_v1* values, std::int32_t count) {
  check_list(values, count, PANDO_OP_MAX_ATTRIBUTES, "attributes");
  Attributes attributes;
  for (std::int32_t i = 0; i < count; ++i) {
    if (values[i].name == nullptr) throw Error(str_cat("attribute ", i, " has no name"));
    const std::string name = printable(values[i].name);
    try {
      attributes.set(name, attribute_of(values[i]));
    } catch (const Error& error) {
      throw Error(str_cat("attribute '", name, "': ", error.what()));
    }
  }
  return attributes;
}

}  // namespace

template <class Work>
std::int32_t LibraryGradient::guarded(Work work) {
  if (!fault_.empty()) return 0;
  try {
    return work();
  } catch (const std::exception& error) {
    fault_ = error.what();
    return 0;
  }
}

/// The functions of the table: of this state.
struct LibraryGradient::Functions {
  static LibraryGradient& of(void* state) { return *static_cast<LibraryGradient*>(state); }

  static pando_node input(void* state, std::int32_t index) {
    LibraryGradient& self = of(state);
    return self.guarded([&] {
      Tensor* tensor = self.op_.input(index);
      return tensor == nullptr ? 0 : self.node_of(self.builder_.forward(tensor));
    });
  }
  static pando_node output(void* state, std::int32_t index) {
    LibraryGradient& self = of(state);
    return self.guarded([&] {
      return self.node_of(self.builder_.forward(self.op_.output(self.checked_output(index))));
    });
  }
  static pando_node output_gradient(void* state, std::int32_t index) {
    LibraryGradient& self = of(state);
    return self.guarded([&] {
      Tensor* gradient = self.builder_.output_gradient(self.checked_output(index));
      return gradient == nullptr ? 0 : self.node_of(gradient);
    });
  }
  static std::int32_t wants(void* state, std::int32_t index) {
    LibraryGradient& self = of(state);
    return self.guarded([&] { return self.builder_.wants(index) ? 1 : 0; });
  }
  static pando_node make(void* state, const char* kind, const pando_node* inputs,
                         std::int32_t num_inputs, const pando_value_v1* attributes,
                         std::int32_t num_attributes) {
    LibraryGradient& self = of(state);
    return self.guarded([&] {
      return self.node_of(self.made(kind, inputs, num_inputs, attributes, num_attributes));
    });
  }
  static pando_node other_output(void* state, pando_node node, std::int32_t index) {
    LibraryGradient& self = of(state);
    return self.guarded([&] {
      const Op* producer = self.tensor_of(node)->producer();
      if (producer == nullptr || index < 0 || index >= producer->num_outputs()) {
        throw Error(str_cat("node ", node, " comes from no op with an output ", index));
      }
      return self.node_of(producer->output(index));
    });
  }
  static pando_node constant(void* state, double value, std::int32_t code) {
    LibraryGradient& self = of(state);
    return self.guarded([&] {
      DType dtype = DType::Float32;
      if (!dtype_of_code(code, dtype)) throw Error(str_cat("there is no dtype ", code));
      return self.node_of(self.builder_.constant(value, dtype));
    });
  }
  static std::int32_t describe(void* state, pando_node node, pando_info_v1* info) {
    LibraryGradient& self = of(state);
    return self.guarded([&] {
      const TensorInfo& tensor = self.tensor_of(node)->info;
      if (info == nullptr) throw Error("wanted room for a shape, given NULL");
      if (tensor.shape.size() > PANDO_OP_MAX_RANK)
        throw Error("the tensor has too many dimensions");
      info->dtype = dtype_code(tensor.dtype);
      info->rank = static_cast<std::int32_t>(tensor.shape.size());
      std::copy(tensor.shape.begin(), tensor.shape.end(), info->shape);
      return 1;
    });
  }
  static std::int32_t set_input_gradient(void* state, std::int32_t index, pando_node gradient) {
    LibraryGradient& self = of(state);
    return self.guarded([&] {
      self.set_gradient(index, self.tensor_of(gradient));
      return 1;
    });
  }
};

LibraryGradient::LibraryGradient(GradientBuilder& builder, const Op& op)
    : builder_(builder),
      op_(op),
      table_{this,
             Functions::input,
             Functions::output,
             Functions::output_gradient,
             Functions::wants,
             Functions::make,
             Functions::other_output,
             Functions::constant,
             Functions::describe,
             Functions::set_input_gradient} {}

void LibraryGradient::rethrow() const {
  if (fault_.empty()) return;
  throw Error(str_cat(describe(op_), ": the gradient rule of the library ", op_.def().library,
                      " failed: ", fault_));
}

pando_node LibraryGradient::node_of(Tensor* tensor) {
  nodes_.push_back(tensor);
  return static_cast<pando_node>(nodes_.size());
}

Tensor* LibraryGradient::tensor_of(pando_node node) const {
  if (node < 1 || static_cast<std::size_t>(node) > nodes_.size()) {
    throw Error(str_cat("there is no node ", node));
  }
  return nodes_[static_cast<std::size_t>(node) - 1];
}

int LibraryGradient::checked_output(std::int32_t index) const {
  if (index < 0 || index >= op_.num_outputs()) {
    throw Error(str_cat("there is no output ", index, ": the op has ", op_.num_outputs()));
  }
  return index;
}

Tensor* LibraryGradient::made(const char* kind, const pando_node* inputs, std::int32_t num_inputs,
                              const pando_value_v1* attributes, std::int32_t num_attributes) {
  if (kind == nullptr) throw Error("wanted the kind of an op, given NULL");
  const OpDef& def = op_registry().get(printable(kind));
  const auto refuse = [&](const std::string& fault) {
    throw Error(str_cat(def.name, ": ", fault));
  };
  if (def.num_called_graphs > 0) refuse("ops that call graphs cannot be made here");
  check_list(inputs, num_inputs, PANDO_OP_MAX_INPUTS, "inputs");
  std::vector<Tensor*> tensors;
  tensors.reserve(static_cast<std::size_t>(num_inputs));
  for (std::int32_t i = 0; i < num_inputs; ++i) {
    tensors.push_back(inputs[i] == 0 ? nullptr : tensor_of(inputs[i]));
  }
  const Op& op = builder_.op(def.name, tensors, attributes_of(attributes, num_attributes));
  if (op.num_outputs() == 0) refuse("it has no output");
  if (op.modifies()) refuse("it works in place; use the form that does not");
  return op.output(0);
}

void LibraryGradient::set_gradient(std::int32_t index, Tensor* gradient) {
  const Tensor* input = op_.input(index);
  if (input == nullptr) throw Error(str_cat("there is no input ", index));
  if (gradient->shape() != input->shape() || gradient->dtype() != input->dtype()) {
    throw Error(str_cat("the gradient of input ", index, " is ", info_text(gradient->info),
                        ": wanted ", info_text(input->info), ", as the input"));
  }
  builder_.set_input_gradient(index, gradient);
}

}  // namespace pando
