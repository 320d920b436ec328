"""A wire of some length before a server on this machine. Bytes arrive half of a round trip after they were sent. A client must first make a
connection, which takes additional round trips.

    with wire.start(port, seconds=0.01) as far:
        run(..., far.name)
        assert far.connections == 1

The wire listens at an address of this machine that is not a loopback address, if there is one, since programs treat loopback addresses differently.
"""

import asyncio
import contextlib
import socket
import threading

PIECE = 256 * 1024


def own_address():
    """The address of the interface to other machines, found without sending a packet. Without such an interface: 127.0.0.1."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            return probe.getsockname()[0]
        except OSError:
            return "127.0.0.1"


class Wire:
    """`name` is the address with the port. `connections` is the number of connections that were made. While `silent` is true, no bytes arrive."""

    def __init__(self, port, seconds):
        self._port, self._way, self.connections, self.silent = port, seconds / 2, 0, False
        self._ends = set()
        self._loop, begun = asyncio.new_event_loop(), threading.Event()
        self._thread = threading.Thread(target=self._run, args=[begun], daemon=True)
        self._thread.start()
        begun.wait()

    def _run(self, begun):
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, own_address(), 0))
        self.name = "{}:{}".format(*server.sockets[0].getsockname())
        begun.set()
        self._loop.run_forever()
        server.close()
        self.silent = False
        for end in self._ends:
            end.transport.abort()
        if tasks := asyncio.all_tasks(self._loop):
            self._loop.run_until_complete(asyncio.wait(tasks, timeout=10))
        self._loop.close()

    def stop(self):
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    async def _serve(self, reader, writer):
        self.connections += 1
        there, back = await asyncio.open_connection("127.0.0.1", self._port)
        self._ends |= {writer, back}
        try:
            async with asyncio.TaskGroup() as tasks:
                # A real client cannot send data before it has received the server's answer to its first packet.
                for source, target, handshake in ((reader, back, 2 * self._way), (there, writer, 0)):
                    on_the_way = asyncio.Queue()
                    tasks.create_task(self._take(source, on_the_way, handshake))
                    tasks.create_task(self._deliver(on_the_way, target))
        except* OSError:
            pass
        finally:
            writer.close()
            back.close()

    async def _take(self, source, on_the_way, handshake):
        piece = True
        while piece:
            piece = await source.read(PIECE)
            on_the_way.put_nowait((self._loop.time() + self._way + handshake, piece))
            handshake = 0

    async def _deliver(self, on_the_way, target):
        while True:
            arrival, piece = await on_the_way.get()
            await asyncio.sleep(arrival - self._loop.time())
            while self.silent:
                await asyncio.sleep(0.05)
            if not piece:
                if target.can_write_eof():
                    target.write_eof()
                return
            target.write(piece)
            await target.drain()


@contextlib.contextmanager
def start(port, seconds):
    wire = Wire(port, seconds)
    try:
        yield wire
    finally:
        wire.stop()
