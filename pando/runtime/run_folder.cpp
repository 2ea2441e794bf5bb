// Folders of the file tier: one per run, locked while it lives.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>

#include "pando/base/error.hpp"
#include "pando/runtime/remote_file.hpp"

namespace pando {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrefix = "pando-run-";
constexpr const char* kLockName = "lock";

RunFolder::RunId random_id() {
  RunFolder::RunId id = {};
  if (getrandom(id.data(), id.size(), 0) != static_cast<ssize_t>(id.size())) {
    throw RuntimeFault(str_cat("the system gave no random bytes: ", std::strerror(errno)));
  }
  return id;
}

std::string hex(const RunFolder::RunId& id) {
  static constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (std::uint8_t byte : id) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

/// Not open when the file cannot be opened (errno), or when `wait` is false and it is locked.
FileHandle lock_file(const fs::path& path, bool wait) {
  FileHandle file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file.is_open()) return file;
  int result = 0;
  do {
    result = flock(file.get(), LOCK_EX | (wait ? 0 : LOCK_NB));
  } while (result != 0 && errno == EINTR);
  return result == 0 ? std::move(file) : FileHandle();
}

[[noreturn]] void refuse_folder(const fs::path& parent, const std::string& why) {
  throw RuntimeFault(str_cat("remote buffers cannot be kept in the folder ", parent.string(), ": ",
                             why, "; give another remote_folder"));
}

bool is_remote_file(const fs::path& path) {
  RemoteFileHeader header;
  header.magic = {};
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(&header), sizeof header);
  return file && header.magic == RemoteFileHeader::kMagic;
}

/// Removes the files of a run that has ended. What Pando did not write stays.
void remove_run(const fs::path& run) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(run, ignored)) {
    if (is_remote_file(entry.path())) fs::remove(entry.path(), ignored);
  }
  fs::remove(run / kLockName, ignored);
  fs::remove(run, ignored);
}

void remove_ended_runs(const fs::path& parent) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(parent, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix) || !entry.is_directory(ignored)) continue;
    if (lock_file(entry.path() / kLockName, false).is_open()) remove_run(entry.path());
  }
}

}  // namespace

FileHandle::~FileHandle() {
  if (descriptor_ >= 0) close(descriptor_);
}

RunFolder::RunFolder(const fs::path& parent) : id_(random_id()) {
  if (parent.empty()) {
    throw ValueError("remote buffers in files need a folder: give remote_folder");
  }
  std::error_code error;
  fs::create_directories(parent, error);
  if (error) refuse_folder(parent, error.message());
  // Guards the moment between the making of a run's folder and its lock.
  const FileHandle guard = lock_file(parent / "pando.lock", true);
  if (!guard.is_open()) refuse_folder(parent, std::strerror(errno));
  remove_ended_runs(parent);
  path_ = parent / (kPrefix + hex(id_));
  fs::create_directory(path_, error);
  if (error) refuse_folder(parent, error.message());
  lock_ = lock_file(path_ / kLockName, false);
  if (!lock_.is_open()) refuse_folder(parent, std::strerror(errno));
}

RunFolder::~RunFolder() { remove_run(path_); }

}  // namespace pando
