// SPDX-License-Identifier: Apache-2.0
#include "base/topology_hwloc.hpp"

#include <dlfcn.h>
#include <hwloc.h>

namespace ayatori::base {
namespace {

template <class F>
F* find(void* library, const char* name) noexcept {
  return reinterpret_cast<F*>(::dlsym(library, name));
}

// Of the nearest object above of that type, or -1.
int above(const hwloc_obj* object, hwloc_obj_type_t type) noexcept {
  for (const hwloc_obj* o = object; o != nullptr; o = o->parent)
    if (o->type == type) return static_cast<int>(o->logical_index);
  return -1;
}

}  // namespace

bool hwloc_cpus(std::vector<Cpu>* cpus) {
  // Its file name has the interface's version: 2.x, as the header.
  static_assert(HWLOC_API_VERSION >= 0x00020000 && HWLOC_API_VERSION < 0x00030000);
  void* const library = ::dlopen("libhwloc.so.15", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return false;
  auto* const init = find<decltype(hwloc_topology_init)>(library, "hwloc_topology_init");
  auto* const load = find<decltype(hwloc_topology_load)>(library, "hwloc_topology_load");
  auto* const depth_of = find<decltype(hwloc_get_type_depth)>(library, "hwloc_get_type_depth");
  auto* const at = find<decltype(hwloc_get_obj_by_depth)>(library, "hwloc_get_obj_by_depth");
  auto* const has = find<decltype(hwloc_bitmap_isset)>(library, "hwloc_bitmap_isset");
  hwloc_topology_t topology = nullptr;
  if (!init || !load || !depth_of || !at || !has || init(&topology) != 0 || load(topology) != 0) return false;
  const int depth = depth_of(topology, HWLOC_OBJ_PU);
  for (unsigned i = 0;; ++i) {
    const hwloc_obj* const pu = at(topology, depth, i);
    if (pu == nullptr) break;
    Cpu cpu{static_cast<int>(pu->os_index), above(pu, HWLOC_OBJ_PACKAGE), 0, above(pu, HWLOC_OBJ_CORE)};
    if (cpu.package < 0) cpu.package = 0;
    if (cpu.core < 0) cpu.core = static_cast<int>(pu->logical_index);
    const int nodes = depth_of(topology, HWLOC_OBJ_NUMANODE);
    for (unsigned n = 0; const hwloc_obj* const node = at(topology, nodes, n); ++n)
      if (has(pu->nodeset, node->os_index) != 0) {
        cpu.node = static_cast<int>(node->logical_index);
        break;
      }
    cpus->push_back(cpu);
  }
  return !cpus->empty();  // the process ends: nothing is given back
}

}  // namespace ayatori::base
