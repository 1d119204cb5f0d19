// Chapter 3 and properties S1 to S8.
#include <algorithm>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "ember/runtime/event.h"
#include "ember/runtime/guard.h"
#include "tests/support/devices.h"

namespace ember::cuda {
namespace {

using test::Gate;

TEST(Stream, CopiesAndMovesKeepDeviceAndHandle) {  // S1
  const Stream original;
  const Stream copy = original;  // NOLINT
  EXPECT_EQ(copy, original);
  EXPECT_EQ(copy.native(), original.native());
  EXPECT_EQ(copy.device(), original.device());
  Stream temporary = original;
  const Stream moved = std::move(temporary);
  EXPECT_EQ(moved.native(), original.native());
  EXPECT_EQ(moved.device_index(), original.device_index());
  EXPECT_EQ(moved.stream_id(), original.stream_id());
}

TEST(Stream, CanBeUsedAfterAMove) {
  Stream source;
  const Stream target = std::move(source);
  EXPECT_EQ(source, target);  // NOLINT: moving copies, as documented
  EXPECT_TRUE(source.query());
  set_stream(source);
  set_stream(default_stream());
}

TEST(Stream, SetMakesItCurrent) {  // S2
  const Stream mine;
  EXPECT_NE(mine, default_stream());
  set_stream(mine);
  EXPECT_EQ(current_stream(), mine);
  EXPECT_EQ(current_stream(0), mine);
  set_stream(default_stream());
  EXPECT_EQ(current_stream(), default_stream());
}

TEST(Stream, CurrentIsPerThread) {  // S3
  const Stream mine;
  const StreamGuard guard(mine);
  std::optional<Stream> first;
  std::optional<Stream> second;
  const auto body = [](std::optional<Stream>& out) {
    EXPECT_EQ(current_stream(), default_stream());
    out = Stream();
    set_stream(*out);
    EXPECT_EQ(current_stream(), *out);
  };
  std::thread one([&] { body(first); });
  std::thread two([&] { body(second); });
  one.join();
  two.join();
  EXPECT_NE(*first, *second);
  EXPECT_EQ(current_stream(), mine);
}

TEST(Stream, GuardSwitchesDeviceAndStream) {  // S4
  NEEDS_DEVICES(2);
  const Stream here(0);
  const Stream there(1);
  set_stream(here);
  {
    const StreamGuard guard(there);
    EXPECT_EQ(current_device(), 1);
    EXPECT_EQ(current_stream(), there);
    EXPECT_EQ(current_stream(1), there);
    EXPECT_EQ(current_stream(0), here);
    EXPECT_EQ(guard.original_stream(), here);
    EXPECT_EQ(guard.original_device(), Device("cuda:0"));
    EXPECT_EQ(guard.current_stream(), there);
    EXPECT_EQ(guard.current_device(), Device("cuda:1"));
  }
  EXPECT_EQ(current_device(), 0);
  EXPECT_EQ(current_stream(0), here);
  EXPECT_EQ(current_stream(1), default_stream(1));
  set_stream(default_stream(0));
}

TEST(Stream, DeviceGuardLeavesStreamsAlone) {  // S5
  NEEDS_DEVICES(2);
  const Stream here(0);
  const Stream there(1);
  set_stream(there);
  set_stream(here);
  {
    const DeviceGuard guard(1);
    EXPECT_EQ(current_device(), 1);
    EXPECT_EQ(current_stream(0), here);
    EXPECT_EQ(current_stream(1), there);
    EXPECT_EQ(current_stream(), there);
  }
  EXPECT_EQ(current_stream(), here);
  set_stream(default_stream(1));
  set_stream(default_stream(0));
}

TEST(Stream, ObjectsThatLiveAreDistinct) {  // in place of S6: no silent aliasing
  std::vector<Stream> streams;
  std::set<void*> handles;
  std::set<std::int64_t> ids;
  for (int i = 0; i < 200; ++i) {
    streams.emplace_back(0);
    handles.insert(streams.back().native());
    ids.insert(streams.back().stream_id());
  }
  EXPECT_EQ(handles.size(), 200u);
  EXPECT_EQ(ids.size(), 200u);
}

TEST(Stream, HandlesAreReusedOnceTheObjectDied) {
  std::vector<void*> first;
  {
    std::vector<Stream> streams;
    for (int i = 0; i < 40; ++i) first.push_back(streams.emplace_back(0).native());
  }
  std::vector<Stream> streams;
  for (int i = 0; i < 40; ++i) {
    streams.emplace_back(0);
    EXPECT_TRUE(std::find(first.begin(), first.end(), streams.back().native()) != first.end());
  }
}

TEST(Stream, WorkOfADeadObjectIsStillDone) {
  test::Words<std::uint32_t> log(8);
  {
    Stream stream;
    Gate gate(stream);
    launch(stream, test::log_kernel, test::LogArgs{log.get(), 7});
  }
  const std::vector<std::uint32_t> entries = log.read();
  EXPECT_EQ(entries[0], 1u);
  EXPECT_EQ(entries[1], 7u);
}

TEST(Stream, CurrentFollowsTheCurrentDevice) {  // S7
  NEEDS_DEVICES(2);
  const Stream here(0);
  const Stream there(1);
  set_stream(here);
  set_stream(there);
  EXPECT_EQ(current_device(), 1);
  EXPECT_EQ(current_stream(), there);
  EXPECT_EQ(current_stream(0), here);
  set_device(0);
  EXPECT_EQ(current_stream(), here);
  set_stream(default_stream(1));
  set_stream(default_stream(0));
}

/// A stream made below ember's pool, as a foreign library would make it.
class ForeignStream {
 public:
  explicit ForeignStream(int device = 0) {
    check(test::machine().stream_create(device, 0, handle_));
  }
  ~ForeignStream() { (void)test::machine().stream_destroy(handle_); }
  ForeignStream(const ForeignStream&) = delete;
  ForeignStream& operator=(const ForeignStream&) = delete;
  void* native() const { return handle_.native; }

 private:
  driver::StreamHandle handle_;
};

TEST(ExternalStream, IsAStreamLikeAnyOther) {  // S8
  const ForeignStream foreign;
  const ExternalStream stream(foreign.native(), 0);
  EXPECT_EQ(stream.native(), foreign.native());
  EXPECT_EQ(stream.stream_id(),
            static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(foreign.native())));
  EXPECT_EQ(stream.stream_id() % 2, 0);
  EXPECT_EQ(stream, ExternalStream(foreign.native(), 0));
  set_stream(stream);
  EXPECT_EQ(current_stream().native(), foreign.native());
  EXPECT_EQ(current_stream(), stream);
  set_stream(default_stream());

  test::Words<std::uint32_t> log(8);
  launch(stream, test::log_kernel, test::LogArgs{log.get(), 3});
  stream.synchronize();
  EXPECT_TRUE(stream.query());
  EXPECT_EQ(log.read()[1], 3u);
}

TEST(ExternalStream, NestedGuardsRestore) {  // S8
  const ForeignStream a;
  const ForeignStream b;
  const ForeignStream c;
  const ExternalStream first(a.native());
  const ExternalStream second(b.native());
  const ExternalStream third(c.native());
  {
    StreamGuard outer(first);
    {
      StreamGuard inner(second);
      EXPECT_EQ(current_stream(), second);
      EXPECT_EQ(inner.original_stream(), first);
      inner.reset_stream(third);
      EXPECT_EQ(current_stream(), third);
      EXPECT_EQ(inner.original_stream(), first);
    }
    EXPECT_EQ(current_stream(), first);
    std::thread([] { EXPECT_EQ(current_stream(), default_stream()); }).join();
  }
  EXPECT_EQ(current_stream(), default_stream());
}

TEST(ExternalStream, DifferentOnesOnDifferentDevices) {  // S8
  NEEDS_DEVICES(2);
  const ForeignStream a(0);
  const ForeignStream b(1);
  const ExternalStream first(a.native(), 0);
  const ExternalStream second(b.native(), 1);
  const StreamGuard outer(first);
  const StreamGuard inner(second);
  EXPECT_EQ(current_stream(0), first);
  EXPECT_EQ(current_stream(1), second);
}

TEST(ExternalStream, NullIsTheDefaultStream) {
  EXPECT_EQ(ExternalStream(nullptr, 0), default_stream(0));
}

TEST(StreamId, IsZeroForTheDefaultAndOddForThePool) {
  EXPECT_EQ(default_stream().stream_id(), 0);
  EXPECT_EQ(default_stream().native(), nullptr);
  const Stream stream;
  EXPECT_EQ(stream.stream_id() & 1, 1);
  EXPECT_EQ(Stream::from_id(stream.stream_id(), 0), stream);
  EXPECT_EQ(Stream::from_id(stream.stream_id(), 0).native(), stream.native());
  EXPECT_EQ(Stream::from_id(0, 0), default_stream(0));
}

TEST(StreamId, OfNoLiveStreamIsRefused) {
  std::int64_t id = 0;
  {
    const Stream stream;
    id = stream.stream_id();
  }
  EXPECT_ERROR(Stream::from_id(id, 0), Error, "no live stream");
  EXPECT_ERROR(Stream::from_id((std::int64_t{1} << 40) | 3, 0), Error, "no live stream");
  EXPECT_ERROR(Stream::from_id(-1, 0), Error, "no live stream");
  EXPECT_ERROR(Stream::from_id(2, 0), Error, "no live stream");
}

TEST(StreamPriority, IsClampedToTheRange) {
  const auto [least, greatest] = Stream::priority_range();
  EXPECT_EQ(least, 0);
  EXPECT_LE(greatest, 0);
  EXPECT_GE(greatest, -3);
  EXPECT_EQ(Stream(0).priority(), 0);
  EXPECT_EQ(Stream(0, 5).priority(), 0) << "positive: clamped to the lowest";
  EXPECT_EQ(Stream(0, -100).priority(), greatest) << "beyond: the highest there is";
  EXPECT_EQ(Stream(0, greatest).priority(), greatest);
}

TEST(StreamPriority, IsInEffect) {
  NEEDS_CONCURRENCY();  // and whoever decides by a seed knows no priorities
  // Low-priority streams have far more to do than fits on the device at once. Work of a
  // high-priority stream that becomes ready at the same moment does not wait for all of it.
  constexpr int kStreams = 6;
  constexpr std::uint32_t kPerStream = 16;
  constexpr std::uint32_t kUrgent = 999;
  test::Words<std::uint32_t> log(256);
  const Stream trigger;
  const Stream urgent(0, Stream::priority_range().second);
  if (urgent.priority() == 0) GTEST_SKIP() << "the device has a single priority";
  std::vector<Stream> low;
  {
    const Gate gate(trigger);
    Event go;
    go.record(trigger);
    for (int i = 0; i < kStreams; ++i) {
      low.emplace_back(0, 0);
      go.wait(low.back());
      for (std::uint32_t k = 0; k < kPerStream; ++k)
        launch(low.back(), test::busy_kernel, test::BusyArgs{log.get(), k, 1000, 255});
    }
    go.wait(urgent);
    launch(urgent, test::busy_kernel, test::BusyArgs{log.get(), kUrgent, 1000, 255});
  }
  const std::vector<std::uint32_t> entries = log.read();
  ASSERT_EQ(entries[0], kStreams * kPerStream + 1);
  const auto place = std::find(entries.begin() + 1, entries.end(), kUrgent) - entries.begin();
  EXPECT_LT(place, kStreams * kPerStream / 2);
}

TEST(StreamQuery, TellsWhetherWorkIsDone) {
  const Stream stream;
  EXPECT_TRUE(stream.query());
  Gate gate(stream);
  EXPECT_FALSE(stream.query());
  gate.await_running();
  EXPECT_FALSE(stream.query()) << "running is not done";
  gate.open();
  stream.synchronize();
  EXPECT_TRUE(stream.query());
}

TEST(StreamText, NamesDeviceAndHandle) {
  EXPECT_EQ(default_stream(0).str(), "<torch.cuda.Stream device=cuda:0 cuda_stream=0x0>");
  const Stream stream;
  EXPECT_EQ(stream.str().rfind("<torch.cuda.Stream device=cuda:0 cuda_stream=0x", 0), 0u);
}

TEST(StreamHash, AgreesWithEquality) {
  const Stream stream;
  const Stream same = stream;  // NOLINT
  EXPECT_EQ(std::hash<Stream>()(stream), std::hash<Stream>()(same));
}

TEST(Streams, OfManyThreadsAreDistinct) {
  std::mutex mutex;
  std::set<void*> handles;
  std::vector<Stream> keep;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        Stream stream;
        stream.synchronize();
        const std::lock_guard lock(mutex);
        handles.insert(stream.native());
        keep.push_back(std::move(stream));
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(handles.size(), 160u);
}

}  // namespace
}  // namespace ember::cuda
