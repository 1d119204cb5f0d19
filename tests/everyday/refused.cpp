// What must not compile: a line each, with a part of the error that compilers print. compiles.sh
// compiles them one by one, and once without any.
#include <ember/ember.h>

int main() {
  ember::Tensor x = ember::ones(3);
  (void)x;
#if CASE == 1
  x + 1;  // nodiscard
#elif CASE == 2
  ember::cuda::DeviceGuard(0);  // nodiscard
#elif CASE == 3
  ember::cuda::StreamGuard{ember::cuda::current_stream()};  // nodiscard
#elif CASE == 4
  x.sort();  // nodiscard
#elif CASE == 5
  ember::cuda::allocate(512, ember::cuda::current_stream());  // nodiscard
#elif CASE == 6
  x = 5;  // Scalar
#elif CASE == 7
  ember::zeros(true);  // Shape
#elif CASE == 8
  ember::zeros(2.5);  // Shape
#elif CASE == 9
  auto a = ember::ones(3).accessor<float, 1>();  // deleted
#elif CASE == 10
  auto a = x.accessor<float, 0>();  // one dimension or more
#elif CASE == 11
  ember::Device place = 1;  // deleted
#elif CASE == 12
  x.max(0);  // nodiscard
#endif
  return 0;
}
