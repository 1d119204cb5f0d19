// The schedule `model`: times of events, computed by hand from a small model. The suite runs with
// EMBER_SIM_SCHEDULE=random:0.
#include <cmath>
#include <cstdio>
#include <fstream>
#include <string>

#include "ember/linalg/linalg.h"
#include "ember/ops/factories.h"
#include "tests/order/program.h"

namespace ember {
namespace {

using cuda::Event;
using cuda::Stream;

// A byte takes a nanosecond. The host's calls differ from each other, so that none can be mistaken.
constexpr const char* kModel = R"(ember device model 1
name small
launch_call 100
copy_call 200
fill_call 300
host_function_call 400
record_call 10
wait_call 20
query_call 5
synchronize_call 50
launch_latency 1000
host_function_time 7000   # of a host function
kernel_floor 2000
device_copy_floor 1500
memory_rate 1000
float64_rate 50
float32_rate 100
half_rate 200
to_device_engines 1
to_device_latency 500
to_device_rate 1000
to_host_engines 2
to_host_latency 600
to_host_rate 500
peer_engines 1
peer_latency 700
peer_rate 250
pageable_to_device_latency 900
pageable_to_device_rate 100
pageable_to_host_latency 1100
pageable_to_host_rate 200
)";

class Model : public testing::Test {
 protected:
  Model() : file_(testing::TempDir() + "ember_model_" + std::to_string(getpid())) {
    write(kModel);
    a_.record(
        stream_);  // makes the events, and gives streams and events of the process's first run
    sim::begin_run("model:" + file_);
    begin_.record(stream_);  // enqueued at 10, runs at 1010
  }
  ~Model() override {
    sim::begin_run("random:0");
    std::remove(file_.c_str());
  }
  void write(const std::string& text) const { std::ofstream(file_) << text; }
  /// Nanoseconds since `begin_`.
  std::int64_t at(const Event& event) {
    cuda::synchronize(0);
    return std::llround(double{begin_.elapsed_time(event)} * 1e6);
  }
  /// A kernel that asks for so many bytes.
  void kernel(const Stream& stream, std::size_t bytes) const {
    cuda::launch(stream, test::unordered_affine_kernel,
                 test::AffineArgs{data_.get(), bytes / 4, 1, 1});
  }

  const std::string file_;
  test::Words<std::uint32_t> data_{4096};
  test::Words<std::uint32_t> other_{4096};
  test::Pinned<std::uint32_t> pinned_{4096};
  const Stream stream_{0}, second_{0}, third_{0};
  Event begin_{true}, a_{true}, b_{true}, c_{true};
};

TEST_F(Model, AKernelTakesItsBytes) {
  kernel(stream_, 4000);  // enqueued at 110, runs from 1110 to 5110
  a_.record(stream_);
  kernel(stream_, 400);  // the floor: to 7110
  b_.record(stream_);
  EXPECT_EQ(at(a_), 5110 - 1010);
  EXPECT_EQ(at(b_), 7110 - 1010);
}

TEST_F(Model, AKernelThatIsEnqueuedLateBeginsLate) {
  kernel(stream_, 4000);  // 1110 to 5110
  a_.record(stream_);     // enqueued at 120
  a_.synchronize();       // asked at 125, ends at 5110, returns at 5160
  kernel(stream_, 4000);  // enqueued at 5260, runs from 6260 to 10260
  b_.record(stream_);
  EXPECT_EQ(at(b_), 10260 - 1010);
}

TEST_F(Model, KernelsThatFillTheDeviceFollowEachOther) {
  kernel(stream_, 4000);  // 1110 to 5110
  kernel(second_, 4000);  // enqueued at 210; from 5110 to 9110
  a_.record(stream_);
  b_.record(second_);
  EXPECT_EQ(at(a_), 5110 - 1010);
  EXPECT_EQ(at(b_), 9110 - 1010);
}

TEST_F(Model, TheFloorsOfSmallKernelsOverlap) {
  kernel(stream_, 400);  // from 1110, busy until 1510, to 3110
  kernel(second_, 400);  // from 1510 to 3510
  a_.record(stream_);
  b_.record(second_);
  EXPECT_EQ(at(a_), 3110 - 1010);
  EXPECT_EQ(at(b_), 3510 - 1010);
}

TEST_F(Model, CopiesRunBesideKernelsAndAfterEachOther) {
  kernel(stream_, 8000);                                         // 1110 to 9110
  cuda::copy_async(other_.get(), pinned_.get(), 4000, second_);  // enqueued at 310: 1310 to 5810
  cuda::copy_async(other_.get() + 2000, pinned_.get(), 2000, third_);  // 5810 to 8310
  a_.record(stream_);
  b_.record(second_);
  c_.record(third_);
  EXPECT_EQ(at(a_), 9110 - 1010);
  EXPECT_EQ(at(b_), 5810 - 1010);
  EXPECT_EQ(at(c_), 8310 - 1010);
}

TEST_F(Model, AsManyCopiesRunAtOnceAsThereAreEngines) {
  cuda::copy_async(pinned_.get(), other_.get(), 1000, stream_);        // from 1210: 600 + 2000
  cuda::copy_async(pinned_.get() + 500, other_.get(), 1000, second_);  // from 1410 to 4010
  cuda::copy_async(pinned_.get() + 1000, other_.get(), 1000, third_);  // from 3810 to 6410
  a_.record(stream_);
  b_.record(second_);
  c_.record(third_);
  EXPECT_EQ(at(a_), 3810 - 1010);
  EXPECT_EQ(at(b_), 4010 - 1010);
  EXPECT_EQ(at(c_), 6410 - 1010);
}

TEST_F(Model, CopiesAndFillsOnADeviceUseItsMemory) {
  cuda::copy_async(other_.get(), data_.get(), 1000, stream_);  // from 1210: read and written, 2000
  a_.record(stream_);
  cuda::fill_async(other_.get(), 0, 1000, stream_);  // 3210, at least 1500
  b_.record(stream_);
  EXPECT_EQ(at(a_), 3210 - 1010);
  EXPECT_EQ(at(b_), 4710 - 1010);
}

TEST_F(Model, CopiesOfOrdinaryMemoryAreSlower) {
  std::vector<std::uint32_t> ordinary(100);
  cuda::copy(other_.get(), ordinary.data(), 400, stream_);  // what is there is waited for first:
  // asked at 15, since 10 + 5; 1010 ends it, 1060; enqueued at 1260, from 2260: 900 + 4000
  a_.record(stream_);
  // 7160 ends it, the host goes on at 7210, and asks once more whether all is done
  EXPECT_EQ(at(a_), 7210 + 5 + 10 + 1000 - 1010);
}

TEST_F(Model, AWaitForAnEventIsKept) {
  kernel(stream_, 4000);  // 1110 to 5110
  a_.record(stream_);
  second_.wait_event(a_);
  cuda::host_function([] {}, second_);  // from 5110 to 12110
  b_.record(second_);
  EXPECT_EQ(at(b_), 12110 - 1010);
}

TEST_F(Model, AQueryIsAnsweredByTheClock) {
  kernel(stream_, 4000);  // 1110 to 5110
  a_.record(stream_);     // at 120
  int asked = 1;
  while (!a_.query()) ++asked;
  EXPECT_EQ(asked, (5110 - 120 + 4) / 5);
}

TEST_F(Model, ACopyReadsWhatIsThereWhenItBegins) {
  pinned_[0] = 7;
  kernel(stream_, 16000);                                    // 1110 to 17110, adds 1
  cuda::copy_async(data_.get(), pinned_.get(), 4, second_);  // begins at 1310, after it began
  cuda::synchronize(0);
  EXPECT_EQ(data_.read()[0], 7u);
  EXPECT_EQ(data_.read()[1], 1u);
}

TEST_F(Model, OfTwoThatAreReadyTheMoreUrgentBegins) {
  const Stream urgent(0, -1);
  kernel(stream_, 8000);  // 1110 to 9110
  kernel(second_, 4000);
  kernel(urgent, 4000);  // before the other
  a_.record(urgent);
  b_.record(second_);
  EXPECT_EQ(at(a_), 13110 - 1010);
  EXPECT_EQ(at(b_), 17110 - 1010);
}

TEST_F(Model, AProductTakesItsOperations) {
  const Tensor left = ones({32, 32}, "cuda:0");
  sim::begin_run("model:" + file_);
  begin_.record(cuda::current_stream(0));  // enqueued at 10
  const Tensor product = matmul(left, left);
  a_.record(cuda::current_stream(0));
  // 2 * 32^3 operations, 0.1 in a nanosecond
  EXPECT_EQ(at(a_), 1110 + 655'360 - 1010);
}

TEST_F(Model, IsTheSameAgainAndInAReplay) {
  const std::string log_file = file_ + ".log";
  const auto run = [&](const std::string& schedule) {
    sim::begin_run(schedule);
    begin_.record(stream_);
    kernel(stream_, 4000);
    kernel(second_, 400);
    third_.wait_stream(second_);
    kernel(third_, 400);
    c_.record(third_);
    return std::to_string(at(c_)) + '\n' + sim::log();
  };
  const std::string first = run("model:" + file_);
  EXPECT_EQ(run("model:" + file_), first);
  sim::save_log(log_file);
  EXPECT_EQ(run("replay:" + log_file), first);
  EXPECT_NE(run("model:h200"), first);
  std::remove(log_file.c_str());
}

TEST_F(Model, AFileThatIsNoneIsRefused) {
  EXPECT_ERROR(sim::begin_run("model:" + file_ + ".none"), ValueError, "cannot be opened");
  write("ember device model 1\nname x\nmemory_rate fast\n");
  EXPECT_ERROR(sim::begin_run("model:" + file_), ValueError,
               "line 3 is 'memory_rate fast', expected a whole number from 1");
}

}  // namespace
}  // namespace ember
