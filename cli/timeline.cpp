#include "cli/timeline.h"

#include <fmt/format.h>

#include <algorithm>

#include "pipeline/report.h"

namespace hetsynth::cli {
namespace {

constexpr double page_width = 1600, row_height = 26, row_gap = 6, name_width = 180;
/// Of a row: the upper part of it computes.
constexpr double computing_height = 16;
/// Devices drawn; those beyond are alike in what they show and would make the page unreadable.
constexpr size_t most_rows = 64;

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

constexpr std::string_view style =
    "body{font:14px sans-serif;margin:24px;color:#222}text{font:12px sans-serif}.forward{fill:#4c9f70}"
    ".backward{fill:#3b7dd8}.update{fill:#8e6bbf}.communication{fill:#e0803a}.bar:hover{stroke:#000}"
    ".row{fill:#eee}.key span{display:inline-block;width:12px;height:12px;margin:0 4px 0 16px}";

/// Bars of one device: those too narrow to see are left out.
std::string row(const Plan& plan, const Program& reference, const std::vector<InstructionPrice>& prices,
                const Timeline& timeline, size_t rank, double top) {
  std::string out =
      fmt::format("<text x=\"0\" y=\"{:.1f}\">{}</text>", top + row_height * 0.65, escaped(plan.devices[rank].name));
  out += fmt::format("<rect class=\"row\" x=\"{}\" y=\"{:.1f}\" width=\"{}\" height=\"{}\"/>\n", name_width, top,
                     page_width, row_height);
  const double scale = timeline.seconds > 0 ? page_width / timeline.seconds : 0;
  for (size_t i = 0; i < prices.size(); ++i) {
    const TimelineSpan& span = timeline.spans[i][rank];
    const double seconds = span.end - span.start, width = seconds * scale;
    if (width < 0.15) continue;
    const Instruction& instruction = plan.program.instructions[i];
    const Node& node = reference[plan.program.values[size_t(instruction.result)].node];
    const bool communicates = prices[i].communicates();
    const std::string kind = communicates ? "communication" : std::string(name(node.phase));
    out += fmt::format(
        "<rect class=\"bar {}\" x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{}\"><title>{} {} ({})\n{} from {}"
        "</title></rect>\n",
        kind, name_width + span.start * scale, top + (communicates ? computing_height : 0), width,
        communicates ? row_height - computing_height : computing_height, name(instruction.opcode), escaped(node.name),
        escaped(node.where.text()), seconds_text(seconds), seconds_text(span.start));
  }
  return out;
}

}  // namespace

std::string timeline_page(const Plan& plan, const Program& reference, const std::vector<InstructionPrice>& prices,
                          const Timeline& timeline) {
  size_t rows = std::min(most_rows, plan.devices.size());
  std::string out = fmt::format(
      "<!doctype html><html><head><meta charset=\"utf-8\"><meta name=\"generator\" content=\"hetsynth\">"
      "<title>{0}</title><style>{1}</style></head><body>\n"
      "<h1>{0} on {2}</h1>\n<p>One training step as predicted: {3}. Computing is above, communication below; grey is "
      "waiting.</p>\n<p class=\"key\">",
      escaped(plan.model_file), style, escaped(plan.cluster_name), seconds_text(timeline.seconds));
  for (auto [label, colour] : {std::pair{"forward", "#4c9f70"},
                               {"backward", "#3b7dd8"},
                               {"update", "#8e6bbf"},
                               {"communication", "#e0803a"},
                               {"waiting", "#eee"}})
    out += fmt::format("<span style=\"background:{}\"></span>{}", colour, label);
  out += fmt::format("</p>\n<svg width=\"100%\" viewBox=\"0 0 {} {}\">\n", name_width + page_width,
                     double(rows) * (row_height + row_gap));
  for (size_t rank = 0; rank < rows; ++rank)
    out += row(plan, reference, prices, timeline, rank, double(rank) * (row_height + row_gap));
  out += "</svg>\n";
  if (rows < plan.devices.size())
    out += fmt::format("<p>The first {} of {} devices are shown.</p>\n", rows, plan.devices.size());
  return out + "</body></html>\n";
}

}  // namespace hetsynth::cli
