// SPDX-License-Identifier: Apache-2.0
// From an object of the C interface to its handle. Called on any thread and stack.
//
// H1. An object in the space that an init function made holds its handle in its word, which is plain data.
// H2. An object in the space that came from an initialiser keeps its word 0; its handle is found by its address, and all
//     processes agree there on who made it. When such memory is used anew without a destroy, its next object takes over
//     the old one if that is of the same kind and type, and replaces it otherwise.
// H3. An object in static data keeps its word 0 in every process and is found by its address, however it was made. Its
//     type is the object's: the bytes may say it in one process only.
// H4. Another object is its process's own; its handle is in its word.
#pragma once

#include <cstdint>

#include "tasks/sync.hpp"

namespace ayatori::api {

using tasks::sync::Handle;
using tasks::sync::Kind;

enum class Reach {
  kJob,      // static data is one object for the job
  kProcess,  // static data is each process's own: H4, not H3
};

// 0: there is no living object of this kind.
Handle find_object(std::uint64_t* word, Kind kind, Reach reach = Reach::kJob) noexcept;
// As find_object, but makes one of this type if there is none of this type. 0: no room.
Handle ensure_object(std::uint64_t* word, Kind kind, std::uint32_t type, Reach reach = Reach::kJob) noexcept;
// For init functions: a new object, whatever stands in the word; `value`: threads of a barrier, value of a semaphore. In
// static data one that is there already is kept. 0: no room.
Handle init_object(std::uint64_t* word, Kind kind, std::uint32_t type, std::uint32_t value) noexcept;
void destroy_object(std::uint64_t* word, Handle handle) noexcept;

}  // namespace ayatori::api
