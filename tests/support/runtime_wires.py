"""TCP connections that misbehave: a proxy in front of each address of a run."""

import asyncio
import socket
import struct
import threading


class Connection:
    """One connection through a proxy. Only the thread of the proxies uses it."""

    def __init__(self, client, server, delay):
        self.ends = (client, server)  # streams to write to
        self.flowing = asyncio.Event()
        self.flowing.set()
        self.delay = delay
        self.twice = False

    async def pump(self, reader, writer):
        while data := await reader.read(65536):
            await self.flowing.wait()
            if self.delay:
                await asyncio.sleep(self.delay)
            writer.write(data * 2 if self.twice else data)
            self.twice = False
            await writer.drain()

    def close(self, reset=False):
        for end in self.ends:
            if reset:
                hang_up(end)
            else:
                end.close()


def hang_up(stream):
    """Closes the stream so that the other side sees a reset, as from a process that has ended. If the stream is closed already, does nothing."""
    handle = stream.get_extra_info("socket")
    if handle.fileno() < 0:
        return
    handle.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    stream.transport.abort()


class Wires:
    """behind: address to listen at -> address to connect to, both host:port. If one side ends a connection, the proxy also ends it
    for the other side. If no process listens behind a proxy, a client sees a reset, as if no process listened at the proxy's address."""

    FAULTS = ("cut", "reset", "half_open", "late", "duplicated")

    def __init__(self, behind):
        self.behind = dict(behind)
        self.delay = 0  # the delay of new connections, for each 64 KiB
        self.connections = []
        self.servers = []
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self._call(self._listen())

    def _call(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(30)

    async def _listen(self):
        for front in self.behind:
            host, port = front.split(":")
            self.servers.append(
                await asyncio.start_server(lambda reader, writer, at=front: self._serve(reader, writer, at), host, int(port)))

    async def _serve(self, reader, client, front):
        host, port = self.behind[front].split(":")
        try:
            answers, server = await asyncio.open_connection(host, int(port))
        except OSError:
            hang_up(client)
            return
        connection = Connection(client, server, self.delay)
        self.connections.append(connection)
        try:
            pumps = [asyncio.ensure_future(connection.pump(reader, server)), asyncio.ensure_future(connection.pump(answers, client))]
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
        finally:
            self.connections.remove(connection)
            connection.close()

    # Faults of connections: of one connection, which `rng` chooses, or of all connections.

    def disturb(self, fault, rng=None):
        """Makes a fault of FAULTS. Returns whether there was a connection."""
        return self._call(self._disturb(fault, rng))

    async def _disturb(self, fault, rng):
        chosen = list(self.connections)
        if rng and chosen:
            chosen = [rng.choice(chosen)]
        for connection in chosen:
            if fault == "cut":
                connection.close()
            elif fault == "reset":
                connection.close(reset=True)
            elif fault == "half_open":
                connection.flowing.clear()
            elif fault == "late":
                connection.delay = 0.05
            elif fault == "duplicated":
                connection.twice = True
        return bool(chosen)

    def move(self, back, new):
        """Sends new connections for the address `back` to the address `new`, as when a name gets another address."""
        for front, address in self.behind.items():
            if address == back:
                self.behind[front] = new

    def calm(self):
        """Ends the delay of all present and new connections. Half-open connections stay half open, since their bytes are lost."""
        self._call(self._calm())

    async def _calm(self):
        self.delay = 0
        for connection in self.connections:
            connection.delay = 0
            connection.twice = False

    def close(self):
        self._call(self._close())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(10)
        self.loop.close()

    async def _close(self):
        for server in self.servers:
            server.close()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
