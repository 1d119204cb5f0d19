// Settings of the allocator: what they are read from, and what they do. Numbers and texts are those
// of chapters 8 and 11.
#include "ember/memory/settings.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "ember/base/bytes.h"
#include "ember/base/error.h"
#include "tests/memory/fake_source.h"

namespace ember::test {
namespace {

using memory::parse_settings;
using memory::Settings;

Settings parsed(const std::string& text) {
  Settings settings;
  const Status status = parse_settings(text, settings);
  EXPECT_TRUE(status.ok()) << text << ": " << status.detail();
  return settings;
}

TEST(AllocatorSettings, AreReadAsDocumented) {
  EXPECT_EQ(parsed(""), Settings());
  const Settings all = parsed(
      " backend : native, max_split_size_mb:21,garbage_collection_threshold:0.75, "
      "expandable_segments:True,release_lock_on_cudamalloc:True,max_non_split_rounding_mb:5,"
      "pinned_use_cuda_host_register:True,pinned_num_register_threads:128,"
      "per_process_memory_fraction:0.5,throw_on_cudamalloc_oom:True,pinned_max_cached_size_mb:7");
  EXPECT_EQ(all.max_split_size, 21 * kMiB);
  EXPECT_EQ(all.max_non_split_rounding, 5 * kMiB);
  EXPECT_EQ(all.garbage_collection_threshold, 0.75);
  EXPECT_EQ(all.per_process_memory_fraction, 0.5);
  EXPECT_TRUE(all.expandable_segments && all.release_lock_on_cudamalloc);
  EXPECT_TRUE(all.pinned_use_cuda_host_register && all.throw_on_cudamalloc_oom);
  EXPECT_EQ(all.pinned_num_register_threads, 128U);
  EXPECT_EQ(all.pinned_max_cached_size, 7 * kMiB);
}

TEST(AllocatorSettings, DivisionsAreReadAsDocumented) {
  Settings::Divisions all{};
  all.fill(4);
  EXPECT_EQ(parsed("roundup_power2_divisions:4").roundup_divisions, all);
  // From 1, 2, 4, ... MiB on: those before the first named one are like it.
  EXPECT_EQ(parsed("roundup_power2_divisions:[256:1,512:2,1024:4,>:8]").roundup_divisions,
            (Settings::Divisions{1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 8, 8, 8, 8, 8}));
  EXPECT_EQ(parsed("roundup_power2_divisions:[2:8,8:0]").roundup_divisions,
            (Settings::Divisions{8, 8, 0, 0}));
  EXPECT_EQ(parsed("roundup_power2_divisions:[256:1,512:2,]").roundup_divisions,
            parsed("roundup_power2_divisions:[256:1,512:2]").roundup_divisions)
      << "as PyTorch takes it";
  EXPECT_EQ(parsed("roundup_power2_divisions:[65536:2]").roundup_divisions.back(), 2U);
}

TEST(AllocatorSettings, ErrorsSayWhatIsWrong) {
  struct Row {
    const char *text, *words;
  };
  for (const auto& [text, words] : std::vector<Row>{
           {"max_split_size_mb", "Error parsing CachingAllocator settings, expected :"},
           {"max_split_size_mb:40 backend:native", "expected a whole number"},
           {"max_split_size_mb:40]", "Error parsing CachingAllocator settings, expected ,"},
           {"max_split_size_mb:19", "option max_split_size_mb too small, must be >= 20"},
           {"backend:cudaMallocAsync,pinned_num_register_threads:none", "expected a whole number"},
           {"backend:cudaMallocAsync,per_process_memory_fraction:2", "fraction is invalid"},
           {"backend:cudaMallocAsync,max_split_size_mb", "expected :"},
           {"max_split_size_mb:none,backend:native", "expected a whole number"},
           {"max_split_size_mb:-1", "but got '-1'"},
           {"max_split_size_mb:18446744073709551616", "expected a whole number"},
           {"max_split_size_mb:40,large_segment_size_mb:41", "must be >= large_segment_size_mb"},
           {"large_segment_size_mb:19", "large_segment_size_mb too small"},
           {"garbage_collection_threshold:0", "garbage_collect_threshold too small"},
           {"garbage_collection_threshold:nan", "garbage_collect_threshold too small"},
           {"garbage_collection_threshold:1", "garbage_collect_threshold too big, set it 0.0~1.0"},
           {"garbage_collection_threshold:", "expected a number, but got ''"},
           {"per_process_memory_fraction:1.5", "per_process_memory_fraction is invalid"},
           {"expandable_segments:true",
            "Expected a single True/False argument for expandable_segments"},
           {"roundup_power2_divisions:3", "For roundups, the divisons has to be power of 2 "},
           {"roundup_power2_divisions:0", "For roundups, the divisons has to be power of 2 "},
           {"roundup_power2_divisions:[4:3]", "For roundups, the divisons has to be power of 2 "},
           {"roundup_power2_divisions:[3:4]", "For roundups, the intervals have to be power of 2 "},
           {"roundup_power2_divisions:[4:4", "expected ,, but got the end"},
           {"roundup_power2_divisions:[4:4,,]", "expected a whole number"},
           {"pinned_num_register_threads:3", "Number of register threads has to be power of 2"},
           {"pinned_num_register_threads:256", "should be less than or equal to 128"},
           {"backend:other", "Unknown allocator backend, options are native and cudaMallocAsync"},
           {"nothing:1", "Unrecognized key 'nothing' in CUDA allocator config."},
           {",", "expected an option, but got ','"}}) {
    Settings settings = parsed("garbage_collection_threshold:0.5");
    const Settings before = settings;
    const Status status = parse_settings(text, settings);
    EXPECT_EQ(status.code(), Code::invalid_value) << text;
    EXPECT_NE(status.detail().find(words), std::string::npos) << text << ": " << status.detail();
    EXPECT_EQ(settings, before) << text;
  }
}

TEST(AllocatorSettings, ValuesOfTheNativeBackEndDoNotMatterToAnother) {
  for (const char* text :
       {"max_split_size_mb:1,backend:cudaMallocAsync,release_lock_on_cudamalloc:none",
        "roundup_power2_divisions:[3:4,>:5],backend:cudaMallocAsync",
        "backend:cudaMallocAsync,roundup_power2_divisions:[3:4"}) {
    const Settings settings = parsed(text);
    EXPECT_TRUE(settings.ordered && settings.any_native()) << text;
    EXPECT_FALSE(settings.release_lock_on_cudamalloc);
    EXPECT_EQ(settings.max_split_size, Settings().max_split_size);
  }
  EXPECT_EQ(parsed("max_split_size_mb:20").max_split_size, 20 * kMiB);
}

TEST(AllocatorSettings, OptionsWithoutEffectAreNamed) {
  EXPECT_TRUE(
      parsed("max_split_size_mb:40,release_lock_on_cudamalloc:True").without_effect().empty());
  EXPECT_TRUE(parsed("expandable_segments:True").without_effect().empty());
  EXPECT_EQ(parsed("pinned_use_background_threads:True").without_effect(),
            std::vector<std::string>{"pinned_use_background_threads"});
}

TEST(AllocatorSettings, RoundingByDivisions) {
  const Settings settings = parsed("roundup_power2_divisions:4");
  struct Row {
    std::size_t request, block;
  };
  for (const auto& [request, block] : std::array<Row, 8>{{{1, 512},
                                                          {1200, 1536},
                                                          {2048, 2048},
                                                          {2049, 2560},
                                                          {5000, 5120},
                                                          {8192, 8192},
                                                          {1048577, 1310720},
                                                          {(1ull << 60) - 1, 1ull << 60}}})
    EXPECT_EQ(settings.block_bytes(request), block) << request;
  const Settings list = parsed("roundup_power2_divisions:[2:8,4:1,>:2]");
  EXPECT_EQ(list.block_bytes(1100 * kKiB), 1152 * kKiB);
  EXPECT_EQ(list.block_bytes(5 * kMiB + 1), 5 * kMiB + 512);
  EXPECT_EQ(list.block_bytes(9 * kMiB), 12 * kMiB);
}

class SettingsTest : public testing::Test {
 protected:
  void apply(const std::string& text) {
    kept_.push_back(std::make_unique<Settings>(parsed(text)));
    allocator_.apply(*kept_.back());
  }
  void* allocate(std::size_t bytes) {
    return allocator_.allocate(bytes, stream_handle(0).native).address;
  }
  void free(void* address) { EXPECT_TRUE(allocator_.free(address)); }

  std::vector<std::unique_ptr<Settings>> kept_;
  FakeDevice device_{200 * kMiB, 3};
  CachingAllocator allocator_{3, device_};
};

TEST_F(SettingsTest, LargeBlocksAreNeitherSplitNorWasted) {
  apply("max_split_size_mb:30");
  EXPECT_EQ(allocator_.counters().max_split_size, static_cast<std::int64_t>(30 * kMiB));
  void* const large = allocate(60 * kMiB);
  auto now = allocator_.counters();
  EXPECT_EQ(now.oversize_allocations, (cuda::Counter{1, 1, 1, 0}));
  EXPECT_EQ(now.oversize_segments, (cuda::Counter{1, 1, 1, 0}));
  free(large);
  now = allocator_.counters();
  EXPECT_EQ(now.oversize_allocations, (cuda::Counter{0, 1, 1, 1}));
  EXPECT_EQ(now.oversize_segments.current, 1);
  // A request below the limit takes no block above it, and one above it wastes less than 20 MiB.
  void* const small = allocate(25 * kMiB);
  void* const middle = allocate(40 * kMiB);
  EXPECT_NE(small, large);
  EXPECT_NE(middle, large);
  void* const near = allocate(42 * kMiB);
  EXPECT_EQ(near, large);
  EXPECT_EQ(allocator_.reserved(), static_cast<std::int64_t>((60 + 26 + 40) * kMiB));
  EXPECT_EQ(allocator_.counters().allocated_bytes.all.current,
            static_cast<std::int64_t>((60 + 26 + 40) * kMiB));  // not split
  for (void* const address : {small, middle, near}) free(address);
}

TEST_F(SettingsTest, JustEnoughOversizeBlocksAreReleased) {
  apply("max_split_size_mb:30");
  void* const first = allocate(40 * kMiB);
  void* const second = allocate(60 * kMiB);
  void* const third = allocate(90 * kMiB);
  for (void* const address : {first, second, third}) free(address);
  (void)allocate(120 * kMiB);  // no single one is enough: the largest two go
  EXPECT_EQ(allocator_.counters().num_alloc_retries, 0);
  EXPECT_EQ(allocator_.reserved(), static_cast<std::int64_t>((40 + 120) * kMiB));
  EXPECT_EQ(allocate(40 * kMiB), first);
}

TEST_F(SettingsTest, GarbageGoesByAge) {
  apply("garbage_collection_threshold:0.5");
  void* const old = allocate(20 * kMiB);
  void* const young = allocate(22 * kMiB);
  free(old);
  for (int i = 0; i < 5; ++i) free(allocate(24 * kMiB));
  free(young);
  (void)allocate(26 * kMiB);  // without a limit nothing is collected
  EXPECT_EQ(allocator_.counters().num_device_free, 0);
  allocator_.set_limit(180 * kMiB);  // 92 MiB are held; more than half of it
  (void)allocate(30 * kMiB);
  EXPECT_EQ(allocator_.counters().num_device_free, 1);
  EXPECT_EQ(allocate(22 * kMiB), young);
  EXPECT_EQ(allocator_.reserved(), static_cast<std::int64_t>((92 - 20 + 30) * kMiB));
}

TEST_F(SettingsTest, ChangesHoldForWhatIsAllocatedFromNowOn) {
  void* const before = allocate(5000);
  apply("roundup_power2_divisions:1");
  apply("roundup_power2_divisions:2");
  void* const after = allocate(5000);
  EXPECT_EQ(allocator_.allocated(), 5120 + 6144);
  apply("max_split_size_mb:40");
  free(before);
  free(after);
  EXPECT_EQ(allocator_.allocated(), 0);
  EXPECT_EQ(allocate(5000), before);
  EXPECT_EQ(allocator_.allocated(), 5120);
}

TEST_F(SettingsTest, AResetForgetsWhatWasOversize) {
  apply("max_split_size_mb:30");
  (void)allocate(40 * kMiB);
  device_.reset(3);
  EXPECT_EQ(allocator_.counters().oversize_allocations.current, 0);
  EXPECT_EQ(allocator_.counters().oversize_segments.current, 0);
  free(allocate(kKiB));
  EXPECT_EQ(allocator_.counters().oversize_allocations, (cuda::Counter{0, 1, 1, 1}));
}

}  // namespace
}  // namespace ember::test
