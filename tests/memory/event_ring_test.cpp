// The ring of a history's entries: what is kept, and in how much memory.
#include "ember/memory/event_ring.h"

#include <gtest/gtest.h>

#include <vector>

namespace ember::memory {
namespace {

std::vector<cuda::MemoryEvent> kept(const EventRing& ring) {
  std::vector<cuda::MemoryEvent> events;
  ring.copy_to(events);
  return events;
}

TEST(EventRing, KeepsTheLastOnesWhateverTheirNumber) {
  constexpr std::size_t chunk = EventRing::kChunk;
  for (const std::size_t most :
       {std::size_t{0}, std::size_t{1}, chunk - 1, chunk, chunk + 1, 3 * chunk + 7}) {
    EventRing ring;
    ring.keep(most);
    for (std::size_t i = 0; i < 5 * chunk + 3; ++i) {
      ring.add({.size = i});
      ASSERT_LE(ring.chunks(), most / chunk + 3);
    }
    const std::vector<cuda::MemoryEvent> events = kept(ring);
    ASSERT_EQ(events.size(), most);
    ASSERT_EQ(ring.size(), most);
    for (std::size_t i = 0; i < most; ++i) {
      ASSERT_EQ(events[i].sequence, 5 * chunk + 3 - most + i);
      ASSERT_EQ(events[i].size, events[i].sequence);
    }
    EXPECT_EQ(ring.total(), 5 * chunk + 3);
  }
}

TEST(EventRing, AHundredMillionEntriesNeedNoMoreThanAThousand) {
  EventRing ring;
  ring.keep(10'000);
  std::size_t most = 0;
  for (int i = 0; i < 100'000'000; ++i) ring.add({});
  most = ring.chunks();
  EXPECT_LE(most, 10'000 / EventRing::kChunk + 3);
  EXPECT_EQ(ring.total(), 100'000'000U);
}

TEST(EventRing, KeepsLessOrNothingWhenAsked) {
  EventRing ring;
  ring.keep(5000);
  for (std::size_t i = 0; i < 5000; ++i) ring.add({});
  ring.keep(10);
  EXPECT_EQ(kept(ring).front().sequence, 4990U);
  ring.clear();
  EXPECT_EQ(ring.size(), 0U);
  EXPECT_EQ(ring.chunks(), 0U);
  ring.add({});
  EXPECT_EQ(kept(ring).front().sequence, 5000U);
}

}  // namespace
}  // namespace ember::memory
