// exp, tanh and erf from additions, products and quotients, whose rounding Vulkan defines; what devices offer may be off
// by many units of the last place. Errors in u = 2^-24 where a device divides exactly: exp 2 u, tanh 2 u of the result,
// erf 3 u. The coefficients are Taylor's for exp, else Chebyshev interpolations of (tanh(x) / x - 1) / x^2 and
// (erf(x) / x - 2 / sqrt(pi)) / x^2 in x^2 on [0, 1], and of erfc(x) e^(x^2) in 3 (x - 2) / (x + 2) on [1, 4].
// A NaN gives a NaN.

// 2^n for -126 <= n <= 127.
float power_of_two(int n) { return uintBitsToFloat(uint(n + 127) << 23); }

float exp_of(float x) {
  precise float bounded = x > 89.0 ? 89.0 : (x < -105.0 ? -105.0 : x);
  precise float n = roundEven(bounded * 1.4426950408889634);
  // ln(2) in two pieces, the first so short that n times it is exact.
  precise float r = (bounded - n * 0.693145751953125) - n * 1.428606765330187e-06;
  precise float p = 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  int power = clamp(int(n), -160, 160), part = power / 2;
  precise float result = p * power_of_two(part) * power_of_two(power - part);
  return result;
}

float tanh_of(float x) {
  float size = abs(x);
  precise float result;
  if (size < 1.0) {
    precise float z = x * x;
    precise float p = 0.00014382881636265665;
    p = p * z - 0.0009271475137211382;
    p = p * z + 0.0032118537928909063;
    p = p * z - 0.008701320737600327;
    p = p * z + 0.021830778568983078;
    p = p * z - 0.05396362394094467;
    p = p * z + 0.13333311676979065;
    p = p * z - 0.3333333432674408;
    result = x + x * (z * p);
  } else {
    precise float large = 1.0 - 2.0 / (exp_of(2.0 * size) + 1.0);
    result = x < 0.0 ? -large : large;
  }
  return result;
}

float erf_of(float x) {
  float size = abs(x);
  precise float result;
  if (size < 1.0) {
    precise float z = x * x;
    precise float p = -1.0223599929304328e-05;
    p = p * z + 0.00011453796469140798;
    p = p * z - 0.0008508777245879173;
    p = p * z + 0.005222623236477375;
    p = p * z - 0.026865947991609573;
    p = p * z + 0.11283790320158005;
    p = p * z - 0.37612637877464294;
    result = x * (1.1283791670955126 + z * p);
  } else if (size > 4.0) {
    result = x < 0.0 ? -1.0 : 1.0;   // to the last bit
  } else {
    precise float u = 3.0 * (size - 2.0) / (size + 2.0);
    precise float p = 8.435142362372972e-09;
    p = p * u + 7.699927806470441e-09;
    p = p * u - 4.4858478531750734e-07;
    p = p * u - 1.1629610980889993e-06;
    p = p * u + 2.8795955586247146e-05;
    p = p * u + 4.608540621120483e-05;
    p = p * u - 0.0029251326341181993;
    p = p * u + 0.026850910857319832;
    p = p * u - 0.1423952877521515;
    p = p * u + 0.25539568066596985;
    precise float size_result = 1.0 - exp_of(-size * size) * p;
    result = x < 0.0 ? -size_result : size_result;   // a NaN comes here
  }
  return result;
}

// f of `activate` and `gate`.
float activation_of(uint function, float x) {
  precise float y = x;
  if (function == MOTE_VK_RELU) y = x < 0.0 ? 0.0 : x;   // relu; a NaN stays
  if (function == MOTE_VK_SILU) y = x / (1.0 + exp_of(-x));
  if (function == MOTE_VK_GELU_TANH) y = x * 0.5 * (1.0 + tanh_of(0.7978845608028654 * (x + 0.044715 * x * x * x)));
  if (function == MOTE_VK_GELU_ERF) y = x * 0.5 * (1.0 + erf_of(x * 0.7071067811865476));
  return y;
}
