// Faults in asynchronous work: reported by name, sticky, contained, and cleared by a reset.
#include "ember/runtime/event.h"
#include "tests/support/child.h"
#include "tests/support/devices.h"

namespace ember::cuda {
namespace {

/// An address that is nobody's memory.
std::uint32_t* nowhere() {
  return reinterpret_cast<std::uint32_t*>(64);  // NOLINT
}

template <class Call>
void expect_fault(const Call& call, const char* what) {
  try {
    call();
    ADD_FAILURE() << what << " should have reported the fault";
  } catch (const AcceleratorError& error) {
    EXPECT_EQ(error.error_code(), 700) << what;
    const std::string text = error.what();
    EXPECT_EQ(text.rfind("CUDA error: an illegal memory access was encountered\n", 0), 0u) << text;
    EXPECT_NE(text.find("bad_access"), std::string::npos)
        << what << " names the operation: " << text;
  }
}

TEST(Fault, IsReportedByTheNextSynchronization) {
  IN_CHILD({
    const Stream stream;
    launch(stream, test::bad_access_kernel, test::BadAccessArgs{nowhere()});
    expect_fault([&] { stream.synchronize(); }, "stream synchronize");
  });
}

TEST(Fault, StaysWithTheDevice) {
  IN_CHILD({
    test::Words<std::uint32_t> data(16);
    const Stream stream;
    const Stream other;
    Event event;
    event.record(other);
    launch(stream, test::bad_access_kernel, test::BadAccessArgs{nowhere()});
    expect_fault([&] { synchronize(); }, "device synchronize");
    expect_fault([&] { synchronize(); }, "device synchronize again");
    expect_fault([&] { stream.synchronize(); }, "stream synchronize");
    expect_fault([&] { other.synchronize(); }, "another stream");
    expect_fault([&] { (void)other.query(); }, "query");
    expect_fault([&] { launch(other, test::nop_kernel, test::NopArgs{}); }, "launch");
    expect_fault([&] { fill_async(data.get(), 0, 4, other); }, "fill");
    void* memory = nullptr;
    expect_fault([&] { check(active_driver().malloc(0, 512, memory)); }, "malloc");
  });
}

TEST(Fault, DropsTheWorkBehindIt) {
  IN_CHILD({
    test::Pinned<std::uint32_t> out(1);
    test::Words<std::uint32_t> data(1);
    const Stream stream;
    launch(stream, test::bad_access_kernel, test::BadAccessArgs{nowhere()});
    try {
      launch(stream, test::affine_kernel, test::AffineArgs{data.get(), 1, 1, 5});
      copy_async(out.get(), data.get(), 4, stream);
    } catch (const AcceleratorError&) {
      // The fault may be known already.
    }
    expect_fault([&] { stream.synchronize(); }, "synchronize");
    EXPECT_EQ(out[0], 0u);
  });
}

// Another divergence of CUDA's: with one device all others of the process are lost.
TEST(FaultCuda, EndsEveryDeviceOfTheProcess) {
  if (is_simulated()) GTEST_SKIP() << "on simulated devices a fault is contained in its device";
  NEEDS_DEVICES(2);
  IN_CHILD({
    const Stream here(0);
    const Stream there(1);
    launch(here, test::bad_access_kernel, test::BadAccessArgs{nowhere()});
    expect_fault([&] { here.synchronize(); }, "synchronize");
    expect_fault(
        [&] {
          launch(there, test::nop_kernel, test::NopArgs{});
          there.synchronize();
        },
        "work on the other device");
  });
}

TEST(FaultSimulated, IsContainedInItsDevice) {
  if (!is_simulated()) GTEST_SKIP() << "see FaultCuda.EndsEveryDeviceOfTheProcess";
  NEEDS_DEVICES(2);
  IN_CHILD({
    const Stream here(0);
    const Stream there(1);
    test::Words<std::uint32_t> data(4, 1);
    launch(here, test::bad_access_kernel, test::BadAccessArgs{nowhere()});
    expect_fault([&] { here.synchronize(); }, "synchronize");
    launch(there, test::affine_kernel, test::AffineArgs{data.get(), 4, 1, 6});
    there.synchronize();
    EXPECT_EQ(data.read()[3], 6u);
  });
}

// A divergence of CUDA's: a process cannot use a device again after a fault, so that a reset cannot
// clear it. On simulated devices it does.
TEST(FaultCuda, CannotBeClearedByAReset) {
  if (is_simulated()) GTEST_SKIP() << "simulated devices can be reset after a fault";
  IN_CHILD({
    const Stream stream;
    launch(stream, test::bad_access_kernel, test::BadAccessArgs{nowhere()});
    expect_fault([&] { synchronize(); }, "synchronize");
    expect_fault([&] { reset_device(); }, "reset");
    EXPECT_ERROR(reset_device(), AcceleratorError, "restart it");
    expect_fault([&] { stream.synchronize(); }, "a stream that the failed reset left alone");
  });
}

/// After a reset: what is made now works, and is nothing from before.
void expect_work_goes_on(const Stream& before) {
  test::Words<std::uint32_t> data(4);
  const Stream after;
  EXPECT_NE(after, before);
  launch(after, test::affine_kernel, test::AffineArgs{data.get(), 4, 1, 6});
  after.synchronize();
  EXPECT_EQ(data.read()[3], 6u);
  default_stream().synchronize();
}

TEST(FaultSimulated, IsClearedByAReset) {
  if (!is_simulated()) GTEST_SKIP() << "see FaultCuda.CannotBeClearedByAReset";
  IN_CHILD({
    const Stream before;
    Event event(true);
    event.record(before);
    launch(before, test::bad_access_kernel, test::BadAccessArgs{nowhere()});
    expect_fault([&] { synchronize(); }, "synchronize");
    reset_device();
    EXPECT_ERROR(before.synchronize(), AcceleratorError, "context is destroyed");
    expect_work_goes_on(before);
  });
}

TEST(Reset, RefusesWhatWasMadeBeforeAndWorkGoesOn) {
  IN_CHILD({
    const Stream before;
    Event event(true);
    event.record(before);
    reset_device();
    EXPECT_ERROR(before.synchronize(), AcceleratorError, "CUDA error: context is destroyed");
    EXPECT_ERROR(before.synchronize(), AcceleratorError, "made before the device was reset");
    EXPECT_ERROR(launch(before, test::nop_kernel, test::NopArgs{}), AcceleratorError,
                 "context is destroyed");
    EXPECT_ERROR(event.synchronize(), AcceleratorError, "context is destroyed");
    EXPECT_ERROR(event.record(default_stream()), AcceleratorError, "context is destroyed");
    expect_work_goes_on(before);
  });
}

// That the memory is free again: MemoryProcess.AResetTakesTheMemory, which has the device for
// itself.
TEST(Reset, WithoutAFaultDropsEverything) {
  IN_CHILD({
    void* memory = nullptr;
    check(active_driver().malloc(0, std::size_t{64} << 20, memory));
    std::vector<Stream> streams;
    for (int i = 0; i < 40; ++i) streams.emplace_back(0);
    reset_device(0);
    EXPECT_EQ(active_driver().free(0, memory).code(), Code::invalid_value);
    for (const Stream& stream : streams)
      EXPECT_ERROR((void)stream.query(), AcceleratorError, "context is destroyed");
    streams.clear();
    for (int i = 0; i < 80; ++i) Stream().synchronize();
  });
}

TEST(Fault, GivesBackHostFunctionsThatCannotRun) {
  IN_CHILD({
    const auto token = std::make_shared<int>(1);
    const Stream stream;
    launch(stream, test::bad_access_kernel, test::BadAccessArgs{nowhere()});
    try {
      host_function([token] {}, stream);
    } catch (const AcceleratorError&) {
      // The fault may be known already.
    }
    expect_fault([&] { synchronize(); }, "synchronize");
    if (is_simulated()) reset_device();  // see FaultCuda.CannotBeClearedByAReset
    EXPECT_EQ(token.use_count(), 1);
  });
}

// What only a simulated device can tell exactly.

TEST(FaultSimulated, KernelExceptionsNameTheKernel) {
  if (!is_simulated()) GTEST_SKIP() << "kernels of real devices do not throw";
  IN_CHILD({
    const Stream stream;
    launch(stream, "thrower", [](const HostLaunch&) { throw std::runtime_error("no luck"); });
    EXPECT_ERROR(stream.synchronize(), AcceleratorError,
                 "operation 'thrower' on cuda:0 faulted: it threw: no luck");
    EXPECT_ERROR(synchronize(), AcceleratorError, "CUDA error: unspecified launch failure");
  });
}

TEST(FaultSimulated, ABadAddressIsNotForgottenAtAGoodOne) {
  if (!is_simulated()) GTEST_SKIP() << "real devices stop at the access";
  IN_CHILD({
    const Stream stream;
    const test::Words<std::uint32_t> words(4, 0);
    std::uint32_t* const good = words.get();
    std::uint32_t* const beyond = good + 4;  // of the allocation: found, unlike nowhere()
    launch(stream, "bad_access, then a good one", [beyond, good](const HostLaunch& on) {
      (void)on.at(beyond, 1);
      (void)on.at(good, 1);
      return on.fault();
    });
    expect_fault([&] { stream.synchronize(); }, "synchronize");
    reset_device();
  });
}

TEST(FaultSimulated, CodesThatAreNoFaultsBecomeOne) {
  if (!is_simulated()) GTEST_SKIP() << "CUDA implementations report at the launch";
  IN_CHILD({
    const Stream stream;
    launch(stream, "undecided", [](const HostLaunch&) { return Status(Code::not_ready); });
    EXPECT_ERROR(stream.synchronize(), AcceleratorError, "CUDA error: unspecified launch failure");
    EXPECT_ERROR((void)stream.query(), AcceleratorError,
                 "'undecided' on cuda:0 faulted: device not ready");
  });
}

TEST(FaultSimulated, SaysWhatWasTouched) {
  if (!is_simulated()) GTEST_SKIP() << "a real device reports the kind of fault only";
  NEEDS_DEVICES(4);
  IN_CHILD({
    test::Words<std::uint32_t> here(4, 0);
    test::Words<std::uint32_t> there(4, 1);
    std::uint32_t on_host = 0;
    const auto fault_of = [](int device, std::uint32_t* target, std::uint32_t* source,
                             std::size_t count) {
      const Stream stream(device);
      launch(stream, test::move_kernel, test::MoveArgs{target, source, count});
      EXPECT_ERROR(stream.synchronize(), AcceleratorError, "operation 'move' on cuda:");
      const Status status = active_driver().device_synchronize(device);
      return status.detail();
    };
    EXPECT_NE(fault_of(0, here.get(), there.get(), 4).find("device without peer access"),
              std::string::npos);
    EXPECT_NE(fault_of(1, there.get(), there.get(), 5).find("within one allocation"),
              std::string::npos);
    test::Words<std::uint32_t> third(4, 2);
    EXPECT_NE(fault_of(2, third.get(), &on_host, 1).find("nor pinned host memory"),
              std::string::npos);
    test::Words<std::uint32_t> fourth(4, 3);
    EXPECT_NE(fault_of(3, fourth.get(), fourth.get(), ~std::size_t{0} / 2).find("allocation"),
              std::string::npos);
  });
}

TEST(HostAccess, ToDeviceMemoryFaults) {
  // Death by a signal, or by a sanitizer's report of one.
  EXPECT_DEATH(
      {
        test::Words<std::uint32_t> data(4);
        *const_cast<volatile std::uint32_t*>(data.get()) = 1;
      },
      "");
}

}  // namespace
}  // namespace ember::cuda
