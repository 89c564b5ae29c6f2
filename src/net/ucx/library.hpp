// SPDX-License-Identifier: Apache-2.0
// The functions of UCX that are used, taken from its library when the first wire is opened: a program that was built with
// UCX starts without it, and UCX's initialisation sees an environment in which it leaves this process' signals alone. Included
// by wire.cpp, ucx_memory.hpp and library.cpp only.
#pragma once

#include <ucp/api/ucp.h>

#include "base/status.hpp"

namespace ayatori::net::ucx {

struct Library {
  decltype(&::ucp_get_version_string) get_version_string;
  decltype(&::ucp_config_read) config_read;
  decltype(&::ucp_config_modify) config_modify;
  decltype(&::ucp_config_release) config_release;
  decltype(&::ucp_init_version) init_version;
  decltype(&::ucp_cleanup) cleanup;
  decltype(&::ucp_worker_create) worker_create;
  decltype(&::ucp_worker_destroy) worker_destroy;
  decltype(&::ucp_worker_query) worker_query;
  decltype(&::ucp_worker_release_address) worker_release_address;
  decltype(&::ucp_worker_get_efd) worker_get_efd;
  decltype(&::ucp_worker_arm) worker_arm;
  decltype(&::ucp_worker_progress) worker_progress;
  decltype(&::ucp_worker_set_am_recv_handler) worker_set_am_recv_handler;
  decltype(&::ucp_ep_create) ep_create;
  decltype(&::ucp_ep_close_nbx) ep_close_nbx;
  decltype(&::ucp_am_send_nbx) am_send_nbx;
  decltype(&::ucp_context_query) context_query;
  decltype(&::ucp_mem_map) mem_map;
  decltype(&::ucp_mem_query) mem_query;
  decltype(&::ucp_mem_unmap) mem_unmap;
  decltype(&::ucp_rkey_pack) rkey_pack;
  decltype(&::ucp_rkey_buffer_release) rkey_buffer_release;
  decltype(&::ucp_ep_rkey_unpack) ep_rkey_unpack;
  decltype(&::ucp_rkey_destroy) rkey_destroy;
  decltype(&::ucp_put_nbx) put_nbx;
  decltype(&::ucp_get_nbx) get_nbx;
  decltype(&::ucp_atomic_op_nbx) atomic_op_nbx;
  decltype(&::ucp_ep_flush_nbx) ep_flush_nbx;
  decltype(&::ucp_request_free) request_free;
  decltype(&::ucs_status_string) status_string;
};

// Loads it unless that was done before. Any thread, but see setenv(3): call it while nobody else touches the environment.
base::Status load_library(const Library** library);

}  // namespace ayatori::net::ucx
