#include "ember/ember.h"
#include "ember/testing/gtest.h"

TEST(Seeds, DecideInSomebodyElsesTests) {
  int runs = 0;
  ember::sim::for_each_seed(5,
                            [&] {
                              ++runs;
                              const ember::cuda::Stream side(0);
                              const ember::Tensor x = ember::ones({64}, "cuda:0");
                              side.wait_stream(ember::cuda::current_stream(0));
                              const ember::cuda::StreamGuard on(side);
                              EXPECT_EQ((x + 1).sum().item<float>(), 128);
                              ember::cuda::synchronize(0);
                            },
                            {.devices = 2});
  EXPECT_EQ(runs, 5);
}
