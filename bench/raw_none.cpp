#include "bench/raw.h"

namespace ember::bench {
namespace {

Status nothing(const driver::Params&, const driver::HostLaunch&) { return {}; }

}  // namespace

std::unique_ptr<Raw> make_raw(int) { return nullptr; }

const driver::Kernel empty_kernel{"empty", &nothing, nullptr};
const driver::Kernel user_kernel{"user's empty", &nothing, nullptr};

}  // namespace ember::bench
