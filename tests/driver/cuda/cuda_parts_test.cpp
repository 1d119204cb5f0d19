// Parts of the CUDA driver, each by itself: the gate of calls, host functions, staging.
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "ember/driver/cuda/api.h"
#include "ember/driver/cuda/call_gate.h"
#include "ember/driver/cuda/copy_team.h"
#include "ember/driver/cuda/host_calls.h"
#include "ember/driver/cuda/staging.h"
#include "fake_machine.h"

namespace ember::inline v0::driver::cuda {

// A team of one, on any machine.
bool copy_team_is_faster() noexcept { return true; }
void copy_by_team(void* target, const void* source, std::size_t bytes) noexcept {
  std::memcpy(target, source, bytes);
}

namespace {

// ---- The gate

class Inside {
 public:
  explicit Inside(CallGate& gate) : entered_(gate.enter(CallsOfThread::mine())) {}
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  ~Inside() { CallGate::leave(CallsOfThread::mine(), entered_); }
  bool entered() const { return entered_ != 0; }

 private:
  const std::uint64_t entered_;
};

TEST(CallGates, LetAThreadInOnce) {
  CallGate gate(0);
  CallGate other(1);
  const Inside outer(gate);
  EXPECT_TRUE(outer.entered());
  {
    const Inside inner(gate);
    EXPECT_FALSE(inner.entered());
    EXPECT_TRUE(Inside(other).entered());
  }
  EXPECT_EQ(CallsOfThread::mine().devices, 1u) << "the outer call is still inside";
}

TEST(CallGates, OfTwoDevicesCloseBesideCallsOnBoth) {
  CallGate gates[] = {CallGate(0), CallGate(1)};
  std::atomic<int> inside[2] = {};
  std::atomic<bool> stop{false};
  std::atomic<int> calls{0};
  std::vector<std::thread> threads;
  for (const int first : {0, 1, 0, 1})
    threads.emplace_back([&, first] {
      const int second = 1 - first;
      while (!stop) {
        const Inside outer(gates[first]);
        ++inside[first];
        {
          const Inside inner(gates[second]);
          ++inside[second];
          --inside[second];
        }
        --inside[first];
        ++calls;
      }
    });
  std::vector<std::thread> resets;
  for (const int device : {0, 1})
    resets.emplace_back([&, device] {
      for (int round = 0; round < 300; ++round) {
        // A thread at the other's door is inside its first gate, but not in a call on it.
        { const CallGate::Closed closed(gates[device]); }
        for (const int before = calls; calls < before + 2;) std::this_thread::yield();
      }
    });
  for (std::thread& thread : resets) thread.join();
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(inside[0] + inside[1], 0);
}

TEST(CallGates, WaitForTheLastOne) {
  CallGate gate(0);
  std::atomic<int> inside{0};
  std::atomic<bool> stop{false};
  std::atomic<int> calls{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] {
      while (!stop) {
        const Inside call(gate);
        ++inside;
        ++calls;
        --inside;
      }
    });
  for (int round = 0; round < 300; ++round) {
    {
      const CallGate::Closed closed(gate);
      EXPECT_EQ(inside, 0);
      const int before = calls;
      std::this_thread::yield();
      EXPECT_EQ(calls, before);
    }
    for (const int before = calls; calls == before;) std::this_thread::yield();
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

// ---- Host functions

class PartsOnFakeCuda : public OnFakeCuda {
 protected:
  void SetUp() override {
    OnFakeCuda::SetUp();
    static const Status loaded = load_api();
    ASSERT_TRUE(loaded.ok()) << loaded.text();
    foreign<int(void*)>("cuCtxSetCurrent")(context_of(0));
  }
  void TearDown() override {
    api.cuLaunchHostFunc = foreign<decltype(::cuLaunchHostFunc)>(kLaunch);
  }

  CUresult enqueue(HostCalls& calls) {
    return calls.enqueue(
        nullptr, [](void* test) { ++static_cast<PartsOnFakeCuda*>(test)->called_; },
        [](void* test) {
          ++static_cast<PartsOnFakeCuda*>(test)->destroyed_;
          EXPECT_TRUE(in_host_call());
        },
        this);
  }

  static constexpr const char* kLaunch = "cuLaunchHostFunc";
  int called_ = 0;
  int destroyed_ = 0;
};

TEST_F(PartsOnFakeCuda, HostFunctionsAreCalledAndDestroyedOnce) {
  HostCalls calls;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(enqueue(calls), CUDA_SUCCESS);
  EXPECT_EQ(called_, 0);
  EXPECT_EQ(api.cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(called_, 3);
  EXPECT_EQ(destroyed_, 3);
  calls.destroy_dropped();
  EXPECT_EQ(destroyed_, 3);
  EXPECT_FALSE(in_host_call());
}

TEST_F(PartsOnFakeCuda, AHostFunctionWhoseTurnComesInAResetIsDropped) {
  HostCalls calls;
  for (int i = 0; i < 2; ++i) EXPECT_EQ(enqueue(calls), CUDA_SUCCESS);
  calls.begin_reset();
  EXPECT_FALSE(calls.dropping());
  EXPECT_EQ(api.cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_TRUE(calls.dropping());
  calls.end_reset(false);
  EXPECT_FALSE(calls.dropping());
  EXPECT_EQ(called_ + destroyed_, 0) << "not on a thread of CUDA's";
  for (int i = 0; i < 2; ++i) calls.destroy_dropped();
  EXPECT_EQ(called_, 0);
  EXPECT_EQ(destroyed_, 2);
}

TEST_F(PartsOnFakeCuda, AFailedResetLeavesHostFunctionsThatWait) {
  HostCalls calls;
  EXPECT_EQ(enqueue(calls), CUDA_SUCCESS);
  calls.begin_reset();
  calls.end_reset(false);
  calls.destroy_dropped();
  EXPECT_EQ(destroyed_, 0);
  EXPECT_EQ(api.cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(called_, 1);
  EXPECT_EQ(destroyed_, 1);
}

TEST_F(PartsOnFakeCuda, AfterAResetHostFunctionsAreOnlyDestroyed) {
  HostCalls calls;
  EXPECT_EQ(enqueue(calls), CUDA_SUCCESS);
  calls.begin_reset();
  EXPECT_EQ(api.cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
  calls.end_reset(true);
  calls.destroy_dropped();
  EXPECT_EQ(called_, 0);
  EXPECT_EQ(destroyed_, 1);
}

TEST_F(PartsOnFakeCuda, AHostFunctionThatIsCalledAfterAllInAFaultDoesNothing) {
  HostCalls calls;
  for (int i = 0; i < 2; ++i) EXPECT_EQ(enqueue(calls), CUDA_SUCCESS);
  calls.enter_fault(CUDA_ERROR_ILLEGAL_ADDRESS);
  calls.destroy_dropped();
  EXPECT_EQ(destroyed_, 2);
  EXPECT_EQ(api.cuCtxSynchronize(), CUDA_SUCCESS);  // the fake is in no fault
  calls.destroy_dropped();
  EXPECT_EQ(enqueue(calls), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(called_, 0);
  EXPECT_EQ(destroyed_, 2);
}

HostCalls* entering_fault = nullptr;
template <CUresult kAnswer>
CUresult fault_meanwhile(CUstream, CUhostFn, void*) {
  entering_fault->enter_fault(CUDA_ERROR_ILLEGAL_ADDRESS);
  entering_fault->destroy_dropped();
  return kAnswer;
}

TEST_F(PartsOnFakeCuda, AHostFunctionThatCudaRefusesIsNotDestroyed) {
  HostCalls calls;
  entering_fault = &calls;
  api.cuLaunchHostFunc = &fault_meanwhile<CUDA_ERROR_ILLEGAL_ADDRESS>;
  EXPECT_EQ(enqueue(calls), CUDA_ERROR_ILLEGAL_ADDRESS);
  calls.destroy_dropped();
  EXPECT_EQ(destroyed_, 0);
}

TEST_F(PartsOnFakeCuda, AHostFunctionThatCudaTakesBesideAFaultIsDestroyed) {
  HostCalls calls;
  entering_fault = &calls;
  api.cuLaunchHostFunc = &fault_meanwhile<CUDA_SUCCESS>;
  EXPECT_EQ(enqueue(calls), CUDA_SUCCESS);
  EXPECT_EQ(destroyed_, 0);
  for (int i = 0; i < 2; ++i) calls.destroy_dropped();
  EXPECT_EQ(destroyed_, 1);
}

// ---- Staging

TEST_F(PartsOnFakeCuda, StagingThatCannotBeMadeLeavesNothing) {
  fake().largest_allocation = Staging::kFrom;
  CUdeviceptr target = 0;
  ASSERT_EQ(api.cuMemAlloc_v2(&target, Staging::kFrom), CUDA_SUCCESS);
  const std::vector<char> bytes(Staging::kFrom, 7);
  const auto source = reinterpret_cast<CUdeviceptr>(bytes.data());
  Staging staging;
  CUresult result = CUDA_SUCCESS;
  fake().most_events = 3;
  EXPECT_EQ(staging.copy(target, source, bytes.size(), nullptr, result),
            Staging::Outcome::left_to_cuda);
  EXPECT_EQ(fake().events, 0);
  fake().most_events = 100;
  ASSERT_EQ(staging.copy(target, source, bytes.size(), nullptr, result), Staging::Outcome::done);
  EXPECT_EQ(result, CUDA_SUCCESS);
  EXPECT_EQ(std::memcmp(reinterpret_cast<const void*>(target), bytes.data(), bytes.size()), 0);
  EXPECT_GT(fake().events, 0);
  EXPECT_EQ(api.cuMemFree_v2(target), CUDA_SUCCESS);
}

}  // namespace
}  // namespace ember::inline v0::driver::cuda
