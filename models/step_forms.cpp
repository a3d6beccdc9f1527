#include "models/step_forms.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "models/step_network.h"

namespace flopcast {

StepForm form_of(const Transfer& transfer, CollectiveKind kind, const Group& group) {
  const bool loads =
      std::ranges::any_of(group.loads, [](const auto& list) { return !list.empty(); });
  if (group.members.size() < 2 || transfer.size <= Bytes{} || !loads) return StepForm::whole;
  if (transfer.pattern == kTreePattern) return StepForm::tree;
  if (transfer.pattern == kInSwitchPattern && kind == CollectiveKind::all_reduce) {
    return StepForm::in_switch;
  }
  if (transfer.pattern != kRingPattern) return StepForm::none;
  switch (kind) {
    case CollectiveKind::all_reduce:
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter: return StepForm::ring;
    case CollectiveKind::all_to_all: return StepForm::direct;
    case CollectiveKind::send_recv: return StepForm::next;
    case CollectiveKind::broadcast: return StepForm::none;
  }
  return StepForm::none;
}

std::vector<std::size_t> first_ranks(const Workload& workload) {
  std::vector<std::size_t> first(workload.programs.size());
  for (std::size_t rank = workload.ranks.size(); rank-- > 0;) {
    first[index_of(workload.ranks[rank].program)] = rank;
  }
  return first;
}

namespace {

std::string_view reason_of(const Transfer& transfer) {
  if (transfer.pattern == kInSwitchPattern) return " that the NVLink switch reduces";
  return transfer.pattern > kTreePattern ? " in the switches of the network (SHARP)" : "";
}

}  // namespace

std::optional<std::string> step_network_gap(const Plan& plan) {
  const Workload& workload = plan.workload;
  const std::vector<std::size_t> first = first_ranks(workload);
  for (std::size_t program = 0; program < workload.programs.size(); ++program) {
    for (const std::vector<Op>& stream : workload.programs[program].streams) {
      for (const Op& op : stream) {
        if (op.kind != OpKind::collective) continue;
        const Transfer& transfer = workload.transfers[op.row];
        const CollectiveKind kind = plan.transfer_kinds[op.row];
        const GroupId group = workload.ranks[first[program]].groups[op.slot];
        if (form_of(transfer, kind, workload.groups[index_of(group)]) != StepForm::none) continue;
        return std::string("network.model \"steps\": ")
            .append(to_text(kind))
            .append(reason_of(transfer))
            .append(" (")
            .append(workload.labels[index_of(op.label)])
            .append(") has no form as messages; \"fluid\" knows it");
      }
    }
  }
  return std::nullopt;
}

}  // namespace flopcast
