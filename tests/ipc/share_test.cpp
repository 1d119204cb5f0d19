// Memory between processes: what arrives, for how long it stays, and in which order work is done.
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "ember/base/error.h"
#include "ember/ipc/process.h"
#include "ember/ipc/steps.h"
#include "ember/memory/memory.h"
#include "ember/memory/out_of_memory_report.h"
#include "ember/memory/pools.h"
#include "ember/ops/elementwise.h"
#include "ember/ops/factories.h"
#include "ember/runtime/guard.h"
#include "ember/runtime/runtime.h"
#include "ember/runtime/telemetry.h"
#include "peer.h"
#include "tests/support/devices.h"

namespace ember {
namespace {

using test::await_counts;
using test::Counts;
using test::Gate;
using test::Peer;

/// The CPU and the first device.
class Share : public testing::TestWithParam<const char*> {
 protected:
  Device device() const { return Device(GetParam()); }
  std::string name() const { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(On, Share, testing::Values("cpu", "cuda:0"), [](const auto& parameter) {
  return std::string(parameter.param).substr(0, parameter.param[1] == 'p' ? 3 : 4);
});

TEST_P(Share, ArrivesAndIsTheSameMemory) {
  Peer peer;
  const Counts before = Counts::warm();
  Ref<Storage> mine = test::make_memory(device(), 10000, 1);
  ASSERT_EQ(peer.ask("receive x " + test::to_text(ipc::send(mine))), "ok");
  EXPECT_EQ(peer.ask("device x"), name());
  EXPECT_EQ(peer.ask("check x 1"), "ok");
  EXPECT_EQ(ipc::leases().size(), 1U);
  EXPECT_EQ(ipc::leases()[0].process, peer.process());
  EXPECT_EQ(ipc::leases()[0].device, name());
  EXPECT_TRUE(ipc::leases()[0].granted);
  EXPECT_EQ(peer.ask("write x 2"), "ok");
  if (device().is_cuda()) {
    EXPECT_EQ(peer.ask("synchronize cuda:0"), "ok");
  }
  EXPECT_TRUE(test::has_bytes(*mine, 2));
  EXPECT_EQ(peer.ask("drop x"), "ok");
  mine = {};
  EXPECT_EQ(await_counts(before), "");
}

// Its pages would go to the host, and what the other process writes to them would be lost.
TEST(ShareMemory, WhatIsSentKeepsItsPoolAwake) {
  {
    cuda::set_allocator_settings("expandable_segments:True");
    Peer peer;
    cuda::MemPool pool;
    Ref<Storage> mine;
    {
      const cuda::MemPoolGuard in_it = cuda::use_mem_pool(pool);
      mine = test::make_memory(Device("cuda:0"), std::size_t{40} << 20, 1);
    }
    const void* const lent = mine->data();
    const std::string sent = test::to_text(ipc::send(mine));
    EXPECT_ERROR(pool.offload(), Error, "which has not received it yet");
    ASSERT_EQ(peer.ask("receive x " + sent), "ok");
    const std::string named = "process " + std::to_string(peer.process()) + " has memory of it";
    EXPECT_ERROR(pool.offload(), Error, named);
    mine = {};
    EXPECT_ERROR(pool.offload(), Error, named);
    if (cuda::is_simulated()) {
      // What the other process has of an earlier epoch is nobody's memory any more.
      const void* const place = lent;
      cuda::reset_device(0);
      cuda::MemPool next;
      Ref<Storage> again;
      {
        const cuda::MemPoolGuard in_it = cuda::use_mem_pool(next);
        again = test::make_memory(Device("cuda:0"), std::size_t{40} << 20, 1);
      }
      EXPECT_EQ(again->data(), place) << "or this shows nothing";
      next.offload();
      next.restore();
    }
    EXPECT_EQ(peer.ask("drop x"), "ok");
  }
  cuda::set_allocator_settings("expandable_segments:False");
}

// What only the other process uses is named by who runs out of memory, and is enough once it is
// given back.
TEST(ShareMemory, WhatIsLeasedIsNamedWhereMemoryRunsOut) {
  Peer peer;
  // The text of the error names processes, and what tells them opens files of its own once; so do
  // the stacks in it.
  if (!cuda::is_simulated()) (void)cuda::list_gpu_processes(0);
  EXPECT_THROW((void)cuda::allocate(std::size_t{1} << 45), OutOfMemoryError);
  (void)test::make_memory(Device("cuda:0"), std::size_t{40} << 20, 1);
  const Counts before = Counts::warm();
  cuda::empty_cache();
  const std::size_t held = cuda::memory_reserved(0);
  const auto total = static_cast<double>(cuda::get_device_properties(0).total_memory);
  constexpr std::size_t kSize = std::size_t{40} << 20;
  cuda::set_per_process_memory_fraction(
      (static_cast<double>(held + kSize + kSize / 2) + 0.5) / total, 0);
  const auto failure = [] {
    try {
      (void)cuda::allocate(kSize, cuda::default_stream(0));
    } catch (const OutOfMemoryError& error) {
      return error.report();
    }
    return std::shared_ptr<const cuda::OutOfMemoryReport>();
  };
  Ref<Storage> mine = test::make_memory(Device("cuda:0"), kSize, 1);
  ASSERT_EQ(peer.ask("receive x " + test::to_text(ipc::send(mine))), "ok");
  auto report = failure();
  ASSERT_NE(report, nullptr);
  EXPECT_EQ(report->verdict, cuda::OutOfMemoryVerdict::over_limit) << "this process uses it, too";
  EXPECT_TRUE(report->leased.empty());
  mine = {};
  report = failure();
  ASSERT_NE(report, nullptr);
  EXPECT_EQ(report->verdict, cuda::OutOfMemoryVerdict::leased);
  EXPECT_EQ(report->verdict_bytes, kSize);
  ASSERT_EQ(report->leased.size(), 1U);
  EXPECT_EQ(report->leased[0].process, peer.process());
  EXPECT_EQ(report->leased[0].bytes, kSize);
  EXPECT_EQ(peer.ask("drop x"), "ok");
  EXPECT_EQ(await_counts(before), "");
  EXPECT_EQ(failure(), nullptr) << "the same call succeeds";
  cuda::set_per_process_memory_fraction(1, 0);
}

/// Memory on a stream of its own that lies in two chunks, of which another stream's has its memory
/// between them.
class ShareGrowing : public testing::Test {
 protected:
  static constexpr std::size_t kMiB = std::size_t{1} << 20;
  void SetUp() override {
    cuda::empty_cache();
    cuda::set_allocator_settings("expandable_segments:True");
  }
  void TearDown() override {
    cuda::empty_cache();
    cuda::set_allocator_settings("expandable_segments:False");
  }
  /// The last `bytes` of 44 MiB.
  Ref<Storage> memory_in_pieces(std::size_t bytes, unsigned seed) {
    const cuda::StreamGuard on_it(stream_);
    {
      const Ref<Storage> first = Storage::allocate(Device("cuda:0"), 22 * kMiB);
      const cuda::StreamGuard elsewhere(other_);
      between_ = Storage::allocate(Device("cuda:0"), 22 * kMiB);
      const cuda::StreamGuard back(stream_);
      const Ref<Storage> second = Storage::allocate(Device("cuda:0"), 22 * kMiB);
    }
    front_ = Storage::allocate(Device("cuda:0"), 44 * kMiB - bytes);
    Ref<Storage> made = Storage::allocate(Device("cuda:0"), bytes);
    test::write_memory(*made, seed);
    stream_.synchronize();
    return made;
  }
  const cuda::Stream stream_{0};
  const cuda::Stream other_{0};
  Ref<Storage> between_, front_;
};

TEST_F(ShareGrowing, ArrivesFromSeveralPieces) {
  Peer peer;
  Ref<Storage> mine = memory_in_pieces(30 * kMiB, 1);
  std::vector<driver::IpcPiece> pieces;
  std::size_t in_front = 0;
  const Status status =
      test::machine().ipc_export_pieces(mine->data(), mine->bytes(), pieces, in_front);
  if (status.code() == Code::not_supported) GTEST_SKIP() << status.text();
  check(status);
  EXPECT_EQ(pieces.size(), 2U);
  EXPECT_EQ(in_front, 14 * kMiB);
  const int last = pieces.back().file;
  (void)close(pieces.front().file);
  if (last != pieces.front().file) (void)close(last);
  ASSERT_EQ(peer.ask("receive x " + test::to_text(ipc::send(mine))), "ok");
  EXPECT_EQ(peer.ask("check x 1"), "ok");
  EXPECT_EQ(peer.ask("write x 2"), "ok");
  EXPECT_EQ(peer.ask("synchronize cuda:0"), "ok");
  EXPECT_TRUE(test::has_bytes(*mine, 2));
  // And on to a third process, and back.
  Peer third;
  ASSERT_EQ(third.ask("receive y " + peer.ask("send x")), "ok");
  EXPECT_EQ(third.ask("check y 2"), "ok");
  EXPECT_TRUE(ipc::receive(test::to_handle(peer.ask("send x"))) == mine);
}

/// What is received is not yet what the receiver knows of: the end of a process waits for that,
/// too.
TEST_P(Share, IsUndoneUntilTheReceiverIsTold) {
  cuda::init();
  Peer peer;
  const Ref<Storage> mine = test::make_memory(device(), 5000, 14);
  cuda::synchronize();
  const std::string handle = test::to_text(ipc::send(mine));
  const auto wait_until = [](auto&& condition) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!condition() && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    return condition();
  };
  ipc::held_at = static_cast<int>(ipc::Step::lease_noted);
  std::string answer;
  std::thread asking([&] { answer = peer.ask("receive x " + handle); });
  EXPECT_TRUE(wait_until([] { return ipc::unreceived() == 0; }));
  EXPECT_TRUE(ipc::undone());
  ipc::held_at = 0;
  ipc::held_at.notify_all();
  asking.join();
  EXPECT_EQ(answer, "ok");
  EXPECT_TRUE(wait_until([] { return !ipc::undone(); }));
}

// The thread that answered no longer uses the memory when the receiver has the answer.
TEST_F(ShareGrowing, IsTheReceiversAloneOnceItIsReceived) {
  Peer peer;
  Ref<Storage> mine = memory_in_pieces(30 * kMiB, 3);
  struct Held {
    Held() { ipc::held_at = static_cast<int>(ipc::Step::reply_sent); }
    ~Held() { end(); }
    void end() {
      ipc::held_at = 0;
      ipc::held_at.notify_all();
    }
  } held;
  EXPECT_EQ(peer.ask("receive x " + test::to_text(ipc::send(mine))), "ok");
  mine = {};
  std::shared_ptr<const cuda::OutOfMemoryReport> report;
  try {
    (void)cuda::allocate(std::size_t{1} << 45, cuda::default_stream(0));
  } catch (const OutOfMemoryError& error) {
    report = error.report();
  }
  held.end();
  ASSERT_NE(report, nullptr);
  ASSERT_EQ(report->leased.size(), 1U);
  EXPECT_EQ(report->leased[0].process, peer.process());
}

TEST_F(ShareGrowing, StaysWhileItIsLeased) {
  Peer peer;
  Ref<Storage> mine = memory_in_pieces(30 * kMiB, 3);
  front_ = between_ = {};
  const std::size_t reserved = cuda::memory_reserved(0);
  ASSERT_EQ(peer.ask("receive x " + test::to_text(ipc::send(mine))), "ok");
  mine = {};
  cuda::empty_cache();
  EXPECT_GE(cuda::memory_reserved(0), 30 * kMiB);
  EXPECT_LT(cuda::memory_reserved(0), reserved) << "what nobody uses went";
  const Ref<Storage> other = test::make_memory(Device("cuda:0"), 44 * kMiB, 4);
  cuda::synchronize(0);
  EXPECT_EQ(peer.ask("check x 3"), "ok");
  EXPECT_EQ(peer.ask("drop x"), "ok");
  // The service's thread lets it go soon after the lease.
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  do cuda::empty_cache();
  while (cuda::memory_reserved(0) >= 30 * kMiB + 44 * kMiB &&
         std::chrono::steady_clock::now() < until);
  EXPECT_LT(cuda::memory_reserved(0), 30 * kMiB + 44 * kMiB);
}

TEST_F(ShareGrowing, ThatWasResetIsRefused) {
  if (!cuda::is_simulated()) GTEST_SKIP() << "resets end what other tests use";
  Peer peer;
  Ref<Storage> mine = memory_in_pieces(30 * kMiB, 5);
  const std::string handle = test::to_text(ipc::send(mine));
  cuda::reset_device(0);
  EXPECT_NE(peer.ask("receive x " + handle).find("was reset"), std::string::npos);
  mine = front_ = between_ = {};
  cuda::init();
}

TEST_P(Share, StaysUntilTheLeaseIsGivenBack) {
  Peer peer;
  const Counts before = Counts::warm();
  Ref<Storage> mine = test::make_memory(device(), 100000, 3);
  const std::string handle = test::to_text(ipc::send(mine));
  mine = {};  // a handle that was not received keeps it
  EXPECT_EQ(ipc::unreceived(), 1U);
  ASSERT_EQ(peer.ask("receive x " + handle), "ok");
  EXPECT_EQ(ipc::unreceived(), 0U);
  // Others get other memory.
  const Ref<Storage> other = test::make_memory(device(), 100000, 4);
  EXPECT_EQ(peer.ask("check x 3"), "ok");
  EXPECT_EQ(peer.ask("drop x"), "ok");
  Counts with_other = before;
  with_other.allocated += 1 << 20;
  ++with_other.descriptors;
  ++with_other.mappings;
  ++with_other.lines;
  EXPECT_EQ(await_counts(with_other), "");
  EXPECT_NE(peer.ask("receive x " + handle).find("error"), std::string::npos) << "replayed";
}

TEST_P(Share, ComesBackToItsOwnerAsItsOwnStorage) {
  const Counts before = Counts::warm();
  {
    const Ref<Storage> mine = test::make_memory(device(), 4096, 5);
    EXPECT_TRUE(ipc::receive(ipc::send(mine)) == mine);
    Peer peer;
    ASSERT_EQ(peer.ask("receive x " + test::to_text(ipc::send(mine))), "ok");
    const std::string back = peer.ask("send x");
    EXPECT_TRUE(ipc::receive(test::to_handle(back)) == mine);
  }
  EXPECT_EQ(await_counts(before), "");
}

TEST_P(Share, ArrivesTwiceAsOneStorage) {
  Peer peer;
  cuda::init();
  const Ref<Storage> mine = test::make_memory(device(), 4096, 6);
  const std::string first = test::to_text(ipc::send(mine));
  ASSERT_EQ(peer.ask("receive x " + first), "ok");
  ASSERT_EQ(peer.ask("receive y " + first), "ok") << "the same handle again, in the same process";
  ASSERT_EQ(peer.ask("receive z " + test::to_text(ipc::send(mine))), "ok") << "another handle";
  EXPECT_EQ(peer.ask("same x y"), "ok");
  EXPECT_EQ(peer.ask("same x z"), "ok");
  EXPECT_EQ(peer.ask("drop x"), "ok");
  EXPECT_EQ(peer.ask("drop y"), "ok");
  EXPECT_EQ(peer.ask("check z 6"), "ok");
}

TEST_P(Share, GoesToThreeConsumers) {
  const Counts before = Counts::warm();
  {
    Peer a, b, c;
    Ref<Storage> mine = test::make_memory(device(), 70000, 7);
    const std::string handle = test::to_text(ipc::send(mine, 3));
    mine = {};
    for (Peer* peer : {&a, &b, &c}) ASSERT_EQ(peer->ask("receive x " + handle), "ok");
    EXPECT_EQ(ipc::leases().size(), 3U);
    Peer late;
    EXPECT_NE(late.ask("receive x " + handle).find("received as often"), std::string::npos);
    for (Peer* peer : {&a, &b, &c}) EXPECT_EQ(peer->ask("check x 7"), "ok");
  }
  EXPECT_EQ(await_counts(before), "");
}

TEST_P(Share, IsPassedOnToAThirdProcess) {
  const Counts before = Counts::warm();
  {
    Peer second;
    Peer third;
    Ref<Storage> mine = test::make_memory(device(), 30000, 8);
    ASSERT_EQ(second.ask("receive x " + test::to_text(ipc::send(mine))), "ok");
    mine = {};
    EXPECT_EQ(second.ask("write x 9"), "ok");
    const std::string handle = second.ask("send x");
    // Who passes it on may let it go, and even end, before the third has it.
    EXPECT_EQ(second.ask("drop x"), "ok");
    second.kill_now();
    ASSERT_EQ(third.ask("receive x " + handle), "ok");
    EXPECT_EQ(third.ask("check x 9"), "ok");
  }
  EXPECT_EQ(await_counts(before), "");
}

TEST_P(Share, StaysReadableWhenTheOwnerEnds) {
  const Counts before = Counts::warm();
  {
    Peer owner;
    ASSERT_EQ(owner.ask("make x " + name() + " 50000 11"), "ok");
    ASSERT_EQ(owner.ask("make y " + name() + " 50000 12"), "ok");
    const ipc::Handle x = test::to_handle(owner.ask("send x"));
    const ipc::Handle y = test::to_handle(owner.ask("send y"));
    const Ref<Storage> mine = ipc::receive(x);
    EXPECT_TRUE(test::has_bytes(*mine, 11));
    owner.kill_now();
    EXPECT_TRUE(test::has_bytes(*mine, 11));
    EXPECT_ERROR(ipc::receive(y), Error, "has ended");
  }
  EXPECT_EQ(await_counts(before), "");
}

TEST_P(Share, IsReturnedWhenTheHolderIsKilled) {
  for (const bool descriptors : {true, false}) {
    ipc::Watch::refuse_descriptors(!descriptors);
    const Counts before = Counts::warm();
    Peer peer;
    Ref<Storage> mine = test::make_memory(device(), 50000, 13);
    ASSERT_EQ(peer.ask("receive x " + test::to_text(ipc::send(mine))), "ok");
    mine = {};
    peer.kill_now();
    Counts with_peer = before;
    ++with_peer.descriptors;  // of the pipe to it
    EXPECT_EQ(await_counts(with_peer), "") << "descriptors of processes: " << descriptors;
  }
  ipc::Watch::refuse_descriptors(false);
}

TEST_P(Share, WithdrawnHandlesAreRefused) {
  cuda::init();
  Peer peer;
  const Ref<Storage> mine = test::make_memory(device(), 5000, 14);
  const ipc::Handle handle = ipc::send(mine);
  ipc::withdraw(handle);
  EXPECT_EQ(ipc::unreceived(), 0U);
  EXPECT_NE(peer.ask("receive x " + test::to_text(handle)).find("error"), std::string::npos);
  EXPECT_ERROR(ipc::receive(handle), Error, "cannot receive");
}

TEST_P(Share, OfManyThreadsIsOneStorage) {
  cuda::init();
  Peer owner;
  ASSERT_EQ(owner.ask("make x " + name() + " 4000 15"), "ok");
  const ipc::Handle handle = test::to_handle(owner.ask("send x"));
  std::vector<Ref<Storage>> found(8);
  std::vector<std::thread> threads;
  for (Ref<Storage>& mine : found) threads.emplace_back([&] { mine = ipc::receive(handle); });
  for (std::thread& thread : threads) thread.join();
  for (const Ref<Storage>& mine : found) EXPECT_TRUE(mine == found[0]);
  EXPECT_TRUE(test::has_bytes(*found[0], 15));
}

// ---- Order

TEST(ShareOrder, WorkOfTheReceiverWaitsForTheSenders) {
  (void)Counts::warm();  // pinned memory from before a reset goes back now, not behind the gate
  Peer peer;
  const cuda::Stream stream = cuda::current_stream(0);
  Ref<Storage> mine = Storage::allocate(Device("cuda:0"), 20000);
  {
    Gate gate(stream);
    test::write_memory(*mine, 21);  // behind the gate
    ASSERT_EQ(peer.ask("receive x " + test::to_text(ipc::send(mine))), "ok");
    EXPECT_EQ(peer.ask("idle cuda:0"), "busy");
    peer.tell("check x 21");  // waits
    gate.open();
    EXPECT_EQ(peer.answer(), "ok");
  }
}

TEST(ShareOrder, TheLeaseStaysUntilTheReceiversWorkIsDone) {
  cuda::init();
  Peer peer;
  Ref<Storage> mine = test::make_memory(Device("cuda:0"), 20000, 22);
  ASSERT_EQ(peer.ask("receive x " + test::to_text(ipc::send(mine))), "ok");
  mine = {};
  ASSERT_EQ(peer.ask("check x 22"), "ok");
  ASSERT_EQ(peer.ask("hold"), "ok");
  ASSERT_EQ(peer.ask("write x 23"), "ok");  // behind the gate
  ASSERT_EQ(peer.ask("drop x"), "ok");
  // Asked for only to give its thread the time to do it wrong.
  for (int i = 0; i < 50; ++i) ASSERT_EQ(peer.ask("leases"), "1");
  EXPECT_EQ(ipc::leases().size(), 1U);
  ASSERT_EQ(peer.ask("open"), "ok");
  while (!ipc::leases().empty()) std::this_thread::yield();
}

TEST(ShareOrder, WaitsOfAnOwnerThatIsKilledEnd) {
  cuda::init();
  Peer owner;
  ASSERT_EQ(owner.ask("make x cuda:0 30000 24"), "ok");
  ASSERT_EQ(owner.ask("hold"), "ok");
  ASSERT_EQ(owner.ask("write x 25"), "ok");  // behind the gate
  {
    const Ref<Storage> mine = ipc::receive(test::to_handle(owner.ask("send x")));
    EXPECT_FALSE(cuda::current_stream(0).query());
    owner.kill_now();
    if (cuda::is_simulated()) {
      EXPECT_ERROR(cuda::synchronize(0), AcceleratorError, "wait for another process");
    } else {
      cuda::synchronize(0);
    }
    EXPECT_ERROR(mine->require_alive(), Error, "is not complete");
  }
  if (cuda::is_simulated()) cuda::reset_device(0);
}

TEST(ShareOrder, OfAFaultedOwnerIsRefused) {
  if (!cuda::is_simulated()) GTEST_SKIP() << "a fault ends the use of a real device";
  Peer owner;
  ASSERT_EQ(owner.ask("make x cuda:0 30000 26"), "ok");
  const ipc::Handle handle = test::to_handle(owner.ask("send x"));
  ASSERT_EQ(owner.ask("reset cuda:0"), "ok");
  EXPECT_ERROR(ipc::receive(handle), Error, "was reset");
}

TEST(ShareOrder, AnImportGoesWithTheResetOfItsDevice) {
  cuda::init();
  if (!cuda::is_simulated()) GTEST_SKIP() << "resets of real devices are tested without sharing";
  Peer owner;
  ASSERT_EQ(owner.ask("make x cuda:0 30000 27"), "ok");
  {
    const Ref<Storage> mine = ipc::receive(test::to_handle(owner.ask("send x")));
    cuda::reset_device(0);
    EXPECT_ERROR(mine->require_alive(), AcceleratorError, "context is destroyed");
  }
  while (owner.ask("leases") != "0") std::this_thread::yield();
}

// ---- Kernels on imported memory

TEST(ShareKernels, UseImportedMemoryLikeAnyOther) {
  cuda::init();
  Peer owner;
  ASSERT_EQ(owner.ask("make x cuda:0 4096 31"), "ok");
  const Ref<Storage> mine = ipc::receive(test::to_handle(owner.ask("send x")));
  const Tensor view(mine, Dtype::uint8, {4096}, {1});
  const Tensor expected = view.cpu();
  EXPECT_TRUE((view.add(1).cpu().sub(1)).eq(expected).all().item<bool>());
  view.add_(3);
  EXPECT_TRUE(view.cpu().eq(expected.add(3)).all().item<bool>());
  driver::PointerInfo info;
  ASSERT_TRUE(cuda::active_driver().pointer_info(mine->data(), info).ok());
  EXPECT_EQ(info.kind, driver::PointerInfo::Kind::device);
  EXPECT_EQ(info.device, 0);
}

TEST(ShareKernels, MayNotTouchWhatLiesBeyondTheLease) {
  cuda::init();
  if (!cuda::is_simulated()) GTEST_SKIP() << "hardware checks pages";
  Peer owner;
  ASSERT_EQ(owner.ask("make x cuda:0 1000 32"), "ok");
  const Ref<Storage> mine = ipc::receive(test::to_handle(owner.ask("send x")));
  auto* bytes = static_cast<unsigned char*>(mine->data());
  EXPECT_ERROR(cuda::copy_async(bytes, bytes, 1001), AcceleratorError, "within one allocation");
  cuda::launch(cuda::current_stream(0), "too far", [=](const cuda::HostLaunch& on) {
    return on.at(bytes, 1001) == nullptr ? on.fault() : Status();
  });
  EXPECT_ERROR(cuda::synchronize(0), AcceleratorError, "too far");
  cuda::reset_device(0);
}

// ---- Memory of the CPU

TEST(ShareHost, TenThousandTensorsNeedFewDescriptors) {
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit few{256, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const Counts before = Counts::now();
  {
    Peer peer;  // has the limit, too
    std::vector<std::string> handles;
    for (unsigned i = 0; i < 10000; ++i)
      handles.push_back(
          test::to_text(ipc::send(test::make_memory(Device("cpu"), 64 + i % 100, i))));
    for (unsigned i = 0; i < 10000; ++i)
      ASSERT_EQ(peer.ask("receive x" + std::to_string(i) + " " + handles[i]), "ok") << i;
    for (unsigned i = 0; i < 10000; i += 97)
      ASSERT_EQ(peer.ask("check x" + std::to_string(i) + " " + std::to_string(i)), "ok");
  }
  EXPECT_EQ(await_counts(before), "");
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

TEST(ShareHost, OrdinaryMemoryIsRefusedAndCopied) {
  const Tensor x = arange(10);
  EXPECT_FALSE(ipc::is_shared(x));
  EXPECT_ERROR(ipc::send(x.storage()), ValueError, "share_memory_");
  const Ref<Storage> copy = ipc::shared_copy(x.storage());
  EXPECT_FALSE(copy == x.storage());
  EXPECT_TRUE(ipc::shared_copy(copy) == copy);
  ipc::share_memory_(x);
  EXPECT_TRUE(ipc::is_shared(x));
  const Ref<Storage> storage = x.storage();
  ipc::share_memory_(x);
  EXPECT_TRUE(storage == x.storage());
  EXPECT_EQ(x.sum().item<int>(), 45);
}

TEST(ShareHost, TooMuchIsAnError) {
  EXPECT_ERROR(ipc::allocate_shared(std::size_t{1} << 50), OutOfMemoryError, "shared memory");
  EXPECT_ERROR(ipc::send(ipc::allocate_shared(0)), ValueError, "without bytes");
}

TEST(ShareHost, PiecesAreUsedAgain) {
  const Ref<Storage> first = ipc::allocate_shared(5000);
  void* place = nullptr;
  {
    const Ref<Storage> second = ipc::allocate_shared(7000);
    place = second->data();
  }
  EXPECT_EQ(ipc::allocate_shared(7000)->data(), place);
}

}  // namespace
}  // namespace ember
