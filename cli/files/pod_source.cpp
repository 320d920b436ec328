#include "cli/files/pod_source.h"

#include <algorithm>

#include <fmt/format.h>

#include "cli/files/sent_files.h"
#include "cli/kube/exec.h"
#include "cli/util/text.h"

namespace mlk {

void PodSource::send(const std::string& request, const std::function<void(std::string_view)>& out) {
  constexpr std::size_t most_errors = 4096;
  std::string errors;
  const auto keep = [&](std::string_view text) {
    errors += text.substr(0, most_errors - std::min(most_errors, errors.size()));
  };
  const auto go_on = [this] {
    check_();
    return true;
  };
  const kube::ExecCommand command{.name_space = where_.name_space,
                                  .pod = where_.pod,
                                  .container = where_.container,
                                  .words = {where_.helper, "send", where_.folder},
                                  .input = request};
  kube::ExecEnd end;
  try {
    end = kube::exec(client_, command, out, keep, go_on);
  } catch (const kube::ApiError&) {
    check_();  // libcurl passes no exception of go_on on, so an interruption arrives as a lost connection
    throw;
  }
  if (end.code == 0) return;
  const std::string why = !errors.empty()        ? std::string(trim(errors))
                          : !end.message.empty() ? end.message
                                                 : fmt::format("exit code {}", end.code);
  throw Error(ExitCode::failure, fmt::format("pod {} cannot send files: {}", where_.pod, printable(why)));
}

FileSource::Listing PodSource::list() {
  SentList sent;
  send(request_for({}), [&](std::string_view part) { sent.add(part); });
  if (!sent.is_complete())
    throw Error(ExitCode::failure, "the list of files from pod " + where_.pod + " has no end");
  return sent.listing();
}

void PodSource::read(const std::vector<WantedFile>& wanted, const FileSink& sink) {
  SentFiles sent(wanted.size(), sink);
  send(request_for(wanted), [&](std::string_view part) { sent.add(part); });
  if (!sent.is_complete())
    throw Error(ExitCode::failure, "the files from pod " + where_.pod + " have no end",
                "continue by the same command");
}

}  // namespace mlk
