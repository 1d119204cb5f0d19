// Reads of what was never written: the set of bytes, against a model, and when the engine reports.
#include "ember/sanitizer/written.h"

#include <gtest/gtest.h>

#include <bitset>
#include <random>

#include "tests/sanitizer/program.h"

namespace ember::test {
namespace {

using cuda::sanitizer::bytes_of;
using cuda::sanitizer::Written;

constexpr std::uintptr_t kBase = 4096;

/// An access with steps, and the bytes that it touches, found by counting through all elements.
struct Strided {
  std::vector<std::int64_t> sizes, strides;
  std::uint32_t item = 1;
  std::uintptr_t first = 0;

  Access access(bool writes) const {
    std::int64_t last = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) last += (sizes[i] - 1) * strides[i];
    Access made{at(kBase + first), static_cast<std::size_t>(last + 1) * item, writes};
    made.sizes = sizes;
    made.strides = strides;
    made.item = item;
    return made;
  }
  template <class Visit>
  void each_byte(const Visit& visit, std::size_t dim = 0, std::int64_t element = 0) const {
    if (dim == sizes.size()) {
      for (std::uint32_t i = 0; i < item; ++i)
        visit(first + static_cast<std::uintptr_t>(element) * item + i);
      return;
    }
    for (std::int64_t i = 0; i < sizes[dim]; ++i)
      each_byte(visit, dim + 1, element + i * strides[dim]);
  }
};

TEST(Written, AgreesWithASetOfBytes) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](unsigned n) { return static_cast<std::int64_t>(random() % n); };
    Written written;
    std::bitset<2048> model;
    for (int step = 0; step < 60; ++step) {
      Strided one;
      one.item = 1U << below(4);
      one.first = static_cast<std::uintptr_t>(below(128)) * one.item;
      for (std::int64_t dims = below(3); dims >= 0; --dims) {
        one.sizes.push_back(1 + below(4));
        one.strides.push_back(below(12));
      }
      const bool writes = below(3) == 0;
      const Access access = one.access(writes);
      if (writes) {
        written.add(bytes_of(access));
        one.each_byte([&](std::uintptr_t byte) { model.set(byte); });
        continue;
      }
      std::bitset<2048> lacks;
      one.each_byte([&](std::uintptr_t byte) { lacks.set(byte, !model.test(byte)); });
      const Written::Range missing = written.missing(bytes_of(access));
      ASSERT_EQ(missing.empty(), lacks.none()) << "seed " << seed << ", step " << step;
      for (std::uintptr_t byte = missing.first; byte < missing.last; ++byte)
        ASSERT_TRUE(lacks.test(byte - kBase)) << "seed " << seed << ", step " << step;
    }
  }
}

TEST(Written, TakesForWrittenWhatWouldTakeTooLong) {
  constexpr auto kMany = static_cast<std::int64_t>(2 * Written::kMost);
  const Strided odd{{kMany}, {2}, 4, 4};
  const Strided even{{kMany}, {2}, 4, 0};
  Written written;
  EXPECT_FALSE(written.missing(bytes_of(odd.access(false))).empty()) << "nothing at all was";
  written.add(bytes_of(even.access(true)));
  EXPECT_TRUE(written.missing(bytes_of(odd.access(false))).empty());
  Written pieces;
  for (std::uintptr_t i = 0; i <= Written::kMost; ++i)
    pieces.add(bytes_of(write(kBase + 2 * i, 1)));
  EXPECT_TRUE(pieces.all()) << "too many to be kept";
}

// The same bytes as AgreesWithASetOfBytes, where that takes few steps; else less than was written.
TEST(Written, FromBelowTakesForMissingWhatWouldTakeTooLong) {
  Written written(Written::Bound::below);
  const Strided some{{100}, {2}, 4, 0};
  written.add(bytes_of(some.access(true)));
  EXPECT_TRUE(written.missing(bytes_of(some.access(false))).empty());
  EXPECT_EQ(written.missing(bytes_of(read(kBase, 8))).first, kBase + 4);
  constexpr auto kMany = static_cast<std::int64_t>(2 * Written::kMostBelow);
  const Strided many{{kMany}, {2}, 4, 0};
  written.add(bytes_of(many.access(true)));
  EXPECT_FALSE(written.missing(bytes_of(many.access(false))).empty());
  written.add(bytes_of(write(kBase, 8 * kMany)));
  EXPECT_TRUE(written.missing(bytes_of(many.access(false))).empty());
  Written pieces(Written::Bound::below);
  for (std::uintptr_t i = 0; i <= Written::kMostBelow; ++i)
    pieces.add(bytes_of(write(kBase + 2 * i, 1)));
  EXPECT_FALSE(pieces.missing(bytes_of(read(kBase, 1))).empty()) << "too many to be kept";
}

// Axes of length 0, 1 and stride 0, and more bytes than an address space has room for.
TEST(Written, TakesAnyShape) {
  Written written;
  written.add(bytes_of(write(kBase, 0)));
  EXPECT_TRUE(written.missing(bytes_of(read(kBase, 0))).empty());
  EXPECT_FALSE(written.missing(bytes_of(read(kBase, 1))).empty());
  const Strided expanded{{5, 3}, {0, 1}, 4, 0};
  written.add(bytes_of(expanded.access(true)));
  EXPECT_TRUE(written.missing(bytes_of(read(kBase, 12))).empty());
  const Written::Range missing = written.missing(bytes_of(read(kBase, 13)));
  EXPECT_EQ(missing.first, kBase + 12);
  EXPECT_EQ(missing.last, kBase + 13);
}

/// An engine that expects writes.
struct Expecting : Program {
  Expecting() { engine.expect_writes(); }
};

TEST(NeverWritten, IsReportedOnceWithItsBytes) {
  Expecting p;
  p.allocate(kBase, 512, 1);
  p.launch(1, {write(kBase, 100)});
  p.launch(1, {read(kBase, 100)});
  EXPECT_EQ(p.conflicts(), 0U);
  p.launch(1, {read(kBase + 90, 30), write(kBase + 200, 4)}, "sum");
  ASSERT_EQ(p.conflicts(), 1U);
  const Conflict& found = p.last[0];
  EXPECT_EQ(found.kind, Conflict::Kind::never_written);
  EXPECT_EQ(found.missing, at(kBase + 100));
  EXPECT_EQ(found.missing_bytes, 20U);
  EXPECT_EQ(found.allocation, at(kBase));
  EXPECT_STREQ(found.now.operation.name, "sum");
  p.launch(1, {read(kBase + 90, 30)});
  EXPECT_EQ(p.conflicts(), 0U) << "said once";
  p.launch(1, {read(kBase + 120, 1)});
  EXPECT_EQ(p.conflicts(), 1U);
}

TEST(NeverWritten, AnOperationReadsBeforeItWrites) {
  Expecting p;
  p.allocate(kBase, 512, 1);
  p.launch(1, {write(kBase, 512), read(kBase, 512)});
  ASSERT_EQ(p.conflicts(), 1U);
  EXPECT_EQ(p.last[0].now.arguments.first, 1);
}

TEST(NeverWritten, AnotherStreamsWriteCounts) {
  Expecting p;
  p.allocate(kBase, 512, 1);
  p.launch(2, {write(kBase, 512)});
  p.launch(1, {read(kBase, 512)});
  ASSERT_EQ(p.conflicts(), 1U);
  EXPECT_EQ(p.last[0].kind, Conflict::Kind::race) << "and that is all there is to say";
}

TEST(NeverWritten, MemoryThatIsHandedOutAgainIsNew) {
  Expecting p;
  p.allocate(kBase, 512, 1);
  p.launch(1, {write(kBase, 512)});
  p.free(kBase, 1);
  p.allocate(kBase, 512, 1);
  p.launch(1, {read(kBase, 8)});
  EXPECT_EQ(p.conflicts(), 1U);
}

TEST(NeverWritten, WhatNobodyKnowsCountsAsWritten) {
  Expecting unchecked;
  unchecked.allocate(kBase, 512, 1);
  unchecked.launch(1, {});
  unchecked.launch(1, {read(kBase, 512)});
  EXPECT_EQ(unchecked.conflicts(), 0U) << "an unchecked launch may have written it";
  unchecked.allocate(2 * kBase, 512, 1);
  unchecked.launch(1, {read(2 * kBase, 512)});
  EXPECT_EQ(unchecked.conflicts(), 1U) << "but not what came later";

  Expecting exposed;
  exposed.allocate(kBase, 512, 1);
  exposed.tell({.kind = Kind::host_exposed, .address = at(kBase + 8), .bytes = 8});
  exposed.launch(1, {read(kBase, 512)});
  exposed.launch(1, {read(7 * kBase, 512)});  // an allocation that nobody saw
  EXPECT_EQ(exposed.conflicts(), 0U);
  EXPECT_EQ(exposed.engine.exposed(), 0U) << "that counts pointers to host memory";

  Expecting pinned;
  pinned.tell(
      {.kind = Kind::pinned_handed_out, .address = at(kBase), .bytes = 512, .requested = 512});
  pinned.launch(1, {read(kBase, 512)});
  for (const Conflict& each : (pinned.conflicts(), pinned.last))
    EXPECT_NE(each.kind, Conflict::Kind::never_written);

  Program late;  // watched before it was asked for
  late.allocate(kBase, 512, 1);
  late.engine.expect_writes();
  late.launch(1, {read(kBase, 512)});
  EXPECT_EQ(late.conflicts(), 0U);
}

// Random programs on one stream, and an oracle that keeps every byte.
TEST(NeverWritten, RandomProgramsAreSeenAlike) {
  int reports = 0;
  for (unsigned seed = 0; seed < 1000; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](unsigned n) { return random() % n; };
    Expecting p;
    std::bitset<64> written[4];
    bool live[4] = {};
    for (int step = 0; step < 60; ++step) {
      const std::size_t which = below(4);
      const std::uintptr_t base = kBase * (1 + which);
      if (!live[which]) {
        p.allocate(base, 64, 1);
        live[which] = true;
        written[which].reset();
      } else if (below(12) == 0) {
        p.free(base, 1);
        live[which] = false;
      } else if (below(40) == 0) {
        p.launch(1, {});
        for (std::bitset<64>& each : written) each.set();
      } else {
        const unsigned first = below(64);
        const unsigned bytes = 1 + below(64 - first);
        const bool writes = below(3) == 0;
        p.launch(1, {{at(base + first), bytes, writes}});
        bool lacks = false;
        for (unsigned i = first; i < first + bytes; ++i) {
          lacks |= !writes && !written[which].test(i);
          written[which].set(i);
        }
        reports += lacks;
        ASSERT_EQ(p.conflicts(), lacks ? 1U : 0U) << "seed " << seed << ", step " << step;
      }
    }
  }
  EXPECT_GT(reports, 1000);
}

}  // namespace
}  // namespace ember::test
