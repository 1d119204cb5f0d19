// Events between processes: both ways, and when one of the processes ends.
#include "ember/runtime/event.h"

#include <cstring>
#include <thread>

#include "ember/base/error.h"
#include "ember/runtime/runtime.h"
#include "peer.h"
#include "tests/support/devices.h"

namespace ember {
namespace {

using cuda::Event;
using test::await_counts;
using test::Counts;
using test::Gate;
using test::Peer;

std::string text(const std::array<std::uint8_t, 64>& bytes) {
  ipc::Handle padded{};
  std::memcpy(padded.data(), bytes.data(), bytes.size());
  return test::to_text(padded).substr(0, 128);
}

std::array<std::uint8_t, 64> bytes(const std::string& text) {
  std::array<std::uint8_t, 64> all{};
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i] = static_cast<std::uint8_t>(std::stoul(text.substr(2 * i, 2), nullptr, 16));
  return all;
}

TEST(EventBetween, TheOtherProcessWaitsForARecordMadeHere) {
  const Counts before = Counts::warm();
  {
    Peer peer;
    Event event(false, false, true);
    {
      Gate gate(cuda::current_stream(0));
      event.record();
      ASSERT_EQ(peer.ask("event e " + text(event.ipc_handle())), "ok");
      EXPECT_EQ(peer.ask("reached e"), "not yet");
      ASSERT_EQ(peer.ask("wait e"), "ok");
      EXPECT_EQ(peer.ask("idle cuda:0"), "busy");
      peer.tell("await e");
      gate.open();
      EXPECT_EQ(peer.answer(), "ok");
    }
    EXPECT_EQ(peer.ask("reached e"), "ok");
    EXPECT_EQ(peer.ask("synchronize cuda:0"), "ok");
    EXPECT_TRUE(event.query());
    EXPECT_EQ(peer.ask("close e"), "ok");
  }
  EXPECT_EQ(await_counts(before), "");
}

TEST(EventBetween, ThisProcessWaitsForARecordMadeThere) {
  const Counts before = Counts::warm();
  {
    Peer peer;
    Event event(false, false, true);
    ASSERT_EQ(peer.ask("event e " + text(event.ipc_handle())), "ok");
    ASSERT_EQ(peer.ask("hold"), "ok");
    ASSERT_EQ(peer.ask("record e"), "ok");
    EXPECT_FALSE(event.query());
    event.wait();
    EXPECT_FALSE(cuda::current_stream(0).query());
    ASSERT_EQ(peer.ask("open"), "ok");
    event.synchronize();
    cuda::synchronize(0);
    EXPECT_TRUE(event.query());
  }
  EXPECT_EQ(await_counts(before), "");
}

TEST(EventBetween, RecordsInBothOneAfterTheOther) {
  cuda::init();
  Peer peer;
  ASSERT_EQ(peer.ask("event e"), "ok");
  Event event = Event::from_ipc_handle(Device("cuda:0"), bytes(peer.ask("handle e")));
  EXPECT_TRUE(event.query()) << "never recorded";
  for (int i = 0; i < 20; ++i) {
    event.record();
    ASSERT_EQ(peer.ask("wait e"), "ok");
    ASSERT_EQ(peer.ask("record e"), "ok");
    event.wait();
    event.synchronize();
    ASSERT_EQ(peer.ask("await e"), "ok");
  }
  // A record is reached after the one before it, though that is another process's.
  ASSERT_EQ(peer.ask("hold"), "ok");
  ASSERT_EQ(peer.ask("record e"), "ok");
  event.record();
  EXPECT_FALSE(event.query());
  ASSERT_EQ(peer.ask("open"), "ok");
  event.synchronize();
}

TEST(EventBetween, OfOneProcessByItsHandle) {
  cuda::init();
  Event event(false, false, true);
  if (!cuda::is_simulated()) {
    EXPECT_ERROR((void)Event::from_ipc_handle(Device("cuda:0"), event.ipc_handle()),
                 AcceleratorError, "CUDA opens handles in other processes than their own only");
    return;
  }
  Event again = Event::from_ipc_handle(Device("cuda:0"), event.ipc_handle());
  Gate gate(cuda::current_stream(0));
  again.record();
  EXPECT_FALSE(event.query());
  gate.open();
  event.synchronize();
  EXPECT_TRUE(again.query());
}

TEST(EventBetween, OpensFromAThirdProcessAndOutlivesTheFirst) {
  const Counts before = Counts::warm();
  {
    Peer owner;
    Peer third;
    ASSERT_EQ(owner.ask("event e"), "ok");
    Event event = Event::from_ipc_handle(Device("cuda:0"), bytes(owner.ask("handle e")));
    ASSERT_EQ(third.ask("event e " + text(event.ipc_handle())), "ok");
    // On CUDA the others' events are undefined once the first one is destroyed.
    if (cuda::is_simulated()) {
      ASSERT_EQ(owner.ask("close e"), "ok");
    }
    ASSERT_EQ(third.ask("hold"), "ok");
    ASSERT_EQ(third.ask("record e"), "ok");
    EXPECT_FALSE(event.query());
    ASSERT_EQ(third.ask("open"), "ok");
    event.synchronize();
  }
  EXPECT_EQ(await_counts(before), "");
}

TEST(EventBetween, OfAKilledProcessIsAnErrorAndNoWaitForEver) {
  if (!cuda::is_simulated()) GTEST_SKIP() << "CUDA's wait for ever";
  const Counts before = Counts::warm();
  for (const bool owner_is_killed : {true, false}) {
    SCOPED_TRACE(owner_is_killed);
    Peer peer;
    {
      Event event(false, false, true);
      if (owner_is_killed) {
        ASSERT_EQ(peer.ask("event e"), "ok");
        event = Event::from_ipc_handle(Device("cuda:0"), bytes(peer.ask("handle e")));
      } else {
        ASSERT_EQ(peer.ask("event e " + text(event.ipc_handle())), "ok");
      }
      ASSERT_EQ(peer.ask("hold"), "ok");
      ASSERT_EQ(peer.ask("record e"), "ok");
      event.wait();
      peer.kill_now();
      EXPECT_ERROR(event.synchronize(), Error, "never be reached");
      EXPECT_ERROR(event.query(), Error, "never be reached");
      EXPECT_ERROR(cuda::synchronize(0), AcceleratorError, "wait for another process");
    }
    cuda::reset_device(0);
  }
  Counts after = before;
  after.mappings += 1;  // a cell whose work was lost is not used again, nor is its file
  after.descriptors += 1;
  after.threads += 1;
  EXPECT_EQ(await_counts(after), "");
}

// What is recorded is still to be done when the event goes.
TEST(EventBetween, MayGoBeforeItsRecordIsDone) {
  const Counts before = Counts::warm();
  for (const bool killed : {false, true}) {
    if (killed && !cuda::is_simulated()) break;  // CUDA's wait for ever
    Peer peer;
    Event event(false, false, true);
    ASSERT_EQ(peer.ask("event e " + text(event.ipc_handle())), "ok");
    ASSERT_EQ(peer.ask("hold"), "ok");
    ASSERT_EQ(peer.ask("record e"), "ok");
    ASSERT_EQ(peer.ask("close e"), "ok");
    EXPECT_FALSE(event.query());
    if (killed) {
      peer.kill_now();
      EXPECT_ERROR(event.synchronize(), Error, "never be reached");
    } else {
      ASSERT_EQ(peer.ask("open"), "ok");
      event.synchronize();
      EXPECT_EQ(peer.ask("synchronize cuda:0"), "ok");
    }
  }
  if (!cuda::is_simulated()) {
    EXPECT_EQ(await_counts(before), "");
  }
}

// One record behind another, on two devices: the first is lost, the events go, and only then does
// the second stream come to look.
TEST(EventBetween, MayGoWhenARecordBeforeAnotherIsLost) {
  if (!cuda::is_simulated()) GTEST_SKIP() << "CUDA's events between processes are its own";
  NEEDS_DEVICES(2);
  cuda::init();
  const cuda::Stream held(1), later(1);
  Gate gate(held);
  {
    Event opened;
    opened.record(held);
    const cuda::Stream lost(0);
    opened.wait(lost);
    opened.wait(later);
    Event event(false, false, true);
    event.record(lost);
    Event other = Event::from_ipc_handle(Device("cuda:1"), event.ipc_handle());
    other.record(later);
    cuda::reset_device(0);
    EXPECT_ERROR(other.query(), Error, "never be reached");
  }
  gate.open();
  EXPECT_ERROR(cuda::synchronize(1), AcceleratorError, "wait for another process");
  cuda::reset_device(1);
  ipc::collect();
}

TEST(EventBetween, RefusesWhatIsNoHandle) {
  cuda::init();
  const std::array<std::uint8_t, 64> zeros{};
  EXPECT_ERROR(Event::from_ipc_handle(Device("cuda:0"), std::span(zeros).first(63)), Error,
               "cudaIpcEventHandle_t expects byte-like object of size 64, but got 63");
  EXPECT_ERROR(Event::from_ipc_handle(Device("cpu"), zeros), Error, "expected a CUDA device");
  if (!cuda::is_simulated()) return;
  EXPECT_ERROR(Event::from_ipc_handle(Device("cuda:0"), zeros), Error, "none of ember's");
  Event plain;
  EXPECT_ERROR((void)plain.ipc_handle(), AcceleratorError, "interprocess=True");
  Peer peer;
  ASSERT_EQ(peer.ask("event e"), "ok");
  const auto good = bytes(peer.ask("handle e"));
  for (std::size_t i = 0; i < good.size(); ++i) {
    auto bad = good;
    bad[i] ^= 4;
    EXPECT_ERROR(Event::from_ipc_handle(Device("cuda:0"), bad), Error, "cannot receive");
  }
  EXPECT_EQ(peer.ask("leases"), "0");
}

}  // namespace
}  // namespace ember
