// Collectives start when the last member arrives; messages start when the sender reaches them and
// wait at the receiver. Both are flights: a latency, then a transfer that the rate solver paces.

#include <algorithm>

#include "sim/check.h"
#include "sim/engine_state.h"

namespace flopcast {

void EngineState::join_collective(std::uint32_t stream, const Op& op) {
  StreamRow& row = streams_[stream];
  const GroupId group = tables_.group_of(row.rank, op.slot);
  Gathering& gathering = gatherings_[index_of(group)];
  std::uint32_t& joined = joined_round_[tables_.rank_slots[index_of(row.rank)] + op.slot];
  FLOPCAST_CHECK(joined != gathering.round, "a rank uses a group from one stream at a time");
  FLOPCAST_CHECK(gathering.arrived == 0 || gathering.transfer == op.row,
                 "all members of a group bring the same collectives in the same order");
  joined = gathering.round;
  gathering.transfer = op.row;
  row.state = StreamState::joining;
  row.next = gathering.streams;
  gathering.streams = stream;
  if (++gathering.arrived == tables_.group_arrivals[index_of(group)]) start_collective(group);
}

void EngineState::start_collective(GroupId group) {
  Gathering& gathering = gatherings_[index_of(group)];
  FLOPCAST_CHECK(!gathering.under_way, "a group has one collective at a time");
  const std::uint32_t flight = launch({.group = group,
                                       .transfer = gathering.transfer,
                                       .streams = gathering.streams,
                                       .start = now_});
  for (std::uint32_t s = gathering.streams; s != kNoRow; s = streams_[s].next) {
    streams_[s].state = StreamState::transferring;
    streams_[s].flight = flight;
    touch(streams_[s].rank);
  }
  gathering.arrived = 0;
  gathering.streams = kNoRow;
  ++gathering.round;
  gathering.under_way = true;
}

void EngineState::start_send(std::uint32_t stream, const Op& op) {
  StreamRow& row = streams_[stream];
  const GroupId group = tables_.group_of(row.rank, op.slot);
  row.state = StreamState::transferring;
  row.next = kNoRow;
  row.flight = launch(
      {.group = group, .transfer = op.row, .message = true, .streams = stream, .start = now_});
  auto& messages = messages_[index_of(group)];
  auto message = std::find_if(messages.begin(), messages.end(),
                              [&op](const Message& m) { return m.tag == op.tag && !m.sent; });
  if (message == messages.end()) message = messages.insert(message, {.tag = op.tag});
  message->sent = true;
  message->flight = row.flight;
  if (message->receiver != kNoRow) {
    streams_[message->receiver].flight = row.flight;
    touch(streams_[message->receiver].rank);
  }
}

/// True where the message had arrived before.
bool EngineState::start_recv(std::uint32_t stream, const Op& op) {
  StreamRow& row = streams_[stream];
  auto& messages = messages_[index_of(tables_.group_of(row.rank, op.slot))];
  auto message = std::find_if(messages.begin(), messages.end(), [&op](const Message& m) {
    return m.tag == op.tag && m.receiver == kNoRow;
  });
  if (message == messages.end()) message = messages.insert(message, {.tag = op.tag});
  if (message->sent && message->flight == kNoRow) {
    messages.erase(message);
    end_communication(stream, now_, Bytes{});
    return true;
  }
  message->receiver = stream;
  row.state = StreamState::receiving;
  row.flight = message->flight;
  return false;
}

std::uint32_t EngineState::launch(const Flight& flight) {
  std::uint32_t row = 0;
  if (free_flights_.empty()) {
    row = static_cast<std::uint32_t>(flights_.size());
    flights_.push_back(flight);
  } else {
    row = free_flights_.back();
    free_flights_.pop_back();
    flights_[row] = flight;
  }
  share_ranks(flight, true);
  const Transfer& transfer = tables_.source.transfers[flight.transfer];
  if (flies_alone(flight)) {
    fly_alone(row);
  } else if (transfer.latency.value > 0) {
    queue_.push(after(now_, transfer.latency), EventKind::latency_done, row);
  } else {
    start_transfer(row);
  }
  return row;
}

/// On links that nothing else can load all is known at the start: it takes one event, and no
/// solving. Only a timeline wants to see the links.
bool EngineState::flies_alone(const Flight& flight) const {
  const Transfer& transfer = tables_.source.transfers[flight.transfer];
  return sink_ == nullptr &&
         (transfer.size.value <= 0 || tables_.load_list(flight.group, transfer.pattern).own);
}

void EngineState::fly_alone(std::uint32_t row) {
  Flight& flight = flights_[row];
  const Transfer& transfer = tables_.source.transfers[flight.transfer];
  if (transfer.latency.value > 0) ++result_.events;
  flight.since = after(now_, transfer.latency);
  SimTime end = flight.since;
  if (transfer.size.value > 0) {
    flight.rate =
        tables_.rate_alone(tables_.load_list(flight.group, transfer.pattern), transfer.solo_rate);
    end = after(end, transfer.size / flight.rate);
  }
  flight.ticket = queue_.push(end, EventKind::transfer_done, row);
}

void EngineState::start_transfer(std::uint32_t row) {
  Flight& flight = flights_[row];
  const Transfer& transfer = tables_.source.transfers[flight.transfer];
  flight.remaining = transfer.size;
  flight.since = now_;
  if (transfer.size.value > 0) {
    rates_.start(ActivityId{row}, transfer.solo_rate,
                 tables_.loads_of(tables_.load_list(flight.group, transfer.pattern)));
  } else {
    flight.ticket = queue_.push(now_, EventKind::transfer_done, row);
  }
}

void EngineState::finish_transfer(std::uint32_t row) {
  const Flight flight = flights_[row];
  const Transfer& transfer = tables_.source.transfers[flight.transfer];
  flights_[row].ticket = kNoTicket;
  if (transfer.size.value > 0) {
    const bool alone = flies_alone(flight);
    if (!alone) rates_.stop(ActivityId{row});
    const LoadList& list = tables_.load_list(flight.group, transfer.pattern);
    for (const LinkLoad& load : tables_.loads_of(list)) {
      LinkSummary& link = result_.links[index_of(load.link)];
      link.carried += load.weight * transfer.size;
      if (!alone) continue;
      link.busy += now_ - flight.since;
      link.peak_use = std::max(link.peak_use, load.weight * flight.rate.value /
                                                  tables_.link_capacity[index_of(load.link)]);
    }
  }
  share_ranks(flight, false);
  if (flight.message) {
    deliver(flight, row);
  } else {
    gatherings_[index_of(flight.group)].under_way = false;
  }
  for (std::uint32_t s = flight.streams; s != kNoRow;) {
    const std::uint32_t next = streams_[s].next;
    if (next != kNoRow) __builtin_prefetch(&streams_[next]);
    end_communication(s, flight.start, transfer.size);
    go_on(s);
    s = next;
  }
  free_flights_.push_back(row);
}

void EngineState::deliver(const Flight& flight, std::uint32_t row) {
  auto& messages = messages_[index_of(flight.group)];
  const auto message = std::find_if(messages.begin(), messages.end(),
                                    [row](const Message& m) { return m.flight == row; });
  if (message->receiver == kNoRow) {
    message->flight = kNoRow;
    return;
  }
  const std::uint32_t receiver = message->receiver;
  messages.erase(message);
  end_communication(receiver, std::max(flight.start, streams_[receiver].begin), Bytes{});
  go_on(receiver);
}

/// Books an op whose transfer ran from `start` until now. Bytes of a message count at its sender.
void EngineState::end_communication(std::uint32_t stream, SimTime start, Bytes moved) {
  StreamRow& row = streams_[stream];
  CategoryRow& category = category_row(row.rank, op_of(row).category);
  category.time.busy += now_ - start;
  category.bytes += moved.value;
  ++category.ops;
  row.flight = kNoRow;
  note_span(row, start);
}

/// A communication kernel runs on every member from start to end, latency included.
void EngineState::share_ranks(const Flight& flight, bool take) {
  const std::uint32_t share = tables_.transfer_share[flight.transfer];
  if (share == 0) return;
  for (const RankId member : tables_.source.groups[index_of(flight.group)].members) {
    std::uint16_t& running = shares_[index_of(member) * tables_.shares.size() + share];
    FLOPCAST_CHECK(take ? running < 0xffffU : running > 0, "what runs is counted in 16 bits");
    running = static_cast<std::uint16_t>(take ? running + 1 : running - 1);
    RankRow& rank = ranks_[index_of(member)];
    if (rank.share_changed) continue;
    rank.share_changed = true;
    rerated_.push_back(member);
  }
}

/// The largest of what runs counts.
double EngineState::share_taken(RankId id) const {
  const std::size_t values = tables_.shares.size();
  std::size_t share = values - 1;
  while (share > 0 && shares_[index_of(id) * values + share] == 0) --share;
  return tables_.shares[share];
}

}  // namespace flopcast
