#pragma once

// What the answer says, in words and tables: the content that the terminal and Markdown share.

#include <span>
#include <string>
#include <vector>

#include "tools/answer.h"
#include "tools/text_table.h"

namespace flopcast {

/// One line of a summary.
struct Fact {
  std::string name;
  std::string text;
  Tone tone = Tone::plain;
};

/// Model, machine, layout and training of the scenario.
std::vector<Fact> question_facts(const Answer& answer);
/// Fits or not, step time, throughput, MFU and HFU with what they are divided by, evidence.
std::vector<Fact> answer_facts(const Answer& answer);

TextTable time_table(const StepReport& report);
TextTable communication_table(const StepReport& report);
/// How the groups lie on the machine; empty for one GPU.
TextTable placement_table(const StepReport& report);
/// What of it costs time: "TP group spans nodes: costs up to 12.3 ms of the step".
std::vector<Fact> placement_warnings(const StepReport& report);
/// Steps and waiting under jitter; empty without.
std::vector<Fact> jitter_facts(const StepReport& report);
/// What failures and checkpoints leave; empty where the scenario says nothing of them.
std::vector<Fact> goodput_facts(const StepReport& report);
/// Drops, loads of experts and ranks, bytes; empty without experts.
std::vector<Fact> routing_facts(const StepReport& report);
TextTable memory_table(const StepReport& report);
TextTable expectation_table(std::span<const ExpectationResult> expectations);

/// "fits: 71.20 of 80.00 GB ...", or by how much it does not and which ledger is the largest.
std::vector<Fact> memory_facts(const StepReport& report);
/// How many ranks and events were simulated.
std::string simulation_note(const StepReport& report);

/// A value of a metric with its unit.
std::string metric_text(double value, MetricUnit unit);
/// "at most 80.00 GB", "5.2 s to 6.6 s".
std::string bounds_text(const ExpectationResult& result);

/// "405.9 B": four digits and the letter of a thousand, million, billion or trillion.
std::string count_text(double count);

}  // namespace flopcast
