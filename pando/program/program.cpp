#include "pando/program/program.hpp"

namespace pando {
namespace {

void check_text(TextTable::Index index, const TextTable& texts) {
  if (index < texts.size()) return;
  throw Error(str_cat("a table has text ", index, " of ", texts.size()));
}

}  // namespace

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

std::vector<LiveTensor> LiveTensorTable::all() const {
  std::vector<LiveTensor> tensors;
  tensors.reserve(size());
  for (std::size_t i = 0; i < size(); ++i) tensors.push_back((*this)[i]);
  return tensors;
}

}  // namespace pando
