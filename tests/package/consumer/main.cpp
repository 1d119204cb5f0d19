#include <cstdio>

#include "ember/ember.h"

int main() {
  ember::cuda::simulate(2);
  ember::Tensor x = ember::zeros({3, 4}, "cuda:1");  // on the device's current stream
  x += ember::arange(4, {ember::float32, ember::Device("cuda:1")});
  const ember::cuda::Stream side(1);
  side.wait_stream(ember::cuda::current_stream(1));
  const ember::cuda::StreamGuard on(side);
  const ember::Tensor rows = (x + 2).sum(1);
  const auto sum = rows.sum().item<float>();
  std::printf("ember %s, %d devices: %g\n", EMBER_VERSION_STRING, ember::cuda::device_count(), sum);
  return sum == 42 ? 0 : 1;
}
