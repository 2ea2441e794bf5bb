#include "pando/custom/op_record.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "pando/base/error.hpp"
#include "pando/custom/library_call.hpp"

namespace pando {
namespace {

constexpr std::size_t kLongestName = 128;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

bool is_identifier(std::string_view name) {
  const auto is_part = [](char c) { return is_letter(c) || (c >= '0' && c <= '9'); };
  return !name.empty() && name.size() <= kLongestName && is_letter(name[0]) &&
         std::all_of(name.begin(), name.end(), is_part);
}

/// Attributes that the compiler gives ops and kernels a meaning by.
bool is_reserved(std::string_view name) {
  constexpr std::array kReserved = {"absent_inputs", "absent_outputs", "buffer", "stream"};
  return name.starts_with("library_") ||
         std::find(kReserved.begin(), kReserved.end(), name) != kReserved.end();
}

std::string name_of(const pando_op_v1* op) {
  if (op == nullptr) throw Error("an op that is NULL");
  // Nothing behind the version is where another version has it.
  if (op->abi_version != PANDO_OP_ABI_VERSION) {
    throw Error(str_cat("an op whose abi_version is ", op->abi_version, ": wanted ",
                        PANDO_OP_ABI_VERSION, ", PANDO_OP_ABI_VERSION of pando_op.h"));
  }
  if (op->name == nullptr) throw Error("an op without a name");
  std::string name = op->name;
  const bool is_capital = !name.empty() && name[0] >= 'A' && name[0] <= 'Z';
  if (!is_identifier(name) || !is_capital) {
    throw Error(str_cat("an op called '", printable(name), "': wanted a name of up to ",
                        kLongestName, " letters, digits and _ that begins with a capital letter"));
  }
  return name;
}

/// What is wrong with its numbers and functions, or nothing.
std::string fault_of(const pando_op_v1& op) {
  constexpr std::uint32_t kFlags = PANDO_OP_ANY_STRIDES | PANDO_OP_SIDE_EFFECTS;
  if ((op.flags & ~kFlags) != 0) return str_cat("has unknown flags: ", op.flags & ~kFlags);
  if (op.infer == nullptr) return "has no shape rule (infer)";
  if (op.compute == nullptr) return "has no compute function";
  const bool any_number = op.max_inputs == -1;
  if (op.min_inputs < 0 || op.min_inputs > PANDO_OP_MAX_INPUTS ||
      (!any_number && (op.max_inputs < op.min_inputs || op.max_inputs > PANDO_OP_MAX_INPUTS))) {
    return str_cat("takes ", op.min_inputs, " to ", op.max_inputs,
                   " inputs: wanted 0 <= min_inputs <= max_inputs <= ", PANDO_OP_MAX_INPUTS,
                   ", or -1 for any number");
  }
  if (op.max_outputs < 1 || op.max_outputs > PANDO_OP_MAX_OUTPUTS) {
    return str_cat("has up to ", op.max_outputs, " outputs: wanted 1 to ", PANDO_OP_MAX_OUTPUTS);
  }
  if (op.num_in_place < 0 || op.num_in_place > std::min(op.min_inputs, op.max_outputs)) {
    return str_cat("has ", op.num_in_place,
                   " outputs in place: wanted no more than outputs and needed inputs");
  }
  if (op.num_in_place > 0 && op.gradient != nullptr) {
    return "works in place and has a gradient: give the gradient to the form that does not";
  }
  if (op.num_attributes < 0 || op.num_attributes > PANDO_OP_MAX_ATTRIBUTES ||
      (op.num_attributes > 0 && op.attributes == nullptr)) {
    return str_cat("has ", op.num_attributes, " attributes: wanted a list of up to ",
                   PANDO_OP_MAX_ATTRIBUTES);
  }
  return "";
}

LibraryAttribute checked_attribute(const pando_attribute_v1& given) {
  if (given.name == nullptr) throw Error("an attribute without a name");
  LibraryAttribute attribute;
  attribute.name = given.name;
  if (!is_identifier(attribute.name) || is_reserved(attribute.name)) {
    throw Error(str_cat("an attribute called '", printable(attribute.name),
                        "': wanted a name of letters, digits and _ that has no other meaning"));
  }
  if (given.type < PANDO_FLAG || given.type > PANDO_TEXTS) {
    throw Error(str_cat("the attribute '", attribute.name, "' of the unknown type ", given.type));
  }
  attribute.type = given.type;
  attribute.required = given.optional == 0;
  attribute.doc = printable(given.doc == nullptr ? "" : given.doc);
  return attribute;
}

}  // namespace

LibraryOp checked_op(const pando_op_v1* given) {
  LibraryOp op;
  op.name = name_of(given);
  const std::string fault = fault_of(*given);
  if (!fault.empty()) throw Error(str_cat("the op '", op.name, "', which ", fault));
  op.doc = printable(given->doc == nullptr ? "" : given->doc);
  op.record = *given;
  std::set<std::string> names;
  for (std::int32_t i = 0; i < given->num_attributes; ++i) {
    try {
      op.attributes.push_back(checked_attribute(given->attributes[i]));
    } catch (const Error& error) {
      throw Error(str_cat("the op '", op.name, "' with ", error.what()));
    }
    if (!names.insert(op.attributes.back().name).second) {
      throw Error(str_cat("the op '", op.name, "' with two attributes called '",
                          op.attributes.back().name, "'"));
    }
  }
  return op;
}

}  // namespace pando
