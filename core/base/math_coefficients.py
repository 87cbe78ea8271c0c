"""Prints kErfcScaled of math.cpp: erfc(x) e^(x^2) on [1, 6] as a polynomial in u = 2.5 (x - 4) / (x + 4) + 0.5, and the
shorter polynomials of math_blocks.h.

Chebyshev interpolation with 70 digits; needs mpmath. The other constants of math.cpp are Taylor coefficients, or
pi / 2 and ln(2) cut into pieces, printed too.
"""
from mpmath import cos, erf, erfc, exp, expm1, floor, log, mp, mpf, pi, sqrt

mp.dps = 70


def chebyshev(function, degree):
    """Coefficients of 1, u, u^2 ... of the interpolation at the Chebyshev points of [-1, 1]."""
    n = degree + 1
    values = [function(cos(pi * (2 * k + 1) / (2 * n))) for k in range(n)]
    series = [2 / mpf(n) * sum(values[k] * cos(pi * j * (2 * k + 1) / (2 * n)) for k in range(n)) for j in range(n)]
    series[0] /= 2
    result, before, now = [mpf(0)] * n, [mpf(0)] * (n + 1), [mpf(1)] + [mpf(0)] * n
    for j in range(n):
        result = [r + series[j] * c for r, c in zip(result, now)]
        factor = 1 if j == 0 else 2
        before, now = now, [factor * a - b for a, b in zip([mpf(0)] + now[:-1], before)]
    return result


def between(function, low, high, degree):
    """Coefficients of 1, x, x^2 ... of the interpolation on [low, high]."""
    middle, half = (low + high) / mpf(2), (high - low) / mpf(2)
    result = [mpf(0)] * (degree + 1)
    for c in reversed(chebyshev(lambda u: function(middle + half * u), degree)):
        # result * (x - middle) / half + c
        result = [a / half - b * middle / half for a, b in zip([mpf(0)] + result[:-1], result)]
        result[0] += c
    return result


def erfc_scaled(u):
    t = (u - mpf("0.5")) / mpf("2.5")
    x = 4 * (1 + t) / (1 - t)
    return erfc(x) * exp(x * x)


def pieces(value, bits, count):
    """`value` cut into `count` numbers of `bits` bits, and what is left."""
    result = []
    for _ in range(count):
        unit = mpf(2) ** (floor(log(value, 2)) - bits + 1)
        result.append(floor(value / unit) * unit)
        value -= result[-1]
    return result + [value]


def show(name, values):
    print(name, ", ".join(float(v).hex() for v in values))


if __name__ == "__main__":
    show("kErfcScaled", chebyshev(erfc_scaled, 17))
    show("kLn2First, kLn2Second, kLn2Third", pieces(log(2), 32, 2))
    show("kHalfPi", pieces(pi / 2, 22, 5))
    for name, value in (("kLn2", log(2)), ("kTwoOverSqrtPi", 2 / sqrt(pi))):
        show(name, [mpf(float(value)), value - mpf(float(value))])
    limit = mpf("0.3467")   # ln(2) / 2 and a little
    show("math_blocks.h: (e^r - 1) / r", between(lambda r: expm1(r) / r if r else mpf(1), -limit, limit, 8))
    show("erf(x) / x in x^2, x <= 1", between(lambda z: erf(sqrt(z)) / sqrt(z) if z else 2 / sqrt(pi), 0, 1, 9))
    show("erfc(x) e^(x^2) in (x - 2) / (x + 2), 1 <= x <= 4",
         between(lambda u: erfc(2 * (1 + u) / (1 - u)) * exp((2 * (1 + u) / (1 - u)) ** 2), -mpf(1) / 3, mpf(1) / 3, 11))
