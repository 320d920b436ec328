// Sweeps in forms for people.
#pragma once

#include <string>

#include "sweeps/trials/observe.h"

namespace mlk {

struct Session;

// Prints `mlk status` of a sweep on the session's standard output.
void print_sweep(const sweeps::SweepStatus& status, Session& session);

// Prints the leaderboard with at most `top` trials (0: all trials). A command that has waited prints the
// leaderboard on standard error.
enum class Where { out, err };
void print_leaderboard(const sweeps::SweepStatus& status, std::size_t top, Session& session, Where where);

// Plots the objective over each parameter that has several values, and the curves of the first trials. So
// sort `trials` with the best one first.
void print_plots(const std::vector<sweeps::Trial>& trials, const sweeps::Objective& objective,
                 const sweeps::Space& space, Session& session);

// "Running  3/9 done  2 running  1 failed  best accuracy 0.97 (digits-abcde/4)"
std::string progress_line(const sweeps::SweepStatus& status);

// The progress for a live line of a terminal with `width` columns. The bar fills the columns that the texts
// leave free, at least 8 and at most 40:
// "██████▒▒░░  3/9  2 running  1 failed  best accuracy 0.97 (4)  about 40s left"
std::string progress_bar(const sweeps::SweepStatus& status, std::size_t width, Time now, bool ascii = false);

// "digits-abcde/4  Succeeded  accuracy 0.97  lr=0.1 hidden=[128]": for a trial that has ended.
std::string trial_line(const sweeps::SweepStatus& status, const sweeps::Trial& trial);

}  // namespace mlk
