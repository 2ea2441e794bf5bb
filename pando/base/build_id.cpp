#include "pando/base/build_id.hpp"

#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstring>
#include <string_view>

namespace pando {
namespace {

struct Search {
  std::uintptr_t address;  // of code in the object that is looked for
  std::string id;
};

std::string hex(const unsigned char* bytes, std::size_t size) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < size; ++i) {
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

std::size_t align4(std::size_t size) { return (size + 3) & ~std::size_t{3}; }

/// The build id among the notes of one segment, empty when there is none.
std::string id_in_notes(const unsigned char* notes, std::size_t size) {
  while (size >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) header;
    std::memcpy(&header, notes, sizeof header);
    const std::size_t name_bytes = align4(header.n_namesz);
    const std::size_t note_bytes = sizeof header + name_bytes + align4(header.n_descsz);
    if (note_bytes > size) break;
    const unsigned char* name = notes + sizeof header;
    const bool is_gnu = header.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0;
    if (is_gnu && header.n_type == NT_GNU_BUILD_ID) return hex(name + name_bytes, header.n_descsz);
    notes += note_bytes;
    size -= note_bytes;
  }
  return {};
}

int visit(dl_phdr_info* object, std::size_t, void* data) {
  Search& search = *static_cast<Search*>(data);
  const auto segment = [&](int i) { return object->dlpi_addr + object->dlpi_phdr[i].p_vaddr; };
  bool is_ours = false;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const auto& header = object->dlpi_phdr[i];
    is_ours = is_ours || (header.p_type == PT_LOAD && search.address >= segment(i) &&
                          search.address < segment(i) + header.p_memsz);
  }
  if (!is_ours) return 0;
  for (int i = 0; i < object->dlpi_phnum && search.id.empty(); ++i) {
    if (object->dlpi_phdr[i].p_type != PT_NOTE) continue;
    search.id = id_in_notes(reinterpret_cast<const unsigned char*>(segment(i)),
                            object->dlpi_phdr[i].p_memsz);
  }
  return 1;
}

}  // namespace

const std::string& build_id() {
  static const std::string id = [] {
    Search search{reinterpret_cast<std::uintptr_t>(&visit), {}};
    dl_iterate_phdr(visit, &search);
    return search.id;
  }();
  return id;
}

}  // namespace pando
