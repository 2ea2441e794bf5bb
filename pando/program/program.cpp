#include "pando/program/program.hpp"

#include <algorithm>

namespace pando {
namespace {

void check_text(TextTable::Index index, const TextTable& texts) {
  if (index < texts.size()) return;
  throw Error(str_cat("a table has text ", index, " of ", texts.size()));
}

}  // namespace

bool OperandDesc::is_matrix() const {
  const std::size_t rank = shape.size();
  if (rank < 2) return false;
  for (std::size_t d = 0; d + 2 < rank; ++d) {
    if (strides[d] < 0) return false;
  }
  const std::int64_t rows = shape[rank - 2], columns = shape[rank - 1];
  const std::int64_t row_stride = strides[rank - 2], column_stride = strides[rank - 1];
  return (column_stride == 1 && row_stride >= columns) ||
         (row_stride == 1 && column_stride >= rows);
}

bool KernelSpec::makes_product_in(std::size_t output) const {
  return std::any_of(products.begin(), products.end(), [&](const ProductInput& product) {
    return product.place == static_cast<std::int32_t>(output);
  });
}

SourceTable SourceTable::of(TextTable texts, std::vector<Entry> entries) {
  for (const Entry& entry : entries) {
    for (const TextTable::Index index : {entry.op, entry.location, entry.phase}) {
      check_text(index, texts);
    }
  }
  SourceTable table;
  table.texts_ = std::move(texts);
  table.entries_ = std::move(entries);
  return table;
}

LiveTensorTable LiveTensorTable::of(TextTable texts, std::vector<Entry> entries) {
  for (const Entry& entry : entries) {
    check_text(entry.name, texts);
    check_text(entry.location, texts);
  }
  LiveTensorTable table;
  table.texts_ = std::move(texts);
  table.entries_ = std::move(entries);
  return table;
}

std::vector<std::int32_t> Program::entry_functions() const {
  std::vector<std::int32_t> entries = {main_function};
  const auto add = [&](std::int32_t entry) {
    if (entry != -1) entries.push_back(entry);
  };
  add(weights_from_host_function);
  add(weights_to_host_function);
  for (const PersistentTensor& tensor : persistent) {
    add(tensor.make_function);
    add(tensor.restore_function);
  }
  return entries;
}

bool Program::has_prepared_weights() const {
  return std::any_of(persistent.begin(), persistent.end(),
                     [](const PersistentTensor& tensor) { return tensor.is_prepared; });
}

std::vector<LiveTensor> LiveTensorTable::all() const {
  std::vector<LiveTensor> tensors;
  tensors.reserve(size());
  for (std::size_t i = 0; i < size(); ++i) tensors.push_back((*this)[i]);
  return tensors;
}

}  // namespace pando
