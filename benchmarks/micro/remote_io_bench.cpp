// Rows of remote buffers in files, through the queue of a session, by io_uring and by threads:
//   ./dev bench micro --benchmark_filter=RemoteRows --benchmark_enable_random_interleaving=true
//       --benchmark_repetitions=9
// in the folder PANDO_BENCH_FOLDER (default: the working folder), which gets files of 2 GiB. Time
// is that of the clock, CPU that of all threads of the process.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "pando/runtime/io_queue.hpp"
#include "pando/runtime/remote_file.hpp"

namespace pando {
namespace {

constexpr std::int64_t kMegabyte = 1000000;
constexpr std::int64_t kFileBytes = std::int64_t{2} << 30;
/// Moved by one iteration.
constexpr std::int64_t kPassBytes = 240 * kMegabyte;
constexpr int kThreads = 2;
constexpr std::int64_t kStaging = std::int64_t{256} << 20;
/// As tensors of a program lie.
constexpr std::size_t kTensorAlignment = 64;

/// A file full of rows that are not all alike.
class RowFile {
 public:
  RowFile(IoMethod method, std::int64_t row_bytes, const RunFolder& folder)
      : io_(std::make_shared<FileIo>(method)),
        memory_(folder, {row_bytes, DType::UInt8, {row_bytes}, kFileBytes / row_bytes},
                static_cast<std::int64_t>(method), true, io_) {
    std::vector<std::byte> row(memory_.slot_bytes());
    for (std::size_t i = 0; i < row.size(); ++i) row[i] = static_cast<std::byte>(i * i >> 7);
    for (std::int64_t slot = 0; slot < memory_.slots(); ++slot) {
      memory_.store(slot, row.data(), row.size());
    }
  }

  FileMemory& memory() { return memory_; }
  std::int64_t next_slot() { return next_slot_++ % memory_.slots(); }

 private:
  std::shared_ptr<FileIo> io_;
  FileMemory memory_;
  std::int64_t next_slot_ = 0;
};

RowFile& file_of(IoMethod method, std::int64_t row_bytes) {
  static const char* const chosen = std::getenv("PANDO_BENCH_FOLDER");
  static const RunFolder folder(chosen == nullptr ? "." : chosen);
  static std::map<std::pair<IoMethod, std::int64_t>, std::unique_ptr<RowFile>> files;
  std::unique_ptr<RowFile>& file = files[{method, row_bytes}];
  if (file == nullptr) file = std::make_unique<RowFile>(method, row_bytes, folder);
  return *file;
}

class RowMemory {
 public:
  explicit RowMemory(std::size_t bytes) : memory_(bytes / kFilePage * kFilePage + 2 * kFilePage) {}
  std::byte* get() const { return memory_.get() + kTensorAlignment; }

 private:
  AlignedMemory memory_;
};

/// `ahead`: loads under way beside the one that is waited for.
void load_rows(benchmark::State& state, IoMethod method, std::size_t ahead, bool stores) {
  const std::int64_t row_bytes = state.range(0) * kMegabyte;
  RowFile& file = file_of(method, row_bytes);
  const std::size_t bytes = file.memory().slot_bytes();
  std::vector<std::unique_ptr<RowMemory>> rows;
  for (std::size_t i = 0; i <= ahead; ++i) {
    rows.push_back(std::make_unique<RowMemory>(bytes));
    std::fill_n(rows.back()->get(), bytes, std::byte{1});
  }
  IoQueue queue(kThreads, kStaging);
  const auto count = static_cast<std::size_t>(kPassBytes / row_bytes);
  for ([[maybe_unused]] auto _ : state) {
    std::vector<std::pair<IoQueue::Ticket, std::int64_t>> loads;
    for (std::size_t i = 0; i < count; ++i) {
      for (; loads.size() < std::min(count, i + 1 + ahead);) {
        std::byte* to = rows[loads.size() % rows.size()]->get();
        const std::int64_t slot = file.next_slot();
        loads.emplace_back(queue.start_load(file.memory(), slot, to, bytes), slot);
      }
      queue.wait(loads[i].first);
      if (!stores) continue;
      queue.store(file.memory(), loads[i].second, rows[i % rows.size()]->get(), bytes);
    }
    queue.finish();
  }
  const auto moved = static_cast<double>(count * bytes) * (stores ? 2 : 1);
  state.counters["moved"] =
      benchmark::Counter(moved, benchmark::Counter::kIsIterationInvariantRate);
}

void store_rows(benchmark::State& state, IoMethod method) {
  const std::int64_t row_bytes = state.range(0) * kMegabyte;
  RowFile& file = file_of(method, row_bytes);
  const std::size_t bytes = file.memory().slot_bytes();
  const RowMemory row(bytes);
  std::fill_n(row.get(), bytes, std::byte{1});
  IoQueue queue(kThreads, kStaging);
  const auto count = static_cast<std::size_t>(kPassBytes / row_bytes);
  for ([[maybe_unused]] auto _ : state) {
    for (std::size_t i = 0; i < count; ++i) {
      queue.store(file.memory(), file.next_slot(), row.get(), bytes);
    }
    queue.finish();
  }
  state.counters["moved"] = benchmark::Counter(static_cast<double>(count * bytes),
                                               benchmark::Counter::kIsIterationInvariantRate);
}

bool register_all() {
  const auto add = [](const std::string& name, auto run) {
    benchmark::RegisterBenchmark(("RemoteRows/" + name).c_str(), run)
        ->ArgName("MB")
        ->Arg(4)
        ->Arg(12)
        ->Arg(30)
        ->UseRealTime()
        ->MeasureProcessCPUTime()
        ->Unit(benchmark::kMillisecond)
        ->Iterations(2);
  };
  for (const IoMethod method : {IoMethod::Threads, IoMethod::Uring}) {
    const std::string name = method == IoMethod::Uring ? "/io_uring" : "/threads";
    add("load" + name, [=](benchmark::State& state) { load_rows(state, method, 0, false); });
    add("load_ahead" + name, [=](benchmark::State& state) { load_rows(state, method, 4, false); });
    add("update" + name, [=](benchmark::State& state) { load_rows(state, method, 4, true); });
    add("store" + name, [=](benchmark::State& state) { store_rows(state, method); });
  }
  return true;
}

const bool registered = register_all();

}  // namespace
}  // namespace pando
