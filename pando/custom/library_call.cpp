#include "pando/custom/library_call.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace pando {
namespace {

using DTypeCode = std::pair<std::int32_t, DType>;

constexpr std::array kDTypeCodes = {
    DTypeCode{PANDO_BOOL, DType::Bool},
    DTypeCode{PANDO_INT8, DType::Int8},
    DTypeCode{PANDO_INT16, DType::Int16},
    DTypeCode{PANDO_INT32, DType::Int32},
    DTypeCode{PANDO_INT64, DType::Int64},
    DTypeCode{PANDO_UINT8, DType::UInt8},
    DTypeCode{PANDO_UINT16, DType::UInt16},
    DTypeCode{PANDO_UINT32, DType::UInt32},
    DTypeCode{PANDO_UINT64, DType::UInt64},
    DTypeCode{PANDO_FLOAT8_143, DType::Float8_143},
    DTypeCode{PANDO_FLOAT8_152, DType::Float8_152},
    DTypeCode{PANDO_FLOAT16, DType::Float16},
    DTypeCode{PANDO_BFLOAT16, DType::BFloat16},
    DTypeCode{PANDO_FLOAT32, DType::Float32},
    DTypeCode{PANDO_FLOAT64, DType::Float64},
    DTypeCode{PANDO_COMPLEX64, DType::Complex64},
    DTypeCode{PANDO_COMPLEX128, DType::Complex128},
};
static_assert(kDTypeCodes.size() == kDTypeTraits.size(), "every dtype has a code in pando_op.h");

/// Bytes of the UTF-8 sequence that begins at `text`, 0 when none does.
std::size_t sequence_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return 1;
  const std::size_t size = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
  if (byte(0) < 0xc2 || byte(0) > 0xf4 || size > text.size()) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Sequences that are too long, surrogates, and what lies behind the last code point.
  const bool is_wrong = (byte(0) == 0xe0 && byte(1) < 0xa0) ||
                        (byte(0) == 0xed && byte(1) >= 0xa0) ||
                        (byte(0) == 0xf0 && byte(1) < 0x90) || (byte(0) == 0xf4 && byte(1) >= 0x90);
  return is_wrong ? 0 : size;
}

struct ValueWriter {
  pando_value_v1& value;
  std::deque<std::string>& joined_texts;

  void operator()(bool flag) const { value.integer = flag ? 1 : 0; }
  void operator()(std::int64_t integer) const { value.integer = integer; }
  void operator()(double number) const { value.number = number; }
  void operator()(const std::string& text) const {
    value.text = text.c_str();
    value.count = static_cast<std::int64_t>(text.size());
  }
  void operator()(DType dtype) const { value.integer = dtype_code(dtype); }
  void operator()(const Ints& integers) const {
    value.integers = integers.data();
    value.count = static_cast<std::int64_t>(integers.size());
  }
  void operator()(const Floats& numbers) const {
    value.numbers = numbers.data();
    value.count = static_cast<std::int64_t>(numbers.size());
  }
  void operator()(const Texts& texts) const {
    std::string& joined = joined_texts.emplace_back();
    for (const std::string& text : texts) {
      if (text.find('\0') != std::string::npos) {
        throw Error(str_cat("the attribute '", value.name, "': wanted texts without zeros, given ",
                            attribute_text(text)));
      }
      joined.append(text).push_back('\0');
    }
    value.text = joined.c_str();
    value.count = static_cast<std::int64_t>(texts.size());
  }
};

}  // namespace

std::string printable(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t size = sequence_bytes(text);
    const bool is_control =
        (text[0] >= 0 && text[0] < ' ' && text[0] != '\n' && text[0] != '\t') || text[0] == 0x7f;
    if (size == 0 || is_control) {
      result += '?';
    } else {
      result += text.substr(0, size);
    }
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return result;
}

std::int32_t dtype_code(DType dtype) {
  const auto* const at = std::find_if(kDTypeCodes.begin(), kDTypeCodes.end(),
                                      [&](const auto& entry) { return entry.second == dtype; });
  internal_check(at != kDTypeCodes.end(), "a dtype has no code in pando_op.h");
  return at->first;
}

bool dtype_of_code(std::int32_t code, DType& dtype) {
  const auto* const at = std::find_if(kDTypeCodes.begin(), kDTypeCodes.end(),
                                      [&](const auto& entry) { return entry.first == code; });
  if (at == kDTypeCodes.end()) return false;
  dtype = at->second;
  return true;
}

std::string CallbackResult::text() const {
  // The library may have written over the end of the text.
  const auto* const end = std::find(message_.begin(), message_.end(), '\0');
  const std::string message = printable({message_.data(), std::size_t(end - message_.begin())});
  return str_cat(threw_ ? "threw an exception" : str_cat("returned ", status_),
                 message.empty() ? " without a message" : ": " + message);
}

void check_result(const CallbackResult& result, const LibraryOp& op, const char* function,
                  const std::string& site, ErrorCode code) {
  if (result.succeeded()) return;
  throw Error(code, str_cat(site, ": ", function, " of the library ", op.library->path(), " ",
                            result.text()));
}

LibraryCall::LibraryCall(const LibraryOp& op, Attributes attributes)
    : op_(op), attributes_(std::move(attributes)) {
  values_.reserve(op.attributes.size());
  for (const LibraryAttribute& declared : op.attributes) {
    pando_value_v1& value = values_.emplace_back();
    value.name = declared.name.c_str();
    const AttributeValue* given = attributes_.find(declared.name);
    if (given == nullptr) continue;
    value.type = declared.type;
    std::visit(ValueWriter{value, joined_texts_}, *given);
  }
}

void LibraryCall::add(DType dtype, const Shape& shape, const Strides& strides) {
  if (shape.size() > PANDO_OP_MAX_RANK) {
    throw Error(str_cat("'", op_.name, "': wanted tensors of up to ", PANDO_OP_MAX_RANK,
                        " dimensions, given ", shape.size()));
  }
  pando_tensor_v1& tensor = tensors_.emplace_back();
  tensor.shape = numbers_.emplace_back(shape).data();
  tensor.strides = numbers_.emplace_back(strides).data();
  tensor.rank = static_cast<std::int32_t>(shape.size());
  tensor.dtype = dtype_code(dtype);
}

void LibraryCall::add_input(DType dtype, const Shape& shape, const Strides& strides) {
  add(dtype, shape, strides);
  ++num_inputs_;
}

void LibraryCall::add_absent_input() {
  tensors_.emplace_back();
  ++num_inputs_;
}

void LibraryCall::add_output(DType dtype, const Shape& shape) {
  add(dtype, shape, contiguous_strides(shape));
}

pando_call_v1 LibraryCall::call_with(const pando_tensor_v1* tensors) const {
  pando_call_v1 call = {};
  call.data = op_.record.data;
  call.attributes = values_.data();
  call.inputs = tensors;
  call.outputs = tensors + num_inputs_;
  call.num_attributes = static_cast<std::int32_t>(values_.size());
  call.num_inputs = num_inputs_;
  call.num_outputs = static_cast<std::int32_t>(tensors_.size()) - num_inputs_;
  return call;
}

}  // namespace pando
