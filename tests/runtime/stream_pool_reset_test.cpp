// What resets of a device leave in the pool of its streams.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "ember/base/error.h"
#include "ember/runtime/stream.h"
#include "tests/support/child.h"
#include "tests/support/devices.h"

namespace ember::cuda {
namespace {

/// Where the pool keeps it: bits 5 to 39 of its id.
std::int64_t place_of(std::int64_t id) { return (id >> 5) & ((std::int64_t{1} << 35) - 1); }

TEST(StreamPoolReset, ManyResetsNeedNoMorePlacesThanOne) {
  IN_CHILD({
    constexpr int kStreams = 5;
    std::int64_t last = 0;
    for (int round = 0; round < 20; ++round) {
      std::vector<Stream> idle;
      for (int i = 0; i < kStreams; ++i) idle.emplace_back(0);
      idle.pop_back();
      for (const Stream& stream : idle) last = std::max(last, place_of(stream.stream_id()));
      // Some are idle when the device is reset, others still have owners.
      const Stream owned(0);
      if (round % 2 == 0) idle.clear();
      reset_device(0);
      EXPECT_ERROR(owned.synchronize(), AcceleratorError, "context is destroyed");
    }
    EXPECT_LE(last, 2 * kStreams);
    const Stream stream(0);
    EXPECT_TRUE(stream.query()) << "and they work";
  });
}

TEST(StreamPoolReset, AnIdFromBeforeNamesNoLaterStream) {
  IN_CHILD({
    std::int64_t before = 0;
    {
      const Stream stream(0);
      before = stream.stream_id();
    }
    reset_device(0);
    const Stream stream(0);
    EXPECT_EQ(place_of(stream.stream_id()), place_of(before)) << "the place is used again";
    EXPECT_NE(stream.stream_id(), before);
    EXPECT_ERROR(Stream::from_id(before, 0), Error, "no live stream");
    EXPECT_EQ(Stream::from_id(stream.stream_id(), 0), stream);
  });
}

TEST(StreamPoolReset, AStreamWithOwnersKeepsItsPlace) {
  IN_CHILD({
    const Stream old(0);
    const std::int64_t id = old.stream_id();
    reset_device(0);
    const Stream young(0);
    EXPECT_NE(place_of(young.stream_id()), place_of(id));
    EXPECT_EQ(old.stream_id(), id);
    EXPECT_NE(old, young);
  });
}

}  // namespace
}  // namespace ember::cuda
