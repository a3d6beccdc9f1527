// The matrix of `nvidia-smi topo -m`: a heading of GPUs and cards, a row for each, words for paths.
//   X itself, NV<n> n NVLinks, PIX, PXB, PHB, NODE, SYS as its legend explains them
// Below it a legend gives the names of cards: "NIC0: mlx5_0". Source: nvidia-smi 535 to 575.

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "scenarios/import_topology_parts.h"
#include "scenarios/nearest.h"

namespace flopcast {
namespace {

struct Word {
  std::string_view text;
  std::size_t offset = 0;
};

/// Words of a line, without the underlining that a terminal gets.
std::vector<Word> words_of(std::string_view text, std::size_t begin, std::size_t end) {
  std::vector<Word> words;
  std::size_t at = begin;
  while (at < end) {
    if (text.substr(at, 2) == "\x1b[") {
      at = std::min(end,
                    text.find('m', at) == std::string_view::npos ? end : text.find('m', at) + 1);
      continue;
    }
    if (text[at] == ' ' || text[at] == '\t' || text[at] == '\r') {
      ++at;
      continue;
    }
    std::size_t stop = at;
    while (stop < end && std::string_view(" \t\r\x1b").find(text[stop]) == std::string_view::npos) {
      ++stop;
    }
    words.push_back({text.substr(at, stop - at), at});
    at = std::max(stop, at + 1);
  }
  return words;
}

bool is_numbered(std::string_view word, std::string_view kind) {
  return word.starts_with(kind) && word.size() > kind.size() &&
         std::ranges::all_of(word.substr(kind.size()), [](char c) { return '0' <= c && c <= '9'; });
}

bool is_gpu(std::string_view word) { return is_numbered(word, "GPU"); }
// Older drivers name cards in the matrix itself.
bool is_card(std::string_view word) {
  return is_numbered(word, "NIC") || is_numbered(word, "mlx5_") || is_numbered(word, "mlx4_");
}

class Matrix {
 public:
  Matrix(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  Wiring read() && {
    std::size_t begin = 0;
    while (begin < text_.size()) {
      const std::size_t end = std::min(text_.find('\n', begin), text_.size());
      read_line(words_of(text_, begin, end));
      begin = end + 1;
    }
    if (columns_.empty()) fail_at(text_, 0, name_, "no matrix of nvidia-smi topo -m, no NCCL XML");
    if (rows_ < wiring_.gpus) {
      fail_at(text_, text_.size(), name_,
              fmt::format("expected rows of {} GPUs, found {}", wiring_.gpus, rows_));
    }
    for (std::string& card : wiring_.cards) {
      if (const auto known = card_names_.find(card); known != card_names_.end()) {
        card = known->second;
      }
    }
    return std::move(wiring_);
  }

 private:
  void read_line(const std::vector<Word>& words) {
    if (words.empty()) return;
    const std::string_view first = words.front().text;
    if (columns_.empty()) {
      if (is_gpu(first)) read_heading(words);
    } else if (is_gpu(first) && rows_ < wiring_.gpus) {
      read_row(words);
    } else if (words.size() == 2 && first.starts_with("NIC") && first.ends_with(':')) {
      card_names_[std::string(first.substr(0, first.size() - 1))] = std::string(words[1].text);
    }
  }

  void read_heading(const std::vector<Word>& words) {
    for (const Word& word : words) {
      if (!is_gpu(word.text) && !is_card(word.text)) break;  // "CPU Affinity" and beyond
      columns_.push_back(word.text);
      if (is_gpu(word.text)) {
        ++wiring_.gpus;
      } else {
        wiring_.cards.emplace_back(word.text);
      }
    }
  }

  void read_row(const std::vector<Word>& words) {
    const std::string expected = fmt::format("GPU{}", rows_);
    if (words.front().text != expected) {
      fail_at(text_, words.front().offset, name_,
              fmt::format("expected the row of {}, found {}", expected, words.front().text));
    }
    if (words.size() < columns_.size() + 1) {
      fail_at(text_, words.back().offset + words.back().text.size(), name_,
              fmt::format("expected {} paths for {}, found {}", columns_.size(), expected,
                          words.size() - 1));
    }
    std::vector<int> links;
    std::vector<int> distance;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const Word& word = words[i + 1];
      if (is_gpu(columns_[i])) {
        links.push_back(nvlinks(word));
      } else {
        distance.push_back(path(word));
      }
    }
    wiring_.nvlinks.push_back(std::move(links));
    wiring_.distance.push_back(std::move(distance));
    ++rows_;
  }

  int nvlinks(const Word& word) const {
    if (word.text == "X") return 0;
    if (!is_numbered(word.text, "NV")) {
      path(word);
      return 0;
    }
    int links = 0;
    const std::string_view digits = word.text.substr(2);
    const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), links);
    constexpr int kMost = 1000;
    if (result.ec != std::errc() || links > kMost) {
      fail_at(text_, word.offset, name_, fmt::format("{} is no number of NVLinks", word.text));
    }
    return links;
  }

  int path(const Word& word) const {
    const auto& known = path_words();
    const auto found = std::ranges::find(known, word.text);
    if (found == known.end()) {
      fail_at(text_, word.offset, name_,
              fmt::format("expected a path (NV<n>, {}), found {}{}", fmt::join(known, ", "),
                          word.text, did_you_mean(word.text, known)));
    }
    return static_cast<int>(found - known.begin());
  }

  std::string_view text_;
  const std::string& name_;
  std::vector<std::string_view> columns_;
  std::size_t rows_ = 0;
  std::map<std::string, std::string> card_names_;
  Wiring wiring_;
};

}  // namespace

Wiring wiring_of_matrix(std::string_view text, const std::string& name) {
  return Matrix(text, name).read();
}

}  // namespace flopcast
