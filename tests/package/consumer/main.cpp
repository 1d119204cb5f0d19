#include <cstdio>

#include "ember/cuda.h"

int main() {
  ember::cuda::simulate(2);
  const ember::cuda::Stream first(0);
  const ember::cuda::Stream second(1);
  second.wait_stream(first);
  second.synchronize();
  if (!second.query()) return 1;
  std::printf("ember %s: %d devices, %s\n", EMBER_VERSION_STRING, ember::cuda::device_count(),
              second.str().c_str());
}
