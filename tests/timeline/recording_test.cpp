// What is recorded of work, waits and ranges, on every kind of device.
#include <optional>
#include <thread>

#include "ember/driver/kernels.h"
#include "ember/nvtx/nvtx.h"
#include "ember/runtime/event.h"
#include "ember/runtime/guard.h"
#include "ember/sanitizer/sanitizer.h"
#include "ember/timeline/timeline.h"
#include "tests/support/child.h"
#include "tests/support/devices.h"
#include "tests/timeline/recorded.h"

namespace ember::cuda {
namespace {

using test::arrows_of;
using test::Gate;
using test::names_of;
using test::Picture;
using test::Pinned;
using test::Recorded;
using test::Slice;
using test::SliceKind;
using test::Track;
using test::track_with;
using test::Words;
using Names = std::vector<std::string>;

/// A kernel by name that takes `cycles` on the device.
void work(const Stream& stream, Name name, std::uint64_t cycles = 10,
          std::span<const Access> accesses = no_accesses()) {
  const driver::kernels::SleepArgs args{cycles};
  const Kernel kernel{name, driver::kernels::sleep.host, driver::kernels::sleep.cuda};
  launch(stream, kernel, Params(args), accesses);
}

void expect_one_after_the_other(const Track& track) {
  for (std::size_t i = 0; i < track.slices.size(); ++i) {
    EXPECT_LE(track.slices[i].begin, track.slices[i].end);
    if (i > 0) {
      EXPECT_LE(track.slices[i - 1].end, track.slices[i].begin);
    }
  }
}

TEST(Recording, AStreamsWorkIsInOrderWithNamesAndBytes) {
  const Stream stream(0);
  const Words<int> memory(1000);
  const Pinned<int> host(1000);
  const Recorded recorded;
  fill_async(memory.get(), 1, 4000, stream);
  work(stream, "first");
  copy_async(host.get(), memory.get(), 400, stream);
  copy_async(memory.get() + 500, host.get(), 800, stream);
  copy_async(memory.get() + 500, memory.get(), 1200, stream);
  host_function([] {}, stream, {});
  stream.synchronize();

  const Picture picture = recorded.picture();
  const Track track = track_with(picture, 0, "first");
  EXPECT_EQ(names_of(picture, track), (Names{"fill", "first", "copy DtoH (pinned)",
                                             "copy HtoD (pinned)", "copy DtoD", "host function"}));
  EXPECT_EQ(track.name, "stream " + std::to_string(stream.stream_id()));
  ASSERT_EQ(track.slices.size(), 6U);
  const std::vector<std::uint64_t> bytes{4000, 0, 400, 800, 1200, 0};
  const std::vector<SliceKind> kinds{SliceKind::fill, SliceKind::kernel, SliceKind::copy,
                                     SliceKind::copy, SliceKind::copy,   SliceKind::host_function};
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(track.slices[i].bytes, bytes[i]);
    EXPECT_EQ(track.slices[i].kind, kinds[i]);
    EXPECT_FALSE(track.slices[i].unfinished || track.slices[i].faulted);
  }
  expect_one_after_the_other(track);
  EXPECT_EQ(picture.counts.waiting + picture.counts.dropped + picture.counts.over, 0U);
}

TEST(Recording, ATrackForEachStreamAndDevice) {
  NEEDS_DEVICES(2);
  const Stream a(0);
  const Stream b(0);
  const Recorded recorded;
  work(a, "on a");
  work(b, "on b");
  work(default_stream(0), "on the default stream");
  work(default_stream(1), "on the other device");
  synchronize(0);
  synchronize(1);
  const Picture picture = recorded.picture();
  EXPECT_EQ(track_with(picture, 0, "on a").slices.size(), 1U);
  EXPECT_EQ(track_with(picture, 0, "on b").slices.size(), 1U);
  EXPECT_EQ(track_with(picture, 0, "on the default stream").name, "default stream");
  EXPECT_EQ(track_with(picture, 1, "on the other device").name, "default stream");
  // The host's first, then by device, the default stream before others.
  std::vector<std::pair<int, bool>> order;
  for (const Track& track : picture.tracks)
    order.emplace_back(track.device, track.device >= 0 && track.name != "default stream");
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST(Recording, KernelsTakeTheirTime) {
  const Stream stream(0);
  work(stream, "warm");
  stream.synchronize();
  const Recorded recorded;
  work(stream, "long", 20'000'000);
  stream.synchronize();
  const Picture picture = recorded.picture();
  const Track track = track_with(picture, 0, "long");
  ASSERT_EQ(track.slices.size(), 1U);
  // 20 million cycles, of 2 GHz at most on real devices; the host that waited saw its end.
  EXPECT_GE(track.slices[0].end - track.slices[0].begin, 10'000'000);
}

TEST(Recording, ArrowsLeadFromWhatIsWaitedForToWhatWaits) {
  const Stream a(0);
  const Stream b(0);
  const Stream c(0);
  const Recorded recorded;
  Event event;
  work(a, "a1");
  event.record(a);
  work(a, "a2");
  event.wait(b);
  work(b, "b1");
  work(b, "b2");
  // Through a stream that does nothing in between, and from an event that stands for two streams'
  // work.
  c.wait_stream(b);
  event.record(c);
  event.wait(a);
  work(a, "a3");
  // A stream that waits for itself, and for what was recorded before any work, waits for nothing.
  a.wait_stream(a);
  work(a, "a4");
  a.synchronize();
  const Picture picture = recorded.picture();
  Names found = arrows_of(picture);
  std::erase_if(found, [](const std::string& each) { return each.find("wait") != each.npos; });
  EXPECT_EQ(found, (Names{"a1 -> b1", "b2 -> a3"}));
  for (const test::Arrow& arrow : picture.arrows) {
    const Track& to = picture.tracks[arrow.to_track];
    if (to.device < 0 && !is_simulated()) continue;  // the host's clock, to which events are fitted
    EXPECT_LE(picture.tracks[arrow.from_track].slices[arrow.from].end, to.slices[arrow.to].end);
  }
}

TEST(Recording, ARecordMadeAgainStandsForTheNewWork) {
  const Stream a(0);
  const Stream b(0);
  const Recorded recorded;
  Event event;
  work(a, "before");
  event.record(a);
  work(a, "after");
  event.record(a);
  event.wait(b);
  work(b, "waits");
  synchronize(0);
  EXPECT_EQ(arrows_of(recorded.picture()), (Names{"after -> waits"}));
}

TEST(Recording, WaitsOfTheHostSayForWhat) {
  const Stream stream(0);
  Event event;
  const Recorded recorded;
  work(stream, "one");
  stream.synchronize();
  work(stream, "two");
  event.record(stream);
  event.synchronize();
  synchronize(0);
  work(default_stream(0), "three");
  default_stream(0).synchronize();
  std::thread([&] { stream.synchronize(); }).join();

  const Picture picture = recorded.picture();
  const std::string name = "stream " + std::to_string(stream.stream_id());
  const std::string wait = "wait for " + name + " of cuda:0";
  const Track mine = track_with(picture, -1, "wait for cuda:0");
  EXPECT_EQ(names_of(picture, mine), (Names{wait, "wait for an event of cuda:0", "wait for cuda:0",
                                            "wait for default stream of cuda:0"}));
  expect_one_after_the_other(mine);
  for (const Slice& slice : mine.slices) EXPECT_EQ(slice.kind, SliceKind::wait);
  std::size_t threads = 0;
  for (const Track& track : picture.tracks) threads += track.device < 0 ? 1 : 0;
  EXPECT_EQ(threads, 2U);
  const Names arrows = arrows_of(picture);
  EXPECT_NE(std::find(arrows.begin(), arrows.end(), "one -> " + wait), arrows.end());
  EXPECT_NE(std::find(arrows.begin(), arrows.end(), "two -> wait for an event of cuda:0"),
            arrows.end());
  EXPECT_NE(std::find(arrows.begin(), arrows.end(), "three -> wait for default stream of cuda:0"),
            arrows.end());
}

TEST(Recording, CopiesOfOrdinaryMemoryAreWaits) {
  const Stream stream(0);
  const Words<int> memory(100);
  std::vector<int> host(100);
  const Recorded recorded;
  work(stream, "before", 1000);
  copy_async(host.data(), memory.get(), 400, stream);
  // The copy has been waited for; on real devices the event behind it, which says when, has not.
  while (!stream.query()) std::this_thread::yield();
  const Picture picture = recorded.picture();
  const Track waits = track_with(picture, -1, "wait for copy DtoH (pageable)");
  const Track device = track_with(picture, 0, "copy DtoH (pageable)");
  ASSERT_EQ(waits.slices.size(), 1U);
  ASSERT_EQ(device.slices.size(), 2U);
  EXPECT_EQ(waits.slices[0].kind, SliceKind::wait);
  EXPECT_LE(waits.slices[0].begin, waits.slices[0].end);
  EXPECT_EQ(arrows_of(picture), (Names{"copy DtoH (pageable) -> wait for copy DtoH (pageable)"}));
  if (!is_simulated()) return;  // one clock, and no rounding
  EXPECT_LE(waits.slices[0].begin, device.slices[1].begin);
  EXPECT_GE(waits.slices[0].end, device.slices[1].end);
}

TEST(Recording, AWaitEndsAfterTheWorkThatItIsFor) {
  NEEDS_CONCURRENCY();
  const Stream stream(0);
  const Recorded recorded;
  work(stream, "work", 2'000'000);
  stream.synchronize();
  const Picture picture = recorded.picture();
  const Track device = track_with(picture, 0, "work");
  ASSERT_EQ(picture.arrows.size(), 1U);
  const test::Arrow arrow = picture.arrows[0];
  const Slice& wait = picture.tracks[arrow.to_track].slices[arrow.to];
  ASSERT_EQ(device.slices.size(), 1U);
  if (!is_simulated()) return;  // one clock, and no rounding
  EXPECT_LE(device.slices[0].end, wait.end);
}

TEST(Recording, RangesNestOnTheirThreadsTrack) {
  const Recorded recorded;
  const nvtx::Domain io("timeline.io");
  nvtx::range_push("outer");
  nvtx::range_push("inner");
  io.range_push("of a domain");
  nvtx::mark("now");
  nvtx::range_pop();
  const nvtx::RangeId one = nvtx::range_start("one");
  const nvtx::RangeId two = nvtx::range_start("two");
  nvtx::range_pop();
  nvtx::range_end(one);
  nvtx::range_end(two);
  io.range_pop();
  nvtx::range_pop();  // belongs to nothing
  nvtx::range_push("open");

  const Picture picture = recorded.picture();
  const Track stack = track_with(picture, -1, "outer");
  EXPECT_EQ(names_of(picture, stack), (Names{"outer", "inner", "now", "open"}));
  ASSERT_EQ(stack.slices.size(), 4U);
  EXPECT_LE(stack.slices[0].begin, stack.slices[1].begin);
  EXPECT_GE(stack.slices[0].end, stack.slices[1].end);
  EXPECT_EQ(stack.slices[2].kind, SliceKind::mark);
  EXPECT_EQ(stack.slices[2].begin, stack.slices[2].end);
  EXPECT_TRUE(stack.slices[3].unfinished);
  EXPECT_FALSE(stack.overlapping);
  const Track free = track_with(picture, -1, "one");
  EXPECT_EQ(names_of(picture, free), (Names{"one", "two"}));
  EXPECT_TRUE(free.overlapping);
  EXPECT_NE(track_with(picture, -1, "of a domain").name.find("timeline.io"), std::string::npos);
  nvtx::range_pop();
}

TEST(Recording, BeyondTheLimitIsCounted) {
  const Stream a(0);
  const Stream b(0);
  const Recorded recorded(10);
  for (int i = 0; i < 8; ++i) work(a, "kept");
  nvtx::range_push("kept, and open");
  nvtx::range_push("kept, too");
  nvtx::range_push("not kept");
  work(a, "not kept");
  b.wait_stream(a);
  work(b, "not kept");
  nvtx::range_pop();
  nvtx::range_pop();
  nvtx::range_pop();
  b.synchronize();
  const Picture picture = recorded.picture();
  EXPECT_EQ(picture.counts.slices, 10U);
  EXPECT_EQ(picture.counts.over, 4U);  // with the wait
  EXPECT_TRUE(picture.arrows.empty()) << "an arrow to or from what is not kept";
  for (const Track& track : picture.tracks)
    for (const Slice& slice : track.slices) EXPECT_EQ(picture.names[slice.name].find("kept"), 0U);
}

TEST(Recording, WhatRunsIsUnfinishedAndWhatWaitsIsCounted) {
  NEEDS_CONCURRENCY();
  if (!is_simulated()) GTEST_SKIP() << "events say nothing of work that runs";
  const Stream stream(0);
  const Recorded recorded;
  {
    Gate gate(stream);
    work(stream, "behind the gate");
    gate.await_running();
    const Picture picture = recorded.picture();
    ASSERT_EQ(picture.counts.slices, 1U);
    EXPECT_TRUE(picture.tracks.back().slices[0].unfinished);
    EXPECT_EQ(picture.counts.waiting, 1U);
  }
  stream.synchronize();
  const Picture picture = recorded.picture();
  EXPECT_EQ(track_with(picture, 0, "behind the gate").slices.size(), 2U);
  EXPECT_EQ(picture.counts.waiting, 0U);
}

TEST(Recording, ARecorderMayGoBeforeTheWork) {
  const Stream stream(0);
  std::optional<Recorded> recorded(std::in_place);
  Gate gate(stream);
  for (int i = 0; i < 20; ++i) work(stream, "late");
  recorded.reset();
  gate.open();
  stream.synchronize();
}

TEST(Recording, TwoAndTheSanitizerSeeTheSame) {
  const Stream stream(0);
  const Words<int> memory(64);
  Sanitizer sanitizer({.print = false});
  const Recorded first;
  work(stream, "seen by one");
  const Recorded second;
  // A race that is declared, and in which nothing is touched.
  const Access all = writes(memory.get(), 64);
  work(stream, "writes", 10, {&all, 1});
  work(stream, "seen by both");
  work(default_stream(0), "writes", 10, {&all, 1});
  synchronize(0);
  const Picture one = first.picture();
  const Picture two = second.picture();
  EXPECT_EQ(names_of(one, track_with(one, 0, "seen by both")),
            (Names{"seen by one", "writes", "seen by both"}));
  EXPECT_EQ(names_of(two, track_with(two, 0, "seen by both")), (Names{"writes", "seen by both"}));
  EXPECT_EQ(sanitizer.summary().races, 1U);
}

TEST(Recording, StreamsThatComeAndGoShareTracks) {
  const Recorded recorded;
  for (int i = 0; i < 100; ++i) {
    const Stream stream(0);
    work(stream, "short");
    stream.synchronize();
  }
  const Picture picture = recorded.picture();
  EXPECT_EQ(picture.counts.slices, 200U);
  EXPECT_LE(picture.tracks.size(), 34U);  // 32 queues of the pool, the host's, the default stream
}

TEST(Recording, ManyThreadsAtOnce) {
  const Recorded recorded(100'000);
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([] {
      const Stream stream(0);
      for (int i = 0; i < 100; ++i) {
        const nvtx::ScopedRange range("step");
        work(stream, "threads'");
        if (i % 10 == 0) stream.synchronize();
      }
      stream.synchronize();
    });
  for (std::thread& each : threads) each.join();
  synchronize(0);
  const Picture picture = recorded.picture();
  EXPECT_EQ(picture.counts.slices, 4U * (100 + 100 + 11) + 1);
  for (const Track& track : picture.tracks)
    if (track.device >= 0) expect_one_after_the_other(track);
}

// ---- Where a seed decides

void expect_exact_times() {
  unsetenv("CUDA_VISIBLE_DEVICES");
  simulate(1);
  sim::schedule("random:3");
  const Stream stream(0);
  const Words<char> memory(100'000);
  synchronize(0);
  for (int run = 0; run < 3; ++run) {
    if (run > 0) sim::begin_run(7);
    const Recorded recorded;
    work(stream, "sleeps", 777);
    fill_async(memory.get(), 1, 100'000, stream);
    copy_async(memory.get(), memory.get() + 50'000, 50'000, stream);
    launch(stream, "kernel", {}, [](const HostLaunch&) {});
    host_function([] {}, stream, {});
    stream.synchronize();
    const Picture picture = recorded.picture();
    const Track track = track_with(picture, 0, "sleeps");
    ASSERT_EQ(track.slices.size(), 5U);
    // docs/order.md: 3 us a kernel, 10 a host function, 2 and a share of 1 TB/s for bytes.
    const std::vector<std::int64_t> lengths{777, 2100, 2050, 3000, 10000};
    for (std::size_t i = 0; i < 5; ++i)
      EXPECT_EQ(track.slices[i].end - track.slices[i].begin, lengths[i]) << i;
    expect_one_after_the_other(track);
    // Calls take a microsecond each, and the first one is made at the beginning.
    EXPECT_GE(track.slices[0].begin, 1000);
    EXPECT_LE(track.slices[4].end, 6 * 1000 + 777 + 2100 + 2050 + 3000 + 10000);
  }
}

TEST(RecordingSeeded, TimesAreThoseOfTheRun) { IN_CHILD(expect_exact_times()); }

TEST(RecordingSeeded, TheSameSeedGivesTheSamePicture) {
  IN_CHILD({
    unsetenv("CUDA_VISIBLE_DEVICES");
    simulate(1);
    sim::schedule("random:0");
    const Stream a(0);
    const Stream b(0);
    std::vector<std::vector<std::int64_t>> seen;
    for (int run = 0; run < 4; ++run) {
      sim::begin_run(run < 2 ? 11 : 12);
      const Recorded recorded;
      for (int i = 0; i < 20; ++i) work(i % 2 == 0 ? a : b, "work", 100 * (i + 1));
      synchronize(0);
      const Picture picture = recorded.picture();
      std::vector<std::int64_t>& times = seen.emplace_back();
      for (const Track& track : picture.tracks)
        for (const Slice& slice : track.slices) times.insert(times.end(), {slice.begin, slice.end});
    }
    EXPECT_EQ(seen[0], seen[1]);
    EXPECT_EQ(seen[2], seen[3]);
    EXPECT_NE(seen[0], seen[2]);
  });
}

// ---- Faults and resets

TEST(RecordingSimulated, FaultsAndResetsShow) {
  if (!is_simulated()) GTEST_SKIP() << "a fault of a real device ends it for the process";
  const Stream stream(0);
  const Recorded recorded;
  work(stream, "fine");
  {
    const Gate gate(stream);
    launch(stream, "bad", {},
           [](const HostLaunch&) { return Status(Code::illegal_address, "on purpose"); });
    work(stream, "never");
  }
  EXPECT_THROW(stream.synchronize(), AcceleratorError);
  EXPECT_THROW(work(stream, "refused"), AcceleratorError);
  reset_device(0);
  const Stream fresh(0);
  work(fresh, "after the reset");
  fresh.synchronize();
  const Picture picture = recorded.picture();
  const Track track = track_with(picture, 0, "bad");
  for (const Slice& slice : track.slices)
    EXPECT_EQ(slice.faulted, picture.names[slice.name] == "bad");
  EXPECT_EQ(picture.counts.dropped, 1U);
  EXPECT_TRUE(track_with(picture, 0, "never").slices.empty());
  EXPECT_TRUE(track_with(picture, 0, "refused").slices.empty());
  EXPECT_EQ(track_with(picture, 0, "after the reset").slices.empty(), false);
}

}  // namespace
}  // namespace ember::cuda
