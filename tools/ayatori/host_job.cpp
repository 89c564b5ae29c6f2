// SPDX-License-Identifier: Apache-2.0
#include "host_job.hpp"

#include <algorithm>

#include "frames.hpp"

namespace ayatori::tool {
namespace {

void pack_texts(Packer& packer, const std::vector<std::string>& texts) {
  packer.number(texts.size());
  for (const std::string& text : texts) packer.text(text);
}

bool unpack_texts(Unpacker& fields, std::vector<std::string>& texts) {
  for (std::uint64_t left = fields.number(); left != 0 && fields.ok(); --left) texts.emplace_back(fields.text());
  return fields.ok();
}

}  // namespace

std::string pack(const HostJob& job) {
  Packer packer;
  packer.text(job.version).number(job.job_id);
  packer.text({reinterpret_cast<const char*>(job.secret.data()), job.secret.size()});
  packer.number(static_cast<std::uint64_t>(job.first)).number(static_cast<std::uint64_t>(job.count));
  packer.number(job.label ? 1 : 0).number(job.stats ? 1 : 0).text(job.folder);
  pack_texts(packer, job.hosts);
  std::vector<std::string> knobs;
  for (const auto& [name, value] : job.knobs) {
    knobs.push_back(name);
    knobs.push_back(value);
  }
  pack_texts(packer, knobs);
  pack_texts(packer, job.command);
  return packer.body();
}

std::optional<HostJob> unpack_host_job(std::string_view body) {
  Unpacker fields(body);
  HostJob job;
  job.version = fields.text();
  job.job_id = fields.number();
  const std::string_view secret = fields.text();
  if (secret.size() != job.secret.size()) return std::nullopt;
  std::copy(secret.begin(), secret.end(), job.secret.begin());
  const std::uint64_t first = fields.number();
  const std::uint64_t count = fields.number();
  job.label = fields.number() != 0;
  job.stats = fields.number() != 0;
  job.folder = fields.text();
  std::vector<std::string> knobs;
  if (!unpack_texts(fields, job.hosts) || !unpack_texts(fields, knobs) || !unpack_texts(fields, job.command) ||
      !fields.ended())
    return std::nullopt;
  const std::uint64_t processes = job.hosts.size();
  if (processes > net::bootstrap::kMaxProcesses || count == 0 || count > processes || first > processes - count ||
      knobs.size() % 2 != 0 || job.command.empty())
    return std::nullopt;
  job.first = static_cast<int>(first);
  job.count = static_cast<int>(count);
  for (std::size_t i = 0; i < knobs.size(); i += 2) job.knobs.emplace_back(knobs[i], knobs[i + 1]);
  return job;
}

}  // namespace ayatori::tool
