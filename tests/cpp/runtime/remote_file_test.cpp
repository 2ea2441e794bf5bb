// Remote buffers in files: values, padding, and what may happen to a file.
#include "pando/runtime/remote_file.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <fstream>
#include <random>
#include <thread>

#include "pando/base/error.hpp"

namespace pando::testing {
namespace {

namespace fs = std::filesystem;
using Row = std::vector<std::byte>;

/// How the file is used.
struct Use {
  bool direct;
  IoMethod method;
};

std::string name_of(const ::testing::TestParamInfo<Use>& info) {
  return std::string(info.param.direct ? "Direct" : "PageCache") +
         (info.param.method == IoMethod::Threads ? "Threads" : "Automatic");
}

class RemoteFile : public ::testing::TestWithParam<Use> {
 protected:
  RemoteFile() {
    std::string name = (fs::temp_directory_path() / "pando-test-XXXXXX").string();
    parent_ = mkdtemp(name.data());
  }
  ~RemoteFile() override { fs::remove_all(parent_); }

  Row random_row(std::size_t bytes) {
    Row row(bytes);
    for (std::size_t i = 0; i < bytes; i += sizeof(std::uint32_t)) {
      const auto word = static_cast<std::uint32_t>(random_());
      std::memcpy(row.data() + i, &word, std::min(sizeof word, bytes - i));
    }
    return row;
  }
  /// What must be in the message of the RuntimeFault of loading a row.
  static void expect_fault(FileMemory& memory, std::int64_t slot, const std::string& text) {
    Row row(memory.slot_bytes());
    try {
      memory.load(slot, row.data(), row.size());
      ADD_FAILURE() << "no fault";
    } catch (const RuntimeFault& fault) {
      const std::string what = fault.what();
      EXPECT_NE(what.find(text), std::string::npos) << what;
      EXPECT_NE(what.find(str_cat("row ", slot, " of remote buffer 7")), std::string::npos) << what;
      EXPECT_NE(what.find(memory.path().string()), std::string::npos) << what;
    }
  }
  /// A memory of buffer 7 that is used as the parameter says.
  std::unique_ptr<FileMemory> make(const RunFolder& folder, std::int64_t elements,
                                   std::int64_t entries) const {
    return std::make_unique<FileMemory>(folder, buffer(elements, entries), 0, GetParam().direct,
                                        io_);
  }
  static RemoteBufferDesc buffer(std::int64_t elements, std::int64_t entries) {
    return {7, DType::UInt8, {elements}, entries};
  }

  fs::path parent_;
  std::mt19937 random_{1234};
  std::shared_ptr<FileIo> io_ = std::make_shared<FileIo>(method());

 private:
  static IoMethod method() {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    return info->value_param() == nullptr ? IoMethod::Automatic : GetParam().method;
  }
};

TEST_P(RemoteFile, RowsComeBack) {
  const RunFolder folder(parent_);
  for (const std::int64_t bytes :
       {1, 4095, 4096, 4097, 1 << 20, (1 << 20) + 4096, 2500000, 9 << 20, (17 << 20) + 4321}) {
    const auto owned = make(folder, bytes, 3);
    FileMemory& memory = *owned;
    const auto size = static_cast<std::size_t>(bytes);
    const Row a = random_row(size), b = random_row(size);
    memory.store(2, a.data(), size);
    memory.store(0, b.data(), size);
    // Memory of any alignment.
    Row got(size + 64);
    for (const std::size_t shift : {0, 1, 64}) {
      memory.load(2, got.data() + shift, size);
      EXPECT_EQ(std::memcmp(got.data() + shift, a.data(), size), 0) << bytes << " + " << shift;
    }
    memory.load(1, got.data(), size);
    EXPECT_TRUE(std::all_of(got.begin(), got.begin() + bytes,
                            [](std::byte byte) { return byte == std::byte{0}; }));
    // A part is stored with zeros after it, and the first part of a row can be loaded.
    const std::size_t half = size / 2;
    memory.store(0, a.data(), half);
    memory.load(0, got.data(), size);
    EXPECT_EQ(std::memcmp(got.data(), a.data(), half), 0);
    EXPECT_TRUE(std::all_of(got.data() + half, got.data() + size,
                            [](std::byte byte) { return byte == std::byte{0}; }));
    memory.load(2, got.data(), half);
    EXPECT_EQ(std::memcmp(got.data(), a.data(), half), 0);
  }
}

TEST_P(RemoteFile, AlignedMemoryIsReadAndWrittenInPlace) {
  const RunFolder folder(parent_);
  constexpr std::size_t kBytes = (std::size_t{1} << 20) + 8192;
  const auto owned = make(folder, kBytes, 1);
  FileMemory& memory = *owned;
  const std::unique_ptr<std::byte, decltype(&std::free)> aligned(
      static_cast<std::byte*>(std::aligned_alloc(4096, kBytes)), &std::free);
  const Row row = random_row(kBytes);
  std::memcpy(aligned.get(), row.data(), kBytes);
  memory.store(0, aligned.get(), kBytes);
  std::memset(aligned.get(), 0, kBytes);
  memory.load(0, aligned.get(), kBytes);
  EXPECT_EQ(std::memcmp(aligned.get(), row.data(), kBytes), 0);
}

TEST_P(RemoteFile, AFlippedBitIsFound) {
  const RunFolder folder(parent_);
  const auto owned = make(folder, 5000, 2);
  FileMemory& memory = *owned;
  const Row row = random_row(5000);
  memory.store(0, row.data(), row.size());
  memory.store(1, row.data(), row.size());
  {
    std::fstream file(memory.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(4096 + 8192 + 4321);  // header, row 0
    file.put(static_cast<char>(std::to_integer<int>(row[4321]) ^ 4));
  }
  expect_fault(memory, 1, "damaged");
  Row got(5000);
  memory.load(0, got.data(), got.size());
  EXPECT_EQ(got, row);
  memory.store(1, row.data(), row.size());
  memory.load(1, got.data(), got.size());
  EXPECT_EQ(got, row);
}

TEST_P(RemoteFile, ATruncatedFileIsFound) {
  const RunFolder folder(parent_);
  const auto owned = make(folder, 5000, 3);
  FileMemory& memory = *owned;
  const Row row = random_row(5000);
  for (int slot = 0; slot < 3; ++slot) memory.store(slot, row.data(), row.size());
  fs::resize_file(memory.path(), 4096 + 2 * 8192);
  expect_fault(memory, 2, "truncated");
  Row got(5000);
  memory.load(1, got.data(), got.size());
  EXPECT_EQ(got, row);
}

TEST_P(RemoteFile, RowsOutliveTheFolder) {
  const RunFolder folder(parent_);
  const auto owned = make(folder, 100, 2);
  FileMemory& memory = *owned;
  const Row row = random_row(100);
  memory.store(0, row.data(), row.size());
  fs::remove_all(parent_);
  memory.store(1, row.data(), row.size());
  Row got(100);
  for (int slot = 0; slot < 2; ++slot) {
    memory.load(slot, got.data(), got.size());
    EXPECT_EQ(got, row);
  }
}

TEST_P(RemoteFile, AChildProcessDisturbsNobody) {
  const RunFolder folder(parent_);
  const auto owned = make(folder, 3 << 20, 2);
  const Row row = random_row(owned->slot_bytes());
  owned->store(0, row.data(), row.size());
  const auto comes_back = [&](FileMemory& memory, std::int64_t slot) {
    Row got(row.size());
    memory.load(slot, got.data(), got.size());
    return got == row;
  };
  const pid_t child = fork();
  if (child == 0) {
    const RunFolder its_folder(parent_);
    const auto its_own = make(its_folder, 3 << 20, 1);
    its_own->store(0, row.data(), row.size());
    _exit(comes_back(*its_own, 0) && comes_back(*owned, 0) ? 0 : 1);
  }
  owned->store(1, row.data(), row.size());
  EXPECT_TRUE(comes_back(*owned, 0));
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(comes_back(*owned, 1));
}

TEST_P(RemoteFile, ManyThreadsUseOneFile) {
  const RunFolder folder(parent_);
  constexpr int kThreads = 4;
  const auto owned = make(folder, (2 << 20) + 100, kThreads);
  std::vector<Row> rows;
  for (int i = 0; i < kThreads; ++i) rows.push_back(random_row(owned->slot_bytes()));
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      const Row& row = rows[static_cast<std::size_t>(i)];
      Row got(row.size());
      for (int round = 0; round < 5; ++round) {
        owned->store(i, row.data(), row.size());
        owned->load(i, got.data(), got.size());
        if (got != row) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_P(RemoteFile, AFileThatMayNotGrowIsAFault) {
  const RunFolder folder(parent_);
  const auto owned = make(folder, 5 << 20, 1);
  const Row row = random_row(owned->slot_bytes());
  fs::resize_file(owned->path(), 4096);
  rlimit before = {};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limited = {4096 + (3 << 20), before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &limited);
  EXPECT_THROW(owned->store(0, row.data(), row.size()), RuntimeFault);
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  Row got(row.size());
  EXPECT_THROW(owned->load(0, got.data(), got.size()), RuntimeFault);  // it has no value
  owned->store(0, row.data(), row.size());
  owned->load(0, got.data(), got.size());
  EXPECT_EQ(got, row);
}

INSTANTIATE_TEST_SUITE_P(Uses, RemoteFile,
                         ::testing::Values(Use{false, IoMethod::Automatic},
                                           Use{false, IoMethod::Threads},
                                           Use{true, IoMethod::Automatic},
                                           Use{true, IoMethod::Threads}),
                         name_of);

class RunFolders : public RemoteFile {};

TEST_F(RunFolders, ItIsSaidHowFilesAreUsed) {
  EXPECT_EQ(FileIo(IoMethod::Threads).describe(), "threads");
  const std::string method = io_->describe();
  if (io_->method() == IoMethod::Uring) {
    EXPECT_EQ(method, "io_uring");
    EXPECT_EQ(FileIo(IoMethod::Uring).method(), IoMethod::Uring);
  } else {
    EXPECT_EQ(method.find("threads (io_uring is not used: "), 0u) << method;
    EXPECT_THROW(static_cast<void>(FileIo{IoMethod::Uring}), RuntimeFault);
  }
}

TEST_F(RunFolders, HeaderSaysWhatTheFileIs) {
  const RunFolder folder(parent_);
  const FileMemory memory(folder, buffer(5000, 3), 1, true, io_);
  RemoteFileHeader header;
  std::ifstream(memory.path(), std::ios::binary)
      .read(reinterpret_cast<char*>(&header), sizeof header);
  EXPECT_EQ(header.magic, RemoteFileHeader::kMagic);
  EXPECT_EQ(header.version, 1u);
  EXPECT_EQ(header.run, folder.id());
  EXPECT_EQ(header.buffer, 7);
  EXPECT_EQ(header.replica, 1);
  EXPECT_EQ(header.slot_bytes, 5000u);
  EXPECT_EQ(header.row_bytes, 8192u);
  EXPECT_EQ(header.slots, 3);
  EXPECT_EQ(fs::file_size(memory.path()), 4096u + 3u * 8192u);
}

TEST_F(RunFolders, TwoRunsShareAParentAndLeaveNothing) {
  {
    const RunFolder one(parent_);
    const FileMemory memory(one, buffer(10, 1), 0, true, io_);
    const RunFolder two(parent_);
    EXPECT_NE(one.path(), two.path());
    EXPECT_NE(one.id(), two.id());
    EXPECT_TRUE(fs::exists(memory.path()));
  }
  for (const auto& entry : fs::directory_iterator(parent_)) {
    EXPECT_EQ(entry.path().filename(), "pando.lock");
  }
}

TEST_F(RunFolders, WhatAKilledRunLeftIsRemovedAndForeignFilesStay) {
  const pid_t child = fork();
  if (child == 0) {
    const RunFolder folder(parent_);
    const FileMemory memory(folder, buffer(10, 1), 0, true, io_);
    std::ofstream(folder.path() / "notes.txt") << "mine";
    _exit(0);  // without destructors, as a kill
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  const auto left = [&] {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(parent_)) {
      if (entry.is_regular_file()) names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  };
  EXPECT_EQ(left(), (std::vector<std::string>{"buffer-7.replica-0.remote", "lock", "notes.txt",
                                              "pando.lock"}));
  { const RunFolder next(parent_); }
  EXPECT_EQ(left(), (std::vector<std::string>{"notes.txt", "pando.lock"}));
}

TEST_F(RunFolders, AFolderThatCannotBeMadeIsRefused) {
  std::ofstream(parent_ / "file") << "no folder";
  EXPECT_THROW(RunFolder(parent_ / "file" / "below"), RuntimeFault);
  EXPECT_THROW(RunFolder(""), ValueError);
  EXPECT_THROW(RunFolder("/proc/pando"), RuntimeFault);
}

}  // namespace
}  // namespace pando::testing
