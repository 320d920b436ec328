// Agreement on generations.
#include "runtime/assembly.h"

#include <algorithm>

#include "runtime/handshake.h"
#include "runtime/payload.h"

namespace mlk::rt {
namespace {

using std::chrono::steady_clock;

constexpr std::uint64_t no_step = ~std::uint64_t{0};
constexpr Milliseconds propose_patience{3000}, begin_patience{5000}, reach_patience{2500}, retry_pause{100};
// A member whose connection has ended may have been cut off: it dials again much sooner than this.
constexpr Milliseconds return_patience{1000};
constexpr std::chrono::seconds unreachable_pause{5};
constexpr std::uint32_t most_members = 65536;

std::uint64_t random_lineage() {
  const Nonce nonce = random_nonce();
  std::uint64_t lineage = 0;
  std::copy_n(nonce.begin(), sizeof lineage, reinterpret_cast<std::byte*>(&lineage));
  return lineage | 1;
}

}  // namespace

Assembly::Assembly(Job& job, Peers& peers, Callbacks callbacks)
    : job_(job),
      peers_(peers),
      callbacks_(std::move(callbacks)),
      self_{peers.self().rank, peers.transport().self().incarnation},
      patience_(job) {}

void Assembly::send(std::uint32_t rank, MessageType type, std::uint64_t generation, std::uint64_t clock,
                    std::uint32_t key, std::span<const std::byte> payload) {
  Header header;
  header.type = type;
  header.generation = generation;
  header.clock = clock;
  header.key = key;
  peers_.transport().send({Role::worker, rank}, header, payload, WhenFull::refuse);
}

void Assembly::send_status(std::uint32_t rank) {
  const std::uint64_t step = callbacks_.own_step().value_or(no_step);
  send(rank, MessageType::status, generation_.number, step, 0, PayloadWriter().put(lineage_).bytes());
}

bool Assembly::is_member(std::uint32_t rank) const {
  const auto view = views_.find(rank);
  return rank == self_.rank ? generation_.contains(self_)
                            : view != views_.end() && generation_.contains({rank, view->second.incarnation});
}

// Somebody who is there and should be let in.
bool Assembly::newcomer(std::uint32_t rank, const View& view) const {
  if (view.standing != Standing::live || !view.known || is_member(rank)) return false;
  const auto until = unreachable_until_.find(rank);
  return until == unreachable_until_.end() || steady_clock::now() >= until->second;
}

bool Assembly::is_lowest_live() const {
  return std::none_of(views_.begin(), views_.end(), [&](const auto& entry) {
    return entry.first < self_.rank && entry.second.standing == Standing::live && is_member(entry.first);
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
        if (was_live) job_.log.line(to_string(event.peer) + " is lost");
        current_ = false;
      }
      break;
    }
    case Event::Kind::audible:
      view.standing = Standing::live;
      send_status(rank);
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
    }
    return;
  }
  const std::uint64_t own_step = callbacks_.own_step().value_or(0);
  if (view.step != no_step && std::pair(view.step, self_.rank) > std::pair(own_step, event.peer.rank)) {
    throw Failure(ExitCode::peers_lost,
                  "ranks of this run started apart; " + to_string(event.peer) + " is further");
  }
}

// header.clock: the generation that the proposal is to follow.
void Assembly::on_propose(const Event& event) {
  PayloadReader reader(event.payload);
  Proposal proposal;
  proposal.number = event.header.generation;
  proposal.lineage = reader.get<std::uint64_t>();
  const auto count = reader.get<std::uint32_t>();
  if (count > most_members) return;
  std::map<std::uint32_t, std::string> addresses;
  for (std::uint32_t i = 0; i < count && reader.ok(); ++i) {
    const auto rank = reader.get<std::uint32_t>();
    proposal.members.push_back({rank, reader.get<std::uint64_t>()});
    addresses[rank] = reader.text();
  }
  if (!reader.complete()) return;
  // A member follows members of its own past only.
  const bool stranger = generation_.number != 0 && proposal.lineage != lineage_;
  // The run has gone on without the proposer, which has not heard of it yet.
  const bool outdated = event.header.clock < generation_.number || passed_over(proposal, event.header.clock);
  if (outdated) send_status(event.peer.rank);
  if (proposal.number <= promised_ || stranger || outdated || !keeps_pledge(proposal, event.peer.rank)) {
    return send(event.peer.rank, MessageType::refuse, promised_, proposal.number);
  }
  promised_ = proposal.number;
  own_.reset();
  current_ = false;
  theirs_ = std::move(proposal);
  proposer_ = event.peer.rank;
  answered_ = false;
  theirs_since_ = steady_clock::now();
  for (const auto& [rank, address] : addresses) {
    if (rank < self_.rank && !address.empty()) peers_.transport().dial({Role::worker, rank}, address);
  }
  answer_proposal();
}

// Accepts once all members can be reached; if that takes too long, says who cannot.
void Assembly::answer_proposal() {
  if (!theirs_ || answered_) return;
  for (const Member& member : theirs_->members) {
    if (member == self_) continue;
    const auto view = views_.find(member.rank);
    const bool there = view != views_.end() && view->second.standing == Standing::live &&
                       view->second.incarnation == member.incarnation;
    if (there) continue;
    if (steady_clock::now() - theirs_since_ > reach_patience) {
      send(proposer_, MessageType::refuse, promised_, theirs_->number, member.rank + 1);
      theirs_.reset();
    }
    return;
  }
  answered_ = true;
  // Only members have a vote.
  if (generation_.contains(self_)) {
    pledged_ = theirs_;
    pledged_to_ = proposer_;
  }
  send(proposer_, MessageType::accept, theirs_->number, callbacks_.own_step().value_or(no_step));
}

void Assembly::on_accept(const Event& event) {
  if (!own_ || event.header.generation != own_->number) return;
  const std::uint64_t step = event.header.clock;
  accepted_[event.peer.rank] = step == no_step ? std::nullopt : std::optional(step);
  if (accepted_.size() == own_->members.size()) begin_own();
}

// header.generation: what the refuser has promised; header.clock: what it refuses; header.key: 1 + the rank
// that it cannot reach, 0 if that is not the reason.
void Assembly::on_refuse(const Event& event) {
  promised_ = std::max(promised_, event.header.generation);
  if (!own_ || event.header.clock != own_->number) return;
  if (event.header.key > 0 && !is_member(event.header.key - 1)) {
    unreachable_until_[event.header.key - 1] = steady_clock::now() + unreachable_pause;
  }
  own_.reset();
  not_before_ = steady_clock::now() + retry_pause;
}

void Assembly::on_begin(const Event& event) {
  if (!theirs_ || event.peer.rank != proposer_ || event.header.generation != theirs_->number || !answered_)
    return;
  PayloadReader reader(event.payload);
  Beginning beginning;
  beginning.step = event.header.clock;
  beginning.feeder = event.header.key;
  const auto restarts = reader.get<std::uint64_t>();
  const auto hungry = reader.get<std::uint32_t>();
  for (std::uint32_t i = 0; i < hungry && reader.ok(); ++i)
    beginning.hungry.insert(reader.get<std::uint32_t>());
  if (!reader.complete()) return;
  if (theirs_->lineage == lineage_ && theirs_->number < begun_)
    return theirs_.reset();  // and is over already
  restarts_ = restarts;
  generation_ = {theirs_->number, theirs_->members};
  lineage_ = theirs_->lineage;
  begun_ = generation_.number;
  theirs_.reset();
  pledged_.reset();
  beginning_ = std::move(beginning);
  current_ = true;
}

// Whether a later generation than the one that the proposal follows has begun, and may still go on: also one
// without this process, which need not know who its members are. So it holds until all others are dead.
bool Assembly::passed_over(const Proposal& proposal, std::uint64_t follows) const {
  if (proposal.lineage != lineage_ || follows >= begun_) return false;
  return std::any_of(views_.begin(), views_.end(), [&](const auto& entry) {
    const auto& [rank, view] = entry;
    const bool proposed =
        std::ranges::any_of(proposal.members, [&](const Member& member) { return member.rank == rank; });
    return !proposed && view.incarnation != 0 && !is_dead(view);
  });
}

// Not before it would have dialled again.
bool Assembly::is_dead(const View& view) {
  return view.standing == Standing::dead && steady_clock::now() - view.lost >= return_patience;
}

// Whether the members of a proposal are enough of this generation to go on without its other members. Those
// count as silent although they are heard of: they may have gone on already, or be about to.
bool Assembly::may_follow(const Generation& last, const Proposal& proposal) const {
  std::map<std::uint32_t, Standing> standings;
  for (const Member& member : last.members) {
    const auto view = views_.find(member.rank);
    if (std::ranges::find(proposal.members, member) != proposal.members.end()) {
      standings[member.rank] = Standing::live;
    } else if (view == views_.end()) {
      standings[member.rank] = Standing::silent;
    } else if (view->second.incarnation != member.incarnation) {
      standings[member.rank] = Standing::dead;  // a newer incarnation proves the end of the older
    } else {
      standings[member.rank] = is_dead(view->second) ? Standing::dead : Standing::silent;
    }
  }
  return may_form_next(last, standings);
}

// The generation that was accepted here last may have begun elsewhere; only its proposer knows that it has
// not.
bool Assembly::keeps_pledge(const Proposal& proposal, std::uint32_t proposer) const {
  return !pledged_ || proposer == pledged_to_ || may_follow({pledged_->number, pledged_->members}, proposal);
}

std::optional<Assembly::Proposal> Assembly::may_propose() {
  const auto now = steady_clock::now();
  if (now < not_before_) return {};
  Proposal proposal;
  proposal.members.push_back(self_);
  bool somebody_trains = false;
  for (const auto& [rank, view] : views_) {
    if (view.standing != Standing::live || !view.known) continue;
    if (view.generation != 0) somebody_trains = true;
    if (is_member(rank) || newcomer(rank, view)) proposal.members.push_back({rank, view.incarnation});
  }
  std::sort(proposal.members.begin(), proposal.members.end());
  const bool member = generation_.number != 0;
  if (member) {
    if (!is_to_propose() || !may_follow(generation_, proposal)) return {};
  } else if (somebody_trains || proposal.members.front() != self_) {
    return {};
  }
  bool state_somewhere = callbacks_.own_step().has_value();
  for (const Member& m : proposal.members) {
    if (m != self_ && views_[m.rank].step != no_step) state_somewhere = true;
  }
  if (!member || !state_somewhere) {
    const int minimum = callbacks_.start_alone() ? 1 : job_.config.workers.min;
    const int present = static_cast<int>(proposal.members.size());
    if (present < minimum) enough_since_.reset();
    if (present >= minimum && !enough_since_) enough_since_ = now;
    const double waited = enough_since_ ? std::chrono::duration<double>(now - *enough_since_).count() : 0;
    if (!may_start(present, job_.config.workers.count, minimum, waited)) return {};
  }
  proposal.number = std::max(promised_, generation_.number) + 1;
  proposal.lineage = member ? lineage_ : random_lineage();
  if (!keeps_pledge(proposal, self_.rank)) return {};
  return proposal;
}

// Where others find a rank that is not among the seeds; empty for one that is.
std::string Assembly::address_beyond_seeds(std::uint32_t rank) const {
  if (rank < job_.env.seeds_worker.size()) return "";
  const auto view = views_.find(rank);
  return rank == self_.rank ? peers_.transport().address() : view == views_.end() ? "" : view->second.address;
}

void Assembly::propose(const Proposal& proposal) {
  promised_ = proposal.number;
  own_ = proposal;
  own_since_ = steady_clock::now();
  accepted_.clear();
  PayloadWriter payload;
  payload.put(proposal.lineage).put(static_cast<std::uint32_t>(proposal.members.size()));
  for (const Member& member : proposal.members)
    payload.put(member.rank).put(member.incarnation).text(address_beyond_seeds(member.rank));
  for (const Member& member : proposal.members) {
    if (member != self_)
      send(member.rank, MessageType::propose, proposal.number, generation_.number, 0, payload.bytes());
  }
  accepted_[self_.rank] = callbacks_.own_step();
  if (proposal.members.size() == 1) begin_own();
}

// Everyone has accepted: the generation begins, at the newest step that anyone has.
void Assembly::begin_own() {
  if (std::none_of(accepted_.begin(), accepted_.end(), [](const auto& a) { return a.second.has_value(); })) {
    callbacks_.make_state();
    accepted_[self_.rank] = callbacks_.own_step();
  }
  Beginning beginning;
  for (const auto& [rank, step] : accepted_) {
    if (step && (beginning.step < *step || !accepted_[beginning.feeder])) {
      beginning.step = *step;
      beginning.feeder = rank;
    }
  }
  // The proposer feeds if it can: it knows that all can reach it.
  if (accepted_[self_.rank] == beginning.step) beginning.feeder = self_.rank;
  for (const auto& [rank, step] : accepted_) {
    if (step != beginning.step) beginning.hungry.insert(rank);
  }
  const auto stays = [&](const Member& member) {
    return std::ranges::find(own_->members, member) != own_->members.end();
  };
  if (!std::ranges::all_of(generation_.members, stays)) ++restarts_;
  PayloadWriter payload;
  payload.put(restarts_).put(static_cast<std::uint32_t>(beginning.hungry.size()));
  for (const std::uint32_t rank : beginning.hungry) payload.put(rank);
  generation_ = {own_->number, own_->members};
  lineage_ = own_->lineage;
  begun_ = generation_.number;
  own_.reset();
  pledged_.reset();
  for (const Member& member : generation_.members) {
    if (member != self_) {
      send(member.rank, MessageType::begin, generation_.number, beginning.step, beginning.feeder,
           payload.bytes());
    }
  }
  job_.log.line("generation " + std::to_string(generation_.number) + ": " +
                std::to_string(generation_.members.size()) + " of " +
                std::to_string(job_.config.workers.count) + " workers from step " +
                std::to_string(beginning.step));
  beginning_ = std::move(beginning);
  current_ = true;
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
  patience_.satisfied();
  for (const auto& [rank, view] : views_) {
    if (view.standing == Standing::live) send_status(rank);
  }
  while (!beginning_) {
    if (trained_ || job_.stop.requested()) return {};
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
  for (const auto& [rank, view] : views_) {
    if (view.standing == Standing::live) send_status(rank);
  }
  return std::exchange(beginning_, {});
}

std::size_t Assembly::tell_trained(const std::string& result) {
  trained_ = true;
  result_ = result;
  std::size_t told = 0;
  for (const auto& [rank, view] : views_) {
    if (view.standing != Standing::live) continue;
    send_trained(rank);
    ++told;
  }
  return told;
}

void Assembly::send_trained(std::uint32_t rank) {
  send(rank, MessageType::done, generation_.number, 0, 0, PayloadWriter().text(result_).bytes());
}

}  // namespace mlk::rt
