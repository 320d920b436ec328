// One declaration per command: the table of contents of mlk.
#pragma once

namespace CLI {
class App;
}

namespace mlk {

struct Session;

void add_new(CLI::App& root, Session& session);
void add_run(CLI::App& root, Session& session);
void add_submit(CLI::App& root, Session& session);
void add_render(CLI::App& root, Session& session);
void add_build(CLI::App& root, Session& session);
void add_image(CLI::App& root, Session& session);
void add_sweep(CLI::App& root, Session& session);
void add_drive(CLI::App& root, Session& session);
void add_results(CLI::App& root, Session& session);
void add_best(CLI::App& root, Session& session);
void add_pull(CLI::App& root, Session& session);
void add_report(CLI::App& root, Session& session);
void add_ls(CLI::App& root, Session& session);
void add_status(CLI::App& root, Session& session);
void add_logs(CLI::App& root, Session& session);
void add_wait(CLI::App& root, Session& session);
void add_stop(CLI::App& root, Session& session);
void add_resume(CLI::App& root, Session& session);
void add_delete(CLI::App& root, Session& session);
void add_get(CLI::App& root, Session& session);
void add_diff(CLI::App& root, Session& session);
void add_tag(CLI::App& root, Session& session);
void add_note(CLI::App& root, Session& session);
void add_retry(CLI::App& root, Session& session);
void add_rollback(CLI::App& root, Session& session);
void add_context(CLI::App& root, Session& session);
void add_local(CLI::App& root, Session& session);
void add_templates(CLI::App& root, Session& session);
void add_version(CLI::App& root, Session& session);
void add_completion(CLI::App& root, Session& session);

}  // namespace mlk
