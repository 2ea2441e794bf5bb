// Calls of functions of the host: order, errors, and every way to end.
#include "pando/runtime/host_function.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "pando/base/error.hpp"

namespace pando {
namespace {

const HostCallDesc kDesc{
    "f", {OperandDesc::contiguous(DType::Int32, {})}, {OperandDesc::contiguous(DType::Int32, {})}};

std::int32_t value_of(const std::vector<std::byte>& memory) {
  std::int32_t value = 0;
  std::memcpy(&value, memory.data(), sizeof value);
  return value;
}

std::shared_ptr<HostCall> call_with(std::int32_t value) {
  auto call = std::make_shared<HostCall>(kDesc);
  std::memcpy(call->input(0).data(), &value, sizeof value);
  return call;
}

std::shared_ptr<HostFunctionQueue> queue() { return std::make_shared<HostFunctionQueue>("f"); }

void square(HostCall& call) {
  const std::int32_t value = value_of(call.input(0));
  if (value < 0) throw ValueError(str_cat("no square of ", value));
  const std::int32_t result = value * value;
  std::memcpy(call.output(0).data(), &result, sizeof result);
}

TEST(HostFunction, CallsOfManyThreadsGetTheirOwnResults) {
  const auto calls = queue();
  std::atomic<int> running = 0, faults = 0;
  const HostFunctionThread thread(calls, [&](HostCall& call) {
    faults += running.fetch_add(1) != 0;  // one after the other
    square(call);
    running.fetch_sub(1);
  });
  std::vector<std::thread> programs;
  for (int program = 0; program < 4; ++program) {
    programs.emplace_back([&, program] {
      for (std::int32_t k = 0; k < 200; ++k) {
        const auto call = call_with(program * 1000 + k);
        calls->call(call, {});
        faults += value_of(call->output(0)) != (program * 1000 + k) * (program * 1000 + k);
      }
    });
  }
  for (std::thread& program : programs) program.join();
  EXPECT_EQ(faults, 0);
}

TEST(HostFunction, AnErrorReachesItsCallAndNoOther) {
  const auto calls = queue();
  const HostFunctionThread thread(calls, square);
  const auto call = call_with(-3);
  for (int repetition = 0; repetition < 2; ++repetition) {
    try {
      calls->call(call, {});
      ADD_FAILURE() << "no error";
    } catch (const ValueError& error) {
      EXPECT_STREQ(error.what(), "no square of -3");
    }
    const auto other = call_with(5);
    calls->call(other, {});
    EXPECT_EQ(value_of(other->output(0)), 25);
  }
}

TEST(HostFunction, AProgramMayGiveUp) {
  const auto calls = queue();
  const StopCheck stop = [] { throw Interrupted(); };
  EXPECT_THROW(calls->call(call_with(1), stop), Interrupted);  // nobody has taken it
  std::atomic<bool> is_stopped = false;
  {
    const HostFunctionThread thread(calls, [&](HostCall& call) {
      while (value_of(call.input(0)) == 2 && !is_stopped) std::this_thread::yield();
      square(call);
    });
    EXPECT_THROW(calls->call(call_with(2), stop), Interrupted);  // the function has begun
    is_stopped = true;
    const auto next = call_with(3);
    calls->call(next, {});
    EXPECT_EQ(value_of(next->output(0)), 9);
  }
}

TEST(HostFunction, AClosedQueueEndsCalls) {
  const auto calls = queue();
  std::thread program([&] { EXPECT_THROW(calls->call(call_with(1), {}), RuntimeFault); });
  const std::shared_ptr<HostCall> taken = calls->take({});
  calls->close();
  program.join();
  EXPECT_EQ(value_of(taken->input(0)), 1);
  calls->finish(*taken);
  EXPECT_EQ(calls->take({}), nullptr);
  EXPECT_THROW(calls->call(call_with(2), {}), RuntimeFault);
}

TEST(HostFunction, AHostThatWaitsMayBeStopped) {
  EXPECT_THROW(queue()->take([] { throw Interrupted(); }), Interrupted);
}

}  // namespace
}  // namespace pando
