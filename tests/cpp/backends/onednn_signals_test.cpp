// Signals that arrive while oneDNN computes.
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <latch>
#include <thread>
#include <vector>

#include "pando/backends/cpu/onednn/onednn.hpp"

namespace pando::cpu {
namespace {

struct StackBounds {
  std::uintptr_t begin = 0, end = 0;

  static StackBounds of_this_thread() {
    pthread_attr_t attributes;
    void* begin = nullptr;
    std::size_t bytes = 0;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &begin, &bytes);
    pthread_attr_destroy(&attributes);
    const auto first = reinterpret_cast<std::uintptr_t>(begin);
    return {first, first + bytes};
  }
  bool contains(std::uintptr_t address) const { return address >= begin && address < end; }
};

StackBounds stack;
std::atomic<int> handled{0}, handled_elsewhere{0};

void note_stack(int /*signal*/) {
  ++handled;
  const auto frame = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  if (!stack.contains(frame)) ++handled_elsewhere;
}

/// The left half of a wider product: oneDNN computes what is not dense with kernels of its own.
OnednnPrimitive half_product(std::int64_t rows, std::int64_t terms, std::int64_t columns) {
  const auto lhs = onednn_f32({rows, terms}), rhs = onednn_f32({terms, columns}, {2 * columns, 1});
  const auto result = onednn_f32({rows, columns}, {2 * columns, 1});
  const dnnl::matmul::primitive_desc desc(onednn_engine(), lhs, rhs, result);
  return {dnnl::matmul(desc),
          {{DNNL_ARG_SRC, lhs}, {DNNL_ARG_WEIGHTS, rhs}, {DNNL_ARG_DST, result}}};
}

TEST(OnednnPrimitive, SignalsAreHandledOnTheStackOfTheirThread) {
  constexpr std::int64_t kRows = 96, kTerms = 6400, kColumns = 160;
  constexpr int kSignals = 200;
  struct sigaction action = {}, before = {};
  action.sa_handler = note_stack;
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
  std::atomic<bool> done = false;
  std::latch ready(1);
  std::thread computing([&] {
    const OnednnPrimitive matmul = half_product(kRows, kTerms, kColumns);
    std::vector<float> lhs(kRows * kTerms, 1), rhs(kTerms * 2 * kColumns, 1);
    std::vector<float> result(kRows * 2 * kColumns);
    void* const pointers[] = {lhs.data(), rhs.data(), result.data()};
    stack = StackBounds::of_this_thread();
    ready.count_down();
    while (handled < kSignals) matmul.run(pointers);
    EXPECT_EQ(result[0], kTerms);
    done = true;
  });
  ready.wait();
  for (int sent = 0; !done; std::this_thread::yield()) {
    // One at a time: what is pending is not counted twice.
    if (sent > handled) continue;
    pthread_kill(computing.native_handle(), SIGUSR1);
    ++sent;
  }
  computing.join();
  sigaction(SIGUSR1, &before, nullptr);
  EXPECT_GE(handled, kSignals);
  EXPECT_EQ(handled_elsewhere, 0);
}

}  // namespace
}  // namespace pando::cpu
