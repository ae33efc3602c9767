// Included before everything else where Clang reads sources with LibTorch (check_thread_safety, check_tidy). Clang
// instantiates the members of a vector early where they are constexpr, and LibTorch 1.13 has vectors of types that are
// complete only later. So libstdc++ 12 is told to do as before C++20.
#include <bits/allocator.h>
#undef __cpp_lib_is_constant_evaluated
#undef _GLIBCXX20_CONSTEXPR
#define _GLIBCXX20_CONSTEXPR
