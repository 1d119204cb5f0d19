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
#elif CASE == 13
  auto y = x && x;  // invalid operands\|operator&&
#elif CASE == 14
  auto y = !x;  // operator!\|invalid argument type
#elif CASE == 15
  if (x) return 1;  // bool
#elif CASE == 16
  if (x == x) return 1;  // bool
#elif CASE == 17
  auto y = x << 1;  // operator<<\|invalid operands
#elif CASE == 18
  x &= x;  // operator&=\|overloaded '&='
#elif CASE == 19
  auto y = x[x > 0];  // operator\[\]
#elif CASE == 20
  auto y = x.index({"...", 0});  // index
#elif CASE == 21
  auto y = std::get<0>(x.max(0));  // get
#elif CASE == 22
  static_cast<const ember::Tensor&>(x) += 1;  // discards\|overloaded '+='
#elif CASE == 23
  x %= x;  // operator%=\|overloaded '%='
#elif CASE == 24
  ember::zeros(std::vector<double>{2});  // Shape
#elif CASE == 25
  auto y = ember::tensor({1, "a"});  // tensor
#elif CASE == 26
  ember::cuda::DeviceVector<float>(3);  // nodiscard
#elif CASE == 27
  ember::cuda::HostRegistration(&x, sizeof x);  // nodiscard
#endif
  return 0;
}
