// What orders accesses, and what does not: each rule of Note [What orders what] by itself.
#include <gtest/gtest.h>

#include <span>

#include "tests/sanitizer/program.h"

namespace ember::test {
namespace {

using Certainty = Conflict::Certainty;

TEST(Engine, ConflictsNeedAWriteAndNoOrder) {
  Program p;
  p.launch(1, {write(100, 8)});
  p.launch(1, {read(100, 8)});
  EXPECT_EQ(p.conflicts(), 0U) << "one stream is in order";
  p.launch(2, {read(100, 8)});
  ASSERT_EQ(p.conflicts(), 1U);
  EXPECT_TRUE(p.last[0].before.writes);
  EXPECT_FALSE(p.last[0].now.writes);
  EXPECT_EQ(p.last[0].now.operation.stream, Program::handle(2));
  p.launch(3, {read(108, 8)});
  EXPECT_EQ(p.conflicts(), 0U) << "other bytes";
}

TEST(Engine, TwoReadsNeverConflict) {
  Program p;
  p.launch(1, {read(100, 8)});
  p.launch(2, {read(100, 8)});
  EXPECT_EQ(p.conflicts(), 0U);
  p.launch(3, {write(100, 8)});
  EXPECT_EQ(p.conflicts(), 2U) << "but a write conflicts with both";
}

TEST(Engine, WhatIsReadAndWrittenIsWritten) {
  Program p;
  p.launch(1, {write(100, 8), read(100, 8)});
  p.launch(2, {read(100, 8), read(200, 8), write(100, 8)});
  ASSERT_EQ(p.conflicts(), 1U) << "each operation accesses these bytes once";
  EXPECT_TRUE(p.last[0].before.writes);
  EXPECT_TRUE(p.last[0].now.writes);
  EXPECT_EQ(p.last[0].now.arguments.first, 0);
  p.launch(3, {read(100, 8), read(100, 8)});
  EXPECT_EQ(p.conflicts(), 1U) << "two arguments, one read";
  p.launch(3, {read(200, 8)});
  EXPECT_EQ(p.conflicts(), 0U);
  p.launch(4, {read(100, 4), write(104, 4)});
  EXPECT_EQ(p.conflicts(), 3U)
      << "other bytes are another access: a read, and a write of what two use";
}

TEST(Engine, OtherElementsOfOneRangeAreAnotherAccess) {
  Program p;
  const std::int64_t sizes[] = {2, 2}, wide[] = {4, 2}, close[] = {5, 1};
  const auto read_of = [&](std::span<const std::int64_t> strides) {
    Access made = read(100, 28);
    made.item = 4;
    made.sizes = sizes;
    made.strides = strides;
    return made;
  };
  p.launch(1, {write(100, 28)});
  p.launch(2, {read_of(wide), read_of(close), read_of(wide)});
  EXPECT_EQ(p.conflicts(), 2U) << "those of the same elements are one, whatever lies between them";
}

TEST(Engine, AnEventOrdersWhatItsStreamHeldAtTheRecord) {
  Program p;
  p.launch(1, {write(100, 8)});
  p.record(1, 1);
  p.launch(1, {write(200, 8)});
  p.wait(2, 1);
  p.launch(2, {read(100, 8)});
  EXPECT_EQ(p.conflicts(), 0U);
  p.launch(2, {read(200, 8)});
  EXPECT_EQ(p.conflicts(), 1U) << "this came after the record";
}

TEST(Engine, AWaitTakesTheRecordThatThereIs) {
  Program p;
  p.launch(1, {write(100, 8)});
  p.record(1, 1);
  p.wait(2, 1);
  p.record(1, 3);  // recorded again, elsewhere
  p.launch(2, {read(100, 8)});
  EXPECT_EQ(p.conflicts(), 0U);
  p.wait(4, 1);
  p.launch(4, {read(100, 8)});
  EXPECT_EQ(p.conflicts(), 1U);
}

TEST(Engine, AWaitBeforeTheRecordOrdersNothing) {
  Program p;
  p.wait(2, 1);
  p.launch(1, {write(100, 8)});
  p.record(1, 1);
  p.launch(2, {read(100, 8)});
  EXPECT_EQ(p.conflicts(), 1U);
}

TEST(Engine, OrderGoesOnFromStreamToStream) {
  Program p;
  p.launch(1, {write(100, 8)});
  p.record(1, 1);
  p.wait(2, 1);
  p.record(2, 2);
  p.wait(3, 2);
  p.launch(3, {write(100, 8)});
  EXPECT_EQ(p.conflicts(), 0U);
}

TEST(Engine, WaitsOfTheHostOrderWhatComesLater) {
  for (int how = 0; how < 3; ++how) {
    Program p;
    p.launch(1, {write(100, 8)});
    p.record(1, 1);
    if (how == 0) p.synchronize(1);
    if (how == 1) p.synchronize_event(1);
    if (how == 2) p.synchronize_device();
    p.launch(2, {write(100, 8)});
    p.synchronize(2);
    p.host({read(100, 8)});
    EXPECT_EQ(p.conflicts(), 0U) << how;
  }
}

TEST(Engine, AWaitIsForWhatThereWasWhenItBegan) {
  Program p;
  p.begin_wait(1);
  p.thread = 2;
  p.launch(1, {write(100, 8)});  // by another thread, meanwhile
  p.thread = 1;
  p.end_wait(1);
  p.host({read(100, 8)});
  EXPECT_EQ(p.conflicts(), 1U);
}

TEST(Engine, TheDefaultStreamIsAStreamLikeAnyOther) {
  Program p;
  p.launch(0, {write(100, 8)});
  p.launch(1, {read(100, 8)});
  EXPECT_EQ(p.conflicts(), 1U);
  p.synchronize(0);  // not the device
  p.launch(1, {write(200, 8)});
  p.synchronize(0);
  p.host({read(200, 8)});
  EXPECT_EQ(p.conflicts(), 1U);
}

TEST(Engine, StreamsOfTwoDevicesWithOneHandleAreTwo) {
  Program p;
  p.launch(0, {write(100, 8)});
  const Access access = read(100, 8);
  p.tell({.kind = Kind::kernel_launched, .device = 1, .name = "k", .accesses = {&access, 1}});
  EXPECT_EQ(p.conflicts(), 1U);
}

TEST(Engine, AQueryThatHappensToAnswerDoneIsTold) {
  Program p;
  p.launch(1, {write(100, 8)});
  p.record(1, 1);
  p.query(1, false);
  p.launch(2, {read(100, 8)});
  ASSERT_EQ(p.conflicts(), 1U);
  EXPECT_EQ(p.last[0].certainty, Certainty::certain);
  p.query(1, true);
  p.launch(3, {read(100, 8)});
  ASSERT_EQ(p.conflicts(), 1U);
  EXPECT_EQ(p.last[0].certainty, Certainty::by_query);
  p.synchronize_event(1);
  p.launch(4, {read(100, 8)});
  EXPECT_EQ(p.conflicts(), 0U);
}

TEST(Engine, TheHostConflictsWithWorkInFlight) {
  Program p;
  p.launch(1, {read(100, 8)});
  p.host({read(100, 8)});
  EXPECT_EQ(p.conflicts(), 0U);
  p.host({write(100, 8)});
  EXPECT_EQ(p.conflicts(), 1U);
  p.launch(1, {write(100, 8)});
  EXPECT_EQ(p.conflicts(), 0U) << "work comes after what its thread did before";
}

TEST(Engine, ThreadsAreOneOrApart) {
  Program one;
  Program apart(cuda::sanitizer::Threads::apart);
  for (Program* p : {&one, &apart}) {
    p->launch(1, {write(100, 8)});
    p->synchronize(1);
    p->thread = 2;
    p->launch(2, {write(100, 8)});
  }
  EXPECT_EQ(one.conflicts(), 0U);
  EXPECT_EQ(apart.conflicts(), 1U) << "the second thread was not told";
}

// ---- Memory

TEST(Engine, MemoryThatIsUsedAgainBeforeItsWorkIsDone) {
  for (const bool ordered : {false, true}) {
    Program p;
    p.ordered = ordered;
    p.allocate(4096, 512, 1);
    p.launch(2, {read(4096, 512)});
    p.free(4096, 1);
    p.allocate(4096, 512, 1);
    EXPECT_EQ(p.conflicts(), 0U) << "nobody has touched it yet";
    p.launch(1, {write(4096, 512)});
    ASSERT_EQ(p.conflicts(), 1U) << ordered;
    EXPECT_EQ(p.last[0].kind, Conflict::Kind::reuse);
    EXPECT_EQ(p.last[0].allocation, at(4096));
  }
}

TEST(Engine, MemoryIsFreeForTheWorkOfTheStreamThatGetsItAlone) {
  for (const bool ordered : {false, true}) {
    Program p;
    p.ordered = ordered;
    p.allocate(4096, 512, 1);
    p.launch(1, {write(4096, 512)});
    p.free(4096, 1);
    p.allocate(4096, 512, 1);
    p.launch(1, {read(4096, 512)});
    EXPECT_EQ(p.conflicts(), 0U) << ordered;
    p.launch(2, {write(4096, 512)});  // not behind stream 1, which may still write
    ASSERT_EQ(p.conflicts(), 2U) << ordered;
    EXPECT_EQ(p.last[0].kind, Conflict::Kind::race);
    EXPECT_EQ(p.last[1].kind, Conflict::Kind::reuse);
  }
}

TEST(Engine, MemoryInTheOrderOfStreamsIsFreeForTheStreamThatGetsIt) {
  Program p;
  p.ordered = true;
  p.allocate(4096, 512, 1);
  p.launch(1, {write(4096, 512)});
  p.launch(3, {read(8192, 8)});
  p.free(4096, 1);
  p.allocate(4096, 256, 2);  // which the driver has wait for the free
  p.launch(2, {write(4096, 256)});
  EXPECT_EQ(p.conflicts(), 0U);
  p.record(1, 2);
  p.wait(4, 1);
  p.launch(4, {write(4096, 256)});
  EXPECT_EQ(p.conflicts(), 0U) << "and who is behind that stream";
  p.allocate(4096 + 256, 256, 5);
  p.launch(5, {write(4096 + 256, 256)});
  EXPECT_EQ(p.conflicts(), 0U) << "the other half is as free";
  p.launch(3, {write(4096 + 256, 256)});
  EXPECT_EQ(p.conflicts(), 1U) << "stream 3 waits for nobody";
}

TEST(Engine, RecordStreamKeepsMemoryUntilItsWorkIsDone) {
  Program p;
  p.allocate(4096, 512, 1);
  p.launch(2, {read(4096, 512)});
  p.tell({.kind = Kind::memory_stream_recorded,
          .peer = 0,
          .stream = Program::handle(2),
          .address = at(4096)});
  p.free(4096, 1);
  p.allocate(4096, 512, 1);
  p.launch(1, {write(4096, 512)});
  EXPECT_EQ(p.conflicts(), 0U);
}

TEST(Engine, APartOfFreedMemoryIsKnownAgain) {
  Program p;
  p.allocate(4096, 1024, 1);
  p.launch(2, {write(4096 + 512, 512)});
  p.free(4096, 1);
  p.allocate(4096, 512, 1);
  p.launch(1, {write(4096, 512)});
  EXPECT_EQ(p.conflicts(), 0U) << "the other half";
  p.allocate(4096 + 512, 512, 1);
  p.launch(1, {write(4096 + 512, 512)});
  EXPECT_EQ(p.conflicts(), 1U);
}

TEST(Engine, UseAfterFree) {
  Program p;
  p.allocate(4096, 512);
  p.free(4096);
  p.launch(0, {read(4096, 8)});
  ASSERT_EQ(p.conflicts(), 1U);
  EXPECT_EQ(p.last[0].kind, Conflict::Kind::use_after_free);
}

TEST(Engine, PinnedMemoryHandedOutUnderACopy) {
  const auto hand_out = [](Program& p, Kind kind) {
    p.tell({.kind = kind, .address = at(8192), .bytes = 512, .requested = 500});
  };
  for (const bool recorded : {false, true}) {
    Program p;
    hand_out(p, Kind::pinned_handed_out);
    p.launch(1, {read(8192, 500)}, "copy");
    if (recorded)
      p.tell({.kind = Kind::pinned_stream_recorded,
              .stream = Program::handle(1),
              .address = at(8192)});
    hand_out(p, Kind::pinned_returned);
    EXPECT_EQ(p.conflicts(), 0U);
    hand_out(p, Kind::pinned_handed_out);
    EXPECT_EQ(p.conflicts(), recorded ? 0U : 1U);
  }
}

// The allocator joins what is free, once what it was recorded for is done.
TEST(Engine, PinnedMemoryHandedOutWhereTwoBlocksWere) {
  for (const int recorded : {0, 1, 2}) {
    Program p;
    for (const int number : {1, 2}) {
      const std::uintptr_t address = 8192 + 512 * (number - 1);
      p.tell({.kind = Kind::pinned_handed_out,
              .address = at(address),
              .bytes = 512,
              .requested = 500});
      p.launch(number, {read(address, 500)}, "copy");
      if (number <= recorded)
        p.tell({.kind = Kind::pinned_stream_recorded,
                .stream = Program::handle(number),
                .address = at(address)});
      p.tell({.kind = Kind::pinned_returned, .address = at(address), .bytes = 512});
    }
    EXPECT_EQ(p.conflicts(), 0U);
    p.tell(
        {.kind = Kind::pinned_handed_out, .address = at(8192), .bytes = 1024, .requested = 1000});
    EXPECT_EQ(p.conflicts(), static_cast<std::size_t>(2 - recorded));
  }
}

TEST(Engine, ACopyOfOrdinaryMemoryHasReadItWhenItReturns) {
  Program p;
  const Access accesses[] = {{at(4096), 64, true, Access::Memory::device},
                             {at(100), 64, false, Access::Memory::ordinary}};
  p.tell({.kind = Kind::copied, .stream = Program::handle(1), .accesses = accesses});
  p.host({write(100, 64)});
  EXPECT_EQ(p.conflicts(), 0U);
  const Access back[] = {{at(100), 64, true, Access::Memory::ordinary},
                         {at(4096), 64, false, Access::Memory::device}};
  p.tell({.kind = Kind::copied, .stream = Program::handle(1), .accesses = back});
  p.host({read(100, 64)});
  EXPECT_EQ(p.conflicts(), 1U) << "that it was written nothing promises";
}

TEST(Engine, AResetIsTheEndOfAllWork) {
  Program p;
  p.launch(1, {write(100, 8)});
  p.tell({.kind = Kind::device_reset});
  p.host({write(100, 8)});
  p.launch(2, {write(100, 8)});
  EXPECT_EQ(p.conflicts(), 0U);
}

TEST(Engine, CountsWhatItCannotCheck) {
  Program p;
  p.launch(1, {write(100, 8)});
  p.tell({.kind = Kind::kernel_launched, .stream = Program::handle(1), .name = "unknown"});
  p.tell({.kind = Kind::kernel_launched,
          .stream = Program::handle(1),
          .name = "sleep",
          .accesses_known = true});
  EXPECT_EQ(p.engine.checked(), 2U);
  EXPECT_EQ(p.engine.unchecked(), 1U);
}

TEST(Engine, WhatEverybodyKnowsIsForgotten) {
  Program p;
  for (int i = 0; i < 100000; ++i) {
    p.launch(1 + i % 3, {write(static_cast<std::uintptr_t>(i) * 64, 64)});
    if (i % 1000 == 0) p.synchronize_device();
  }
  EXPECT_LT(p.engine.entries(), 5000U);
  EXPECT_EQ(p.conflicts(), 0U);
}

}  // namespace
}  // namespace ember::test
