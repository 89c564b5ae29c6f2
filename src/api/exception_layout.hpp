// SPDX-License-Identifier: Apache-2.0
// Exceptions as the GNU C++ library lays them out.
//
// X1. The library's header lies right before the thrown object: struct RefcountedException below is its layout in the
//     GNU C++ library (unwind-cxx.h, stable since GCC 4.5; tests throw, rethrow and hold exceptions against it).
#pragma once

#include <unwind.h>

#include <exception>
#include <typeinfo>

namespace ayatori::api {

struct CxaException {
  std::type_info* type;
  void (*destructor)(void*);
  std::terminate_handler unexpected_handler;
  std::terminate_handler terminate_handler;
  CxaException* next;
  int handler_count;
  int handler_switch_value;
  const unsigned char* action_record;
  const unsigned char* language_specific_data;
  _Unwind_Ptr catch_temporary;
  void* adjusted_pointer;
  _Unwind_Exception unwind_header;
};
struct RefcountedException {
  int reference_count;
  CxaException exception;
};
// A rethrown exception_ptr: the same fields, first the primary exception; same size (X1).
using DependentException = CxaException;

#if defined(__x86_64__)
static_assert(sizeof(RefcountedException) == 128 && sizeof(DependentException) == 112);
#endif

}  // namespace ayatori::api
