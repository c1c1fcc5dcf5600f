"""One end of a connection between two hosts: `tcp.py serve` or `tcp.py measure ADDRESS BYTES ROUNDS`, which prints the
bytes a second from there to here and from here to there, and the seconds of a small message. It needs nothing else of
the bed, so that it runs inside of a host.
"""
import json
import socket
import statistics
import struct
import sys
import time

PORT = 29400
HEADER = struct.Struct("!cQ")


def receive(connection, count):
    left = count
    while left:
        got = connection.recv(min(left, 1 << 20))
        if not got:
            raise ConnectionError("the other end has gone")
        left -= len(got)
    return count


def serve():
    with socket.create_server(("0.0.0.0", PORT)) as server:
        print("ready", flush=True)
        connection, _ = server.accept()
        with connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while header := connection.recv(HEADER.size, socket.MSG_WAITALL):
                kind, count = HEADER.unpack(header)
                if kind == b"g":  # get
                    connection.sendall(bytes(count))
                else:  # put
                    receive(connection, count)
                    connection.sendall(b"!")


def measure(address, count, rounds):
    with socket.create_connection((address, PORT), 10) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        payload = bytes(count)

        def get(size):
            began = time.perf_counter()
            connection.sendall(HEADER.pack(b"g", size))
            receive(connection, size)
            return time.perf_counter() - began

        def put(size):
            began = time.perf_counter()
            connection.sendall(HEADER.pack(b"p", size))
            connection.sendall(payload[:size])
            receive(connection, 1)
            return time.perf_counter() - began

        get(count), put(count)  # The first transfer finds out how much the connection carries.
        small = statistics.median(get(8) for _ in range(200))
        return {"from_there": count / statistics.median(get(count) for _ in range(rounds)),
                "to_there": count / statistics.median(put(count) for _ in range(rounds)),
                "latency": small / 2}


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve()
    else:
        print(json.dumps(measure(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
