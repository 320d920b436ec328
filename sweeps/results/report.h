// The report of a sweep: one self-contained HTML file, to read, to send and to print. Pure.
//
// A few hundred lines of our own (sweeps/results/report/) draw the charts as SVG. A charting library would be
// larger than all other texts of mlk together, and the common libraries do not draw parallel coordinates. All
// data of trials reaches the page as JSON, and the page shows the data as text. A
// Content-Security-Policy forbids every request, and every script except our own.
#pragma once

#include <string>

#include "sweeps/results/report_data.h"

namespace mlk::sweeps {

// The text of the file: at most about 17 MiB, however many trials there are. The end of the report says which
// data was left out. Computes the importance of the parameters, which may take seconds.
std::string report_html(const ReportData& data);

}  // namespace mlk::sweeps
