// Complex numbers that live on every kind of device, with the layout of std::complex.
#pragma once

#include "ember/scalar/rounded.h"

namespace ember::inline v0 {

template <class T>
struct alignas(2 * sizeof(T)) Complex {
  T re;
  T im;

  Complex() = default;
  EMBER_HD constexpr Complex(T real, T imaginary = T(0)) : re(real), im(imaginary) {}
  template <class U>
  EMBER_HD explicit constexpr Complex(const Complex<U>& other)
      : re(static_cast<T>(other.re)), im(static_cast<T>(other.im)) {}

  friend EMBER_HD bool operator==(const Complex& a, const Complex& b) {
    return a.re == b.re && a.im == b.im;
  }
  friend EMBER_HD bool operator!=(const Complex& a, const Complex& b) { return !(a == b); }
  friend EMBER_HD Complex operator-(const Complex& a) { return {-a.re, -a.im}; }
  friend EMBER_HD Complex operator+(const Complex& a, const Complex& b) {
    return {a.re + b.re, a.im + b.im};
  }
  friend EMBER_HD Complex operator-(const Complex& a, const Complex& b) {
    return {a.re - b.re, a.im - b.im};
  }
  friend EMBER_HD Complex operator*(const Complex& a, const Complex& b) {
    return {m::rounded::difference_of_products(a.re, b.re, a.im, b.im),
            m::rounded::sum_of_products(a.re, b.im, a.im, b.re)};
  }
  /// Smith's way: it neither overflows nor underflows where the result does not. It ends in
  /// products that no sum behind it takes in, since whether one did would depend on the branch.
  friend EMBER_HD Complex operator/(const Complex& a, const Complex& b) {
    const T x = b.re < 0 ? -b.re : b.re;
    const T y = b.im < 0 ? -b.im : b.im;
    if (x == 0 && y == 0) return {a.re / x, a.im / x};
    if (x >= y) {
      const T ratio = b.im / b.re;
      const T scale = T(1) / (b.re + b.im * ratio);
      return {m::rounded::mul(a.re + a.im * ratio, scale),
              m::rounded::mul(a.im - a.re * ratio, scale)};
    }
    const T ratio = b.re / b.im;
    const T scale = T(1) / (b.re * ratio + b.im);
    return {m::rounded::mul(a.re * ratio + a.im, scale),
            m::rounded::mul(a.im * ratio - a.re, scale)};
  }
};

}  // namespace ember::inline v0
