"""A second implementation of runtime/transport/wire.h and runtime/transport/handshake.h, for test peers that follow or break the protocol."""

import hashlib
import hmac
import os
import socket
import struct
import threading
import time

HELLO, CHALLENGE, PROOF, HEARTBEAT = 1, 2, 3, 4
JOIN, SEED_WANTED, SEED, PULL, WEIGHTS = 16, 17, 18, 25, 26
STATUS, PROPOSE, ACCEPT, REFUSE, BEGIN, TROUBLE = 64, 65, 66, 67, 68, 71
HEADER = struct.Struct("<4sBBBBIIQQQQIII")  # without the checksum of the header


def _table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


TABLE = _table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def frame(kind, rank, incarnation, sequence, payload=b"", version=1, checksum=True, key=0, clock=0, generation=0, offset=0):
    """A frame of worker RANK. Over UNIX sockets payloads have no checksum."""
    header = HEADER.pack(b"MLK1", version, kind, 0, 0, rank | 1 << 24, key, generation, incarnation, clock, offset, len(payload),
                         sequence, crc32c(payload) if checksum else 0)
    return header + struct.pack("<I", crc32c(header)) + payload


def connect(address, over_unix):
    """Connects to a process that listens at host:port, or to the UNIX socket beside this port."""
    if over_unix:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(10)
        connection.connect(f"\0mlk-runtime {address}")
        return connection
    host, port = address.split(":")
    # Connect from many addresses, so that each of them has free ports.
    source = f"127.{200 + os.urandom(1)[0] % 50}.{os.urandom(1)[0]}.{1 + os.urandom(1)[0] % 250}"
    return socket.create_connection((host, int(port)), timeout=10, source_address=(source, 0))


def read(connection, size):
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise ConnectionError("closed by the peer")
        data += piece
    return data


def closed(connection):
    """Whether the peer closes the connection without another message."""
    try:
        return connection.recv(65536) == b""
    except ConnectionResetError:
        return True


def hello(rank, incarnation, nonce, address, version=1, checksum=True):
    return frame(HELLO, rank, incarnation, 0, nonce + struct.pack("<H", len(address)) + address, version, checksum)


def shake_hands(connection, run, key, rank, incarnation, checksum):
    """Makes the whole handshake as worker RANK. The peer decides whether the key is right."""
    own_nonce, own_address = os.urandom(32), b"127.0.0.1:1"
    connection.sendall(hello(rank, incarnation, own_nonce, own_address, checksum=checksum))
    header = read(connection, 64)
    fields = HEADER.unpack(header[:60])
    assert fields[2] == CHALLENGE, fields
    payload = read(connection, fields[11])
    nonce, length = payload[:32], struct.unpack("<H", payload[32:34])[0]
    address = payload[34:34 + length]

    def side(role, number, birth, where, random):
        return struct.pack("<BIQH", role, number, birth, len(where)) + where + random
    sender = fields[5]
    text = (struct.pack("<H", 13) + b"mlk dialler 1" + struct.pack("<H", len(run)) + run.encode()
            + side(1, rank, incarnation, own_address, own_nonce) + side(sender >> 24, sender & 0xFFFFFF, fields[8], address, nonce))
    proof = hmac.new(key, text, hashlib.sha256).digest()
    connection.sendall(frame(PROOF, rank, incarnation, 1, proof, checksum=checksum))


def incarnation_of(text):
    """The number that the runtime makes from MLK_INCARNATION."""
    return struct.unpack("<Q", hashlib.sha256(text.encode()).digest()[:8])[0]


class Rank:
    """Worker RANK of a run, with one connection to one other process. It sends the messages that the test wants, and also heartbeats.

    Without heartbeats, the run would treat the other ranks of a test as dead while the test listens to one of them."""

    NO_STEP = 2**64 - 1

    def __init__(self, address, key, rank, incarnation):
        self.rank, self.incarnation, self.sequence = rank, incarnation, 2
        self.heard = {}  # the last message of each kind
        self.connection = connect(address, over_unix=False)
        shake_hands(self.connection, "run", key, rank, incarnation, checksum=True)
        self.turn, self.gone = threading.Lock(), threading.Event()
        threading.Thread(target=self.live, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.gone.set()
        self.connection.close()

    def live(self):
        while not self.gone.wait(0.3):
            try:
                self.say(HEARTBEAT)
            except OSError:
                return

    def say(self, kind, payload=b"", **fields):
        with self.turn:
            self.connection.sendall(frame(kind, self.rank, self.incarnation, self.sequence, payload, **fields))
            self.sequence += 1

    def say_status(self, generation=0, step=NO_STEP, lineage=0):
        self.say(STATUS, struct.pack("<QB", lineage, 0), generation=generation, clock=step)

    def propose(self, number, follows, lineage, members):
        """members: {rank: incarnation}"""
        each = b"".join(struct.pack("<IQH", rank, incarnation, 0) for rank, incarnation in sorted(members.items()))
        self.say(PROPOSE, struct.pack("<QI", lineage, len(members)) + each, generation=number, clock=follows)

    def accept(self, number, step=NO_STEP, summed_in=0, lineage=0):
        """Accepts the proposal. `step`, `summed_in` and `lineage` are the version of the rank's state."""
        self.say(ACCEPT, struct.pack("<Q", lineage), generation=number, clock=step, offset=summed_in)

    def begin(self, number, step, feeder, hungry):
        payload = struct.pack(f"<QI{len(hungry)}I", 0, len(hungry), *hungry)
        self.say(BEGIN, payload, generation=number, clock=step, key=feeder)

    def join(self, clock, tensors):
        """Joins as a worker of parameter servers, with weights of step `clock` and unknown data. tensors: {name: shape}"""
        each = b"".join(struct.pack("<H", len(name)) + name.encode() + struct.pack(f"<B{len(shape)}q", len(shape), *shape)
                        for name, shape in tensors.items())
        self.say(JOIN, struct.pack("<4QI", 0, 0, 0, 0, len(tensors)) + each + b"\0", clock=clock)

    def seed(self, round_, chunk, clock, weights):
        self.say(SEED, struct.pack(f"<{len(weights)}f", *weights), key=chunk, clock=clock, offset=round_)

    def hear(self, kind, deadline):
        """(generation, clock, payload) of the next message of this kind. Other messages are skipped."""
        while time.monotonic() < deadline:
            fields = HEADER.unpack(read(self.connection, 64)[:60])
            payload = read(self.connection, fields[11])
            self.heard[fields[2]] = fields[7], fields[9], payload
            if fields[2] == kind:
                return self.heard[kind]
        raise TimeoutError(f"no message {kind} from the peer")
