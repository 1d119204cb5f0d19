// A simulated machine on which several processes live.
#include "ember/driver/sim/shared_machine.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <vector>

#include "forked.h"

namespace ember::driver::sim {
namespace {

using test::Forked;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

class Shared : public testing::Test {
 protected:
  void SetUp() override {
    char made[] = "/tmp/ember-test-XXXXXX";
    ASSERT_NE(mkdtemp(made), nullptr);
    spec_.count = 2;
    spec_.memory_bytes = 16 * kMiB;
    spec_.machine = "tested";
    spec_.folder = made;
  }
  void TearDown() override { std::filesystem::remove_all(spec_.folder); }

  std::unique_ptr<SharedMachine> join() const { return join(spec_); }
  static std::unique_ptr<SharedMachine> join(const SimulatedSpec& spec) {
    std::unique_ptr<SharedMachine> made;
    const Status status = SharedMachine::join(spec, made);
    EXPECT_TRUE(status.ok()) << status.text();
    return made;
  }
  /// Joins, holds so much of device 0, says y or n, and stays.
  Forked holder(std::uint64_t bytes) const {
    return Forked([this, bytes](const Forked::Side& side) {
      const auto machine = join();
      side.say(machine != nullptr && machine->claim(0, bytes).ok() ? 'y' : 'n');
      return side.hear();
    });
  }
  std::string path() const { return record_path(spec_.folder, spec_.machine); }
  bool is_there() const { return std::filesystem::exists(path()); }

  SimulatedSpec spec_;
};

TEST_F(Shared, LimitsCountAcrossProcesses) {
  const auto mine = join();
  ASSERT_TRUE(mine->claim(0, 10 * kMiB).ok());
  Forked other = holder(6 * kMiB + 1);
  EXPECT_EQ(other.side().hear(), 'n');
  Forked fitting = holder(6 * kMiB);
  EXPECT_EQ(fitting.side().hear(), 'y');
  EXPECT_EQ(mine->used(0), 16 * kMiB);
  EXPECT_EQ(mine->used(1), 0u);
  const Status status = mine->claim(0, 512);
  EXPECT_EQ(status.code(), Code::out_of_memory);
  EXPECT_EQ(status.detail(),
            "512 bytes do not fit: of 16.00 MiB this process holds 10.00 MiB, other processes of "
            "simulated machine 'tested' 6.00 MiB");
  EXPECT_TRUE(mine->claim(1, 16 * kMiB).ok()) << "each device has its own memory";
  mine->give_back(0, 1 * kMiB);
  EXPECT_TRUE(mine->claim(0, 1 * kMiB).ok());
}

TEST_F(Shared, ListsWhoHoldsWhat) {
  const auto mine = join();
  ASSERT_TRUE(mine->claim(0, 3 * kMiB).ok());
  Forked other = holder(2 * kMiB);
  ASSERT_EQ(other.side().hear(), 'y');
  Forked idle = holder(0);
  ASSERT_EQ(idle.side().hear(), 'y');
  const auto listed = mine->processes(0);
  ASSERT_EQ(listed.size(), 2u);
  for (const GpuProcess& process : listed)
    EXPECT_EQ(process.bytes,
              process.pid == static_cast<std::uint32_t>(getpid()) ? 3 * kMiB : 2 * kMiB);
  EXPECT_TRUE(mine->processes(1).empty());
}

TEST_F(Shared, WhatAKilledProcessHeldIsFree) {
  const auto mine = join();
  Forked other = holder(16 * kMiB);
  ASSERT_EQ(other.side().hear(), 'y');
  EXPECT_FALSE(mine->claim(0, 1).ok());
  other.end(SIGKILL);
  siginfo_t ended{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(other.process()), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(mine->used(0), 0u) << "also while only its parent has not asked for it yet";
  EXPECT_TRUE(mine->processes(0).empty());
  EXPECT_TRUE(mine->claim(0, 16 * kMiB).ok());
}

TEST_F(Shared, WhatAProcessHeldThatCalledExecIsFree) {
  const auto mine = join();
  Forked other([this](const Forked::Side& side) {
    const auto machine = join();
    side.say(machine->claim(0, 16 * kMiB).ok() ? 'y' : 'n');
    (void)side.hear();
    return execlp("sleep", "sleep", "100", nullptr);
  });
  ASSERT_EQ(other.side().hear(), 'y');
  EXPECT_EQ(mine->used(0), 16 * kMiB);
  other.side().say('g');
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (mine->used(0) != 0 && std::chrono::steady_clock::now() < until) usleep(1000);
  EXPECT_EQ(mine->used(0), 0u);
}

TEST_F(Shared, AForkedChildIsAProcessOfItsOwn) {
  SharedMachine* mine = nullptr;
  ASSERT_TRUE(join_machine(spec_, mine).ok());
  ASSERT_TRUE(mine->claim(0, 4 * kMiB).ok());
  Forked child([this, mine](const Forked::Side& side) {
    SharedMachine* own = nullptr;
    if (!join_machine(spec_, own).ok() || own == mine) return 1;
    side.say(own->used(0) == 4 * kMiB && own->claim(0, 5 * kMiB).ok() ? 'y' : 'n');
    return static_cast<int>(side.hear());
  });
  EXPECT_EQ(child.side().hear(), 'y');
  EXPECT_EQ(mine->used(0), 9 * kMiB);
  child.side().say(7);
  EXPECT_EQ(child.reap(), 7);
  EXPECT_EQ(mine->used(0), 4 * kMiB) << "and its end gave up nothing of its parent's";
  Forked beside = holder(0);
  ASSERT_EQ(beside.side().hear(), 'y');
  EXPECT_EQ(mine->processes(0).size(), 1u);
  SharedMachine* again = nullptr;
  ASSERT_TRUE(join_machine(spec_, again).ok());
  EXPECT_EQ(again, mine) << "a process joins once";
  mine->give_back(0, 4 * kMiB);
}

TEST_F(Shared, OneOfSeveralGetsTheLast) {
  const auto mine = join();
  for (int round = 0; round < 50; ++round) {
    std::vector<Forked> asking;
    for (int i = 0; i < 3; ++i)
      asking.emplace_back([this](const Forked::Side& side) {
        const auto machine = join();
        side.say('r');
        (void)side.hear();
        side.say(machine->claim(0, 9 * kMiB).ok() ? 'y' : 'n');
        return static_cast<int>(side.hear());
      });
    for (const Forked& each : asking) ASSERT_EQ(each.side().hear(), 'r');
    for (const Forked& each : asking) each.side().say('g');
    int got = 0;
    for (const Forked& each : asking) got += each.side().hear() == 'y' ? 1 : 0;
    ASSERT_EQ(got, 1) << round;
    ASSERT_EQ(mine->used(0), 9 * kMiB);
  }
}

// EMBER_TEST_KILLS rounds, from EMBER_TEST_SEED on; a failure says the seed.
TEST_F(Shared, KilledAtRandomLeavesNothingBehind) {
  const char* asked = std::getenv("EMBER_TEST_KILLS");
  const char* from = std::getenv("EMBER_TEST_SEED");
  const int rounds = asked != nullptr ? std::atoi(asked) : 200;
  const unsigned first = from != nullptr ? static_cast<unsigned>(std::atoi(from)) : 1;
  const auto mine = join();
  ASSERT_TRUE(mine->claim(0, 1 * kMiB).ok());
  for (unsigned seed = first; seed < first + static_cast<unsigned>(rounds); ++seed) {
    SCOPED_TRACE("EMBER_TEST_SEED=" + std::to_string(seed));
    std::mt19937 random(seed);
    std::vector<Forked> busy;
    for (int i = 0; i < 2; ++i)
      busy.emplace_back([this, own = random()](const Forked::Side& side) {
        std::mt19937 mixed(static_cast<unsigned>(own));
        side.say('r');
        for (;;) {
          const auto machine = join();
          if (machine == nullptr) return 1;
          for (int step = 0; step < 20; ++step) {
            const std::uint64_t bytes = 512 * (1 + mixed() % 20000);
            if (!machine->claim(static_cast<int>(step % 2), bytes).ok()) continue;
            if (mixed() % 8 == 0) machine->give_back(step % 2, bytes);
          }
          if (mixed() % 4 == 0) machine->leave();
        }
      });
    for (const Forked& each : busy) ASSERT_EQ(each.side().hear(), 'r');
    usleep(static_cast<useconds_t>(random() % 3000));
    for (Forked& each : busy) {
      each.end(SIGKILL);
      ASSERT_EQ(each.reap(), -SIGKILL);
    }
    ASSERT_EQ(mine->used(0), 1 * kMiB);
    ASSERT_EQ(mine->used(1), 0u);
    ASSERT_TRUE(mine->claim(0, 15 * kMiB).ok()) << "nor a lock";
    mine->give_back(0, 15 * kMiB);
    ASSERT_TRUE(is_there()) << "others live here";
  }
}

TEST_F(Shared, GoesWithTheLastProcess) {
  auto mine = join();
  {
    Forked other([this](const Forked::Side& side) {
      const auto machine = join();
      side.say('r');
      (void)side.hear();
      machine->leave();
      return 0;
    });
    ASSERT_EQ(other.side().hear(), 'r');
    other.side().say('g');
    EXPECT_EQ(other.reap(), 0);
  }
  EXPECT_TRUE(is_there());
  mine->leave();
  EXPECT_FALSE(is_there());
  EXPECT_TRUE(mine->claim(0, kMiB).ok()) << "what it still does harms nobody";
  mine = nullptr;

  // Two that end at once: each needs the record no more, so the second one takes it away.
  Forked other = holder(kMiB);
  ASSERT_EQ(other.side().hear(), 'y');
  mine = join();
  EXPECT_EQ(mine->used(0), kMiB) << "a machine was made anew";
  Forked third([this](const Forked::Side& side) {
    const auto machine = join();
    machine->leave();
    side.say('l');
    return static_cast<int>(side.hear());
  });
  ASSERT_EQ(third.side().hear(), 'l');
  other.end(SIGKILL);
  other.reap();
  mine->leave();
  EXPECT_FALSE(is_there());
}

TEST_F(Shared, ProcessesThatComeAndGoMeet) {
  for (int round = 0; round < 20; ++round) {
    std::vector<Forked> all;
    for (int i = 0; i < 6; ++i)
      all.emplace_back([this](const Forked::Side& side) {
        for (int time = 0; time < 10; ++time) {
          const auto machine = join();
          if (machine == nullptr || !machine->claim(1, kMiB).ok()) return 1;
          if (machine->used(1) < kMiB || machine->used(1) > 6 * kMiB) return 2;
          if (time % 3 != 0) machine->leave();
        }
        const auto machine = join();
        side.say('m');
        const int met = machine != nullptr && side.hear() == 'g' && machine->claim(1, kMiB).ok();
        side.say('c');
        if (side.hear() != 'g' || machine->used(1) != 6 * kMiB) return 3;
        side.say('s');
        (void)side.hear();
        machine->leave();
        return met;
      });
    // Whoever comes while others live there finds them, however many left meanwhile.
    for (const char word : {'m', 'c', 's'}) {
      for (const Forked& each : all) ASSERT_EQ(each.side().hear(), word);
      for (const Forked& each : all) each.side().say('g');
    }
    for (Forked& each : all) ASSERT_EQ(each.reap(), 1);
    ASSERT_FALSE(is_there());
  }
}

TEST_F(Shared, HasRoomForSoManyProcesses) {
  std::vector<Forked> all;
  for (std::uint32_t i = 0; i < RecordShape::kSlots; ++i) {
    all.push_back(holder(512));
    ASSERT_EQ(all.back().side().hear(), 'y') << i;
  }
  std::unique_ptr<SharedMachine> mine;
  const Status status = SharedMachine::join(spec_, mine);
  EXPECT_EQ(status.code(), Code::not_permitted);
  EXPECT_EQ(status.detail(), "simulated machine 'tested': it is full: 256 processes live on it");
  all[100].end(SIGKILL);
  all[100].reap();
  mine = join();
  ASSERT_NE(mine, nullptr);
  EXPECT_EQ(mine->used(0), (RecordShape::kSlots - 1) * 512) << "nothing of who had the slot before";
}

TEST_F(Shared, CountsWhatAllProcessesAreBusyWith) {
  const auto mine = join();
  Forked other([this](const Forked::Side& side) {
    const auto machine = join();
    Meter meter;
    meter.move_to(machine->meters(1).busy);
    machine->meters(1).busy.made = 1;  // long ago
    const auto now = Meter::Clock::now();
    meter.begin(now - std::chrono::milliseconds(900));
    meter.end(now - std::chrono::milliseconds(500));
    meter.begin(now);
    side.say('r');
    return static_cast<int>(side.hear());
  });
  ASSERT_EQ(other.side().hear(), 'r');
  Meter meter;
  meter.move_to(mine->meters(1).busy);
  mine->meters(1).busy.made = 1;
  const auto now = Meter::Clock::now();
  meter.begin(now - std::chrono::milliseconds(900));
  meter.end(now - std::chrono::milliseconds(700));
  // Of the 200 ms in which both were busy there are no more than 200; the other one's end and what
  // it does now are there, too.
  EXPECT_NEAR(mine->share(1, &RecordMeters::busy), 0.4, 0.15);
  EXPECT_EQ(mine->share(1, &RecordMeters::memory), 0);
  EXPECT_EQ(mine->share(0, &RecordMeters::busy), 0);
  other.end(SIGKILL);
  other.reap();
  EXPECT_NEAR(mine->share(1, &RecordMeters::busy), 0.2, 0.1) << "what has ended is not busy";
}

TEST_F(Shared, IsLookedAtFromOutside) {
  int looks = 0;
  const auto look = [&](const RecordFile& file) {
    ++looks;
    EXPECT_EQ(file.spec().count, 2);
    EXPECT_EQ(file.spec().memory_bytes, 16 * kMiB);
    EXPECT_EQ(file.processes(0).size(), 1u);
    EXPECT_EQ(file.used(0, true), 2 * kMiB);
    EXPECT_EQ(file.share(0, &RecordMeters::busy), 0);
  };
  EXPECT_EQ(look_at(spec_, look).code(), Code::not_ready);
  Forked other = holder(2 * kMiB);
  ASSERT_EQ(other.side().hear(), 'y');
  const Status status = look_at(spec_, look);
  EXPECT_TRUE(status.ok()) << status.text();
  EXPECT_EQ(looks, 1);
  other.end(SIGKILL);
  other.reap();
  EXPECT_EQ(look_at(spec_, look).code(), Code::not_ready) << "nobody lives there";
  RecordFile::remove_if_empty(path());
  EXPECT_FALSE(is_there());
}

}  // namespace
}  // namespace ember::driver::sim
