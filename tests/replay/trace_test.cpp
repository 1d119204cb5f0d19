// Traces as text, and from snapshots.
#include "ember/replay/trace.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ember/base/error.h"
#include "ember/memory/snapshot_writer.h"

namespace ember::replay {
namespace {

using Action = Entry::Action;

const std::string kExample =
    "ember-trace 1\n"
    "program an example, by hand\n"
    "peak native 1024 2097152\n"
    "peak expandable 1024 2097152\n"
    "+ 800 2097152 0 0\n"
    "a 800 1000 0 0\n"
    "r 800\n"
    "c 800\n"
    "- 800\n"
    "end 5\n";

TEST(Trace, TheTextSaysWhatTheTraceHas) {
  const Trace trace = read_trace(kExample);
  EXPECT_EQ(trace.program, "an example, by hand");
  EXPECT_EQ(trace.native, (Peaks{1024, 2097152}));
  EXPECT_EQ(trace.expandable, (Peaks{1024, 2097152}));
  ASSERT_EQ(trace.entries.size(), 5U);
  EXPECT_EQ(trace.entries[1].action, Action::alloc);
  EXPECT_EQ(trace.entries[1].address, 0x800U * 512);
  EXPECT_EQ(trace.entries[1].size, 1000U);
  EXPECT_EQ(trace.streams(), 1U);
  EXPECT_EQ(trace.places(), 1U);
  EXPECT_EQ(write_trace(trace), kExample);
}

std::string refusal(const std::string& text) {
  try {
    (void)read_trace(text);
  } catch (const ValueError& error) {
    return error.what();
  }
  return "nothing is wrong";
}

TEST(Trace, WhatIsNoneIsRefused) {
  const auto with = [](const std::string& lines) { return "ember-trace 1\n" + lines; };
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"", "it ends after line 0, without 'end'"},
      {"ember-trace 2\n", "line 1: expected 'ember-trace 1', got 'ember-trace 2'"},
      {with(""), "it ends after line 1, without 'end'"},
      {with("end 0"), "line 2: the text ends within it"},
      {with("end 1\n"), "line 2: there are 0 entries"},
      {with("end 0\n\n"), "line 3: expected nothing after 'end'"},
      {with("x\n"), "line 2: expected a, r, c, +, -, m, u, program, peak or end, got 'x'"},
      {with("peak other 1 2\n"), "expected 'native' or 'expandable', got 'other'"},
      {with("peak native 1 2\npeak native 1 2\n"), "line 3: these peaks are there twice"},
      {with("program a\nprogram b\n"), "line 3: the program is there twice"},
      {with("r 8G\n"), "expected an address divided by 512"},
      {with("r -8\n"), "got '-8'"},
      {with("r 8 1\n"), "expected nothing after it, got '1'"},
      {with("+ 8 512 0\n"), "expected a pool, a number below 65536, got ''"},
      {with("+ 8 512 65536 0\n"), "expected a stream, a number below 65536, got '65536'"},
      {with("+ ffffffffffffffffff 512 0 0\n"), "expected an address divided by 512"},
      {with("+ 8 1000 0 0\n"), "a segment of 1000 bytes, expected a multiple of 512"},
      {with("+ 8 1024 0 0\n+ 9 512 0 0\n"), "line 3: a segment that overlaps another one"},
      {with("a 8 512 0 0\n"), "a block that lies in no segment"},
      {with("+ 8 1024 0 0\na 9 513 0 0\n"), "a block that lies in no segment"},
      {with("+ 8 1024 0 0\na 8 0 0 0\n"), "an allocation of no bytes"},
      {with("+ 8 1024 0 0\na 8 600 0 0\na 9 1 0 0\n"), "line 4: a block that overlaps another one"},
      {with("r 8\n"), "a free of what is not in use"},
      {with("+ 8 512 0 0\na 8 1 0 0\nr 8\nr 8\n"), "line 5: a free of what is not in use"},
      {with("+ 8 512 0 0\na 8 1 0 0\nc 8\n"), "line 4: the end of a free that was not asked for"},
      {with("- 8\n"), "no segment that could go back"},
      {with("+ 8 512 0 0\na 8 1 0 0\n- 8\n"), "a segment that goes back with blocks in use"},
      {with("m 8 1000 0 0\n"), "a chunk of 1000 bytes, expected a multiple of 512"},
      {with("m 8 1024 0 0\nm 9 512 0 0\n"), "line 3: a chunk that overlaps another one"},
      {with("m 8 1024 0 0\n+ 9 512 0 0\n"), "line 3: a segment that overlaps another one"},
      {with("m 8 512 0 0\nm 10 512 0 0\na 8 1000 0 0\n"), "a block that lies in no segment"},
      {with("m 8 512 0 0\nu 8\n"), "expected a size, a number below"},
      {with("m 8 512 0 0\nu 8 0\n"), "chunks of 0 bytes, expected a multiple of 512"},
      {with("m 8 512 0 0\nu 8 1024\n"), "line 3: no chunks that could go back"},
      {with("m 8 512 0 0\nu 7 1024\n"), "line 3: no chunks that could go back"},
      {with("+ 8 512 0 0\nu 8 512\n"), "line 3: no chunks that could go back"},
      {with("m 8 512 0 0\nm 9 512 0 0\na 8 1000 0 0\nu 9 512\n"),
       "line 5: chunks that go back with blocks in use"},
      {with("m 8 1536 0 0\nu 9 512\na 9 1 0 0\n"), "line 4: a block that lies in no segment"}};
  for (const auto& [text, expected] : rows)
    EXPECT_NE(refusal(text).find(expected), std::string::npos) << text << "\n" << refusal(text);
}

// Whatever is cut off is missed.
TEST(Trace, TruncatedTextsAreRefused) {
  for (std::size_t size = 0; size < kExample.size(); ++size)
    EXPECT_NE(refusal(kExample.substr(0, size)), "nothing is wrong") << size;
}

/// One entry of a snapshot.
struct Told {
  const char* action;
  std::uint64_t address = 0, size = 0, stream = 0;
  std::uint64_t pool = 0;
};

std::string snapshot_of(const std::vector<Told>& entries) {
  memory::PickleWriter to;
  to.begin_dict();
  to.key("segments"), to.begin_list(), to.end_list();
  to.key("device_traces"), to.begin_list();
  to.begin_list(), to.end_list();  // of device 0
  to.begin_list();
  for (const Told& entry : entries) {
    to.begin_dict();
    to.key("action"), to.text(entry.action);
    to.key("addr"), to.natural(entry.address);
    to.key("size"), to.natural(entry.size);
    to.key("stream"), to.natural(entry.stream);
    if (entry.pool != 0) to.key("pool_id"), to.pair(0, entry.pool);
    to.end_dict();
  }
  to.end_list(), to.end_list(), to.end_dict();
  return std::move(to).pickle();
}

TEST(Trace, IsMadeOfASnapshot) {
  const std::string pickle = snapshot_of({{"free_requested", 4096, 77},  // from before
                                          {"free_completed", 4096, 77},
                                          {"alloc", 4096, 12},
                                          {"segment_alloc", 1 << 20, 2 << 20, 0xABC},
                                          {"alloc", 1 << 20, 1000, 0xABC},
                                          {"snapshot"},
                                          {"segment_alloc", 4 << 20, 2 << 20, 0xABC, 3},
                                          {"segment_alloc", 8 << 20, 2 << 20, 0xDEF, 3},
                                          {"free_requested", 1 << 20, 1000},
                                          {"free_completed", 1 << 20, 1000},
                                          {"segment_free", 1 << 20, 2 << 20}});
  const Trace trace = trace_of_snapshot(pickle, 1);
  EXPECT_EQ(trace.dropped, 3U);
  EXPECT_EQ(write_trace(trace),
            "ember-trace 1\n"
            "+ 800 2097152 0 0\n"
            "a 800 1000 0 0\n"
            "+ 2000 2097152 0 1\n"
            "+ 4000 2097152 1 1\n"
            "r 800\n"
            "c 800\n"
            "- 800\n"
            "end 7\n");
  EXPECT_NO_THROW(read_trace(write_trace(trace)));
}

TEST(Trace, SegmentsMayGrow) {
  const std::string text =
      "ember-trace 1\n"
      "m 800 2097152 0 1\n"
      "m 1800 2097152 0 1\n"
      "a 1000 2097152 0 1\n"  // across both
      "u 800 1048576\n"       // half of the first
      "r 1000\n"
      "c 1000\n"
      "u 1000 3145728\n"
      "end 7\n";
  const Trace trace = read_trace(text);
  EXPECT_TRUE(trace.grows());
  EXPECT_EQ(write_trace(trace), text);
  // Memory that goes back is of the pool that it came for.
  EXPECT_EQ(trace.entries[3].pool, 1U);
  EXPECT_EQ(trace.entries[6].pool, 1U);
  EXPECT_TRUE(trace.empties(3));
}

TEST(Trace, ChunksFromBeforeTheHistoryAreLeftOut) {
  const Trace trace = trace_of_snapshot(snapshot_of({{"segment_map", 4 << 20, 2 << 20},
                                                     {"segment_map", 8 << 20, 2 << 20},
                                                     {"alloc", 3 << 20, 2 << 20},  // begins before
                                                     {"segment_unmap", 2 << 20, 2 << 20},
                                                     {"segment_unmap", 3 << 20, 6 << 20}}),
                                        1);
  EXPECT_EQ(trace.dropped, 3U);
  EXPECT_EQ(write_trace(trace),
            "ember-trace 1\n"
            "m 2000 2097152 0 0\n"
            "m 4000 2097152 0 0\n"
            "u 2000 2097152\n"
            "u 4000 1048576\n"
            "end 4\n");
}

TEST(Trace, SnapshotsWithoutOneAreRefused) {
  const auto refused = [](const std::string& pickle, std::size_t device) -> std::string {
    try {
      (void)trace_of_snapshot(pickle, device);
    } catch (const ValueError& error) {
      return error.what();
    }
    return "nothing is wrong";
  };
  const std::string good = snapshot_of({{"segment_alloc", 1 << 20, 2 << 20}});
  EXPECT_EQ(refused(good, 1), "nothing is wrong");
  EXPECT_NE(refused(good, 0).find("device 0 has no entries"), std::string::npos);
  EXPECT_NE(refused(good, 2).find("device 2 is asked for, and there are 2"), std::string::npos);
  EXPECT_NE(refused("\x80\x02N.", 0).find("expected a dict"), std::string::npos);
  EXPECT_NE(refused(snapshot_of({{"segment_alloc", 1000, 2 << 20}}), 1).find("multiple of 512"),
            std::string::npos);
  EXPECT_NE(refused(snapshot_of({{"segment_alloc", 1 << 20, 100}}), 1).find("entry 0: a segment"),
            std::string::npos);
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_NE(refused(good.substr(0, size), 1), "nothing is wrong") << size;
}

}  // namespace
}  // namespace ember::replay
