// Either side killed: at each numbered step of the protocol, and at random times. What the survivor
// has returns to what it was within a second, and what it receives are the right bytes or an error,
// within two.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "ember/base/error.h"
#include "ember/memory/memory.h"
#include "ember/runtime/runtime.h"
#include "peer.h"
#include "stacks.h"
#include "tests/support/devices.h"

namespace ember {
namespace {

using ipc::Step;
using test::await_counts;
using test::Counts;
using test::Peer;
using Clock = std::chrono::steady_clock;

constexpr auto kMost = std::chrono::seconds(2);

std::string number(Step step) { return std::to_string(static_cast<int>(step)); }

/// Right bytes, or an error that says why not.
void receive_or_error(const std::string& handle, unsigned seed) {
  const auto begin = Clock::now();
  try {
    const Ref<Storage> mine = ipc::receive(test::to_handle(handle));
    EXPECT_TRUE(test::has_bytes(*mine, seed));
  } catch (const Error& error) {
    EXPECT_FALSE(std::string(error.what()).empty());
    // Work that waited for work of the killed process faults, whoever was the first to say so.
    try {
      cuda::synchronize(0);
    } catch (const AcceleratorError&) {
      cuda::reset_device(0);
    }
  }
  EXPECT_LT(Clock::now() - begin, kMost);
}

class Killed : public testing::TestWithParam<std::tuple<const char*, int>> {
 protected:
  std::string name() const { return std::get<0>(GetParam()); }
  Step step() const { return static_cast<Step>(std::get<1>(GetParam())); }
  void SetUp() override { before_ = Counts::warm(); }
  void TearDown() override { EXPECT_EQ(await_counts(before_), ""); }
  Counts before_;
};

std::string name_of(const testing::TestParamInfo<std::tuple<const char*, int>>& info) {
  return std::string(std::get<0>(info.param)).substr(0, 3) + "_step_" +
         std::to_string(std::get<1>(info.param));
}

auto steps(Step first, Step last) {
  return testing::Combine(testing::Values("cpu", "cuda:0"),
                          testing::Range(static_cast<int>(first), static_cast<int>(last) + 1));
}

class KilledOwner : public Killed {};
INSTANTIATE_TEST_SUITE_P(At, KilledOwner, steps(Step::sent, Step::give_back_done), name_of);

TEST_P(KilledOwner, LeavesNothingBehind) {
  Peer owner;
  ASSERT_EQ(owner.ask("make x " + name() + " 60000 41"), "ok");
  ASSERT_EQ(owner.ask("kill_at " + number(step())), "ok");
  const std::string handle = owner.ask("send x");
  if (handle != "killed") receive_or_error(handle, 41);
  owner.await_end();  // by the step: the lease was given back
}

class KilledReceiver : public Killed {};
INSTANTIATE_TEST_SUITE_P(At, KilledReceiver, steps(Step::before_connect, Step::gave_back), name_of);

TEST_P(KilledReceiver, LeavesNothingBehind) {
  Peer receiver;
  Ref<Storage> mine = test::make_memory(Device(name()), 60000, 42);
  const ipc::Handle handle = ipc::send(mine);
  mine = {};
  ASSERT_EQ(receiver.ask("kill_at " + number(step())), "ok");
  if (receiver.ask("receive x " + test::to_text(handle)) == "ok") {
    if (receiver.ask("check x 42") != "killed") (void)receiver.ask("drop x");
  }
  receiver.await_end();
  ipc::withdraw(handle);  // it may not have come so far as to use the handle
}

class KilledForwarder : public Killed {};
INSTANTIATE_TEST_SUITE_P(At, KilledForwarder, steps(Step::before_forward, Step::forwarded),
                         name_of);

TEST_P(KilledForwarder, LeavesNothingBehind) {
  Peer forwarder;
  Ref<Storage> mine = test::make_memory(Device(name()), 60000, 43);
  ASSERT_EQ(forwarder.ask("receive x " + test::to_text(ipc::send(mine))), "ok");
  mine = {};
  ASSERT_EQ(forwarder.ask("kill_at " + number(step())), "ok");
  EXPECT_EQ(forwarder.ask("send x"), "killed");
  ipc::withdraw_all();  // the handle that was made for it, which nobody ever saw
}

class KilledThird : public Killed {};
INSTANTIATE_TEST_SUITE_P(At, KilledThird, steps(Step::sent, Step::give_back_done), name_of);

// The owner is killed while two others use and pass on its memory.
TEST_P(KilledThird, OwnerLeavesNothingBehind) {
  Peer owner;
  Peer forwarder;
  ASSERT_EQ(owner.ask("make x " + name() + " 60000 44"), "ok");
  const std::string first = owner.ask("send x");
  ASSERT_EQ(forwarder.ask("receive x " + first), "ok");
  // The owner's device ends with it, and so does work that it has not done.
  ASSERT_EQ(forwarder.ask("check x 44"), "ok");
  ASSERT_EQ(owner.ask("kill_at " + number(step())), "ok");
  const std::string handle = forwarder.ask("send x");
  if (handle.rfind("error", 0) != 0) receive_or_error(handle, 44);
  EXPECT_EQ(forwarder.ask("check x 44"), "ok");
  EXPECT_EQ(forwarder.ask("drop x"), "ok");
  owner.kill_now();
}

int number_from(const char* variable, int otherwise) {
  const char* asked = std::getenv(variable);
  return asked != nullptr ? std::atoi(asked) : otherwise;
}

/// Sends a process memory and receives some of its own, at most `times` times, and fewer if it is
/// killed meanwhile.
void exchange(Peer& peer, const std::string& device, unsigned times, std::mt19937& random) {
  std::string words = peer.ask("make y " + device + " 40000 52");
  std::vector<Ref<Storage>> mine;
  for (unsigned i = 0; i < times && words != "killed"; ++i) {
    mine.push_back(test::make_memory(Device(device), 1000 + random() % 100000, i));
    const ipc::Handle handle = ipc::send(mine.back());
    words = peer.ask("receive x " + test::to_text(handle));
    ipc::withdraw(handle);
    if (words == "ok") words = peer.ask("check x " + std::to_string(i));
    if (words == "killed") break;
    EXPECT_EQ(words, "ok");
    const std::string theirs = peer.ask("send y");
    if (theirs != "killed") receive_or_error(theirs, 52);
    if (random() % 3 == 0) mine.clear();
  }
}

// EMBER_TEST_ROUNDS rounds, from EMBER_TEST_SEED on, and in EMBER_TEST_KILLS of them, evenly among
// them, the process beside this one is killed; the next rounds have another. A failure says the
// seed.
TEST(KilledAtRandom, LeavesNothingBehind) {
  const int kills = number_from("EMBER_TEST_KILLS", 12);
  const int rounds = std::max(kills, number_from("EMBER_TEST_ROUNDS", 0));
  const int first = number_from("EMBER_TEST_SEED", 1);
  std::unique_ptr<Peer> peer;
  Counts before;
  for (int round = 0; round < rounds; ++round) {
    const auto seed = static_cast<unsigned>(first + round);
    SCOPED_TRACE("EMBER_TEST_SEED=" + std::to_string(seed));
    test::still_alive();
    std::mt19937 random(seed);
    if (peer == nullptr) {
      before = Counts::warm();
      peer = std::make_unique<Peer>();
    }
    const std::string device = random() % 2 == 0 ? "cpu" : "cuda:0";
    const bool kills_here =
        std::int64_t{kills} * round / rounds != std::int64_t{kills} * (round + 1) / rounds;
    if (!kills_here) {
      exchange(*peer, device, 1 + random() % 5, random);
      EXPECT_EQ(peer->ask("drop x"), "ok");
      EXPECT_EQ(peer->ask("drop y"), "ok");
      Counts with_peer = before;
      ++with_peer.descriptors;  // of the pipe to it
      ++with_peer.sockets;      // its own
      const std::string difference = await_counts(with_peer);
      if (!difference.empty()) {
        test::show_stacks(getpid());
        test::show_stacks(peer->process());
      }
      ASSERT_EQ(difference, "");
      continue;
    }
    // Real devices take longer to open what they receive.
    const auto delay = std::chrono::microseconds(random() % (cuda::is_simulated() ? 6000 : 40000));
    (void)peer->ask("synchronize cuda:0");  // it has started
    std::thread killer([&, id = peer->process()] {
      const auto until = Clock::now() + delay;
      while (Clock::now() < until) {
      }
      (void)kill(id, SIGKILL);
    });
    exchange(*peer, device, 1000, random);
    killer.join();
    peer->await_end();
    peer.reset();
    ASSERT_EQ(await_counts(before), "");
  }
  if (peer != nullptr) peer.reset();
  std::printf("%d rounds, %d of them with a kill\n", rounds, kills);
}

}  // namespace
}  // namespace ember
