#include "cli/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "pipeline/report.h"

namespace hetsynth::cli {
namespace {

/// Devices drawn; those beyond are alike in what they show and would make the page unreadable.
constexpr size_t most_rows = 64;
/// Bars of a smaller part of the step are left out: they are less than a pixel at the largest zoom.
constexpr double least_part = 1e-4;

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

/// Rows share the height of the window that is left by what stands above them.
constexpr std::string_view style = R"(
body{font:14px sans-serif;margin:0;padding:12px 16px;color:#222;box-sizing:border-box;height:100vh;display:flex;
flex-direction:column}h1{font-size:18px;margin:0 0 6px}p{margin:2px 0 6px}
.key span{display:inline-block;width:12px;height:12px;margin:0 4px 0 14px}button{font:14px sans-serif;min-width:32px}
.view{flex:0 1 auto;min-height:80px;overflow:auto;border:1px solid #ccc}.step{width:calc(100% * var(--zoom,1))}
.row{display:flex;height:max(29px,min(64px,calc((100vh - 210px)/var(--rows))))}
.row.first{border-top:2px solid #888}.name{position:sticky;left:0;z-index:1;width:190px;flex:none;background:#fff;
font-size:12px;line-height:1.15;padding:1px 6px 0 4px;box-sizing:border-box;overflow:hidden;border-right:1px solid #ccc}
.name b{display:block;white-space:nowrap;overflow:hidden;text-overflow:ellipsis}.row>svg{flex:1 1 auto;height:100%;min-width:0}
.row.times{height:18px;position:sticky;top:0;z-index:2;background:#fff}.times text{font:11px sans-serif;fill:#555}.turn text{font:10px sans-serif;fill:#fff}
.waiting{fill:#eee}.grid{stroke:#ccc}.forward{fill:#4c9f70}.backward{fill:#3b7dd8}.update{fill:#8e6bbf}
.communication{fill:#e0803a}.turn rect{stroke:#fff;stroke-width:.5}.bar:hover{stroke:#000}
)";

/// The more is zoomed in, the more times are named. Zooming keeps the time under the pointer, or in the middle of the
/// view, where it is.
constexpr std::string_view script = R"(
const times=document.querySelector('.times svg'),seconds=Number(times.dataset.seconds);
const words=t=>t<1e-3?(t*1e6).toFixed(0)+' us':t<1?(t*1e3).toFixed(2)+' ms':t.toFixed(2)+' s';
function tick(parts){let out='';for(let i=0;i<parts;i++){const x=100*i/parts+'%';
out+=`<line class="grid" x1="${x}" x2="${x}" y1="0" y2="18"/><text x="${x}" dx="3" y="13">${words(seconds*i/parts)}</text>`;}
times.innerHTML=out;}
const view=document.querySelector('.view'),step=document.querySelector('.step'),said=document.querySelector('#zoom');
const names=190;let zoom=1;
function set(to,x){to=Math.min(64,Math.max(1,to));const at=(view.scrollLeft+x-names)/(step.clientWidth-names);
zoom=to;step.style.setProperty('--zoom',zoom);said.textContent=Math.round(100*zoom)+' %';
tick(10*2**Math.floor(Math.log2(zoom)));
view.scrollLeft=at*(step.clientWidth-names)-x+names;}
const middle=()=>names+(view.clientWidth-names)/2;
document.querySelector('#in').onclick=()=>set(zoom*1.5,middle());
document.querySelector('#out').onclick=()=>set(zoom/1.5,middle());
document.querySelector('#all').onclick=()=>set(1,middle());
view.addEventListener('wheel',e=>{if(!e.ctrlKey)return;e.preventDefault();
set(zoom*Math.exp(-e.deltaY/300),Math.max(names,e.clientX-view.getBoundingClientRect().left));},{passive:false});
document.addEventListener('keydown',e=>{if(e.ctrlKey||e.metaKey)return;if(e.key=='+')set(zoom*1.5,middle());
if(e.key=='-')set(zoom/1.5,middle());if(e.key=='0')set(1,middle());});
)";

class Page {
 public:
  Page(double seconds, const std::vector<TimelineRow>& rows)
      : seconds_(std::max(seconds, 1e-30)), rows_(rows), shown_(std::min(most_rows, rows.size())) {
    // Where there are no turns a row of their names would say what colours say.
    for (const TimelineRow& row : rows)
      for (const TraceSlice& slice : row.slices)
        turns_ = turns_ || (slice.row == TraceRow::turns && slice.name.find("turn ") != std::string::npos);
  }

  std::string rows() const {
    std::string out = times();
    for (size_t r = 0; r < shown_; ++r) out += row(r);
    return out;
  }
  size_t shown() const { return shown_; }
  bool has_turns() const { return turns_; }

 private:
  double of_step(double seconds) const { return percent(seconds, seconds_); }

  /// Where a kind of bars lies in its row, in per cent of the height.
  std::pair<double, double> band(TraceRow row) const {
    if (row == TraceRow::turns) return {0, 30};
    if (row == TraceRow::computing) return turns_ ? std::pair(32.0, 38.0) : std::pair(4.0, 58.0);
    return turns_ ? std::pair(72.0, 26.0) : std::pair(66.0, 30.0);
  }

  std::string times() const {
    std::string out =
        fmt::format("<div class=\"row times\"><div class=\"name\"></div><svg data-seconds=\"{}\">", seconds_);
    for (int tenth = 0; tenth < 10; ++tenth)
      out += fmt::format(
          "<line class=\"grid\" x1=\"{0}%\" x2=\"{0}%\" y1=\"0\" y2=\"18\"/><text x=\"{0}%\" dx=\"3\" "
          "y=\"13\">{1}</text>",
          10 * tenth, seconds_text(seconds_ * tenth / 10));
    return out + "</svg></div>\n";
  }

  std::string row(size_t r) const {
    const TimelineRow& row = rows_[r];
    const bool first = row.stage >= 0 && (r == 0 || rows_[r - 1].stage != row.stage);
    const std::string bubble = fmt::format("bubble {:.1f} %", of_step(row.waiting));
    std::string out = fmt::format(
        "<div class=\"row{}\"><div class=\"name\"><b title=\"{}\">{}</b>{}{}</div><svg>"
        "<rect class=\"waiting\" width=\"100%\" height=\"100%\"><title>{}: waiting {} of the step "
        "({})</title></rect>\n",
        first ? " first" : "", escaped(row.device), escaped(row.device),
        row.stage < 0 ? "" : fmt::format("stage {} · ", row.stage), bubble, escaped(row.device),
        seconds_text(row.waiting), bubble);
    for (const TraceSlice& slice : row.slices) out += bar(slice);
    return out + "</svg></div>\n";
  }

  std::string bar(const TraceSlice& slice) const {
    const double seconds = slice.end - slice.start;
    if (seconds < least_part * seconds_ || (slice.row == TraceRow::turns && !turns_)) return "";
    const auto [top, height] = band(slice.row);
    const std::string place = fmt::format("x=\"{:.4f}%\" y=\"{}%\" width=\"{:.4f}%\" height=\"{}%\"",
                                          of_step(slice.start), top, of_step(seconds), height);
    const std::string title = fmt::format("<title>{}{}\n{} from {}</title>", escaped(slice.name), words(slice),
                                          seconds_text(seconds), seconds_text(slice.start));
    const std::string kind = slice.row == TraceRow::communicating ? "communication" : slice.category;
    if (slice.row != TraceRow::turns) return fmt::format("<rect class=\"bar {}\" {}>{}</rect>\n", kind, place, title);
    // What does not fit into the bar is cut off.
    return fmt::format(
        "<svg class=\"turn\" {}>{}<rect class=\"bar {}\" width=\"100%\" height=\"100%\"/><text x=\"2\" y=\"78%\">{}"
        "</text></svg>\n",
        place, title, kind, number(slice.name));
  }

  static std::string words(const TraceSlice& slice) {
    std::string out = slice.row == TraceRow::turns ? "" : " " + escaped(slice.category);
    if (slice.about.contains("where")) out += " (" + escaped(slice.about["where"].get<std::string>()) + ")";
    return out;
  }

  /// The number of the turn that a bar of this name shows; empty outside of loops.
  static std::string number(const std::string& name) {
    const size_t at = name.find("turn ");
    return at == std::string::npos ? "" : name.substr(at + 5);
  }

  const double seconds_;
  const std::vector<TimelineRow>& rows_;
  const size_t shown_;
  bool turns_ = false;
};

std::string key(bool turns) {
  std::string out;
  for (auto [label, colour] : {std::pair{"forward", "#4c9f70"},
                               {"backward", "#3b7dd8"},
                               {"update", "#8e6bbf"},
                               {"communication", "#e0803a"},
                               {"waiting", "#eee"}})
    out += fmt::format("<span style=\"background:{}\"></span>{}", colour, label);
  return out + (turns ? "; numbers are those of turns" : "");
}

/// A sentence on the part of the time that all devices wait, and those of each stage.
std::string bubbles(double seconds, const std::vector<TimelineRow>& rows) {
  const auto share = [&](int stage) {
    double waiting = 0;
    int devices = 0;
    for (const TimelineRow& row : rows)
      if (stage < 0 || row.stage == stage) waiting += row.waiting, ++devices;
    return percent(waiting, devices * seconds);
  };
  std::string out = fmt::format("Bubbles are {:.1f} % of the time of all devices", share(-1));
  std::set<int> stages;
  for (const TimelineRow& row : rows) stages.insert(row.stage);
  stages.erase(-1);
  for (const int stage : stages)
    out += fmt::format("{} {:.1f} % of stage {}", stage == *stages.begin() ? ":" : ",", share(stage), stage);
  return out + ".";
}

}  // namespace

std::string timeline_page(const std::string& title, double seconds, const std::vector<TimelineRow>& rows) {
  const Page page(seconds, rows);
  std::string out = fmt::format(
      "<!doctype html><html><head><meta charset=\"utf-8\"><meta name=\"generator\" content=\"hetsynth\">"
      "<meta name=\"viewport\" content=\"width=device-width\"><title>{0}</title><style>{1}</style></head><body>\n"
      "<h1>{0}</h1>\n<p>One training step as predicted: {2}. {3} Computing is above, communication below; grey is "
      "waiting.</p>\n<p class=\"key\">{4}</p>\n<p>Zoom: <button id=\"out\">-</button> <button id=\"in\">+</button> "
      "<button id=\"all\">whole step</button> <span id=\"zoom\">100 %</span>, or the wheel with Ctrl</p>\n",
      escaped(title), style, seconds_text(seconds), bubbles(seconds, rows), key(page.has_turns()));
  out += fmt::format("<div class=\"view\"><div class=\"step\" style=\"--rows:{}\">\n{}</div></div>\n",
                     std::max<size_t>(page.shown(), 1), page.rows());
  if (page.shown() < rows.size())
    out += fmt::format("<p>The first {} of {} devices are shown.</p>\n", page.shown(), rows.size());
  return out + fmt::format("<script>{}</script></body></html>\n", script);
}

}  // namespace hetsynth::cli
