// Running out of device memory, and what is possible afterwards.
#include <mutex>
#include <string>
#include <vector>

#include "ember/base/bytes.h"
#include "ember/memory/memory.h"
#include "tests/support/devices.h"

namespace ember::cuda {
namespace {

/// The tests run out of 256 MiB, which is what they allow themselves: on real devices there is more
/// than one can ask for in a test.
class OutOfMemory : public testing::Test {
 protected:
  OutOfMemory() {
    synchronize(0);
    empty_cache();
    const auto total = static_cast<double>(get_device_properties(0).total_memory);
    set_per_process_memory_fraction(256.0 * kMiB / total, 0);
  }
  ~OutOfMemory() override {
    set_per_process_memory_fraction(1, 0);
    synchronize(0);
    empty_cache();
  }
  std::string failure(std::size_t bytes, const Stream& stream) {
    try {
      (void)allocate(bytes, stream);
    } catch (const OutOfMemoryError& error) {
      return error.what();
    }
    ADD_FAILURE() << "expected OutOfMemoryError for " << bytes;
    return {};
  }
  const Stream stream_{0};
};

/// What the observers of the next test were told. They stay attached, also while threads of other
/// tests run out.
std::mutex telling;
std::vector<std::string> told;
bool throws = false;
bool judged = false;  // whether the test that attached them runs

TEST_F(OutOfMemory, ObserversAreToldFirst) {
  EXPECT_ERROR(attach_out_of_memory_observer({}), ValueError, "observer: expected a function");
  for (const char* name : {"first", "second"})
    attach_out_of_memory_observer(
        [name](int device, std::size_t requested, std::size_t total, std::size_t free) {
          const std::lock_guard lock(telling);
          told.push_back(std::string(name) + " " + std::to_string(device) + " " +
                         std::to_string(requested));
          if (judged) {
            EXPECT_EQ(total, get_device_properties(0).total_memory);
            EXPECT_LE(free, total);
          }
          (void)memory_allocated(0);  // which takes the lock
          if (throws) throw Error("in place of OutOfMemoryError");
        });
  judged = true;
  (void)failure(300 * kMiB + 1, stream_);
  const std::string rest = " 0 " + std::to_string(300 * kMiB + 1);
  EXPECT_EQ(told, (std::vector<std::string>{"first" + rest, "second" + rest}));
  throws = true;
  EXPECT_ERROR((void)allocate(300 * kMiB, stream_), Error, "in place of OutOfMemoryError");
  throws = false;
  EXPECT_EQ(told.size(), 3U) << "the second one was not called";
  told.clear();
  (void)allocate(kMiB, stream_);
  EXPECT_TRUE(told.empty());
  judged = false;
}

TEST_F(OutOfMemory, TheTextSaysWhatHeldTheMemory) {
  const DeviceBuffer held = allocate(200 * kMiB, stream_);
  const auto before = memory_counters(0);
  const std::string text = failure(100 * kMiB, stream_);
  EXPECT_EQ(
      text.find("CUDA out of memory. Tried to allocate 100.00 MiB. GPU 0 has a total capacity "
                "of "),
      0U)
      << text;
  EXPECT_NE(text.find("Of the allocated memory 200.00 MiB is allocated by ember, and 0 bytes is "
                      "reserved by ember but unallocated."),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  EXPECT_NE(text.find(". The request was for 100.00 MiB"), std::string::npos) << text;
  const auto after = memory_counters(0);
  EXPECT_EQ(after.num_ooms, before.num_ooms + 1);
  EXPECT_EQ(after.num_alloc_retries, before.num_alloc_retries + 1);
  EXPECT_EQ(after.allocated_bytes.all.current, before.allocated_bytes.all.current);
}

TEST_F(OutOfMemory, TheSameRequestSucceedsOnceThereIsRoom) {
  DeviceBuffer held = allocate(200 * kMiB, stream_);
  (void)failure(100 * kMiB, stream_);
  held.reset();
  const DeviceBuffer buffer = allocate(100 * kMiB, stream_);
  fill_async(buffer.data(), 7, buffer.size(), stream_);
  stream_.synchronize();
}

TEST_F(OutOfMemory, CachedMemoryOfOtherSizesAndStreamsIsGivenBackFirst) {
  const Stream other(0);
  allocate(90 * kMiB, other).reset();
  allocate(90 * kMiB, stream_).reset();
  EXPECT_EQ(memory_reserved(0), 180 * kMiB);
  const DeviceBuffer buffer = allocate(200 * kMiB, stream_);
  EXPECT_EQ(memory_reserved(0), 200 * kMiB);
}

TEST_F(OutOfMemory, MemoryThatOtherStreamsUseIsWaitedFor) {
  const Stream other(0);
  test::Gate gate(other);
  DeviceBuffer first = allocate(150 * kMiB, stream_);
  fill_async(first.data(), 1, first.size(), other);
  record_stream(first, other);
  first.reset();
  gate.open();
  const DeviceBuffer second = allocate(200 * kMiB, stream_);
  EXPECT_EQ(memory_counters(0).active.all.current, 1);
}

TEST_F(OutOfMemory, AbsurdSizes) {
  const std::string text = "CUDA out of memory. Tried to allocate more than 1EB memory.";
  EXPECT_ERROR((void)allocate(std::size_t{1} << 60, stream_), OutOfMemoryError, text);
  EXPECT_ERROR((void)allocate(static_cast<std::size_t>(-1), stream_), OutOfMemoryError,
               "The size was 18446744073709551615, or -1 if that was meant, a negative number");
  EXPECT_ERROR((void)allocate(std::size_t{1} << 63, stream_), OutOfMemoryError,
               "The size was 9223372036854775808, or -9223372036854775808");
  EXPECT_ERROR((void)caching_allocator_alloc(std::size_t{1} << 60, 0), OutOfMemoryError, text);
  EXPECT_NE(allocate(512, stream_).data(), nullptr);
}

TEST_F(OutOfMemory, TheDeviceItselfRunsOut) {
  set_per_process_memory_fraction(1, 0);
  const std::size_t total = mem_get_info(0).second;
  const std::string text = failure(total + 2 * kMiB, stream_);
  EXPECT_EQ(text.find("CUDA out of memory. Tried to allocate "), 0U) << text;
  const DeviceBuffer buffer = allocate(kMiB, stream_);
  fill_async(buffer.data(), 7, buffer.size(), stream_);
  stream_.synchronize();
}

TEST_F(OutOfMemory, TheFractionIsRemembered) {
  set_per_process_memory_fraction(0.25, 0);
  EXPECT_EQ(get_per_process_memory_fraction(0), 0.25);
  set_per_process_memory_fraction(0, 0);
  (void)failure(1, stream_);
  set_per_process_memory_fraction(1, 0);
  EXPECT_EQ(get_per_process_memory_fraction(0), 1);
}

}  // namespace
}  // namespace ember::cuda
