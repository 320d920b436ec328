// What a rank knows of the others, and how it waits for the next generation. Proposals are in proposals.cpp.
#include "runtime/membership/assembly.h"

#include <algorithm>

#include "runtime/base/payload.h"

namespace mlk::rt {
namespace {

using std::chrono::steady_clock;

constexpr Milliseconds propose_patience{3000}, begin_patience{5000};

}  // namespace

Assembly::Assembly(Job& job, Peers& peers, Callbacks callbacks)
    : job_(job),
      peers_(peers),
      callbacks_(std::move(callbacks)),
      self_{peers.self().rank, peers.transport().self().incarnation},
      patience_(job) {}

void Assembly::send(std::uint32_t rank, MessageType type, std::uint64_t generation, std::uint64_t clock,
                    std::uint32_t key, std::span<const std::byte> payload, std::uint64_t offset) {
  Header header;
  header.type = type;
  header.generation = generation;
  header.clock = clock;
  header.key = key;
  header.offset = offset;
  peers_.transport().send({Role::worker, rank}, header, payload, WhenFull::refuse);
}

void Assembly::send_status(std::uint32_t rank) {
  const auto own = callbacks_.own_state();
  const std::uint64_t step = own ? own->step : no_step;
  send(rank, MessageType::status, generation_.number, step, 0, PayloadWriter().put(lineage_).bytes());
}

void Assembly::send_status_to_all() {
  for (const auto& [rank, view] : views_) {
    if (view.standing == Standing::live) send_status(rank);
  }
}

bool Assembly::is_member(std::uint32_t rank) const {
  const auto view = views_.find(rank);
  return rank == self_.rank ? generation_.contains(self_)
                            : view != views_.end() && generation_.contains({rank, view->second.incarnation});
}

// Somebody who is there and should be let in.
bool Assembly::newcomer(std::uint32_t rank, const View& view) const {
  return view.standing == Standing::live && view.known && !is_member(rank) && !left_out().contains(rank);
}

bool Assembly::is_lowest_live(const std::set<std::uint32_t>& last) const {
  const auto place = [&](std::uint32_t rank) { return std::pair(last.contains(rank), rank); };
  return std::none_of(views_.begin(), views_.end(), [&](const auto& entry) {
    const auto& [rank, view] = entry;
    return place(rank) < place(self_.rank) && view.standing == Standing::live && is_member(rank);
  });
}

// The lowest live member, but for those that have not heard of the generation, and wait to be let in.
bool Assembly::is_to_propose() const {
  return std::none_of(views_.begin(), views_.end(), [&](const auto& entry) {
    const auto& [rank, view] = entry;
    const bool outside = view.known && view.generation == 0;
    return rank < self_.rank && view.standing == Standing::live && is_member(rank) && !outside;
  });
}

bool Assembly::wants_newcomers() const {
  if (!is_lowest_live()) return false;
  return std::any_of(views_.begin(), views_.end(),
                     [&](const auto& e) { return newcomer(e.first, e.second); });
}

bool Assembly::handle(Event&& event) {
  if (event.peer.role != Role::worker) return current_;
  const std::uint32_t rank = event.peer.rank;
  View& view = views_[rank];
  switch (event.kind) {
    case Event::Kind::up:
      if (view.incarnation != event.incarnation) {
        if (is_member(rank)) current_ = false;
        view = View();
        forget_cuts([&](std::uint32_t one, std::uint32_t other) { return rank == one || rank == other; });
      }
      view.incarnation = event.incarnation;
      view.address = event.address;
      view.standing = Standing::live;
      if (trained_) send_trained(rank);
      send_status(rank);
      break;
    case Event::Kind::down:
    case Event::Kind::silent: {
      if (event.incarnation != view.incarnation) break;
      const bool was_live = view.standing == Standing::live;
      view.standing = event.kind == Event::Kind::down && event.proven ? Standing::dead : Standing::silent;
      view.lost = steady_clock::now();
      if (event.kind == Event::Kind::down) view.known = false;
      if (is_member(rank)) {
        const bool ending = left_.contains(rank) || trained_ || job_.stop.requested();
        if (was_live && !ending) job_.log.line(to_string(event.peer) + " is lost");
        current_ = false;
      }
      break;
    }
    case Event::Kind::audible:
      view.standing = Standing::live;
      send_status(rank);
      break;
    case Event::Kind::goodbye:
      if (event.header.clock == static_cast<std::uint64_t>(ExitCode::trained)) left_.insert(rank);
      break;
    case Event::Kind::message:
      switch (event.header.type) {
        case MessageType::status:
          on_status(event);
          break;
        case MessageType::propose:
          on_propose(event);
          break;
        case MessageType::accept:
          on_accept(event);
          break;
        case MessageType::refuse:
          on_refuse(event);
          break;
        case MessageType::begin:
          on_begin(event);
          break;
        case MessageType::trouble:
          if (event.header.generation == generation_.number) current_ = false;
          break;
        case MessageType::done:
          trained_ = true;
          result_ = PayloadReader(event.payload).text();
          current_ = false;
          break;
        default:
          callbacks_.other(std::move(event));
          break;
      }
      break;
    default:
      break;
  }
  return current_;
}

void Assembly::on_status(const Event& event) {
  View& view = views_[event.peer.rank];
  PayloadReader reader(event.payload);
  const auto lineage = reader.get<std::uint64_t>();
  if (!reader.complete()) return;
  view.known = true;
  view.generation = event.header.generation;
  view.lineage = lineage;
  view.step = event.header.clock;
  promised_ = std::max(promised_, view.generation);
  if (view.lineage == lineage_) begun_ = std::max(begun_, view.generation);
  if (view.generation == 0 || generation_.number == 0) return;
  if (view.lineage == lineage_) {
    // They went on without this process, which is a newcomer to them.
    if (view.generation > generation_.number) {
      generation_ = Generation();
      own_.reset();
      pledged_.reset();
      current_ = false;
      send_status_to_all();
    }
    return;
  }
  const std::uint64_t own_step = callbacks_.own_state().value_or(StateVersion()).step;
  if (view.step != no_step && std::pair(view.step, self_.rank) > std::pair(own_step, event.peer.rank)) {
    throw Failure(ExitCode::peers_lost,
                  "ranks of this run started apart; " + to_string(event.peer) + " is further");
  }
}

std::vector<std::string> Assembly::missing() const {
  std::vector<std::string> names;
  for (std::uint32_t rank = 0; rank < static_cast<std::uint32_t>(job_.config.workers.count); ++rank) {
    if (rank == self_.rank) continue;
    const auto view = views_.find(rank);
    if (view == views_.end() || view->second.standing != Standing::live)
      names.push_back("worker " + std::to_string(rank));
  }
  if (names.empty()) names.push_back("the next generation");
  return names;
}

std::optional<Beginning> Assembly::assemble() {
  current_ = false;
  beginning_.reset();
  enough_since_.reset();
  patience_.satisfied();
  send_status_to_all();
  while (!beginning_) {
    if (trained_ || job_.stop.requested() || callbacks_.over()) return {};
    if (auto event = peers_.next(Milliseconds(own_ || theirs_ ? 20 : 50))) {
      handle(std::move(*event));
      if (beginning_) break;
    }
    const auto now = steady_clock::now();
    answer_proposal();
    const auto gone = [&](std::uint32_t rank) {
      return rank != self_.rank && views_[rank].standing != Standing::live;
    };
    if (theirs_ && (gone(proposer_) || now - theirs_since_ > begin_patience)) theirs_.reset();
    if (own_ &&
        (now - own_since_ > propose_patience || std::any_of(own_->members.begin(), own_->members.end(),
                                                            [&](const Member& m) { return gone(m.rank); }))) {
      own_.reset();
    }
    if (!own_ && !theirs_) {
      if (const auto proposal = may_propose()) propose(*proposal);
    }
    if (!beginning_) patience_.missing(missing());
  }
  send_status_to_all();
  return std::exchange(beginning_, {});
}

void Assembly::tell_trained(const std::string& result) {
  trained_ = true;
  result_ = result;
  for (const auto& [rank, view] : views_) {
    if (view.standing == Standing::live) send_trained(rank);
  }
}

bool Assembly::all_have_left() const {
  return left_.size() + 1 >= static_cast<std::size_t>(job_.config.workers.count);
}

bool Assembly::somebody_is_there() const {
  return std::any_of(views_.begin(), views_.end(), [this](const auto& entry) {
    return entry.second.standing == Standing::live && !left_.contains(entry.first);
  });
}

std::optional<SteadyTime> Assembly::last_loss() const {
  std::optional<SteadyTime> last;
  for (const auto& [rank, view] : views_) {
    if (view.standing != Standing::live && !left_.contains(rank))
      last = std::max(last, std::optional(view.lost));
  }
  return last;
}

void Assembly::send_trained(std::uint32_t rank) {
  send(rank, MessageType::done, generation_.number, 0, 0, PayloadWriter().text(result_).bytes());
}

}  // namespace mlk::rt
