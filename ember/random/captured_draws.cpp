#include "ember/random/captured_draws.h"

#include <algorithm>
#include <span>
#include <utility>

#include "ember/driver/kernels.h"
#include "ember/random/philox_args.h"
#include "ember/runtime/runtime.h"

namespace ember::inline v0 {
namespace random {
namespace {

Status write_state(const driver::Params& params, const driver::HostLaunch& on) {
  const auto& args = params.as<PhiloxWriteArgs>();
  PhiloxState* const to = on.at(args.to, 1);
  if (to == nullptr) return on.fault();
  *to = args.state;
  return {};
}

constinit driver::Kernel kernels[] = {{"philox_write", &write_state, nullptr}};
const driver::kernels::Table table(kernels, driver::arguments<PhiloxWriteArgs>());

}  // namespace
}  // namespace random

namespace detail {

// By the stream's handle: an owner would keep the stream from being handed out again.
CapturedDraws::CapturedDraws(Ref<GeneratorState> state, int device)
    : state_(std::move(state)),
      device_(device),
      epoch_(cuda::device_epoch(device)),
      memory_(cuda::allocate(sizeof(PhiloxState),
                             cuda::ExternalStream(cuda::current_native_stream(device), device))) {}

std::shared_ptr<CapturedDraws> CapturedDraws::note(const Generator& generator) {
  auto made = std::make_shared<CapturedDraws>(generator.state(), generator.device().index());
  const MutexLock lock(made->state_->mutex);
  made->state_->captures.push_back(made);
  return made;
}

bool CapturedDraws::is_of(const Generator& generator) const { return generator.state() == state_; }

void CapturedDraws::begin(std::uint64_t capture) {
  const MutexLock lock(state_->mutex);
  capture_ = capture;
}

void CapturedDraws::end() {
  const MutexLock lock(state_->mutex);
  capture_ = 0;
  std::erase_if(state_->captures, [this](const auto& each) { return each.get() == this; });
}

bool CapturedDraws::any() const {
  const MutexLock lock(mutex_);
  return drawn_ != 0;
}

PhiloxSource CapturedDraws::draw(std::uint64_t increment) {
  const MutexLock lock(mutex_);
  const PhiloxSource source{{0, drawn_}, memory_.as<PhiloxState>()};
  drawn_ += increment;
  return source;
}

void CapturedDraws::replay() {
  const MutexLock lock(mutex_);
  random::PhiloxWriteArgs args{memory_.as<PhiloxState>(), {}};
  {
    const MutexLock guard(state_->mutex);
    args.state = state_->philox;
    state_->philox.offset += drawn_;
  }
  const cuda::Access access = cuda::writes(args.to, 1);
  cuda::launch_on_current(device_, epoch_, {}, random::kernels[0], driver::Params(args),
                          std::span(&access, 1));
  cuda::record_stream(memory_, cuda::current_stream(device_));
}

}  // namespace detail
}  // namespace ember::inline v0
