"""Standard headers for NVRTC, which has none of the host compiler's.

Sources written for nvcc say ``#include <cstdint>``.  Each row gives NVRTC an in-memory header of that
name that forwards to libcu++ (``cuda/std/...``, wheel nvidia-cuda-cccl or the toolkit) and lifts its
names into ``std``.  The integer types, ``float.h`` and ``limits.h`` have a form of their own, so that
they work without libcu++ too.  ``printf``, ``assert``, ``memcpy`` and the math functions are built
into NVRTC.  Host-only headers (``iostream``, ``vector``) are left out: kernels cannot use them.
"""

from __future__ import annotations

_INTEGERS = """
typedef signed char int8_t; typedef short int16_t; typedef int int32_t; typedef long long int64_t;
typedef unsigned char uint8_t; typedef unsigned short uint16_t; typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef int8_t int_least8_t; typedef int16_t int_least16_t; typedef int32_t int_least32_t;
typedef int64_t int_least64_t; typedef uint8_t uint_least8_t; typedef uint16_t uint_least16_t;
typedef uint32_t uint_least32_t; typedef uint64_t uint_least64_t;
typedef int8_t int_fast8_t; typedef int16_t int_fast16_t; typedef int32_t int_fast32_t;
typedef int64_t int_fast64_t; typedef uint8_t uint_fast8_t; typedef uint16_t uint_fast16_t;
typedef uint32_t uint_fast32_t; typedef uint64_t uint_fast64_t;
typedef int64_t intptr_t; typedef uint64_t uintptr_t; typedef int64_t intmax_t; typedef uint64_t uintmax_t;
#define INT8_MIN (-128)
#define INT16_MIN (-32767 - 1)
#define INT32_MIN (-2147483647 - 1)
#define INT64_MIN (-9223372036854775807LL - 1)
#define INT8_MAX 127
#define INT16_MAX 32767
#define INT32_MAX 2147483647
#define INT64_MAX 9223372036854775807LL
#define UINT8_MAX 255
#define UINT16_MAX 65535
#define UINT32_MAX 4294967295U
#define UINT64_MAX 18446744073709551615ULL
#define SIZE_MAX UINT64_MAX
namespace std {
using ::int8_t; using ::int16_t; using ::int32_t; using ::int64_t;
using ::uint8_t; using ::uint16_t; using ::uint32_t; using ::uint64_t;
using ::intptr_t; using ::uintptr_t; using ::intmax_t; using ::uintmax_t;
}
"""
_LIMITS = """
#define CHAR_BIT 8
#define SCHAR_MIN (-128)
#define SCHAR_MAX 127
#define UCHAR_MAX 255
#define CHAR_MIN SCHAR_MIN
#define CHAR_MAX SCHAR_MAX
#define SHRT_MIN (-32767 - 1)
#define SHRT_MAX 32767
#define USHRT_MAX 65535
#define INT_MIN (-2147483647 - 1)
#define INT_MAX 2147483647
#define UINT_MAX 4294967295U
#define LONG_MAX __LONG_MAX__
#define LONG_MIN (-__LONG_MAX__ - 1L)
#define ULONG_MAX (__LONG_MAX__ * 2UL + 1UL)
#define LLONG_MAX 9223372036854775807LL
#define LLONG_MIN (-9223372036854775807LL - 1)
#define ULLONG_MAX 18446744073709551615ULL
"""
_FLOATS = """
#define FLT_RADIX 2
#define FLT_MANT_DIG 24
#define FLT_DIG 6
#define FLT_MIN_EXP (-125)
#define FLT_MAX_EXP 128
#define FLT_EPSILON 1.19209289550781250000e-7F
#define FLT_MIN 1.17549435082228750797e-38F
#define FLT_MAX 3.40282346638528859812e+38F
#define DBL_MANT_DIG 53
#define DBL_DIG 15
#define DBL_MIN_EXP (-1021)
#define DBL_MAX_EXP 1024
#define DBL_EPSILON 2.22044604925031308085e-16
#define DBL_MIN 2.22507385850720138309e-308
#define DBL_MAX 1.79769313486231570815e+308
"""


def _forward(name: str, otherwise: str | None = None) -> str:
    """A header that lifts ``cuda/std/<name>`` into ``std``; ``otherwise`` is used without libcu++."""
    fallback = otherwise or f'#error "<{name}> needs libcu++: pip install nvidia-cuda-cccl"\n'
    return (
        f"#pragma once\n#if __has_include(<cuda/std/{name}>)\n#include <cuda/std/{name}>\n"
        "namespace cuda { namespace std {} }\nnamespace std { using namespace cuda::std; }\n"
        f"#else\n{fallback}#endif\n"
    )


def _plain(text: str) -> str:
    return f"#pragma once\n{text}"


_FORWARDED = (
    "algorithm array atomic bit chrono cmath cstdlib complex concepts functional initializer_list "
    "iterator limits numeric optional ratio span tuple type_traits utility variant"
).split()
#: Name in ``#include <...>`` -> text.
HEADERS: dict[str, str] = {
    **{name: _forward(name) for name in _FORWARDED},
    "cstdint": _forward("cstdint", _INTEGERS),
    "stdint.h": _forward("cstdint", _INTEGERS),
    "inttypes.h": _forward("cstdint", _INTEGERS),
    "climits": _forward("climits", _LIMITS),
    "limits.h": _forward("climits", _LIMITS),
    "cfloat": _forward("cfloat", _FLOATS),
    "float.h": _forward("cfloat", _FLOATS),
    "cstddef": _forward("cstddef", "namespace std { using ::size_t; using ::ptrdiff_t; }\n"),
    "stddef.h": _plain(""),
    "math.h": _plain(""),
    "stdlib.h": _plain(""),
    "stdbool.h": _plain(""),
    "cstring": _plain("namespace std { using ::memcpy; using ::memset; using ::size_t; }\n"),
    "string.h": _plain(""),
    "memory.h": _plain(""),
    "cassert": _plain(""),
    "assert.h": _plain(""),
    "cstdio": _plain("namespace std { using ::printf; }\n"),
    "stdio.h": _plain(""),
}
